import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, cast

import anyio
import msgspec
import pytest
from anyio.to_thread import run_sync
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from reactive_desched.api.event import CHECKPOINT, EVICTION_SUCCEEDED, Checkpoint
from reactive_desched.errors import EventRefused, SinkUnavailable
from reactive_desched.journal.envelope import Story, envelope
from reactive_desched.journal.positions import Positions
from reactive_desched.journal.records import GENESIS, Entry, encode, line
from reactive_desched.journal.tail import Tail
from reactive_desched.policy.recording import Kafka, KafkaTls, Sasl
from reactive_desched.sinks import kafka_producer
from reactive_desched.sinks.dead_letters import DeadLetters, letters
from reactive_desched.sinks.kafka import KafkaSink
from reactive_desched.sinks.kafka_connection import LEAST_BATCH_BYTES, producer_settings
from reactive_desched.sinks.kafka_log import KafkaLog
from reactive_desched.sinks.kafka_message import line_of
from reactive_desched.sinks.relay import Relay
from reactive_desched.testing.entries import ended, entry
from reactive_desched.testing.journals import BEGAN, SOURCE
from reactive_desched.testing.mock_kafka import PRODUCE, MockKafka, mock_kafka

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

TOPIC = "events"
KEYS = [f"uid-{number}" for number in range(7)]


class Got(NamedTuple):
    """One message as another Kafka client reads it."""

    partition: int
    key: str
    value: bytes
    headers: list[tuple[str, bytes]]

    @property
    def id(self) -> str:
        return dict(self.headers)["ce_id"].decode()

    @property
    def seq(self) -> int:
        return int(dict(self.headers)["ce_sequence"])


class Book:
    """A log that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **values: Any) -> None:
        self.lines.append((event, values))

    warning = info


class Way:
    """From records to the topic: a journal's tail, a relay and the sink."""

    def __init__(self, directory: Path, kafka: Kafka) -> None:
        self.tail = Tail(directory, SOURCE, 1, 0)
        self.graves = DeadLetters(directory / "dead-letters")
        self.book = Book()
        self.sink = KafkaSink(kafka, clock=time.monotonic, log=self.book)
        self.relay = Relay(
            self.sink,
            self.tail,
            Positions(directory / "positions"),
            self.graves,
            clock=time.monotonic,
            wall=lambda: datetime.now(UTC),
            rng=Random(1),
            log=self.book,
        )
        self.recorded: list[Entry] = []

    def record(self, count: int, size: int = 0) -> None:
        new = [
            evicted(seq, size=size) for seq in range(self.tail.last + 1, self.tail.last + count + 1)
        ]
        self.recorded += new
        self.tail.published(new)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as group:
            group.start_soon(self.relay.run)
            yield
            group.cancel_scope.cancel()

    async def troubled(self) -> str:
        with anyio.fail_after(20):
            while not self.relay.trouble:  # noqa: ASYNC110  # it is a mere attribute
                await anyio.sleep(0.01)
        return self.relay.trouble

    def dead(self) -> list[int]:
        path = self.graves.path("kafka")
        return [letter.sequence for letter in letters(path)] if path.exists() else []


def evicted(seq: int, key: str = "", size: int = 0) -> Entry:
    """Return the record of an eviction; keys come in turns."""
    story = Story(f"case-{seq}", "shop/web", key or KEYS[seq % len(KEYS)])
    data = ended("evicted", "x" * size)
    event = envelope(SOURCE, EVICTION_SUCCEEDED, story, BEGAN, data, id_=f"id-{seq}", cause="n1")
    return Entry(seq, line(encode(event), GENESIS, "2026-03-29T01:30:01.000000Z", seq))


@pytest.fixture
def kafka() -> Iterator[MockKafka]:
    with mock_kafka(2) as cluster:
        cluster.create_topic(TOPIC, 3)
        yield cluster


@pytest.fixture
def way(kafka: MockKafka, tmp_path: Path) -> Way:
    return Way(tmp_path, Kafka(brokers=kafka.brokers, topic=TOPIC))


async def read(kafka: MockKafka, topic: str = TOPIC, partitions: int = 3) -> list[Got]:
    return await run_sync(_read, kafka.brokers, topic, partitions)


def _read(brokers: tuple[str, ...], topic: str, partitions: int) -> list[Got]:
    """Return the whole topic, partition after partition, through librdkafka."""
    where = {"bootstrap.servers": ",".join(brokers), "group.id": "test"}
    consumer = Consumer(
        {**where, "enable.partition.eof": True, "fetch.wait.max.ms": 10, "log_level": 0}
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    got: list[Got] = []
    ended = 0
    while ended < partitions:
        message = consumer.poll(10)
        assert message is not None, "the topic cannot be read"
        if (error := message.error()) is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended += 1
            continue
        value, key = message.value() or b"", message.key() or b""
        assert isinstance(value, bytes)
        assert isinstance(key, bytes)
        headers = cast("list[tuple[str, bytes]]", message.headers())
        got.append(Got(message.partition() or 0, key.decode(), value, headers))
    consumer.close()
    return sorted(got, key=lambda one: one.partition)


def assert_complete(got: list[Got], recorded: list[Entry], without: tuple[int, ...] = ()) -> None:
    """Hold that nothing is lost, duplicates are equal, and order holds for each key."""
    wanted = {entry.seq: entry.raw for entry in recorded if entry.seq not in without}
    assert {one.seq: one.value for one in got} == wanted
    assert all(wanted[one.seq] == one.value for one in got)
    assert len({(one.key, one.partition) for one in got}) == len({one.key for one in got})
    for key in {one.key for one in got}:
        first = list(dict.fromkeys(one.id for one in got if one.key == key))
        assert first == sorted(first, key=lambda id_: int(id_.removeprefix("id-")))


async def test_a_message_has_key_headers_and_the_line_as_value(kafka: MockKafka, way: Way) -> None:
    way.record(20)
    async with way.running():
        assert await way.relay.flushed(20)

    got = await read(kafka)
    assert_complete(got, way.recorded)
    assert len(got) == 20
    (third,) = [one for one in got if one.seq == 3]
    headers = dict(third.headers)
    assert third.key == KEYS[3]
    assert headers["content-type"] == b"application/cloudevents+json"
    assert headers["ce_type"] == EVICTION_SUCCEEDED.encode()
    assert headers["ce_subject"] == b"shop/web"
    assert headers["ce_specversion"] == b"1.0"
    assert headers["ce_source"] == SOURCE.encode()


async def test_a_key_lands_where_other_clients_put_it(kafka: MockKafka, way: Way) -> None:
    way.record(14)
    async with way.running():
        assert await way.relay.flushed(20)
    ours = {one.key: one.partition for one in await read(kafka)}

    kafka.create_topic("theirs", 3)
    where = {"bootstrap.servers": ",".join(kafka.brokers), "partitioner": "murmur2_random"}
    theirs = Producer({**where, "log_level": 0})
    for key in KEYS:
        theirs.produce("theirs", key=key, value=b"", headers=[("ce_id", b"1")])
    await run_sync(theirs.flush, 20)

    assert {one.key: one.partition for one in await read(kafka, "theirs")} == ours
    assert len(set(ours.values())) > 1


async def test_of_binary_messages_the_lines_can_be_put_together_again(
    kafka: MockKafka, tmp_path: Path
) -> None:
    settings = Kafka(brokers=kafka.brokers, topic=TOPIC, mode="binary", compression="gzip")
    way = Way(tmp_path, settings)
    way.record(30)
    async with way.running():
        assert await way.relay.flushed(20)

    got = await read(kafka)
    assert "type" not in msgspec.json.decode(got[0].value)
    assert {line_of(one.value, one.headers) for one in got} == {one.raw for one in way.recorded}


async def test_checkpoints_may_have_a_topic_of_their_own(kafka: MockKafka, tmp_path: Path) -> None:
    kafka.create_topic("checkpoints", 1)
    settings = Kafka(brokers=kafka.brokers, topic=TOPIC, checkpoint_topic="checkpoints")
    way = Way(tmp_path, settings)
    signed = Checkpoint(note="n", root=GENESIS, size=1, unrecorded=0)
    way.tail.published([evicted(1), entry(CHECKPOINT, signed, 2), evicted(3)])
    async with way.running():
        assert await way.relay.flushed(20)

    assert sorted(one.seq for one in await read(kafka)) == [1, 3]
    assert [one.seq for one in await read(kafka, "checkpoints", 1)] == [2]


async def test_without_a_broker_at_start_records_wait_for_it(kafka: MockKafka, way: Way) -> None:
    kafka.down()
    way.record(50)
    async with way.running():
        trouble = await way.troubled()
        assert kafka.brokers[0] in trouble
        assert "check brokers" in trouble
        kafka.up()
        assert await way.relay.flushed(20)
        assert way.relay.trouble == ""

    assert_complete(await read(kafka), way.recorded)


async def test_a_broker_that_is_gone_for_a_while_costs_nothing(kafka: MockKafka, way: Way) -> None:
    async def fail() -> None:
        kafka.down()
        await anyio.sleep(1.5)
        kafka.up()

    await under_load(way, fail)

    assert_complete(await read(kafka), way.recorded)


async def test_when_leaders_move_nothing_is_lost(kafka: MockKafka, way: Way) -> None:
    async def fail() -> None:
        for number in range(6):
            kafka.move_leader(TOPIC, number % 3, 1 + number % 2)
            await anyio.sleep(0.15)

    await under_load(way, fail)

    assert_complete(await read(kafka), way.recorded)


@pytest.mark.parametrize(
    "errors",
    [
        pytest.param((6, 6, 6), id="not the leader"),
        pytest.param((7, 7), id="timed out at the broker"),
        pytest.param((-195, -195), id="connection cut"),
        pytest.param((10,), id="a whole batch too large"),
        pytest.param((29, 29), id="not authorised"),
        pytest.param((45, 45), id="out of sequence"),
        pytest.param((47,), id="fenced"),
        pytest.param((87, 89), id="codes that the client does not know"),
        pytest.param((6, 45, -195, 7, 10, 0, 19, 0, 29), id="one after the other"),
    ],
)
async def test_after_errors_nothing_is_lost_and_order_holds(
    kafka: MockKafka, way: Way, errors: tuple[int, ...]
) -> None:
    async def fail() -> None:
        kafka.fail(PRODUCE, *errors)
        await anyio.sleep(0.2)

    await under_load(way, fail)

    assert_complete(await read(kafka), way.recorded)
    assert way.dead() == []


async def under_load(way: Way, fail: Callable[[], Awaitable[None]]) -> None:
    """Let something fail while records come in; return when all of them are delivered."""
    async with way.running():
        way.record(100)
        assert await way.relay.flushed(20)
        async with anyio.create_task_group() as group:
            group.start_soon(_record_on, way)
            await fail()
            group.cancel_scope.cancel()
        way.record(100)
        assert await way.relay.flushed(30)


async def _record_on(way: Way) -> None:
    while True:
        way.record(20)
        await anyio.sleep(0.02)


@pytest.mark.parametrize("error", [10, 29, 45, 47, 87])
async def test_after_an_error_that_reaches_us_there_is_a_new_producer(
    kafka: MockKafka, way: Way, error: int
) -> None:
    async with way.running():
        way.record(1)
        assert await way.relay.flushed(20)
        before = way.sink._producer
        kafka.fail(PRODUCE, error)
        way.record(14)
        assert await way.relay.flushed(20)
        assert way.sink._producer is not before


async def test_the_one_event_that_is_too_large_is_found_and_the_rest_goes_on(
    kafka: MockKafka, tmp_path: Path
) -> None:
    kafka.create_topic("one", 1)
    way = Way(tmp_path, Kafka(brokers=kafka.brokers, topic="one"))
    async with way.running():
        way.record(1)
        assert await way.relay.flushed(20)
        # The batch; then singly: two are taken, the third is not, not even as the first of all.
        kafka.fail(PRODUCE, 10, 0, 0, 10, 10)
        way.record(6)
        assert await way.relay.flushed(20)

    assert way.dead() == [4]
    assert_complete(await read(kafka, "one", 1), way.recorded, without=(4,))
    (letter,) = letters(way.graves.path("kafka"))
    assert "max.message.bytes" in letter.reason


async def test_after_batches_that_were_too_large_there_are_smaller_ones(
    kafka: MockKafka, tmp_path: Path
) -> None:
    kafka.create_topic("one", 1)
    way = Way(tmp_path, Kafka(brokers=kafka.brokers, topic="one"))
    kafka.start_counting()
    async with way.running():
        way.record(100)
        assert await way.relay.flushed(20)
        assert kafka.count(PRODUCE) == 1
        for _ in range(9):
            kafka.fail(PRODUCE, 10)
            way.record(2)
            assert await way.relay.flushed(20)
        kafka.forget_counted()
        way.record(100)
        assert await way.relay.flushed(20)

    size = sum(len(entry.raw) for entry in way.recorded[-100:])
    assert size / LEAST_BATCH_BYTES <= kafka.count(PRODUCE) <= 3 * size / LEAST_BATCH_BYTES
    assert way.dead() == []


async def test_what_is_larger_than_we_may_send_is_refused_alone(
    kafka: MockKafka, tmp_path: Path
) -> None:
    settings = Kafka(brokers=kafka.brokers, topic=TOPIC, max_request_bytes=8192)
    way = Way(tmp_path, settings)
    way.record(5)
    way.record(1, size=9000)
    way.record(5)
    async with way.running():
        assert await way.relay.flushed(20)

    assert way.dead() == [6]
    assert_complete(await read(kafka), way.recorded, without=(6,))


async def test_what_is_no_event_is_refused_and_what_came_before_is_sent(
    kafka: MockKafka, way: Way
) -> None:
    broken = Entry(2, b'{"id":1}')
    assert await way.sink.deliver([evicted(1), broken, evicted(3)]) == 1
    with pytest.raises(EventRefused, match="no event"):
        await way.sink.deliver([broken, evicted(3)])
    assert await way.sink.deliver([evicted(3)]) == 1
    await way.sink.close()

    assert sorted(one.seq for one in await read(kafka)) == [1, 3]


async def test_what_follows_a_failure_in_its_partition_is_not_counted_as_delivered(
    kafka: MockKafka, tmp_path: Path
) -> None:
    kafka.create_topic("one", 1)
    settings = Kafka(brokers=kafka.brokers, topic="one", max_request_bytes=8192)
    sink = KafkaSink(settings, clock=time.monotonic, log=Book())
    entries = [evicted(seq, size=2000) for seq in range(1, 9)]  # two in a batch
    kafka.fail(PRODUCE, 0, 29, 0, 0)
    assert await sink.deliver(entries) == 2
    assert await sink.deliver(entries[2:]) == 6
    await sink.close()

    assert [one.seq for one in await read(kafka, "one", 1)] == [*range(1, 9)]


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (3, "kafka-topics.sh --bootstrap-server"),
        (29, "kafka-acls.sh --bootstrap-server"),
    ],
    ids=["unknown topic", "not authorised"],
)
async def test_a_topic_that_cannot_be_written_to_is_named_with_the_remedy_until_it_can(
    kafka: MockKafka, way: Way, error: int, remedy: str
) -> None:
    kafka.spoil_topic(TOPIC, error)
    way.record(3)
    async with way.running():
        trouble = await way.troubled()
        assert f"topic {TOPIC}" in trouble
        assert remedy in trouble
        kafka.spoil_topic(TOPIC, 0)
        assert await way.relay.flushed(20)

    assert_complete(await read(kafka), way.recorded)


async def test_acknowledgements_that_stay_away_end_a_round(
    kafka: MockKafka, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    await way.sink.deliver([evicted(1)])
    monkeypatch.setattr(kafka_producer, "ROUND_S", 0.3)
    kafka.slow_down(2000)

    with pytest.raises(SinkUnavailable, match="no acknowledgement"):
        await way.sink.deliver([evicted(2)])

    kafka.slow_down(0)
    monkeypatch.undo()
    assert await way.sink.deliver([evicted(2)]) == 1
    await way.sink.close()


async def test_a_delivery_that_was_cut_short_costs_its_producer(kafka: MockKafka, way: Way) -> None:
    await way.sink.deliver([evicted(1)])
    before = way.sink._producer
    kafka.slow_down(1000)
    with anyio.move_on_after(0.2):
        await way.sink.deliver([evicted(2)])
    kafka.slow_down(0)

    assert await way.sink.deliver([evicted(2)]) == 1
    assert way.sink._producer is not before
    await way.sink.close()


async def test_a_sender_that_ends_is_noticed_at_once(kafka: MockKafka, way: Way) -> None:
    await way.sink.deliver([evicted(1)])
    producer = way.sink._producer
    assert producer is not None
    producer._aio._sender.sender_task.cancel()

    with anyio.fail_after(5), pytest.raises(SinkUnavailable, match="sender"):
        await way.sink.deliver([evicted(2)])
    assert await way.sink.deliver([evicted(2)]) == 1
    await way.sink.close()


async def test_nothing_of_a_producer_is_left_when_it_is_thrown_away_in_an_outage(
    kafka: MockKafka, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = asyncio.all_tasks()
    await way.sink.deliver([evicted(1)])
    monkeypatch.setattr(kafka_producer, "ROUND_S", 0.5)
    kafka.down()
    with pytest.raises(SinkUnavailable):
        await way.sink.deliver([evicted(2)])
    await anyio.sleep(0.05)

    assert asyncio.all_tasks() == before
    await way.sink.close()


async def test_closing_takes_a_moment_even_with_messages_on_their_way(
    kafka: MockKafka, way: Way
) -> None:
    await way.sink.deliver([evicted(1)])
    before = asyncio.all_tasks()
    kafka.down()
    with anyio.move_on_after(0.3) as scope:
        await way.sink.deliver([evicted(2)])
    assert scope.cancelled_caught
    with anyio.fail_after(5):
        await way.sink.close()
    await anyio.sleep(0.05)

    assert asyncio.all_tasks() < before


async def test_the_client_is_not_allowed_to_flood_the_log_or_to_tell_requests(
    kafka: MockKafka, way: Way, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    kafka.down()
    way.record(1)
    async with way.running():
        await way.troubled()
        await anyio.sleep(1.5)
        told = [values["text"] for event, values in way.book.lines if event == "aiokafka says"]
        assert 1 <= len(told) <= 6
        assert not [record for record in caplog.records if record.name.startswith("aiokafka")]

    logging.getLogger("aiokafka").warning("afterwards")
    assert "afterwards" in caplog.text


def test_while_one_sink_replaces_another_the_client_stays_quiet(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    old, new = (KafkaLog(Book(), time.monotonic) for _ in range(2))
    client = logging.getLogger("aiokafka.conn")
    old.open()
    new.open()
    old.close()
    assert not client.isEnabledFor(logging.DEBUG)
    assert not logging.getLogger("aiokafka").propagate
    new.close()
    assert logging.getLogger("aiokafka").propagate


def test_what_the_client_repeats_is_told_once_a_minute() -> None:
    book, now = Book(), [0.0]
    heard = KafkaLog(book, lambda: now[0])
    heard.open()
    for second in range(130):
        now[0] = float(second)
        logging.getLogger("aiokafka").error("Unable to connect to %s", second)
    heard.close()

    assert [values["text"] for _, values in book.lines] == [
        f"Unable to connect to {second}" for second in (0, 60, 120)
    ]
    assert heard.last == "Unable to connect to 129"


async def test_a_password_is_in_no_message_and_no_log_line(
    kafka: MockKafka, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = tmp_path / "password"
    secret.write_text("canary-4711\n")
    sasl = Sasl(mechanism="PLAIN", username="descheduler", password_file=str(secret))
    way = Way(tmp_path, Kafka(brokers=kafka.brokers, topic=TOPIC, sasl=sasl))
    way.record(1)
    async with way.running():
        trouble = await way.troubled()

    assert "sasl" in trouble
    everything = f"{trouble} {way.book.lines} {caplog.text} {way.sink!r} {vars(way.sink)}"
    assert "canary" not in everything


def test_the_password_is_read_anew_each_time(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    sasl = Sasl(username="descheduler", password_file=str(secret))
    kafka = Kafka(brokers=("kafka:9092",), sasl=sasl)
    for password in ("first", "second"):
        secret.write_text(password + "\n")
        assert producer_settings(kafka)["sasl_plain_password"] == password


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "No such file"), (b"\n", "is empty"), (b"canary-\xff", "UnicodeDecodeError")],
    ids=["missing", "empty", "not text"],
)
def test_a_password_file_that_is_no_good_is_named(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    secret = tmp_path / "password"
    if content is not None:
        secret.write_bytes(content)
    sasl = Sasl(username="descheduler", password_file=str(secret))

    with pytest.raises(SinkUnavailable, match=said) as caught:
        producer_settings(Kafka(brokers=("kafka:9092",), sasl=sasl))

    assert str(secret) in str(caught.value)
    assert "canary" not in str(caught.value)
    assert caught.value.__cause__ is None  # it would hold what was read


def test_tls_files_that_are_no_good_are_named(tmp_path: Path) -> None:
    ca = tmp_path / "ca.crt"
    ca.write_text("canary")

    with pytest.raises(SinkUnavailable, match="TLS files") as caught:
        producer_settings(Kafka(brokers=("kafka:9092",), tls=KafkaTls(ca_file=str(ca))))

    assert str(ca) in str(caught.value)
    assert "canary" not in str(caught.value)
