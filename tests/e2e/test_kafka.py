"""The journal into a real Kafka broker, whatever becomes of the broker meanwhile."""

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from statistics import quantiles
from typing import Any

import anyio
import pytest
from anyio.to_thread import run_sync

from reactive_desched.journal.records import JournalRecord
from reactive_desched.policy.settings.recording import KafkaSettings
from tests.support.control_plane import wait_until
from tests.support.example_programs import ExamplePrograms
from tests.support.kafka_broker import KafkaBroker
from tests.support.kafka_group import ConsumedMessage, read_group
from tests.support.relaying import journal_to_kafka

pytestmark = [pytest.mark.real, pytest.mark.anyio]

PER_SECOND = 100.0


def check_arrival(messages: Sequence[ConsumedMessage], recorded: Sequence[JournalRecord]) -> int:
    """Check that all arrived, in order for each key; return how many came again."""
    places: dict[bytes, set[int]] = defaultdict(set)
    firsts: dict[bytes, list[int]] = defaultdict(list)
    values: dict[int, bytes] = {}
    for message in messages:
        event = json.loads(message.value)
        seq = int(event["sequence"])
        assert message.key == event["partitionkey"].encode()
        places[message.key].add(message.partition)
        if seq not in values:
            firsts[message.key].append(seq)
        assert values.setdefault(seq, message.value) == message.value
    assert values == {entry.seq: entry.raw for entry in recorded}
    assert all(len(partitions) == 1 for partitions in places.values())
    assert all(seqs == sorted(seqs) for seqs in firsts.values())
    return len(messages) - len(values)


async def read(broker: KafkaBroker, topic: str) -> list[ConsumedMessage]:
    return await run_sync(lambda: read_group(broker.address, topic))


async def test_decisions_arrive_with_keys_and_headers_in_several_partitions(
    broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    broker.admin.create_topic(topic, partitions=3)
    async with journal_to_kafka(
        tmp_path, KafkaSettings(brokers=(broker.address,), topic=topic)
    ) as ours:
        await ours.append(ours.events(300))
        await ours.drained(60)
        recorded = ours.recorded

    messages = await read(broker, topic)
    assert check_arrival(messages, recorded) == 0
    assert len({message.partition for message in messages}) > 1
    for message in messages:
        event = json.loads(message.value)
        del event["data"], event["datacontenttype"]
        attributes = {f"ce_{name}": text.encode() for name, text in event.items()}
        assert message.headers == attributes | {"content-type": b"application/cloudevents+json"}

    shown = ("print.key=true", "print.headers=true", "print.partition=true")
    printed = await run_sync(lambda: broker.console(topic, *shown))
    assert Counter(printed) == Counter(map(as_the_console_shows, messages))


def as_the_console_shows(message: ConsumedMessage) -> str:
    headers = ",".join(f"{name}:{text.decode()}" for name, text in message.headers.items())
    parts = (
        f"Partition:{message.partition}",
        headers,
        message.key.decode(),
        message.value.decode(),
    )
    return "\t".join(parts)


async def stopped_for_a_minute(broker: KafkaBroker) -> None:
    broker.pause()
    try:
        await anyio.sleep(60)
    finally:
        broker.resume()


async def killed_and_started_again(broker: KafkaBroker) -> None:
    await run_sync(broker.kill)
    await anyio.sleep(10)
    await run_sync(broker.start)


@pytest.mark.parametrize(
    "fault",
    [stopped_for_a_minute, killed_and_started_again],
    ids=["SIGSTOP for a minute", "SIGKILL and a start"],
)
async def test_a_broker_that_is_away_loses_nothing_and_delays_no_record(
    broker: KafkaBroker,
    topic: str,
    tmp_path: Path,
    fault: Callable[[KafkaBroker], Awaitable[None]],
) -> None:
    broker.admin.create_topic(topic, partitions=3)
    folder, away, began = tmp_path / "journal", list[float](), anyio.current_time()

    async with journal_to_kafka(
        folder, KafkaSettings(brokers=(broker.address,), topic=topic)
    ) as ours:
        there = await ours.append(ours.events(500), per_second=PER_SECOND)
        async with anyio.create_task_group() as group:

            async def load() -> None:
                while True:
                    away.extend(await ours.append(ours.events(100), per_second=PER_SECOND))

            group.start_soon(load)
            await anyio.sleep(0.5)
            await fault(broker)
            group.cancel_scope.cancel()
        back_at, waiting = anyio.current_time(), ours.runner.lag_records
        await ours.drained(60)
        drained_s = anyio.current_time() - back_at
        recorded = ours.recorded

    again = check_arrival(await read(broker, topic), recorded)
    with ExamplePrograms(tmp_path) as programs:
        key = ("--key", str(folder / "checkpoint.pub"))
        verifier = programs.start("verify_topic.py", "--brokers", broker.address, topic, *key)
        assert await run_sync(verifier.wait) == 0, verifier.printed
    print(  # noqa: T201 - figures for people: `pytest -rP` shows them
        f"{len(recorded)} records, {waiting} waiting, drained in {drained_s:.1f} s,"
        f" {again} sent again; an append took (p99) {p99_ms(there):.1f} ms with the broker,"
        f" {p99_ms(away):.1f} ms without: ratio {p99_ms(away) / p99_ms(there):.2f};"
        f" all in {anyio.current_time() - began:.0f} s"
    )
    assert len(away) > 300
    assert max(away) < 5  # the broker was away for longer


async def test_a_consumer_killed_at_any_moment_counts_each_event_once_whatever_the_broker_does(
    broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    broker.admin.create_topic(topic, partitions=3)
    database, rng = tmp_path / "seen.db", Random(11)
    settings = KafkaSettings(brokers=(broker.address,), topic=topic)
    with ExamplePrograms(tmp_path) as programs:
        arguments = ("kafka_consumer.py", broker.address, topic, str(database))
        async with journal_to_kafka(tmp_path / "journal", settings) as ours:
            async with anyio.create_task_group() as group:

                async def load() -> None:
                    while events := ours.events(100):
                        await ours.append(events, per_second=PER_SECOND)

                group.start_soon(load)  # a consumer that starts always finds something new
                for _ in range(3):
                    consumer, before = programs.start(*arguments), placed(database)
                    await reaches(database, before + 1)
                    await anyio.sleep(rng.random() / 2)
                    consumer.kill()
                before = placed(database)
                programs.start(*arguments)
                await reaches(database, before + 1)  # it follows now, and must outlive what comes
                await run_sync(broker.kill)
                await run_sync(broker.start)
                group.cancel_scope.cancel()
            await ours.drained(60)
            recorded = ours.recorded
        await reaches(database, len(await read(broker, topic)))

    assert counted(database) == endings(recorded)


def placed(database: Path) -> int:
    """Return how many messages lie behind the places that the consumer has kept."""
    found = asked(database, "SELECT sum(next) FROM place")
    return (found[0][0] or 0) if found else 0


def counted(database: Path) -> Counter[tuple[str, str]]:
    rows = asked(database, "SELECT namespace, result, count FROM outcomes")
    return Counter({(namespace, result): count for namespace, result, count in rows})


def asked(database: Path, query: str) -> list[Any]:  # rows of any shape
    with closing(sqlite3.connect(database)) as store:
        try:
            return store.execute(query).fetchall()
        except sqlite3.OperationalError:  # its tables are just being made
            return []


async def reaches(database: Path, count: int) -> None:
    def there() -> bool:
        return placed(database) >= count

    what = f"{count} messages are behind the kept places"
    await run_sync(lambda: wait_until(there, within_s=60, what=what, every_s=0.01))


def endings(entries: Sequence[JournalRecord]) -> Counter[tuple[str, str]]:
    data = (json.loads(entry.raw)["data"] for entry in entries)
    return Counter(
        (each["who"]["namespace"], each["outcome"]["result"]) for each in data if "outcome" in each
    )


def p99_ms(seconds: Sequence[float]) -> float:
    return quantiles(seconds, n=100)[98] * 1000
