"""How long a change takes to become a decision, and a decision a request on the wire.

Each run ends when all its evictions have outcomes, their records are on disk and the controller is
idle, so that no run is measured beside the rest of the one before it. A run that does not end in
time says so in `unsettled`; its figures are not valid.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import anyio

from bench.measure.live import RunningController
from bench.measure.loop import watch_loop_turns
from bench.measure.machine import Stopwatch
from bench.measure.numbers import quantiles
from bench.measure.stamps import frames_stamped
from reactive_desched.journal.event_builder import Case
from reactive_desched.journal.recorder import JournalRecorder
from reactive_desched.model.decisions import Decision
from reactive_desched.model.evaluation import DecisionContext

_TIMEOUT_S = 10.0
_RELIST_TIMEOUT_S = 60.0
_SETTLE_TIMEOUT_S = 30.0
_OUTAGE_TIMEOUT_S = 120.0
_POLL_INTERVAL_S = 0.02
_STORM = 4000
"""Status updates per second beside the changes that matter: a fifth of what a core can take."""
PODS = "/api/v1/pods"

Results = dict[str, object]


async def react(live: RunningController, script: str, pace: float, count: int) -> Results:
    """Send changes at a pace while nothing else happens."""
    with frames_stamped(live.stamps), live.profiled("react"):
        begun = await _begin(live, script, count)
        await live.director.play(pace)
        return await _measure(live, begun)


async def react_unrecorded(
    live: RunningController, script: str, pace: float, count: int
) -> Results:
    """Return reaction times with intents and outcomes alone in the record."""
    with record_evictions_only():
        return await react(live, script, pace, count)


async def during_event_storm(live: RunningController, pace: float, count: int) -> Results:
    """Taint nodes at a pace while thousands of pods report their status."""
    with frames_stamped(live.stamps):
        await live.director.prepare("status", int(count / pace * _STORM), "storm")
        begun = await _begin(live, "probe", count)
        await live.director.play(_STORM, "storm")
        await live.director.play(pace)
        return await _measure(live, begun)


async def during_relist(live: RunningController, pace: float, count: int) -> Results:
    """Taint nodes at a pace while all pods are listed again.

    Nothing is evicted while the list is incomplete, so the changes wait for it.
    """
    with frames_stamped(live.stamps):
        begun = await _begin(live, "probe", count)
        with watch_loop_turns() as loop_turns:
            expired = await live.director.expire_watches(PODS)
            await live.director.play(pace)
            measured = await _measure(live, begun, _RELIST_TIMEOUT_S)
        return measured | {"watches_expired": expired, "holds": loop_turns.summary()}


async def after_outage(live: RunningController, back_ns: int) -> Results:
    """Wait until evaluation has resumed after the server came back; then evict a few pods."""
    with anyio.fail_after(_OUTAGE_TIMEOUT_S):
        while live.stamps.resumed_ns < back_ns:  # noqa: ASYNC110  # polling costs nothing here
            await anyio.sleep(_POLL_INTERVAL_S)
    resumed_s = (live.stamps.resumed_ns - back_ns) / 1e9
    return {"back_to_resumed_s": round(resumed_s, 3)} | await react(live, "bound", 10, 5)


@contextmanager
def record_evictions_only() -> Iterator[None]:
    """Leave findings and decisions out of the record while the block runs."""
    decided, opened = JournalRecorder.record_decision, JournalRecorder._open_case  # noqa: SLF001  # nothing of ours may know this

    def skip_decision(self: JournalRecorder, context: DecisionContext, decision: Decision) -> None:
        """Write nothing."""

    def begun(self: JournalRecorder, context: DecisionContext) -> Case:
        """Open a case and write nothing."""
        return self._cases.open(context, context.finding.pod.uid)

    JournalRecorder.record_decision, JournalRecorder._open_case = skip_decision, begun  # type: ignore[method-assign]  # noqa: SLF001  # as above
    try:
        yield
    finally:
        JournalRecorder.record_decision, JournalRecorder._open_case = decided, opened  # type: ignore[method-assign]  # noqa: SLF001  # as above


class _Begun(NamedTuple):
    expected: int
    unsettled: str


async def _begin(live: RunningController, script: str, count: int) -> _Begun:
    unsettled = await live.settle(_SETTLE_TIMEOUT_S)
    expected = await live.director.prepare(script, count)
    live.stamps.reset()
    return _Begun(expected, unsettled and f"of the run before, {unsettled}")


async def _measure(
    live: RunningController, begun: _Begun, timeout_s: float = _TIMEOUT_S
) -> Results:
    expected, watch = begun.expected, Stopwatch()
    await live.director.wait_for_evictions(expected, timeout_s)
    cpu_us = watch.cpu_s / max(1, expected) * 1e6
    unsettled = begun.unsettled or await live.settle(_SETTLE_TIMEOUT_S)
    server, stamps = await live.director.wait_for_evictions(), live.stamps
    await live.director.delete_evicted()
    sent, arrived = server.sent, dict(server.evictions)
    unsettled = unsettled or await live.settle(_SETTLE_TIMEOUT_S, without=stamps.evicted_uids)
    lost = set(sent) - set(arrived)
    decisions = [(at - sent[pod]) / 1e3 for pod, at in stamps.decided_ns.items() if pod in sent]
    return {
        "expected": expected,
        "evicted": len(arrived),
        "twice": len(server.evictions) - len(arrived),
        "late": server.late,
        "unsettled": unsettled,
        "lost": sorted(lost)[:3],
        "why_lost": sorted({stamps.refused.get(pod, "") for pod in lost})[:3],
        "change_to_decision_us": quantiles(decisions),
        "frame_to_decision_us": quantiles(stamps.from_frame_us),
        "cpu_us_per_change": round(cpu_us, 1),
    } | server.reactions()
