"""A broker whose disk is full, and gets room again: nothing is lost, and the reason is shown."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from anyio.to_thread import run_sync

from reactive_desched.policy.settings.recording import KafkaSettings
from tests.e2e.test_kafka import check_arrival
from tests.support.control_plane import wait_until
from tests.support.kafka_broker import KafkaBroker, KafkaTools
from tests.support.kafka_group import read_group
from tests.support.relaying import journal_to_kafka

pytestmark = [pytest.mark.real, pytest.mark.anyio]

DISK_MIB = 64
TOPIC = "decisions"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own for the broker's records; only root may mount one."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ("mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(folder))
    if (done := subprocess.run(mount, check=False, capture_output=True, text=True)).returncode:
        pytest.skip(f"no disk can be mounted: {done.stderr}")
    try:
        yield folder
    finally:
        subprocess.run(("umount", "--lazy", str(folder)), check=True)


def fill(disk: Path, left: int) -> Path:
    """Write a file that leaves so many bytes free."""
    filler = disk / "filler"
    room = os.statvfs(disk)
    filler.write_bytes(bytes(max(0, room.f_bavail * room.f_frsize - left)))
    return filler


async def test_a_broker_whose_disk_is_full_gets_everything_when_there_is_room_again(
    kafka_tools: KafkaTools, disk: Path, tmp_path: Path
) -> None:
    own = tmp_path / "kafka"
    own.mkdir()
    with KafkaBroker(kafka_tools, own, record_folders=(disk / "records",)) as broker:
        broker.admin.create_topic(TOPIC, partitions=3)
        settings = KafkaSettings(brokers=(broker.address,), topic=TOPIC)
        async with journal_to_kafka(tmp_path / "journal", settings) as ours:
            await ours.append(ours.events(300))
            await ours.drained(60)
            filler = fill(disk, left=200_000)
            await ours.append(ours.events(2_000))
            await run_sync(
                lambda: wait_until(broker.has_ended, within_s=60, what="the broker gave up")
            )
            reason = await ours.wait_for_failure(broker.address, within_s=60)
            assert ours.runner.lag_records > 0
            await ours.append(ours.events(200))

            filler.unlink()
            await run_sync(broker.start)
            await ours.drained(60)
            recorded, retries = ours.recorded, ours.runner.retries
            assert ours.dead_letters == []

        messages = await run_sync(lambda: read_group(broker.address, TOPIC))
        again = check_arrival(messages, recorded)
    print(  # noqa: T201 - figures for people: `pytest -rP` shows them
        f"{len(recorded)} records, {again} sent again, {retries} retries; {reason}"
    )


async def test_where_one_of_two_disks_is_full_records_wait_and_the_reason_is_named(
    kafka_tools: KafkaTools, disk: Path, tmp_path: Path
) -> None:
    own = tmp_path / "kafka"
    own.mkdir()
    folders = (disk / "records", tmp_path / "other")
    with KafkaBroker(kafka_tools, own, record_folders=folders) as broker:
        broker.admin.create_topic(TOPIC, partitions=6)
        settings = KafkaSettings(brokers=(broker.address,), topic=TOPIC)
        async with journal_to_kafka(tmp_path / "journal", settings) as ours:
            await ours.append(ours.events(300))
            await ours.drained(60)
            filler = fill(disk, left=200_000)
            await ours.append(ours.events(2_000))
            reason = await ours.wait_for_failure("no broker serves", within_s=90)
            assert not broker.has_ended()
            await anyio.sleep(5)
            assert ours.runner.lag_records > 0

            filler.unlink()
            await run_sync(broker.kill)
            await run_sync(broker.start)
            await ours.drained(60)
            recorded = ours.recorded
            assert ours.dead_letters == []

        messages = await run_sync(lambda: read_group(broker.address, TOPIC))
        again = check_arrival(messages, recorded)
    print(  # noqa: T201 - figures for people: `pytest -rP` shows them
        f"{len(recorded)} records, {again} sent again; {reason}"
    )
