"""Plans which pods leave the overloaded nodes of a pool, and where they find room."""

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from functools import partial
from operator import add, sub

from msgspec import Struct

from reactive_desched.api.balance_plugin import Plan
from reactive_desched.draining.landing import Landing, in_turn, relief_order, waits_or_leaves
from reactive_desched.draining.load_args import LowNodeLoadArgs
from reactive_desched.draining.load_pools import LoadPool, LoadView
from reactive_desched.model.decisions import Decision
from reactive_desched.model.findings import Finding, YieldPoint, with_pauses
from reactive_desched.model.koordinator import eviction_order, is_prod
from reactive_desched.model.node_load import (
    NO_BOUND,
    Level,
    LoadRule,
    exceeds,
    used_amounts,
)
from reactive_desched.model.objects import Pod
from reactive_desched.model.resources import PODS, ResourceList
from reactive_desched.model.subjects import NodeSubject
from reactive_desched.primitives.long_answers import sorted_portions
from reactive_desched.state.indexes.node_loads import (
    LoadedNode,
)


class RunningLoads:
    """The use of each node while a plan goes on: less where pods left, more where they fit.

    `may_go_on` says whether some limit may still allow an eviction. `rivals` are the nodes that
    give pods away: a replacement may land there; in a sweep that is not asked.
    """

    def __init__(
        self,
        plugin: str,
        args: LowNodeLoadArgs,
        pool: LoadPool,
        look: LoadView,
        rivals: Sequence[str],
    ) -> None:
        self.plugin = plugin
        self.args = args
        self.pool = pool
        self.look = look
        self.may_go_on = True
        self.landing = None if look.is_sweep else Landing(look.view, rivals, packs=False)
        self._used: dict[tuple[Level, str], list[int]] = {}

    def stop_at(self, exhausted: str) -> None:
        """End the plan unless the exhausted limit is that of a single node."""
        self.may_go_on = exhausted == "node"

    def used(self, level: Level, node: LoadedNode) -> list[int]:
        """Return a node's use by now, for changing."""
        key = level, node.load.name
        if (found := self._used.get(key)) is None:
            found = [*used_amounts(self.pool.rule, node.load, level)]
            self._used[key] = found
        return found


class _Candidates(Struct):
    """The pods of a node that may leave, in their order, and what came of proposing them.

    `is_being_left` says that others leave it already. `coming_back` are the pods that stay because
    their replacements would come back, and `has_others` says that another one leaves, or waits.
    """

    source: LoadedNode
    pods: list[Pod]
    is_being_left: bool
    coming_back: list[Pod] = []
    has_others: bool = False

    @property
    def may_try(self) -> bool:
        """Say whether one of the pods whose replacements would come back is tried."""
        return not (self.is_being_left or self.has_others)

    def note(self, decision: Decision | None) -> None:
        """Record what was decided on a pod; one that is refused for its own sake does not wait."""
        self.has_others |= decision is None or waits_or_leaves(decision)


class LoadMoves:
    """Moves pods from the overloaded nodes of a level to nodes with room, while there is any."""

    def __init__(
        self, running: RunningLoads, level: Level, targets: Sequence[LoadedNode], room: list[int]
    ) -> None:
        self._running = running
        self._args = running.args
        self._pool = running.pool
        self._view = running.look.view
        self._landing = running.landing
        self._resources = running.pool.rule.resources
        self._level = level
        self._targets = {target.load.name: target for target in targets}
        self._target_names = frozenset(self._targets)
        self._turns = None if running.landing is None else running.landing.turns(self._targets)
        self._room = room

    def plan(self, sources: Sequence[LoadedNode]) -> Plan:
        """Plan the sources in turn, the most loaded first.

        Of a node from which no other pod leaves or waits for its turn, one is tried whose
        replacement would come back.
        """
        weights, level, trials = self._pool.weights, self._level, list[_Candidates]()
        if not self._targets:
            return
        ordered: list[LoadedNode] = []
        for portion in sorted_portions(sources, lambda each: -each.load.score(level, weights)):
            ordered += portion
            yield YieldPoint()
        for source in ordered:
            if self._running.may_go_on:
                candidates = yield from self._candidates(source)
                yield YieldPoint()
                yield from self._relieve(source, candidates)
                trials.append(candidates)
        for candidates in trials:
            if self._running.may_go_on and candidates.may_try:
                yield from self._relieve(candidates.source, candidates, is_trial=True)

    def _relieve(
        self, source: LoadedNode, candidates: "_Candidates", *, is_trial: bool = False
    ) -> Plan:
        """Propose pods of a node until it is not overloaded, or a resource has no room left.

        As a trial, pods whose replacements would come back, until one leaves.
        """
        used = self._running.used(self._level, source)
        for pod in candidates.coming_back if is_trial else candidates.pods:
            if not exceeds(used, source.limits.high(self._level)):
                self._pool.relieve(self._level, [source])
                return
            if min(self._room) <= 0:
                return
            if not (self._view.evictable(pod) and self._relieves(pod, source)):
                continue
            places = yield from self._places(pod, source, candidates, is_trial=is_trial)
            yield YieldPoint()
            place = self._find_place(pod, places)
            yield YieldPoint()
            if place is None and self._needs_place_when_leaving:
                continue
            finding = self._finding(pod, source, places, is_trial=is_trial)
            decision = None if self._args.dry_run else (yield finding)
            candidates.note(decision)
            if decision is None or decision.pod_leaves or self._has_turn(decision, source):
                self._leave(pod, source, place)
                if is_trial:
                    return
            elif decision.scope_exhausted in ("cluster", "node"):
                self._running.stop_at(decision.scope_exhausted)
                return

    def _places(
        self, pod: Pod, source: LoadedNode, candidates: "_Candidates", *, is_trial: bool
    ) -> Generator[YieldPoint, None, frozenset[str]]:
        """Name the targets for a pod when it is its turn; note where it would rather come back."""
        if not self._needs_place_when_leaving:
            return frozenset()
        places = yield from with_pauses(self._with_room(pod, source))
        if places and not is_trial:
            places = yield from with_pauses(self._that_keep(pod, places))
            if not places:
                candidates.coming_back.append(pod)
        return places

    def _leave(self, pod: Pod, source: LoadedNode, place: LoadedNode | None) -> None:
        """Count a pod that leaves, and that comes to its place."""
        self._subtract(pod, source)
        if place is not None:
            self._add_to(place, pod, source)
            if self._landing is not None:
                self._landing.count_leaving(pod, place.load.name)

    def _relieves(self, pod: Pod, source: LoadedNode) -> bool:
        """Say whether a pod uses something of what is used too much; koordinator never asks."""
        measured = source.load.pods.get(str(pod))
        if measured is None or self._landing is None:
            return True
        return any(r == PODS or measured.get(r, 0) for r in self._excess(source))

    def _has_turn(self, decision: Decision, source: LoadedNode) -> bool:
        """Say whether a pod counts as leaving, since its turn comes soon."""
        return self._landing is not None and self._landing.has_turn(decision, source.load.name)

    def _that_keep(self, pod: Pod, places: frozenset[str]) -> Generator[None, None, frozenset[str]]:
        """Return the places from which the pod's replacement would not rather come back.

        It looks at one in each step.
        """
        if self._landing is None or (pull := (yield from self._landing.pull_on(pod))) is None:
            return places
        kept: list[str] = []
        for name in places:
            if not pull.comes_back(name):
                kept.append(name)
            yield
        return frozenset(kept)

    @property
    def _needs_place_when_leaving(self) -> bool:
        """Say whether a pod is given a place when it is its turn, and keeps it only if it leaves.

        In a sweep all that may leave are given one first, in the order of their names.
        """
        return self._args.node_fit and not self._running.look.is_sweep

    def _candidates(self, source: LoadedNode) -> Generator[YieldPoint, None, "_Candidates"]:
        """Return the pods of a node that may leave, those first that should leave first.

        Those that are leaving already are taken out of the node's use first.
        """
        found = self._view.pods_of(NodeSubject(source.load.name))
        pods = {
            pod.uid: pod
            for pod in (() if found is None else found[1])
            if self._level is Level.NODE or is_prod(pod)
        }
        leaving = self._running.look.leaving(pods.values())
        for pod in leaving:
            self._subtract(pods.pop(pod.uid), source)
            if self._landing is not None and not pod.is_terminating:
                self._landing.count_leaving(pod)
        candidates = [
            pod for pod in pods.values() if self._args.covers(pod) and self._view.evictable(pod)
        ]
        if self._args.node_fit and not self._needs_place_when_leaving:
            candidates = yield from self._placed(candidates, source)
        candidates.sort(key=partial(self._order, source, self._excess(source)))
        if self._turns is not None:
            excess = self._excess(source)
            ordered = in_turn(
                candidates,
                lambda pod: (
                    *eviction_order(pod),
                    *relief_order(pod, self._relief(pod, source, excess)),
                ),
                self._turns,
            )
            candidates = yield from with_pauses(ordered)
        return _Candidates(source, candidates, bool(leaving))

    def _placed(
        self, pods: Iterable[Pod], source: LoadedNode
    ) -> Generator[YieldPoint, None, list[Pod]]:
        """Keep a place for each pod for the rest of the plan; return those that have one."""
        placed: list[Pod] = []
        for pod in pods:
            places = yield from with_pauses(self._with_room(pod, source))
            if (place := self._find_place(pod, places)) is not None:
                self._add_to(place, pod, source)
                placed.append(pod)
        return placed

    def _find_place(self, pod: Pod, places: Collection[str]) -> LoadedNode | None:
        """Return one of these targets that fits the pod."""
        name = self._view.find_node_among(pod, places) if places else None
        return None if name is None else self._targets[name]

    def _with_room(self, pod: Pod, source: LoadedNode) -> Generator[None, None, frozenset[str]]:
        """Name the targets that are not overloaded with the pod, as it was measured.

        It looks at one in each step.
        """
        if str(pod) not in source.load.pods:
            return frozenset()
        more, level = self._use_of(pod, source), self._level
        found: list[str] = []
        for name, target in self._targets.items():
            used = map(add, self._running.used(level, target), more)
            if not exceeds(used, target.limits.high(level)):
                found.append(name)
            yield
        return self._target_names if len(found) == len(self._targets) else frozenset(found)

    def _use_of(self, pod: Pod, source: LoadedNode) -> list[int]:
        measured = source.load.pods[str(pod)]
        return [measured.get(resource, 0) for resource in self._resources]

    def _add_to(self, target: LoadedNode, pod: Pod, source: LoadedNode) -> None:
        _add(self._running.used(self._level, target), self._use_of(pod, source))

    def _subtract(self, pod: Pod, source: LoadedNode) -> None:
        """Take a pod out of its node's use, and what it used out of the room; all if measured."""
        if (measured := source.load.pods.get(str(pod))) is None:
            return
        less = [-1 if r == PODS else -measured.get(r, 0) for r in self._resources]
        _add(self._room, less)
        _add(self._running.used(Level.NODE, source), less)
        if self._level is Level.PROD:
            _add(self._running.used(Level.PROD, source), less)

    def _excess(self, source: LoadedNode) -> dict[str, int]:
        """Return by how much a node's use is above its thresholds, of resources where it is."""
        used, limits = self._running.used(self._level, source), source.limits.high(self._level)
        pairs = zip(self._resources, map(sub, used, limits), strict=True)
        return {resource: amount for resource, amount in pairs if amount > 0}

    def _order(self, source: LoadedNode, excess: ResourceList, pod: Pod) -> tuple[object, ...]:
        """Return the key by which the pods of a node leave.

        By what koordinator's labels and annotations say; then those whose use comes closest to what
        is used too much, those that were not measured last; then the youngest.
        """
        by_use = str(pod) not in source.load.pods, -self._relief(pod, source, excess)
        return *eviction_order(pod), *by_use, -pod.created_s, pod.namespace, pod.name

    def _relief(self, pod: Pod, source: LoadedNode, excess: ResourceList) -> float:
        measured = source.load.pods.get(str(pod))
        return 0.0 if measured is None else _relief(measured, excess, self._pool.weights)

    def _finding(
        self, pod: Pod, source: LoadedNode, places: frozenset[str], *, is_trial: bool
    ) -> Finding:
        level, load, high = self._level, source.load, self._pool.high[self._level]
        used, parts = dict(zip(self._resources, self._running.used(level, source), strict=True)), []
        for resource in self._excess(source):
            capacity = load.capacity.get(resource, 0)
            percent = 100 * used[resource] / capacity if capacity else 0.0
            threshold = high.get(resource, 0.0)
            parts.append(
                f"{level.value} {resource} usage({percent:.2f}%)>threshold({threshold:.2f}%)"
            )
        return Finding(
            pod,
            self._running.plugin,
            f"node is overutilized, {', '.join(parts)}",
            needs_fit=self._args.node_fit,
            targets=places or self._target_names,
            relieves_node=True,
            is_trial=is_trial,
            by_score=not is_trial,
            details={"nodePool": self._pool.name, "level": level.value},
        )


def room_of(
    rule: LoadRule, level: Level, nodes: Sequence[LoadedNode]
) -> Generator[None, None, list[int]]:
    """Return what nodes can take of each resource until they are overloaded; one in each step.

    Of a resource that none of them has there is no bound.
    """
    room = [NO_BOUND] * len(rule.resources) if nodes else [0] * len(rule.resources)
    for node in nodes:
        high, used = node.limits.high(level), used_amounts(rule, node.load, level)
        for at, limit in enumerate(high):
            if limit != NO_BOUND:
                room[at] = limit - used[at] + (0 if room[at] == NO_BOUND else room[at])
        yield
    return room


def _add(amounts: list[int], more: Iterable[int]) -> None:
    amounts[:] = map(add, amounts, more)


def _relief(used: ResourceList, excess: ResourceList, weights: Mapping[str, int]) -> float:
    """Say how well a pod's use fits what is used too much: 2 if it is just that, less if more."""
    score, total = 0.0, 0
    for resource, amount in used.items():
        if resource in excess:
            share = amount / excess[resource]
            weight = weights.get(resource, 0)
            score += weight * (share if share < 1 else 1 + 1 / share)
            total += weight
    return score / total if total else 0.0
