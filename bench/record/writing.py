"""How fast the journal takes records, and how soon after an event they are safe on the disk."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from time import perf_counter

import anyio

from bench.measure.loop import watch_lateness
from bench.measure.machine import Stopwatch
from bench.measure.numbers import quantiles
from bench.record.evictions import RECORDS_EACH, decision_contexts, record_evictions
from bench.record.task import Results, Task, WarningLog, freeze_gc
from reactive_desched.app.recording import Recording, journal_config, open_recording
from reactive_desched.journal.clocks import utc_now
from reactive_desched.journal.journal import Journal, open_journal
from reactive_desched.journal.recorder import JournalRecorder
from reactive_desched.model.decisions import Evict
from reactive_desched.model.evaluation import DecisionContext, Intent
from reactive_desched.model.outcomes import EVICTED, Outcome
from reactive_desched.policy.settings.reactive_settings import ReactiveSettings
from reactive_desched.primitives.token_bucket import TokenRate
from reactive_desched.telemetry.metrics import Histogram
from reactive_desched.telemetry.registry import MetricsRegistry

_WARM_UP = 500
_AT_ONCE = ReactiveSettings().evictions.max_in_flight
_DECISIONS = TokenRate(200.0, 20_000)


class _WriteTimes(Histogram):
    """The journal's histogram of writes, which also keeps each of them."""

    def __init__(self, journal: Journal) -> None:
        """Measure this journal from now on."""
        super().__init__()
        self.took_ms: list[float] = []
        journal.write_times = self

    def observe(self, seconds: float) -> None:
        """Keep how long a write took."""
        super().observe(seconds)
        self.took_ms.append(seconds * 1e3)


async def write_speed_alone(task: Task) -> Results:
    """Write flat out without followers; the journal stays for the programmes that read it."""
    config = journal_config(ReactiveSettings())
    async with open_journal(task.folder, config, clock=utc_now) as journal:
        writes = _WriteTimes(journal)
        recorder = JournalRecorder(journal, utc_now, decision_rate=_DECISIONS)
        return {"runs": [await _flat_out(recorder, it, writes) for it in _portions(task)]}


async def write_speed_followed(task: Task) -> Results:
    """Write flat out beside the followers that every controller has: the index, and the keeper."""
    async with open_bench_recording(task) as kept:
        writes = _WriteTimes(kept.journal)
        runs = [await _flat_out(kept.recorder, it, writes) for it in _portions(task)]
    return {"runs": runs}


async def paced_write_latency(task: Task) -> Results:
    """Record evictions at an even pace, as the controller does; time each until it is durable."""
    async with open_bench_recording(task) as kept:
        writes = _WriteTimes(kept.journal)
        await record_evictions(kept.recorder, decision_contexts(0, _WARM_UP), _AT_ONCE)
        return {"runs": [await _paced(task, kept.recorder, writes) for _ in range(task.runs)]}


async def _paced(task: Task, recorder: JournalRecorder, writes: _WriteTimes) -> Results:
    before = len(writes.took_ms)
    async with watch_lateness() as late:
        results = await write_at_pace(recorder, task.count, task.seconds)
    took_ms = writes.took_ms[before:]
    return results | {"write_ms": quantiles(took_ms), "loop_late_ms": late.summary()}


async def write_at_pace(recorder: JournalRecorder, records_per_s: float, seconds: float) -> Results:
    """Record evictions at an even pace; return how long it took until each was on disk.

    Each is timed from when it was due: what is late because the loop or the disk was busy counts.
    """
    count = int(records_per_s * seconds) // RECORDS_EACH
    every_s, waits = RECORDS_EACH / records_per_s, _EvictionTimer(recorder)
    contexts = decision_contexts(_WARM_UP, count)
    freeze_gc()
    began, watch = perf_counter(), Stopwatch()
    async with anyio.create_task_group() as group:
        for number, account in enumerate(contexts):
            due = began + number * every_s
            if (wait := due - perf_counter()) > 0:
                await anyio.sleep(wait)
            group.start_soon(waits.evict, account, due)
    return {
        "records_per_s": round(count * RECORDS_EACH / watch.wall_s),
        "cpu_share": round(watch.cpu_s / watch.wall_s, 2),
        "to_durable_ms": quantiles(waits.took_ms),
    }


class _EvictionTimer:
    """Records evictions and keeps how long the disk took: for the intent, and for the outcome."""

    def __init__(self, recorder: JournalRecorder) -> None:
        self.took_ms: list[float] = []
        self._recorder = recorder

    async def evict(self, context: DecisionContext, due: float) -> None:
        """Record one eviction."""
        self._recorder.record_decision(context, Evict(context.finding))
        intent = await self._recorder.record_intent(Intent(context))
        answered = perf_counter()
        await self._recorder.record_outcome(intent, Outcome(EVICTED))
        self.took_ms += [(answered - due) * 1e3, (perf_counter() - answered) * 1e3]


def _portions(task: Task) -> Iterator[list[DecisionContext]]:
    each = task.count // task.runs // RECORDS_EACH
    for run in range(task.runs):
        yield decision_contexts(run * each, each)


async def _flat_out(
    recorder: JournalRecorder, contexts: list[DecisionContext], writes: _WriteTimes
) -> Results:
    freeze_gc()
    before, watch = len(writes.took_ms), Stopwatch()
    await record_evictions(recorder, contexts, _AT_ONCE)
    records, wall_s, cpu_s = len(contexts) * RECORDS_EACH, watch.wall_s, watch.cpu_s
    took_ms = writes.took_ms[before:]
    return {
        "records_per_s": round(records / wall_s),
        "cpu_us_per_record": round(cpu_s / records * 1e6, 1),
        "records_per_write": round(records / max(1, len(took_ms)), 1),
        "write_ms": quantiles(took_ms),
    }


@asynccontextmanager
async def open_bench_recording(task: Task) -> AsyncIterator[Recording]:
    """Keep a journal with the followers that every controller has, while the block runs."""
    settings = ReactiveSettings()
    async with open_recording(
        task.folder, settings, MetricsRegistry(), WarningLog(), (), dry_run=False
    ) as recording:
        yield recording
