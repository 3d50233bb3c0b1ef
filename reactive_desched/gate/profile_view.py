"""The cluster as the plugins of one profile see it: which pods its evictor protects, what fits.

Upstream evaluates the evictor's filters for every pod in every cycle. Here a pod is evaluated when
a plugin first asks about it, and again when a change fulfils one of the wakes its filters declare,
or when the time has come that a filter named.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sized
from itertools import islice
from operator import attrgetter
from typing import Final

from reactive_desched.fit.tried_moves import TriedMoves
from reactive_desched.fit.upstream import NodeFit
from reactive_desched.gate.evictor import EVICTABLE, PROTECTED, DefaultEvictor, EvictorFilters
from reactive_desched.gate.in_flight import InFlightEvictions
from reactive_desched.model.changes import Change, PodBound, PodChange, PodEvictabilityChanged
from reactive_desched.model.labels import LabelSelector, Selector
from reactive_desched.model.node_marks import ReasonRules, is_state_label, is_system_label
from reactive_desched.model.objects import Node, Pod, PodKey
from reactive_desched.model.resources import ResourceList
from reactive_desched.model.taints import Taint
from reactive_desched.model.usage import UseChange
from reactive_desched.model.wakes import WakeOn
from reactive_desched.primitives.timers import Timers
from reactive_desched.primitives.uid_parts import KeysInPortions, UidParts
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.state.nodes import left_s

EVALUATED_PER_STEP: Final = 25
"""So many pods that a change concerns are evaluated at once: some 0.3 ms."""

AT_ONCE: Final = ReasonRules()
"""Everything is a reason to evict, at once: the rules of a sweep."""


class ProfileView(ClusterView):
    """Answers the questions of `api.View` that depend on the profile.

    Node fit and evictability lie above the state, so the controller and the sweep make one such
    view for each profile and give it to the profile's plugins. What no plugin asks costs nothing.
    `rules` say what of a node is a reason to evict in the mode that runs, and after which time.
    """

    def __init__(
        self,
        state: ClusterState,
        wall_clock: Callable[[], float],
        evictor: DefaultEvictor,
        node_fit: NodeFit,
        in_flight: InFlightEvictions,
        rules: ReasonRules = AT_ONCE,
    ) -> None:
        super().__init__(state, wall_clock)
        self._rules = rules
        self._standing = state.nodes.standing
        self._evictor = evictor
        self._node_fit = node_fit
        self._in_flight = in_flight
        self._evictable = EvictableIndex(evictor.filters, self)
        self._tried: TriedMoves | None = None

    def taint_counts(self, taint: Taint) -> bool:
        """Say whether a taint may be a reason to evict; a sweep ignores none."""
        return self._rules.taint(taint.key).counts

    def taint_wait_s(self, node: Node, taint: Taint) -> float:
        """Return for how long a taint must still last before it is a reason to evict."""
        wanted_s = self._rules.taint(taint.key).standing_s
        return left_s(wanted_s, self._standing.taint_s(node.name, taint))

    def label_wait_s(self, node: Node, key: str) -> float:
        """Return for how long a label must still be as it is before it is a reason to evict."""
        if is_state_label(key) or (key not in node.labels and is_system_label(key)):
            wanted_s, stands_s = self._rules.system_label_s, self._standing.gone_s(node.name, key)
        else:
            wanted_s, stands_s = self._rules.label_s, self._standing.label_s(node.name, key)
        return left_s(wanted_s, stands_s)

    def ready_wait_s(self, node: Node) -> float:
        """Return for how long a node must still be Ready before restarts are a reason to evict."""
        return left_s(self._rules.ready_s, self._standing.ready_s(node.name))

    def match_wait_s(self, pod: Pod, selector: LabelSelector) -> float:
        """Return for how long a selector must still match a pod to be a reason to evict."""
        return left_s(self._rules.pod_label_s, self._pods.relabelled.matched_s(pod.uid, selector))

    def state_wait_s(self, since_s: float) -> float:
        """Return for how long a state that a pod has had since then must still last."""
        return left_s(self._rules.pod_state_s, self.now_s - since_s)

    def use_changes(self, node: Node) -> list[UseChange]:
        """Return which pods came to a node, or left it, so recently that it may pass."""
        if not (wanted_s := self._rules.use_s) or (info := self._nodes.info(node.name)) is None:
            return []
        changes, now_s = list[UseChange](), self.now_s
        for pod in info.active.values():
            if wait_s := left_s(wanted_s, now_s - pod.came_s):
                changes.append(UseChange(wait_s, pod))
        for left_for_s, pod in self._pods.departed.of_node(node.name):
            if wait_s := left_s(wanted_s, left_for_s):
                changes.append(self._departure(pod, left_for_s, wait_s))
        return sorted(changes, key=attrgetter("wait_s"), reverse=True)

    def departures(self) -> Iterator[UseChange]:
        """Yield the pods that left any node so recently that they may come back."""
        wanted_s = self._rules.use_s
        for left_for_s, pod in self.left_lately(wanted_s):
            yield self._departure(pod, left_for_s, wanted_s - left_for_s)

    def _departure(self, pod: Pod, left_for_s: float, wait_s: float) -> UseChange:
        stayed_s = self.now_s - left_for_s - pod.came_s
        return UseChange(wait_s, pod, has_left=True, was_brief=stayed_s < self._rules.use_s)

    def absent_nodes(self, topology_key: str) -> Iterator[tuple[str, float, Iterable[Pod]]]:
        """Yield the domain of each node that may be back soon, how long it may take, its pods."""
        for name, value, stands_s in self._absent(topology_key):
            wait_s = left_s(self._rules.absent_s, stands_s)
            info = self._nodes.info(name)
            if (
                wait_s
                and info is not None
                and info.node is not None
                and not info.node.is_terminating
            ):
                yield value, wait_s, info.active.values()

    def _absent(self, topology_key: str) -> Iterator[tuple[str, str, float]]:
        """Yield the nodes that are not Ready or lost a label, its value, and for how long."""
        if not self._rules.absent_s:
            return
        for name, unready_s in self._standing.unready():
            node = self._nodes.get(name)
            value = None if node is None else node.labels.get(topology_key)
            if node is not None and value is not None and self._nodes.selector.matches(node.labels):
                yield name, value, unready_s
        yield from self._standing.without(topology_key)

    def evictable(self, pod: Pod) -> bool:
        """Say whether the pod passes every filter of the profile's evictor."""
        return self._evictable.allows(pod)

    def why_protected(self, pod: Pod) -> tuple[str, str] | None:
        """Return the name of the first filter that protects the pod, and what it says."""
        rejection = self._evictor.filters.first_rejection(pod)
        return None if rejection is None else (rejection[0].gate, rejection[1])

    def prefers_no_eviction(self, pod: Pod) -> bool:
        """Say whether the pod asks by its annotation to be evicted after others."""
        return self._evictor.filters.prefers_no_eviction(pod)

    @property
    def target_selector(self) -> Selector:
        """Return which nodes the evictor counts as places for an evicted pod."""
        return self._evictor.node_selector

    def passes_pre_eviction(self, pod: Pod) -> bool:
        """Say whether node fit and namespace labels let the pod go, where the evictor asks."""
        return self._evictor.passes_pre_eviction(pod)

    def is_leaving(self, pod: Pod) -> bool:
        """Say whether the pod is terminating, or its eviction is under way."""
        return pod.is_terminating or self._in_flight.is_evicting(pod.uid)

    def find_any_node(self, pod: Pod) -> str | None:
        """Name an eligible node that fits the pod, its own included."""
        return self._node_fit.find_any_node(pod)

    def find_other_node(self, pod: Pod) -> str | None:
        """Name a ready node of the evictor's selection, other than its own, that fits the pod."""
        return self._node_fit.find_other_node(pod, self._evictor.node_selector)

    def find_node_among(self, pod: Pod, nodes: Collection[str]) -> str | None:
        """Name one of these nodes, other than its own, that fits the pod."""
        return self._node_fit.find_node_among(pod, nodes)

    def why_unfit(self, pod: Pod, nodes: Collection[str]) -> str:
        """Say why none of these nodes fits the pod; empty where one does."""
        if self._evictor.requires_fit:
            infos = map(self.node_info, nodes)
            labels = [info.node.labels for info in infos if info is not None and info.node]
            if not any(map(self.target_selector.matches, labels)):
                return "the nodeSelector of the evictor does not select it"
        found = self._node_fit.diagnose_among(pod, nodes)
        return "" if found.available else ", ".join(sorted(map(str, found.reasons)))

    def reserved_by_node(self) -> Mapping[str, ResourceList]:
        """Sum what is reserved for replacements of evicted pods, by node."""
        return self._node_fit.reserved_by_node()

    def awaiting_replacement(self, owner_uid: str) -> Iterable[Pod]:
        """Return the evicted pods of a controller for whose replacements capacity is reserved."""
        return self._node_fit.awaiting_replacement(owner_uid)

    def expected_replacements(self, namespace: str) -> Iterable[tuple[Pod, str]]:
        """Return a namespace's evicted pods, each with the node reserved for its replacement."""
        return self._node_fit.expected_replacements(namespace)

    def try_moves(self) -> Generator[None, None, TriedMoves]:
        """Begin to try moves, in steps: what was tried before counts no more."""
        if self._tried is None:
            self._tried = TriedMoves(self, self._node_fit.scheduler_profiles)
        yield from self._tried.begin(self._node_fit.reservations())
        return self._tried

    def try_moves_apart(self) -> Generator[None, None, TriedMoves]:
        """Begin as `try_moves`, apart from a plan that may be interrupted: it is for people."""
        tried = TriedMoves(self, self._node_fit.scheduler_profiles)
        yield from tried.begin(self._node_fit.reservations())
        return tried

    @property
    def remembers_evictability(self) -> bool:
        """Say whether a plugin has asked which pods the evictor protects."""
        return self._evictable.is_asked

    def apply_changes(self, changes: Iterable[Change]) -> list[Change]:
        """Keep the answers right after these changes of the state; return which pods' differ.

        Where very many pods are concerned, `has_outdated` says that there are more: without
        changes, it returns those of the next portion.
        """
        return self._evictable.apply_changes(changes)

    @property
    def has_outdated(self) -> bool:
        """Say whether changes, or the time, may concern more pods than were evaluated since."""
        return self._evictable.has_outdated

    def next_due_s(self) -> float | None:
        """Return when time alone may change an answer, in seconds since the epoch."""
        return self._evictable.next_due_s()


class EvictableIndex:
    """The filters' answer for every pod that was asked about; times are seconds since the epoch.

    `remembered` are those pods, `is_asked` says whether there was one. Holds one entry for each of
    them that exists, and one for each wake of its filters other than a change of the pod itself. A
    change that wakes many, as that of a PriorityClass wakes all, has them evaluated in portions;
    until it has come to the last one, each of them that is asked about is evaluated anew.
    """

    def __init__(self, filters: EvictorFilters, view: ClusterView) -> None:
        self._filters = filters
        self._view = view
        self._evictable_at: UidParts[float] = UidParts()
        self.remembered: Final[Sized] = self._evictable_at
        self._wakes: UidParts[tuple[WakeOn, ...]] = UidParts()
        self._by_wake: dict[WakeOn, KeysInPortions[PodKey]] = {}
        self._wake_types: dict[type[Change], list[type[WakeOn]]] = {}
        self._timers: Timers[PodKey] = Timers()
        self._outdated: dict[WakeOn, Iterator[PodKey]] = {}
        self.has_outdated = False
        self.is_asked = False

    def allows(self, pod: Pod) -> bool:
        """Say whether the pod passes every filter now.

        A pod without a node is not remembered, and none of which a person alone asks: it would
        announce changes that are of no use to a plugin.
        """
        at_s = self._evictable_at.get(pod.uid)
        if at_s is None:
            is_kept = pod.node and not self._view.is_questioned
            at_s = self._remember(pod) if is_kept else self._filters.evictable_from_s(pod)
        elif self._outdated and self._is_outdated(pod.uid):
            at_s = self._filters.evictable_from_s(pod)
        if at_s == EVICTABLE or at_s == PROTECTED:  # noqa: PLR1714, SIM109 -- no tuple is built here
            return at_s == EVICTABLE
        return at_s <= self._view.now_s and self._filters.evictable_from_s(pod) == EVICTABLE

    def apply_changes(self, changes: Iterable[Change]) -> list[Change]:
        """Evaluate the pods that the changes or the time concern; return whose answer differs.

        Of those that other objects or the time concern it evaluates a portion; where `has_outdated`
        says that more may be left, the next call goes on. A pod without a node is not remembered,
        so one that was bound has been evaluated since.
        """
        found: list[Change] = []
        for change in changes:
            if (
                isinstance(change, PodChange)
                and self._evictable_at.get(change.pod.uid) is not None
                and not isinstance(change, PodBound)
            ):
                found += self._refresh(change.pod.uid)
            for wake_type in self._wake_types.get(type(change), ()):
                wake = wake_type.fulfilled_by(change)
                if (pods := self._by_wake.get(wake)) is not None:
                    self._outdated[wake] = pods.in_steps()
        evaluated = 0
        if self._outdated or len(self._timers):
            for uid in islice(self._concerned(), EVALUATED_PER_STEP):
                found += self._refresh(uid)
                evaluated += 1
        self.has_outdated = evaluated == EVALUATED_PER_STEP
        return found

    def _concerned(self) -> Iterator[PodKey]:
        """Yield the pods that are to be evaluated: the time has come, or a change outdated them."""
        now_s = self._view.now_s
        while (due := self._timers.pop_due(now_s)) is not None:
            yield due
        while self._outdated:
            wake, pods = next(iter(self._outdated.items()))
            for uid in pods:  # noqa: UP028 -- `yield from` would close them with this generator
                yield uid
            del self._outdated[wake]

    def _is_outdated(self, uid: PodKey) -> bool:
        """Say whether a pod waits for what has changed, and may not have been evaluated since."""
        waits_for = self._wakes.get(uid) or ()
        return any(wake in self._outdated for wake in waits_for)

    def next_due_s(self) -> float | None:
        """Return when time alone may change an answer, in seconds since the epoch."""
        return self._timers.next_due()

    def _remember(self, pod: Pod) -> float:
        at_s = self._filters.evictable_from_s(pod)
        self._evictable_at.part(pod.uid)[pod.uid] = at_s
        self.is_asked = True
        if at_s == EVICTABLE or at_s == PROTECTED:  # noqa: PLR1714, SIM109 -- no tuple is built here
            self._timers.cancel(pod.uid)
        else:
            self._timers.set(pod.uid, at_s)
        wakes = tuple(dict.fromkeys(self._filters.wakes(pod)))
        if wakes != (self._wakes.get(pod.uid) or ()):
            self._unregister(pod.uid)
            self._register(pod.uid, wakes)
        return at_s

    def _refresh(self, uid: PodKey) -> Iterator[Change]:
        was_at_s = self._evictable_at.get(uid)
        if was_at_s is None:
            return
        pod = self._view.pod(uid)
        if pod is None or not pod.node:
            del self._evictable_at.part(uid)[uid]
            self._timers.cancel(uid)
            self._unregister(uid)
        elif (self._remember(pod) == EVICTABLE) != (was_at_s == EVICTABLE):
            yield PodEvictabilityChanged(pod)

    def _register(self, uid: PodKey, wakes: tuple[WakeOn, ...]) -> None:
        self._wakes.part(uid)[uid] = wakes
        for wake in wakes:
            if (pods := self._by_wake.get(wake)) is None:
                pods = self._by_wake[wake] = KeysInPortions()
            pods.add(uid)
            for kind in wake.changes:
                wake_types = self._wake_types.setdefault(kind, [])
                if type(wake) not in wake_types:
                    wake_types.append(type(wake))

    def _unregister(self, uid: PodKey) -> None:
        for wake in self._wakes.part(uid).pop(uid, ()):
            pods = self._by_wake[wake]
            pods.discard(uid)
            if not pods:
                del self._by_wake[wake]
