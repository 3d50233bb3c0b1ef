"""Constructs a controller and the parts that drive it, each from those before it."""

from collections.abc import Callable

from msgspec import Struct

from reactive_desched.controller.asked_kinds import asked_kinds, resources_to_sync
from reactive_desched.controller.controller import Controller
from reactive_desched.controller.description import ControllerDescription
from reactive_desched.controller.pauses import SuspendDetector
from reactive_desched.controller.readiness import Readiness
from reactive_desched.controller.sync import ResourceEventHandler
from reactive_desched.controller.worker import EvictionPool, Worker
from reactive_desched.eviction.client import EvictionClient
from reactive_desched.eviction.executor import (
    EvictionExecutor,
)
from reactive_desched.eviction.recorder import Recorder
from reactive_desched.model.observer import Observer
from reactive_desched.policy.configuration import Configuration
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.state.resources import GANG_RESOURCES, USAGE_RESOURCES


class Pipeline(Struct, frozen=True):
    """The way of a change: event handlers -> controller -> worker -> evictions -> controller."""

    event_handlers: dict[str, ResourceEventHandler]
    controller: Controller
    description: ControllerDescription
    worker: Worker
    evictions: EvictionPool


def build_pipeline(  # noqa: PLR0913 -- each is one edge of the pipeline, or a clock
    config: Configuration,
    *,
    recorder: Recorder,
    evictor: EvictionClient,
    observer: Observer,
    work_available: Wakeup,
    suspend: SuspendDetector,
    clock: Callable[[], float],
    wall_clock: Callable[[], float],
    dry_run: bool = False,
) -> Pipeline:
    """Construct everything between the reflectors and the API server's eviction endpoint."""
    to_sync = resources_to_sync(config)
    controller = Controller(
        config,
        readiness=Readiness(to_sync, observer, work_available, asked_kinds(config)),
        recorder=recorder,
        observer=observer,
        work_available=work_available,
        suspend=suspend,
        clock=clock,
        wall_clock=wall_clock,
        dry_run=dry_run,
    )
    executor = EvictionExecutor(recorder, evictor, clock)
    evictions = EvictionPool(controller, executor, config.controller.evictions.max_in_flight)
    worker = Worker(controller, evictions, work_available, observer, clock)
    handlers = {
        resource: ResourceEventHandler(resource, controller, worker, observer)
        for resource in sorted({*to_sync, *USAGE_RESOURCES, *GANG_RESOURCES})
    }
    description = ControllerDescription(controller, clock, wall_clock)
    return Pipeline(handlers, controller, description, worker, evictions)
