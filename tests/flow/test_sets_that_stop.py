"""A set of moves in whose midst something happens: what has moved stands, and no taint is left."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest
import trio.testing
from msgspec.structs import replace

from reactive_desched.controller.consolidation import ENDS_AFTER_S, STUCK_AFTER_S
from reactive_desched.model.consolidation import EMPTY, EMPTYING
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import PodDisruptionBudget
from reactive_desched.primitives.token_bucket import TokenRate
from reactive_desched.testing.builders import node
from tests.flow.test_consolidation import NODES, Consolidating, small, web
from tests.support.configurations import UNLIMITED_MOVES, make_configuration, make_profile_of

pytestmark = pytest.mark.anyio

EVERY_S = 300.0
A, B, C = web("a", "n1"), web("b", "n1", labels={"app": "b"}), web("c", "n2", "2", owner=None)
RESTS = UNLIMITED_MOVES.model_copy(update={"futile_backoff_s": 100_000.0})


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def two_pods() -> Consolidating:
    """Return a controller that empties n1, one pod in five minutes: onto n2, which keeps C."""
    rates = {"node": TokenRate(per_second=1 / EVERY_S, burst=1)}
    controller = Consolidating(rates=rates, moves=RESTS)
    controller.sync_and_resume(*NODES, A, B, C)
    return controller


async def one_has_left(controller: Consolidating) -> None:
    assert controller.writes == [("n1", EMPTYING)]
    assert controller.evicted_names == ["a"]
    await controller.land(A, "n2")


def place_is_cordoned(controller: Consolidating) -> None:
    controller.deliver(replace(small("n2"), unschedulable=True, resource_version=9))


def place_is_not_ready(controller: Consolidating) -> None:
    lost = node("n2", ready="False", allocatable={"cpu": "4", "memory": "8Gi", "pods": "20"})
    controller.deliver(replace(lost, resource_version=9))


def place_is_deleted(controller: Consolidating) -> None:
    controller.delete(small("n2"))


def place_is_filled(controller: Consolidating) -> None:
    controller.deliver(web("full", "n2", "1500m", owner=None))


def pod_comes_that_has_to_stay(controller: Consolidating) -> None:
    controller.deliver(web("late", "n1", "100m", owner=None))


def pod_comes_that_fits_nowhere(controller: Consolidating) -> None:
    controller.deliver(web("late", "n1", "3"))


def node_is_kept(controller: Consolidating) -> None:
    kept = replace(controller.node("n1"), scale_down_disabled="true", resource_version=99)
    controller.deliver(kept)


def node_is_cordoned(controller: Consolidating) -> None:
    controller.deliver(replace(controller.node("n1"), unschedulable=True, resource_version=99))


@pytest.mark.parametrize(
    "happens",
    [
        place_is_cordoned,
        place_is_not_ready,
        place_is_deleted,
        place_is_filled,
        pod_comes_that_has_to_stay,
        pod_comes_that_fits_nowhere,
        node_is_kept,
        node_is_cordoned,
    ],
)
async def test_a_set_that_cannot_be_finished_is_given_up_within_minutes(
    happens: Callable[[Consolidating], None],
) -> None:
    controller = two_pods()
    async with controller.following():
        await one_has_left(controller)
        happens(controller)
        await anyio.sleep(2 * ENDS_AFTER_S)
        assert controller.writes[1:] == [("n1", None)]
        await anyio.sleep(2 * EVERY_S)

    assert controller.evicted_names == ["a"]
    assert controller.writes[1:] == [("n1", None)], "the node does not rest"
    assert controller.results == ["begun", "given_up"]


async def test_a_pod_that_comes_and_may_move_leaves_with_the_others() -> None:
    controller = two_pods()
    async with controller.following():
        await one_has_left(controller)
        late = web("late", "n1", "100m")
        controller.deliver(late)
        await anyio.sleep(EVERY_S)
        leaves = {"b": B, "late": late}
        await controller.land(leaves[controller.evicted_names[1]], "n2")
        await anyio.sleep(EVERY_S)
        await controller.land(leaves[controller.evicted_names[2]], "n2")
        await anyio.sleep(5)

    assert sorted(controller.evicted_names) == ["a", "b", "late"]
    assert controller.writes == [("n1", EMPTYING), ("n1", EMPTY)]
    assert controller.results == ["begun", "empty"]


async def test_a_set_whose_pod_a_budget_keeps_is_given_up_after_half_an_hour() -> None:
    controller = two_pods()
    async with controller.following():
        await one_has_left(controller)
        selector = LabelSelector({"app": "b"})
        controller.deliver(PodDisruptionBudget("default", "b", "b", selector=selector))
        await anyio.sleep(STUCK_AFTER_S - 60)
        assert controller.writes == [("n1", EMPTYING)]
        await anyio.sleep(120)

    assert controller.evicted_names == ["a"]
    assert controller.writes[1:] == [("n1", None)]
    assert controller.results == ["begun", "given_up"]


async def test_a_set_goes_on_after_a_pause() -> None:
    controller = two_pods()
    async with controller.following():
        await one_has_left(controller)
        controller.controller.pauses.pause("ann", "upgrade", None)
        await anyio.sleep(3 * EVERY_S)
        assert (controller.evicted_names, controller.writes) == (["a"], [("n1", EMPTYING)])
        controller.controller.pauses.resume("ann", "")
        await anyio.sleep(30)
        assert controller.evicted_names == ["a", "b"]
        await controller.land(B, "n2")
        await anyio.sleep(5)

    assert controller.results == ["begun", "empty"]


@pytest.mark.parametrize("keeps", [True, False], ids=["the plugin stays", "it is removed"])
async def test_a_reload_in_the_midst_of_a_set(*, keeps: bool) -> None:
    controller = two_pods()
    before: Any = controller.controller.config if keeps else None
    async with controller.following():
        await one_has_left(controller)
        controller.reconfigure(before or make_configuration((make_profile_of("test", ()),)))
        await anyio.sleep(EVERY_S + 20)
        if keeps:
            assert controller.evicted_names == ["a", "b"]
            await controller.land(B, "n2")
            await anyio.sleep(5)

    assert controller.writes[1:] == [("n1", EMPTY if keeps else None)]
    assert controller.results == ["begun", "empty" if keeps else "given_up"]
