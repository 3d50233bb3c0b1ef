"""Standing still is told from idling by how long nobody looked at the clock."""

import anyio
import pytest

from reactive_desched.controller.suspend import SUSPEND_THRESHOLD_S, SuspendDetector

pytestmark = pytest.mark.anyio


class TestLooking:
    @pytest.fixture
    def now(self) -> list[float]:
        return [1000.0]

    @pytest.fixture
    def heard(self) -> list[float]:
        return []

    @pytest.fixture
    def vigil(self, now: list[float], heard: list[float]) -> SuspendDetector:
        vigil = SuspendDetector(lambda: now[0])
        vigil.on_resume = heard.append
        return vigil

    def test_the_first_look_tells_nothing(self, vigil: SuspendDetector, heard: list[float]) -> None:
        vigil.check()

        assert heard == []

    def test_standing_still_is_told_once_with_how_long_it_was(
        self, vigil: SuspendDetector, now: list[float], heard: list[float]
    ) -> None:
        vigil.check()
        now[0] += 40
        vigil.check()
        vigil.check()

        assert heard == [40]

    def test_short_pauses_are_none_however_many(
        self, vigil: SuspendDetector, now: list[float], heard: list[float]
    ) -> None:
        for _ in range(100):
            vigil.check()
            now[0] += SUSPEND_THRESHOLD_S

        assert heard == []


@pytest.mark.virtual_time
async def test_idling_is_not_standing_still() -> None:
    heard: list[float] = []
    vigil = SuspendDetector(anyio.current_time)
    vigil.on_resume = heard.append
    vigil.check()
    async with anyio.create_task_group() as group:
        group.start_soon(vigil.run)
        await anyio.sleep(3600)
        vigil.check()
        group.cancel_scope.cancel()

    assert heard == []
