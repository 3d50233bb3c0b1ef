from collections.abc import Callable
from typing import Any

from reactive_desched.model.changes import (
    NamespaceChanged,
    NodeAdded,
    NodeGone,
    NodeTaintsChanged,
    OwnerSizeChanged,
    PodBound,
    PodMarksChanged,
    PodStatusChanged,
)
from reactive_desched.model.decisions import Defer, Evict, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.outcomes import DENIED, Outcome
from reactive_desched.model.subjects import OnePod, OnNode
from reactive_desched.react.debounce import Pause
from reactive_desched.react.instances import Instance
from reactive_desched.testing.builders import pod

MakeBench = Callable[..., Any]  # the class Bench of conftest.py
A, B = pod("a", on="n1"), pod("b", on="n1")
TAINTED = NodeTaintsChanged("n1")


def test_what_comes_before_the_first_picture_is_whole_is_no_news(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.plugin.wrong = {"a"}
    bench.see(TAINTED, now=0)

    assert bench.looked() == []
    assert bench.engine.dirty == 0
    assert bench.engine.next_due(0) is None
    assert bench.grown == 0


def test_the_first_whole_picture_is_looked_at_node_by_node(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.plugin.wrong = {"a"}
    bench.engine.resync(7)
    bench.work(7)

    assert bench.looked() == [OnNode("n1"), OnNode("n2")]
    [judgement] = bench.judgements
    assert judgement.decision == Evict(Finding(A, "Wrong", "wrong"))
    assert (str(judgement.cause), judgement.at) == ("Resynced", 7)
    assert bench.engine.next_due(7) is None
    assert bench.engine.looks == 2


def test_of_findings_made_together_those_of_lower_rank_go_first(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.plugin.wrong, bench.plugin.ranks = {"a", "b"}, {"a": 2, "b": 1}
    bench.engine.resync(0)
    bench.work(0)

    assert [judgement.finding.pod.name for judgement in bench.judgements] == ["b", "a"]


def test_the_first_whole_picture_is_looked_at_by_every_plugin(make_bench: MakeBench) -> None:
    bench = make_bench(plugins=3)
    bench.engine.resync(7)
    bench.work(7)

    assert [plugin.judged for plugin in bench.plugins] == [[OnNode("n1"), OnNode("n2")]] * 3


def test_a_sweep_is_due_at_once_until_it_is_over(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.engine.resync(7)

    assert bench.engine.next_due(9) == 9
    bench.engine.work(9, lambda: True)
    assert bench.looked() == [OnNode("n1")]
    assert bench.engine.next_due(9) == 9
    bench.engine.work(9, lambda: False)
    assert bench.looked() == [OnNode("n2")]
    assert bench.engine.next_due(9) is None


def test_a_change_makes_only_those_look_who_react_to_it(make_bench: MakeBench) -> None:
    bench = make_bench().start()
    bench.see(PodMarksChanged(A), NodeAdded("n9"), now=1)
    assert bench.looked() == []

    bench.see(PodBound(A), TAINTED, now=1)
    assert bench.looked() == [OnePod("a"), OnNode("n1")]


def test_a_burst_is_looked_at_once_with_the_first_change_as_its_cause(
    make_bench: MakeBench,
) -> None:
    bench = make_bench(pause=Pause(2, 10)).start("a")
    bench.see(TAINTED, now=1)
    bench.see(PodBound(A), TAINTED, now=2)

    assert bench.engine.dirty == 2
    assert bench.engine.next_due(2) == 4
    bench.work(3.9)
    assert bench.looked() == []
    bench.work(4)
    assert bench.looked() == [OnePod("a"), OnNode("n1")]
    assert [(j.cause.change, j.cause.at, j.at) for j in bench.judgements] == [
        (PodBound(A), 2, 4),
        (TAINTED, 1, 4),
    ]


def test_work_stops_when_whoever_drives_it_has_had_enough(make_bench: MakeBench) -> None:
    bench = make_bench().start()
    bench.engine.observe([PodBound(A), PodBound(B)], 1)
    bench.engine.work(1, lambda: True)

    assert bench.looked() == [OnePod("a")]
    assert bench.engine.next_due(1) == 1


def test_a_refused_finding_waits_for_what_its_gate_named_and_for_nothing_else(
    make_bench: MakeBench,
) -> None:
    bench = make_bench().start("a")
    bench.gate.refuse("a", ("owner", "rs"))
    bench.see(TAINTED, now=1)
    assert bench.engine.parked == {"Gate": 1}
    bench.looked()

    bench.see(OwnerSizeChanged("other"), NodeAdded("n9"), PodMarksChanged(A), now=2)
    assert bench.looked() == []
    bench.see(OwnerSizeChanged("rs"), now=3)
    assert bench.looked() == [OnePod("a")]


def test_a_woken_finding_is_judged_afresh(make_bench: MakeBench) -> None:
    bench = make_bench().start("a")
    bench.gate.refuse("a", ("owner", "rs"))
    bench.see(TAINTED, now=1)
    bench.plugin.wrong.clear()
    bench.gate.verdicts.clear()
    bench.see(OwnerSizeChanged("rs"), now=2)

    assert bench.evicted == []
    assert bench.engine.parked == {}


def test_a_deferred_finding_is_judged_afresh_at_its_time(make_bench: MakeBench) -> None:
    bench = make_bench().start("a", "b")
    bench.gate.defer("a", 9)
    bench.gate.defer("b", 9)
    bench.see(TAINTED, now=1)
    bench.gate.verdicts.clear()
    bench.plugin.wrong.remove("b")

    assert bench.engine.next_due(1) == 9
    bench.work(8.9)
    assert bench.evicted == []
    bench.work(9)
    assert bench.evicted == ["a"]
    assert bench.engine.parked == {}
    assert bench.engine.next_due(9) is None


def test_whoever_comes_back_by_time_alone_keeps_its_first_cause(make_bench: MakeBench) -> None:
    bench = make_bench().start("a")
    bench.gate.defer("a", 9)
    bench.see(TAINTED, now=1)
    bench.gate.verdicts.clear()
    bench.work(9)

    assert [(j.cause.change, j.cause.at, j.at) for j in bench.judgements] == [
        (TAINTED, 1, 1),
        (TAINTED, 1, 9),
    ]


def test_looking_at_a_node_answers_for_all_that_was_blocked_on_it(make_bench: MakeBench) -> None:
    bench = make_bench().start("a", "b")
    bench.gate.defer("a", 9)
    bench.gate.refuse("b", ("owner", "rs"))
    bench.see(TAINTED, now=1)
    assert bench.engine.parked == {"Pace": 1, "Gate": 1}
    bench.plugin.wrong.clear()
    bench.see(TAINTED, now=2)

    assert bench.engine.parked == {}
    assert bench.engine.next_due(2) is None


def test_it_answers_for_those_too_that_were_looked_at_alone_since(make_bench: MakeBench) -> None:
    bench = make_bench().start("a")
    bench.gate.refuse("a", ("owner", "rs"))
    bench.see(TAINTED, now=1)
    bench.see(OwnerSizeChanged("rs"), now=2)
    assert bench.engine.parked == {"Gate": 1}
    bench.plugin.wrong.clear()
    bench.see(TAINTED, now=3)

    assert bench.engine.parked == {}


def test_looking_at_one_pod_leaves_the_others_of_its_node_as_they_were(
    make_bench: MakeBench,
) -> None:
    bench = make_bench().start("a", "b")
    for name in "ab":
        bench.gate.refuse(name, ("owner", name))
    bench.see(TAINTED, now=1)
    bench.plugin.wrong.clear()
    bench.see(OwnerSizeChanged("a"), now=2)

    assert bench.engine.waiting_with((bench.instance, OnePod("a"))) is None
    assert bench.engine.waiting_with((bench.instance, OnePod("b"))) is not None


def test_a_new_verdict_replaces_the_timer_of_the_old_one(make_bench: MakeBench) -> None:
    bench = make_bench().start("a")
    bench.gate.defer("a", 9)
    bench.see(TAINTED, now=1)
    bench.gate.refuse("a", ("owner", "rs"))
    bench.see(TAINTED, now=2)

    assert bench.engine.next_due(2) is None


def test_a_refusal_that_time_can_lift_too_is_looked_at_again_then(make_bench: MakeBench) -> None:
    bench = make_bench().start("a")
    bench.gate.refuse("a", ("owner", "rs"), until=20.0)
    bench.see(TAINTED, now=1)

    assert bench.engine.next_due(1) == 20
    bench.looked()
    bench.gate.verdicts.clear()
    bench.work(20)
    assert bench.looked() == [OnePod("a")]
    assert bench.evicted == ["a"]


def test_a_plugin_that_asks_is_made_to_look_again(make_bench: MakeBench) -> None:
    bench = make_bench().start()
    bench.plugin.again[OnNode("n1")] = 60
    bench.see(TAINTED, now=1)
    bench.looked()

    assert bench.engine.next_due(1) == 61
    bench.plugin.wrong = {"a"}
    bench.work(61)
    assert bench.looked() == [OnNode("n1")]
    [judgement] = bench.judgements
    assert (str(judgement.cause), judgement.cause.at) == ("TimePassed", 61)


def test_looking_before_that_time_makes_it_void(make_bench: MakeBench) -> None:
    bench = make_bench().start()
    bench.plugin.again[OnNode("n1")] = 60
    bench.see(TAINTED, now=1)
    bench.see(TAINTED, now=2)

    assert bench.engine.next_due(2) is None


def test_whoever_is_blocked_and_asked_to_look_again_does_so_at_the_earlier_time(
    make_bench: MakeBench,
) -> None:
    bench = make_bench().start("a")
    bench.gate.refuse("a", ("owner", "rs"))
    bench.plugin.again[OnePod("a")] = 60
    bench.see(PodBound(A), now=1)
    assert bench.engine.next_due(1) == 61

    bench.gate.defer("a", 30)
    bench.plugin.again[OnePod("a")] = 60
    bench.see(PodBound(A), now=2)
    assert bench.engine.next_due(2) == 30

    bench.gate.defer("a", 300)
    bench.plugin.again[OnePod("a")] = 60
    bench.see(PodBound(A), now=3)
    assert bench.engine.next_due(3) == 61  # as its node was first asked to look again


def test_what_is_asked_for_one_pod_rings_for_its_whole_node(make_bench: MakeBench) -> None:
    bench = make_bench().start()
    bench.plugin.again |= {OnePod("a"): 60, OnePod("b"): 50}
    bench.see(PodBound(A), now=1)
    bench.see(PodBound(B), now=2)
    bench.looked()

    bench.work(52)
    assert bench.looked() == [OnNode("n1")]
    assert bench.engine.next_due(52) is None


def test_only_room_makes_the_fit_search_begin_anew(make_bench: MakeBench) -> None:
    bench = make_bench().start()
    bench.see(NodeGone("n2"), PodStatusChanged(A), NamespaceChanged("default"), now=1)
    assert bench.grown == 0

    bench.see(TAINTED, NodeAdded("n3"), now=1)
    assert bench.grown == 2


def test_the_same_verdict_again_is_no_news(make_bench: MakeBench) -> None:
    bench = make_bench().start("a")
    bench.gate.refuse("a", ("owner", "rs"))
    for now in (1, 2):
        bench.see(TAINTED, now=now)
    bench.see(OwnerSizeChanged("rs"), now=3)
    bench.see(TAINTED, now=4)
    bench.gate.refuse("a", ("owner", "rs"), reason="still no")
    bench.see(TAINTED, now=5)
    bench.gate.verdicts.clear()
    for now in (6, 7):
        bench.see(TAINTED, now=now)

    assert [j.is_news for j in bench.judgements] == [True, False, False, False, True, True, True]


def test_another_gate_with_the_same_words_is_news(make_bench: MakeBench) -> None:
    bench = make_bench().start("a")
    bench.gate.refuse("a", reason="no")
    bench.see(TAINTED, now=1)
    bench.gate.verdicts["a"] = lambda finding, _: Refuse(finding, "Other", "no")
    bench.see(TAINTED, now=2)

    assert [j.is_news for j in bench.judgements] == [True, True]


def test_a_blocked_finding_is_counted_once_per_gate_however_often_it_is_looked_at(
    make_bench: MakeBench,
) -> None:
    bench = make_bench(plugins=2).start("a", "b")
    bench.gates[0].refuse("a")
    bench.gates[0].defer("b", 99)
    bench.gates[1].refuse("a")
    bench.gates[1].refuse("b")
    for now in (1, 2):
        bench.see(TAINTED, now=now)

    assert bench.engine.parked == {"Gate": 3, "Pace": 1}


def others(bench: Any, *wrong: str) -> Any:  # the class Wrong of conftest.py
    """Let new instances of the plugin take over; the pods named are wrong to them."""
    plugin = type(bench.plugin)()
    plugin.wrong.update(wrong)
    gate = type(bench.gate)()
    bench.engine.adopt([Instance("new", plugin, gate, Pause(0, 0))], now=9)
    return plugin, gate


def test_other_instances_look_at_everything_and_the_old_ones_at_nothing(
    make_bench: MakeBench,
) -> None:
    bench = make_bench(pause=Pause(2, 10)).start("a")
    bench.gate.refuse("a", ("room",), until=20)
    bench.see(TAINTED, now=1)
    bench.work(3)
    bench.see(TAINTED, PodBound(B), now=8)
    assert (bench.engine.dirty, bench.engine.parked) == (3, {"Gate": 1})
    bench.plugin.judged.clear()

    plugin, _ = others(bench)
    assert (bench.engine.dirty, bench.engine.parked) == (0, {})
    bench.work(9)
    bench.see(NodeAdded("n9"), now=10)
    bench.work(30)

    assert bench.plugin.judged == []
    assert plugin.judged == [OnNode("n1"), OnNode("n2")]


def test_instances_that_take_over_before_the_first_picture_wait_for_it(
    make_bench: MakeBench,
) -> None:
    bench = make_bench()
    plugin, _ = others(bench, "a")
    bench.work(9)
    assert plugin.judged == []

    bench.engine.resync(10)
    bench.work(10)
    assert [judgement.instance.profile for judgement in bench.judgements] == ["new"]


def test_an_eviction_that_outlives_its_instance_settles_and_its_pod_goes_on_resting(
    make_bench: MakeBench,
) -> None:
    bench = make_bench().start("a")
    bench.see(TAINTED, now=1)
    bench.work(1)
    [begun] = bench.judgements
    plugin, _ = others(bench, "a")
    bench.engine.settled(begun, Outcome(DENIED, "403: no"), 9)
    assert bench.gate.ends == [("a", DENIED, 9)]
    assert bench.engine.parked == {}

    bench.work(9)
    [_, rests] = bench.judgements
    assert isinstance(rests.decision, Defer)
    assert (rests.decision.until, rests.instance.profile) == (14, "new")
    bench.work(14)
    assert isinstance(bench.judgements[-1].decision, Evict)
    assert plugin.judged[-1] == OnePod("a")


def test_who_waits_for_an_eviction_of_the_old_policy_looks_when_it_has_ended(
    make_bench: MakeBench,
) -> None:
    bench = make_bench().start("a")
    bench.see(TAINTED, now=1)
    bench.work(1)
    [begun] = bench.judgements
    plugin, gate = others(bench, "a")
    gate.refuse("a", ("eviction", "a"))
    bench.work(9)
    plugin.judged.clear()
    bench.engine.settled(begun, Outcome(DENIED, "403: no"), 10)
    bench.work(10)

    assert plugin.judged == [OnePod("a")]
