"""Answers `/debug/status`, which `status` and `top` show, and logs the state of the controller."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import anyio
from msgspec import Struct

from reactive_desched._version import __version__
from reactive_desched.app.calendars import CalendarState
from reactive_desched.app.config_reload import ActiveConfig
from reactive_desched.app.options import Dependencies
from reactive_desched.app.past_pages import RecordedPlaces
from reactive_desched.app.recording import Recording
from reactive_desched.app.usage import MeasuredUse
from reactive_desched.controller.controller import Controller
from reactive_desched.controller.description import ControllerDescription
from reactive_desched.controller.job_listing import JobList
from reactive_desched.controller.observing import is_watched_only, modes_of
from reactive_desched.controller.pending import PendingSummary
from reactive_desched.controller.pipeline import Pipeline
from reactive_desched.controller.public_state import ControllerState, PublicState
from reactive_desched.errors import NotRecorded
from reactive_desched.gate.limit_status import LimitStatus
from reactive_desched.journal.cluster import UNKNOWN_CLUSTER, ClusterIdentity
from reactive_desched.model.modes import ACT
from reactive_desched.moves.listing import MoveRow, list_moves
from reactive_desched.primitives.hints import refuse_filters
from reactive_desched.telemetry.logs import Logger
from reactive_desched.telemetry.recent_evictions import RecentEviction, RecentEvictions
from reactive_desched.text.times import utc_time
from reactive_desched.web.operator import DebugPage

if TYPE_CHECKING:
    from reactive_desched.recording.recorder import ClusterRecorder

MAX_MOVES: Final = 20
"""Moves under way that are named, those that began first; further ones are only counted."""

MAX_JOBS: Final = 20
"""Migration jobs that are named, the oldest that has not ended first; `migrations` has more."""

LEADS, STANDS_BY = "leader", "standby"
NO_ELECTION: Final = "no leader election"
ACTED: Final = "acts, as leader or without an election"
"""What is said of a process in the past: a recording does not have whether it stood for a Lease."""


POLL_INTERVAL_S: Final = 0.25
_NORMAL: Final = (ControllerState.EVALUATING, ControllerState.STANDBY)
STABLE_POLLS: Final = 4
"""A state is logged once so many polls in a row found it: then the line names every cause."""


class PolicyInForce(Struct, frozen=True, rename="camel"):
    """The policy in force; `problems` are those of newer files, which were rejected."""

    file: str
    revision: str
    profiles: tuple[str, ...]
    problems: tuple[str, ...]


class NamedState(Struct, frozen=True, rename="camel"):
    """A pause: why it holds evictions, empty when it does not, and what limits it."""

    name: str
    reason: str
    note: str = ""


class FailingPlugin(Struct, frozen=True, rename="camel"):
    """A plugin that raised an exception, and what follows from it; `off`: it judges nothing."""

    profile: str
    plugin: str
    message: str
    off: bool


class PluginMode(Struct, frozen=True, rename="camel"):
    """The mode of a plugin whose findings are not carried out as they are made."""

    profile: str
    plugin: str
    mode: str


class BrakeStatus(Struct, frozen=True, rename="camel"):
    """A brake: why it holds evictions, empty when it does not.

    `scope` is `cluster` or the zones that it holds, `release` says what ends it, and `until` is
    when time alone does, at the earliest with `isLeast`.
    """

    name: str
    reason: str = ""
    scope: str = ""
    since: datetime | None = None
    release: str = ""
    until: datetime | None = None
    note: str = ""
    is_least: bool = False


class MovesUnderWay(Struct, frozen=True, rename="camel"):
    """Eviction requests without an answer, evicted pods whose replacement is awaited, the oldest.

    `moving` counts both: a pod moves from the decision to evict it on.
    """

    requested: int
    moving: int
    oldest: tuple[MoveRow, ...]


class SinkState(Struct, frozen=True, rename="camel"):
    """A sink: why it takes no records, empty when it does, and what it does not have yet.

    `last_rejection` is why the newest of its dead letters is one.
    """

    name: str
    error: str
    sequence: int
    lag_records: int
    lag_seconds: float
    dead_letters: int
    lost: int
    last_rejection: str = ""


class JournalState(Struct, frozen=True, rename="camel"):
    """The open journal: its folder, the last record on disk, and its fault, if any."""

    directory: str
    sequence: int
    open_evictions: int
    fault: str


class RecorderState(Struct, frozen=True, rename="camel"):
    """The recording of what the controller sees: its folder, its size, and why it is interrupted.

    `fault` is empty while it is written.
    """

    directory: str
    bytes: int
    interruptions: int
    fault: str


class WatchedCluster(Struct, frozen=True, kw_only=True, rename="camel"):
    """A controller's cluster, as a command finds it out; all of it is empty while it is unknown."""

    name: str
    uid: str
    api_server: str


class ControllerStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """Everything `status` shows; `pause` is why nothing is evaluated, empty while it works.

    `credentials` says why those for the API server are not renewed, empty while they are.
    `journal` is None on a standby, and while it is being opened; `recording` also where the
    settings do not switch it on. `modes` has the plugins whose mode is not act; with
    `noPluginActs` those are all. `recent` has the last evictions of this process, newest first.
    `longParts` says that no more long parts of pods are read.
    """

    api_version: str = "reactive-desched/v1alpha1"
    kind: str = "ControllerStatus"
    time: datetime
    started: datetime
    version: str
    cluster: str
    cluster_uid: str
    api_server: str
    credentials: str
    host: str
    mode: str
    modes: tuple[PluginMode, ...]
    no_plugin_acts: bool
    leadership: str
    policy: PolicyInForce
    state: PublicState
    pause: str
    pauses: tuple[NamedState, ...]
    brakes: tuple[BrakeStatus, ...]
    failing_plugins: tuple[FailingPlugin, ...]
    nodes: int
    pods: int
    limits: LimitStatus
    moves: MovesUnderWay
    migrations: JobList
    pending: PendingSummary
    recent: tuple[RecentEviction, ...]
    journal: JournalState | None
    recording: RecorderState | None
    sinks: tuple[SinkState, ...]
    calendars: tuple[CalendarState, ...] = ()
    measured_use: tuple[MeasuredUse, ...] = ()
    long_parts: str = ""


async def log_states(pipeline: Pipeline, log: Logger) -> None:
    """Log each state of the controller that lasts for a second, until cancelled.

    A state in which no pod is evicted is logged again when its causes change. It is a warning
    unless it is that of a normal start or of a standby.
    """
    readiness = pipeline.controller.readiness
    logged: tuple[ControllerState, str] | None = None
    polled, polls = logged, 0
    while True:
        await anyio.sleep(POLL_INTERVAL_S)
        state = pipeline.description.state()
        found = state.name, readiness.message()
        polls, polled = polls + 1 if found == polled else 1, found
        if polls < STABLE_POLLS or found == logged:
            continue
        before, logged = logged, found
        is_normal = state.name in _NORMAL or (
            state.name is ControllerState.STARTING and readiness.is_starting()
        )
        stands_by = state.name is ControllerState.STANDBY  # what else it lacks, it need not have
        causes = "" if stands_by else found[1]
        (log.info if is_normal else log.warning)(
            state.name.sentence,
            state=state.name.value,
            before=before[0].value if before is not None and before[0] != state.name else None,
            message=causes or state.hold or None,
        )


class StatusPage:
    """Answers `/debug/status`: what each part of one controller says of itself now.

    `recording_open` lends it the journal and its sinks for a term.
    """

    def __init__(
        self,
        deps: Dependencies,
        pipeline: Pipeline,
        active: ActiveConfig,
        credential_error: Callable[[], str | None],
        calendars: Callable[[], tuple[CalendarState, ...]],
        measured_use: Callable[[], tuple[MeasuredUse, ...]],
        long_parts: Callable[[], str],
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._controller = pipeline.controller
        self._description = pipeline.description
        self._active = active
        self._credential_error = credential_error
        self._calendars = calendars
        self._measured_use = measured_use
        self._long_parts = long_parts
        self._recent: RecentEvictions = deps.recent
        self._mode = deps.mode
        self._elects = deps.elects_leader
        self._records = deps.configuration.settings.recording.enabled
        self._wall_clock = wall_clock
        self._started = self._now()
        self._recording: Recording | None = None
        self._recorder: ClusterRecorder | None = None
        self._cluster: ClusterIdentity = UNKNOWN_CLUSTER

    @property
    def page(self) -> DebugPage:
        """The page `status`."""
        return DebugPage("status", "what the controller does now", self._read)

    @property
    def cluster_page(self) -> DebugPage:
        """The page by which a command finds out whose controller it asks."""
        return DebugPage("cluster", "which cluster this is the controller of", self._read_cluster)

    def set_cluster(self, cluster: ClusterIdentity) -> None:
        """Set the cluster, once the API server has named it."""
        self._cluster = cluster

    def cluster_text(self) -> str:
        """Name the cluster with its uid and address, for people; empty while it is unknown."""
        return str(self._cluster)

    @contextmanager
    def recording_open(
        self, recording: Recording, recorder: "ClusterRecorder | None" = None
    ) -> Iterator[None]:
        """Show this journal, these sinks and this recorder while the block lasts."""
        self._recording, self._recorder = recording, recorder
        try:
            yield
        finally:
            self._recording = self._recorder = None

    def recording_fault(self) -> str | None:
        """Return why what the controller sees is not recorded; None where it is not to be."""
        return None if self._recorder is None else self._recorder.fault

    def recorded_places(self) -> RecordedPlaces:
        """Return where the recording and the journal are; raises NotRecorded where nothing is."""
        if not self._records:
            raise NotRecorded(
                "this controller records nothing, so nothing earlier can be shown:"
                " recording.enabled: true in its settings has it recorded"
            )
        if self._recorder is None or self._recording is None:
            raise NotRecorded(
                "this process does not record now: it does not lead, or it starts or stops"
            )
        return RecordedPlaces(self._recorder.folder, self._recording.directory)

    def sink_errors(self) -> dict[str, str]:
        """Return what keeps each sink from its records, by name; empty when nothing does."""
        runners = {} if self._recording is None else self._recording.sink_runners
        return {name: runner.error for name, runner in runners.items() if runner.error}

    async def _read(self, query: Mapping[str, str]) -> ControllerStatus:
        refuse_filters(query)
        return await self.status()

    def _read_cluster(self, query: Mapping[str, str]) -> WatchedCluster:
        refuse_filters(query)
        cluster = self._cluster
        return WatchedCluster(name=cluster.title, uid=cluster.uid, api_server=cluster.server)

    async def status(self) -> ControllerStatus:
        """Return the status at this moment."""
        return await controller_status(
            self._controller,
            self._description,
            time=self._now(),
            started=self._started,
            version=__version__,
            cluster=self._cluster.title,
            cluster_uid=self._cluster.uid,
            api_server=self._cluster.server,
            credentials=self._credential_error() or "",
            host=os.uname().nodename,
            mode=self._mode,
            leadership=self._leadership(),
            policy=_policy_in_force(self._active),
            recent=self._recent.newest_first(),
            journal=None if self._recording is None else _journal_state(self._recording),
            recording=None if self._recorder is None else _recorder_state(self._recorder),
            sinks=() if self._recording is None else tuple(_sink_states(self._recording)),
            calendars=self._calendars(),
            measured_use=self._measured_use(),
            long_parts=self._long_parts(),
        )

    def _leadership(self) -> str:
        if not self._elects:
            return NO_ELECTION
        return STANDS_BY if self._controller.pauses.leadership.fault else LEADS

    def _now(self) -> datetime:
        return utc_time(self._wall_clock())


async def controller_status(
    controller: Controller,
    description: ControllerDescription,
    **about: Any,  # the fields about its process
) -> ControllerStatus:
    """Return the status of a controller, with what is said of the process that it is in."""
    migrations = await description.migrations(MAX_JOBS)
    pending = await description.pending_summary()
    size = controller.state.size()
    return ControllerStatus(
        **about,
        state=description.state(),
        pause=controller.pauses.check(),
        pauses=tuple(
            NamedState(name, each.text, each.note)
            for name, each in controller.readiness.pauses.items()
        ),
        modes=tuple(PluginMode(*each) for each in modes_of(controller.config) if each[2] != ACT),
        no_plugin_acts=is_watched_only(controller.config),
        brakes=tuple(_brakes(controller, description)),
        failing_plugins=tuple(
            FailingPlugin(each.profile, each.plugin, each.message, each.is_off)
            for each in controller.evaluator.faults.standing()
        ),
        nodes=size["nodes"],
        pods=size["pods"],
        limits=description.limit_status(),
        moves=_moves_under_way(controller),
        migrations=migrations,
        pending=pending,
    )


def _brakes(controller: Controller, description: ControllerDescription) -> Iterator[BrakeStatus]:
    engaged = {each.name: each for each in description.brake_states()}
    for name in controller.pauses.brake_messages():
        if (each := engaged.get(name)) is None:
            yield BrakeStatus(name)
            continue
        until = None if each.until_s is None else utc_time(each.until_s)
        since = utc_time(each.since_s)
        least = each.is_least
        yield BrakeStatus(
            name, each.message, each.scope, since, each.release, until, is_least=least
        )


def _policy_in_force(active: ActiveConfig) -> PolicyInForce:
    policy = active.policy
    profiles = tuple(profile.name for profile in policy.profiles)
    return PolicyInForce(policy.source, policy.revision, profiles, active.problems)


def _moves_under_way(controller: Controller) -> MovesUnderWay:
    found = list_moves(controller.ledger)
    requested = sum(not move.accepted for move in found.moves)
    return MovesUnderWay(requested, found.total, found.moves[:MAX_MOVES])


def _journal_state(recording: Recording) -> JournalState:
    journal = recording.journal
    open_evictions = len(journal.open_intents)
    return JournalState(
        str(recording.directory), journal.tail.last_seq, open_evictions, journal.fault
    )


def _recorder_state(recorder: "ClusterRecorder") -> RecorderState:
    return RecorderState(
        str(recorder.folder), recorder.total_bytes, recorder.interruptions, recorder.fault
    )


def _sink_states(recording: Recording) -> Iterator[SinkState]:
    for name, runner in recording.sink_runners.items():
        yield SinkState(
            name,
            runner.error,
            runner.cursor,
            runner.lag_records,
            round(runner.lag_s, 3),
            runner.dead_letters,
            runner.lost,
            runner.last_rejection,
        )
