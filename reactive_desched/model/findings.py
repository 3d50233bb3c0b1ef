"""A plugin's opinion: this pod should leave its node, and why."""

from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Final, TypeVar

from msgspec import Struct

from reactive_desched.model.eviction_options import EvictionOptions
from reactive_desched.model.gangs import Gang
from reactive_desched.model.objects import Pod, PodKey


class AllNodesBut(Struct, frozen=True, gc=False):
    """Every node except those named, where that is shorter than to name the others."""

    names: frozenset[str]


Targets = frozenset[str] | AllNodesBut
"""The nodes to which a plugin moves pods."""


class RoomFor(Struct, frozen=True, gc=False):
    """A pod that waits, by its uid, and the node on which it gets room."""

    pod: PodKey
    node: str


class EarlierMove(Struct, frozen=True, gc=False):
    """A pod of another node that moves first, by its uid: what it leaves is a place for the next.

    `to` is the node that it was found to fit on.
    """

    pod: PodKey
    node: str
    to: str


class MoveSet(Struct, frozen=True, gc=False):
    """Pods whose moves are worth it only together: all those that have to leave a node.

    They leave it so that it can be removed, or to make `rooms`: for one pod that waits, on `node`,
    or for those of a `gang`, also on other nodes; `most` pods at most move for these rooms, those
    of earlier sets counted. The moves of `earlier` ones of `pods` make the places for those that
    come after them. `empty` are nodes that are empty already, and are to take none.
    """

    node: str
    pods: tuple[PodKey, ...]
    empty: tuple[str, ...] = ()
    rooms: tuple[RoomFor, ...] = ()
    gang: Gang | None = None
    most: int = 0
    earlier: tuple[EarlierMove, ...] = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the nodes with rooms, and those with places that earlier moves make."""
        rooms = [each.node for each in self.rooms]
        return tuple(dict.fromkeys([*rooms, *(each.node for each in self.earlier)]))

    @property
    def key(self) -> tuple[str, str]:
        """Return what is the same for the set while its pods leave."""
        if self.gang is not None:
            return "", self.gang.title
        return self.node, self.rooms[0].pod if self.rooms else ""


GANG: Final = "gang"
"""The detail of a finding that names the gang with which its pod leaves."""


class GangMove(Struct, frozen=True, gc=False):
    """A gang whose running pods leave all together; the first of `pods` is the one found.

    With `is_rest` the others have left already, and `pods` is one that was left behind.
    """

    gang: Gang
    pods: tuple[PodKey, ...]
    is_rest: bool = False


DOMAIN_DETAIL: Final = "topologyValue"
"""The detail that names the topology domain which a pod is to leave."""


class Finding(Struct, frozen=True, gc=False):
    """The pod should leave its node; `message` says why.

    `needs_fit` is set by plugins that require a node which fits, whatever the evictor is set to.
    `targets` names the nodes to which the plugin moves the pod, None for any other node: where node
    fit is required, the kube-scheduler's mode counts only them and reserves capacity there, while
    upstream's mode takes any node, as upstream does. Give the same set to all findings of a plan.
    `node_limit` is how many pods the plugin may evict from the node within a window of the policy's
    limits, None for any number; in a sweep the plugin counts for itself. `relieves_node` says that
    the finding is about the node, which others of its pods could relieve as well: where moves do
    not, the node is left alone, and not this pod's owner only. `is_trial` says that the plugin
    expects the replacement to come back, by how the kube-scheduler places pods by default: one such
    move is tried now and then, where nothing better is left.
    `conflicts_with` names the pods that it must not be together with: once they all leave, nothing
    is wrong any more. `details` are the figures behind the message, by names in camelCase that end
    in their unit: whole numbers and texts, no fractions. `options` say how the pod is asked to
    leave; None for an eviction with the grace period of the policy file. `counts_from_s` is when
    what is wrong has stood long enough to be a reason, in seconds since the epoch; the finding is
    held until then. Zero: it counts at once. `by_score` says that the kube-scheduler keeps the
    replacement off no node for what is wrong, and comes to one of `targets` by its scores alone.
    `place_rank` says how good the pod's place is by the
    plugin, higher is better: a move that raised it helped, though a better place is left. None
    where all places with a finding are equally bad. `move_set` is the set that it is one of: its
    pods are found in their order, and none of them leaves before all gates let all of them go.
    `gang` is set by the gate: the pods that leave with this one. `found_since_s` is set by the
    evaluator for what balances: since when its subject, or its node, has had findings that wait, in
    seconds since the epoch. Zero: since before the controller started.
    """

    pod: Pod
    plugin: str
    message: str
    needs_fit: bool = False
    targets: Targets | None = None
    node_limit: int | None = None
    relieves_node: bool = False
    is_trial: bool = False
    conflicts_with: tuple[PodKey, ...] = ()
    details: Mapping[str, int | str] = {}
    options: EvictionOptions | None = None
    counts_from_s: float = 0.0
    by_score: bool = False
    place_rank: int | None = None
    move_set: MoveSet | None = None
    gang: GangMove | None = None
    found_since_s: float = 0.0

    @property
    def about(self) -> str:
        """The node or topology domain that has too many pods, or is used too much or too little.

        It is that of the pod; empty where the finding is about the pod itself, or its workload.
        """
        return self.pod.node if self.relieves_node else str(self.details.get(DOMAIN_DETAIL, ""))

    @property
    def pod_found(self) -> PodKey:
        """The pod that the plugin found: the first one of a gang, else the finding's own."""
        return self.pod.uid if self.gang is None else self.gang.pods[0]

    @property
    def is_companion(self) -> bool:
        """Say whether the pod leaves because another one of its gang was found."""
        return self.pod_found != self.pod.uid


class RequeueAfter(Struct, frozen=True, gc=False):
    """Only time can change the findings of this subject: judge it again then."""

    delay_s: float


class YieldPoint(Struct, frozen=True, gc=False):
    """A plan has looked for a while without a finding: the event loop may have its turn.

    Yield one at least every half millisecond. The cluster may differ afterwards.
    """


ResultT = TypeVar("ResultT")

LOOKS_PER_SLICE: Final = 100
"""After so many nodes or pods other tasks of the event loop run: some 0.3 ms."""


def pauses_between(items: Iterable[object]) -> Iterator[YieldPoint]:
    """Iterate over nodes or pods to their end, and yield a YieldPoint after every hundred."""
    for number, _ in enumerate(items, 1):
        if number % LOOKS_PER_SLICE == 0:
            yield YieldPoint()


def with_pauses(
    steps: Generator[object, None, ResultT], every: int = LOOKS_PER_SLICE
) -> Generator[YieldPoint, None, ResultT]:
    """Take the steps that lead to a result, a YieldPoint after so many each; return the result.

    The steps are closed with this generator.
    """
    taken = 0
    try:
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: ResultT = end.value
                return result
            taken += 1
            if taken % every == 0:
                yield YieldPoint()
    finally:
        steps.close()
