"""The controller writes the ranks of ScaleDownBinPack to pods where they differ, some at a time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
import trio
import trio.testing
from msgspec.structs import replace

from reactive_desched.api.event import DeletionCostsWritten
from reactive_desched.app.deletion_costs import LOOK_S, MAX_WRITES, DeletionCosts
from reactive_desched.errors import RequestRejected
from reactive_desched.model.modes import ACT, OBSERVE, PROPOSE, Mode
from reactive_desched.model.objects import Annotations, Pod
from reactive_desched.plugins.scale_down_bin_pack import (
    ScaleDownBinPackArgs,
    ScaleDownBinPackPlugin,
)
from reactive_desched.policy.policy import Policy
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import plugin_from_policy
from tests.support.flow import FakeEdgesController
from tests.support.recording_logger import RecordingLogger

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def web(name: str, on: str, cpu: str = "100m", **more: Any) -> Pod:
    return pod(name, on=on, requests={"cpu": cpu}, **more)


class Ranking(FakeEdgesController):
    """A controller whose written costs come back as the watch would bring them."""

    def __init__(self, *, mode: Mode = ACT, **parts: Any) -> None:
        super().__init__(plugin_from_policy(ScaleDownBinPackPlugin, ScaleDownBinPackArgs), **parts)
        self.act_as(mode)
        self.writes: list[tuple[str, int]] = []
        self.refusal: RequestRejected | None = None
        self.refused = {"a", "b", "c"}
        self.log = RecordingLogger()
        write = None if parts.get("dry_run") else self._write
        self.costs = DeletionCosts(self.pipeline, self.intent_store, write, self.log)

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Run the controller, and what writes costs, while the block lasts."""
        async with self.running(), anyio.create_task_group() as group:
            group.start_soon(self.costs.run)
            await anyio.sleep(1)
            yield
            group.cancel_scope.cancel()

    async def _write(self, of: Pod, cost: int) -> bool:
        await anyio.lowlevel.checkpoint()
        if self.refusal is not None and of.name in self.refused:
            raise self.refusal
        self.writes.append((of.name, cost))
        annotations = Annotations(deletion_cost=str(cost))
        version = of.resource_version + 1
        self.deliver(replace(of, annotations=annotations, resource_version=version))
        return True

    @property
    def recorded(self) -> list[DeletionCostsWritten]:
        """The events about costs."""
        return [each for each in self.intent_store.events if isinstance(each, DeletionCostsWritten)]


NODES = node("n1"), node("n2")
A, B, C = web("a", "n1"), web("b", "n1", "200m"), web("c", "n2")


async def test_costs_are_written_once_and_recorded() -> None:
    controller = Ranking()
    controller.sync_and_resume(*NODES, A, B, C)
    async with controller.following():
        assert controller.writes == [("c", 0), ("b", 1), ("a", 2)]
        await anyio.sleep(3 * LOOK_S)

    assert len(controller.writes) == 3
    [event] = controller.recorded
    assert event.costs == ("default/c 0", "default/b 1", "default/a 2")
    assert (event.pods, event.left, event.plugin) == (3, 0, "ScaleDownBinPack")
    assert controller.evicted_names == []


async def test_only_what_differs_is_written_again() -> None:
    controller = Ranking()
    controller.sync_and_resume(*NODES, A, B, C)
    async with controller.following():
        controller.writes.clear()
        controller.deliver(web("d", "n1", "150m"))
        await anyio.sleep(LOOK_S)

    assert controller.writes == [("d", 2), ("a", 3)]


async def test_a_cost_of_no_number_is_overwritten() -> None:
    controller = Ranking()
    controller.sync_and_resume(*NODES, replace(A, annotations=Annotations(deletion_cost="low")))
    async with controller.following():
        pass

    assert controller.writes == [("a", 0)]


async def test_many_costs_are_written_a_hundred_at_a_time() -> None:
    controller = Ranking()
    many = [web(f"p{at:03}", "n1", "1m") for at in range(MAX_WRITES + 1)]
    controller.sync_and_resume(*NODES, *many)
    async with controller.following():
        assert len(controller.writes) == MAX_WRITES
        assert [each.left for each in controller.recorded] == [1]
        await anyio.sleep(LOOK_S)

    assert controller.writes[-1] == (f"p{MAX_WRITES}", MAX_WRITES)


@pytest.mark.parametrize("parts", [{"dry_run": True}, {"mode": OBSERVE}, {"mode": PROPOSE}])
async def test_nothing_is_written_where_the_plugin_does_not_act(parts: dict[str, Any]) -> None:
    controller = Ranking(**parts)
    controller.sync_and_resume(*NODES, A, B, C)
    async with controller.following():
        await anyio.sleep(LOOK_S)

    assert (controller.writes, controller.recorded) == ([], [])


async def test_nothing_is_written_while_evictions_are_paused() -> None:
    controller = Ranking()
    controller.deliver_list(*NODES, A, B, C)
    async with controller.following():
        await anyio.sleep(LOOK_S)

    assert controller.writes == []


async def test_a_refusal_is_logged_with_its_remedy_and_tried_at_the_next_look() -> None:
    controller = Ranking()
    controller.refusal = RequestRejected("pods is forbidden", retryable=False, is_denied=True)
    controller.sync_and_resume(*NODES, A)
    async with controller.following():
        assert (controller.writes, controller.recorded) == ([], [])
        assert "deploy/deletion-cost/rbac.yaml" in str(controller.log.lines)
        controller.refusal = None
        await anyio.sleep(LOOK_S)

    assert controller.writes == [("a", 0)]


async def test_pods_that_an_admission_webhook_refuses_keep_no_other_pod_without_its_cost() -> None:
    controller = Ranking()
    controller.refusal = RequestRejected("400 denied by a webhook", retryable=False)
    controller.refused = {"b", "c"}
    controller.sync_and_resume(*NODES, A, B, C)
    async with controller.following():
        assert controller.writes == [("a", 2)]

    [line] = controller.log.values_of("the deletion cost of a pod cannot be written")
    assert (line["pod"], line["remedy"]) == ("default/c", None)


async def test_without_a_plugin_that_ranks_pods_nothing_wakes_until_a_reload_brings_one() -> None:
    controller = Ranking()
    controller.sync_and_resume(*NODES, A)
    with_plugin = controller.pipeline.controller.config
    without = replace(with_plugin, policy=Policy(profiles=()))
    controller.pipeline.controller.reconfigure(without)
    async with anyio.create_task_group() as group:
        group.start_soon(controller.costs.run)
        await anyio.wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().seconds_to_next_deadline == float("inf")

        controller.pipeline.controller.reconfigure(with_plugin)
        await anyio.wait_all_tasks_blocked()
        assert controller.writes == [("a", 0)]
        group.cancel_scope.cancel()


async def test_a_cost_that_kubernetes_does_not_read_is_written_again() -> None:
    controller = Ranking()
    controller.sync_and_resume(*NODES, replace(A, annotations=Annotations(deletion_cost="+0")))
    async with controller.following():
        pass

    assert controller.writes == [("a", 0)]
