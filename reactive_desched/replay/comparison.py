"""Compares the decisions of a replay with those of the journal, finding by finding."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from math import inf
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.gate.in_flight import EVICTION_IN_PROGRESS
from reactive_desched.replay.recorded_decisions import DEFER, REFUSE, DecisionKey, MadeDecision

PASSING_S: Final = 0.1
"""A verdict that another one replaces so soon may be missing: the event loop has its slices."""


class Difference(Struct, frozen=True, gc=False):
    """A decision of one of both that the other did not make; the stories are what each decided.

    `is_of_journal` says whose it is.
    """

    decision: MadeDecision
    is_of_journal: bool
    journal: tuple[MadeDecision, ...]
    replay: tuple[MadeDecision, ...]


class Comparison(Struct, frozen=True):
    """The result: decisions that are equal, those that differ, and those that were not recorded.

    `equal_until_s` is when the last equal one was made, in monotonic seconds.
    """

    equal: int
    differences: tuple[Difference, ...]
    not_recorded: int = 0
    equal_until_s: float = -inf

    def without_last(self, from_s: float) -> "Comparison":
        """Return it without what differs from this time on and behind all that is equal."""
        ends_s = max(from_s, self.equal_until_s)
        kept = (each for each in self.differences if each.decision.monotonic_s <= ends_s)
        return replace(self, differences=tuple(kept))

    def without(self, is_lost: Callable[[Difference], bool]) -> "Comparison":
        """Return it without the differences of which this is said."""
        kept = (each for each in self.differences if not is_lost(each))
        return replace(self, differences=tuple(kept))


def compare(
    journal: Iterable[MadeDecision],
    replay: Iterable[MadeDecision],
    tolerance_s: float,
    is_unrecorded: Callable[[MadeDecision], bool] = lambda _: False,
    period: tuple[float, float] = (-inf, inf),
) -> Comparison:
    """Compare decisions: the same pod, plugin, verdict and reason at a time within the tolerance.

    `is_unrecorded` says of a decision that the journal lacks whether its limit may have left it
    out: it then counts as neither. Decisions about the ends of the `period`, which is in monotonic
    seconds, may be paired with those just outside of it; what is outside is not counted.
    """
    by_journal, by_replay = _by_key(filter(_counts, journal)), _by_key(filter(_counts, replay))
    begins_s, ends_s = period
    equal, not_recorded, equal_until_s = 0, 0, -inf
    differences: list[Difference] = []
    for key in {**by_journal, **by_replay}:
        left, right = by_journal.get(key, []), by_replay.get(key, [])
        pairs = list(_pairs(left, right, tolerance_s))
        times = [each.monotonic_s for each, _ in pairs if begins_s <= each.monotonic_s <= ends_s]
        equal += len(times)
        equal_until_s = max((equal_until_s, *times[-1:]))
        paired_left, paired_right = {id(a) for a, _ in pairs}, {id(b) for _, b in pairs}
        alone = [(each, True) for each in _lasting(left) if id(each) not in paired_left]
        for each in _lasting(right):
            if id(each) not in paired_right and is_unrecorded(each):
                not_recorded += 1
            elif id(each) not in paired_right:
                alone.append((each, False))
        differences += (
            _difference(each, left, right, tolerance_s, of_journal=of_journal)
            for each, of_journal in alone
            if begins_s <= each.monotonic_s <= ends_s
        )
    differences.sort(key=lambda each: each.decision.monotonic_s)
    return Comparison(equal, tuple(differences), not_recorded, equal_until_s)


def _counts(decision: MadeDecision) -> bool:
    """Say whether a decision is compared: not where the pod's own eviction has not ended yet.

    That it is evaluated in the very turn of the event loop in which its eviction ends, or in the
    next, is no opinion on the pod.
    """
    return decision.reason != EVICTION_IN_PROGRESS.code


def _by_key(decisions: Iterable[MadeDecision]) -> dict[DecisionKey, list[MadeDecision]]:
    found: defaultdict[DecisionKey, list[MadeDecision]] = defaultdict(list)
    for each in decisions:
        found[each.key].append(each)
    return found


def _pairs(
    left: Sequence[MadeDecision], right: Sequence[MadeDecision], tolerance_s: float
) -> Iterator[tuple[MadeDecision, MadeDecision]]:
    """Yield, in their order, the decisions that are the same at times within the tolerance."""
    begins = 0
    for each in left:
        for at in range(begins, len(right)):
            if right[at].monotonic_s > each.monotonic_s + tolerance_s:
                break
            if each.is_same(right[at]) and right[at].monotonic_s >= each.monotonic_s - tolerance_s:
                yield each, right[at]
                begins = at + 1
                break


def _lasting(decisions: Sequence[MadeDecision]) -> Iterator[MadeDecision]:
    """Yield all but the verdicts that another one replaced at once: a later turn sees that alone.

    An eviction, and that it must not be sent, are never left out.
    """
    for each, following in zip_longest(decisions, decisions[1:]):
        is_verdict = each.verdict in (DEFER, REFUSE)
        is_passing = following is not None and following.monotonic_s - each.monotonic_s <= PASSING_S
        if not (is_verdict and is_passing):
            yield each


def _difference(
    decision: MadeDecision,
    journal: Sequence[MadeDecision],
    replay: Sequence[MadeDecision],
    tolerance_s: float,
    *,
    of_journal: bool,
) -> Difference:
    return Difference(
        decision,
        of_journal,
        tuple(_around(journal, decision.monotonic_s, tolerance_s)),
        tuple(_around(replay, decision.monotonic_s, tolerance_s)),
    )


def _around(
    decisions: Sequence[MadeDecision], time_s: float, tolerance_s: float
) -> Iterator[MadeDecision]:
    """Yield the last decision before a time, and those about it."""
    before = [each for each in decisions if each.monotonic_s < time_s - tolerance_s]
    yield from before[-1:]
    yield from (each for each in decisions if abs(each.monotonic_s - time_s) <= tolerance_s)
