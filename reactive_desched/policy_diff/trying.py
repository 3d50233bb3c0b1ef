"""Runs policies over a recorded time, side by side, each with a world of its own."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from math import inf
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched._version import __version__
from reactive_desched.errors import ConfigError, NotRecorded
from reactive_desched.model.history import PastEviction
from reactive_desched.model.objects import Pod
from reactive_desched.plan.recorded_moment import journal_beside
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy_diff.decisions import PolicyDecisions
from reactive_desched.policy_diff.policy_run import PolicyRun
from reactive_desched.policy_diff.recorded_facts import FactsReader, RecordedFacts
from reactive_desched.primitives.timestamps import parse_flag_moment
from reactive_desched.recording.coverage import RecordingSummary, summarize_recording
from reactive_desched.recording.items import (
    ConfigurationInForce,
    Damage,
    Item,
    ObjectFound,
    PictureEnded,
    RecordingInterrupted,
    UsageMeasured,
)
from reactive_desched.recording.reader import items_between
from reactive_desched.recording.recorded_state import RecordedState
from reactive_desched.recording.segments import ignore_damage
from reactive_desched.replay.driven_controller import with_next
from reactive_desched.replay.lives import Life, lives
from reactive_desched.replay.replaying import history_before
from reactive_desched.text.times import format_second

__all__ = ["RecordedPeriod", "read_period", "run_policies", "try_policies"]


class RecordedPeriod(Struct, frozen=True):
    """A period of a recording: from when to when, None for all, and the facts that it has."""

    path: Path
    since_s: float | None
    until_s: float | None
    summary: RecordingSummary
    facts: RecordedFacts
    damages: tuple[Damage, ...]

    @property
    def in_force(self) -> ConfigurationInForce | None:
        """Return the policy and the settings in force at the beginning, if they are recorded."""
        return self.facts.configurations[0] if self.facts.configurations else None


def read_period(path: Path, since: str | None, until: str | None) -> RecordedPeriod:
    """Read what is recorded of a period that was typed; raises ConfigError and NotRecorded.

    An age counts back from the end of the recording.
    """
    summary = summarize_recording(path)
    end = datetime.fromtimestamp(summary.last_s, UTC)
    since_s, until_s = (
        None if text is None else parse_flag_moment(flag, text, end).timestamp()
        for flag, text in (("--since", since), ("--until", until))
    )
    first_s, last_s = summary.first_s, summary.last_s
    if since_s is not None and until_s is not None and until_s <= since_s:
        raise ConfigError(f"--until {until} is not after --since {since}")
    earliest_s, latest_s = sorted((first_s, last_s))  # the clock may have been set back meanwhile
    if (since_s or earliest_s) > latest_s or (until_s or latest_s) < earliest_s:
        times = f"{format_second(first_s)} to {format_second(last_s)}"
        raise NotRecorded(f"nothing of that time is recorded: {path} has {times}")
    damages: list[Damage] = []
    facts = FactsReader().read(items_between(path, since_s, until_s, damages.append))
    return RecordedPeriod(path, since_s, until_s, summary, facts, tuple(damages))


def try_policies(
    period: RecordedPeriod, configurations: Sequence[tuple[Configuration, tuple[str, ...]]]
) -> list[PolicyDecisions]:
    """Return what each configuration would have decided; the names of its files are beside it.

    Raises NotRecorded.
    """
    recorded, facts = RecordedState(), period.facts
    runs = [
        PolicyRun(each, facts, recorded, _past(period.path, each, facts.first_s))
        for each, _ in configurations
    ]
    items = items_between(period.path, period.since_s, period.until_s, ignore_damage)
    ends_s = min(period.until_s or inf, period.summary.last_s)
    times = run_policies(items, runs, recorded, ends_s)
    return [
        run.decisions(files, __version__, *times)
        for run, (_, files) in zip(runs, configurations, strict=True)
    ]


def run_policies(
    items: Iterable[Item], runs: Sequence[PolicyRun], recorded: RecordedState, ends_s: float = 0.0
) -> tuple[float, float]:
    """Give each run the recorded items; return when they began and ended, since the epoch.

    Behind the last item time goes on up to `ends_s`, if no gap is there. `recorded` is the state
    that the runs share: an item is applied to it when its time has come, before they take it.
    Raises NotRecorded where no picture of the cluster is whole.
    """
    began_s = ended_s = 0.0
    is_whole = False
    for life in (each for each in lives(items) if each.is_whole):
        for item in _picture(life, runs[0].facts):
            recorded.apply(item)
        ended_s = life.began.wall_s
        began_s = began_s or ended_s
        for run in runs:
            run.begin(life.began, life.standing)
        is_whole = True
        for item, following in with_next(life.later):
            ended_s = item.at.wall_s
            for run in runs:
                run.advance_to(item, following)
            recorded.apply(item)
            for run in runs:
                run.take(item, following)
            is_whole = not isinstance(item, RecordingInterrupted)
    if is_whole and ended_s < ends_s:
        for run in runs:
            run.advance_to_time(ends_s)
        ended_s = ends_s
    if not began_s:
        raise NotRecorded("the recording has no whole picture of the cluster in that time")
    return began_s, ended_s


def _picture(life: Life, facts: RecordedFacts) -> Iterator[Item]:
    """Yield the cluster at the beginning; pods that were evicted meanwhile are not yet ending."""
    at = life.began
    yield replace(life.picture, is_continued=False)
    yield from life.standing
    yield from (UsageMeasured(at, sample) for sample in life.samples)
    for resource, of_kind in life.objects.items():
        for obj in of_kind.values():
            found = obj
            if isinstance(obj, Pod) and obj.is_terminating and obj.uid in facts.evicted:
                is_later = facts.evicted[obj.uid].began_s >= at.wall_s
                found = replace(obj, deletion_s=None) if is_later else obj
            yield ObjectFound(at, resource, found)
    yield PictureEnded(at)


def _past(path: Path, configuration: Configuration, began_s: float) -> Sequence[PastEviction]:
    """Return the evictions before the beginning, of the journal in whose folder a recording is."""
    journal = journal_beside(path)
    if journal is None:
        return ()
    counts_for_s = configuration.controller.budgets.counts_for_s
    try:
        return history_before(journal, began_s, counts_for_s).evictions
    except OSError:
        return ()
