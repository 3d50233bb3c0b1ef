"""Moves that are tried: which nodes would fit a pod by the kube-scheduler's filters beside them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Final

from msgspec.structs import replace

from reactive_desched.api.index import Index
from reactive_desched.fit.filters import NodeFilters
from reactive_desched.fit.node_sets import NodeSets
from reactive_desched.fit.reservations import CapacityReservation, controller_uid
from reactive_desched.fit.scheduler import NODES_PER_SYNC, SchedulerNodeFit
from reactive_desched.model.objects import OwnerReference, Pod
from reactive_desched.model.resources import CPU, MEMORY, PODS
from reactive_desched.model.scheduler_profile import DEFAULT_PROFILES, SchedulerProfiles
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.pod_affinity import PodAffinity

_COMPARED: Final = (CPU, MEMORY, PODS)

_ITS_OWN: Final = "Pod"

_FOR_EVER_S: Final = 0.0
"""Tried moves do not expire: no time passes here."""


class TriedMoves:
    """Answers as `SchedulerNodeFit` would after some moves; nothing that is tried is reserved.

    A pod of a tried move counts on the node that it moves to, as does one that was evicted: for
    resources, ports, volumes, spread and anti-affinity. On its own node it takes up room as
    before, unless its place is vacated. A pod without a controller is not counted, as nothing would
    make it anew; a pod that waits for a node is. Nodes are numbered, and a set of nodes is an
    integer: bit n is node n. The numbers stay while the node is there.
    """

    indexes: ClassVar[tuple[type[Index], ...]] = SchedulerNodeFit.indexes

    def __init__(self, view: ClusterView, profiles: SchedulerProfiles = DEFAULT_PROFILES) -> None:
        self._nodes = NodeSets(view)
        self._filters = NodeFilters(self._nodes, view, profiles)
        self._usual: dict[str, float] = {}
        self.long_answers = view.index(PodAffinity).queries.long_answers

    def begin(self, reserved: Iterable[CapacityReservation]) -> Iterator[None]:
        """Forget what was tried, count what is reserved, and follow the cluster, in steps."""
        reservations = self._nodes.reservations
        for uid in list(reservations.pods):
            reservations.release(uid)
            yield
        for pod in list(self._nodes.vacated.pods):
            self._nodes.vacated.discard(pod.uid)
            yield
        for each in reserved:
            reservations.reserve(each.pod, each.node, _FOR_EVER_S, each.devices)
        while self._nodes.is_stale:
            self._filters.sync(NODES_PER_SYNC)
            yield
        yield from self._filters.volumes.follow()
        sums = dict.fromkeys(_COMPARED, 0.0)
        nodes = 0
        for number, slot in enumerate(self._nodes.slots(), 1):
            if (node := self._nodes.node(slot)) is not None:
                nodes += 1
                for resource in _COMPARED:
                    sums[resource] += node.allocatable.get(resource, 0)
            if number % NODES_PER_SYNC == 0:
                yield
        self._usual = {resource: amount / max(1, nodes) for resource, amount in sums.items()}

    def number_of(self, node: str) -> int | None:
        """Return the number of a node; None where there is no Node of that name."""
        return self._nodes.slot_of(node)

    def name_of(self, number: int) -> str:
        """Return the name of a node."""
        return self._nodes.name(number)

    def fitting(self, pod: Pod, among: int) -> int:
        """Return which of these nodes, ready and not the pod's own, fit it beside what is tried.

        Labels that are new are read in steps, where answers are wanted so.
        """
        self._filters.sync()
        own = self._nodes.slot_of(pod.node)
        among &= self._nodes.ready & ~(0 if own is None else 1 << own)
        with self._nodes.labels.in_steps(self.long_answers):
            return self._filters.fitting(pod, among)

    def reachable(self, pod: Pod, among: int) -> int:
        """Return which of these nodes, ready, are not closed to the pod, whatever is there."""
        self._filters.sync()
        return self._filters.statically_feasible(pod, among & self._nodes.ready)

    def lacking(self, pod: Pod, number: int) -> Mapping[str, int]:
        """Return what a node lacks for the pod, by resource, beside what is tried."""
        found: dict[str, int] = {}
        for resource, wanted in self._filters.demands(pod.spec):
            if not self._filters.with_enough(resource, wanted) >> number & 1:
                found[resource] = wanted - self._nodes.free.free_in(resource, number)
        return found

    def fullness(self, number: int) -> float:
        """Return the share that is taken of the resource of which a node has least left."""
        node = self._nodes.node(number)
        has = {} if node is None else node.allocatable
        return 1.0 - self._least_left(number, has)

    def room(self, number: int) -> float:
        """Return how much a node has left of its scarcest resource, as a share of a usual node."""
        return self._least_left(number, self._usual)

    def move(self, pod: Pod, number: int) -> None:
        """Try a move on top of the others, or the binding of a pod that has no node."""
        counted = pod if pod.node else _as_its_own(pod)
        devices = self._filters.devices.devices_for(pod, number)
        name = self._nodes.name(number)
        self._nodes.reservations.reserve(counted, name, _FOR_EVER_S, devices)
        self._filters.sync()

    def undo(self, pod: Pod) -> None:
        """Take back a move that was tried."""
        self._nodes.reservations.release(pod.uid)
        self._filters.sync()

    def expect_back(self, pod: Pod) -> None:
        """Count a pod that left its node there, unless its replacement is expected elsewhere.

        Without a controller nothing makes it anew, and it is not counted.
        """
        number = self.number_of(pod.node)
        if number is not None and pod.uid not in self._nodes.reservations:
            self.move(pod, number)

    def vacate(self, pod: Pod) -> None:
        """Take a pod to have left its node: its room there is free."""
        self._nodes.vacated.add(pod)
        self._filters.sync()

    def take_again(self, pod: Pod) -> None:
        """Take a pod whose place was vacated to be there again."""
        self._nodes.vacated.discard(pod.uid)
        self._filters.sync()

    def _least_left(self, number: int, of: Mapping[str, float]) -> float:
        free, least = self._nodes.free, 1.0
        for resource in _COMPARED:
            least = min(least, free.free_in(resource, number) / (of.get(resource) or 1))
        return least


def _as_its_own(pod: Pod) -> Pod:
    """Return a pod that counts where it is to be bound, whether or not something controls it."""
    if controller_uid(pod) is not None:
        return pod
    return replace(pod, owners=(OwnerReference(_ITS_OWN, pod.name, pod.uid, controller=True),))
