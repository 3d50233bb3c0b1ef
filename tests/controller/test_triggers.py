"""What led to a judgement, in the words and with the version that records keep."""

from collections.abc import Callable
from typing import Any

import pytest

from reactive_desched.model.changes import (
    NodeTaintsChanged,
    PodBound,
    TimePassed,
)
from reactive_desched.model.evaluation import ChangeTrigger, Trigger
from reactive_desched.model.outcomes import DENIED
from reactive_desched.model.subjects import NodeSubject
from reactive_desched.model.wakes import WakeOnEviction
from reactive_desched.primitives.timers import DebounceConfig
from reactive_desched.state.indexes.owners import OwnerSizeChanged
from reactive_desched.testing.builders import pod

MakeBench = Callable[..., Any]  # the class Bench of conftest.py
A = pod("a", on="n1")
TAINTED = NodeTaintsChanged("n1")


def triggers(bench: Any) -> list[Trigger]:  # the class Bench of conftest.py
    return [judgement.trigger.record for judgement in bench.evaluations]


@pytest.mark.parametrize(
    ("cause", "trigger"),
    [
        (ChangeTrigger(TAINTED, 1.0, 42), Trigger("NodeTaintsChanged", "node n1", "42")),
        (ChangeTrigger(PodBound(A), 1.0, 7), Trigger("PodBound", "pod default/a", "7")),
        (ChangeTrigger(OwnerSizeChanged("o"), 1.0, 7), Trigger("OwnerSizeChanged", "", "7")),
        (ChangeTrigger(TimePassed(), 1.0), Trigger("TimePassed")),
    ],
    ids=lambda value: "" if isinstance(value, Trigger) else str(value),
)
def test_a_cause_says_what_changed_and_at_which_version(
    cause: ChangeTrigger, trigger: Trigger
) -> None:
    assert cause.record == trigger
    assert str(cause) == str(trigger)


def test_a_judgement_names_the_version_of_the_object_whose_event_led_to_it(
    make_bench: MakeBench,
) -> None:
    bench = make_bench().start("a")
    bench.evaluator.apply_changes([TAINTED], 1, 42)
    bench.work(1)

    assert triggers(bench) == [Trigger("NodeTaintsChanged", "node n1", "42")]


def test_of_a_burst_the_first_version_since_the_last_evaluation_is_named(
    make_bench: MakeBench,
) -> None:
    bench = make_bench(pause=DebounceConfig(2, 10)).start("a")
    for now, version in ((1, 42), (2, 43)):
        bench.evaluator.apply_changes([TAINTED], now, version)
    bench.work(5)
    bench.evaluator.apply_changes([TAINTED], 6, 44)
    bench.work(9)

    assert [trigger.resource_version for trigger in triggers(bench)] == ["42", "44"]


def test_a_start_has_no_version(make_bench: MakeBench) -> None:
    bench = make_bench()
    bench.plugin.wrong = {"a"}
    bench.evaluator.resync(0)
    bench.work(0)

    assert triggers(bench) == [Trigger("Resynced")]


def test_time_that_has_passed_has_no_version(make_bench: MakeBench) -> None:
    bench = make_bench().start("a")
    bench.plugin.wrong = set()
    bench.plugin.again = {NodeSubject("n1"): 5}
    bench.evaluator.apply_changes([TAINTED], 1, 42)
    bench.work(1)
    bench.plugin.wrong = {"a"}
    bench.work(6)

    assert triggers(bench) == [Trigger("TimePassed")]


def test_what_is_tried_again_keeps_the_trigger_of_its_finding(make_bench: MakeBench) -> None:
    bench = make_bench().start("a")
    bench.evaluator.apply_changes([TAINTED], 1, 42)
    bench.work(1)
    bench.end(DENIED, 1)
    bench.work(6)

    assert triggers(bench) == [Trigger("NodeTaintsChanged", "node n1", "42")] * 2


def test_a_finding_that_waited_for_another_eviction_is_not_woken_by_an_event(
    make_bench: MakeBench,
) -> None:
    bench = make_bench(plugins=2).start("a")
    bench.gates[1].refuse("a", WakeOnEviction("a"))
    bench.evaluator.apply_changes([TAINTED], 1, 42)
    bench.work(1)
    bench.end(DENIED, 1)
    bench.evaluations.clear()
    bench.work(1)

    assert [judgement.profile for judgement in bench.evaluations] == ["profile 1"]
    assert triggers(bench) == [Trigger("NodeTaintsChanged", "node n1")]
