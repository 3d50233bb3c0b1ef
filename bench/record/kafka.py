"""How fast the relay carries a journal to Kafka, and what the event loop notices of it."""

import json
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import anyio
import msgspec
from confluent_kafka import Consumer, TopicPartition

from bench.measure.loop import watch_lateness, watch_loop_turns
from bench.measure.machine import Stopwatch
from bench.record.task import Results, Task, WarningLog, freeze_gc
from reactive_desched.journal.clocks import utc_now
from reactive_desched.journal.cursors import Cursors
from reactive_desched.journal.records import JournalRecord
from reactive_desched.journal.segments import list_segments, read_records
from reactive_desched.journal.tail import LiveTail
from reactive_desched.policy.settings.recording import KafkaSettings
from reactive_desched.sinks.dead_letters import DeadLetterFiles
from reactive_desched.sinks.kafka.producer import import_client
from reactive_desched.sinks.kafka.sink import KafkaSink
from reactive_desched.sinks.sink_runner import SinkRunner
from tests.support.kafka_broker import KafkaBroker, KafkaTools
from tests.support.mock_kafka import mock_kafka

PARTITIONS = 3
_BUILD = Path(__file__).parents[2] / "tools" / "real" / "build.py"
_DELIVERY_TIMEOUT_S = 120.0
_WITHIN_S = 10.0


class _Sourced(msgspec.Struct):
    source: str


def run_mock_cluster(task: Task) -> Results:
    """Be a mock cluster until standard input ends; its address comes first."""
    with mock_kafka() as cluster:
        for topic in task.topics:
            cluster.create_topic(topic, PARTITIONS)
        sys.stdout.write(msgspec.json.encode({"address": cluster.brokers[0]}).decode() + "\n")
        sys.stdout.flush()
        sys.stdin.read()
    return {}


async def relay_speed(task: Task) -> Results:
    """Relay the last records of a journal, each time to another topic."""
    (last,) = deque(read_records(list_segments(task.folder)[-1]), maxlen=1)
    import_client()
    freeze_gc()
    return {"runs": [await _relayed(task, topic, last) for topic in task.topics]}


async def _relayed(task: Task, topic: str, last: JournalRecord) -> Results:
    log = WarningLog()
    with TemporaryDirectory() as scratch, watch_loop_turns() as loop_turns:
        relay = _relay(task, topic, last, Path(scratch), log)
        async with watch_lateness() as late, anyio.create_task_group() as group:
            watch = Stopwatch()
            group.start_soon(relay.run)
            arrived_count = await relay.drained(_DELIVERY_TIMEOUT_S)
            wall_s, cpu_s = watch.wall_s, watch.cpu_s
            group.cancel_scope.cancel()
    return {
        "is_there": arrived_count,
        "arrived": message_count(task.address, topic),
        "retries": relay.retries,
        "warnings": log.warnings,
        "records_per_s": round(task.count / wall_s),
        "cpu_us_per_record": round(cpu_s / task.count * 1e6, 1),
        "loop_late_ms": late.summary(),
        "holds": loop_turns.summary(),
    }


def _relay(
    task: Task, topic: str, last: JournalRecord, scratch: Path, log: WarningLog
) -> SinkRunner:
    """Make a relay that has these records before it, and no others."""
    positions = Cursors(scratch)
    positions.save("kafka", last.seq - task.count, "2026-01-01T00:00:00Z")
    kafka = KafkaSettings(brokers=(task.address,), topic=topic)
    return SinkRunner(
        KafkaSink(kafka, clock=time.monotonic, log=log),
        LiveTail(task.folder, msgspec.json.decode(last.raw, type=_Sourced).source, 1, last.seq),
        positions,
        DeadLetterFiles(scratch),
        clock=time.monotonic,
        wall=utc_now,
        rng=Random(0),  # noqa: S311  # it spreads retries
        log=log,
    )


def message_count(address: str, topic: str) -> int:
    """Return how many messages the topic ever got, as another client library sees it."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "bench", "log_level": 0})
    try:
        offsets = (TopicPartition(topic, number) for number in range(PARTITIONS))
        return sum(
            consumer.get_watermark_offsets(partition, timeout=_WITHIN_S)[1] for partition in offsets
        )
    finally:
        consumer.close()


# --- clusters to relay to, none of them in the process that is measured -------------------------


@contextmanager
def mock_cluster(topics: Sequence[str]) -> Iterator[str]:
    """Run librdkafka's mock cluster while the block lasts; gives its address."""
    command = [sys.executable, "-m", "bench.record", "mock", "--folder", ".", "--topics", *topics]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as cluster:  # noqa: S603  # our own module
        assert cluster.stdout is not None
        yield json.loads(cluster.stdout.readline())["address"]
        cluster.communicate()


@contextmanager
def real_cluster(folder: Path, topics: Sequence[str], tools: KafkaTools) -> Iterator[str]:
    """Run a real broker while the block lasts; gives its address."""
    folder.mkdir()
    with KafkaBroker(tools, folder) as broker:
        for topic in topics:
            broker.admin.create_topic(topic, PARTITIONS)
        yield broker.address


def kafka_tools() -> KafkaTools:
    """Say where Java and Kafka are, if `make real-tools` has brought them; nothing is built now."""
    where = [sys.executable, str(_BUILD), "--where"]
    done = subprocess.run(where, check=True, capture_output=True, text=True)  # noqa: S603  # our own script
    return KafkaTools.parse(done.stdout)
