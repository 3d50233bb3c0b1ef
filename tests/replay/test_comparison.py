"""Decisions are compared finding by finding, whenever they were made within the tolerance."""

from msgspec.structs import replace

from reactive_desched.recording.items import Instant
from reactive_desched.replay.comparison import compare
from reactive_desched.replay.recorded_decisions import (
    DEFER,
    EVICT,
    REFUSE,
    DecisionKey,
    MadeDecision,
)

WEB = DecisionKey("u1", "default", "NodeTaints")
EVICTED = MadeDecision(Instant(1100.0, 100.0), WEB, "shop/web", EVICT)
DEFERRED = MadeDecision(
    Instant(1090.0, 90.0), WEB, "shop/web", DEFER, "EvictionRateLimit", "EvictionRateLimited"
)


def moved(decision: MadeDecision, seconds: float) -> MadeDecision:
    at = decision.at
    return replace(decision, at=Instant(at.wall_s + seconds, at.monotonic_s + seconds))


def test_the_same_decisions_are_equal_whatever_the_words_and_in_whichever_order_pods_come() -> None:
    api = replace(EVICTED, key=DecisionKey("u2", "default", "NodeTaints"), pod="shop/api")
    found = compare(
        [DEFERRED, EVICTED, api], [api, replace(DEFERRED, message="2nd"), moved(EVICTED, 4)], 5.0
    )

    assert (found.equal, found.differences) == (3, ())


def test_what_one_of_both_did_not_decide_comes_with_both_stories() -> None:
    found = compare([DEFERRED, EVICTED], [DEFERRED], 5.0)

    (only,) = found.differences
    assert (only.decision, only.is_of_journal) == (EVICTED, True)
    assert only.journal == (DEFERRED, EVICTED)
    assert only.replay == (DEFERRED,)


def test_another_verdict_or_reason_is_a_difference_of_both() -> None:
    for other in (
        replace(DEFERRED, verdict=REFUSE),
        replace(DEFERRED, gate="Schedule"),
        replace(DEFERRED, reason="Other"),
    ):
        found = compare([DEFERRED], [other], 5.0)
        assert [(each.decision, each.is_of_journal) for each in found.differences] == [
            (DEFERRED, True),
            (other, False),
        ]


def test_another_plugin_or_pod_is_a_difference() -> None:
    for key in (
        replace(WEB, plugin="Duplicates"),
        replace(WEB, pod="u9"),
        replace(WEB, profile="b"),
    ):
        assert len(compare([EVICTED], [replace(EVICTED, key=key)], 5.0).differences) == 2


def test_the_same_decision_at_another_time_is_a_difference() -> None:
    assert len(compare([EVICTED], [moved(EVICTED, 6)], 5.0).differences) == 2
    assert len(compare([EVICTED], [moved(EVICTED, -6)], 5.0).differences) == 2


def test_a_decision_counts_once() -> None:
    found = compare([EVICTED], [EVICTED, moved(EVICTED, 1)], 5.0)

    assert (found.equal, len(found.differences)) == (1, 1)


def test_what_the_limit_of_the_journal_may_have_left_out_is_only_counted() -> None:
    found = compare([EVICTED], [DEFERRED, EVICTED], 5.0, lambda each: each.verdict != EVICT)

    assert (found.equal, found.differences, found.not_recorded) == (1, (), 1)


def test_what_differs_at_the_very_end_is_left_out_but_not_before_what_is_equal() -> None:
    api, job = (replace(WEB, pod=each) for each in ("u2", "u3"))
    lost = replace(moved(EVICTED, 2), key=job)
    found = compare([DEFERRED, EVICTED, lost], [DEFERRED, moved(replace(EVICTED, key=api), 1)], 5.0)

    assert [each.decision for each in found.without_last(100.5).differences] == [EVICTED]
    assert [each.decision.key for each in found.without_last(101.5).differences] == [WEB, api]
    assert found.without_last(50.0).differences == ()
    agreed = compare([EVICTED, DEFERRED, lost], [lost], 5.0)
    assert agreed.without_last(50.0).differences == agreed.differences != ()
