"""Runs of `crash_program` one after the other in the same folder, and what they leave."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec
from confluent_kafka import Consumer, TopicPartition

from tests.support.crash_program import CrashRun
from tests.support.crash_world import evicted_uids
from tests.support.mock_kafka import MockKafka

__all__ = ["AcknowledgedWrite", "CrashRuns", "CrashSupervisor", "ReceivedMessage"]

TOPIC = "events"
PARTITIONS = 3
TIMEOUT_S = 30.0
_LOG_CHARACTERS = 4000


class AcknowledgedWrite(NamedTuple):
    """What a run acknowledged: what, of which id, and more about it."""

    kind: str
    id: str
    detail: str


class ReceivedMessage(NamedTuple):
    """A message in Kafka."""

    partition: int
    key: str
    value: bytes


class CrashSupervisor:
    """The process that all runs are forked from: it has loaded what takes time to load."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.crash_program"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONWARNINGS": "error"},
        )

    def __enter__(self) -> Self:
        """Keep the process while the block runs."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        with self._process:
            self._process.kill()

    def start_run(self, crash_run: CrashRun) -> int:
        """Begin a run; return its process's id."""
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(crash_run) + b"\n")
        self._process.stdin.flush()
        return self._read()

    def wait(self) -> int:
        """Wait until it has ended; return its exit status."""
        return self._read()

    def _read(self) -> int:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the supervisor has ended"
        return int(line)


class CrashRuns:
    """Processes that share a folder; at most one of a supervisor's runs at a time."""

    def __init__(self, folder: Path, supervisor: CrashSupervisor, kafka: MockKafka) -> None:
        self.journal = folder / "journal"
        self._supervisor = supervisor
        self._log = folder / "log"
        self._promises = folder / "promises"
        self._api_server_file = folder / "world"
        self._kafka = kafka
        self._number = 0
        self._received: list[list[ReceivedMessage]] = [[] for _ in range(PARTITIONS)]
        kafka.create_topic(TOPIC, PARTITIONS)
        for path in (self._promises, self._api_server_file, self._log):
            path.touch()

    def __enter__(self) -> Self:
        """Begin to read what arrives in Kafka."""
        where = {"bootstrap.servers": ",".join(self._kafka.brokers), "group.id": "test"}
        self._consumer = Consumer({**where, "fetch.wait.max.ms": 10, "log_level": 0})
        return self

    def __exit__(self, *_: object) -> None:
        """Read no more."""
        self._consumer.close()

    def work(self, for_s: float, **more: Any) -> int:  # fields of CrashRun
        """Run for a while and end in an orderly way; return the exit status."""
        self._begin(work_s=for_s, **more)
        return self._supervisor.wait()

    def killed_after(self, after_s: float, **more: Any) -> int:  # fields of CrashRun
        """Run until killed, so long after the process began; return the exit status."""
        pid = self._begin(**more)
        time.sleep(after_s)
        os.kill(pid, signal.SIGKILL)
        return self._supervisor.wait()

    def killed_at_work(self, after_s: float, **more: Any) -> int:  # fields of CrashRun
        """Run until killed, so long after the first record was written; return the status."""
        before = self._appended()
        pid = self._begin(**more)
        give_up = time.monotonic() + TIMEOUT_S
        while self._appended() == before and time.monotonic() < give_up:
            time.sleep(0.005)
        time.sleep(after_s)
        os.kill(pid, signal.SIGKILL)
        return self._supervisor.wait()

    def killed_at(self, step: str, nth: int = 1, **more: Any) -> int:  # fields of CrashRun
        """Run until a step comes for the nth time; return the exit status."""
        self._begin(step=step, nth=nth, **more)
        return self._supervisor.wait()

    def run_to_completion(self, **more: Any) -> int:  # fields of CrashRun
        """Run until everything is finished and everyone has everything; return the status."""
        self._begin(is_last=True, **more)
        return self._supervisor.wait()

    @property
    def promises(self) -> list[AcknowledgedWrite]:
        """What the runs acknowledged, in order."""
        lines = self._promises.read_text(encoding="utf-8").splitlines()
        return [AcknowledgedWrite(*[*line.split(" ", 2), "", ""][:3]) for line in lines]

    def _appended(self) -> int:
        return self._promises.read_bytes().count(b"\nappended ")

    @property
    def evicted_uids(self) -> list[str]:
        """The pods that really left, by uid."""
        return evicted_uids(self._api_server_file)

    @property
    def last_log(self) -> str:
        """What they logged last."""
        return self._log.read_text(errors="replace")[-_LOG_CHARACTERS:]

    def read_topic(self) -> list[ReceivedMessage]:
        """Read on in the topic, and return all that was ever in it, each partition in order."""
        for number in range(PARTITIONS):
            offsets = self._received[number]
            offsets += _messages_from(self._consumer, number, len(offsets))
        return [message for offsets in self._received for message in offsets]

    def _begin(self, **more: Any) -> int:  # fields of CrashRun
        self._number += 1
        crash_run = CrashRun(
            number=self._number,
            journal=str(self.journal),
            acknowledged=str(self._promises),
            world=str(self._api_server_file),
            log=str(self._log),
            brokers=more.pop("brokers", self._kafka.brokers),
            topic=TOPIC,
            **more,
        )
        return self._supervisor.start_run(crash_run)


def _messages_from(consumer: Consumer, number: int, offset: int) -> Iterator[ReceivedMessage]:
    """Yield what a partition holds from there on; the mock cluster drops what is old."""
    position = TopicPartition(TOPIC, number, offset)
    oldest, end = consumer.get_watermark_offsets(position, timeout=TIMEOUT_S)
    assert oldest <= offset, "the mock cluster has dropped messages: read it more often"
    consumer.assign([position])
    for _ in range(offset, end):
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, "the topic cannot be read"
        assert message.error() is None, message.error()
        key, value = message.key(), message.value()
        assert isinstance(key, bytes)
        assert isinstance(value, bytes)
        yield ReceivedMessage(number, key.decode(), value)
