"""How fast the journal takes records, and how soon after an event they are safe on the disk."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from time import perf_counter

import anyio

from bench.measure.machine import Stopwatch
from bench.measure.numbers import spread
from bench.record.evictions import RECORDS_EACH, accounts, evict_all
from bench.record.lateness import lateness
from bench.record.task import Found, Quiet, Task, keep_collector_away
from reactive_desched.app.recording import Books, making, open_books, utc_now
from reactive_desched.journal.journal import open_journal
from reactive_desched.journal.recorder import Ledger
from reactive_desched.model.accounts import Account
from reactive_desched.model.decisions import Evict
from reactive_desched.model.intents import Intent
from reactive_desched.model.outcomes import EVICTED, Outcome
from reactive_desched.policy.settings import ReactiveSettings
from reactive_desched.primitives.token_bucket import Rate
from reactive_desched.telemetry.metrics import Metrics

_WARM_UP = 500
_AT_ONCE = ReactiveSettings().evictions.max_in_flight
_VERDICTS = Rate(200.0, 20_000)


class _Commits(Metrics):
    """The controller's metrics, which also keep how long each write took."""

    def __init__(self) -> None:
        super().__init__()
        self.took_ms: list[float] = []

    def journal_written(self, records: int, seconds: float) -> None:
        """Keep how long it took."""
        super().journal_written(records, seconds)
        self.took_ms.append(seconds * 1e3)


async def alone(task: Task) -> Found:
    """Write flat out, nobody following; what is written stays for others to read."""
    commits = _Commits()
    async with open_journal(
        task.folder,
        making(ReactiveSettings()),
        clock=utc_now,
        committed=commits.journal_written,
    ) as journal:
        ledger = Ledger(journal, utc_now, verdicts=_VERDICTS)
        return {"runs": [await _flat_out(ledger, it, commits) for it in _portions(task)]}


async def followed(task: Task) -> Found:
    """Write flat out beside the followers that every controller has: the index, and the keeper."""
    commits = _Commits()
    async with books(task, commits) as kept:
        runs = [await _flat_out(kept.ledger, it, commits) for it in _portions(task)]
    return {"runs": runs}


async def paced(task: Task) -> Found:
    """Tell of evictions at an even pace, as the controller does; time each until it is safe."""
    commits = _Commits()
    async with books(task, commits) as kept:
        await evict_all(kept.ledger, accounts(0, _WARM_UP), _AT_ONCE)
        return {"runs": [await _paced(task, kept.ledger, commits) for _ in range(task.runs)]}


async def _paced(task: Task, ledger: Ledger, commits: _Commits) -> Found:
    before = len(commits.took_ms)
    async with lateness() as late:
        found = await keep_pace(ledger, task.count, task.seconds)
    took_ms = commits.took_ms[before:]
    return found | {"write_ms": spread(took_ms), "loop_late_ms": late.summary()}


async def keep_pace(ledger: Ledger, records_per_s: float, seconds: float) -> Found:
    """Tell of evictions at an even pace; return how long it took until each was on disk.

    Each is timed from when it was due: what is late because the loop or the disk was busy counts.
    """
    count = int(records_per_s * seconds) // RECORDS_EACH
    every_s, waits = RECORDS_EACH / records_per_s, _Waits(ledger)
    told = accounts(_WARM_UP, count)
    keep_collector_away()
    began, watch = perf_counter(), Stopwatch()
    async with anyio.create_task_group() as group:
        for number, account in enumerate(told):
            due = began + number * every_s
            if (wait := due - perf_counter()) > 0:
                await anyio.sleep(wait)
            group.start_soon(waits.evict, account, due)
    return {
        "records_per_s": round(count * RECORDS_EACH / watch.wall_s),
        "cpu_share": round(watch.cpu_s / watch.wall_s, 2),
        "to_durable_ms": spread(waits.took_ms),
    }


class _Waits:
    """Tells of evictions and keeps how long the disk took: for the request, and for its end."""

    def __init__(self, ledger: Ledger) -> None:
        self.took_ms: list[float] = []
        self._ledger = ledger

    async def evict(self, account: Account, due: float) -> None:
        """Tell of one eviction."""
        self._ledger.decided(account, Evict(account.finding))
        intent = await self._ledger.begin(Intent(account))
        answered = perf_counter()
        await self._ledger.end(intent, Outcome(EVICTED))
        self.took_ms += [(answered - due) * 1e3, (perf_counter() - answered) * 1e3]


def _portions(task: Task) -> Iterator[list[Account]]:
    each = task.count // task.runs // RECORDS_EACH
    for run in range(task.runs):
        yield accounts(run * each, each)


async def _flat_out(ledger: Ledger, every: list[Account], commits: _Commits) -> Found:
    keep_collector_away()
    before, watch = len(commits.took_ms), Stopwatch()
    await evict_all(ledger, every, _AT_ONCE)
    records, wall_s, cpu_s = len(every) * RECORDS_EACH, watch.wall_s, watch.cpu_s
    took_ms = commits.took_ms[before:]
    return {
        "records_per_s": round(records / wall_s),
        "cpu_us_per_record": round(cpu_s / records * 1e6, 1),
        "records_per_write": round(records / max(1, len(took_ms)), 1),
        "write_ms": spread(took_ms),
    }


@asynccontextmanager
async def books(task: Task, metrics: Metrics) -> AsyncIterator[Books]:
    """Keep a journal with the followers that every controller has, while the block runs."""
    settings = ReactiveSettings()
    async with open_books(task.folder, settings, metrics, Quiet(), (), dry_run=False) as kept:
        yield kept
