"""What aiokafka says reaches our log now and then, and nothing of it any other."""

import logging

import anyio
import anyio.lowlevel
import pytest

from reactive_desched.sinks.kafka.client_log import KafkaLog
from tests.support.kafka_way import KafkaPipeline
from tests.support.mock_kafka import MockKafka
from tests.support.recording_logger import RecordingLogger


@pytest.mark.anyio
async def test_the_client_may_neither_flood_the_log_nor_log_requests(
    kafka: MockKafka, way: KafkaPipeline, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    kafka.stop_brokers()
    way.record(1)
    async with way.running():
        await way.wait_for_failure()
        await anyio.sleep(1.5)
        assert 1 <= len(way.logger.values_of("a Kafka client warns")) <= 6
        assert not [record for record in caplog.records if record.name.startswith("aiokafka")]

    logging.getLogger("aiokafka").warning("afterwards")
    assert "afterwards" in caplog.text


def test_while_one_sink_replaces_another_the_client_stays_quiet(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    old, new = (KafkaLog(RecordingLogger(), lambda: 0.0) for _ in range(2))
    client = logging.getLogger("aiokafka.conn")
    old.open()
    new.open()
    old.close()
    assert not client.isEnabledFor(logging.DEBUG)
    assert not logging.getLogger("aiokafka").propagate
    new.close()
    assert logging.getLogger("aiokafka").propagate


def test_what_the_client_repeats_is_logged_once_a_minute() -> None:
    book, now = RecordingLogger(), [0.0]
    heard = KafkaLog(book, lambda: now[0])
    heard.open()
    for second in range(130):
        now[0] = float(second)
        logging.getLogger("aiokafka").error("Unable to connect to %s", second)
    heard.close()

    assert [line.values["text"] for line in book.lines] == [
        f"Unable to connect to {second}" for second in (0, 60, 120)
    ]
    assert heard.last_warning == "Unable to connect to 129"


@pytest.mark.anyio
async def test_of_two_sinks_each_has_the_warnings_of_its_own_client() -> None:
    first, second = (KafkaLog(RecordingLogger(), lambda: 0.0, name) for name in ("a", "b"))

    async def warn(log: KafkaLog, text: str) -> None:
        log.open()
        await anyio.lowlevel.checkpoint()
        logging.getLogger("aiokafka.conn").warning(text)

    async with anyio.create_task_group() as group:
        group.start_soon(warn, first, "of the first")
        group.start_soon(warn, second, "of the second")
    assert (first.last_warning, second.last_warning) == ("of the first", "of the second")
    first.close()
    second.close()
