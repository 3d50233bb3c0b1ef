import asyncio
from threading import Event, Thread

import pytest

from reactive_desched.kube.auth.client_config import CancellableRunner

pytestmark = pytest.mark.timeout(20)


def test_work_that_waits_is_cancelled_from_another_thread() -> None:
    stoppable, begun, ended = CancellableRunner(), Event(), list[str]()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append("in order")

    def run() -> None:
        with pytest.raises(asyncio.CancelledError):
            stoppable.run(work(), 1000)

    thread = Thread(target=run)
    thread.start()
    begun.wait()
    stoppable.cancel()
    thread.join()
    assert ended == ["in order"]


def test_what_is_run_after_the_stop_is_not_begun() -> None:
    stoppable, begun = CancellableRunner(), list[str]()

    async def work() -> None:
        begun.append("it")

    stoppable.cancel()
    with pytest.raises(asyncio.CancelledError):
        stoppable.run(work(), 1000)
    assert begun == []


def test_a_stop_after_the_end_does_nothing() -> None:
    stoppable, done = CancellableRunner(), list[str]()

    async def work() -> None:
        done.append("it")

    stoppable.run(work(), 1000)
    stoppable.cancel()
    assert done == ["it"]


def test_work_has_a_limit() -> None:
    with pytest.raises(TimeoutError):
        CancellableRunner().run(asyncio.sleep(1000), 0.01)
