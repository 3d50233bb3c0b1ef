"""A disk that fails while a sink's position is looked up delays that sink and ends nothing."""

import errno
from collections.abc import Callable

import anyio
import pytest

from tests.support.golden import Golden
from tests.support.scripted_sink import SinkRunnerHarness

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def failing(times: int) -> Callable[[str], bool]:
    """Look for a position on a disk that fails so often."""
    left = times

    def is_there(_: str) -> bool:
        nonlocal left
        left -= 1
        if left >= 0:
            raise OSError(errno.EIO, "Input/output error")
        return False

    return is_there


async def test_a_position_that_cannot_be_looked_up_is_looked_for_again(
    here: SinkRunnerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(here.cursors, "exists", failing(3))
    here.record(2)

    async with here.running():
        await here.caught_up()

    assert here.sink.delivered == [1, 2]
    assert here.runner.error == ""


async def test_meanwhile_the_trouble_is_reported(
    here: SinkRunnerHarness, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    monkeypatch.setattr(here.cursors, "exists", failing(1_000_000))
    here.record(2)

    async with here.running():
        await anyio.sleep(1)
        trouble = here.runner.error

    assert trouble == golden()
    assert here.sink.delivered == []
    assert here.cursors.saved == []
