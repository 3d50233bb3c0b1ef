"""Replays a recording beside its journal, life by life, and compares what was decided."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from math import inf, isfinite
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.api.event import Uptime
from reactive_desched.errors import NotRecorded
from reactive_desched.journal.clocks import Moment
from reactive_desched.journal.history import History, read_history
from reactive_desched.journal.segments import READ_ERRORS, list_segments, read_lines
from reactive_desched.model.objects import Pod
from reactive_desched.plan.recorded_moment import (
    MomentApproached,
    RecordedMoment,
    read_configuration,
)
from reactive_desched.policy.registry import Registry
from reactive_desched.recording.coverage import summarize_recording
from reactive_desched.recording.items import (
    STEP_S,
    ConfigurationInForce,
    Damage,
    HistoryRead,
    Item,
    PictureBegun,
)
from reactive_desched.recording.reader import items_between, passings_of, read_items
from reactive_desched.recording.segments import ignore_damage, recording_paths
from reactive_desched.replay.comparison import Comparison, Difference, compare
from reactive_desched.replay.controller_run import LifeRun
from reactive_desched.replay.lives import Life, lives
from reactive_desched.replay.process_clocks import LifeClock, ProcessClocks
from reactive_desched.replay.recorded_decisions import (
    LOOK_AT_JOURNAL,
    LostRecords,
    MadeDecision,
    RecordedDecisions,
    missing_records,
    time_of_line,
)
from reactive_desched.state.resources import PODS
from reactive_desched.text.counts import format_count
from reactive_desched.text.times import format_second

_JUST_BEFORE_S: Final = 0.001
_ONE_SLICE_S: Final = 0.002
"""So close together are records that one slice of the event loop made, of which some are written.
"""

_UNWRITTEN_S: Final = 10.0
"""A crash loses less of what was not written yet: a recorder writes twice in that time."""

NEAR_BYTES: Final = 4 * 2**20
"""With more of a recording between the start of a process and a moment it is not run from there."""

TOLERANCE_S: Final = 5.0
"""A replay decides so much earlier or later than a record that is lost, as a rule."""

SETTLES_S: Final = 900.0
"""So long after the beginning in the midst of a process nothing is compared: rates warm up, and
what was blocked before is found anew."""


class ReplayOptions(Struct, frozen=True, kw_only=True):
    """A recording, its journal, and the time that is compared, in seconds since the epoch."""

    recording: Path
    journal: Path
    since_s: float = 0.0
    until_s: float = inf


class ReplayedLife(Struct, frozen=True):
    """One process's time that was compared, from when to when, and what came of it.

    `plugin_faults` are the exceptions of plugins, the first of each plugin.
    """

    began_s: float
    ended_s: float
    version: str
    comparison: Comparison
    plugin_faults: tuple[str, ...] = ()


class ReplayReport(Struct, frozen=True):
    """The result of a replay: each time without a gap, what was not compared or is damaged.

    `unrecorded` counts the journal's last decisions, behind all that was compared: the recording
    does not have their turn, or not yet. `shortfall` says how much of the time that was asked for
    is recorded, empty where all of it is; between the times of `gaps` nothing is.
    """

    lives: tuple[ReplayedLife, ...]
    unrecorded: int = 0
    not_compared: tuple[str, ...] = ()
    damages: tuple[Damage, ...] = ()
    shortfall: str = ""
    gaps: tuple[tuple[float, float], ...] = ()

    @property
    def plugin_faults(self) -> tuple[str, ...]:
        """Return what failed in plugins, each once."""
        return tuple(dict.fromkeys(fault for each in self.lives for fault in each.plugin_faults))

    @property
    def is_damaged(self) -> bool:
        """Say whether anything is damaged but ends that killed processes left torn."""
        return not all(each.is_torn_end for each in self.damages)

    @property
    def equal(self) -> int:
        """Count the decisions that are equal."""
        return sum(each.comparison.equal for each in self.lives)

    @property
    def differences(self) -> tuple[Difference, ...]:
        """Return the decisions that only one of both made."""
        return tuple(found for each in self.lives for found in each.comparison.differences)


def replay_recording(options: ReplayOptions, registry: Registry) -> ReplayReport:
    """Replay a recording; raises NotRecorded, PolicyErrors and OSError."""
    damages: list[Damage] = []
    not_compared: list[str] = []
    replayed: list[ReplayedLife] = []
    paths = recording_paths(options.recording)
    clocks = ProcessClocks(
        paths,
        lambda: read_items(paths, ignore_damage),
        options.journal,
        on_damage=damages.append,
    )
    found, unrecorded, ended_s = lives(read_items(paths, damages.append)), 0, inf
    read_up_to, found_by, pods = 0, list[int](), set[str]()
    for attempt in _run_lives(found, clocks, registry, options.until_s):
        not_compared += _unrecorded_between(clocks, options, ended_s, attempt.life.began.wall_s)
        compared = _compare(attempt, options, not_compared)
        ended_s = attempt.clock.wall_of(attempt.ended_s)
        unrecorded = 0
        if attempt.run is None:
            unrecorded = clocks.count_last(ended_s, options.until_s)
        else:
            read_up_to = max(read_up_to, attempt.run.read_up_to)
            pods.update(attempt.life.objects.get(PODS, ()))
            pods.update(pod.uid for pod in attempt.run.controller.state.store(Pod))
        if compared is not None:
            replayed.append(compared)
            found_by.append(read_up_to)
            unrecorded = clocks.count_last(compared.ended_s, options.until_s)
        if clocks.are_one and replayed and replayed[-1].ended_s >= options.until_s:
            break
    _refuse_other_names(replayed, pods, options)
    lost_end, lost = _lost_end(options.journal, read_up_to)
    damages += lost_end
    not_compared += _leave_out_lost(replayed, found_by, [*clocks.lost, *lost])
    shortfall, gaps = _unrecorded_times(options)
    return ReplayReport(
        tuple(replayed),
        unrecorded,
        tuple(dict.fromkeys(not_compared)),
        tuple(damages),
        shortfall,
        gaps,
    )


def _unrecorded_times(options: ReplayOptions) -> tuple[str, tuple[tuple[float, float], ...]]:
    """Return what is said of the time that was asked for, and its gaps, where any is recorded."""
    try:
        summary = summarize_recording(options.recording)
    except NotRecorded:  # its process ended before it wrote into the file
        return "", ()
    return (
        summary.shortfall(options.since_s or None, _finite(options.until_s)),
        tuple(summary.gaps_between(options.since_s, options.until_s)),
    )


def _finite(until_s: float) -> float | None:
    return until_s if isfinite(until_s) else None


def _lost_end(journal: Path, read_up_to: int) -> tuple[list[Damage], list[LostRecords]]:
    """Say that the end of a journal is lost, of which a recorded process had found more.

    What was written after that is lost, too.
    """
    last, raw = 0, b""
    segments = list_segments(journal)[-1:]
    for segment in segments:
        last = segment.first_seq - 1
        with suppress(*READ_ERRORS):  # that it is damaged is said already
            for line in read_lines(segment):
                last, raw = (last, raw) if line.seq is None else (line.seq, line.raw)
    if last >= read_up_to:
        return [], []
    lost = missing_records(last + 1, read_up_to)
    text = f"{lost} behind it: a recorded process found them when it started; {LOOK_AT_JOURNAL}"
    file = segments[0].path if segments else journal
    size = file.stat().st_size if segments else 0
    since_s = time_of_line(raw, -inf)
    return [Damage(file.name, size, text)], [LostRecords(inf, since_s, after=last)]


def _refuse_other_names(
    replayed: Sequence[ReplayedLife], pods: Collection[str], options: ReplayOptions
) -> None:
    """Raise NotRecorded where the journal decides on none of the recorded pods, by their uids."""
    found = [each for life in replayed for each in life.comparison.differences]
    of_journal = {each.decision.key.pod for each in found if each.is_of_journal}
    is_any_equal = any(life.comparison.equal for life in replayed)
    if of_journal and not is_any_equal and of_journal.isdisjoint(pods):
        raise NotRecorded(
            f"{options.recording} has none of the pods that {options.journal} has decisions on:"
            " it is of another controller, or anonymized, and then its names are others"
        )


def _leave_out_lost(
    replayed: list[ReplayedLife], found_by: Sequence[int], lost: Sequence[LostRecords]
) -> Iterator[str]:
    """Leave out decisions of the replay that the journal may have lost, and say how many.

    `found_by` has for each life the sequence of the last record that its process found.
    """
    left_out = 0
    for number, (life, found) in enumerate(zip(replayed, found_by, strict=True)):

        def is_lost(each: Difference, found: int = found) -> bool:
            at_s = each.decision.at.wall_s
            return not each.is_of_journal and any(
                of.is_behind(found) or of.take(at_s, TOLERANCE_S) for of in lost
            )

        comparison = life.comparison.without(is_lost)
        left_out += len(life.comparison.differences) - len(comparison.differences)
        replayed[number] = replace(life, comparison=comparison)
    if left_out:
        yield f"{format_count(left_out, 'decision')} of the replay: their records are not here"


def _unrecorded_between(
    clocks: ProcessClocks, options: ReplayOptions, ended_s: float, began_s: float
) -> Iterator[str]:
    """Say how many decisions the journal has between two lives, where the recording has nothing.

    Those of just after the end of the first are no gap: a crash loses what was not written yet.
    """
    since_s, until_s = max(options.since_s, ended_s + _UNWRITTEN_S), min(options.until_s, began_s)
    if clocks.are_one and (count := clocks.count_between(since_s, until_s)):
        yield (
            f"{format_second(since_s)} to {format_second(until_s)},"
            f" {format_count(count, 'decision')} of the journal: nothing is recorded of this time"
        )


class _Attempt(Struct):
    """A life, its clock, what the journal has of it, and what its controller did over it.

    `run` is None where that cannot be run: `why_not` says why, and `ended_s` when it ended, in
    monotonic seconds.
    """

    life: Life
    clock: LifeClock
    recorded: RecordedDecisions
    ended_s: float
    run: LifeRun | None
    why_not: str = ""


def _run_lives(
    found: Iterable[Life],
    clocks: ProcessClocks,
    registry: Registry,
    until_s: float = inf,
) -> Iterator[_Attempt]:
    """Run the controller of one life after the other up to a time, in seconds since the epoch.

    A life that begins later is left out.
    """
    for number, life in enumerate(found):
        clock, recorded = clocks.of(number, life)
        if (ends_s := clock.last_at(until_s)) < life.began.monotonic_s:
            if clocks.are_one:
                return
            continue
        try:
            run = _life_run(life, clocks.journal, recorded, registry)
        except _NotReplayed as error:
            times = (item.at.monotonic_s for item in life.later)
            ended_s = max(times, default=life.began.monotonic_s)
            yield _Attempt(life, clock, recorded, ended_s, None, str(error))
        else:
            run.run(ends_s)
            yield _Attempt(life, clock, recorded, run.ended_s, run)


NO_FIRST_PICTURE: Final = (
    "its first picture of the cluster is not whole: the process ended, or still writes it,"
    " or the file is damaged there"
)
"""Why a life that was killed soon after its start is not compared."""


class _NotReplayed(Exception):  # noqa: N818 -- it says which time is left out
    """A life cannot be replayed: the text says why."""


def _life_run(
    life: Life, journal: Path | None, recorded: RecordedDecisions, registry: Registry
) -> LifeRun:
    """Prepare the run of a life; raises _NotReplayed."""
    if not life.is_whole:
        raise _NotReplayed(NO_FIRST_PICTURE)
    found = (each for each in life.standing if isinstance(each, ConfigurationInForce))
    if (in_force := next(found, None)) is None:
        raise _NotReplayed("the recording does not say which policy was in force")
    read = partial(read_configuration, registry=registry)
    configuration = read(in_force)
    if configuration.controller.migration is not None and not life.has_job_steps:
        raise _NotReplayed(
            "the settings had migration jobs, and the recording lacks the API server's answers to"
            " what was written of them"
        )
    past = partial(_past, journal, life.began.wall_s, configuration.controller.budgets.counts_for_s)
    is_dry_run = in_force.flags.get("dryRun") == "true"
    return LifeRun(life, configuration, past, recorded, read, is_dry_run=is_dry_run)


def history_before(journal: Path, began_s: float, counts_for_s: float) -> History:
    """Return what a journal has of before a time, in seconds since the epoch; raises OSError."""
    until_s = began_s - _JUST_BEFORE_S
    return read_history(journal, Moment(began_s), counts_for_s=counts_for_s, until_s=until_s)


def _past(
    journal: Path | None, began_s: float, counts_for_s: float, read: HistoryRead | None
) -> History:
    """Return what a process read of its journal when it started, by the clocks that it had."""
    if journal is None:
        return History()
    if read is None:
        return history_before(journal, began_s, counts_for_s)
    uptime, server_time = None, None
    if read.boot_id:
        uptime = Uptime(boot_id=read.boot_id, milliseconds=read.uptime_ms)
    if read.server_s is not None:
        server_time = datetime.fromtimestamp(read.server_s, UTC)
    moment = Moment(read.wall_s, uptime, server_time)
    return read_history(journal, moment, counts_for_s=counts_for_s, until_sequence=read.sequence)


class ReachedController(Struct, frozen=True):
    """A controller that was run up to a moment: from `since_s` on, where not from its start.

    What it had in memory before that, such as since when a finding waits, it does not have then.
    """

    run: LifeRun
    moment: RecordedMoment
    since_s: float | None = None

    @property
    def note(self) -> str:
        """Say for people that it was not run from its start; empty where it was."""
        if self.since_s is None:
            return ""
        return (
            f"the controller was run from {format_second(self.since_s)} on, not from the start of"
            " its process: what waited longer is shown as waiting since then"
        )


def controller_at(
    recording: Path, at_s: float, journal: Path | None, registry: Registry
) -> ReachedController:
    """Return the controller as it was at a moment that is recorded, in seconds since the epoch.

    It is run from the start of its process, or from `SETTLES_S` before the moment where so much is
    recorded in between that it would take long. Without a journal it has no earlier evictions.
    Raises NotRecorded, PolicyErrors and OSError.
    """
    found, approach = recording_paths(recording), MomentApproached(recording, at_s)
    items, passing = approach.items, approach.items.passing
    until = found.index(passing.segment.path) + 1
    first = _begin_of_process(found[:until])
    is_near = sum(each.stat().st_size for each in found[first:until]) <= NEAR_BYTES
    since_s = at_s - SETTLES_S
    if not is_near and (earlier := passings_of(found, since_s)):
        first = max(first, found.index(earlier[0].segment.path))

    def read_on() -> Iterator[Item]:
        if is_near:
            return read_items(found[first:], ignore_damage)
        return items_between(recording, since_s, None, ignore_damage)

    clocks = ProcessClocks(found[first:until], read_on, journal, at_s)
    read = items.from_file(found[first]) if is_near else items.from_time(since_s)
    run, why_not = None, "the recording has nothing of this time"
    for attempt in _run_lives(lives(read), clocks, registry):
        run, why_not = attempt.run, attempt.why_not
    moment = approach.moment()
    if run is None:
        raise NotRecorded(
            f"{recording}: the controller cannot be run up to {format_second(at_s)}: {why_not};"
            " `plan --at` and `why --at` with --policy need the objects alone"
        )
    if passing.is_shown:
        run.pass_to(passing.monotonic_s)
    return ReachedController(run, moment, None if is_near else max(since_s, run.life.began.wall_s))


def _begin_of_process(paths: Sequence[Path]) -> int:
    """Return which of these files is the one with which the process of the last one begins."""
    for at in reversed(range(len(paths))):
        first = next(iter(read_items(paths[at : at + 1], ignore_damage)), None)
        if isinstance(first, PictureBegun) and not first.is_continued:
            return at
    return 0


def _compare(
    attempt: _Attempt, options: ReplayOptions, not_compared: list[str]
) -> ReplayedLife | None:
    """Compare what was decided in a life, by the time of day; None where nothing was compared.

    Of a time that came twice, as the clock was set back, a period has both.
    """
    life, clock, recorded, run = attempt.life, attempt.clock, attempt.recorded, attempt.run
    if run is None:
        not_compared += _left_out(attempt, options)
        return None
    began_s, ended_s = life.began.monotonic_s, run.ended_s
    until_s = clock.last_at(options.until_s)
    if not run.was_stopped and ended_s < until_s:  # a crash loses what was not written yet
        ended_s = recorded.last_of(began_s, ended_s) - _ONE_SLICE_S
    since_s, until_s = max(began_s, clock.first_at(options.since_s)), min(ended_s, until_s)
    if life.begins_in_midst and since_s < began_s + SETTLES_S:
        since_s = began_s + SETTLES_S
        not_compared.append(
            f"the time up to {format_second(clock.wall_of(since_s))}: the recording begins in the"
            " midst of a process, whose memory of then it does not have"
        )
    if until_s <= since_s:
        return None

    def is_of_life(decision: MadeDecision) -> bool:
        return began_s - _JUST_BEFORE_S <= decision.monotonic_s <= run.ended_s + run.tolerance_s

    comparison = compare(
        filter(is_of_life, recorded.decisions),
        run.decisions,
        run.tolerance_s,
        run.may_be_unrecorded,
        (since_s - _JUST_BEFORE_S, until_s),
    )
    if not run.was_stopped and until_s == ended_s:
        comparison = comparison.without_last(until_s - STEP_S)
    times = clock.wall_of(since_s), clock.wall_of(until_s)
    return ReplayedLife(*times, life.picture.version, comparison, run.plugin_faults)


def _left_out(attempt: _Attempt, options: ReplayOptions) -> Iterator[str]:
    """Say which time of a period is left out, and how many decisions the journal has of it."""
    life, clock = attempt.life, attempt.clock
    began_s = life.began.monotonic_s
    since_s = max(began_s, clock.first_at(options.since_s))
    until_s = min(attempt.ended_s, clock.last_at(options.until_s))
    if since_s > until_s:
        return
    times = (decision.monotonic_s for decision in attempt.recorded.decisions)
    count = sum(since_s - _JUST_BEFORE_S <= at_s <= until_s for at_s in times)
    span = f"{format_second(clock.wall_of(since_s))} to {format_second(clock.wall_of(until_s))}"
    yield f"{span}, {format_count(count, 'decision')} of the journal: {attempt.why_not}"
