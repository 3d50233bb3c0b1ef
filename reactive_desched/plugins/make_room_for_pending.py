"""The scheduler finds no node for a pod, and one has room for it once others have moved."""

from collections.abc import Generator, Iterable
from heapq import nsmallest
from typing import Final, NamedTuple, TypeVar

from pydantic import Field

from reactive_desched.api.args import PositiveCount, Seconds
from reactive_desched.api.balance_plugin import BalancePlugin, Plan
from reactive_desched.api.index import Cluster
from reactive_desched.api.plugin import View
from reactive_desched.api.scope import ScopedArgs
from reactive_desched.api.tried_moves import MoveTrial
from reactive_desched.draining.landing import recheck_of_reserved, waits_or_leaves
from reactive_desched.draining.making_room import Room
from reactive_desched.draining.pending_rooms import NoRoom, PendingRooms, RoomRules
from reactive_desched.model.changes import (
    MOVE_CHANGES,
    Change,
    Resynced,
)
from reactive_desched.model.decisions import Decision
from reactive_desched.model.findings import (
    LOOKS_PER_SLICE,
    AllNodesBut,
    Finding,
    MoveSet,
    RequeueAfter,
    YieldPoint,
    with_pauses,
)
from reactive_desched.model.objects import Pod
from reactive_desched.primitives.long_answers import at_once
from reactive_desched.primitives.timers import DebounceConfig
from reactive_desched.state.indexes.unschedulable_pods import (
    PodUnschedulableChanged,
    UnschedulablePods,
)
from reactive_desched.text.ages import format_age
from reactive_desched.text.counts import format_count

ALL_PENDING: Final = "pending pods"
"""The one subject."""

MAX_WAITING: Final = 100
"""For so many different pods at most room is looked for in one plan; each namespace has its share.

Those of the highest priority come first.
"""

MAX_DESCRIBED: Final = 1_000
"""An answer to a person looks at so many nodes at most: it holds up everything else."""

MAX_ROOMS: Final = 10
"""A plan makes room for so many pods at most; the next one goes on."""

ResultT = TypeVar("ResultT")
Steps = Generator[Finding | RequeueAfter | YieldPoint, Decision, ResultT]


class _Waiting(NamedTuple):
    """By what a pod that waits is ordered: those of the highest priority first."""

    less_priority: int
    since_s: int
    namespace: str
    name: str
    uid: str


class MakeRoomForPendingArgs(ScopedArgs):
    """Arguments: how long a pod waits first, and which pods may move for it, how many."""

    wait: Seconds = Field(
        default=60.0,
        description="A pod counts once the scheduler has found no node for it for so long. With an "
        "autoscaler: longer than a new node takes.",
    )
    max_moves: PositiveCount = Field(
        default=3, description="So many pods at most move for one that waits."
    )

    @property
    def rules(self) -> RoomRules:
        """The arguments as the search asks for them."""
        return RoomRules(self.covers, self.max_moves)


class MakeRoomForPendingPlugin(BalancePlugin[str, MakeRoomForPendingArgs]):
    """Pods whose moves make room for one that the scheduler finds no node for.

    The cheapest pods of one node move, of the same or a lower priority, each of which fits on
    another node by all of the kube-scheduler's filters; then the pod that waits fits there. They
    move all or not at all: the first one leaves once all gates let all of them go and the pod that
    waits is nominated for the node, so that nothing of its priority or below takes the room. The
    namespaces and labels are those of the pods that move. Nothing moves for a pod that preemption
    serves, nor for pods of DaemonSets, of gangs, with scheduling gates or with claimed devices. A
    sweep nominates no pod, so it finds nothing.
    """

    name = "MakeRoomForPending"
    least_debounce = DebounceConfig(quiet_s=1.0, max_wait_s=10.0)
    indexes = (UnschedulablePods,)
    reacts_to = (
        Resynced,
        PodUnschedulableChanged,
        *MOVE_CHANGES,
    )

    def subjects(self, change: Change, view: View) -> Iterable[str]:
        """Name all pods that wait, if there are any."""
        if isinstance(change, Resynced | PodUnschedulableChanged):
            return (ALL_PENDING,)
        return (ALL_PENDING,) if view.index(UnschedulablePods).since_s else ()

    def balance(self, subject: str, view: View) -> Plan:
        """Plan room for one pod after the other, and find the pods that move for them."""
        del subject
        waiting = yield from self._waiting(view)
        if not waiting:
            return
        yield from recheck_of_reserved(view)
        trial = yield from with_pauses(view.try_moves(), every=1)
        rooms = PendingRooms(view, self.args.rules, trial)
        yield from with_pauses(rooms.begin(), every=1)
        made = 0
        without: set[object] = set()
        for pod in waiting:
            if (kind := _equal_pods(pod)) in without:
                continue
            found = yield from with_pauses(rooms.search(pod), every=1)
            if isinstance(found, NoRoom):
                without.add(kind)
                continue
            scope, is_made = yield from self._move(pod, found, trial)
            if scope == "cluster":
                return
            if not is_made:  # nor is it kept from the pods that come after this one
                rooms.give_back(pod, found)
                continue
            made += 1
            if made >= MAX_ROOMS:
                return

    def _waiting(self, view: View) -> Steps[list[Pod]]:
        """Return the pods that room is looked for, in their order, of those that wait for long.

        Of each namespace the first is taken, then of each the second, until there are enough
        different ones: no namespace keeps the others out.
        """
        soonest: float | None = None
        pods: dict[str, Pod] = {}
        by_namespace: dict[str, dict[object, list[_Waiting]]] = {}
        for looked, (pod, since_s) in enumerate(view.index(UnschedulablePods).pods()):
            if looked % LOOKS_PER_SLICE == LOOKS_PER_SLICE - 1:
                yield YieldPoint()
            left_s = since_s + self.args.wait - view.now_s
            if left_s > 0:
                soonest = left_s if soonest is None else min(soonest, left_s)
                continue
            pods[pod.uid] = pod
            equal = by_namespace.setdefault(pod.namespace, {}).setdefault(_equal_pods(pod), [])
            priority = pod.spec.priority or 0
            equal.append(_Waiting(-priority, since_s, pod.namespace, pod.name, pod.uid))
        if soonest is not None:
            yield RequeueAfter(soonest)
        ranked: list[tuple[int, list[_Waiting]]] = []
        for kinds in by_namespace.values():
            ranked.extend(enumerate(nsmallest(MAX_WAITING, map(sorted, kinds.values()))))
            yield YieldPoint()
        chosen = nsmallest(MAX_WAITING, ranked)
        due = [(each.less_priority, rank, each) for rank, equal in chosen for each in equal]
        return [pods[each.uid] for *_, each in sorted(due)]

    def _move(self, pod: Pod, room: Room[Pod], trial: MoveTrial) -> Steps[tuple[str, bool]]:
        """Find the pods that move for one that waits.

        Returns the scope whose limit ended it, and whether the room is being made: it is not where
        a pod was refused before any left.
        """
        node = trial.name_of(room.node)
        moved = MoveSet(node, tuple(each.uid for each, _ in room.places), room_for=pod.uid)
        pods = format_count(len(room.places), "pod")
        message = f"{node} has room for {pod} once {pods} moved, with places elsewhere"
        targets = AllNodesBut(frozenset((node,)))
        leaves = False
        for each, to in room.places:
            details: dict[str, int | str] = {
                "roomFor": str(pod),
                "pods": len(moved.pods),
                "place": trial.name_of(to),
            }
            decision = yield Finding(
                each,
                self.name,
                message,
                needs_fit=True,
                targets=targets,
                relieves_node=True,
                details=details,
                move_set=moved,
            )
            leaves = leaves or decision.pod_leaves
            if decision.scope_exhausted == "cluster":
                return decision.scope_exhausted, True
            if not waits_or_leaves(decision):
                return "", leaves
        return "", True

    def sweep(self, view: View) -> Plan:
        """Find nothing: without the nomination that the controller writes others take the room."""
        del view
        yield from ()

    def describe_waiting(self, pod: Pod, view: View) -> str:
        """Say which moves would make room for the pod, or why none do."""
        since_s = view.index(UnschedulablePods).since_s.get(pod.uid)
        if since_s is None:
            return "the scheduler has not said that it finds no node for it, or it is no such pod"
        if len(list(view.node_names())) > MAX_DESCRIBED:
            return f"no room is looked for in an answer with more than {MAX_DESCRIBED:,} nodes"
        trial = at_once(view.try_moves_apart())
        rooms = PendingRooms(view, self.args.rules, trial)
        at_once(rooms.begin())
        found = at_once(rooms.search(pod))
        if isinstance(found, NoRoom):
            return found.why
        moves = ", ".join(f"{each} to {trial.name_of(to)}" for each, to in found.places)
        text = f"{trial.name_of(found.node)} has room for it once pods have moved: {moves}"
        if (left_s := since_s + self.args.wait - view.now_s) > 0:
            return f"{text}; it counts in {format_age(left_s)}"
        return f"{text}; `reactive-desched why {found.places[0][0]}` says what that waits for"

    def is_misplaced(self, pod: Pod, cluster: Cluster, now_s: float) -> bool:
        """Say whether the pod came to a node for which a pod that waits is nominated."""
        del now_s
        waiting = cluster.index(UnschedulablePods).pods()
        return any(each.status.nominated_node == pod.node for each, _ in waiting)


def _equal_pods(pod: Pod) -> object:
    """Return what is the same for pods for which the same nodes have room."""
    return pod.namespace, id(pod.spec), id(pod.labels), pod.pvc_names
