"""A wakeup wakes those who wait, as often as it is notified, and keeps no notification."""

import anyio
import pytest

from reactive_desched.primitives.wakeup import Latch, Wakeup

pytestmark = pytest.mark.anyio


async def test_every_waiting_task_is_woken_each_time() -> None:
    wakeup, woken = Wakeup(), []

    async def wait_twice(name: str) -> None:
        for _ in range(2):
            await wakeup.wait()
            woken.append(name)

    async with anyio.create_task_group() as group:
        group.start_soon(wait_twice, "a")
        group.start_soon(wait_twice, "b")
        await anyio.wait_all_tasks_blocked()
        wakeup.notify()
        await anyio.wait_all_tasks_blocked()
        assert sorted(woken) == ["a", "b"]
        wakeup.notify()

    assert sorted(woken) == ["a", "a", "b", "b"]


async def test_a_notification_without_a_waiter_is_not_kept() -> None:
    wakeup = Wakeup()
    wakeup.notify()
    with anyio.move_on_after(0) as waiting:
        await wakeup.wait()

    assert waiting.cancelled_caught


async def test_a_latch_that_is_set_releases_present_and_later_waiters() -> None:
    latch, passed = Latch(), []

    async def wait(name: str) -> None:
        await latch.wait()
        passed.append(name)

    async with anyio.create_task_group() as group:
        group.start_soon(wait, "a")
        group.start_soon(wait, "b")
        await anyio.wait_all_tasks_blocked()
        assert (passed, latch.is_set()) == ([], False)
        latch.set()
        await anyio.wait_all_tasks_blocked()
        assert (sorted(passed), latch.is_set()) == (["a", "b"], True)

    await latch.wait()
