import anyio
import pytest

from reactive_desched.primitives.loop_clock import loop_clock

pytestmark = pytest.mark.anyio


async def test_it_is_the_clock_of_the_event_loop_on_asyncio() -> None:
    before, now, after = anyio.current_time(), loop_clock()(), anyio.current_time()
    assert before <= now <= after


@pytest.mark.virtual_time
async def test_it_is_the_clock_of_the_event_loop_in_virtual_time() -> None:
    clock = loop_clock()
    await anyio.sleep(3600)
    assert clock() == anyio.current_time()
