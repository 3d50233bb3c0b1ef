"""What a change, or time, makes the engine look at, and when."""

from collections.abc import Callable, Iterator
from typing import Any

from reactive_desched.controller.work_queue import MAX_IN_PORTIONS
from reactive_desched.model.changes import (
    NodeAdded,
    NodeTaintsChanged,
    PodBound,
    PodMetadataChanged,
    PriorityClassChanged,
)
from reactive_desched.model.decisions import Evict
from reactive_desched.model.findings import Finding
from reactive_desched.model.subjects import NodeSubject, PodSubject
from reactive_desched.model.wakes import WakeOnPriorityClass
from reactive_desched.primitives.long_answers import PORTION
from reactive_desched.primitives.timers import DebounceConfig
from reactive_desched.state.indexes.owners import WakeOnOwner
from reactive_desched.testing.builders import pod

MakeBench = Callable[..., Any]  # the class Bench of conftest.py
A, B = pod("a", on="n1"), pod("b", on="n1")
TAINTED = NodeTaintsChanged("n1")


def test_changes_before_the_initial_sync_is_done_are_not_reported(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.plugin.wrong = {"a"}
    bench.see(TAINTED, now=0)

    assert bench.looked() == []
    assert len(bench.evaluator.queue) == 0
    assert bench.evaluator.next_due(0) is None


def test_after_the_initial_sync_nodes_are_judged_one_by_one(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.plugin.wrong = {"a"}
    bench.evaluator.resync(7)
    bench.work(7)

    assert bench.looked() == [NodeSubject("n1"), NodeSubject("n2")]
    [judgement] = bench.evaluations
    assert judgement.decision == Evict(Finding(A, "Wrong", "wrong"))
    assert (str(judgement.trigger), judgement.decided_at) == ("Resynced", 7)
    assert bench.evaluator.next_due(7) is None
    assert bench.evaluator.evaluations == 2


def test_after_the_initial_sync_every_plugin_judges(make_bench: MakeBench) -> None:
    bench = make_bench(plugins=3)
    bench.evaluator.resync(7)
    bench.work(7)

    assert [plugin.judged for plugin in bench.plugins] == [
        [NodeSubject("n1"), NodeSubject("n2")]
    ] * 3


def test_a_sweep_is_due_at_once_until_it_is_over(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.evaluator.resync(7)

    assert bench.evaluator.next_due(9) == 9
    list(bench.evaluator.process_due(9, lambda: True))
    assert bench.looked() == [NodeSubject("n1")]
    assert bench.evaluator.next_due(9) == 9
    list(bench.evaluator.process_due(9, lambda: False))
    assert bench.looked() == [NodeSubject("n2")]
    assert bench.evaluator.next_due(9) is None


def test_a_change_is_evaluated_only_by_plugins_that_react_to_it(make_bench: MakeBench) -> None:
    bench = make_bench().start()
    bench.see(PodMetadataChanged(A), NodeAdded("n9"), now=1)
    assert bench.looked() == []

    bench.see(PodBound(A), TAINTED, now=1)
    assert bench.looked() == [PodSubject("a"), NodeSubject("n1")]


def test_a_burst_is_evaluated_once_with_the_first_change_as_its_trigger(
    make_bench: MakeBench,
) -> None:
    bench = make_bench(pause=DebounceConfig(2, 10)).start("a")
    bench.see(TAINTED, now=1)
    bench.see(PodBound(A), TAINTED, now=2)

    assert len(bench.evaluator.queue) == 2
    assert bench.evaluator.next_due(2) == 4
    bench.work(3.9)
    assert bench.looked() == []
    bench.work(4)
    assert bench.looked() == [PodSubject("a"), NodeSubject("n1")]
    assert [(j.trigger.change, j.trigger.seen_at, j.decided_at) for j in bench.evaluations] == [
        (PodBound(A), 2, 4),
        (TAINTED, 1, 4),
    ]


def test_work_stops_when_its_caller_has_had_enough(make_bench: MakeBench) -> None:
    bench = make_bench().start()
    bench.evaluator.apply_changes([PodBound(A), PodBound(B)], 1)
    list(bench.evaluator.process_due(1, lambda: True))

    assert bench.looked() == [PodSubject("a")]
    assert bench.evaluator.next_due(1) == 1


def test_a_plugin_that_asks_for_a_timer_is_evaluated_again(make_bench: MakeBench) -> None:
    bench = make_bench().start()
    bench.plugin.again[NodeSubject("n1")] = 60
    bench.see(TAINTED, now=1)
    bench.looked()

    assert bench.evaluator.next_due(1) == 61
    bench.plugin.wrong = {"a"}
    bench.work(61)
    assert bench.looked() == [NodeSubject("n1")]
    [judgement] = bench.evaluations
    assert (str(judgement.trigger), judgement.trigger.seen_at) == ("TimePassed", 61)


def test_looking_before_that_time_makes_it_void(make_bench: MakeBench) -> None:
    bench = make_bench().start()
    bench.plugin.again[NodeSubject("n1")] = 60
    bench.see(TAINTED, now=1)
    bench.see(TAINTED, now=2)

    assert bench.evaluator.next_due(2) is None


def test_a_blocked_finding_with_a_timer_is_evaluated_at_the_earlier_time(
    make_bench: MakeBench,
) -> None:
    bench = make_bench().start("a")
    bench.gate.refuse("a", WakeOnOwner("rs"))
    bench.plugin.again[PodSubject("a")] = 60
    bench.see(PodBound(A), now=1)
    assert bench.evaluator.next_due(1) == 61

    bench.gate.defer("a", 30)
    bench.plugin.again[PodSubject("a")] = 60
    bench.see(PodBound(A), now=2)
    assert bench.evaluator.next_due(2) == 30

    bench.gate.defer("a", 300)
    bench.plugin.again[PodSubject("a")] = 60
    bench.see(PodBound(A), now=3)
    assert bench.evaluator.next_due(3) == 61  # as its node was first asked to look again


def test_what_is_asked_for_one_pod_rings_for_its_whole_node(make_bench: MakeBench) -> None:
    bench = make_bench().start()
    bench.plugin.again |= {PodSubject("a"): 60, PodSubject("b"): 50}
    bench.see(PodBound(A), now=1)
    bench.see(PodBound(B), now=2)
    bench.looked()

    bench.work(52)
    assert bench.looked() == [NodeSubject("n1")]
    assert bench.evaluator.next_due(52) is None


# --- what is named in portions ---


def test_what_a_change_concerns_is_named_in_portions_between_which_others_have_turns(
    make_bench: MakeBench,
) -> None:
    bench, named = make_bench().start(), []

    def portions() -> Iterator[list[PodSubject]]:
        for name in "abc":
            named.append(name)
            yield [PodSubject(name)]

    bench.plugin.portions = portions()

    assert bench.evaluator.apply_changes([TAINTED], 1)
    assert named == ["a"]
    for _ in range(2):
        assert bench.evaluator.next_due(1) == 1
        assert not list(bench.evaluator.process_due(1, lambda: True))

    assert (named, len(bench.evaluator.queue), bench.looked()) == (["a", "b", "c"], 3, [])
    bench.work(1)
    assert bench.looked() == [PodSubject(name) for name in "abc"]
    assert bench.evaluator.next_due(1) is None


def test_portions_do_not_pile_up_while_nothing_is_evaluated(make_bench: MakeBench) -> None:
    bench = make_bench().start()
    waiting = 0

    def portions() -> Iterator[list[PodSubject]]:
        nonlocal waiting
        waiting += 1
        yield [PodSubject("a")]
        yield [PodSubject("b")]
        waiting -= 1

    for now in range(1, 2 * MAX_IN_PORTIONS):
        bench.plugin.portions = portions()
        bench.evaluator.apply_changes([TAINTED], now)

    assert waiting == MAX_IN_PORTIONS
    bench.work(now)
    assert (waiting, bench.looked()) == (0, [PodSubject("a"), PodSubject("b")])


def test_portions_for_plugins_that_were_replaced_are_dropped(make_bench: MakeBench) -> None:
    bench = make_bench().start()
    bench.plugin.portions = iter([[PodSubject("a")], [PodSubject("b")]])
    bench.evaluator.apply_changes([TAINTED], 1)

    plugin, _ = bench.adopt(now=2)
    bench.work(2)

    assert bench.looked() == []
    assert plugin.judged == [NodeSubject("n1"), NodeSubject("n2")]


def test_the_findings_that_a_change_unblocks_are_woken_in_portions(make_bench: MakeBench) -> None:
    many = [pod(f"p{number:03}", on="n1") for number in range(3 * PORTION)]
    bench = make_bench()
    for each in many:
        bench.state.upsert(each)
        bench.plugin.wrong.add(each.name)
        bench.gate.refuse(each.name, WakeOnPriorityClass())
    bench.evaluator.resync(0)
    bench.work(0)
    bench.looked()

    assert bench.evaluator.apply_changes([PriorityClassChanged("high")], 1)
    woken = [len(bench.evaluator.queue)]
    while bench.evaluator.next_due(1) == 1 and not bench.looked():
        before = len(bench.evaluator.queue)
        bench.evaluations += bench.evaluator.process_due(1, lambda: True)
        woken.append(max(0, len(bench.evaluator.queue) - before))
    bench.work(1)

    assert max(woken) <= PORTION
    assert len(bench.evaluations) == 2 * len(many)
