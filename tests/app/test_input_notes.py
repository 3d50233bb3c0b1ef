"""What reaches the controller besides objects is noted where it passes, if a recorder runs."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from reactive_desched.app.input_notes import (
    InputNotes,
    MakeItem,
    NotedConfigurable,
    NotedEvictionClient,
)
from reactive_desched.controller.turn_clocks import TurnClocks
from reactive_desched.eviction.client import EvictionClient
from reactive_desched.model.evictors.soft_eviction import ANNOTATION
from reactive_desched.model.outcomes import (
    EffectUnknown,
    EvictionRequest,
    EvictionResponse,
    Outcome,
    PodFound,
    PodLookup,
)
from reactive_desched.policy.configuration import Configuration
from reactive_desched.recording.items import (
    ConfigurationInForce,
    EvictionAnswered,
    InheritedEnd,
    InheritedEvictionEnded,
    Instant,
    Item,
    OrderGiven,
    PauseSet,
    PodLookedUp,
)
from reactive_desched.web.operator import Order
from tests.support.configurations import make_configuration

pytestmark = pytest.mark.anyio
AT = Instant(5.0, 3.0)
LOST = EffectUnknown("the connection broke")
FOUND = PodFound("u", terminating=False, annotations={ANNOTATION: "x", "secret": "y"})


class Client(EvictionClient):
    effect_timeout_s = 7.0

    async def evict(self, _: EvictionRequest) -> EvictionResponse:
        return LOST

    async def get_pod(self, namespace: str, name: str) -> PodLookup:
        return FOUND


class Taken:
    """A recorder that takes notes."""

    def __init__(self) -> None:
        self.notes = InputNotes()
        self.items: list[Item] = []

    def take(self, make: MakeItem) -> None:
        self.items.append(make(AT))


@pytest.fixture
def taken() -> Taken:
    return Taken()


async def test_answers_of_the_api_server_are_noted_with_when_the_request_was_sent(
    taken: Taken,
) -> None:
    client = NotedEvictionClient(Client(), taken.notes, clock=lambda: 2.0)
    with taken.notes.taken_by(taken.take):
        assert await client.evict(EvictionRequest("shop", "web", "u")) == LOST
        assert await client.get_pod("shop", "web") == FOUND

    assert client.effect_timeout_s == Client.effect_timeout_s
    assert taken.items == [
        EvictionAnswered(AT, "shop", "web", "u", LOST, 2.0),
        PodLookedUp(AT, "shop", "web", replace(FOUND, annotations={ANNOTATION: "x"})),
    ]


async def test_an_order_is_noted_before_it_is_carried_out(taken: Taken) -> None:
    async def carry_out(body: Mapping[str, Any]) -> object:
        assert taken.items == [OrderGiven(AT, "pause", "ann", {"forSeconds": "5.0"})]
        return "done"

    order = taken.notes.of_order(Order("pause", "evict nothing", carry_out))
    with taken.notes.taken_by(taken.take):
        assert await order.carry_out({"by": "ann", "forSeconds": 5.0}) == "done"


async def test_a_configuration_is_noted_once_it_is_applied(taken: Taken) -> None:
    class Part:
        clocks = TurnClocks(lambda: 2.0, lambda: 5.0)

        def reconfigure(self, config: Configuration) -> None:
            assert not taken.items

    configuration = make_configuration(())
    with taken.notes.taken_by(taken.take):
        NotedConfigurable(Part(), taken.notes, dry_run=True).reconfigure(configuration)

    [item] = taken.items
    assert isinstance(item, ConfigurationInForce)
    assert item.revision == configuration.policy.revision
    assert item.flags == {"dryRun": "true"}


async def test_what_an_earlier_process_left_open_is_known_from_the_start(taken: Taken) -> None:
    gone = Outcome("unknown", "it is gone", reason="FoundGone")
    taken.notes.evictions_inherited(3.0, {"u1": gone}, ["u2", "u3"])
    taken.notes.inherited_eviction_ended(4.0, "u3", gone)
    with taken.notes.taken_by(taken.take):
        taken.notes.inherited_eviction_ended(7.0, "u2", gone)

    ends = [
        InheritedEnd(uid, "unknown", "FoundGone", "it is gone", ended_s=at_s)
        for uid, at_s in [("u1", 3.0), ("u3", 4.0), ("u2", 7.0)]
    ]
    assert (taken.notes.process.ended, taken.notes.process.inherited) == (tuple(ends), ())
    assert taken.items == [InheritedEvictionEnded(AT, ends[-1])]


async def test_without_a_recorder_nothing_is_noted(taken: Taken) -> None:
    with taken.notes.taken_by(taken.take):
        taken.notes.pause_set("manual", "ann")
    taken.notes.pause_set("manual", "")

    assert taken.items == [PauseSet(AT, "manual", "ann")]
