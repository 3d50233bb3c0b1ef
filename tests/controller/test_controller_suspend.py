"""After the process was suspended, nothing is decided on the state of before."""

from typing import Any

import anyio
import pytest

from reactive_desched.controller.pauses import SuspendDetector
from reactive_desched.controller.worker import check_for_suspend
from reactive_desched.gate.rate_limits import TokenRate
from reactive_desched.testing.builders import node, pod
from tests.support.assembly_bench import TAINTED, ControllerBench
from tests.support.golden import Golden

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SUSPENDED_S = 100


class Clock:
    """The machine's clock: it goes on while the process is suspended."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def suspendable(**settings: Any) -> tuple[ControllerBench, Clock]:
    clock = Clock()
    return ControllerBench(suspend=SuspendDetector(clock), **settings), clock


async def test_changes_read_after_a_suspend_are_evaluated_once_the_resource_is_in_sync_again() -> (
    None
):
    bench, clock = suspendable()
    async with bench.running():
        bench.sync_and_resume(node("n1"), node("n2"), pod("web", on="n1"))
        clock.now += SUSPENDED_S
        bench.deliver(TAINTED)
        await anyio.sleep(1)
        assert bench.evicted_names == []
        assert bench.observer.of_kind("suspend") == [SUSPENDED_S]
        for handler in bench.handlers.values():
            handler.mark_synced()
        await anyio.sleep(1)

    assert bench.evicted_names == ["web"]


async def test_a_pod_that_waited_for_a_token_is_not_evicted_on_the_old_state() -> None:
    bench, clock = suspendable(rates={"cluster": TokenRate(1 / SUSPENDED_S, 1)})
    async with bench.running():
        bench.sync_and_resume(node("n1"), node("n2"), pod("web", on="n1"), pod("db", on="n1"))
        bench.deliver(TAINTED)
        await anyio.sleep(1)
        clock.now += SUSPENDED_S
        await anyio.sleep(SUSPENDED_S)
        bench.deliver(node("n1"))  # read afterwards: the taint was removed meanwhile
        for handler in bench.handlers.values():
            handler.mark_synced()
        await anyio.sleep(SUSPENDED_S)

    assert len(bench.evicted_names) == 1


async def test_every_resource_is_paused_and_every_reflector_begins_a_new_epoch(
    golden: Golden,
) -> None:
    bench, clock = suspendable()
    async with bench.running():
        bench.sync_and_resume(node("n1"), node("n2"))
        assert bench.controller.pauses.check() == ""
        clock.now += SUSPENDED_S

        reason = golden()
        assert bench.controller.pauses.check().endswith(reason)
        synced = [name for name in bench.readiness.pauses if name.startswith("sync/")]
        assert [bench.readiness.pauses[name].reason for name in synced] == [reason] * len(synced)
        assert (bench.readiness.epoch.number, bench.readiness.epoch.reason) == (1, reason)


async def test_a_resource_that_the_server_denies_stays_without_after_a_suspend() -> None:
    bench, clock = suspendable()
    bench.deliver_list()
    bench.handlers["csinodes"].mark_stale("403")
    bench.handlers["csinodes"].mark_denied("403")
    clock.now += SUSPENDED_S
    bench.controller.pauses.check()
    bench.controller.pauses.check()
    clock.now += SUSPENDED_S
    bench.controller.pauses.check()

    assert bench.readiness.pauses["sync/csinodes"].reason == ""
    assert "403" in bench.readiness.pauses["sync/csinodes"].note


async def test_idling_is_no_suspend() -> None:
    bench = ControllerBench(suspend=SuspendDetector(anyio.current_time))
    async with anyio.create_task_group() as group:
        group.start_soon(check_for_suspend, bench.controller)
        await anyio.sleep(3600)
        group.cancel_scope.cancel()

    assert bench.observer.of_kind("suspend") == []
