import time
from typing import Any

import anyio
import pytest

from reactive_desched.app.run import loop_options
from reactive_desched.primitives.loop_clock import loop_clock

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "uvloop"])
def either_loop(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return "asyncio", loop_options() if request.param == "uvloop" else {}


class TestOnEitherLoop:
    @pytest.fixture
    def anyio_backend(self, either_loop: tuple[str, dict[str, Any]]) -> tuple[str, dict[str, Any]]:
        return either_loop

    async def test_it_goes_on_within_a_turn(self) -> None:
        clock = loop_clock()
        before = clock()
        time.sleep(0.0001)  # noqa: ASYNC251  # the turn is what is held
        assert clock() > before

    async def test_timers_are_set_by_it(self) -> None:
        clock = loop_clock()
        assert abs(clock() - anyio.current_time()) < 1
        until = clock() + 0.01
        await anyio.sleep_until(until)
        assert clock() >= until - 0.002  # uvloop rounds to a millisecond


@pytest.mark.virtual_time
async def test_it_is_the_clock_of_the_event_loop_in_virtual_time() -> None:
    clock = loop_clock()
    await anyio.sleep(3600)
    assert clock() == anyio.current_time()
