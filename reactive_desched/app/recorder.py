"""Opens the recording of what the controller sees, for a term of leadership."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from reactive_desched.app.config_reload import ActiveConfig
from reactive_desched.controller.controller import Controller
from reactive_desched.journal.cluster import ClusterIdentity
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.settings.recorder import RecorderSettings
from reactive_desched.recording.frames import RECORDING_FOLDER
from reactive_desched.recording.items import (
    ConfigurationInForce,
    Instant,
    Item,
    PauseSet,
    TermChanged,
)
from reactive_desched.recording.recorder import ClusterName, ClusterRecorder, RecorderBounds
from reactive_desched.telemetry.logs import Logger


def build_recorder(
    settings: RecorderSettings,
    controller: Controller,
    active: ActiveConfig,
    journal: Path,
    cluster: ClusterIdentity,
    log: Logger,
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
        standing_items(controller, lambda: active.configuration),
        clock=time.monotonic,
        wall_clock=time.time,
        log=log,
        cluster=ClusterName(cluster.name, cluster.uid),
    )


def standing_items(
    controller: Controller, configuration: Callable[[], Configuration]
) -> Callable[[Instant], Iterator[Item]]:
    """Return what yields the configuration in force, the term and the pauses at a moment."""

    def standing(at: Instant) -> Iterator[Item]:
        yield in_force(at, configuration())
        yield TermChanged(at, leads=not controller.pauses.leadership.is_standby)
        for name, status in controller.readiness.pauses.items():
            yield PauseSet(at, name, status.reason)

    return standing


def in_force(at: Instant, configuration: Configuration) -> ConfigurationInForce:
    """Return a configuration as a recording has it."""
    texts = [
        each.text if isinstance(each.text, str) else each.text.decode(errors="replace")
        for each in configuration.sources
    ]
    policy = configuration.policy
    return ConfigurationInForce(
        at,
        texts[0] if texts else "",
        texts[1] if len(texts) > 1 else "",
        policy.revision,
        policy.source,
    )


async def run_recorder(recorder: ClusterRecorder, controller: Controller) -> None:
    """Record from the end of the initial sync on, until cancelled."""
    await controller.readiness.synced.wait()
    await recorder.run()
