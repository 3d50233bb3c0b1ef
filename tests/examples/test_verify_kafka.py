"""The verifier against a topic as the Kafka sink fills it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import anyio
import pytest
import structlog
from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]  # it has no types
from anyio.to_thread import run_sync

from reactive_desched.journal.records import JournalRecord
from reactive_desched.policy.settings.recording import KafkaSettings
from reactive_desched.sinks.kafka.sink import KafkaSink
from tests.support.example_programs import ExamplePrograms
from tests.support.golden import Golden
from tests.support.journals import some_events, write_journal
from tests.support.mock_kafka import MockKafka, mock_kafka

pytestmark = pytest.mark.anyio

EVENTS, CHECKPOINTS = "events", "checkpoints"


@pytest.fixture
def cluster() -> Iterator[MockKafka]:
    with mock_kafka() as cluster:
        for topic in (EVENTS, CHECKPOINTS):
            cluster.create_topic(topic, partitions=3)
        yield cluster


@pytest.fixture
def journal(tmp_path: Path) -> list[JournalRecord]:
    return write_journal(tmp_path / "journal", some_events(200), per_segment=50)


async def produce(cluster: MockKafka, entries: Sequence[JournalRecord], **settings: str) -> None:
    kafka = KafkaSettings.model_validate({"brokers": cluster.brokers, "topic": EVENTS, **settings})
    sink = KafkaSink(kafka, clock=anyio.current_time, log=structlog.get_logger())
    try:
        assert await sink.deliver(entries) == len(entries)
    finally:
        await sink.close()


async def verified(
    programs: ExamplePrograms, cluster: MockKafka, *arguments: str
) -> tuple[int, str, str]:
    program = programs.start("verify_topic.py", "--brokers", cluster.brokers[0], *arguments)
    status = await run_sync(program.wait)
    return status, "\n".join(program.printed), program.stderr_text


@pytest.mark.parametrize("mode", ["structured", "binary"])
async def test_a_topic_with_resends_is_whole_and_signed(
    cluster: MockKafka,
    programs: ExamplePrograms,
    journal: list[JournalRecord],
    tmp_path: Path,
    mode: str,
    golden: Golden,
) -> None:
    for part in (journal[:80], journal[40:]):
        await produce(cluster, part, mode=mode)

    key = str(tmp_path / "journal" / "checkpoint.pub")
    status, said, complained = await verified(programs, cluster, EVENTS, "--key", key)

    assert (status, complained) == (0, "")
    assert golden(len=len(journal)) in said


async def test_the_first_record_that_did_not_arrive_is_named(
    cluster: MockKafka, programs: ExamplePrograms, journal: list[JournalRecord]
) -> None:
    await produce(cluster, journal[:99] + journal[100:])

    status, said, _ = await verified(programs, cluster, EVENTS)

    assert status == 1
    assert "record 100 is missing" in said


async def test_checkpoints_of_a_topic_of_their_own_are_read_beside_the_events(
    cluster: MockKafka, programs: ExamplePrograms, journal: list[JournalRecord], tmp_path: Path
) -> None:
    await produce(cluster, journal, checkpointTopic=CHECKPOINTS)
    key = ("--key", str(tmp_path / "journal" / "checkpoint.pub"))

    assert (await verified(programs, cluster, EVENTS, CHECKPOINTS, *key))[0] == 0
    status, said, _ = await verified(programs, cluster, EVENTS)
    assert (status, "record 1 is missing" in said) == (1, True)


async def test_an_empty_topic_is_not_sound(cluster: MockKafka, programs: ExamplePrograms) -> None:
    status, said, _ = await verified(programs, cluster, EVENTS)

    assert status == 1
    assert "there are no events" in said


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        (None, []),
        (None, [("content-type", None)]),
        (b"{}", [("content-type", b"application/json"), ("ce_id", b"\xff")]),
    ],
    ids=["a tombstone", "one with a header of nothing", "a binary event that is no text"],
)
async def test_what_others_wrote_into_the_topic_is_named_by_its_place(
    cluster: MockKafka,
    programs: ExamplePrograms,
    value: bytes | None,
    headers: list[tuple[str, bytes | None]],
    golden: Golden,
) -> None:
    async with AIOKafkaProducer(bootstrap_servers=cluster.brokers[0]) as producer:
        await producer.send_and_wait(EVENTS, value, b"key", partition=1, headers=headers)

    status, said, complained = await verified(programs, cluster, EVENTS)

    assert (status, complained) == (1, "")
    assert said == golden()


async def test_without_a_broker_there_is_no_verdict(
    cluster: MockKafka, programs: ExamplePrograms
) -> None:
    cluster.stop_brokers()

    status, said, complained = await verified(programs, cluster, EVENTS)

    assert (status, said) == (2, "")
    assert "cannot verify" in complained
