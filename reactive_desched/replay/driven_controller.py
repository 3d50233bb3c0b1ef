"""Drives a controller over the items of a recording, on the recorded clocks.

It is the controller's own code, as in a preview (docs/adr/0040-a-preview-runs-the-controller.md):
the watches are replaced by the recorded items, and what answers its evictions, the recorded API
server or an assumed one, is its surroundings.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from math import inf
from typing import Final, Protocol

from msgspec import Struct

from reactive_desched.controller.asked_evaluations import EvaluationScope, select_pods
from reactive_desched.controller.asked_kinds import resources_to_sync
from reactive_desched.controller.controller import Controller
from reactive_desched.controller.pauses import EvictionPauses, SuspendDetector
from reactive_desched.controller.readiness import (
    BRAKE,
    JOURNAL,
    LEADER,
    MANUAL,
    STARTUP,
    SYNC_PREFIX,
    Readiness,
)
from reactive_desched.errors import ConfigError
from reactive_desched.eviction.recorder import DecisionRecorder
from reactive_desched.model.approvals import ProposalAnswer
from reactive_desched.model.evaluation import Intent
from reactive_desched.model.objects import ClusterObject, Node, Pod
from reactive_desched.model.observer import Observer
from reactive_desched.model.usage import NodeUsage
from reactive_desched.plan.assumed_cluster import PreviewClock
from reactive_desched.policy.configuration import Configuration
from reactive_desched.primitives.long_answers import at_once
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.recording.items import (
    BrakesHeld,
    EvictionSettled,
    Instant,
    Item,
    JobLookedAt,
    JobOrderEnded,
    JobStepEnded,
    LookedForWork,
    NodesClosed,
    NodeSeen,
    ObjectChanged,
    OrderGiven,
    PauseSet,
    RequestWritten,
    ResourceDenied,
    TaintRefused,
    UsageMeasured,
    Worked,
    with_following,
)
from reactive_desched.state.nodes import NodeTimes
from reactive_desched.state.resources import NODES, PODS, WATCHED_KINDS

__all__ = ["DrivenController", "Picture", "RecordedClock", "Surroundings", "with_next"]

TICK_S: Final = 0.001
"""Timers ring on whole milliseconds: by a time that was rounded on its way into the recording one
may ring at the next one here."""

TIMER_DELAY_S: Final = 0.001
"""How late timers ring: a pause that is noticed as one rings holds what it would have done."""

ROUNDING_S: Final = 0.000_002
"""So exact are the times of items: what is due at the time of one happens after it."""

_CLOCK_ERROR_S: Final = 0.000_01
"""So much of a difference between both clocks comes from rounding."""

LATE_S: Final = 3.0
"""What is due is evaluated at the latest when the recorded process ran so long and did not."""

_RAN_S: Final = 0.5
"""Between two items it ran so long at most: in a longer time it may have starved."""

_LOOK_S: Final = 1.0
"""So often it is looked whether something is left undone."""

_NOTICED: Final = frozenset({BRAKE, JOURNAL, LEADER, MANUAL})
"""The pauses that begin when the controller looks for them, as it does before it evaluates."""

_MAX_TURNS: Final = 10_000
"""So often in a row the controller may have work at one moment."""


class RecordedClock(PreviewClock):
    """The clocks of the recorded process: monotonic seconds, and the time of day then."""

    def __init__(self, began: Instant) -> None:
        super().__init__(round(began.wall_s - began.monotonic_s, 6))
        self.now = began.monotonic_s

    def set_wall(self, at: Instant) -> None:
        """Go by the time of day that the process had at a moment."""
        if abs(at.wall_s - at.monotonic_s - self._began_s) > _CLOCK_ERROR_S:
            self._began_s = round(at.wall_s - at.monotonic_s, 6)

    @contextmanager
    def set_back(self, monotonic_s: float) -> Iterator[None]:
        """Show an earlier moment while the block lasts; a later one is now."""
        now, self.now = self.now, min(self.now, monotonic_s)
        try:
            yield
        finally:
            self.now = now

    @contextmanager
    def set_ahead(self, seconds: float) -> Iterator[None]:
        """Show a later moment while the block lasts."""
        now = self.now
        self.now += seconds
        try:
            yield
        finally:
            self.now = now

    def monotonic_of(self, wall_s: float) -> float:
        """Return the monotonic seconds of a time of day."""
        return wall_s - self._began_s


class Surroundings(Protocol):
    """The cluster and the API server around a driven controller."""

    def take(self, item: Item) -> bool:
        """Take the next recorded item: a change of an object, a sample, or what else is theirs.

        Say whether the controller has its worker look for work by that.
        """
        ...

    def send(self, intent: Intent) -> None:
        """Take an eviction that the controller decided now; they settle it later."""
        ...

    def next_due(self) -> float | None:
        """Return when something of theirs happens next, in monotonic seconds."""
        ...

    def advance(self) -> None:
        """Let happen what is due now; then nothing is due at this moment, or less than before."""
        ...


class Picture(Struct, frozen=True):
    """The cluster at the beginning: what is denied, the objects of each resource, measured use.

    `nodes_seen` has since when the recorded process saw the nodes, in the order in which it did.
    `brakes` are those that it had before it saw any node: it lost none then.
    """

    denied: Collection[str]
    objects: Mapping[str, Mapping[str, ClusterObject]]
    samples: Sequence[NodeUsage]
    nodes_seen: Sequence[NodeSeen] = ()
    brakes: Sequence[BrakesHeld] = ()


class DrivenController:
    """A controller with a picture of the cluster: `start` it, `advance_to` and `take` each item.

    `surround` builds the surroundings of the controller that is driven.
    """

    def __init__(
        self,
        configuration: Configuration,
        clock: RecordedClock,
        recorder: DecisionRecorder,
        observer: Observer,
        picture: Picture,
        surround: Callable[[Controller, Readiness], Surroundings],
        *,
        is_dry_run: bool = False,
    ) -> None:
        work_available = Wakeup()
        self._clock = clock
        self._readiness = Readiness(resources_to_sync(configuration), observer, work_available)
        self.controller: Final = Controller(
            configuration,
            readiness=self._readiness,
            recorder=recorder,
            observer=observer,
            work_available=work_available,
            suspend=SuspendDetector(lambda: 0.0),
            clock=clock.monotonic,
            wall_clock=clock.wall,
            dry_run=is_dry_run,
        )
        for held in picture.brakes:
            self._hold(held)
        self._load(picture)
        self._held = picture.brakes
        self._surroundings = surround(self.controller, self._readiness)
        self._is_adopted = False
        self._looked_s: float | None = None
        self._ran_s = self._checked_ran_s = 0.0
        self._undone_ran_s: float | None = None

    # --- the beginning ---

    def _load(self, picture: Picture) -> None:
        """Load the objects of each resource as they are listed, and measured use.

        The pauses of a start end: a recording begins when every resource was in sync.
        """
        state, seen = self.controller.state, picture.nodes_seen
        for resource in picture.denied:
            state.set_readable(resource, readable=False)
        for resource in WATCHED_KINDS:
            objects = picture.objects.get(resource, {})
            if resource == NODES:
                state.load(_in_order_seen(objects, seen))
            elif resource == PODS:
                state.load(_in_order_found(objects, seen))
            else:
                state.load(_as_listed(objects.values()))
        for each in seen:
            if isinstance(node := state.get(NODES, each.node), Node):
                state.nodes.standing.restore(node, _times_of(each))
        for sample in picture.samples:
            state.upsert(sample)
        self._readiness.resume(STARTUP)
        for name in list(self._readiness.pauses):
            if name.startswith(SYNC_PREFIX):
                self._readiness.resume(name)

    def start(self, standing: Iterable[Item]) -> None:
        """Evaluate what the picture has, with the items that hold at its beginning."""
        self.take_standing(standing)
        self._work()

    def take_standing(self, standing: Iterable[Item]) -> None:
        """Take the items that hold at the beginning of the picture."""
        for item in standing:
            if not isinstance(item, BrakesHeld):
                self._take(item)
            elif item not in self._held:
                self._hold(item)

    def _hold(self, item: BrakesHeld) -> None:
        self.controller.pauses.restore(item.saved, item.storm_ends)
        self._take(item)

    def start_in_midst(self, standing: Iterable[Item], evaluates_from_s: float) -> None:
        """Start where the recorded process had evaluated since an earlier moment."""
        self.start(standing)
        self.controller.warm_up_from(evaluates_from_s)

    # --- items ---

    def advance_to(self, item: Item, following: Item | None) -> None:
        """Let happen what is due before the next item."""
        self._advance(item.at.monotonic_s, _delay_s(item, following))
        self._clock.set_wall(item.at)

    def advance_to_time(self, wall_s: float) -> None:
        """Let happen what is due before a time of day, in seconds since the epoch."""
        self.advance_to_moment(self._clock.monotonic_of(wall_s))

    def advance_to_moment(self, monotonic_s: float) -> None:
        """Let happen what is due before a moment, in monotonic seconds."""
        self._advance(monotonic_s, 0.0)

    def take(self, item: Item, following: Item | None) -> None:
        """Take an item at its time, and evaluate what is due then."""
        self._take(item)
        if not _is_noticed_with(item, following):
            self._work()

    # --- the turns of the recorded event loop ---

    def take_in_turn(self, item: Item) -> None:
        """Take an item at its time; what is due is evaluated where the recorded process did.

        Where that looked for work and found none, as another version of the program, it is done
        then, and where it ran for long and did not look. That time passes says nothing: a process
        may starve between any two turns.
        """
        clock, at_s = self._clock, item.at.monotonic_s
        self._work_as_it_was_looked(item)
        self._ran_s += min(max(0.0, at_s - clock.now), _RAN_S)
        if self._ran_s - self._checked_ran_s >= _LOOK_S:
            self._work_on_what_is_undone()
        clock.now = max(at_s, clock.now)
        clock.set_wall(item.at)
        match item:
            case Worked():
                self._take_turn(item)
            case LookedForWork():
                clock.now = self._looked_s = at_s
                self.controller.next_due(at_s)
            case _ if self._take(item):
                self._looked_s = at_s

    def _work_on_what_is_undone(self) -> None:
        """Evaluate what was due for long while the recorded process ran."""
        self._checked_ran_s = ran_s = self._ran_s
        due = self.controller.next_due(self._clock.now)
        if due is None or due > self._clock.now:
            self._undone_ran_s = None
        elif self._undone_ran_s is None:
            self._undone_ran_s = ran_s
        elif ran_s - self._undone_ran_s >= LATE_S:
            self._undone_ran_s = None
            self._work()

    def _work_as_it_was_looked(self, following: Item) -> None:
        """Evaluate what is due where the recorded process looked for work and found none.

        What it found it evaluated at this very moment, before anything later.
        """
        if (looked_s := self._looked_s) is None:
            return
        has_found = isinstance(following, Worked)
        if has_found or following.at.monotonic_s > looked_s + ROUNDING_S:
            self._looked_s = None
            due = None if has_found else self.controller.next_due(looked_s)
            if due is not None and due + TIMER_DELAY_S <= looked_s:
                self._work()

    def pass_to(self, monotonic_s: float) -> None:
        """Let pass the time up to a moment at which the recorded process did nothing more."""
        self._clock.now = max(self._clock.now, monotonic_s)
        self.controller.pauses.update()

    def _take_turn(self, item: Worked) -> None:
        """Evaluate what is due, as far as the recorded process did in a slice of its event loop."""
        self._undone_ran_s = None
        now = self._clock.now = item.at.monotonic_s
        due = self.controller.next_due(now)
        if due is None or due > now + TICK_S:
            return
        now = self._clock.now = max(now, due)
        for intent in self.controller.work(self._slice_of(item)):
            self._surroundings.send(intent)
        self._adopt()
        self.controller.next_due(now)

    def _slice_of(self, item: Worked) -> Callable[[], bool]:
        """Return what says whether the recorded slice of the event loop was over."""
        if (ended_after := item.ended_after) is not None:
            ends = self.controller.steps + ended_after
            return lambda: self.controller.steps >= ends
        asked, ends_after = count(1), item.interrupted_after or inf
        return lambda: next(asked) >= ends_after

    def _take(self, item: Item) -> bool:
        """Take an item; say whether the worker looks for work by that."""
        match item:
            case ResourceDenied(resource=resource, is_denied=is_denied):
                self.controller.state.set_readable(resource, readable=not is_denied)
            case NodesClosed(times=times):
                self.controller.state.nodes.closings.restore(times)
            case BrakesHeld(pause_file=text):
                self.controller.pauses.set_pause_file(text)
            case OrderGiven():
                self._obey(item)
            case _:
                return self._surroundings.take(item)
        return False

    def _obey(self, item: OrderGiven) -> None:
        """Carry out an order of a person as the recorded process did, if it could."""
        if item.order == "evaluate":
            self._evaluate(item)
        elif item.order in ("approve", "reject"):
            self._answer(item)
        elif item.order != "futile-clear":
            with suppress(ValueError):  # the recorded process refused it
                _obey_pause(self.controller.pauses, item)
        elif not (named := item.arguments.get("owner", "")):
            self.controller.clear_futile("")
        elif owners := self.controller.memory.owners_called(named):
            self.controller.clear_futile(owners[0].uid)

    def _answer(self, item: OrderGiven) -> None:
        """Answer the proposals that a person answered."""
        said = item.arguments
        approves, for_s = item.order == "approve", float(said.get("forSeconds", "0"))
        answer = ProposalAnswer(approves, item.who, said.get("reason", ""), for_s)
        with suppress(ConfigError):
            self.controller.answer_proposals(said.get("proposals", "").split(), answer)

    def _evaluate(self, item: OrderGiven) -> None:
        """Evaluate what a person asked for, unless that is not here."""
        names = EvaluationScope.__struct_fields__
        scope = EvaluationScope(*(item.arguments.get(name, "") for name in names))
        controller = self.controller
        with suppress(ConfigError):
            selected = at_once(select_pods(scope, controller.evaluator.instances, controller.view))
            controller.evaluate(scope, selected, item.who, item.arguments.get("reason", ""))

    # --- time ---

    def _advance(self, monotonic_s: float, delay_s: float) -> None:
        """Let pass the time up to a moment, and happen what is due before it.

        Timers ring so much later than they are due.
        """
        clock, surroundings = self._clock, self._surroundings
        while True:
            around = surroundings.next_due()
            around_due = inf if around is None else around
            due = self.controller.next_due(clock.now)
            work_due = inf if due is None else max(due, clock.now)
            if around_due >= monotonic_s and work_due + delay_s >= monotonic_s:
                break
            clock.now = max(min(around_due, work_due), clock.now)
            if around_due <= work_due:
                surroundings.advance()
            if not self._work() and work_due < around_due:
                clock.now += TIMER_DELAY_S  # rounding decides at the very instant
        clock.now = max(monotonic_s, clock.now)

    def _work(self) -> bool:
        """Evaluate what is due now; say whether there was anything."""
        controller, now, has_worked = self.controller, self._clock.now, False
        for _ in range(_MAX_TURNS):
            due = controller.next_due(now)
            if due is None or due > now:
                break
            before = controller.evaluator.evaluations
            intents = list(controller.work(lambda: False))
            for intent in intents:
                self._surroundings.send(intent)
            self._adopt()
            if controller.evaluator.evaluations == before and not intents:
                break
            has_worked = True
        return has_worked

    def _adopt(self) -> None:
        if not self._is_adopted and self.controller.initial_sync_done.is_set():
            self._is_adopted = True
            self.controller.disruptions.adopt(list(self.controller.state.store(Pod)))


def with_next(items: Iterable[Item]) -> Iterator[tuple[Item, Item | None]]:
    """Return each item with the one that follows it, but for the turns of the recorded process."""
    return with_following(item for item in items if not isinstance(item, _OF_PROCESS))


_OF_PROCESS: Final = (
    Worked
    | LookedForWork
    | RequestWritten
    | JobLookedAt
    | JobOrderEnded
    | JobStepEnded
    | TaintRefused
)
"""What the recorded process did, and what came of it: no change of the cluster."""


def _is_noticed(item: Item | None) -> bool:
    """Say whether an item is a pause that held before, and was noticed as something came due."""
    return isinstance(item, PauseSet) and bool(item.reason) and item.name in _NOTICED


def _delay_s(item: Item, following: Item | None) -> float:
    """Return how late the timers ring that are due about the time of an item.

    What a pause holds that is noticed, did not happen; what ends was decided before.
    """
    if isinstance(item, EvictionSettled):
        return -ROUNDING_S
    is_noticed = _is_noticed(item) or _is_noticed_with(item, following)
    return TIMER_DELAY_S if is_noticed else ROUNDING_S


def _is_noticed_with(item: Item, following: Item | None) -> bool:
    """Say whether the controller evaluates nothing between two items.

    A pause that follows at once may have held before, and was noticed as the first one came. What
    is no change of the cluster wakes the worker for the next turn of the event loop: what comes
    until then counts already. The end of a list is looked at in its own turn.
    """
    if following is None or following.at.monotonic_s - item.at.monotonic_s > TIMER_DELAY_S:
        return False
    is_listed = isinstance(item, PauseSet) and item.name.startswith(SYNC_PREFIX)
    return _is_noticed(following) or not (
        is_listed or isinstance(item, ObjectChanged | UsageMeasured)
    )


def _times_of(seen: NodeSeen) -> NodeTimes:
    """Return since when a node has its taints and labels, as a recording has it."""
    return NodeTimes(
        seen.known_since_s,
        seen.created_s,
        seen.ready_since_s,
        dict(seen.taints),
        {key: (since_s, before) for key, since_s, before in seen.labels},
        dict(seen.conditions),
        -inf if seen.opened_s is None else seen.opened_s,
    )


def _in_order_seen(
    nodes: Mapping[str, ClusterObject], seen: Iterable[NodeSeen]
) -> list[ClusterObject]:
    """Return nodes in the order in which a process saw them: it depends on which list was first."""
    names = dict.fromkeys(each.node for each in seen if each.node in nodes)
    rest = _as_listed(each for name, each in nodes.items() if name not in names)
    return [*map(nodes.__getitem__, names), *rest]


def _in_order_found(
    pods: Mapping[str, ClusterObject], nodes: Iterable[NodeSeen]
) -> list[ClusterObject]:
    """Return pods as a process found them: as they were listed, and then those that came later.

    Of a node whose pods are in another order than in a list it is recorded: those from the first on
    that is not in its place came later, in about the order of their versions.
    """
    came_at: dict[str, int] = {}
    for node in nodes:
        last, version = ("", ""), 0
        for uid in node.pods:
            if (pod := pods.get(uid)) is None:
                continue
            if version or _listed_at(pod) < last:
                came_at[uid] = version = max(version, pod.resource_version)
            last = _listed_at(pod)
    listed = _as_listed(pod for uid, pod in pods.items() if uid not in came_at)
    return [*listed, *(pods[uid] for uid in sorted(came_at, key=came_at.__getitem__))]


def _listed_at(obj: ClusterObject) -> tuple[str, str]:
    return getattr(obj, "namespace", ""), getattr(obj, "name", "")


def _as_listed(objects: Iterable[ClusterObject]) -> list[ClusterObject]:
    """Return objects in the order in which the API server lists them: by namespace and name.

    Pods of a node that are found at one moment are judged in the order in which they came.
    """
    return sorted(objects, key=_listed_at)


_NO_END: Final = str(None)
"""What a pause has that ends by no time."""


def _obey_pause(pauses: EvictionPauses, order: OrderGiven) -> None:
    """Carry out an order of a person to pause or to resume; any other does nothing here."""
    by, said = order.who or "command", order.arguments
    reason = said.get("reason", "")
    if order.order == "pause":
        for_s = said.get("forSeconds", _NO_END)
        pauses.pause(by, reason, None if for_s == _NO_END else float(for_s))
    elif order.order == "resume":
        pauses.resume(by, reason)
