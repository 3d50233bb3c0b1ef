"""Makes room for a pod that fits nowhere: pods of lower priority are deleted for it.

As the kube-scheduler's DefaultPreemption: the pod is nominated for the node with the cheapest
victims, their disruption budgets are kept where that is possible, and each victim ends gracefully
with the condition DisruptionTarget. Unlike there a pod is tried on all nodes where it may help, not
on a tenth of them, and all victims are deleted at once.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct, convert

from reactive_desched.model.labels import LabelSelector
from reactive_desched.sim.clock import parse_time
from reactive_desched.sim.conditions import find_condition
from reactive_desched.sim.controllers.controller import write_conditions
from reactive_desched.sim.deletion import DeleteOptions
from reactive_desched.sim.index import PodIndex
from reactive_desched.sim.objects import Obj, labels_of, name_of, namespace_of
from reactive_desched.sim.pods import (
    is_terminal,
    is_terminating,
    key_of,
    priority_of,
    without_nomination,
)
from reactive_desched.sim.recorder import Recorder
from reactive_desched.sim.scheduling.filters import Candidate, Unresolvable
from reactive_desched.sim.scheduling.scheduler_cache import NodeRoom, SchedulerCache
from reactive_desched.sim.store import Store

__all__ = ["Nominator", "Preemption", "VictimsOnNode"]

_PREEMPTED: Final = "PreemptionByScheduler"
_NO_VICTIMS: Final = "No preemption victims found for incoming pod"
_NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
_BELOW_ALL: Final = 2**31
"""Added to priorities, so that more victims of a negative one never sum up to less."""


class Nominator:
    """The pods that wait for the node they are nominated for; bounded by the pods that wait."""

    def __init__(self) -> None:
        self._nodes: dict[str, str] = {}
        self._pods: dict[str, dict[str, Obj]] = {}

    def see(self, pod: Obj, *, waits: bool) -> None:
        """Take note of a pod as it is now, and whether it still waits for a node."""
        uid = pod["metadata"]["uid"]
        if (before := self._nodes.pop(uid, "")) and not self._drop(before, uid):
            del self._pods[before]
        if waits and (node := nominated_node(pod)):
            self._nodes[uid] = node
            self._pods.setdefault(node, {})[uid] = pod

    def on(self, node: str) -> Iterable[Obj]:
        """Return the pods that are nominated for a node."""
        return tuple(self._pods.get(node, {}).values())

    def _drop(self, node: str, uid: str) -> Mapping[str, Obj]:
        pods = self._pods[node]
        del pods[uid]
        return pods


class VictimsOnNode(Struct, frozen=True):
    """The pods that have to leave a node, the most important first."""

    node: str
    pods: Sequence[Obj]
    violations: int
    """How many of them a disruption budget would keep."""

    def cost(self, now: float) -> tuple[int, int, int, int, float]:
        """Rank a node: the least is taken, as pickOneNodeForPreemption of the kube-scheduler."""
        priorities = [priority_of(pod) for pod in self.pods]
        highest = max(priorities)
        first = min(_started(pod, now) for pod in self.pods if priority_of(pod) == highest)
        total = sum(priorities) + len(priorities) * _BELOW_ALL
        return (self.violations, highest, total, len(self.pods), -first)


class Preemption:
    """Chooses victims by trying the pod on nodes without them, and ends them.

    `reasons_against` says why a node cannot take a pod with the scheduler's cache as it is.
    """

    def __init__(
        self,
        store: Store,
        index: PodIndex,
        picture: SchedulerCache,
        nominator: Nominator,
        reasons_against: Callable[[Candidate, NodeRoom], Sequence[str]],
    ) -> None:
        self._store = store
        self._index = index
        self._picture = picture
        self._nominator = nominator
        self._reasons_against = reasons_against

    def why_not(self, pod: Obj, reasons: Mapping[str, Sequence[str]]) -> str:
        """Return why a pod may not preempt others now; empty when it may.

        `reasons` are those against each node that was looked at.
        """
        if pod["spec"].get("preemptionPolicy") == "Never":
            return "not eligible due to preemptionPolicy=Never."
        node = nominated_node(pod)
        if not node or _is_unresolvable(reasons.get(node)):
            return ""
        mine = priority_of(pod)
        if any(
            priority_of(other) < mine and _is_preempted(other)
            for other in self._index.on_node(node)
        ):
            return "not eligible due to a terminating pod on the nominated node."
        return ""

    def find(
        self, pod: Candidate, reasons: Mapping[str, Sequence[str]]
    ) -> tuple[list[VictimsOnNode], dict[str, Sequence[str]]]:
        """Return what would have to leave each node, and why that helps on none of the others."""
        found: list[VictimsOnNode] = []
        failures: dict[str, Sequence[str]] = {}
        for room in self._picture.rooms():
            against = reasons.get(room.name)
            if _is_unresolvable(against):
                failures[room.name] = (_NOT_HELPFUL,)
                continue
            victims = self._victims_on(pod, room)
            if isinstance(victims, VictimsOnNode):
                found.append(victims)
            else:
                failures[room.name] = victims
        return found, failures

    def cheapest(self, candidates: Iterable[VictimsOnNode], now: float) -> list[VictimsOnNode]:
        """Return the candidates of the least cost: more than one where all is equal."""
        costs = [(each.cost(now), each) for each in candidates]
        least = min(cost for cost, _ in costs)
        return [each for cost, each in costs if cost == least]

    def carry_out(self, pod: Obj, victims: VictimsOnNode, recorder: Recorder) -> None:
        """Delete the victims; pods of lower priority are nominated for their node no more."""
        for other in self._nominator.on(victims.node):
            if priority_of(other) < priority_of(pod):
                self._clear_nomination(other)
        scheduler = pod["spec"].get("schedulerName", "")
        mark = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": _PREEMPTED,
            "message": f"{scheduler}: preempting to accommodate a higher priority pod",
        }
        note = f"Preempted by pod {pod['metadata']['uid']} on node {victims.node}"
        for victim in victims.pods:
            if is_terminating(victim):
                continue
            write_conditions(self._store, "pods", victim, mark)
            options = DeleteOptions(uid=victim["metadata"]["uid"])
            self._store.delete("pods", *key_of(victim), options)
            recorder.normal(victim, "Preempted", "Preempting", note)

    def _victims_on(self, pod: Candidate, room: NodeRoom) -> VictimsOnNode | Sequence[str]:
        """Return the pods whose leaving lets a pod onto a node, or why that does not."""
        lower = [
            other
            for other in self._index.on_node(room.name)
            if priority_of(other) < pod.priority and not is_terminal(other)
        ]
        if not lower:
            return (_NO_VICTIMS,)
        gone = {other["metadata"]["uid"]: other for other in lower}
        for other in lower:
            self._picture.see_pod(other, gone=True)
        try:
            if against := self._reasons_against(pod, room):
                return against
            violations = 0
            for part, kept_by_budget in self._in_order(lower):
                for other in part:
                    self._picture.see_pod(other)
                    if self._reasons_against(pod, room):
                        self._picture.see_pod(other, gone=True)
                        violations += kept_by_budget
                    else:
                        del gone[other["metadata"]["uid"]]
        finally:
            for other in lower:
                self._picture.see_pod(other)
        return VictimsOnNode(room.name, self._by_importance(gone.values()), violations)

    def _in_order(self, pods: Iterable[Obj]) -> tuple[tuple[list[Obj], bool], ...]:
        """Return those that a budget keeps, then the others, the most important of each first."""
        left: dict[str, int] = {}
        kept: list[Obj] = []
        free: list[Obj] = []
        for pod in self._by_importance(pods):
            (kept if self._violates(pod, left) else free).append(pod)
        return ((kept, True), (free, False))

    def _violates(self, pod: Obj, left: dict[str, int]) -> bool:
        """Take one disruption of each budget of a pod; say whether one has none left."""
        labels = labels_of(pod)
        for budget in self._store.list("poddisruptionbudgets", namespace_of(pod)) if labels else ():
            status = budget.get("status", {})
            if not _selects(budget, labels) or name_of(pod) in (status.get("disruptedPods") or {}):
                continue
            uid = budget["metadata"]["uid"]
            left[uid] = left.get(uid, int(status.get("disruptionsAllowed") or 0)) - 1
            if left[uid] < 0:
                return True
        return False

    def _by_importance(self, pods: Iterable[Obj]) -> list[Obj]:
        now = self._store.clock.now()
        return sorted(pods, key=lambda pod: (-priority_of(pod), _started(pod, now)))

    def _clear_nomination(self, pod: Obj) -> None:
        def change(current: Obj) -> Obj:
            return {**current, "status": without_nomination(current.get("status", {}))}

        self._store.modify("pods", *key_of(pod), change, subresource="status")


def nominated_node(pod: Obj) -> str:
    """Return the node that a pod is nominated for; empty when there is none."""
    return str(pod.get("status", {}).get("nominatedNodeName") or "")


def _is_unresolvable(against: Sequence[str] | None) -> bool:
    """Say whether a node stays closed whatever leaves it; None is a node not looked at."""
    return against is None or any(isinstance(reason, Unresolvable) for reason in against)


def _is_preempted(pod: Obj) -> bool:
    """Say whether a pod ends because the scheduler preempts it."""
    mark = find_condition(pod, "DisruptionTarget") or {}
    return is_terminating(pod) and (mark.get("status"), mark.get("reason")) == ("True", _PREEMPTED)


def _selects(budget: Obj, labels: Mapping[str, str]) -> bool:
    """Say whether a budget is of a pod; here one with an empty selector is of none."""
    asked = budget.get("spec", {}).get("selector")
    if asked is None:
        return False
    selector = convert(asked, LabelSelector)
    return not selector.is_empty and selector.matches(labels)


def _started(pod: Obj, now: float) -> float:
    at = pod.get("status", {}).get("startTime")
    return parse_time(at) if at else now
