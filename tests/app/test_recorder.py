"""What stands besides the objects of a cluster is the same in each picture of a recording."""

import threading

import anyio
import pytest

from reactive_desched.app.input_notes import InputNotes
from reactive_desched.app.recorder import RecordingDisk, standing_items
from reactive_desched.model.brakes import SavedBrakes
from reactive_desched.policy.settings.brakes import BrakeSettings
from reactive_desched.recording.items import (
    BrakesHeld,
    ConfigurationInForce,
    Instant,
    PauseSet,
    ProcessBegan,
    TermChanged,
)
from tests.support.assembly_bench import ControllerBench
from tests.support.configurations import make_configuration

pytestmark = pytest.mark.anyio
AT = Instant(5.0, 3.0)


async def test_a_picture_has_the_configuration_the_term_brakes_and_every_pause() -> None:
    controller = ControllerBench(brakes=BrakeSettings()).controller
    configuration = make_configuration(())
    ends = (anyio.current_time() + 900.0,)
    controller.pauses.restore(SavedBrakes(storm="8 pods were found"), ends)
    controller.pauses.pause("ann", "upgrade", None)
    controller.pauses.set_pause_file("a change")
    notes = InputNotes()
    notes.evaluation_began(2.0)
    standing = standing_items(controller, lambda: configuration, notes, "host-1", dry_run=False)

    items = {(type(each), getattr(each, "name", "")): each for each in standing(AT)}

    configured = items[ConfigurationInForce, ""]
    assert isinstance(configured, ConfigurationInForce)
    assert configured.revision == configuration.policy.revision
    assert configured.flags == {}
    assert items[ProcessBegan, ""] == ProcessBegan(AT, evaluates_from_s=2.0, has_job_steps=True)
    assert items[TermChanged, ""] == TermChanged(AT, leads=True, identity="host-1")
    held = items[BrakesHeld, ""]
    assert held == BrakesHeld(AT, controller.pauses.saved_brakes(), "a change", ends)
    assert isinstance(held, BrakesHeld)
    assert held.saved.pause is not None
    assert held.saved.pause.by == "ann"
    pauses = {each.name: each.reason for each in items.values() if isinstance(each, PauseSet)}
    assert pauses == {name: each.reason for name, each in controller.readiness.pauses.items()}
    assert pauses["manual"].startswith("paused by ann")


async def test_a_disk_that_hangs_keeps_one_call_and_the_end_of_the_process_waits_for_none() -> None:
    disk, is_there, may_end = RecordingDisk(), threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    def hang() -> str:
        threads.append(threading.current_thread())
        is_there.set()
        may_end.wait(60)
        return "late"

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(disk.run, hang)
        await anyio.to_thread.run_sync(is_there.wait, 60)
        tasks.cancel_scope.cancel()
    with pytest.raises(OSError, match="asked for before"):
        await disk.run(lambda: None)
    assert [thread.daemon for thread in threads] == [True]

    may_end.set()
    await anyio.to_thread.run_sync(threads[0].join, 60)
    assert await disk.run(lambda: "again") == "again"


async def test_what_the_disk_says_is_raised() -> None:
    def fail() -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        await RecordingDisk().run(fail)
