"""Whoever stood still looks at the picture before it acts on it."""

import anyio
import pytest

from reactive_desched.gate.rate_limits import TokenRate
from reactive_desched.testing.builders import node, pod
from tests.support.assembly_bench import TAINTED, ControllerBench

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

ASLEEP_S = 100


async def asleep(bench: ControllerBench) -> None:
    """Let time pass in which nobody looks, and distrust the picture on waking."""
    bench.controller.suspend_detector.on_resume = lambda _: bench.handlers["nodes"].mark_stale(
        "stood still"
    )
    await anyio.sleep(ASLEEP_S)


async def test_news_that_is_read_on_waking_is_judged_when_the_picture_is_trusted_again() -> None:
    bench = ControllerBench()
    async with bench.running():
        bench.sync_and_resume(node("n1"), node("n2"), pod("web", on="n1"))
        await asleep(bench)
        bench.deliver(TAINTED)
        await anyio.sleep(1)
        assert bench.evicted_names == []
        bench.handlers["nodes"].mark_synced()
        await anyio.sleep(1)

    assert bench.evicted_names == ["web"]


async def test_what_waited_for_a_token_is_not_evicted_on_the_old_picture() -> None:
    bench = ControllerBench(rates={"cluster": TokenRate(1 / ASLEEP_S, 1)})
    async with bench.running():
        bench.sync_and_resume(node("n1"), node("n2"), pod("web", on="n1"), pod("db", on="n1"))
        bench.deliver(TAINTED)
        await asleep(bench)
        bench.deliver(node("n1"))  # read after waking: the taint has gone meanwhile
        bench.handlers["nodes"].mark_synced()
        await anyio.sleep(ASLEEP_S)

    assert len(bench.evicted_names) == 1


async def test_what_was_about_to_be_asked_for_is_withheld() -> None:
    bench = ControllerBench()
    async with bench.running():
        bench.sync_and_resume(node("n1"), node("n2"))
        assert bench.controller.idle_reason() is None
        await asleep(bench)

        assert bench.controller.idle_reason() == "nodes: stood still"
