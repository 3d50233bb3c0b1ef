"""Opens the recording of what the controller sees, for a term of leadership."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus
from msgspec.structs import replace

from reactive_desched.app.config_reload import ActiveConfig
from reactive_desched.app.input_notes import InputNotes, in_force
from reactive_desched.controller.controller import Controller
from reactive_desched.controller.pipeline import Pipeline
from reactive_desched.controller.readiness import MANUAL
from reactive_desched.journal.cluster import ClusterIdentity
from reactive_desched.journal.disk import DiskThread
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.settings.recorder import RecorderSettings
from reactive_desched.recording.frames import RECORDING_FOLDER
from reactive_desched.recording.items import (
    NO_TIME,
    BrakesHeld,
    HealthAnswered,
    Instant,
    Item,
    NodesClosed,
    PauseSet,
    TermChanged,
)
from reactive_desched.recording.recorder import ClusterName, ClusterRecorder, RecorderBounds
from reactive_desched.telemetry.logs import Logger


class RecordingDisk:
    """Runs what blocks on the disk of a recording, in threads that no end of the process waits for.

    A disk that hangs keeps one call; until that is done each further one raises OSError.
    """

    def __init__(self) -> None:
        self._is_busy = False

    async def run(self, work: Callable[[], Any]) -> Any:  # what the call returns
        """Return or raise what the call does; a caller that is cancelled leaves it running."""
        if self._is_busy:
            raise OSError(0, "the disk has not done what it was asked for before")
        self._is_busy = True

        def do() -> Any:  # what the call returns
            try:
                return work()
            finally:
                self._is_busy = False

        thread = DiskThread("recording disk")
        try:
            return await thread.run(do)
        finally:
            thread.close()


def build_recorder(
    settings: RecorderSettings,
    controller: Controller,
    active: ActiveConfig,
    journal: Path,
    cluster: ClusterIdentity,
    notes: InputNotes,
    log: Logger,
    *,
    dry_run: bool,
) -> ClusterRecorder:
    """Build what records a controller, beside its journal unless the settings name a folder."""
    bounds = RecorderBounds(
        settings.max_bytes,
        settings.max_age_s,
        settings.segment.max_bytes,
        settings.segment.max_age_s,
    )
    return ClusterRecorder(
        controller.state,
        Path(settings.directory) if settings.directory else journal / RECORDING_FOLDER,
        bounds,
        standing_items(
            controller, lambda: active.configuration, notes, socket.gethostname(), dry_run=dry_run
        ),
        moment=controller.clocks.moment,
        log=log,
        cluster=ClusterName(cluster.title, cluster.uid),
        run_blocking=RecordingDisk().run,
    )


def standing_items(
    controller: Controller,
    configuration: Callable[[], Configuration],
    notes: InputNotes,
    identity: str,
    *,
    dry_run: bool,
) -> Callable[[Instant], Iterator[Item]]:
    """Return what yields what holds at a moment besides the objects.

    That is the configuration in force, the term, since when the process counts, brakes, which nodes
    closed lately, answers to health checks, and pauses.
    """

    def standing(at: Instant) -> Iterator[Item]:
        yield in_force(at, configuration(), dry_run=dry_run)
        yield TermChanged(at, leads=not controller.pauses.leadership.fault, identity=identity)
        yield replace(notes.process, at=at)
        yield _brakes_held(controller, at)
        yield NodesClosed(at, controller.state.nodes.closings.times)
        for answer in controller.pauses.health_answers():
            yield HealthAnswered(at, answer.check, answer)
        for name, status in controller.readiness.pauses.items():
            yield PauseSet(at, name, status.reason)

    return standing


def _brakes_held(controller: Controller, at: Instant) -> BrakesHeld:
    pauses = controller.pauses
    return BrakesHeld(at, pauses.saved_brakes(), pauses.pause_file(), pauses.storm_ends)


async def run_recorder(
    recorder: ClusterRecorder,
    pipeline: Pipeline,
    notes: InputNotes,
    *,
    task_status: TaskStatus[None] = TASK_STATUS_IGNORED,
) -> None:
    """Record from the end of the initial sync on, until cancelled.

    It begins in the turn of the event loop in which every resource is in sync, in which the first
    subjects may be evaluated: start it before the startup pause ends.
    """
    controller = pipeline.controller
    readiness, clocks = controller.readiness, controller.clocks

    def note_brakes() -> None:
        notes.note(_brakes_held(controller, NO_TIME))

    def note_pause(name: str, reason: str) -> None:
        notes.pause_set(name, reason)
        if name == MANUAL:
            note_brakes()

    def note_begin() -> None:
        notes.evaluation_began(clocks.monotonic())

    with (
        notes.taken_by(recorder.note),
        readiness.followed_by(note_pause),
        controller.pauses.pause_file_followed_by(note_brakes),
        pipeline.worker.followed_by(notes.worked, notes.looked_for_work),
        pipeline.evictions.followed_by(notes.eviction_requested, notes.eviction_settled),
        controller.initial_sync_done.followed_by(note_begin),
        readiness.synced.followed_by(recorder.begin),
    ):
        task_status.started()
        await readiness.synced.wait()
        await recorder.run()
