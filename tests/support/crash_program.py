"""A small controller that can be killed at any moment: real books, and an API server in a file.

Run as a program, it reads a `Life` on each line of its input, lives it in a process forked for it,
and prints that process's id and then how it ended. All that takes time to load is loaded once, so
that hundreds of lives fit into a minute.
"""

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

import anyio
import anyio._backends._asyncio
import cryptography.hazmat.primitives.serialization  # noqa: F401 -- as above
import msgspec
from msgspec import Struct

from reactive_desched.app.gc import settle_open_intents
from reactive_desched.app.recording import Books, open_books
from reactive_desched.eviction.executor import Means
from reactive_desched.journal.upkeep.retention_worker import Keeper
from reactive_desched.model.accounts import Account
from reactive_desched.model.decisions import Defer, Evict
from reactive_desched.model.findings import Finding
from reactive_desched.model.intents import Intent
from reactive_desched.model.objects import OwnerReference
from reactive_desched.model.outcomes import BUDGET_REFUSED
from reactive_desched.model.triggers import Trigger
from reactive_desched.policy.recording import Checkpoints, Journal, Kafka, Retention, Sinks
from reactive_desched.policy.settings import ReactiveSettings
from reactive_desched.sinks import sink_runner
from reactive_desched.sinks.kafka import producer
from reactive_desched.telemetry.metrics import Metrics
from reactive_desched.testing.builders import pod
from tests.support.crash_steps import acknowledge, die_at, replace
from tests.support.crash_world import World

__all__ = ["Life"]

WORKERS: Final = 6
OWNERS: Final = 5
LONGEST_PAUSE_S: Final = 0.015
KEEP_EVERY_S: Final = 0.05
TIDY_EVERY_S: Final = 0.03
FLUSHED_WITHIN_S: Final = 20.0


class Life(Struct, frozen=True, kw_only=True):
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


class _Lines:
    """A log on standard error."""

    def __init__(self, life: int) -> None:
        self._life = life

    def info(self, event: str, **values: object) -> None:
        """Write a line."""
        os.write(2, f"life {self._life}: {event} {values}\n".encode())

    warning = debug = info


class _Hold:
    """Why nothing may be evicted now."""

    reason: str | None = "still starting"

    def set(self, reason: str | None) -> None:
        """Hold back for this reason, or no longer."""
        self.reason = reason

    def why_not(self) -> str | None:
        """Say why not, or None."""
        return self.reason


def settings(life: Life) -> ReactiveSettings:
    """Return settings under which everything happens within a fraction of a second."""
    return ReactiveSettings(
        journal=Journal(
            max_segment_bytes=life.segment_bytes,
            retention=Retention(max_bytes=life.max_bytes, hard_max_bytes=life.hard_max_bytes),
            checkpoints=Checkpoints(every_records=7),
        ),
        sinks=Sinks(kafka=Kafka(brokers=life.brokers, topic=life.topic)),
    )


async def live(life: Life) -> None:
    """Do what a controller does, as often as it can."""
    world, log, hold = World(Path(life.world)), _Lines(life.number), _Hold()
    books = open_books(Path(life.journal), settings(life), Metrics(), log, [], dry_run=False)
    async with books as opened, anyio.create_task_group() as group:
        _say(
            life,
            f"repaired {opened.journal.recovery.torn_bytes} {opened.journal.recovery.torn or ''}",
        )
        await settle_open_intents(hold.set, opened.ledger, world, log)
        if life.is_last:
            await _leave_when_told(life, opened)
        opened.ledger.policy_loaded("policy.yaml", f"revision-{life.number}")
        means = Means(opened.ledger, world, anyio.current_time)
        for worker in range(WORKERS):
            group.start_soon(_work, life, worker, opened, means, hold.why_not)
        await anyio.sleep(life.work_s)
        group.cancel_scope.cancel()


async def _work(
    life: Life, worker: int, books: Books, means: Means, why_not: Callable[[], str | None]
) -> None:
    chance = Random(f"{life.number} {worker}")
    for number in range(1_000_000):
        ending = chance.choice(["", "", "", "-guarded", "-unheard", "-gone"])
        account = _account(f"{life.number}-{worker}-{number}{ending}", chance)
        if chance.random() < 0.3:
            waits = Defer(account.finding, "node budget", "1 eviction in 5 minutes is spent", 0.0)
            books.ledger.decided(account, waits)
        for _ in range(2):
            books.ledger.decided(account, Evict(account.finding))
            outcome, _ = await means.carry_out(Intent(account), why_not)
            if outcome.result != BUDGET_REFUSED:
                break
        await anyio.sleep(chance.uniform(0, LONGEST_PAUSE_S))


def _account(uid: str, chance: Random) -> Account:
    owner = OwnerReference("ReplicaSet", "web", f"owner-{chance.randrange(OWNERS)}", True)
    reason = "does not tolerate gpu:NoSchedule on n1"
    finding = Finding(pod(uid, on="n1", uid=uid), "RemovePodsViolatingNodeTaints", reason)
    return Account(finding, "day", Trigger(), (owner,), "north")


async def _leave_when_told(life: Life, books: Books) -> None:
    """Wait until every follower has every record and knows it, and be gone without a farewell."""
    for name, one in books.relays.items():
        if not await one.flushed(FLUSHED_WITHIN_S):
            raise TimeoutError(f"{name} lacks {one.lag_records} records: {one.trouble}")
        while one.kept < one.position:  # noqa: ASYNC110 -- it is a mere attribute
            await anyio.sleep(KEEP_EVERY_S)
    _say(life, f"told {books.journal.tail.last}")
    os._exit(0)


def _say(life: Life, line: str) -> None:
    with Path(life.acknowledged).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def _be_quick() -> None:
    """Have everything that a controller does every few seconds done all the time."""
    replace(sink_runner, "KEEP_EVERY_S", KEEP_EVERY_S)
    run = Keeper.run
    replace(Keeper, "run", lambda keeper: run(keeper, TIDY_EVERY_S))


def _child(life: Life) -> None:
    os.dup2(os.open(life.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640), 2)
    try:
        acknowledge(Path(life.acknowledged))
        if life.step:
            die_at(life.step, life.nth, Path(life.acknowledged))
        anyio.run(live, life)
    except BaseException:  # noqa: BLE001 -- the parent sees the status, the log the reason
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def main() -> None:
    """Live the lives on standard input, one after the other."""
    producer.load()
    _be_quick()
    for line in sys.stdin:
        life = msgspec.json.decode(line, type=Life)
        if not (pid := os.fork()):
            _child(life)
        print(pid, flush=True)  # noqa: T201 -- the test reads it
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201 -- as above


if __name__ == "__main__":
    main()
