"""The cluster at an earlier moment, read from a recording: a source of snapshots beside files."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.errors import NotRecorded
from reactive_desched.journal.segments import list_segments
from reactive_desched.model.labels import parse_selector
from reactive_desched.plan.snapshot import Snapshot, SnapshotBuilder
from reactive_desched.policy.configuration import Configuration, recorded_calendars
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import load_sources
from reactive_desched.policy.registry import Registry
from reactive_desched.policy.yaml.diagnostics import PolicyErrors
from reactive_desched.primitives.shortage import lacking
from reactive_desched.recording.coverage import covered_times
from reactive_desched.recording.frames import RECORDING_FOLDER, segment_paths
from reactive_desched.recording.items import ConfigurationInForce, Damage
from reactive_desched.recording.reader import Approach, passings_of, state_at
from reactive_desched.recording.recorded_state import RecordedState
from reactive_desched.recording.segments import recording_paths
from reactive_desched.text.counts import format_count, times
from reactive_desched.text.times import format_second, format_timestamp

__all__ = [
    "MomentApproached",
    "RecordedMoment",
    "configuration_of",
    "find_recording",
    "journal_beside",
    "read_configuration",
    "read_moment",
    "recorded_texts",
    "selector_of_command_line",
]

_MAX_GAPS: Final = 5
_SETTINGS: Final = "the recorded settings"
_POLICY: Final = "the recorded policy"


class RecordedMoment(Struct, frozen=True):
    """A recording and what it has of one moment; `changed_s` is when the last change before it was.

    What came after `recorded_s` is not in the recording: less than `at_s` where the process crashed
    in between, or has not written yet what it saw last. Times are seconds since the epoch. The
    clock showed this time so often as `shown` says, where it was set: it is the last of them.
    """

    path: Path
    at_s: float
    recorded_s: float
    state: RecordedState
    shown: int = 1
    damages: tuple[Damage, ...] = ()

    @property
    def changed_s(self) -> float:
        """Return the time of the last change before this moment."""
        return self.state.changed_s

    @property
    def heading(self) -> str:
        """Say for people which moment of which recording it is."""
        return (
            f"as of {format_second(self.at_s)} in the recording {self.path}; the last change before"
            f" it was at {format_second(self.changed_s)}"
        )

    def snapshot(self, resources: Collection[str]) -> Snapshot:
        """Return the objects of these resources, and what was measured."""
        builder = SnapshotBuilder()
        for resource in resources:
            if resource in self.state.denied:
                builder.add_forbidden(resource, "the API server denied it at that time")
            for obj in self.state.objects.get(resource, {}).values():
                builder.add(resource, obj)
        return replace(builder.build(), samples=tuple(self.state.samples.values()))

    def notes(self) -> Iterator[str]:
        """Say what held evictions at this moment, and what of the recording is damaged."""
        if not self.state.leads and self.state.configuration is not None:
            yield "the controller that recorded this did not lead then: it evicted nothing"
        for name, reason in self.state.pauses.items():
            if reason:
                yield f"evictions were held then: {name}: {reason}"
        if self.shown > 1:
            yield (
                f"the clock showed {format_second(self.at_s)} {times(self.shown)}, as it was set"
                " back: this is the last of them"
            )
        if self.recorded_s < self.at_s:
            yield (
                f"what was seen after {format_second(self.recorded_s)} is not recorded: this is the"
                " cluster as it was then"
            )
        elif not self.shown:
            yield (
                f"the clock never showed {format_second(self.at_s)}, as it was set forward: this is"
                " the cluster as it was before that"
            )
        if self.damages:
            count = format_count(len(self.damages), "place")
            yield f"the recording is damaged in {count}, first in {self.damages[0]}"


def find_recording(named: Path) -> Path:
    """Return the recording that a path names: a file, its folder, or a journal that has one.

    Raises NotRecorded, which says how to have one.
    """
    if named.is_dir() and not segment_paths(named):
        inner = named / RECORDING_FOLDER
        if inner.is_dir() and segment_paths(inner):
            return inner
        raise NotRecorded(
            f"{named} holds no recording, nor does its folder {RECORDING_FOLDER}; `run` writes one"
            " with recording.enabled: true in its settings, and --recording PATH names another"
        )
    if not named.exists():
        raise NotRecorded(
            f"there is no recording at {named}; name its folder, an exported file, or the"
            " journal's folder with --recording PATH"
        )
    return named


def journal_beside(recording: Path) -> Path | None:
    """Return the journal in whose folder a recording lies; None where there is none."""
    try:
        if recording.is_dir() and list_segments(recording.parent):
            return recording.parent
    except OSError as error:
        if lacking(error):
            raise
    return None


def read_moment(path: Path, at_s: float) -> RecordedMoment:
    """Return what a recording has of a moment; raises NotRecorded, which says what it has."""
    damages: list[Damage] = []
    with _held_is_said(path):
        state, recorded_s = state_at(path, at_s, damages.append)
        passings = passings_of(recording_paths(path), at_s)
    shown = sum(each.is_shown for each in passings)
    return RecordedMoment(path, at_s, recorded_s, state, shown, tuple(damages))


class MomentApproached:
    """The items up to a moment; `moment` is what the recording has of it, once they are read.

    Raises NotRecorded, which says what the recording has.
    """

    def __init__(self, path: Path, at_s: float) -> None:
        self._path = path
        self._damages: list[Damage] = []
        with _held_is_said(path):
            self.items: Final = Approach(path, at_s, self._damages.append)

    def moment(self) -> RecordedMoment:
        """Return the moment after the items: the recording is not read again."""
        items, path = self.items, self._path
        with _held_is_said(path):
            state, recorded_s = items.state_at_end()
        shown = sum(each.is_shown for each in items.passings)
        at_s = items.passing.wall_s
        return RecordedMoment(path, at_s, recorded_s, state, shown, tuple(self._damages))


@contextmanager
def _held_is_said(path: Path) -> Iterator[None]:
    """Let what is not recorded be said with what is."""
    try:
        yield
    except NotRecorded as error:
        raise NotRecorded(f"{error}; {_held(path)}") from error


def _held(path: Path) -> str:
    """Say which moments a recording has, where another was asked for."""
    damages: list[Damage] = []
    try:
        covered = covered_times(path, damages.append)
    except NotRecorded:
        damages, covered = [], []
    damage = f"; it is damaged in {damages[0]}" if damages else ""
    if not covered:
        return f"name another with --recording PATH{damage}"
    gaps = "".join(
        f", not from {_ends(before)[1]} to {_ends(after)[0]}"
        for before, after in pairwise(covered[-_MAX_GAPS - 1 :])
    )
    whole = f"{_ends(covered[0])[0]} to {_ends(covered[-1])[1]}"
    return f"name a time from {whole}{gaps}{damage}"


def _ends(covered: tuple[float, float]) -> tuple[str, str]:
    """Write the first and the last second of a time; its first moment where it has no second."""
    first_s, last_s = covered
    if ceil(first_s) <= last_s:
        return format_second(ceil(first_s)), format_second(last_s)
    first = format_timestamp(datetime.fromtimestamp(first_s, UTC))
    return first, first


def configuration_of(moment: RecordedMoment, registry: Registry) -> Configuration:
    """Return the policy and the settings in force then; raises PolicyErrors, and NotRecorded."""
    recorded = moment.state.configuration
    if recorded is None:
        raise NotRecorded(
            f"{moment.path} does not say which policy was in force at {format_second(moment.at_s)}:"
            " name one with --policy"
        )
    return read_configuration(recorded, registry)


def read_configuration(
    recorded: ConfigurationInForce, registry: Registry, *, lenient: bool = False
) -> Configuration:
    """Return what a recorded policy and settings mean to this version; raises PolicyErrors."""
    read = load_sources(recorded_texts(recorded), registry, lenient=lenient)
    configuration = replace(read, calendars=recorded_calendars(recorded.flags))
    if (selector := recorded.flags.get("nodeSelector")) is None:
        return configuration
    policy = replace(configuration.policy, node_selector=parse_selector(selector))
    return replace(configuration, policy=policy)


def recorded_texts(recorded: ConfigurationInForce, only: str = "") -> Iterator[SourceText]:
    """Yield the recorded texts; `only` names the kind of document that is read of them."""
    yield SourceText(recorded.policy, recorded.source or _POLICY, only)
    if recorded.settings:
        yield SourceText(recorded.settings, _SETTINGS, only)


def selector_of_command_line(recorded: ConfigurationInForce, registry: Registry) -> str:
    """Return the recorded --node-selector; empty where it is that of the recorded policy."""
    selector = recorded.flags.get("nodeSelector", "")
    if not selector:
        return ""
    with suppress(PolicyErrors):
        written = load_sources(recorded_texts(recorded), registry, lenient=True)
        if written.policy.node_selector.requirements:
            return ""
    return selector
