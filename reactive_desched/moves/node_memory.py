"""Remembers nodes: where replacements went, which nodes moves did not relieve, and what changed.

A node to which a plugin moved pods goes on taking pods until it is full: a plan that is carried out
pod by pod would otherwise forget, with the first pod that lands, that the node was to be filled. By
its use it hardly has room any more. `Arrivals` are stored in the cluster state as `MovedPods`,
where the indexes of the plugins read them.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final, TypeVar

from msgspec import Struct

from reactive_desched.model.changes import (
    NodeAdded,
    NodeCapacityIncreased,
    NodeGone,
    NodeLabelsChanged,
    NodeTaintsChanged,
)
from reactive_desched.model.decisions import Defer, GateReason, Refuse, WaitEnd
from reactive_desched.model.findings import Finding
from reactive_desched.model.moves import MovedPods, MoveOrigin
from reactive_desched.model.objects import PodKey
from reactive_desched.model.wakes import ChangeTypes, WakeOn
from reactive_desched.policy.settings.moves import MoveSettings
from reactive_desched.text.counts import format_count

MAX_NODES: Final = 20_000
"""So many nodes' last changes, pods that came to a node by a plugin, and nodes whose moves came to
nothing are remembered; beyond that the oldest is forgotten."""

MEMORY_S: Final = 24 * 3600.0
"""After this long a futile move and a cool-down are forgotten; the journal is read as far back."""

MAX_REST_S: Final = 12 * 3600.0
"""No back-off and no cool-down is longer."""

MAX_OWNERS_OF_NODE: Final = 100
"""So many owners are remembered whose moves from one node did not help, in a row."""

MEMORY_GATE: Final = "MoveMemory"

NODE_COOLING_DOWN: Final = GateReason(
    MEMORY_GATE,
    "NodeCoolingDown",
    "The plugin moved a pod to the node a short time ago; the node gives it none for "
    "`moves.nodeCooldown`.",
    "moves.nodeCooldown",
)
NODE_RESTING: Final = GateReason(
    MEMORY_GATE,
    "NodeMovesFutile",
    "The last pods that the plugin moved from the node came back, or went to a node that it would "
    "relieve as well, those of `moves.futileAfter` workloads in a row: the node rests from the "
    "plugin, twice as long each time, whichever pods are on it.",
    "moves.futileBackoff",
)

EXPECTED_BACK: Final = GateReason(
    MEMORY_GATE,
    "ExpectedBack",
    "The pod's replacement would most likely come back, by how the kube-scheduler places pods by "
    "default, and so did the last one of such a pod that the plugin tried to move, from this node "
    "or another: the next is tried after twelve times `moves.futileBackoff`, twice as long each "
    "time.",
    "moves.futileBackoff",
)
TRIAL_RESTS: Final = 12
"""A trial that came back is repeated after so many times `moves.futileBackoff`."""


class WakeOnAnyNode(WakeOn, frozen=True, gc=False):
    """A node came, went, grew, or has other labels or taints: pods may go elsewhere."""

    changes: ClassVar[ChangeTypes] = (
        NodeAdded,
        NodeGone,
        NodeCapacityIncreased,
        NodeTaintsChanged,
        NodeLabelsChanged,
    )
    words = "a change of a node"


NodeAndPlugin = tuple[str, str]
_KeyT = TypeVar("_KeyT")
_ValueT = TypeVar("_ValueT")


class RestingNode(Struct, frozen=True, gc=False):
    """A node that rests from a plugin; times are monotonic seconds."""

    node: str
    plugin: str
    futile_moves: int
    last_at: float
    until: float


class _Streak(Struct):
    """Futile moves from a node in a row, of which owners, and when the last one ended.

    `rests` is how often the node had to rest: not before moves of several owners were futile.
    """

    count: int
    last_at: float
    owners: frozenset[str] = frozenset()
    rests: int = 0


class NodeMemory:
    """The rules that block all pods of a node; times are monotonic seconds."""

    def __init__(self, settings: MoveSettings) -> None:
        self._settings = settings
        self._last_change_at = float("-inf")
        self._changed_at: OrderedDict[str, float] = OrderedDict()
        self._arrivals: OrderedDict[NodeAndPlugin, float] = OrderedDict()
        self._streaks: OrderedDict[NodeAndPlugin, _Streak] = OrderedDict()
        self._trials: dict[str, tuple[int, float]] = {}  # by plugin: futile in a row, the last at
        self._relieving: set[str] = set()  # plugins that evict to relieve nodes: there are few

    def reconfigure(self, settings: MoveSettings, *, policy_changed: bool) -> None:
        """Apply other settings; under another policy no node rests before it has to."""
        self._settings = settings
        if policy_changed:
            self._streaks.clear()
            self._trials.clear()

    # --- the rules ---

    def check(self, finding: Finding, owner_key: str, now: float) -> Defer | Refuse | None:
        """Block a pod that a plugin would move from a node that cools down or rests."""
        if finding.relieves_node:
            self._relieving.add(finding.plugin)
        if finding.targets is None:
            return None
        return (
            self._check_arrival(finding, now)
            or self._check_trial(finding, now)
            or self._check_streak(finding, owner_key, now)
        )

    def _check_arrival(self, finding: Finding, now: float) -> Defer | None:
        """Block a node for a plugin that chooses targets until pods that came have settled."""
        node, cooldown_s = finding.pod.node, self._settings.node_cooldown_s
        at = self._arrivals.get((node, finding.plugin))
        if at is None or now >= at + cooldown_s or self.changed_since(node, at):
            return None
        message = (
            f"{finding.plugin} moved a pod to node {node}; the node gives it none for "
            f"{cooldown_s:.0f} s from then on"
        )
        until = at + cooldown_s
        end = WaitEnd("; that ends", until)
        return NODE_COOLING_DOWN.defer(finding, message, until, scope_exhausted="node", end=end)

    def _check_trial(self, finding: Finding, now: float) -> Refuse | None:
        """Try a pod whose replacement is expected back now and then, and to learn, only one.

        What came back from one node says that the expectation is right, and so for all nodes. A
        trial that helped says that it is not.
        """
        if not finding.is_trial:
            return None
        ends, streak = [], self._streak(finding, now)
        if streak is not None:
            doublings = 0 if self._last_change_at > streak.last_at else streak.count - 1
            ends.append(self._rested_at(streak.last_at, doublings, TRIAL_RESTS))
        if (tried := self._trials.get(finding.plugin)) is not None:
            ends.append(self._rested_at(tried[1], tried[0] - 1, TRIAL_RESTS))
        if now >= (until := max(ends, default=now)):
            return None
        message = (
            f"the replacement would most likely come back to {finding.pod.node}: so it was with "
            f"the last such pod that {finding.plugin} tried to move"
        )
        wakes, end = (WakeOnAnyNode(),), WaitEnd("; another pod is tried", until)
        refusal = EXPECTED_BACK.refuse(finding, message, wakes, until, scope_exhausted="node")
        return refusal.ending(end)

    def _check_streak(self, finding: Finding, owner_key: str, now: float) -> Refuse | None:
        """Leave a node alone that moves of several workloads in a row did not relieve.

        When it has rested, a workload whose pods came back rests as long again, so that another one
        is tried before it.
        """
        node, streak = finding.pod.node, self._streak(finding, now)
        if streak is None:
            return None
        until, scope = self._rest_ends(streak), "node"
        if now >= until:
            others_first = streak.rests and self._last_change_at <= streak.last_at
            if not others_first or owner_key not in streak.owners:
                return None
            until, scope = until + (until - streak.last_at), ""
            if now >= until:
                return None
        moves = "move was" if streak.count == 1 else f"{streak.count} moves in a row were"
        workloads = format_count(len(streak.owners), "workload")
        rests = "node rests" if scope else "workload, one of these, leaves it to others"
        message = (
            f"the last {moves} futile for node {node}, with pods of {workloads}: the replacements "
            f"went to where the plugin moves pods away from; the {rests}"
        )
        wakes, end = (WakeOnAnyNode(),), WaitEnd("; that ends", until)
        refusal = NODE_RESTING.refuse(finding, message, wakes, until, scope_exhausted=scope)
        return refusal.ending(end)

    def _rest_ends(self, streak: _Streak) -> float:
        """Return when a node has rested; where the nodes have changed since, the first rest counts.

        On a node that came, replacements may land that found no other place before. While the
        moves of fewer workloads were futile than `futile_after`, only those workloads rest.
        """
        if not streak.rests:
            return streak.last_at
        doublings = 0 if self._last_change_at > streak.last_at else streak.rests - 1
        return self._rested_at(streak.last_at, doublings, 1)

    def _rested_at(self, last_at: float, doublings: int, times: int) -> float:
        rest_s = times * self._settings.futile_backoff_s * 2.0 ** min(30, doublings)
        return last_at + min(MAX_REST_S, rest_s)

    def _streak(self, finding: Finding, now: float) -> _Streak | None:
        if not finding.relieves_node:
            return None
        streak = self._streaks.get((finding.pod.node, finding.plugin))
        return None if streak is None or now >= streak.last_at + MEMORY_S else streak

    # --- questions ---

    def is_doubtful(self, finding: Finding, now: float) -> bool:
        """Say whether the last move to relieve the pod's node was futile."""
        return self._settings.futile_backoff_s > 0 and self._streak(finding, now) is not None

    def changed_since(self, node: str, at: float) -> bool:
        """Say whether a node became another place since then."""
        return self._changed_at.get(node, float("-inf")) > at

    def any_changed_since(self, at: float) -> bool:
        """Say whether any node came, went, or became another place since then."""
        return self._last_change_at > at

    def resting(self, now: float) -> Iterator[RestingNode]:
        """Yield each node that rests from a plugin; from one that relieves no node, none rests."""
        for (node, plugin), streak in self._streaks.items():
            if plugin in self._relieving and now < (until := self._rest_ends(streak)):
                yield RestingNode(node, plugin, streak.count, streak.last_at, until)

    # --- what happens ---

    def changed(self, node: str, now: float) -> None:
        """Remember that a node came, went, grew, or has other labels or taints."""
        self._last_change_at = now
        _put(self._changed_at, node, now)

    def arrived(self, node: str, plugin: str, now: float) -> None:
        """Remember that a plugin moved a pod to a node."""
        _put(self._arrivals, (node, plugin), now)

    def add_futile(self, origin: MoveOrigin, owner_key: str, now: float) -> None:
        """Remember a move of an owner's pod from a node that did not help."""
        node, plugin = origin.node, origin.plugin
        if origin.is_trial:
            count, _ = self._trials.get(plugin, (0, now))
            self._trials[plugin] = count + 1, now
        streak = self._streaks.get((node, plugin))
        if streak is None or now >= streak.last_at + MEMORY_S:
            streak = _Streak(0, now)
        owners = streak.owners
        if len(owners) < MAX_OWNERS_OF_NODE:
            owners |= {owner_key}
        rests = streak.rests + (len(owners) >= self._settings.futile_after)
        _put(self._streaks, (node, plugin), _Streak(streak.count + 1, now, owners, rests))

    def add_help(self, origin: MoveOrigin) -> None:
        """Remember a move from a node that helped: it ends a row of futile ones."""
        if origin.is_trial:
            self._trials.pop(origin.plugin, None)
        self._streaks.pop((origin.node, origin.plugin), None)

    def clear(self) -> None:
        """Forget where moves led, and which did not help."""
        self._arrivals.clear()
        self._streaks.clear()
        self._trials.clear()


def _put(remembered: OrderedDict[_KeyT, _ValueT], key: _KeyT, value: _ValueT) -> None:
    remembered.pop(key, None)
    remembered[key] = value
    if len(remembered) > MAX_NODES:
        remembered.popitem(last=False)


MAX_PODS_OF_NODE: Final = 256
"""So many pods that came last are remembered of one node and plugin."""


class _Arrived(Struct):
    """The pods that came to a node, with the times of day, and until when they are remembered."""

    pods: dict[PodKey, float]
    until: float


class Arrivals:
    """The pods that each plugin moved to each node, for a day after the last of them came.

    They are forgotten with the first change after that: that alone wakes nothing. Beyond
    `MAX_NODES` nodes those to which none came for longest are forgotten.
    """

    def __init__(self) -> None:
        self._by_node: OrderedDict[NodeAndPlugin, _Arrived] = OrderedDict()  # last arrival last
        self._changed: dict[NodeAndPlugin, MovedPods] = {}

    def add(self, pod: PodKey, node: str, plugin: str, now: float, came_s: float) -> None:
        """Remember a pod that a plugin moved to a node.

        `now` is monotonic seconds, `came_s` the same moment in seconds since the epoch.
        """
        place = node, plugin
        before = self._by_node.pop(place, None)
        pods = {} if before is None else before.pods
        pods[pod] = came_s
        if len(pods) > MAX_PODS_OF_NODE:
            del pods[next(iter(pods))]
        self._by_node[place] = _Arrived(pods, now + MEMORY_S)
        self._changed[place] = MovedPods(plugin, node, dict(pods))
        if len(self._by_node) > MAX_NODES:
            self._forget_first()

    def expire(self, now: float) -> None:
        """Forget the pods of the nodes to which none came for a day."""
        while self._by_node and next(iter(self._by_node.values())).until <= now:
            self._forget_first()

    def clear(self) -> None:
        """Forget all pods: no node is being filled any more."""
        while self._by_node:
            self._forget_first()

    @property
    def has_changed(self) -> bool:
        """Say whether `take_changed` has something to return."""
        return bool(self._changed)

    def take_changed(self) -> Sequence[MovedPods]:
        """Return, once, what is to be stored of each node that has other pods than before."""
        changed, self._changed = list(self._changed.values()), {}
        return changed

    def _forget_first(self) -> None:
        (node, plugin), _ = self._by_node.popitem(last=False)
        self._changed[node, plugin] = MovedPods(plugin, node, {})
