"""Standing still is told from idling by how long nobody looked at the clock."""

import anyio
import pytest

from reactive_desched.controller.suspend import STOOD_STILL_S, Vigil

pytestmark = pytest.mark.anyio


class TestLooking:
    @pytest.fixture
    def now(self) -> list[float]:
        return [1000.0]

    @pytest.fixture
    def heard(self) -> list[float]:
        return []

    @pytest.fixture
    def vigil(self, now: list[float], heard: list[float]) -> Vigil:
        vigil = Vigil(lambda: now[0])
        vigil.woke = heard.append
        return vigil

    def test_the_first_look_tells_nothing(self, vigil: Vigil, heard: list[float]) -> None:
        vigil.look()

        assert heard == []

    def test_standing_still_is_told_once_with_how_long_it_was(
        self, vigil: Vigil, now: list[float], heard: list[float]
    ) -> None:
        vigil.look()
        now[0] += 40
        vigil.look()
        vigil.look()

        assert heard == [40]

    def test_short_pauses_are_none_however_many(
        self, vigil: Vigil, now: list[float], heard: list[float]
    ) -> None:
        for _ in range(100):
            vigil.look()
            now[0] += STOOD_STILL_S

        assert heard == []


@pytest.mark.virtual_time
async def test_idling_is_not_standing_still() -> None:
    heard: list[float] = []
    vigil = Vigil(anyio.current_time)
    vigil.woke = heard.append
    vigil.look()
    async with anyio.create_task_group() as group:
        group.start_soon(vigil.keep)
        await anyio.sleep(3600)
        vigil.look()
        group.cancel_scope.cancel()

    assert heard == []
