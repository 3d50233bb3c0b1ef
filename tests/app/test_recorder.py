"""What stands besides the objects of a cluster is the same in each picture of a recording."""

import pytest

from reactive_desched.app.recorder import standing_items
from reactive_desched.recording.items import (
    BrakesHeld,
    ConfigurationInForce,
    Instant,
    PauseSet,
    TermChanged,
)
from tests.support.assembly_bench import ControllerBench
from tests.support.configurations import make_configuration

pytestmark = pytest.mark.anyio
AT = Instant(5.0, 3.0)


async def test_a_picture_has_the_configuration_the_term_brakes_and_every_pause() -> None:
    controller = ControllerBench().controller
    configuration = make_configuration(())
    controller.pauses.pause("ann", "upgrade", None)
    controller.pauses.set_pause_file("a change")
    standing = standing_items(controller, lambda: configuration, "host-1", dry_run=False)

    items = {(type(each), getattr(each, "name", "")): each for each in standing(AT)}

    configured = items[ConfigurationInForce, ""]
    assert isinstance(configured, ConfigurationInForce)
    assert configured.revision == configuration.policy.revision
    assert configured.flags == {}
    assert items[TermChanged, ""] == TermChanged(AT, leads=True, identity="host-1")
    held = items[BrakesHeld, ""]
    assert held == BrakesHeld(AT, controller.pauses.saved_brakes(), "a change")
    assert isinstance(held, BrakesHeld)
    assert held.saved.pause is not None
    assert held.saved.pause.by == "ann"
    pauses = {each.name: each.reason for each in items.values() if isinstance(each, PauseSet)}
    assert pauses == {name: each.reason for name, each in controller.readiness.pauses.items()}
    assert pauses["manual"].startswith("paused by ann")
