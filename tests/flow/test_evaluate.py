"""The order `evaluate`: what is named is looked at at once, and followed until it has ended."""

from inspect import isawaitable
from typing import Any

import anyio
import pytest
import trio.testing
from msgspec.structs import replace

from reactive_desched.api.event import EvaluationRequested
from reactive_desched.app.evaluating import AskedList, Evaluating
from reactive_desched.app.input_notes import InputNotes
from reactive_desched.controller import asked_evaluations
from reactive_desched.controller.asked_evaluations import AskedStatus
from reactive_desched.controller.pending import PodProgress
from reactive_desched.controller.readiness import STARTUP
from reactive_desched.errors import ConfigError
from reactive_desched.model.objects import Annotations
from reactive_desched.model.outcomes import DryRun, ServerError
from reactive_desched.plugins.duplicates import DuplicatesArgs, DuplicatesPlugin
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.primitives.timers import DebounceConfig
from reactive_desched.primitives.token_bucket import TokenRate
from reactive_desched.recording.items import NO_TIME, Item, OrderGiven
from reactive_desched.testing.builders import node, pod
from tests.support.configurations import UNLIMITED_MOVES, make_configuration, make_profile_of
from tests.support.flow import FakeEdgesController

pytestmark = pytest.mark.anyio

TAINTED = node("n1", "gpu:NoSchedule")
TAINTS = "RemovePodsViolatingNodeTaints"
SLOW = DebounceConfig(600, 600)
"""Nothing is evaluated within a test but what is asked for."""


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


class Asked(FakeEdgesController):
    """A controller with the order and the page."""

    def __init__(self, **parts: Any) -> None:
        plugins = (NodeTaintsPlugin(NodeTaintsArgs()), DuplicatesPlugin(DuplicatesArgs()))
        super().__init__(*plugins, **{"debounce": SLOW, "moves": UNLIMITED_MOVES, **parts})
        self.notes = InputNotes()
        self.evaluating = Evaluating(self.pipeline, self.intent_store, self.notes)

    async def ask(self, **body: Any) -> AskedStatus:
        """Carry out the order."""
        [order] = self.evaluating.orders
        status = await order.carry_out(body)
        assert isinstance(status, AskedStatus)
        return status

    async def read(self, number: int) -> AskedStatus:
        """Read how far one is."""
        status = await self.read_page({"number": str(number)})
        assert isinstance(status, AskedStatus)
        return status

    async def read_page(self, query: dict[str, str]) -> object:
        """Read the page."""
        [page] = self.evaluating.pages
        answer = page.read(query)
        assert isawaitable(answer)
        return await answer

    async def after(self, seconds: float, **body: Any) -> AskedStatus:
        """Ask, and read some time later."""
        asked = await self.ask(**body)
        await anyio.sleep(seconds)
        return await self.read(asked.number)


def states(status: AskedStatus) -> dict[str, PodProgress]:
    return {each.pod: each.state for each in status.pods}


async def test_a_node_is_evaluated_before_its_quiet_time_ends() -> None:
    controller = Asked()
    controller.sync_and_resume(
        node("n1"), node("n2"), pod("a", on="n1"), pod("b", on="n1", owner="ReplicaSet/api")
    )
    async with controller.running():
        await anyio.sleep(1)
        controller.deliver(TAINTED)
        await anyio.sleep(10)
        assert controller.evicted_names == []

        status = await controller.after(1, node="n1", by="ann", reason="an upgrade")

    assert sorted(controller.evicted_names) == ["a", "b"]
    assert (status.scope, status.selected, status.evaluated) == ("node n1", 2, True)
    [context, *_] = [each for each, _ in controller.intent_store.decisions]
    assert str(context.trigger) == "EvaluationAsked node n1 by ann"
    assert controller.intent_store.events == [
        EvaluationRequested(by="ann", message="an upgrade", scope="node n1")
    ]


@pytest.mark.parametrize(
    ("scope", "evicted"),
    [
        ({"node": "n1"}, ["a", "b"]),
        ({"pod": "default/b"}, ["a", "b"]),  # a node is looked at as a whole
        ({"namespace": "shop"}, ["c"]),
        ({"owner": "shop/ReplicaSet/web"}, ["c"]),
        ({"plugin": TAINTS}, ["a", "b", "c"]),
        ({"plugin": "RemoveDuplicates"}, []),
        ({"profile": "test", "node": "n3"}, ["c"]),
        ({"all": True}, ["a", "b", "c"]),
    ],
)
async def test_only_what_may_concern_the_named_pods_is_evaluated(
    scope: dict[str, Any], evicted: list[str]
) -> None:
    controller = Asked()
    pods = (
        pod("a", on="n1"),
        pod("b", on="n1", owner="ReplicaSet/api"),
        pod("c", on="n3", namespace="shop"),
    )
    controller.sync_and_resume(node("n1"), node("n2"), node("n3"), *pods)
    async with controller.running():
        await anyio.sleep(1)
        controller.deliver(TAINTED, node("n3", "gpu:NoSchedule"))
        await anyio.sleep(1)
        await controller.after(1, **scope)

    assert sorted(controller.evicted_names) == evicted


async def test_pods_beside_the_named_ones_are_not_counted() -> None:
    controller = Asked()
    controller.sync_and_resume(
        node("n1"), node("n2"), pod("a", on="n1"), pod("b", on="n1", owner="ReplicaSet/api")
    )
    async with controller.running():
        await anyio.sleep(1)
        controller.deliver(TAINTED)
        status = await controller.after(1, pod="default/b")

    assert list(states(status)) == ["b"]


async def test_it_has_ended_when_every_pod_left_stays_or_is_found_no_more() -> None:
    rates = {"node": TokenRate(per_second=1 / 60, burst=1)}
    controller = Asked(rates=rates, debounce=DebounceConfig(0, 0))
    mirror = replace(
        pod("mirror", on="n1", owner="ReplicaSet/m"), annotations=Annotations(mirror="x")
    )
    controller.sync_and_resume(
        node("n1"), node("n2"), mirror, pod("a", on="n1"), pod("b", on="n1", owner="ReplicaSet/api")
    )
    async with controller.running():
        await anyio.sleep(1)
        controller.deliver(TAINTED)
        asked = await controller.ask(node="n1")
        await anyio.sleep(1)
        first = await controller.read(asked.number)
        assert sorted(states(first).values()) == ["leaves", "stays", "waits"]
        assert not first.has_ended
        assert {each.reason: each.findings for each in first.reasons} == {
            "EvictionRateLimited": 1,
            "MirrorPod": 1,
        }
        assert controller.evicted_names == ["a"]
        controller.delete(pod("a", on="n1"))
        controller.deliver(pod("c", on="n2", created=2))
        controller.deliver(node("n1"))  # the taint is gone: the other pod may stay
        await anyio.sleep(2)
        last = await controller.read(asked.number)

    assert last.has_ended
    assert states(last) == {"mirror": "not_found", "b": "not_found", "a": "ended"}
    assert {each.pod: each.message for each in last.pods}["a"] == "moved"


async def test_a_pod_that_could_not_be_evicted_waits() -> None:
    controller = Asked()
    controller.evictor.script["a"] = [ServerError(500, "down")]
    controller.sync_and_resume(node("n1"), node("n2"), pod("a", on="n1"))
    async with controller.running():
        await anyio.sleep(1)
        controller.deliver(TAINTED)
        status = await controller.after(1, node="n1")

    assert states(status) == {"a": "waits"}
    assert not status.has_ended


async def test_a_dry_run_ends_with_what_would_be_evicted() -> None:
    controller = Asked(dry_run=True)
    controller.evictor.script["a"] = [DryRun()]
    controller.sync_and_resume(node("n1"), node("n2"), pod("a", on="n1"))
    async with controller.running():
        await anyio.sleep(1)
        controller.deliver(TAINTED)
        status = await controller.after(1, node="n1")

    assert states(status) == {"a": "dry_run"}
    assert status.has_ended


async def test_a_node_without_findings_ends_with_nothing_found() -> None:
    controller = Asked()
    controller.sync_and_resume(node("n1"), pod("a", on="n1"))
    async with controller.running():
        status = await controller.after(1, node="n1")

    assert (status.has_ended, status.states, status.selected) == (True, {}, 1)


async def test_another_configuration_evaluates_everything_and_so_the_rest_of_it() -> None:
    controller = Asked()
    controller.sync_and_resume(TAINTED, node("n2"), pod("a", on="n1"))
    plugins = (NodeTaintsPlugin(NodeTaintsArgs()),)
    config = make_configuration((make_profile_of("test", plugins),), moves=UNLIMITED_MOVES)
    async with controller.running():
        await anyio.sleep(1)
        asked = await controller.ask(all=True)
        controller.reconfigure(config)
        await anyio.sleep(1)
        status = await controller.read(asked.number)

    assert status.evaluated
    assert list(states(status)) in (["a"], [])  # it may have left before


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "name what to evaluate"),
        ({"all": True, "node": "n1"}, "name nothing beside it"),
        ({"node": "n11"}, "did you mean n1"),
        ({"node": "elsewhere"}, "known here: n1"),
        ({"pod": "shop/none"}, "there is no pod"),
        ({"owner": "shop/Deployment/web"}, "no pod belongs to"),
        ({"namespace": "none"}, "has no pod"),
        ({"plugin": "RemoveDuplicate"}, "did you mean RemoveDuplicates"),
        ({"profile": "tset"}, "did you mean test"),
        ({"nodes": "n1"}, "unknown; did you mean node[?]"),
    ],
)
async def test_what_is_not_there_is_refused(body: dict[str, Any], message: str) -> None:
    controller = Asked()
    controller.sync_and_resume(node("n1"), pod("a", on="n1"))
    async with controller.running():
        await anyio.sleep(1)
        with pytest.raises(ConfigError, match=message):
            await controller.ask(**body)

    assert list(controller.controller.asked) == []


async def test_of_many_nodes_some_are_named() -> None:
    controller = Asked()
    controller.sync_and_resume(*(node(f"n{number}") for number in range(1, 10)))
    async with controller.running():
        with pytest.raises(ConfigError, match="such as n1 and n9"):
            await controller.ask(node="elsewhere")


async def test_while_nothing_is_evaluated_it_waits_and_says_why() -> None:
    controller = Asked()
    controller.sync_and_resume(TAINTED, node("n2"), pod("a", on="n1"))
    async with controller.running():
        await anyio.sleep(1)
        controller.readiness.pause(STARTUP, "the API server is away")
        status = await controller.after(5, node="n1")
        assert (status.evaluated, status.has_ended) == (False, False)
        assert "the API server is away" in status.hold
        controller.resume(STARTUP)
        await anyio.sleep(1)

        assert (await controller.read(status.number)).evaluated


async def test_the_last_ones_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = Asked()
    controller.sync_and_resume(node("n1"), pod("a", on="n1"))
    async with controller.running():
        await anyio.sleep(1)
        for _ in range(asked_evaluations.MAX_ASKED + 1):
            await controller.ask(all=True)
        listed = await controller.read_page({})
        with pytest.raises(ConfigError, match="there is no evaluation"):
            await controller.read(1)

    assert isinstance(listed, AskedList)
    numbers = [each.number for each in listed.evaluations]
    assert numbers == list(range(asked_evaluations.MAX_ASKED + 1, 1, -1))


async def test_pods_beyond_the_bound_are_counted_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked_evaluations, "MAX_FOUND", 2)
    controller = Asked()
    pods = [pod(f"p{number}", on="n1") for number in range(5)]
    controller.sync_and_resume(node("n1"), node("n2"), *pods)
    async with controller.running():
        await anyio.sleep(1)
        controller.deliver(TAINTED)
        status = await controller.after(1, node="n1")

    assert (len(status.pods), status.unfollowed) == (2, 3)


async def test_the_order_is_recorded_when_it_is_carried_out() -> None:
    controller = Asked()
    taken: list[Item] = []
    controller.sync_and_resume(node("n1"), pod("a", on="n1"))
    async with controller.running():
        await anyio.sleep(1)
        with controller.notes.taken_by(lambda make: taken.append(make(NO_TIME))):
            await controller.ask(node="n1", by="ann")
            with pytest.raises(ConfigError):
                await controller.ask(node="n7", by="ann")

    assert taken == [OrderGiven(NO_TIME, "evaluate", "ann", {"node": "n1"})]


async def test_before_the_first_evaluation_there_is_nothing_to_ask_for() -> None:
    controller = Asked()
    with pytest.raises(ConfigError, match="nothing has been evaluated yet"):
        await controller.ask(node="n1")
