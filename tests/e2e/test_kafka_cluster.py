"""The journal into a cluster of three real Kafka brokers, some of which are away."""

import json
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from anyio.to_thread import run_sync

from reactive_desched.policy.settings.recording import KafkaSettings
from tests.e2e.test_kafka import PER_SECOND, check_arrival
from tests.support.kafka_broker import KafkaBroker, KafkaTools, kafka_cluster
from tests.support.kafka_group import read_group
from tests.support.relaying import JournalToKafka, journal_to_kafka

pytestmark = [pytest.mark.real, pytest.mark.anyio]


@pytest.fixture(scope="module")
def brokers(
    kafka_tools: KafkaTools, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[KafkaBroker]]:
    with kafka_cluster(kafka_tools, tmp_path_factory.mktemp("kafka-cluster"), 3) as made:
        yield made


def to_all(brokers: list[KafkaBroker], topic: str) -> KafkaSettings:
    return KafkaSettings(brokers=tuple(each.address for each in brokers), topic=topic)


async def keep_appending(ours: JournalToKafka) -> None:
    while events := ours.events(100):
        await ours.append(events, per_second=PER_SECOND)


async def test_brokers_that_are_restarted_in_turn_and_killed_in_turn_lose_no_record(
    brokers: list[KafkaBroker], tmp_path: Path
) -> None:
    """One of those that are killed is the active controller."""
    brokers[0].admin.create_topic("in-turn", 3, replicas=3, min_insync_replicas="2")
    async with journal_to_kafka(tmp_path, to_all(brokers, "in-turn")) as ours:
        async with anyio.create_task_group() as beside:
            beside.start_soon(keep_appending, ours)
            for broker in brokers:
                await run_sync(broker.stop)
                await anyio.sleep(1)
                await run_sync(broker.start)
            for broker in brokers:
                await run_sync(broker.kill)
                await anyio.sleep(3)
                await run_sync(broker.start)
            beside.cancel_scope.cancel()
        await ours.drained(120)
        recorded = ours.recorded
        assert ours.dead_letters == []
    messages = await run_sync(lambda: read_group(brokers[0].address, "in-turn"))
    again = check_arrival(messages, recorded)
    print(f"{len(recorded)} records, {again} sent again")  # noqa: T201 - `pytest -rP` shows it


async def test_records_wait_while_too_few_replicas_are_there_and_the_reason_is_named(
    brokers: list[KafkaBroker], tmp_path: Path
) -> None:
    brokers[0].admin.create_topic("replicas", 3, replicas=3, min_insync_replicas="3")
    async with journal_to_kafka(tmp_path, to_all(brokers, "replicas")) as ours:
        await ours.append(ours.events(100))
        await ours.drained(60)
        await run_sync(brokers[2].kill)
        await ours.append(ours.events(200))
        await ours.wait_for_failure("replicas", within_s=60)
        await anyio.sleep(20)
        await ours.append(ours.events(100))
        assert ours.runner.lag_records > 0
        await run_sync(brokers[2].start)
        await ours.drained(120)
        recorded = ours.recorded
        assert ours.dead_letters == []
    messages = await run_sync(lambda: read_group(brokers[0].address, "replicas"))
    check_arrival(messages, recorded)


@pytest.mark.parametrize("number", [1, 7], ids=["the same number", "another number"])
async def test_another_cluster_at_the_same_address_gets_each_event_that_the_first_had_not(
    kafka_tools: KafkaTools, tmp_path: Path, number: int
) -> None:
    """As after a broker whose disk was lost: it has no topic, and does not know the producer."""
    (tmp_path / "kafka").mkdir()
    with KafkaBroker(kafka_tools, tmp_path / "kafka") as broker:
        broker.admin.create_topic("replaced", partitions=3)
        settings = KafkaSettings(brokers=(broker.address,), topic="replaced")
        async with journal_to_kafka(tmp_path / "journal", settings) as ours:
            await ours.append(ours.events(200))
            await ours.drained(60)
            before = {entry.seq for entry in ours.recorded}
            await run_sync(broker.kill)
            await ours.append(ours.events(100))
            await run_sync(lambda: broker.replace(number, "b3RoZXItY2x1c3Rlci1pZA"))
            await ours.wait_for_failure("does not exist", within_s=60)
            await run_sync(lambda: broker.admin.create_topic("replaced", partitions=2))
            await ours.append(ours.events(100))
            await ours.drained(60)

            assert ours.dead_letters == []
            after = {entry.seq for entry in ours.recorded} - before
        messages = await run_sync(lambda: read_group(broker.address, "replaced"))
        assert {int(json.loads(each.value)["sequence"]) for each in messages} == after
