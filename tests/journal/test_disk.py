"""The disk's thread: one thing after the other, results and errors back to whoever asked."""

import threading
from collections.abc import AsyncIterator
from functools import partial

import anyio
import anyio.to_thread
import pytest

from reactive_desched.journal.disk import DiskThread

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def disk() -> AsyncIterator[DiskThread]:
    thread = DiskThread()
    yield thread
    thread.close()


def youngest() -> threading.Thread:
    """Find the thread that was started last."""
    return [thread for thread in threading.enumerate() if thread.name == "journal disk"][-1]


async def test_the_work_is_done_elsewhere_and_its_result_comes_back(disk: DiskThread) -> None:
    assert await disk.run(threading.current_thread) is youngest()


async def test_an_error_is_raised_where_the_result_is_awaited_and_the_thread_continues(
    disk: DiskThread,
) -> None:
    def fail() -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        await disk.run(fail)
    assert await disk.run(lambda: "well") == "well"


async def test_a_cancelled_call_is_done_all_the_same_and_in_its_turn(
    disk: DiskThread,
) -> None:
    free, done = threading.Event(), list[str]()

    with anyio.move_on_after(0.01) as waiting:
        await disk.run(lambda: done.append("first" if free.wait(30) else "never"))
    free.set()
    await disk.run(partial(done.append, "second"))

    assert waiting.cancelled_caught
    assert done == ["first", "second"]


async def test_what_follows_is_called_with_the_result_before_the_caller_continues(
    disk: DiskThread,
) -> None:
    seen = list[object]()

    async def wait_for_it() -> None:
        seen.append(await disk.run(lambda: "result", then=seen.append))

    await wait_for_it()
    assert seen == ["result", "result"]


async def test_what_follows_is_not_called_after_an_error_or_for_a_cancelled_caller(
    disk: DiskThread,
) -> None:
    free, seen = threading.Event(), list[object]()

    with pytest.raises(ZeroDivisionError):
        await disk.run(lambda: 1 // 0, then=seen.append)
    with anyio.move_on_after(0.01):
        await disk.run(lambda: free.wait(30), then=seen.append)
    free.set()
    await disk.run(lambda: None)
    assert seen == []


async def test_an_error_in_what_follows_is_raised_where_the_result_is_awaited(
    disk: DiskThread,
) -> None:
    def fail(result: int) -> None:
        raise ValueError(result)

    with pytest.raises(ValueError, match="7"):
        await disk.run(lambda: 7, then=fail)


async def test_closing_ends_the_thread() -> None:
    disk = DiskThread()
    thread = youngest()

    disk.close()
    await anyio.to_thread.run_sync(thread.join, 30)

    assert not thread.is_alive()


def test_a_thread_whose_loop_has_ended_meanwhile_ends_in_peace() -> None:
    free, threads = threading.Event(), list[threading.Thread]()

    async def ask_and_leave() -> None:
        disk = DiskThread()
        threads.append(youngest())
        with anyio.move_on_after(0.01):
            await disk.run(lambda: free.wait(30))
        disk.close()

    anyio.run(ask_and_leave)
    free.set()
    threads[0].join(30)

    assert not threads[0].is_alive()
