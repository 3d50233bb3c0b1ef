"""How long a change takes to become a decision, and a decision a request on the wire."""

import anyio

from bench.measure.hold import watching
from bench.measure.live import Live
from bench.measure.numbers import spread

_PATIENCE_S = 10.0
_STORM = 4000
"""Status updates per second beside the changes that matter: a fifth of what a core can take."""
PODS = "/api/v1/pods"


async def idle(live: Live, script: str, pace: float, count: int) -> dict[str, object]:
    """Tell changes at a pace while nothing else happens."""
    expected = await live.director.prepare(script, count)
    live.stamps.forget()
    await live.director.play(pace)
    return await _measured(live, expected)


async def in_a_storm(live: Live, pace: float, count: int) -> dict[str, object]:
    """Tell of tainted nodes at a pace while thousands of pods report their status."""
    await live.director.prepare("status", int(count / pace * _STORM), "storm")
    expected = await live.director.prepare("probe", count)
    live.stamps.forget()
    await live.director.play(_STORM, "storm")
    await live.director.play(pace)
    return await _measured(live, expected)


async def in_a_relist(live: Live, pace: float, count: int) -> dict[str, object]:
    """Tell of tainted nodes at a pace while all pods are listed anew.

    Nothing may be evicted on a picture that is not whole, so the changes wait for it: the wait
    is told apart from what came after.
    """
    expected = await live.director.prepare("probe", count)
    live.stamps.forget()
    with watching() as holds:
        expired = await live.director.expire(PODS)
        await live.director.play(pace)
        measured = await _measured(live, expected, patience_s=60)
    return measured | {"watches_expired": expired, "holds": holds.summary()}


async def _measured(
    live: Live, expected: int, patience_s: float = _PATIENCE_S
) -> dict[str, object]:
    told = await live.director.told(expected, patience_s)
    stamps, arrived = live.stamps, dict(told.evictions)
    await anyio.sleep(0.2)  # the last outcomes come in
    await live.director.bury()
    sent = told.sent
    decisions = [(at - sent[pod]) / 1e3 for pod, at in stamps.decided.items() if pod in sent]
    requests = [(at - sent[pod]) / 1e3 for pod, at in arrived.items() if pod in sent]
    return {
        "expected": expected,
        "evicted": len(arrived),
        "twice": len(told.evictions) - len(arrived),
        "lost": sorted(set(sent) - set(arrived))[:3],
        "why_lost": sorted({stamps.refused.get(pod, "") for pod in set(sent) - set(arrived)})[:3],
        "change_to_decision_us": spread(decisions),
        "frame_to_decision_us": spread(stamps.from_frame_us),
        "change_to_request_us": spread(requests),
    }
