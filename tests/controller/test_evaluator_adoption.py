"""Other plugin instances take over from those of the policy before."""

from collections.abc import Callable
from typing import Any

from reactive_desched.model.changes import NodeAdded, NodeTaintsChanged, PodBound
from reactive_desched.model.decisions import Defer, Evict
from reactive_desched.model.outcomes import DENIED
from reactive_desched.model.subjects import NodeSubject, PodSubject
from reactive_desched.model.wakes import WakeOnCapacity, WakeOnEviction
from reactive_desched.primitives.timers import DebounceConfig
from reactive_desched.testing.builders import pod

MakeBench = Callable[..., Any]  # the class Bench of conftest.py
A, B = pod("a", on="n1"), pod("b", on="n1")
TAINTED = NodeTaintsChanged("n1")


def test_new_instances_judge_everything_and_the_old_ones_nothing(
    make_bench: MakeBench,
) -> None:
    bench = make_bench(pause=DebounceConfig(2, 10)).start("a")
    bench.gate.refuse("a", WakeOnCapacity(), until=20)
    bench.see(TAINTED, now=1)
    bench.work(3)
    bench.see(TAINTED, PodBound(B), now=8)
    assert (len(bench.evaluator.queue), bench.evaluator.queue.blocked_by_gate) == (3, {"Gate": 1})
    bench.plugin.judged.clear()

    plugin, _ = bench.adopt(now=9)
    assert (len(bench.evaluator.queue), bench.evaluator.queue.blocked_by_gate) == (0, {})
    bench.work(9)
    bench.see(NodeAdded("n9"), now=10)
    bench.work(30)

    assert bench.plugin.judged == []
    assert plugin.judged == [NodeSubject("n1"), NodeSubject("n2")]


def test_instances_that_take_over_before_the_first_picture_wait_for_it(
    make_bench: MakeBench,
) -> None:
    bench = make_bench()
    plugin, _ = bench.adopt("a", now=9)
    bench.work(9)
    assert plugin.judged == []

    bench.evaluator.resync(10)
    bench.work(10)
    assert [judgement.profile for judgement in bench.evaluations] == ["new"]


def test_an_eviction_that_outlives_its_instance_ends_and_its_pod_keeps_its_back_off(
    make_bench: MakeBench,
) -> None:
    bench = make_bench().start("a")
    bench.see(TAINTED, now=1)
    plugin, _ = bench.adopt("a", now=9)
    bench.end(DENIED, 9)
    assert bench.evaluator.queue.blocked_by_gate == {}

    bench.work(9)
    [_, rests] = bench.evaluations
    assert isinstance(rests.decision, Defer)
    assert (rests.decision.retry_at_s, rests.profile) == (14, "new")
    bench.work(14)
    assert isinstance(bench.evaluations[-1].decision, Evict)
    assert plugin.judged[-1] == PodSubject("a")


def test_a_finding_that_waits_for_an_eviction_of_the_old_policy_is_evaluated_when_it_has_ended(
    make_bench: MakeBench,
) -> None:
    bench = make_bench().start("a")
    bench.see(TAINTED, now=1)
    plugin, gate = bench.adopt("a", now=9)
    gate.refuse("a", WakeOnEviction("a"))
    bench.work(9)
    plugin.judged.clear()
    bench.end(DENIED, 10)
    bench.work(10)

    assert plugin.judged == [PodSubject("a")]
