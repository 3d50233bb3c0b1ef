"""Findings that a gate refuses or defers: what they wait for, and what is told of them."""

from collections.abc import Callable
from typing import Any

from reactive_desched.model.changes import (
    NodeAdded,
    NodeTaintsChanged,
    PodMetadataChanged,
)
from reactive_desched.model.decisions import Refuse
from reactive_desched.model.subjects import PodSubject
from reactive_desched.state.indexes.owners import OwnerSizeChanged, WakeOnOwner
from reactive_desched.testing.builders import pod

MakeBench = Callable[..., Any]  # the class Bench of conftest.py
A, B = pod("a", on="n1"), pod("b", on="n1")
TAINTED = NodeTaintsChanged("n1")


def test_a_refused_finding_waits_for_what_its_gate_named_and_for_nothing_else(
    make_bench: MakeBench,
) -> None:
    bench = make_bench().start("a")
    bench.gate.refuse("a", WakeOnOwner("rs"))
    bench.see(TAINTED, now=1)
    assert bench.evaluator.queue.blocked_by_gate == {"Gate": 1}
    bench.looked()

    bench.see(OwnerSizeChanged("other"), NodeAdded("n9"), PodMetadataChanged(A), now=2)
    assert bench.looked() == []
    bench.see(OwnerSizeChanged("rs"), now=3)
    assert bench.looked() == [PodSubject("a")]


def test_a_woken_finding_is_judged_afresh(make_bench: MakeBench) -> None:
    bench = make_bench().start("a")
    bench.gate.refuse("a", WakeOnOwner("rs"))
    bench.see(TAINTED, now=1)
    bench.plugin.wrong.clear()
    bench.gate.verdicts.clear()
    bench.see(OwnerSizeChanged("rs"), now=2)

    assert bench.evicted == []
    assert bench.evaluator.queue.blocked_by_gate == {}


def test_a_deferred_finding_is_judged_afresh_at_its_time(make_bench: MakeBench) -> None:
    bench = make_bench().start("a", "b")
    bench.gate.defer("a", 9)
    bench.gate.defer("b", 9)
    bench.see(TAINTED, now=1)
    bench.gate.verdicts.clear()
    bench.plugin.wrong.remove("b")

    assert bench.evaluator.next_due(1) == 9
    bench.work(8.9)
    assert bench.evicted == []
    bench.work(9)
    assert bench.evicted == ["a"]
    assert bench.evaluator.queue.blocked_by_gate == {}
    assert bench.evaluator.next_due(9) is None


def test_a_finding_that_a_timer_wakes_keeps_its_first_trigger(make_bench: MakeBench) -> None:
    bench = make_bench().start("a")
    bench.gate.defer("a", 9)
    bench.see(TAINTED, now=1)
    bench.gate.verdicts.clear()
    bench.work(9)

    assert [(j.trigger.change, j.trigger.seen_at, j.decided_at) for j in bench.evaluations] == [
        (TAINTED, 1, 1),
        (TAINTED, 1, 9),
    ]


def test_looking_at_a_node_answers_for_all_that_was_blocked_on_it(make_bench: MakeBench) -> None:
    bench = make_bench().start("a", "b")
    bench.gate.defer("a", 9)
    bench.gate.refuse("b", WakeOnOwner("rs"))
    bench.see(TAINTED, now=1)
    assert bench.evaluator.queue.blocked_by_gate == {"Pace": 1, "Gate": 1}
    bench.plugin.wrong.clear()
    bench.see(TAINTED, now=2)

    assert bench.evaluator.queue.blocked_by_gate == {}
    assert bench.evaluator.next_due(2) is None


def test_it_answers_for_those_too_that_were_evaluated_alone_since(make_bench: MakeBench) -> None:
    bench = make_bench().start("a")
    bench.gate.refuse("a", WakeOnOwner("rs"))
    bench.see(TAINTED, now=1)
    bench.see(OwnerSizeChanged("rs"), now=2)
    assert bench.evaluator.queue.blocked_by_gate == {"Gate": 1}
    bench.plugin.wrong.clear()
    bench.see(TAINTED, now=3)

    assert bench.evaluator.queue.blocked_by_gate == {}


def test_looking_at_one_pod_leaves_the_others_of_its_node_as_they_were(
    make_bench: MakeBench,
) -> None:
    bench = make_bench().start("a", "b")
    for name in "ab":
        bench.gate.refuse(name, WakeOnOwner(name))
    bench.see(TAINTED, now=1)
    bench.plugin.wrong.clear()
    bench.see(OwnerSizeChanged("a"), now=2)

    assert (
        bench.evaluator.queue._blocked.decision_of((bench.instance, PodSubject("a"), "a")) is None
    )
    assert (
        bench.evaluator.queue._blocked.decision_of((bench.instance, PodSubject("b"), "b"))
        is not None
    )


def test_a_new_verdict_replaces_the_timer_of_the_old_one(make_bench: MakeBench) -> None:
    bench = make_bench().start("a")
    bench.gate.defer("a", 9)
    bench.see(TAINTED, now=1)
    bench.gate.refuse("a", WakeOnOwner("rs"))
    bench.see(TAINTED, now=2)

    assert bench.evaluator.next_due(2) is None


def test_a_refusal_that_time_can_lift_too_is_evaluated_again_then(make_bench: MakeBench) -> None:
    bench = make_bench().start("a")
    bench.gate.refuse("a", WakeOnOwner("rs"), until=20.0)
    bench.see(TAINTED, now=1)

    assert bench.evaluator.next_due(1) == 20
    bench.looked()
    bench.gate.verdicts.clear()
    bench.work(20)
    assert bench.looked() == [PodSubject("a")]
    assert bench.evicted == ["a"]


def test_the_same_verdict_again_is_no_change(make_bench: MakeBench) -> None:
    bench = make_bench().start("a")
    bench.gate.refuse("a", WakeOnOwner("rs"))
    for now in (1, 2):
        bench.see(TAINTED, now=now)
    bench.see(OwnerSizeChanged("rs"), now=3)
    bench.see(TAINTED, now=4)
    bench.gate.refuse("a", WakeOnOwner("rs"), reason="still no")
    bench.see(TAINTED, now=5)
    bench.gate.verdicts.clear()
    for now in (6, 7):
        bench.see(TAINTED, now=now)

    assert [j.changed for j in bench.evaluations] == [True, False, False, False, True, True, True]


def test_another_gate_with_the_same_words_is_a_change(make_bench: MakeBench) -> None:
    bench = make_bench().start("a")
    bench.gate.refuse("a", reason="No")
    bench.see(TAINTED, now=1)
    bench.gate.verdicts["a"] = lambda finding, _: Refuse(finding, "Other", "No", "no")
    bench.see(TAINTED, now=2)

    assert [j.changed for j in bench.evaluations] == [True, True]


def test_a_blocked_finding_is_counted_once_per_gate_however_often_it_is_evaluated(
    make_bench: MakeBench,
) -> None:
    bench = make_bench(plugins=2).start("a", "b")
    bench.gates[0].refuse("a")
    bench.gates[0].defer("b", 99)
    bench.gates[1].refuse("a")
    bench.gates[1].refuse("b")
    for now in (1, 2):
        bench.see(TAINTED, now=now)

    assert bench.evaluator.queue.blocked_by_gate == {"Gate": 3, "Pace": 1}
