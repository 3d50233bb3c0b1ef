"""How long a change takes to become a decision, and a decision a request on the wire."""

import anyio

from bench.measure.hold import watch_loop_turns
from bench.measure.live import RunningController
from bench.measure.numbers import quantiles

_TIMEOUT_S = 10.0
_STORM = 4000
"""Status updates per second beside the changes that matter: a fifth of what a core can take."""
PODS = "/api/v1/pods"


async def idle(live: RunningController, script: str, pace: float, count: int) -> dict[str, object]:
    """Tell changes at a pace while nothing else happens."""
    expected = await live.director.prepare(script, count)
    live.stamps.reset()
    await live.director.play(pace)
    return await _measure_reactions(live, expected)


async def during_event_storm(live: RunningController, pace: float, count: int) -> dict[str, object]:
    """Tell of tainted nodes at a pace while thousands of pods report their status."""
    await live.director.prepare("status", int(count / pace * _STORM), "storm")
    expected = await live.director.prepare("probe", count)
    live.stamps.reset()
    await live.director.play(_STORM, "storm")
    await live.director.play(pace)
    return await _measure_reactions(live, expected)


async def during_relist(live: RunningController, pace: float, count: int) -> dict[str, object]:
    """Tell of tainted nodes at a pace while all pods are listed anew.

    Nothing may be evicted on a picture that is not whole, so the changes wait for it: the wait
    is told apart from what came after.
    """
    expected = await live.director.prepare("probe", count)
    live.stamps.reset()
    with watch_loop_turns() as loop_turns:
        expired = await live.director.expire_watches(PODS)
        await live.director.play(pace)
        measured = await _measure_reactions(live, expected, timeout_s=60)
    return measured | {"watches_expired": expired, "holds": loop_turns.summary()}


async def _measure_reactions(
    live: RunningController, expected: int, timeout_s: float = _TIMEOUT_S
) -> dict[str, object]:
    told = await live.director.wait_for_evictions(expected, timeout_s)
    stamps, arrived = live.stamps, dict(told.evictions)
    await anyio.sleep(0.2)  # the last outcomes come in
    await live.director.delete_evicted()
    sent = told.sent
    decisions = [(at - sent[pod]) / 1e3 for pod, at in stamps.decided_ns.items() if pod in sent]
    requests = [(at - sent[pod]) / 1e3 for pod, at in arrived.items() if pod in sent]
    return {
        "expected": expected,
        "evicted": len(arrived),
        "twice": len(told.evictions) - len(arrived),
        "lost": sorted(set(sent) - set(arrived))[:3],
        "why_lost": sorted({stamps.refused.get(pod, "") for pod in set(sent) - set(arrived)})[:3],
        "change_to_decision_us": quantiles(decisions),
        "frame_to_decision_us": quantiles(stamps.from_frame_us),
        "change_to_request_us": quantiles(requests),
    }
