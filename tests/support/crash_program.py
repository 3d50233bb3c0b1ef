"""A small controller that can be killed at any moment: real books, and an API server in a file.

Run as a program, it reads a `CrashRun` on each line of its input, carries it out in a process
forked for it, and prints that process's id and then how it ended. All that takes time to load is
loaded once, so that hundreds of runs fit into a minute.
"""

import gc
import os
import sys
import traceback
from pathlib import Path
from random import Random
from typing import Final

import anyio
import anyio._backends._asyncio
import cryptography.hazmat.primitives.serialization  # noqa: F401 -- as above
import msgspec
from msgspec import Struct

from reactive_desched.app.recording import Recording, open_recording
from reactive_desched.eviction.client import IntentOwner
from reactive_desched.eviction.executor import (
    EvictionExecutor,
)
from reactive_desched.eviction.recovery import resolve_open_intents
from reactive_desched.journal.upkeep.retention_worker import RetentionWorker
from reactive_desched.model.decisions import Defer, Evict
from reactive_desched.model.evaluation import DecisionContext, Intent, Trigger
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import OwnerReference
from reactive_desched.model.outcomes import PDB_REFUSED
from reactive_desched.policy.settings.reactive_settings import ReactiveSettings
from reactive_desched.policy.settings.recording import (
    CheckpointSettings,
    JournalSettings,
    KafkaSettings,
    RetentionSettings,
    SinkSettings,
)
from reactive_desched.sinks import sink_runner
from reactive_desched.sinks.kafka import producer
from reactive_desched.telemetry.registry import MetricsRegistry
from reactive_desched.testing.builders import pod
from tests.support.crash_steps import kill_at, monkeypatch, record_promises
from tests.support.crash_world import FileApiServer

__all__ = ["CrashRun"]

WORKERS: Final = 6
OWNERS: Final = 5
LONGEST_PAUSE_S: Final = 0.015
RETENTION_INTERVAL_S: Final = 0.05
CLEANUP_INTERVAL_S: Final = 0.03
DRAIN_TIMEOUT_S: Final = 20.0


class CrashRun(Struct, frozen=True, kw_only=True):
    """What one process does: it works for a while, or until the named step has come `nth` times.

    With `is_last` it only finishes what is open, and is gone as soon as everyone has everything.
    """

    number: int
    journal: str
    acknowledged: str
    world: str
    log: str
    brokers: tuple[str, ...]
    topic: str
    work_s: float = 20.0
    step: str = ""
    nth: int = 1
    is_last: bool = False
    segment_bytes: int = 8192
    max_bytes: int = 1 << 16
    hard_max_bytes: int = 1 << 26


class _StderrLogger:
    """A log on standard error."""

    def __init__(self, run_number: int) -> None:
        self._run_number = run_number

    def info(self, event: str, **values: object) -> None:
        """Write a line."""
        os.write(2, f"run {self._run_number}: {event} {values}\n".encode())

    warning = debug = info


def settings(crash_run: CrashRun) -> ReactiveSettings:
    """Return settings under which everything happens within a fraction of a second."""
    return ReactiveSettings(
        journal=JournalSettings(
            max_segment_bytes=crash_run.segment_bytes,
            retention=RetentionSettings(
                max_bytes=crash_run.max_bytes, hard_max_bytes=crash_run.hard_max_bytes
            ),
            checkpoints=CheckpointSettings(every_records=7),
        ),
        sinks=SinkSettings(kafka=KafkaSettings(brokers=crash_run.brokers, topic=crash_run.topic)),
    )


async def run(crash_run: CrashRun) -> None:
    """Do what a controller does, as often as it can."""
    world, log = FileApiServer(Path(crash_run.world)), _StderrLogger(crash_run.number)
    recording = open_recording(
        Path(crash_run.journal), settings(crash_run), MetricsRegistry(), log, [], dry_run=False
    )
    async with recording as opened, anyio.create_task_group() as group:
        _print_line(
            crash_run,
            f"repaired {opened.journal.recovery.torn_bytes} "
            f"{opened.journal.recovery.torn_file or ''}",
        )
        await resolve_open_intents(opened.recorder, world, log)
        if crash_run.is_last:
            await _drain_and_exit(crash_run, opened)
        opened.recorder.policy_loaded("policy.yaml", f"revision-{crash_run.number}")
        means = EvictionExecutor(opened.recorder, world, anyio.current_time)
        for worker in range(WORKERS):
            group.start_soon(_work, crash_run, worker, opened, means)
        await anyio.sleep(crash_run.work_s)
        group.cancel_scope.cancel()


async def _work(
    crash_run: CrashRun,
    worker: int,
    recording: Recording,
    executor: EvictionExecutor,
) -> None:
    chance = Random(f"{crash_run.number} {worker}")
    for number in range(1_000_000):
        ending = chance.choice(["", "", "", "-guarded", "-unheard", "-gone"])
        account = _decision_context(f"{crash_run.number}-{worker}-{number}{ending}", chance)
        if chance.random() < 0.3:
            waits = Defer(account.finding, "Gate", "Spent", "1 eviction in 5 minutes is spent", 0.0)
            recording.recorder.record_decision(account, waits)
        for _ in range(2):
            recording.recorder.record_decision(account, Evict(account.finding))
            result = await executor.execute(Intent(account), IntentOwner())
            if result.outcome.result != PDB_REFUSED:
                break
        await anyio.sleep(chance.uniform(0, LONGEST_PAUSE_S))


def _decision_context(uid: str, chance: Random) -> DecisionContext:
    owner = OwnerReference("ReplicaSet", "web", f"owner-{chance.randrange(OWNERS)}", True)
    reason = "does not tolerate gpu:NoSchedule on n1"
    finding = Finding(pod(uid, on="n1", uid=uid), "RemovePodsViolatingNodeTaints", reason)
    return DecisionContext(finding, "day", Trigger(), (owner,), "north")


async def _drain_and_exit(crash_run: CrashRun, recording: Recording) -> None:
    """Wait until every follower has every record and knows it, and be gone without a farewell."""
    for name, one in recording.sink_runners.items():
        if not await one.drained(DRAIN_TIMEOUT_S):
            raise TimeoutError(f"{name} lacks {one.lag_records} records: {one.error}")
        while one.saved_cursor < one.cursor:  # noqa: ASYNC110 -- it is a mere attribute
            await anyio.sleep(RETENTION_INTERVAL_S)
    _print_line(crash_run, f"known {recording.journal.tail.last_seq}")
    os._exit(0)


def _print_line(crash_run: CrashRun, line: str) -> None:
    with Path(crash_run.acknowledged).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def _shorten_intervals() -> None:
    """Have everything that a controller does every few seconds done all the time."""
    monkeypatch(sink_runner, "SAVE_EVERY_S", RETENTION_INTERVAL_S)
    run = RetentionWorker.run
    monkeypatch(RetentionWorker, "run", lambda keeper: run(keeper, CLEANUP_INTERVAL_S))


def _build_models() -> None:
    """Have pydantic build what reads the settings, which it puts off to the first use: once."""
    some_run = CrashRun(
        number=0, journal="", acknowledged="", world="", log="", brokers=("kafka:9092",), topic="t"
    )
    settings(some_run)


def _run_child(crash_run: CrashRun) -> None:
    os.dup2(os.open(crash_run.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640), 2)
    try:
        record_promises(Path(crash_run.acknowledged))
        if crash_run.step:
            kill_at(crash_run.step, crash_run.nth, Path(crash_run.acknowledged))
        anyio.run(run, crash_run)
    except BaseException:  # noqa: BLE001 -- the parent sees the status, the log the reason
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def main() -> None:
    """Carry out the runs on standard input, one after the other."""
    producer.import_client()
    _shorten_intervals()
    _build_models()
    gc.collect()
    gc.freeze()  # else each run's collector walks, and so copies, all that is loaded here
    for line in sys.stdin:
        crash_run = msgspec.json.decode(line, type=CrashRun)
        if not (pid := os.fork()):
            _run_child(crash_run)
        print(pid, flush=True)  # noqa: T201 -- the test reads it
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201 -- as above


if __name__ == "__main__":
    main()
