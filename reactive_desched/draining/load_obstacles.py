"""Explains why pods stay on overloaded nodes of a pool, and why nodes with room take none."""

from collections.abc import Callable, Iterator
from functools import partial

from msgspec import Struct

from reactive_desched.draining.landing import Landing, explain_return
from reactive_desched.draining.load_args import LowNodeLoadArgs
from reactive_desched.draining.load_pools import LoadPool, LoadView
from reactive_desched.draining.load_tables import GIVING, TAKING
from reactive_desched.draining.obstacles import (
    LEAVES_LATER,
    Destinations,
    Kept,
    Obstacles,
    hard_taint,
)
from reactive_desched.model.koordinator import is_prod
from reactive_desched.model.node_load import TARGETS, Level, used_amounts
from reactive_desched.model.objects import Node, Pod
from reactive_desched.model.taints import Taint
from reactive_desched.primitives.long_answers import at_once
from reactive_desched.state.indexes.node_loads import LoadedNode, PoolClasses


class LoadObstacles(Struct, frozen=True):
    """The obstacles to moves in one pool, as a plan sees the classes of its nodes."""

    args: LowNodeLoadArgs
    pool: LoadPool
    look: LoadView
    classes: PoolClasses

    def lines(self, level: Level) -> Iterator[str]:
        """Say what keeps pods from moving by the thresholds of a level."""
        yield from self._stopped()
        if not self.classes.selected:
            matches = "" if self.pool.takes_every_node else ": its nodeSelector matches none"
            yield f"no node is in the pool{matches}"
            return
        for text in self._unconfirmed():
            yield f"{text}; --passes {self.pool.abnormalities + 1} looks so often"
        yield from self._unmeasured()
        yield from self._blocking()
        if not any(self._stopped()):
            yield from self._on(level).lines()

    def of_node(self, level: Level, name: str) -> str:
        """Say why a node with room on a level takes no pods; empty if it does."""
        return self._on(level).of_node(name)

    def described(self, pod: Pod, level: Level) -> Iterator[str]:
        """Say what keeps a pod of the pool where it is, or pods in general."""
        obstacles = self._on(level)
        if obstacles.gives(pod.node):
            yield obstacles.reason(pod)
            return
        yield from self._stopped()
        yield from self._unconfirmed()
        yield from self._blocking()

    def of_pod(self) -> Iterator[Callable[[Pod], str]]:
        """Yield for each level what says why a pod stays on a node that gives pods away."""
        return (self._on(level).of_pod for level in Level)

    def _on(self, level: Level) -> Obstacles:
        sources = self.classes.of(GIVING[level])
        measured = {each.load.name: each for each in sources}

        def kept(pod: Pod) -> Kept | None:
            if level is Level.PROD and not is_prod(pod):
                return Kept("no production pods", "it is no production pod")
            if not self.args.covers(pod):
                return Kept("left by the arguments", "the arguments leave the pod where it is")
            if self.args.node_fit and str(pod) not in measured[pod.node].load.pods:
                return Kept("not measured yet", "what the pod uses is not measured yet")
            return None

        destinations = _LoadDestinations(self, level, measured)
        return Obstacles(
            self.look.view,
            measured,
            "overutilized" if level is Level.NODE else "overutilized by production pods",
            kept,
            destinations,
            (*self._stopped(), *self._blocking()),
            otherwise=partial(self._why_not_chosen, destinations),
        )

    def _why_not_chosen(self, destinations: Destinations, pod: Pod) -> str:
        """Say why a pod stays that some node with room would take."""
        if self.args.node_fit and not self.look.is_sweep:
            rivals = [each.load.name for each in self.classes.of(*GIVING.values())]
            pull = at_once(Landing(self.look.view, rivals, packs=False).pull_on(pod))
            taking = (name for name in destinations.first if not destinations.refusal(name, pod))
            if pull is not None and all(map(pull.comes_back, taking)):
                return explain_return(pod)
        return next(self._unconfirmed(), LEAVES_LATER)

    def _stopped(self) -> Iterator[str]:
        """Say what in the arguments keeps all pods from moving."""
        if self.args.paused:
            yield "paused: the plugin does nothing"
        if self.args.dry_run:
            yield "dryRun: the plugin evicts nothing"

    def _unconfirmed(self) -> Iterator[str]:
        """Say until when an overloaded node gives no pods."""
        if times := self.pool.abnormalities:
            yield (
                f"an overutilized node gives pods once it was found so more than {times} times in"
                " succession"
            )

    def _unmeasured(self) -> Iterator[str]:
        measured, selected = sum(map(len, self.classes.by_class.values())), self.classes.selected
        if measured < selected:
            count = selected - measured
            yield f"{count} of {selected} nodes have no recent measurement: they are left out"

    def _blocking(self) -> Iterator[str]:
        """Say why nothing moves in the pool, whatever the pods are."""
        classes, number = self.classes, self.args.number_of_nodes
        with_room = len(classes.of(*TARGETS))
        if not classes.of(*GIVING.values()):
            yield "no node gives pods away: that takes one that is overutilized"
        if not with_room:
            yield "no node takes pods: that takes one that is underutilized and not cordoned"
        elif with_room <= number:
            yield f"numberOfNodes is {number}: no more nodes than that have room"
        elif with_room >= classes.selected:
            yield "every node of the pool has room"


class _LoadDestinations(Destinations):
    """The nodes with room on a level; each stays within its high thresholds if fit is checked."""

    def __init__(self, of: LoadObstacles, level: Level, sources: dict[str, LoadedNode]) -> None:
        taking = map(of.look.with_reserved, of.classes.of(*TAKING[level]))
        self._loaded = {each.load.name: each for each in taking}
        super().__init__(of.look.view, {name: n.load.node for name, n in self._loaded.items()})
        self._rule = of.look.rule(of.pool)
        self._checks_fit = of.args.node_fit
        self._level = level
        self._sources = sources

    def refusal(self, name: str, pod: Pod) -> str:
        """Say why a node does not take a pod; empty if it does, or if fit is not checked."""
        return super().refusal(name, pod) if self._checks_fit else ""

    def untolerated(self, pod: Pod, node: Node) -> Taint | None:
        """Return a taint that keeps the kube-scheduler from placing the pod there."""
        return hard_taint(pod, node)

    def short_of(self, name: str, pod: Pod) -> str:
        """Name a resource of which a node would be loaded too much with the pod."""
        target, source = self._loaded[name], self._sources[pod.node]
        more = source.load.pods.get(str(pod), {})
        used = used_amounts(self._rule, target.load, self._level)
        high = target.limits.high(self._level)
        for resource, amount, limit in zip(self._rule.resources, used, high, strict=True):
            if amount + more.get(resource, 0) > limit:
                return resource
        return ""
