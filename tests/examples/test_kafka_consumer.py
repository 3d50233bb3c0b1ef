import json
import random
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import anyio
import pytest
import structlog
from anyio.to_thread import run_sync

from reactive_desched.journal.records import JournalRecord
from reactive_desched.policy.settings.recording import KafkaSettings
from reactive_desched.sinks.kafka.sink import KafkaSink
from tests.support.control_plane import wait_until
from tests.support.example_programs import ExamplePrograms
from tests.support.journals import SOURCE, new_signer, some_events, write_journal
from tests.support.mock_kafka import MockKafka, mock_kafka

pytestmark = pytest.mark.anyio

TOPIC = "decisions"


@pytest.fixture
def cluster() -> Iterator[MockKafka]:
    with mock_kafka() as cluster:
        cluster.create_topic(TOPIC, partitions=3)
        yield cluster


def records(folder: Path, count: int) -> list[JournalRecord]:
    return write_journal(folder, some_events(count), per_segment=500)


def endings(entries: Sequence[JournalRecord]) -> Counter[tuple[str, str]]:
    """Count the events that end an eviction, as the example does."""
    data = (json.loads(entry.raw)["data"] for entry in entries)
    return Counter(
        (each["who"]["namespace"], each["outcome"]["result"]) for each in data if "outcome" in each
    )


def counted(database: Path) -> Counter[tuple[str, str]]:
    store = sqlite3.connect(database)
    rows = store.execute("SELECT namespace, result, count FROM outcomes").fetchall()
    store.close()
    return Counter({(namespace, result): count for namespace, result, count in rows})


def place(database: Path) -> int:
    """Return how many messages lie behind the places that are kept."""
    if not database.exists():
        return 0
    store = sqlite3.connect(database)
    try:
        (found,) = store.execute("SELECT sum(next) FROM place").fetchone()
    except sqlite3.OperationalError:  # its tables are just being made
        return 0
    finally:
        store.close()
    return found or 0


async def reaches(database: Path, count: int) -> None:
    def there() -> bool:
        return place(database) >= count

    what = f"{count} messages are behind the kept places"
    await run_sync(lambda: wait_until(there, within_s=60, what=what, every_s=0.01))


async def produce(
    cluster: MockKafka, rounds: Sequence[Sequence[JournalRecord]], pause_s: float
) -> None:
    settings = KafkaSettings(brokers=cluster.brokers, topic=TOPIC)
    sink = KafkaSink(settings, clock=anyio.current_time, log=structlog.get_logger())
    try:
        for each in rounds:
            assert await sink.deliver(each) == len(each)
            await anyio.sleep(pause_s)
    finally:
        await sink.close()


async def test_each_ending_is_printed_on_a_line(
    cluster: MockKafka, programs: ExamplePrograms, tmp_path: Path
) -> None:
    entries = records(tmp_path / "journal", 60)
    await produce(cluster, [entries], 0)

    consumer = programs.start(
        "kafka_consumer.py", cluster.brokers[0], TOPIC, str(tmp_path / "seen.db")
    )
    wanted = endings(entries)
    lines = await run_sync(consumer.wait_for, lambda lines: len(lines) >= wanted.total())

    told = Counter(line.rpartition(": ")[2] for line in lines)
    assert told == Counter(result for _, result in wanted.elements())
    assert consumer.stderr_text == ""


async def test_killed_at_any_moment_it_counts_each_event_once_though_many_come_twice(
    cluster: MockKafka, programs: ExamplePrograms, tmp_path: Path
) -> None:
    rng, database = random.Random(7), tmp_path / "seen.db"  # the moments to kill it at
    entries = records(tmp_path / "journal", 3000)
    batches = [entries[at : at + 40] for at in range(0, len(entries), 40)]
    sent = [
        each for batch in batches for each in ((batch, batch) if rng.random() < 0.3 else (batch,))
    ]
    arguments = (cluster.brokers[0], TOPIC, str(database))
    seen_when_killed = []

    for at in range(0, len(sent), 20):  # more comes while it runs, however slow it begins
        async with anyio.create_task_group() as group:
            group.start_soon(produce, cluster, sent[at : at + 20], 0.05)
            consumer, before = programs.start("kafka_consumer.py", *arguments), place(database)
            await reaches(database, before + 1)
            await anyio.sleep(rng.random() * 0.3)
            consumer.kill()
            seen_when_killed.append(place(database))
    programs.start("kafka_consumer.py", *arguments)
    await reaches(database, sum(map(len, sent)))

    assert len(set(seen_when_killed)) == len(seen_when_killed)  # each time further on its way
    assert counted(database) == endings(entries)


async def test_events_of_two_sources_may_have_the_same_id(
    cluster: MockKafka, programs: ExamplePrograms, tmp_path: Path
) -> None:
    entries = records(tmp_path / "a", 60)
    other = SOURCE.replace("desched-0", "desched-1")
    twins = [
        JournalRecord(one.seq, one.raw.replace(SOURCE.encode(), other.encode())) for one in entries
    ]
    new_signer(tmp_path / "b", other)
    await produce(cluster, [entries, twins], 0)

    programs.start("kafka_consumer.py", cluster.brokers[0], TOPIC, str(tmp_path / "seen.db"))
    await reaches(tmp_path / "seen.db", 2 * len(entries))

    assert counted(tmp_path / "seen.db") == endings(entries) + endings(entries)
