from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
import trio.testing

from reactive_desched.api.event import (
    CHECKPOINT,
    EVICTION_OUTCOME_TYPES,
    EVICTION_REQUESTED,
    POLICY_LOADED,
)
from reactive_desched.app.recording import POLL_INTERVAL_S, log_transitions, open_recording
from reactive_desched.controller.turn_clocks import TurnClocks
from reactive_desched.journal.cursors import Cursors
from reactive_desched.journal.follower import newest_records
from reactive_desched.journal.segments import list_segments
from reactive_desched.journal.summary import parse_summary
from reactive_desched.policy.settings.reactive_settings import ReactiveSettings
from reactive_desched.policy.settings.recording import (
    JournalSettings,
    KafkaSettings,
    NamedKafkaSettings,
    NamedWebhookSettings,
    RetentionSettings,
    SinkSettings,
    WebhookSettings,
)
from reactive_desched.telemetry.registry import MetricsRegistry
from tests.support.journals import some_events

pytestmark = pytest.mark.anyio


class Lines:
    """A log that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, event: str, **values: Any) -> None:  # as structlog takes them
        self.lines.append(f"{event} {values}")

    warning = debug = info


async def test_where_a_follower_is_stands_in_the_folder_of_positions(tmp_path: Path) -> None:
    settings, log = ReactiveSettings(), Lines()
    async with open_recording(
        tmp_path, settings, MetricsRegistry(), log, [], dry_run=False
    ) as books:
        assert await books.sink_runners["index"].drained(10)
        last = books.journal.tail.last_seq

    assert Cursors(tmp_path / "positions").all()["index"].seq == last


async def test_each_sink_of_a_kind_has_its_own_position_and_metrics(tmp_path: Path) -> None:
    url = "http://127.0.0.1:1/"
    kafka, brokers = KafkaSettings, ("127.0.0.1:1",)
    sinks = SinkSettings(
        kafka=kafka(brokers=brokers),
        additional_kafka=(NamedKafkaSettings(name="audit", brokers=brokers),),
        webhook=WebhookSettings(url=url),
        additional_webhooks=(NamedWebhookSettings(name="chat", url=url),),
    )
    metrics = MetricsRegistry()
    settings = ReactiveSettings(sinks=sinks)
    async with open_recording(tmp_path, settings, metrics, Lines(), [], dry_run=False) as books:
        names = [*books.sink_runners]
        rendered, _ = metrics.exposition("")
    assert names == ["kafka", "kafka-audit", "webhook", "webhook-chat", "index"]
    assert all(f'sink_up{{sink="{name}"}}'.encode() in rendered for name in names)


async def test_a_clean_stop_hands_its_checkpoint_to_followers(tmp_path: Path) -> None:
    settings, log = ReactiveSettings(), Lines()
    async with open_recording(
        tmp_path, settings, MetricsRegistry(), log, [], dry_run=False
    ) as books:
        books.recorder.policy_loaded("policy.yaml", "1")

    entries = newest_records(tmp_path, 2, lambda _: True).records
    kinds = [found.type for entry in entries if (found := parse_summary(entry.raw))]
    assert kinds == [POLICY_LOADED, CHECKPOINT]
    assert Cursors(tmp_path / "positions").all()["index"].seq == entries[-1].seq


async def test_a_record_has_the_moment_at_which_the_controller_decides(tmp_path: Path) -> None:
    settings, log, wall_s = ReactiveSettings(), Lines(), 1_800_000_000.0
    clocks = TurnClocks(lambda: wall_s - 1e9, lambda: wall_s)
    async with open_recording(
        tmp_path, settings, MetricsRegistry(), log, [], dry_run=False, clocks=clocks
    ) as books:
        with clocks.still():
            wall_s += 30  # the process does not run, in the midst of its turn
            books.recorder.policy_loaded("policy.yaml", "1")

    found = (
        parse_summary(each.raw) for each in newest_records(tmp_path, 9, lambda _: True).records
    )
    (loaded,) = (each for each in found if each is not None and each.type == POLICY_LOADED)
    assert datetime.fromisoformat(loaded.time).timestamp() == 1_800_000_000.0


async def test_the_folder_stays_under_its_hard_cap_while_it_is_written(tmp_path: Path) -> None:
    cap, segment_bytes = 1 << 20, 1 << 16
    journal = JournalSettings(
        max_segment_bytes=segment_bytes,
        compress="none",
        retention=RetentionSettings(max_bytes=cap // 2, hard_max_bytes=cap),
    )
    settings, log = ReactiveSettings(journal=journal), Lines()
    async with open_recording(
        tmp_path, settings, MetricsRegistry(), log, [], dry_run=False
    ) as books:
        for event in some_events(4000, source=books.journal.source):
            if event.type not in EVICTION_OUTCOME_TYPES and event.type != EVICTION_REQUESTED:
                await books.journal.append(event)
        size = sum(one.path.stat().st_size for one in list_segments(tmp_path))

    assert books.journal.tail.last_seq > 2 * cap // 1500
    assert size < cap + 4 * segment_bytes


class TestTelling:
    @pytest.fixture
    def anyio_backend(self) -> tuple[str, dict[str, object]]:
        return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}

    async def test_a_reason_is_reported_once_and_its_end_too(self) -> None:
        log, reasons = Lines(), iter(("", "full", "full", "full", "broken", "", "", "full"))
        async with anyio.create_task_group() as group:
            group.start_soon(
                log_transitions, partial(next, reasons, "full"), log, "stopped", "resumed"
            )
            await anyio.sleep(10 * POLL_INTERVAL_S)
            group.cancel_scope.cancel()

        assert log.lines == [
            "stopped {'message': 'full'}",
            "stopped {'message': 'broken'}",
            "resumed {'after': 'broken'}",
            "stopped {'message': 'full'}",
        ]

    async def test_what_passes_between_two_checks_is_not_reported(self) -> None:
        log, reasons = Lines(), ["its first list is not complete"]
        async with anyio.create_task_group() as group:
            group.start_soon(log_transitions, lambda: reasons[-1], log, "stopped", "resumed")
            await anyio.sleep(POLL_INTERVAL_S / 2)
            reasons.append("")
            await anyio.sleep(10 * POLL_INTERVAL_S)
            group.cancel_scope.cancel()

        assert log.lines == []
