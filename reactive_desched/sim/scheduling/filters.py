"""Filters nodes for a pod as the kube-scheduler does, in its order and its words.

Each filter looks once at the pod and the whole picture and returns the check for one node, or
None when it has nothing to say about this pod (the real scheduler's PreFilter "Skip").
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from msgspec import Struct

from reactive_desched.model.node_affinity import satisfies_required
from reactive_desched.model.resources import PODS
from reactive_desched.model.taints import HARD_EFFECTS, NO_SCHEDULE, Taint, untolerated
from reactive_desched.sim.scheduling.needs import PodNeeds
from reactive_desched.sim.scheduling.scheduler_cache import NodeRoom, SchedulerCache

__all__ = ["NOT_MATCHED", "Candidate", "Check", "Filter", "Unresolvable", "reasons_against"]


class Unresolvable(str):
    """A reason against a node that holds whichever pods leave it."""

    __slots__ = ()


NOT_MATCHED: Final = Unresolvable("node(s) didn't match Pod's node affinity/selector")
_UNSCHEDULABLE: Final = Taint("node.kubernetes.io/unschedulable", NO_SCHEDULE)


class Candidate(Struct, frozen=True):
    """A pod that looks for a node; `node` is the one it demands by name, usually none."""

    namespace: str
    name: str
    needs: PodNeeds
    owner: str = ""
    node: str = ""
    uid: str = ""
    priority: int = 0


Check: TypeAlias = Callable[[NodeRoom], Iterable[str]]
"""The reasons against one node; none means that it passes."""

Filter: TypeAlias = Callable[[Candidate, SchedulerCache], Check | None]


def reasons_against(checks: Iterable[Check], room: NodeRoom) -> tuple[str, ...]:
    """Return the reasons of the first check that a node fails; none when it is feasible."""
    for check in checks:
        if reasons := tuple(check(room)):
            return reasons
    return ()


def node_unschedulable(pod: Candidate, _: SchedulerCache) -> Check | None:
    """Keep off cordoned nodes."""
    if any(toleration.tolerates(_UNSCHEDULABLE) for toleration in pod.needs.tolerations):
        return None
    no = (Unresolvable("node(s) were unschedulable"),)
    return lambda room: no if room.is_unschedulable else ()


def node_name(pod: Candidate, _: SchedulerCache) -> Check | None:
    """Accept only the node the pod names, if it names one."""
    if not pod.node:
        return None
    no = (Unresolvable("node(s) didn't match the requested node name"),)
    return lambda room: () if room.name == pod.node else no


def taint_toleration(pod: Candidate, _: SchedulerCache) -> Check | None:
    """Keep off nodes with a hard taint that the pod does not tolerate."""
    no = (Unresolvable("node(s) had untolerated taint(s)"),)
    tolerations = pod.needs.tolerations

    def check(room: NodeRoom) -> Iterable[str]:
        hard = untolerated(tolerations, room.taints) if room.taints else ()
        return no if any(taint.effect in HARD_EFFECTS for taint in hard) else ()

    return check


def node_affinity(pod: Candidate, _: SchedulerCache) -> Check | None:
    """Honour nodeSelector and required node affinity."""
    selector, affinity = pod.needs.node_selector, pod.needs.node_affinity
    if not selector and (affinity is None or affinity.required is None):
        return None
    no = (NOT_MATCHED,)
    return lambda room: () if satisfies_required(selector, affinity, room.name, room.labels) else no


def node_ports(pod: Candidate, _: SchedulerCache) -> Check | None:
    """Keep off nodes where a wanted host port is taken."""
    wanted = pod.needs.host_ports
    if not wanted:
        return None
    no = ("node(s) didn't have free ports for the requested pod ports",)
    return lambda room: (
        no if any(port.clashes(held) for port in wanted for held in room.host_ports) else ()
    )


def node_resources_fit(pod: Candidate, _: SchedulerCache) -> Check | None:
    """Keep within what a node can allocate; a request of zero always fits."""
    wanted = [(resource, amount) for resource, amount in pod.needs.requests.items() if amount > 0]

    def check(room: NodeRoom) -> Iterator[str]:
        if room.pods + 1 > room.allocatable.get(PODS, 0):
            yield "Too many pods"
        for resource, amount in wanted:
            if amount > room.free(resource):
                why = f"Insufficient {resource}"
                yield Unresolvable(why) if amount > room.allocatable.get(resource, 0) else why

    return check
