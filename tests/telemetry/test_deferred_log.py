"""Log lines that are written late, in order, and never lost in silence."""

from typing import Any

import anyio
import pytest
import trio.testing

from reactive_desched.telemetry import deferred_log
from reactive_desched.telemetry.deferred_log import (
    MIN_BATCH_LINES,
    WRITE_DELAY_S,
    DeferredLogger,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


class Paper:
    """Notes each line with its level and when it was written; `stamps` is what they say."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, float]] = []
        self.stamps: list[str] = []

    def debug(self, event: str, **values: Any) -> None:
        self._note("debug", event, values)

    def info(self, event: str, **values: Any) -> None:
        self._note("info", event, values)

    def warning(self, event: str, **values: Any) -> None:
        self._note("warning", event, values)

    def _note(self, level: str, event: str, values: dict[str, Any]) -> None:
        if "timestamp" in values:
            self.stamps.append(values.pop("timestamp"))
        words = " ".join([event, *(f"{name}={value}" for name, value in values.items())])
        self.lines.append((level, words, anyio.current_time()))

    @property
    def words(self) -> list[tuple[str, str]]:
        return [(level, words) for level, words, _ in self.lines]


@pytest.fixture
def paper() -> Paper:
    return Paper()


async def test_lines_are_written_in_order_and_as_they_were_said(paper: Paper) -> None:
    log = DeferredLogger(paper, anyio.current_time)
    async with anyio.create_task_group() as group:
        group.start_soon(log.run)
        log.info("decided", pod="shop/web")
        log.debug("looked")
        log.warning("failed", detail="why")
        assert paper.lines == []
        await anyio.sleep(1)
        log.info("later")
        await anyio.sleep(1)
        group.cancel_scope.cancel()

    assert paper.words == [
        ("info", "decided pod=shop/web"),
        ("debug", "looked"),
        ("warning", "failed detail=why"),
        ("info", "later"),
    ]


async def test_log_lines_are_written_only_after_a_moment_without_other_work(paper: Paper) -> None:
    log = DeferredLogger(paper, anyio.current_time)
    async with anyio.create_task_group() as group:
        group.start_soon(log.run)
        began = anyio.current_time()
        for number in range(MIN_BATCH_LINES + 1):
            log.info(str(number))
        await anyio.sleep(1)
        group.cancel_scope.cancel()

    after = [round(at - began, 6) for _, _, at in paper.lines]
    assert after == [WRITE_DELAY_S] * MIN_BATCH_LINES + [2 * WRITE_DELAY_S]


async def test_a_line_has_the_time_of_its_event_however_late_it_is_written(paper: Paper) -> None:
    log = DeferredLogger(paper, lambda: 1_000_000_000.25 + anyio.current_time())
    log.info("first")
    await anyio.sleep(0.5)
    log.warning("second")
    async with anyio.create_task_group() as group:
        group.start_soon(log.run)
        await anyio.sleep(1)
        group.cancel_scope.cancel()

    assert paper.stamps == ["2001-09-09T01:46:40.250000Z", "2001-09-09T01:46:40.750000Z"]


async def test_many_lines_are_written_faster_than_one_by_one(paper: Paper) -> None:
    log = DeferredLogger(paper, anyio.current_time)
    for number in range(5000):
        log.info(str(number))
    async with anyio.create_task_group() as group:
        group.start_soon(log.run)
        await anyio.sleep(200 * WRITE_DELAY_S)
        written = len(paper.lines)
        group.cancel_scope.cancel()

    assert written == 5000


async def test_what_is_left_at_the_end_is_written(paper: Paper) -> None:
    log = DeferredLogger(paper, anyio.current_time)
    async with anyio.create_task_group() as group:
        group.start_soon(log.run)
        await anyio.sleep(1)
        log.info("stopping")
        group.cancel_scope.cancel()

    assert paper.words == [("info", "stopping")]


async def test_lines_beyond_the_bound_are_dropped_and_counted(
    paper: Paper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deferred_log, "MAX_LINES", 2)
    log = DeferredLogger(paper, anyio.current_time)
    for word in ("one", "two", "three", "four"):
        log.info(word)
    async with anyio.create_task_group() as group:
        group.start_soon(log.run)
        await anyio.sleep(1)
        group.cancel_scope.cancel()

    assert paper.words == [
        ("info", "one"),
        ("info", "two"),
        ("warning", "dropped log lines lines=2"),
    ]
