"""A broker refuses a whole batch for one record: that one is found, and the others are sent."""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.errors import EventRejected, SinkUnavailable
from reactive_desched.journal.records import JournalRecord
from reactive_desched.policy.settings.recording import KafkaSettings
from reactive_desched.sinks.kafka import sink as kafka_sink
from reactive_desched.sinks.kafka.connection import ProducerSettings
from reactive_desched.sinks.kafka.partitions import BatchFailure, OutboundMessage
from reactive_desched.sinks.kafka.produce_errors import FailureKind, ProduceFailure
from reactive_desched.sinks.kafka.producer import SendResult
from tests.support.kafka_way import (
    TOPIC,
    KafkaPipeline,
    assert_complete,
    eviction_entry,
    read_topic,
)
from tests.support.mock_kafka import NEW_PRODUCER_ID, PRODUCE, MockKafka
from tests.support.recording_logger import RecordingLogger

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60), pytest.mark.waits]


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (10, "raise its max.message.bytes"),
        (18, "raise its max.message.bytes"),
        (32, "message.timestamp.before.max.ms"),
        (44, "to exempt the topic"),
        (87, "confluent.value.schema.validation"),
    ],
    ids=["too large", "list too large", "timestamp", "policy", "invalid record"],
)
async def test_an_event_that_is_refused_for_itself_is_a_dead_letter_and_the_queue_continues(
    kafka: MockKafka, one_lane: KafkaPipeline, error: int, remedy: str
) -> None:
    kafka.fail_requests(PRODUCE, error)
    one_lane.record(1)
    async with one_lane.running():
        await one_lane.wait_for_delivery()
        one_lane.record(3)
        await one_lane.wait_for_delivery()

    (letter,) = one_lane.dead_letters
    assert letter.sequence == 1
    assert remedy in letter.reason
    assert_complete(await read_topic(kafka, "one", 1), one_lane.entries, without=(1,))


@pytest.mark.parametrize("error", [32, 44, 87], ids=["timestamp", "policy", "invalid record"])
async def test_the_one_event_that_is_refused_is_found_in_its_batch(
    kafka: MockKafka, one_lane: KafkaPipeline, error: int
) -> None:
    """Eight; four are taken, the next four not; two are not; one is taken, the next is not."""
    kafka.fail_requests(PRODUCE, error, 0, error, error, 0, error)
    one_lane.record(8)
    await one_lane.run_until_delivered()

    assert one_lane.dead_letter_seqs == [6]
    got = await read_topic(kafka, "one", 1)
    assert [one.seq for one in got] == [1, 2, 3, 4, 5, 7, 8]


async def test_an_event_that_arrived_damaged_is_sent_again_before_it_is_given_up(
    kafka: MockKafka, one_lane: KafkaPipeline
) -> None:
    async with one_lane.running():
        kafka.fail_requests(PRODUCE, 2)
        one_lane.record(1)
        await one_lane.wait_for_delivery()
        assert one_lane.dead_letter_seqs == []

        kafka.fail_requests(PRODUCE, 2, 2)
        one_lane.record(1)
        await one_lane.wait_for_delivery()
    assert one_lane.dead_letter_seqs == [2]


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (3, "kafka-topics.sh"),
        (17, "set another sinks.kafka.topic"),
        (29, "--producer --topic one"),
        (31, "--operation IdempotentWrite --cluster"),
        (43, "message.format.version"),
        (76, "set sinks.kafka.compression"),
        (-1, "(-1)"),
        (90, "(90)"),
    ],
)
async def test_an_error_of_the_topic_or_of_the_rights_holds_the_queue_with_the_remedy(
    kafka: MockKafka, one_lane: KafkaPipeline, error: int, remedy: str
) -> None:
    await one_lane.sink.deliver([eviction_entry(1)])
    # An unknown topic is retried by the client itself; so is what it finds in the metadata.
    if error == 3:
        kafka.set_topic_error("one", 3)
        await one_lane.sink.close()
    else:
        kafka.fail_requests(PRODUCE, error)
    with pytest.raises(SinkUnavailable) as caught:
        await one_lane.sink.deliver([eviction_entry(2), eviction_entry(3)])
    await one_lane.sink.close()
    assert remedy in str(caught.value)


@pytest.mark.parametrize("error", [5, 6, 7, 19, 20, 56, 89])
async def test_an_error_that_passes_by_itself_costs_no_event(
    kafka: MockKafka, one_lane: KafkaPipeline, error: int
) -> None:
    kafka.fail_requests(PRODUCE, error, error)
    one_lane.record(5)
    await one_lane.run_until_delivered()
    assert one_lane.dead_letter_seqs == []
    assert_complete(await read_topic(kafka, "one", 1), one_lane.entries)


async def test_records_that_are_no_events_cost_no_producer(
    kafka: MockKafka, way: KafkaPipeline
) -> None:
    kafka.start_request_counts()
    for seq in (1, 2, 3):
        with pytest.raises(EventRejected, match="no event"):
            await way.sink.deliver([JournalRecord(seq, b'{"id":1}')])
    await way.sink.close()
    assert kafka.request_count(NEW_PRODUCER_ID) == 1


class PickyBroker:
    """A producer that takes any batch but those with bad records or on a broken partition."""

    def __init__(self, bad: Mapping[int, FailureKind], down: frozenset[int]) -> None:
        self.bad = bad
        self.down = down
        self.taken: dict[int, list[int]] = defaultdict(list)
        self.refusals = 0

    def __call__(self, _kafka: object, _settings: ProducerSettings, _log: object) -> "PickyBroker":
        return self

    async def start(self, _topics: Sequence[str]) -> None:
        """Be there."""

    async def close(self) -> None:
        """Be gone."""

    def partitions(self, _topic: str) -> tuple[int, ...]:
        return (0, 1, 2)

    def partition(self, key: bytes, partitions: tuple[int, ...]) -> int:
        return int(key.removeprefix(b"uid-")) % len(partitions)

    async def send(self, messages: Sequence[OutboundMessage], first_records: int) -> SendResult:
        lanes: dict[int, list[OutboundMessage]] = defaultdict(list)
        for one in messages:
            lanes[one.topic_partition[1]].append(one)
        acknowledged: set[int] = set()
        failures = []
        for number, lane in lanes.items():
            size, batches = first_records, 0
            rest = lane
            while rest:
                batch, rest = rest[:size], rest[size:]
                if (failed := self._refuse(number, batch)) is not None:
                    failures.append(failed)
                    break
                self.taken[number] += map(seq_of, batch)
                acknowledged.update(one.index for one in batch)
                batches += 1
                size = first_records << max(0, batches - 1)
        return SendResult(frozenset(acknowledged), failures)

    def _refuse(self, partition: int, batch: Sequence[OutboundMessage]) -> BatchFailure | None:
        kinds = [self.bad[seq_of(one)] for one in batch if seq_of(one) in self.bad]
        if partition in self.down:
            kinds = [FailureKind.UNAVAILABLE]
        if not kinds:
            return None
        self.refusals += 1
        return BatchFailure(tuple(one.index for one in batch), ProduceFailure("no", kinds[0]))


def seq_of(message: OutboundMessage) -> int:
    return int(dict(message.message.headers)["ce_sequence"])


BAD_KINDS = st.sampled_from([FailureKind.BAD_RECORD, FailureKind.DAMAGED, FailureKind.TOO_LARGE])


async def deliver_all(
    monkeypatch: pytest.MonkeyPatch, broker: PickyBroker, entries: Sequence[JournalRecord]
) -> list[int]:
    """Deliver as a sink runner does; return the dead letters. What is down is up after a retry."""
    monkeypatch.setattr(kafka_sink, "KafkaProducer", broker)
    settings = KafkaSettings(brokers=("kafka:9092",), topic=TOPIC)
    sink = kafka_sink.KafkaSink(settings, clock=time.monotonic, log=RecordingLogger())
    letters = []
    while entries:
        try:
            entries = entries[await sink.deliver(entries) :]
        except EventRejected:
            letters.append(entries[0].seq)
            entries = entries[1:]
        except SinkUnavailable:
            broker.down = frozenset()
    await sink.close()
    return letters


@given(
    bad=st.dictionaries(st.integers(1, 60), BAD_KINDS, max_size=12),
    down=st.frozensets(st.integers(0, 2), max_size=2),
)
async def test_dead_letters_are_those_to_blame_and_the_others_arrive_once_in_order(
    bad: dict[int, FailureKind], down: frozenset[int]
) -> None:
    broker = PickyBroker(bad, down)
    with pytest.MonkeyPatch.context() as monkeypatch:
        letters = await deliver_all(
            monkeypatch, broker, [eviction_entry(seq) for seq in range(1, 61)]
        )

    assert letters == sorted(bad)
    assert sorted(seq for lane in broker.taken.values() for seq in lane) == [
        seq for seq in range(1, 61) if seq not in bad
    ]
    assert all(lane == sorted(lane) for lane in broker.taken.values())


async def test_one_bad_record_in_a_thousand_costs_few_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = PickyBroker({777: FailureKind.BAD_RECORD}, frozenset())
    entries = [eviction_entry(7 * number) for number in range(1, 1001)]
    broker.bad = {7 * 777: FailureKind.BAD_RECORD}
    assert await deliver_all(monkeypatch, broker, entries) == [7 * 777]
    assert broker.refusals <= 11


async def test_a_backlog_of_bad_records_costs_one_refusal_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bad = dict.fromkeys(range(1, 201), FailureKind.BAD_RECORD)
    broker = PickyBroker(bad, frozenset())
    letters = await deliver_all(monkeypatch, broker, [eviction_entry(seq) for seq in bad])
    assert letters == sorted(bad)
    assert broker.refusals <= len(bad) + 20
