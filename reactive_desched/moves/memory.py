"""Remembers each owner's moves, so that none is repeated in a loop.

Five rules, the first two per owner and pod template, then per node (`NodeMemory`), and one per
namespace (`FailingMoves`):

- A move is futile when its plugin finds the same of the replacement where it landed, or when the
  replacement does not run. The owner then rests from that plugin, twice as long each time; after
  `futile_after` futile moves in a row it is parked until something changes that may matter.
- A replacement stays for the cool-down before any plugin evicts it again, and so does a pod on a
  node that one of its siblings was evicted from before it was created, unless the labels or taints
  of the node change. The time doubles whenever a replacement is evicted although it has not stayed
  twice as long as it had to: two plugins that disagree, or a scheduler that puts pods back, slow
  each other down.
- A node to which a balance plugin moved a pod gives that plugin none for the node's cool-down,
  unless the labels or taints of the node change: what came has not settled yet.
- A node from which a plugin's moves of several owners in a row were futile rests from that plugin
  in the same way, if it is the node that the plugin wants to relieve.
- A namespace in which the replacements of several workloads do not come up loses no other pod.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import ClassVar, Final

from msgspec import Struct

from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.ledger.eviction import Eviction, owner_of
from reactive_desched.ledger.participant import EvictionParticipant
from reactive_desched.model.changes import Change, NodeChange
from reactive_desched.model.decisions import Defer, GateReason, Refuse, WaitEnd
from reactive_desched.model.findings import Finding
from reactive_desched.model.labels import EVERYTHING
from reactive_desched.model.moves import MoveEnd, MoveOrigin, MoveOwner
from reactive_desched.model.objects import Pod, PodKey
from reactive_desched.model.outcomes import Outcome
from reactive_desched.model.wakes import WakeOn, WakeOnPod
from reactive_desched.moves.failing_moves import FailingMoves
from reactive_desched.moves.node_memory import (
    MAX_REST_S,
    MEMORY_GATE,
    MEMORY_S,
    Arrivals,
    NodeMemory,
    RestingNode,
    WakeOnAnyNode,
)
from reactive_desched.policy.settings.moves import MoveSettings
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.owners import OwnerIndex
from reactive_desched.telemetry.metrics import Metric, gauge
from reactive_desched.text.ages import format_age

MAX_OWNERS: Final = 10_000
"""So many owners are remembered; of those above it the one not moved for longest is forgotten."""

MAX_REPLACEMENTS: Final = 20_000
"""So many replacements are remembered; beyond that the oldest is forgotten."""

MAX_MOVES_LISTED: Final = 10
"""So many moves of each owner are kept for people to read, and so many nodes that it left."""

MAX_TIMES_LEFT: Final = 10
"""So many evictions of an owner's pods from one node are kept: a pod that was created between two
of them stays for the cool-down of the one before."""

MAX_MOVES: Final = 10_000
"""So many moves of all owners are kept, of some 600 bytes each. Beyond that one goes of the owner
of which none ended for longest."""

LATE_FINDING_S: Final = 60.0
"""A finding on a replacement counts as one of its landing until so long after the move ended."""

FUTILE: Final = GateReason(
    MEMORY_GATE,
    "Futile",
    "Moving the owner's pods did not help several times in a row; the plugin leaves the owner "
    "alone until its pod template, a node or the policy changes, a node comes to have room where "
    "none had any, or `eviction-loops clear` clears it; for a day at most.",
    "moves.futileAfter",
)
RESTING: Final = GateReason(
    MEMORY_GATE,
    "LastMoveFutile",
    "The finding held for the last replacement, too, or it did not run: the owner rests, twice "
    "as long each time.",
    "moves.futileBackoff",
)
COOLING_DOWN: Final = GateReason(
    MEMORY_GATE,
    "CoolingDown",
    "The pod replaced an evicted one a short time ago; it stays for `moves.cooldown`, twice as "
    "long after each repetition.",
    "moves.cooldown",
)

FUTILE_OWNERS: Final = gauge("futile_owners", "Owners that a plugin leaves alone as futile.")
RESTING_OWNERS: Final = gauge("resting_owners", "Owners that rest after a futile move.")
RESTING_NODES: Final = gauge("resting_nodes", "Nodes that rest because moves did not relieve them.")


class RememberedMove(Struct, frozen=True, gc=False):
    """One move as people read it; `ended_at` is monotonic seconds."""

    ended_at: float
    origin: MoveOrigin
    end: MoveEnd


class FutileRow(Struct, frozen=True, gc=False):
    """A row of `eviction-loops list`, of one owner and plugin; times are monotonic seconds."""

    owner: MoveOwner
    template_hash: str
    plugin: str
    futile_moves: int
    is_parked: bool
    last_at: float
    until: float
    moves: tuple[RememberedMove, ...]


class _Streak:
    """Futile moves in a row by one plugin; `had_room` says whether a pod fit elsewhere after them.

    It is None until that was looked for.
    """

    __slots__ = ("count", "had_room", "last_at")

    def __init__(self, count: int, last_at: float) -> None:
        self.count = count
        self.last_at = last_at
        self.had_room: bool | None = None


class _Landing:
    """A replacement: the pod that it replaced, when it landed, and what came of the move."""

    __slots__ = ("at", "ended_at", "is_futile", "origin", "streak_before")

    def __init__(self, origin: MoveOrigin, at: float) -> None:
        self.origin = origin
        self.at = at
        self.ended_at: float | None = None
        self.is_futile = False
        self.streak_before = 0


class _OwnerMemory:
    """The memory of one owner with one pod template."""

    __slots__ = ("left", "level", "owner", "streaks")

    def __init__(self, owner: MoveOwner) -> None:
        self.owner = owner
        self.streaks: dict[str, _Streak] = {}
        self.level = 0
        self.left: dict[str, deque[tuple[float, float]]] = {}


_OwnerKey = tuple[str, str]  # the owner's key and the template's hash


class _MovesToRead:
    """The last moves of each owner and template, for people to read; no rule looks at them."""

    def __init__(self) -> None:
        self._by_owner: OrderedDict[_OwnerKey, deque[RememberedMove]] = OrderedDict()
        self._count = 0

    def __iter__(self) -> Iterator[RememberedMove]:
        return chain.from_iterable(self._by_owner.values())

    def add(self, key: _OwnerKey, move: RememberedMove) -> None:
        """Keep a move that has ended now; what is beyond the bounds goes."""
        moves = self._by_owner.setdefault(key, deque())
        self._by_owner.move_to_end(key)
        moves.append(move)
        self._count += 1
        if len(moves) > MAX_MOVES_LISTED:
            self._drop_oldest(key)
        elif self._count > MAX_MOVES:
            self._drop_oldest(next(iter(self._by_owner)))

    def _drop_oldest(self, key: _OwnerKey) -> None:
        moves = self._by_owner[key]
        moves.popleft()
        self._count -= 1
        if not moves:
            del self._by_owner[key]

    def of(self, key: _OwnerKey) -> Iterable[RememberedMove]:
        """Return those of an owner and template, the oldest first."""
        return self._by_owner.get(key, ())

    def forget(self, key: _OwnerKey) -> None:
        """Drop those of an owner and template."""
        self._count -= len(self._by_owner.pop(key, ()))


class MoveMemory(EvictionParticipant):
    """The filter that blocks repeated moves, and its memory; times are monotonic seconds."""

    name = MEMORY_GATE
    indexes = (OwnerIndex, *FailingMoves.indexes)
    reacts_to: ClassVar = WakeOnAnyNode.changes

    def __init__(
        self, view: ClusterView, settings: MoveSettings, node_fit: SchedulerNodeFit
    ) -> None:
        self._view = view
        self._settings = settings
        self._node_fit = node_fit
        self._owners: OrderedDict[_OwnerKey, _OwnerMemory] = OrderedDict()  # last moved, last
        self._moves = _MovesToRead()
        self._landings: OrderedDict[PodKey, _Landing] = OrderedDict()
        self._nodes = NodeMemory(settings)
        self._failing = FailingMoves(view, settings)
        self.arrivals = Arrivals()

    def reconfigure(self, settings: MoveSettings, *, policy_changed: bool) -> None:
        """Apply other settings; under another policy no owner is futile before it proves so."""
        self._settings = settings
        self._nodes.reconfigure(settings, policy_changed=policy_changed)
        self._failing.reconfigure(settings)
        if policy_changed:
            self.arrivals.clear()
            for memory in self._owners.values():
                memory.streaks.clear()

    def collect(self, now: float) -> Iterator[Metric]:
        """Yield how many owners are parked, and how many owners and nodes rest."""
        rows = list(self.rows(now))
        yield FUTILE_OWNERS.value(len({row.owner.key for row in rows if row.is_parked}))
        yield RESTING_OWNERS.value(len({row.owner.key for row in rows if not row.is_parked}))
        yield RESTING_NODES.value(len({each.node for each in self._nodes.resting(now)}))

    # --- the filter ---

    def check(self, finding: Finding, now: float) -> Defer | Refuse | None:
        """Block a pod whose owner is futile or rests, or that replaced another a while ago.

        Also one that a plugin would move away from a node to which it moved another, or from one
        that its moves do not relieve.
        """
        pod = finding.pod
        owner = owner_of(pod, self._view.index(OwnerIndex).chain(pod))
        if (memory := self._owners.get(_key_of(owner, pod.template_hash))) is not None and (
            found := self._check_streak(finding, memory, now)
            or self._check_cooldown(finding, memory, now)
        ):
            return found
        return self._nodes.check(finding, owner.key, now) or self._failing.check(finding, now)

    def _check_streak(
        self, finding: Finding, memory: _OwnerMemory, now: float
    ) -> Defer | Refuse | None:
        streak = memory.streaks.get(finding.plugin)
        if streak is None or now >= streak.last_at + MEMORY_S:
            return None
        moves = "move was" if streak.count == 1 else f"{streak.count} moves in a row were"
        owner = memory.owner
        reason = f"the last {moves} futile for {owner.title}: the finding held for the replacement"
        if self._is_parked(streak) and (awaited := self._awaited_room(finding, streak)) is not None:
            wakes = (WakeOnAnyNode(), WakeOnPod(finding.pod.uid), *awaited)
            message = f"{reason}; `reactive-desched eviction-loops clear {owner}` ends it"
            return FUTILE.refuse(finding, message, wakes, streak.last_at + MEMORY_S)
        if now < (until := self._rest_ends(streak)):
            end = WaitEnd("; its pods stay, and that ends", until)
            return RESTING.defer(finding, reason, until, end=end)
        return None

    def _check_cooldown(self, finding: Finding, memory: _OwnerMemory, now: float) -> Defer | None:
        pod = finding.pod
        stays_s = self._cooldown_s(memory)
        landing = self._landings.get(pod.uid)
        since = float("-inf") if landing is None else landing.at
        for left_at, left_wall_s in reversed(memory.left.get(pod.node, ())):
            if pod.created_s > left_wall_s:
                since = max(since, left_at)
                break
        if now >= (until := since + stays_s) or self._nodes.changed_since(pod.node, since):
            return None
        message = (
            f"the pod replaced an evicted one of {memory.owner.title}, and stays for "
            f"{format_age(stays_s)} from then on"
        )
        return COOLING_DOWN.defer(finding, message, until, end=WaitEnd("; that ends", until))

    def _awaited_room(self, finding: Finding, streak: _Streak) -> Sequence[WakeOn] | None:
        """Return what may make room for a parked pod that fits nowhere; None once there is room.

        Where another node had room for it all along, room was not what it wanted.
        """
        fit, pod = self._node_fit, finding.pod
        fits = fit.find_other_node(pod, EVERYTHING, finding.targets) is not None
        if streak.had_room is None:
            streak.had_room = fits
        if streak.had_room:
            return ()
        if fits:
            return None
        return fit.diagnose_other_nodes(pod, EVERYTHING, finding.targets).wake_on

    def _is_parked(self, streak: _Streak) -> bool:
        return (
            self._settings.futile_backoff_s > 0
            and streak.count >= self._settings.futile_after
            and not self._nodes.any_changed_since(streak.last_at)
        )

    def _rest_ends(self, streak: _Streak) -> float:
        rest_s = min(MAX_REST_S, self._settings.futile_backoff_s * 2.0 ** min(30, streak.count - 1))
        return streak.last_at + rest_s

    def _cooldown_s(self, memory: _OwnerMemory) -> float:
        return min(MAX_REST_S, self._settings.cooldown_s * 2.0 ** min(30, memory.level))

    # --- what happens ---

    def apply_changes(self, changes: Iterable[Change], now: float) -> bool:
        """Note which nodes differ: a parked owner may be tried once more, and pods may leave."""
        for change in changes:
            assert isinstance(change, NodeChange), "it reacts to no other"
            self._nodes.changed(change.node, now)
        return False

    def decided(self, eviction: Eviction) -> None:
        """Follow the eviction of a pod that a controller replaces."""
        if eviction.match_key is not None:
            self._failing.decided(eviction)

    def ended(self, eviction: Eviction, outcome: Outcome) -> None:
        """Remember that a pod was evicted; one that replaced another is a repetition."""
        del outcome
        if eviction.match_key is not None and (at := eviction.accepted_at) is not None:
            self._evicted(eviction.origin, at)
        elif eviction.accepted_at is None:
            self._failing.refused(eviction)

    def replaced(self, eviction: Eviction, pod: Pod) -> None:
        """Remember a replacement that was bound to a node."""
        assert eviction.scheduled_at is not None
        self._landed(pod.uid, pod.node, eviction.origin, eviction.scheduled_at, self._view.now_s)

    def followed_up(self, eviction: Eviction, end: MoveEnd) -> None:
        """Remember how a move ended; one that helped ends a streak of futile ones."""
        if eviction.match_key is not None:
            assert eviction.followed_up_at is not None
            self._ended(eviction.origin, end, eviction.followed_up_at)
            self._failing.followed_up(eviction, end, eviction.followed_up_at)

    def _evicted(self, origin: MoveOrigin, now: float) -> None:
        memory = self._memory_of(origin.owner, origin.template_hash)
        if (landing := self._landings.pop(origin.pod_uid, None)) is not None:
            stayed_long = now - landing.at >= 2 * self._cooldown_s(memory)
            if stayed_long:
                memory.level = 0
            elif not self._nodes.changed_since(origin.node, landing.at):
                memory.level += 1
        times = memory.left.pop(origin.node, None) or deque(maxlen=MAX_TIMES_LEFT)
        memory.left[origin.node] = times
        times.append((now, origin.began_s))
        if len(memory.left) > MAX_MOVES_LISTED:
            del memory.left[next(iter(memory.left))]

    def _landed(
        self, replacement: PodKey, node: str, origin: MoveOrigin, now: float, now_s: float
    ) -> None:
        """Remember a replacement on its node; `now_s` is seconds since the epoch."""
        self._nodes.arrived(node, origin.plugin, now)
        if node != origin.node:
            self.arrivals.add(replacement, node, origin.plugin, now, now_s)
        self._landings[replacement] = _Landing(origin, now)
        if len(self._landings) > MAX_REPLACEMENTS:
            self._landings.popitem(last=False)

    def observe(self, finding: Finding, now: float) -> bool:
        """Say whether the plugin itself moved the pod to this node, where it now finds the same.

        Then the move was futile. It was not when the node has become another place since, or when
        the plugin ranks it above the one that the pod came from.
        """
        landing, pod = self._landings.get(finding.pod.uid), finding.pod
        if landing is None or landing.origin.plugin != finding.plugin:
            return False
        if landing.ended_at is not None and now > landing.ended_at + LATE_FINDING_S:
            return False
        if self._nodes.changed_since(pod.node, landing.at) or _ranks_higher(finding, landing):
            return False
        if not landing.is_futile:
            owner = owner_of(pod, self._view.index(OwnerIndex).chain(pod))
            self._add_futile(self._memory_of(owner, pod.template_hash), landing, now)
        return True

    def _ended(self, origin: MoveOrigin, end: MoveEnd, now: float) -> None:
        memory = self._memory_of(origin.owner, origin.template_hash)
        self._moves.add(
            _key_of(origin.owner, origin.template_hash), RememberedMove(now, origin, end)
        )
        landing = self._landings.get(end.replacement_uid) or _Landing(origin, now)
        landing.ended_at = now
        if end.is_futile:
            if not landing.is_futile:
                self._add_futile(memory, landing, now)
        elif end.helped:
            self._nodes.add_help(origin)
            if (streak := memory.streaks.pop(origin.plugin, None)) is not None:
                landing.streak_before = streak.count

    def move_of(self, pod: str) -> RememberedMove | None:
        """Return the last move of an evicted pod, named by NAMESPACE/NAME or uid, if there is one.

        It looks through all that is remembered, which takes a millisecond at most.
        """
        named = (move for move in self._moves if move.origin.is_named(pod))
        return max(named, key=lambda move: move.ended_at, default=None)

    def moves_of(self, owner_uid: str) -> list[RememberedMove]:
        """Return the last moves of an owner's pods, of every template, the newest first."""
        moves = [move for move in self._moves if move.origin.owner.uid == owner_uid]
        return sorted(moves, key=lambda move: -move.ended_at)

    def owners_called(self, name: str) -> list[MoveOwner]:
        """Return the owners of this name (NAMESPACE/KIND/NAME) or uid; of an empty one, all."""
        owners = {memory.owner.key: memory.owner for memory in self._owners.values()}
        return [each for each in owners.values() if name in ("", str(each), each.uid)]

    def clear(self, owner_uid: str) -> int:
        """Forget an owner's moves, or with an empty uid all; return how many owners had any."""
        keys = [key for key, of in self._owners.items() if owner_uid in ("", of.owner.uid)]
        for key in keys:
            del self._owners[key]
            self._moves.forget(key)
        if not owner_uid:
            self._landings.clear()
            self._nodes.clear()
            self._failing.clear()
            self.arrivals.clear()
        return len({owner_key for owner_key, _ in keys})

    def rows(self, now: float) -> Iterator[FutileRow]:
        """Yield each owner and plugin that is parked or rests."""
        for key, memory in self._owners.items():
            for plugin, streak in memory.streaks.items():
                parked = self._is_parked(streak)
                until = streak.last_at + MEMORY_S if parked else self._rest_ends(streak)
                if now < until:
                    moves = self._moves.of(key)
                    yield FutileRow(
                        memory.owner,
                        key[1],
                        plugin,
                        streak.count,
                        parked,
                        streak.last_at,
                        until,
                        tuple(move for move in moves if move.origin.plugin == plugin),
                    )

    def is_node_doubtful(self, finding: Finding, now: float) -> bool:
        """Say whether one more move to relieve the pod's node is a trial.

        It is where the last one was futile, or where the plugin expects that this one will be.
        """
        return finding.is_trial or self._nodes.is_doubtful(finding, now)

    def resting_nodes(self, now: float) -> Iterator[RestingNode]:
        """Yield each node and plugin that rest with all their pods."""
        return self._nodes.resting(now)

    def restored(self, eviction: Eviction, now: float) -> None:
        """Remember a move of an earlier process at the time that it had.

        A time in the future, as after a step of the clock into the past, counts as now.
        """
        past, evicted_at = eviction.past, eviction.accepted_at
        if past is None or past.is_cleared or evicted_at is None or eviction.match_key is None:
            return
        origin = eviction.origin
        self._evicted(origin, evicted_at)
        if (followed := past.follow_up) is None:
            return
        at, at_s = now - max(0.0, self._view.now_s - followed.ended_s), followed.ended_s
        if followed.replacement_uid:
            self._landed(followed.replacement_uid, followed.node, origin, at, at_s)
        end = MoveEnd(
            followed.result,
            finding_holds=followed.finding_holds,
            replacement_uid=followed.replacement_uid,
            node=followed.node,
        )
        self._ended(origin, end, at)

    def _add_futile(self, memory: _OwnerMemory, landing: _Landing, now: float) -> None:
        landing.is_futile = True
        self._nodes.add_futile(landing.origin, memory.owner.key, now)
        streak = memory.streaks.get(landing.origin.plugin)
        if streak is None or now >= streak.last_at + MEMORY_S:
            memory.streaks[landing.origin.plugin] = _Streak(landing.streak_before + 1, now)
        else:
            streak.count += 1
            streak.last_at, streak.had_room = now, None

    def _memory_of(self, owner: MoveOwner, template_hash: str) -> _OwnerMemory:
        key = _key_of(owner, template_hash)
        memory = self._owners.pop(key, None) or _OwnerMemory(owner)
        self._owners[key] = memory
        if len(self._owners) > MAX_OWNERS:
            forgotten, _ = self._owners.popitem(last=False)
            self._moves.forget(forgotten)
        return memory


def _key_of(owner: MoveOwner, template_hash: str) -> _OwnerKey:
    return owner.key, template_hash


def _ranks_higher(finding: Finding, landing: _Landing) -> bool:
    """Say whether a replacement has a better place than the pod that it replaced."""
    rank, before = finding.place_rank, landing.origin.place_rank
    return rank is not None and before is not None and rank > before
