from collections.abc import Callable
from typing import Any

from reactive_desched.model.changes import (
    NodeTaintsChanged,
    PdbChanged,
    PodBound,
    PodMetadataChanged,
)
from reactive_desched.model.decisions import Defer, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.outcomes import (
    CANCELLED,
    DENIED,
    EVICTED,
    NOT_FOUND,
    PDB_REFUSED,
    TOO_MANY_REQUESTS,
    Outcome,
)
from reactive_desched.model.subjects import PodSubject
from reactive_desched.model.wakes import WakeOnEviction, WakeOnPdb, WakeOnPod
from reactive_desched.state.indexes.owners import OwnerSizeChanged, WakeOnOwner
from reactive_desched.testing.builders import pod

MakeBench = Callable[..., Any]  # the class Bench of conftest.py
A = pod("a", on="n1")
TAINTED = NodeTaintsChanged("n1")


def test_a_pod_that_left_waits_for_nothing(make_bench: MakeBench) -> None:
    for result in (EVICTED, NOT_FOUND):
        bench = make_bench().start("a")
        bench.see(TAINTED, now=1)
        bench.end(result, 2)

        assert bench.evaluator.queue.blocked_by_gate == {}
        assert bench.evaluator.next_due(2) is None


def test_an_eviction_that_failed_is_tried_again_ever_less_often(make_bench: MakeBench) -> None:
    bench = make_bench().start("a")
    bench.see(TAINTED, now=0)
    now, waits = 0.0, []
    for _ in range(8):
        bench.end(DENIED, now)
        assert bench.evaluator.queue.blocked_by_gate == {"EvictionBackoff": 1}
        due = bench.evaluator.next_due(now)
        assert due is not None
        waits.append(due - now)
        now = due
        bench.work(now)

    assert waits == [5, 10, 20, 40, 80, 160, 300, 300]
    assert bench.evicted == ["a"] * 9


def test_an_eviction_that_happened_in_the_end_starts_over_from_the_first_wait(
    make_bench: MakeBench,
) -> None:
    bench = make_bench().start("a")
    bench.see(TAINTED, now=0)
    bench.end(DENIED, 0)
    bench.work(5)
    bench.end(EVICTED, 5)
    bench.see(TAINTED, now=6)
    bench.end(DENIED, 6)

    assert bench.evaluator.next_due(6) == 11


def test_a_server_that_asks_for_time_is_given_it_whatever_happens_meanwhile(
    make_bench: MakeBench,
) -> None:
    bench = make_bench().start("a")
    bench.see(TAINTED, now=0)
    bench.end(TOO_MANY_REQUESTS, 0, retry_after_s=40)
    for now in range(1, 40):
        bench.see(TAINTED, PodBound(A), PodMetadataChanged(A), now=now)
        bench.see(PdbChanged("default", "web"), now=now)

    assert bench.evicted == ["a"]
    assert bench.evaluator.queue.blocked_by_gate == {"EvictionBackoff": 1}
    bench.work(40)
    assert bench.evicted == ["a", "a"]


def test_while_it_rests_a_pod_shows_why(make_bench: MakeBench) -> None:
    bench = make_bench().start("a")
    bench.see(TAINTED, now=0)
    bench.end(DENIED, 0)
    bench.see(TAINTED, now=1)

    [_, judgement] = bench.evaluations
    assert isinstance(judgement.decision, Defer)
    decision = judgement.decision
    assert (decision.gate, decision.reason) == ("EvictionBackoff", "BackingOff")
    assert (decision.retry_at_s, DENIED in decision.message) == (5, True)
    assert not judgement.changed


def test_a_failure_without_words_is_reported_by_its_result(make_bench: MakeBench) -> None:
    bench = make_bench().start("a")
    bench.see(TAINTED, now=0)
    bench.evaluator.settle(bench.evaluations[0], Outcome(CANCELLED), 0)

    waiting = bench.evaluator.queue._blocked.decision_of((bench.instance, PodSubject("a"), "a"))
    assert waiting is not None
    assert waiting.reason == "BackingOff"
    assert CANCELLED in waiting.message


def test_a_budgets_refusal_waits_for_the_budget_with_a_timer_behind_it(
    make_bench: MakeBench,
) -> None:
    bench = make_bench().start("a")
    bench.see(TAINTED, now=0)
    bench.end(PDB_REFUSED, 0)
    assert bench.evaluator.queue._blocked.decision_of(
        (bench.instance, PodSubject("a"), "a")
    ) == Refuse(
        Finding(A, "Wrong", "wrong"),
        "DisruptionBudget",
        "DisruptionBudget",
        "because",
        (WakeOnPdb("default"), WakeOnPod("a")),
        5,
    )

    bench.see(TAINTED, PodMetadataChanged(A), PdbChanged("bank", "web"), now=1)
    assert bench.evicted == ["a"]
    bench.see(PdbChanged("default", "web"), now=2)
    assert bench.evicted == ["a", "a"]
    bench.end(PDB_REFUSED, 2)
    assert bench.evaluator.next_due(2) == 12


def test_what_waited_for_the_end_of_an_eviction_is_evaluated_again_when_it_failed(
    make_bench: MakeBench,
) -> None:
    bench = make_bench(plugins=2).start("a")
    bench.gates[1].refuse("a", WakeOnPod("a"), WakeOnEviction("a"))
    bench.see(TAINTED, now=0)
    bench.plugin.wrong.clear()
    bench.gates[1].verdicts.clear()
    bench.end(DENIED, 1)
    bench.work(1)
    assert bench.evaluator.queue.blocked_by_gate == {"EvictionBackoff": 2}

    bench.work(6)
    assert bench.evicted == ["a", "a"]
    assert bench.evaluations[-1].profile == "profile 1"
    assert bench.evaluator.queue.blocked_by_gate == {}


def test_what_waited_for_the_end_of_an_eviction_is_not_evaluated_when_the_pod_leaves(
    make_bench: MakeBench,
) -> None:
    bench = make_bench(plugins=2).start("a")
    bench.gates[1].refuse("a", WakeOnPod("a"), WakeOnEviction("a"))
    bench.see(TAINTED, now=0)
    bench.end(EVICTED, 1)

    assert len(bench.evaluator.queue) == 0
    assert bench.evaluator.next_due(1) is None


def test_a_pod_rests_for_every_plugin_that_flags_it(make_bench: MakeBench) -> None:
    bench = make_bench(plugins=2).start("a")
    bench.gates[1].refuse("a", WakeOnOwner("rs"))
    bench.see(TAINTED, now=0)
    bench.end(TOO_MANY_REQUESTS, 0)
    bench.gates[1].verdicts.clear()
    bench.see(OwnerSizeChanged("rs"), now=1)

    assert bench.evicted == ["a"]
    bench.work(5)
    assert bench.evicted == ["a", "a", "a"]
