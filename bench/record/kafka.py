"""How fast the relay carries a journal to Kafka, and what the event loop notices of it."""

import sys
import time
from collections import deque
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import anyio
import msgspec
from confluent_kafka import Consumer, TopicPartition

from bench.measure.hold import watching
from bench.measure.machine import Stopwatch
from bench.record.lateness import lateness
from bench.record.task import Found, Quiet, Task, keep_collector_away
from reactive_desched.app.recording import utc_now
from reactive_desched.journal.cursors import Positions
from reactive_desched.journal.records import Entry
from reactive_desched.journal.segments import entries, segments
from reactive_desched.journal.tail import Tail
from reactive_desched.policy.recording import Kafka
from reactive_desched.sinks.dead_letters import DeadLetters
from reactive_desched.sinks.kafka.producer import load
from reactive_desched.sinks.kafka.sink import KafkaSink
from reactive_desched.sinks.sink_runner import Relay
from tests.support.mock_kafka import mock_kafka

PARTITIONS = 3
_PATIENCE_S = 120.0
_WITHIN_S = 10.0


class _Sourced(msgspec.Struct):
    source: str


def mock(task: Task) -> Found:
    """Be a mock cluster until standard input ends; its address comes first."""
    with mock_kafka() as cluster:
        for topic in task.topics:
            cluster.create_topic(topic, PARTITIONS)
        sys.stdout.write(msgspec.json.encode({"address": cluster.brokers[0]}).decode() + "\n")
        sys.stdout.flush()
        sys.stdin.read()
    return {}


async def relayed(task: Task) -> Found:
    """Relay the last records of a journal, each time to another topic."""
    (last,) = deque(entries(segments(task.folder)[-1]), maxlen=1)
    load()
    keep_collector_away()
    return {"runs": [await _relayed(task, topic, last) for topic in task.topics]}


async def _relayed(task: Task, topic: str, last: Entry) -> Found:
    log = Quiet()
    with TemporaryDirectory() as scratch, watching() as holds:
        relay = _relay(task, topic, last, Path(scratch), log)
        async with lateness() as late, anyio.create_task_group() as group:
            watch = Stopwatch()
            group.start_soon(relay.run)
            is_there = await relay.flushed(_PATIENCE_S)
            wall_s, cpu_s = watch.wall_s, watch.cpu_s
            group.cancel_scope.cancel()
    return {
        "is_there": is_there,
        "arrived": _arrived(task.address, topic),
        "retries": relay.retries,
        "warnings": log.warnings,
        "records_per_s": round(task.count / wall_s),
        "cpu_us_per_record": round(cpu_s / task.count * 1e6, 1),
        "loop_late_ms": late.summary(),
        "holds": holds.summary(),
    }


def _relay(task: Task, topic: str, last: Entry, scratch: Path, log: Quiet) -> Relay:
    """Make a relay that has these records before it, and no others."""
    positions = Positions(scratch)
    positions.keep("kafka", last.seq - task.count, "2026-01-01T00:00:00Z")
    kafka = Kafka(brokers=(task.address,), topic=topic)
    return Relay(
        KafkaSink(kafka, clock=time.monotonic, log=log),
        Tail(task.folder, msgspec.json.decode(last.raw, type=_Sourced).source, 1, last.seq),
        positions,
        DeadLetters(scratch),
        clock=time.monotonic,
        wall=utc_now,
        rng=Random(0),  # noqa: S311  # it spreads retries
        log=log,
    )


def _arrived(address: str, topic: str) -> int:
    """Return how many messages the topic ever got, as another client library sees it."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "bench", "log_level": 0})
    try:
        places = (TopicPartition(topic, number) for number in range(PARTITIONS))
        return sum(consumer.get_watermark_offsets(place, timeout=_WITHIN_S)[1] for place in places)
    finally:
        consumer.close()
