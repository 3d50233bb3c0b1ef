"""The findings that wait, those in the queue of a rate limit with the turn of each: for people."""

from collections.abc import Callable, Generator, Mapping, Sequence
from math import inf
from typing import Final

import anyio
import anyio.lowlevel
from msgspec.structs import replace

from reactive_desched.brakes.health import SERVICE_SUFFERS
from reactive_desched.brakes.pending import TOO_MANY_PENDING
from reactive_desched.brakes.storm import FINDING_STORM
from reactive_desched.controller.controller import Controller
from reactive_desched.controller.pending import PODS_PER_SLICE, PendingFinding
from reactive_desched.controller.slices import in_slices
from reactive_desched.gate.named_budgets import NAMED_BUDGET_SPENT
from reactive_desched.gate.rate_limits import RATE_LIMITED
from reactive_desched.gate.turns import Turn, least_end
from reactive_desched.model.decisions import Defer, Refuse
from reactive_desched.model.modes import OBSERVE
from reactive_desched.model.objects import PodKey
from reactive_desched.primitives.long_answers import emptied

QUEUED: Final = frozenset({RATE_LIMITED.gate, NAMED_BUDGET_SPENT.gate})
"""The gates at which a pod has a place in a queue."""

_BRAKES: Final = frozenset({FINDING_STORM.gate, TOO_MANY_PENDING.gate, SERVICE_SUFFERS.gate})
"""The gates whose findings wait for the end of what holds the whole cluster."""

KEPT_S: Final = 1.0
"""So long at most an answer serves further questions, of a large cluster."""

_REST: Final = 20.0
"""An answer is kept for so many times as long as it took."""


def findings_with_turns(
    controller: Controller, now: float
) -> Generator[None, None, list[PendingFinding]]:
    """Return every finding that waits, in steps.

    A turn is foreseen from the rates alone; it is a time at the earliest while something holds all
    evictions, and where the policy or the settings limit evictions in other ways as well. No time
    is before the end of what holds all evictions, where that has one.
    """
    found: list[PendingFinding] = []
    for number, each in enumerate(controller.evaluator.queue.pending()):
        found.append(each)
        if number % PODS_PER_SLICE == 0:
            yield
    turns: dict[bool, Mapping[PodKey, Turn]] = {}
    for controls in controller.controls:
        is_observed = controls is controller.observed
        waiting = controller.evaluator.queue.rate_limited(now, is_observed=is_observed)
        turns[is_observed] = yield from controls.rate_limiter.foresee(waiting, now)
    is_held, is_least, release = _holding(controller)
    for number, each in enumerate(found):
        if (turn := _turn_of(each, turns, controller, now)) is not None:
            at = turn.at if release is None else max(turn.at, release)
            turn = replace(turn, at=at, is_least=is_least)
        until = _next_look(each, release)
        if turn is not None or until is not None:
            waits = not (each.decision.keeps or each.decision.pod_leaves)
            found[number] = replace(each, until=until, turn=turn, is_least=is_held and waits)
        if number % PODS_PER_SLICE == 0:
            yield
    return found


def _turn_of(
    found: PendingFinding,
    foreseen: Mapping[bool, Mapping[PodKey, Turn]],
    controller: Controller,
    now: float,
) -> Turn | None:
    """Return the place of a finding in the queue of a limit as it is now; None for no queue."""
    decision, is_observed = found.decision, found.mode == OBSERVE
    if decision.gate == RATE_LIMITED.gate:
        return foreseen.get(is_observed, {}).get(decision.finding.pod.uid)
    if decision.gate != NAMED_BUDGET_SPENT.gate:
        return None
    observed = controller.observed if is_observed else None
    controls = controller.gates if observed is None else observed
    return controls.named_budgets.turn(decision.finding, found.profile, now)


def _holding(controller: Controller) -> tuple[bool, bool, float | None]:
    """Return whether all evictions are held, whether turns are the earliest, and the release."""
    pauses = controller.pauses
    is_held = bool(pauses.check() or pauses.state().hold)
    is_least = is_held or controller.gates.has_other_limits
    return is_held, is_least, pauses.next_release() if is_held else None


def as_foreseen(decision: Defer | Refuse, controller: Controller) -> Defer | Refuse:
    """Return a limit's answer with a turn that is no sooner than that of pods in its queue.

    A pod that another gate holds is in no queue: the answer has its turn from now on.
    """
    end = decision.end
    if decision.gate not in QUEUED or end is None:
        return decision
    _, is_least, release = _holding(controller)
    if not is_least:
        return decision
    end = least_end(end, release)
    return replace(decision, retry_at_s=end.at_s, end=end)


def _next_look(finding: PendingFinding, release: float | None) -> float | None:
    """Return when a finding is evaluated again, or may pass: not before a brake's `release`."""
    decision, until = finding.decision, finding.until
    if decision.keeps or decision.pod_leaves:
        return until
    if (end := decision.end) is not None and not end.is_said:
        until = end.at_s
    if release is None or (until is None and decision.gate not in _BRAKES):
        return until
    return release if until is None else max(until, release)


class TurnForecast:
    """Foresees turns in slices, in a large cluster once a second at most; `clock` is monotonic."""

    def __init__(self, controller: Controller, clock: Callable[[], float]) -> None:
        self._controller = controller
        self._clock = clock
        self._found: Sequence[PendingFinding] = ()
        self._kept_until = -inf
        self._lock = anyio.Lock()

    async def findings(self) -> Sequence[PendingFinding]:
        """Return every finding that waits."""
        async with self._lock:
            if self._clock() >= self._kept_until:
                now = self._clock()
                former = list(self._found)  # others may still read that list, but not this one
                self._found = await in_slices(findings_with_turns(self._controller, now))
                took_s = self._clock() - now
                self._kept_until = now + min(KEPT_S, _REST * took_s)
                for _ in emptied(former):
                    await anyio.lowlevel.checkpoint()
            return self._found
