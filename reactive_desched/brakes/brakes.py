"""All brakes of a controller: they filter findings, stop everything, and say what they do."""

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from math import inf
from typing import Final

from reactive_desched.api.index import Index
from reactive_desched.brakes.health import HealthBrake, HealthFilter
from reactive_desched.brakes.pause import ManualPause
from reactive_desched.brakes.pending import PendingBrake
from reactive_desched.brakes.shares import (
    describe_messages,
    namespace_of,
    namespace_scope,
    pods_on_nodes,
)
from reactive_desched.brakes.storm import StormBrake
from reactive_desched.brakes.zones import ZoneBrake
from reactive_desched.model.brakes import (
    BRAKES,
    CLUSTER,
    MANUAL,
    PENDING,
    STORM,
    ZONE,
    BrakeLifted,
    BrakeNotice,
    BrakeState,
    SavedBrakes,
    SavedStorm,
)
from reactive_desched.model.changes import Change
from reactive_desched.model.evaluation import Evaluation, Intent
from reactive_desched.model.health import HealthAnswer
from reactive_desched.model.node_conditions import Condition
from reactive_desched.policy.settings.brakes import BrakeSettings
from reactive_desched.primitives.timers import earliest
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.unschedulable_pods import PodUnschedulableChanged
from reactive_desched.state.indexes.zone_health import ZoneDisruptionChanged
from reactive_desched.telemetry.metrics import Metric, counter, gauge
from reactive_desched.text.counts import format_count

ENGAGED = gauge("brake_engaged", "1 while a brake holds evictions, everywhere or in part.", "brake")
ENGAGEMENTS = counter("brake_engagements", "How often each brake engaged.", "brake")

MAX_UPDATE_INTERVAL_S: Final = 1.0
"""An update is due after this at the latest: the time of day may have been set meanwhile."""

_NOW: Final = -inf

MAX_NOTICES: Final = 1000
"""Notices kept until they are taken; beyond that the oldest is dropped."""


class Brakes:
    """The brakes of one controller; times are monotonic seconds.

    A brake engages and is released in `update`, which is to be called when `is_due` says so. What
    it held is evaluated again by the BrakeLifted that `update` returns. `next_due` is when time
    alone engages or releases one, as of the last update; None where it does not. `changed` wakes
    tasks that wait for one to engage or to be released.
    """

    reacts_to = (ZoneDisruptionChanged, PodUnschedulableChanged)

    def __init__(
        self,
        view: ClusterView,
        clock: Callable[[], float],
        settings: BrakeSettings,
        sick: frozenset[Condition] = frozenset(),
    ) -> None:
        self._view = view
        self._clock = clock
        self.zones = ZoneBrake(view, settings.zones, sick)
        self.storm = StormBrake(view, settings.storm)
        self.pending = PendingBrake(view, settings.pending)
        self.health = HealthBrake()
        if settings.health:
            self.health.reconfigure(settings.health, clock())
        self.pause = ManualPause()
        self._notices: deque[BrakeNotice] = deque(maxlen=MAX_NOTICES)
        self._released: list[Change] = []
        self._due = _NOW
        self._kept: SavedBrakes | None = None
        self._since_s: dict[str, float] = {}
        self.next_due: float | None = None
        self.changed = Wakeup()
        self._engagements = Counter(dict.fromkeys(BRAKES, 0))

    def filters_of(self, profile: str) -> tuple[StormBrake, PendingBrake, HealthFilter, ZoneBrake]:
        """Return a profile's steps of the gate; the storm brake counts what comes as far as it."""
        return (self.storm, self.pending, self.health.filter_of(profile), self.zones)

    @property
    def indexes(self) -> Iterable[tuple[type[Index], Hashable]]:
        """The indexes that the brakes read, with their arguments."""
        return dict.fromkeys((*self.zones.keys, *self.pending.keys, *self.storm.keys))

    def describe(self, settings: BrakeSettings) -> dict[str, str]:
        """Say each brake in force to a person, as it is for the pods of now."""
        counts = settings.storm is not None or settings.pending is not None
        return settings.describe(pods_on_nodes(self._view) if counts else 0)

    @property
    def wall_s(self) -> float:
        """Return the time of day that counts for the brakes, in seconds since the epoch."""
        return self._view.now_s

    @property
    def saved(self) -> SavedBrakes:
        """Return what outlives a restart."""
        messages = self.storm.messages
        return SavedBrakes(
            self.pause.saved,
            messages.get(CLUSTER, ""),
            self._since_s.get(STORM, 0.0) if messages else 0.0,
            storms=tuple(
                SavedStorm(namespace_of(scope), messages[scope])
                for scope in sorted(messages)
                if scope != CLUSTER
            ),
        )

    def reconfigure(self, settings: BrakeSettings, sick: frozenset[Condition], now: float) -> None:
        """Apply other thresholds and sick conditions; a storm and a pause go on."""
        self.zones.reconfigure(settings.zones, sick)
        self.storm.reconfigure(settings.storm)
        self.pending.reconfigure(settings.pending, now)
        self.health.reconfigure(settings.health, now)
        self._due = _NOW

    @property
    def storm_ends(self) -> tuple[float, ...]:
        """Return when each storm that is saved ends if it stays quiet, in monotonic seconds."""
        ends = self.storm.ends
        return tuple(ends[scope] for scope in _storms_of(self.saved))

    def restore(self, saved: SavedBrakes, storm_ends: Sequence[float]) -> None:
        """Restore the brakes that an earlier process saved; a storm ends when it is known to."""
        now = self._clock()
        if saved.pause is not None:
            self.pause.restore(saved.pause, now, self._view.now_s)
        if storms := _storms_of(saved):
            self.storm.restore(storms, now, dict(zip(storms, storm_ends, strict=False)))
            self._since_s[STORM] = saved.storm_since_s or self._view.now_s
        self._due = _NOW

    def confirm_kept(self, kept: SavedBrakes | None) -> None:
        """Note which brakes a restart would restore; None where they are not saved.

        A storm is shown, and its notices are given out, only once it is saved: what a person has
        seen outlives a restart. It holds evictions at once.
        """
        self._kept = kept

    def start(self, now: float) -> None:
        """Read the nodes and pods as they are at the end of the initial sync."""
        self.pending.start(now)
        self._due = _NOW

    def apply_changes(self, changes: Iterable[Change], now: float) -> bool:
        """Follow changes of which each may engage or release a brake."""
        self.pending.apply_changes(changes, now)
        self._due = _NOW
        return True

    def outdate(self) -> None:
        """Note that a brake may be released by what the cluster is like now."""
        self._due = _NOW

    def take_answer(self, answer: HealthAnswer, now: float) -> None:
        """Let the answer to a health check count from now on."""
        self.health.take(answer, now)
        self._due = _NOW
        self.changed.notify()

    def is_due(self, now: float) -> bool:
        """Say whether `update` may make a difference."""
        return now >= self._due or self.health.has_changed

    def is_overdue(self, now: float) -> bool:
        """Say whether something has happened, or a time has passed, that `update` acts on."""
        foreseen = self._foresee(now)
        is_foreseen = foreseen is not None and foreseen <= now
        return self._due == _NOW or self.health.has_changed or is_foreseen

    def update(self, now: float) -> list[Change]:
        """Engage and release brakes; return the releases since the last call."""
        self._keep_notices(self.zones.update())
        self._keep_notices(self.storm.update(now))
        self._keep_notices(self.pending.update(now))
        for notice, lifted in self.health.update(now):
            if notice is not None:
                self._keep_notices((notice,))
            if lifted is not None:
                self._released.append(lifted)
        self._keep_notices(self.pause.update(now, self._view.now_s))
        self.next_due = self._foresee(now)
        for name, is_engaged in self._engaged():
            if not is_engaged:
                self._since_s.pop(name, None)
        latest = now + MAX_UPDATE_INTERVAL_S
        self._due = latest if self.next_due is None else min(self.next_due, latest)
        released, self._released = self._released, []
        return released

    def count(self, evaluation: Evaluation) -> None:
        """Count a finding that was just decided on."""
        if (notice := self.storm.count(evaluation)) is not None:
            self._keep_notices((notice,))

    def reason_to_keep(self, intent: Intent) -> str:
        """Return why a decided eviction must not be sent after all; empty where it may be."""
        context = intent.context
        namespace = context.finding.pod.namespace
        return (
            self.storm.reason_to_keep(namespace)
            or self.pending.reason_to_keep(namespace)
            or self.health.reason_to_keep(context.finding, context.profile)
            or self.zones.reason_to_keep(intent.pod)
        )

    def pause_by_command(self, by: str, reason: str, for_s: float | None) -> None:
        """Pause everything until `resume_by_command`, or for so many seconds."""
        self._keep_notices(self.pause.pause(by, reason, for_s, self._clock(), self._view.now_s))

    def resume_by_command(self, by: str, reason: str) -> None:
        """End a pause by command, and release the storm brake."""
        message = reason or "resumed by command"
        self._keep_notices(self.pause.resume(message, by))
        self._keep_notices(self.storm.release(message, by))

    def set_pause_file(self, text: str) -> None:
        """Apply the content of the pause file."""
        self.pause.set_file(text)
        self._due = _NOW

    def _foresee(self, now: float) -> float | None:
        """Return when time alone engages or releases a brake."""
        return earliest(
            self.storm.next_due(),
            self.pending.next_due(),
            self.health.next_due(),
            self.pause.next_due(now, self._view.now_s),
        )

    def _engaged(self) -> Iterator[tuple[str, bool]]:
        """Yield of each brake whether it holds evictions, saved or not."""
        yield MANUAL, bool(self.pause.reason)
        yield ZONE, bool(self.zones.message)
        yield STORM, bool(self.storm.message)
        yield PENDING, bool(self.pending.message)

    def messages(self) -> dict[str, str]:
        """Return why each brake holds evictions; empty for one that does not."""
        return {
            MANUAL: self.pause.reason,
            ZONE: self.zones.message,
            STORM: describe_messages(
                self.storm.messages if self._kept is None else _storms_of(self._kept)
            ),
            PENDING: self.pending.message,
            **self.health.messages(),
        }

    def states(self, now: float) -> Iterator[BrakeState]:
        """Yield every brake that holds evictions: what it holds, since when, and what ends it."""
        health = self.health.messages()
        for name, message in self.messages().items():
            if message and name not in health:
                yield self._state(name, message, now)
        for check in self.health.checks.values():
            if (state := check.state(now, self._view.now_s)) is not None:
                yield state

    def _state(self, name: str, message: str, now: float) -> BrakeState:
        scope, until, wall_offset_s = CLUSTER, None, self._view.now_s - now
        since_s = self._since_s.get(name, self._view.now_s)
        if name == MANUAL:
            pause = self.pause
            since_s = pause.since_s or since_s
            return BrakeState(name, scope, message, since_s, pause.release_text, pause.until_s)
        if name == STORM:
            scope, release = self.storm.scope, self.storm.release_text
            until = self.storm.release_at
            if more := self.storm.found_since:
                message = f"{message}; {format_count(more, 'more pod')} since"
        elif name == PENDING:
            scope, release = self.pending.scope, self.pending.release_text
            until = self.pending.release_at
        else:
            scope, release = self.zones.scope, self.zones.release_text
        until_s = None if until is None else until + wall_offset_s
        return BrakeState(name, scope, message, since_s, release, until_s, is_least=True)

    def take_notices(self) -> Iterator[BrakeNotice]:
        """Yield each engagement and release once, up to a storm that is not saved yet."""
        is_kept = self._kept is None or _storms_of(self._kept) == self.storm.messages
        while self._notices and (is_kept or self._notices[0].brake != STORM):
            yield self._notices.popleft()

    def collect(self) -> Iterator[Metric]:
        """Yield which brakes hold evictions, and how often each engaged."""
        yield ENGAGED.by_label({name: bool(text) for name, text in self.messages().items()})
        yield ENGAGEMENTS.by_label(self._engagements)

    def _keep_notices(self, notices: Iterable[BrakeNotice]) -> None:
        """Keep notices until they are taken, and releases until the next update."""
        for notice in notices:
            self._due = _NOW
            self._notices.append(notice)
            self.changed.notify()
            self._engagements[notice.brake] += notice.engaged
            if notice.engaged:
                self._since_s.setdefault(notice.brake, self._view.now_s)
            elif notice.scope == CLUSTER:
                self._since_s.pop(notice.brake, None)
            if not notice.engaged and _is_waited_for(notice):
                self._released.append(BrakeLifted(notice.brake, notice.scope))


def _is_waited_for(notice: BrakeNotice) -> bool:
    """Say whether findings wait for this release; of a zone they wait for its nodes."""
    return notice.brake in BRAKES and (notice.scope == CLUSTER or notice.brake != ZONE)


def _storms_of(saved: SavedBrakes) -> dict[str, str]:
    """Return what the storms of an earlier process are, by the scope that each holds."""
    storms = {namespace_scope(each.namespace): each.message for each in saved.storms}
    return {CLUSTER: saved.storm, **storms} if saved.storm else storms
