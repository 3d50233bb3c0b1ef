"""Holds the pods of a set until all gates let all of them go, and its node has its taint.

The pods of a set come in their order, each through all gates. What keeps one of them keeps the
set; what only waits for its turn does not. Where the last one has come, the set is ready: the
controller writes the taint, and what finds the pods after that lets them go one by one. Where no
taint is written, in a dry run and for plugins that observe, a set begins by itself.

A set that makes room for a pod that waits, or for a gang, begins with the nomination of each such
pod for its node instead. The kube-scheduler may take that back when it tries the pod in between:
the set goes on all the same, until the pods are bound or one is gone, or they have waited in vain.
Where earlier moves of such a set make the places for later ones, all gates are asked about a pod as
if the moves before it were done; once the set has begun, it waits until they are.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.model.changes import Change, PodBound, PodStatusChanged
from reactive_desched.model.consolidation import (
    EMPTYING,
    consolidation_of,
)
from reactive_desched.model.decisions import Defer, GateReason, Refuse, WaitEnd, silent_end
from reactive_desched.model.findings import Finding, MoveSet
from reactive_desched.model.node_drains import drain_leaves
from reactive_desched.model.node_marks import CONSOLIDATING
from reactive_desched.model.objects import PodKey
from reactive_desched.model.wakes import WakeOn, WakeOnNode, WakeOnPod
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.consolidated_nodes import (
    ConsolidatedNodes,
    ConsolidatingTaintGone,
)
from reactive_desched.text.counts import format_count

if TYPE_CHECKING:  # loaded where settings are read
    from reactive_desched.policy.settings.moves import MoveSettings

MOVE_SET_GATE: Final = "MoveSet"

SET_INCOMPLETE: Final = GateReason(
    MOVE_SET_GATE,
    "SetIncomplete",
    "The pod is one of a set: all gates have to let all pods of its node go before the first "
    "leaves, and they have not been asked for all of them, or keep one.",
)
SET_STOPPED: Final = GateReason(
    MOVE_SET_GATE,
    "SetStopped",
    "The pod is one of a set that has begun, and another one of it is kept since: it would move in "
    "vain.",
)
OTHER_SET: Final = GateReason(
    MOVE_SET_GATE,
    "OtherSet",
    "The pod is one of a set, and another node is emptied first: one at a time.",
)
NOT_TAINTED: Final = GateReason(
    MOVE_SET_GATE,
    "NodeNotTainted",
    "The pod is one of a set, and its node gets the taint `reactive-desched/consolidating` before "
    "the first pod leaves. Where it does not, a line of the log says why: mostly the right to "
    "patch nodes is missing.",
)
BEGINS: Final = GateReason(
    MOVE_SET_GATE,
    "SetBegins",
    "The pod is one of a set that begins now: its pods leave after the last one was let go.",
)
NODE_RESTS: Final = GateReason(
    MOVE_SET_GATE,
    "NodeRests",
    "The pods of the node were to leave as a set, and the taint was taken off before the last one "
    "had left: the node is left alone for a time, longer after each such end.",
    "moves.futileBackoff",
)

NOT_NOMINATED: Final = GateReason(
    MOVE_SET_GATE,
    "PodNotNominated",
    "The pod is one of a set that makes room for a pod that waits, which is nominated for the node "
    "before the first one leaves. Where it is not, a line of the log says why: mostly the right to "
    "patch pods/status is missing.",
)
ROOM_RESTS: Final = GateReason(
    MOVE_SET_GATE,
    "RoomRests",
    "Pods have moved to make room for a pod that waits, and it was not bound: nothing moves for it "
    "for a time, and for no other pod of its namespace if it was deleted meanwhile.",
    "moves.futileBackoff",
)

EARLIER_MOVES: Final = GateReason(
    MOVE_SET_GATE,
    "EarlierMoves",
    "The pod is one of a set, and goes where another pod of it leaves first: until that one's "
    "replacement is bound elsewhere.",
)

MOVED_BY_JOBS: Final = GateReason(
    MOVE_SET_GATE,
    "SetMovedByJobs",
    "The pod is one of a set, and the profile makes migration jobs, which move pods one by one.",
    "evictions.evictor",
    keeps=True,
)

TURNS: Final = frozenset(
    {"MaxMoving", "PluginLimit", "EvictionLimit", "NamedBudget", "EvictionRateLimit"}
)
"""The gates whose pods only wait for their turn: one of them does not hold its set."""

READY_S: Final = 120.0
"""A set that was ready so long ago, and not again since, does not begin."""

MAX_PLANNED: Final = 50
"""So many nodes at most are closed that are emptied after another; others follow with the next."""

RETRY_S: Final = 30.0
BEGINS_AFTER_S: Final = 0.1
MAX_RESTS: Final = 10_000
"""So many nodes at most are remembered with their rests; then the oldest is forgotten."""

MAX_COMING: Final = 1_000
"""So many sets whose pods are being asked about are followed; beyond it the one that began to come
first is forgotten: it is incomplete until its first pod comes again."""

MAX_REST_FACTOR: Final = 16

ASK_AGAIN_S: Final = 0.5
"""So often at most all pods of a set that has begun are asked about: a hundred take some ms."""

BOUND_AFTER_S: Final = 120.0
"""So long after the last pod of its room has left, a pod that waits is taken not to be bound."""

LOST_AFTER_S: Final = 20.0
"""So long after the last pod of a room has left, it may be made elsewhere: others came there."""

STUCK_AFTER_S: Final = 600.0
"""A room of which no pod was let go for so long is given up."""


SetKey = tuple[str, str]
"""What `MoveSet.key` returns."""

RestKey = tuple[str, str]
"""What is left alone when a set was given up: a node, a pod or gang that waits, or its namespace.
"""


class _Coming(Struct):
    """The number of pods of a set that have come so far, in their order, and of those that wait."""

    pods: tuple[object, ...]
    came: int = 0
    waits: int = 0


class _Asked(Struct, frozen=True):
    """The last time that all pods of a set were asked about, and one that is kept."""

    at: float
    kept: PodKey | None = None


class _Begun(Struct):
    """A set that began without a taint, and the pods that are still to be let go."""

    moved: MoveSet
    pods: set[object]
    at: float


class _Room(Struct):
    """A set that makes room, as it began, and when the last of its pods was let go.

    `namespace` is that of the pod that waits; `left` are the pods that were let go, of `most`, also
    by the sets before this one, whose room was lost; these were `left_before`.
    """

    moved: MoveSet
    at: float
    namespace: str
    most: int
    left: int = 0
    left_before: int = 0

    @property
    def has_moved(self) -> bool:
        """Say whether one of its pods was let go."""
        return self.left > self.left_before


class _Rest(Struct, frozen=True):
    """Until when a node, a pod that waits or its namespace is left alone, in monotonic seconds.

    `times` is how often in a row.
    """

    until: float
    times: int


class NoSets:
    """Refuses the pods of sets where jobs move pods one by one."""

    name = MOVE_SET_GATE

    def check(self, finding: Finding, _: float) -> Refuse | None:
        """Refuse a pod of a set, for good."""
        if finding.move_set is None:
            return None
        message = (
            "it leaves only with the other pods of a set, and migration jobs move pods one by one"
        )
        return MOVED_BY_JOBS.refuse(finding, message, (WakeOnPod(finding.pod.uid),))


class MoveSets:
    """The sets of one controller's evictions; times are monotonic seconds.

    `marks` says whether a set begins with a taint, or a nomination. `ready` are the sets that are
    to have it now, `following` the nodes whose turn comes after them, and `rooms` the sets that
    make room and have begun with a nomination.
    """

    reacts_to = (ConsolidatingTaintGone, PodStatusChanged, PodBound)
    indexes = (ConsolidatedNodes,)

    def __init__(
        self,
        view: ClusterView,
        settings: "MoveSettings",
        node_fit: SchedulerNodeFit,
        *,
        marks: bool,
    ) -> None:
        self._view = view
        self._settings = settings
        self._node_fit = node_fit
        self._marks = marks
        self._coming: dict[SetKey, _Coming] = {}  # the one that began to come first is first
        self._ready: dict[SetKey, tuple[float, MoveSet]] = {}
        self._following: dict[SetKey, tuple[float, MoveSet]] = {}
        self._begun: dict[SetKey, _Begun] = {}
        self._rooms: dict[SetKey, _Room] = {}
        self._rests: dict[RestKey, _Rest] = {}
        self._asked: dict[SetKey, _Asked] = {}

    def reconfigure(self, settings: "MoveSettings") -> None:
        """Apply another rest; sets that are ready have to be so again."""
        self._settings = settings
        self._coming.clear()
        self._ready.clear()
        self._following.clear()

    def ready(self, now: float) -> list[MoveSet]:
        """Return the sets whose nodes are to have the taint now, or whose pods the nomination."""
        tainted = self._view.index(ConsolidatedNodes).names
        return [
            each
            for at, each in self._ready.values()
            if now - at <= READY_S
            and (self._waits(each) if each.rooms else each.node not in tainted)
        ]

    @property
    def is_emptying(self) -> bool:
        """Say whether a node is being emptied that has the taint."""
        return any(self._under_way())

    def following(self, now: float) -> list[str]:
        """Return the nodes that are emptied after one that has the taint, or is to have it now.

        Those that have one already are left out.
        """
        if not self.is_emptying and all(each.rooms for each in self.ready(now)):
            return []
        index = self._view.index(ConsolidatedNodes)
        there = {*index.names, *index.planned}
        found = [
            each.node
            for at, each in self._following.values()
            if now - at <= READY_S and each.node not in there
        ]
        return found[: max(0, MAX_PLANNED - len(index.planned))]

    def rooms(self, now: float) -> list[MoveSet]:
        """Return the sets that make room, have begun, and whose pod still waits, not in vain."""
        anew = {each.key for each in self.ready(now)}
        return [
            room.moved
            for key, room in self._rooms.items()
            if key not in anew and self._waits(room.moved) and not self._is_in_vain(room, now)
        ]

    def rests_until(self, moved: MoveSet, now: float) -> float | None:
        """Return until when a node, or a pod that waits, is left alone; None where it is not."""
        rests = map(self._rests.get, self._resting_keys(moved))
        return max((each.until for each in rests if each and each.until > now), default=None)

    def asks_for_all(self, finding: Finding, now: float) -> bool:
        """Say whether the finding is of a set that has not begun."""
        return finding.move_set is not None and not self._has_begun(finding.move_set, now)

    def let_go(self, finding: Finding, now: float) -> None:
        """Note a pod that leaves: a set without a mark ends with its last one."""
        if (moved := finding.move_set) is None:
            return
        if (room := self._rooms.get(moved.key)) is not None:
            room.at = now
            room.left += 1
        if (begun := self._begun.get(moved.key)) is not None:
            begun.pods.discard(finding.pod.uid)
            if not begun.pods:
                del self._begun[moved.key]

    def others_to_ask(self, finding: Finding, now: float) -> Iterator[Finding]:
        """Yield what is asked about the other pods of a set that has begun, not too often.

        `note_kept` notes what keeps one of them.
        """
        moved = finding.move_set
        assert moved is not None, "it is asked about sets"
        asked = self._asked.get(moved.key)
        if asked is not None and now - asked.at < ASK_AGAIN_S:
            return
        self._asked.pop(moved.key, None)
        while len(self._asked) >= MAX_COMING:
            del self._asked[next(iter(self._asked))]
        self._asked[moved.key] = _Asked(now)
        for uid in moved.pods:
            pod = None if uid == finding.pod.uid else self._view.pod(uid)
            if pod is not None and not pod.is_terminating:
                yield replace(finding, pod=pod)

    def note_kept(self, by: Refuse) -> None:
        """Note that a pod of a set that has begun is kept: the others would move in vain."""
        assert by.finding.move_set is not None, "it is one of a set"
        key = by.finding.move_set.key
        self._asked[key] = _Asked(self._asked[key].at, by.finding.pod.uid)

    def stopped(self, finding: Finding) -> Refuse | None:
        """Return that another pod of a set that has begun is kept, if one was a moment ago."""
        moved = finding.move_set
        assert moved is not None, "it is asked about sets"
        kept = self._asked[moved.key].kept
        there = None if kept in (None, finding.pod.uid) else self._view.pod(kept)
        if there is None:
            return None
        message = f"{there} is one of the same set and is kept, so this one would move in vain"
        wakes = (WakeOnPod(there.uid), WakeOnPod(finding.pod.uid))
        return SET_STOPPED.refuse(finding, message, wakes, turn=_row(moved))

    def after_earlier_moves(self, finding: Finding, now: float) -> AbstractContextManager[None]:
        """Let node fit answer as if the moves before this one were done, unless that is awaited.

        So it is until the set has begun, and where nothing moves at all, in a dry run.
        """
        moved = finding.move_set
        if moved is None or not moved.earlier:
            return nullcontext()
        if self._marks and self._has_begun(moved, now):
            return nullcontext()
        before = takewhile(lambda each: each.pod != finding.pod.uid, moved.earlier)
        there = ((self._view.pod(each.pod), each) for each in before)
        moves = [(pod, each.to) for pod, each in there if pod is not None and pod.node == each.node]
        return self._node_fit.after(moves)

    def waits_for_earlier(self, finding: Finding, now: float) -> Refuse | None:
        """Return that a move before this one is not done yet; None where nothing has to move.

        What room it needs there is another question, which node fit answers.
        """
        moved = finding.move_set
        assert moved is not None, "it is asked about sets"
        room = self._rooms.get(moved.key)
        if room is None:
            return None
        before = takewhile(lambda each: each.pod != finding.pod.uid, room.moved.earlier)
        for each in before:
            pod = self._view.pod(each.pod)
            if pod is None and not self._node_fit.is_place_reserved(each.pod):
                continue
            which = "a pod" if pod is None else str(pod)
            message = (
                f"{which} leaves {each.node} first, which makes the place for this one: it waits "
                "until the replacement is bound elsewhere"
            )
            wakes = (WakeOnPod(each.pod), WakeOnPod(finding.pod.uid), WakeOnNode(each.to))
            return EARLIER_MOVES.refuse(finding, message, wakes, now + RETRY_S, turn=_row(moved))
        return None

    def check(self, finding: Finding, now: float, *, waits: bool) -> Defer | Refuse | None:
        """Decide on a pod of a set that has not begun, which all other gates let go.

        With `waits` it waits for its turn; what is returned for it counts instead, if anything.
        """
        moved = finding.move_set
        assert moved is not None, "it is asked about sets"
        if (until := self.rests_until(moved, now)) is not None:
            return self._resting(finding, moved, until)
        coming = self._follow(moved, finding, waits=waits)
        if coming is None or coming.came < len(moved.pods):
            return self._incomplete(finding, moved)
        if coming.waits == len(moved.pods):
            return None
        self._following.pop(moved.key, None)
        if (waiting := self._waiting(finding, moved, now)) is not None:
            self._follows(moved, now)
            return waiting
        return self._begin(finding, moved, now)

    def lapsed(self, finding: Finding) -> str:
        """Say why the pod of a set that has begun need not leave any more; empty where it has to.

        Its node lost the taint of the set, or the pod waits no more that room was made for.
        """
        if (moved := finding.move_set) is None:
            return ""
        if moved.rooms:
            if (gone := self._gone_node(moved)) is not None:
                return f"node {gone}, on which room was made, is gone"
            return "" if self._waits(moved) else f"{self._named(moved)} waits for room no more"
        has_taint = not self._marks or moved.node in self._view.index(ConsolidatedNodes).names
        return "" if has_taint else f"node {moved.node} has lost the taint {CONSOLIDATING}"

    def explain(self, finding: Finding, now: float) -> Defer | Refuse | None:
        """Return what keeps a pod of a set, as far as that is so without another look at all."""
        moved = finding.move_set
        if moved is None:
            return None
        if not self.asks_for_all(finding, now):
            return self.waits_for_earlier(finding, now)
        return self._rests_or_turn(finding, moved, now) or self._incomplete(finding, moved)

    def apply_changes(self, changes: Sequence[Change], now: float) -> bool:
        """Let a node rest whose taint was taken off before it was empty; begin to make room."""
        for change in changes:
            if isinstance(change, ConsolidatingTaintGone):
                self._ready.pop((change.node, ""), None)
                if self._is_used(change.node):
                    self._rest(("node", change.node), now)
            elif isinstance(change, PodBound) and self._rooms:
                self._end_rooms(now)  # while it is seen: it may be deleted before the next look
            elif isinstance(change, PodStatusChanged) and change.pod.status.nominated_node:
                self._begin_rooms_of(change.pod.uid, now)
        return False

    def _follow(self, moved: MoveSet, finding: Finding, *, waits: bool) -> _Coming | None:
        """Count a pod that came in its turn; None where one before it did not come."""
        uid = finding.pod.uid
        if moved.pods[0] == uid:
            self._coming.pop(moved.key, None)
            while len(self._coming) >= MAX_COMING:
                del self._coming[next(iter(self._coming))]
            self._coming[moved.key] = _Coming(moved.pods)
        coming = self._coming.get(moved.key)
        if coming is None or coming.pods != moved.pods or coming.came == len(moved.pods):
            return None
        if moved.pods[coming.came] != uid:
            return None
        coming.came += 1
        coming.waits += waits
        return coming

    def _follows(self, moved: MoveSet, now: float) -> None:
        """Note a set that all gates let go, and that waits for another."""
        if moved.rooms:
            return
        self._following = {
            key: each for key, each in self._following.items() if now - each[0] <= READY_S
        }
        if len(self._following) < MAX_PLANNED:
            self._following[moved.key] = now, moved

    def _rests_or_turn(self, finding: Finding, moved: MoveSet, now: float) -> Refuse | None:
        if (until := self.rests_until(moved, now)) is not None:
            return self._resting(finding, moved, until)
        return self._waiting(finding, moved, now)

    def _resting(self, finding: Finding, moved: MoveSet, until: float) -> Refuse:
        wakes = (WakeOnPod(finding.pod.uid),)
        if moved.rooms:
            message = (
                f"pods moved to make room for {self._named(moved)}, and it was not bound: "
                "nothing moves for it for a time"
            )
            if self._resting_keys(moved)[0] not in self._rests:
                message = (
                    f"pods moved to make room for another pod of the namespace of "
                    f"{self._named(moved)}, and that was deleted before it was bound: "
                    "nothing moves for pods of the namespace for a time"
                )
            return ROOM_RESTS.refuse(finding, message, wakes, until).ending(
                WaitEnd("; it ends", until)
            )
        message = f"moves off {moved.node} were given up, so it is left alone for a time"
        return NODE_RESTS.refuse(finding, message, wakes, until).ending(WaitEnd("; it ends", until))

    def _waiting(self, finding: Finding, moved: MoveSet, now: float) -> Refuse | None:
        if (other := self._other_set(moved, now)) is None:
            return None
        message = f"node {other.node} is emptied first, one at a time"
        first: tuple[WakeOn, ...] = (WakeOnNode(other.node),)
        if other.rooms:
            where = _nodes_of(other)
            message = f"room for {self._named(other)} on {where} comes first, one at a time"
            first = tuple(WakeOnPod(each.pod) for each in other.rooms)
        wakes = (*first, WakeOnPod(finding.pod.uid))
        return OTHER_SET.refuse(finding, message, wakes, now + RETRY_S, turn=_row(moved))

    def _incomplete(self, finding: Finding, moved: MoveSet) -> Refuse:
        pods = format_count(len(moved.pods), "pod")
        which = f"{pods} of {moved.node}"
        if moved.rooms:
            which = f"{pods} that make room on {_nodes_of(moved)} for {self._named(moved)}"
        message = (
            f"all {which} have to be let go before "
            f"the first leaves: `reactive-desched why --node {moved.node}` says what keeps one"
        )
        nodes = dict.fromkeys((moved.node, *moved.nodes))
        wakes = (*map(WakeOnNode, nodes), WakeOnPod(finding.pod.uid))
        return SET_INCOMPLETE.refuse(finding, message, wakes, turn=_row(moved))

    def _begin(self, finding: Finding, moved: MoveSet, now: float) -> Defer | Refuse:
        self._coming.pop(moved.key, None)
        is_marked = bool(moved.rooms) and self._is_nominated(moved)
        if is_marked:
            self._begin_room(moved, now)
        if is_marked or not self._marks:
            if not is_marked:
                self._begun[moved.key] = _Begun(moved, set(moved.pods), now)
            message = f"all gates let the pods of {_nodes_of(moved)} go: they leave now"
            at = now + BEGINS_AFTER_S
            return BEGINS.defer(finding, message, at, turn=_row(moved), end=silent_end(at))
        self._ready = {key: each for key, each in self._ready.items() if now - each[0] <= READY_S}
        self._ready[moved.key] = now, moved
        if moved.rooms:
            message = (
                f"all gates let the pods go that make room for {self._named(moved)}: it "
                f"is nominated for {_nodes_of(moved)}, and then they leave"
            )
            waits = *(WakeOnPod(each.pod) for each in moved.rooms), WakeOnPod(finding.pod.uid)
            return NOT_NOMINATED.refuse(finding, message, waits, now + RETRY_S, turn=_row(moved))
        self._following.clear()  # they follow by an earlier plan; those of this one come after it
        message = (
            f"all gates let the pods of {moved.node} go: it gets the taint {CONSOLIDATING}, and "
            "then they leave"
        )
        wakes = WakeOnNode(moved.node), WakeOnPod(finding.pod.uid)
        return NOT_TAINTED.refuse(finding, message, wakes, now + RETRY_S, turn=_row(moved))

    def _has_begun(self, moved: MoveSet, now: float) -> bool:
        if not self._marks:
            return moved.key in self._begun
        if moved.rooms:
            self._end_rooms(now)
            room = self._rooms.get(moved.key)
            return room is not None and set(moved.pods) <= set(room.moved.pods)
        return moved.node in self._under_way()

    def _end_rooms(self, now: float) -> None:
        """Forget the rooms whose pods are bound or gone; those in vain rest."""
        for key, room in list(self._rooms.items()):
            if not self._waits(room.moved):
                del self._rooms[key]
                self._end_room(room, now)
            elif self._is_in_vain(room, now):
                del self._rooms[key]
                self._rest(self._resting_keys(room.moved)[0], now)

    def _end_room(self, room: _Room, now: float) -> None:
        """Let the namespace rest whose pod was deleted though others had moved for it.

        Who may create pods there could have others' pods moved for ever: each new pod is another.
        """
        if self._gone_node(room.moved) is not None:
            return
        there = [self._view.pod(each.pod) for each in room.moved.rooms]
        if all(pod is not None and pod.node for pod in there):
            self._rests.pop(("namespace", room.namespace), None)
        elif room.left:
            self._rest(("namespace", room.namespace), now)

    def _begin_rooms_of(self, uid: PodKey, now: float) -> None:
        """Begin the set that waited for the nomination of this pod last, if there is one."""
        for at, moved in list(self._ready.values()):
            is_of_it = any(each.pod == uid for each in moved.rooms)
            if is_of_it and now - at <= READY_S and self._is_nominated(moved):
                self._begin_room(moved, now)

    def _begin_room(self, moved: MoveSet, now: float) -> None:
        self._ready.pop(moved.key, None)
        before = self._rooms.get(moved.key)
        left, most = (0, moved.most) if before is None else (before.left, before.most)
        self._rooms[moved.key] = _Room(moved, now, self._namespace_of(moved), most, left, left)

    def _is_nominated(self, moved: MoveSet) -> bool:
        """Say whether every pod that waits is nominated for its node, or bound."""
        there = [(self._view.pod(each.pod), each.node) for each in moved.rooms]
        return self._marks and all(
            pod is not None and (pod.node or pod.status.nominated_node == node)
            for pod, node in there
        )

    def _waits(self, moved: MoveSet) -> bool:
        """Say whether a pod for which room is made has no node, and no pod or node is gone."""
        if self._gone_node(moved) is not None:
            return False
        there = [self._view.pod(each.pod) for each in moved.rooms]
        if any(pod is None or pod.is_terminating for pod in there):
            return False
        return any(pod is not None and pod.is_pending for pod in there)

    def _gone_node(self, moved: MoveSet) -> str | None:
        """Return a node on which the set makes room or a place, and that is gone."""
        for name in moved.nodes if moved.rooms else ():
            info = self._view.node_info(name)
            if info is None or info.node is None:
                return name
        return None

    def _namespace_of(self, moved: MoveSet) -> str:
        if moved.gang is not None:
            return moved.gang.namespace
        pod = self._view.pod(moved.rooms[0].pod) if moved.rooms else None
        return "" if pod is None else pod.namespace

    def _resting_keys(self, moved: MoveSet) -> tuple[RestKey, ...]:
        """Return what may be left alone that the set is about, what it is about alone first."""
        if not moved.rooms:
            return (("node", moved.node),)
        alone = ("pod", moved.rooms[0].pod) if moved.gang is None else ("gang", moved.gang.title)
        return alone, ("namespace", self._namespace_of(moved))

    def _is_lost(self, room: _Room, moved: MoveSet, now: float) -> bool:
        """Say whether other pods have to move, as many as may, since others took the room."""
        if now - room.at < LOST_AFTER_S or room.left + len(moved.pods) > room.most:
            return False
        there = map(self._view.pod, room.moved.pods)
        return all(pod is None or pod.has_ended for pod in there)

    def _is_in_vain(self, room: _Room, now: float) -> bool:
        there = map(self._view.pod, room.moved.pods)
        if any(pod is not None and pod.is_active for pod in there):
            return now - room.at > STUCK_AFTER_S
        return now - room.at > BOUND_AFTER_S

    def _named(self, moved: MoveSet) -> str:
        """Name what the set makes room for."""
        if moved.gang is not None:
            return moved.gang.title
        pod = self._view.pod(moved.rooms[0].pod)
        return "a pod that is gone" if pod is None else f"pod {pod}"

    def _under_way(self) -> Iterator[str]:
        """Yield the nodes whose sets have begun with a taint, and that are not empty."""
        for name in self._view.index(ConsolidatedNodes).names:
            info = self._view.node_info(name)
            node = None if info is None else info.node
            if node is not None and consolidation_of(node) == EMPTYING and self._is_used(name):
                yield name

    def _other_set(self, moved: MoveSet, now: float) -> MoveSet | None:
        """Return another set that is under way, or ready."""
        if not self._marks:
            self._begun = {
                key: each for key, each in self._begun.items() if now - each.at <= READY_S
            }
            others = [each.moved for each in self._begun.values()]
            return next((each for each in others if each.key != moved.key), None)
        room = self._rooms.get(moved.key)
        if room is not None and room.has_moved and not self._is_lost(room, moved, now):
            return room.moved  # its pods are others now: it began with no more than may move
        others = [MoveSet(name, ()) for name in self._under_way()]
        others += (*self.rooms(now), *self.ready(now))
        others.sort(key=lambda each: each.key)
        return next((each for each in others if each.key != moved.key), None)

    def _is_used(self, node: str) -> bool:
        info = self._view.node_info(node)
        return info is not None and not all(map(drain_leaves, info.active.values()))

    def _rest(self, key: RestKey, now: float) -> None:
        times = 1 + (self._rests[key].times if key in self._rests else 0)
        self._rests.pop(key, None)
        while len(self._rests) >= MAX_RESTS:
            del self._rests[next(iter(self._rests))]
        factor = min(2 ** (times - 1), MAX_REST_FACTOR)
        self._rests[key] = _Rest(now + factor * self._settings.futile_backoff_s, times)


def _row(moved: MoveSet) -> str:
    if moved.rooms:
        return f"the set that makes room on {_nodes_of(moved)}"
    return f"the set of node {moved.node}"


def _nodes_of(moved: MoveSet) -> str:
    """Name the node that the set is about; of several the first, and how many more."""
    others = {each.node for each in moved.rooms} - {moved.node}
    return f"{moved.node} and {len(others)} more" if others else moved.node
