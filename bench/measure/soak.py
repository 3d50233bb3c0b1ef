"""What a controller takes that runs for a while: memory, descriptors and tasks under churn.

Pods come where they may not stay and are evicted, others report their status, and now and then the
list of all pods has expired and is read anew. What grows without end shows as a slope; descriptors
are counted at rest, before and after, as connections come and go with the evictions that wait.
"""

import asyncio
import time
from pathlib import Path
from typing import Final

import anyio

from bench.measure.live import RunningController
from bench.measure.machine import Stopwatch, rss_bytes
from bench.measure.reaction import PODS
from bench.measure.slopes import SETTLED_S, slopes

PACE: Final = 22
"""Evictions a second: far above what the default budgets allow a cluster for long."""

STATUS_UPDATES: Final = 200
"""Status updates a second beside them, at least."""

_ROUND_S: Final = 10.0
_EVICTIONS_WITHIN_S: Final = 60.0
"""So long a round waits for its evictions; the end waits for all that are overdue."""

REST_S: Final = 40.0
"""By then connections that nothing uses have ended: they are kept for half a minute."""

Results = dict[str, object]


async def soak(running: RunningController, minutes: float, relists: int = 2) -> Results:
    """Keep the controller busy for so many minutes; return samples, one for each round.

    Every pod has had a status update in a third of the time after which memory should be flat: a
    first one takes memory that a later one uses again. The list of pods expires `relists` times, at
    equal distances.
    """
    rests = [await _descriptors_at_rest()]
    samples, relisted, began = [_sample(0.0)], list[float](), time.monotonic()
    evicted, waited, watch = 0, list[str](), Stopwatch()
    updates = max(STATUS_UPDATES, 3 * len(running.controller.state.pods) / SETTLED_S)
    due = [60 * minutes * (turn + 1) / (relists + 1) for turn in range(relists)]
    while (now := time.monotonic() - began) < 60 * minutes:
        if due and now >= due[0]:
            due.pop(0)
            relisted.append(round(now, 1))
            await running.director.expire_watches(PODS)
        evicted += await _churn(running, round(updates), waited)
        samples.append(_sample(time.monotonic() - began))
    busy_h, lost = (time.monotonic() - began) / 3600, await _await_overdue(running)
    rests.append(await _descriptors_at_rest())
    return {
        "minutes": minutes,
        "updates_per_s": round(updates),
        "evicted": evicted,
        "waited": waited,
        "lost": lost,
        "cpu_share": round(watch.cpu_s / watch.wall_s, 3),
        "relisted_s": relisted,
        "settled": slopes(samples),
        "descriptors_at_rest": rests,
        "descriptors_left_an_hour": round((rests[1] - rests[0]) / busy_h, 1),
        "samples": samples,
        "pods": len(running.controller.state.pods),
    }


async def _churn(running: RunningController, updates: int, waited: list[str]) -> int:
    """Send the events of one round, and delete what was evicted; return how many pods that were.

    What was not evicted in this round is added to `waited`, with the reason.
    """
    director = running.director
    await director.prepare("status", int(updates * _ROUND_S), "status")
    expected = await director.prepare("bound", int(PACE * _ROUND_S))
    await director.play(updates, "status")
    await director.play(PACE)
    stamps = await director.wait_for_evictions(expected, _EVICTIONS_WITHIN_S)
    waited += [
        _why_waits(running, pod)
        for pod in stamps.sent.keys() - {pod for pod, _ in stamps.evictions}
    ]
    running.stamps.reset()
    return await director.delete_evicted()


async def _await_overdue(running: RunningController) -> list[str]:
    """Return the pods whose evictions do not come: a finding that is lost shows here."""
    director, until = running.director, time.monotonic() + _EVICTIONS_WITHIN_S
    await director.prepare("bound", 0)
    overdue = (await director.wait_for_evictions()).overdue
    while overdue and time.monotonic() < until:
        await anyio.sleep(1)
        overdue = (await director.wait_for_evictions()).overdue
    return [_why_waits(running, pod) for pod in overdue]


def _why_waits(running: RunningController, pod: str) -> str:
    stamps, pauses = running.stamps, running.controller.pauses
    decision = "it was decided to evict it" if pod in stamps.decided_ns else "no decision"
    held = pauses.check() or pauses.state().hold or "nothing is paused"
    return f"{pod}: {stamps.refused.get(pod, decision)}; {held}"


def _sample(at_s: float) -> Results:
    return {
        "at_s": round(at_s, 1),
        "rss_mb": round(rss_bytes() / 1e6, 2),
        "descriptors": _descriptors(),
        "tasks": len(asyncio.all_tasks()),
    }


async def _descriptors_at_rest() -> int:
    """Return how many are open when nothing has happened for long: what is left open shows here.

    Under churn as many connections are open as evictions wait for their answer, up to fifty, and
    stay so while requests come, since each takes the connection that was unused longest. One slow
    minute raises them by forty, and a straight line over half an hour by as much as a leak would.
    """
    await anyio.sleep(REST_S)
    return _descriptors()


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
