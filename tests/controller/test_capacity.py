"""Findings that wait for room: who is woken by it, and by whom."""

from collections.abc import Callable
from typing import Any

import pytest

from reactive_desched.controller.blocked import BlockedFindings
from reactive_desched.model.changes import NamespaceChanged, NodeTaintsChanged
from reactive_desched.model.decisions import CapacityHint, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.outcomes import DENIED
from reactive_desched.model.subjects import PodSubject
from reactive_desched.model.wakes import WakeOnGroupCapacity
from reactive_desched.primitives import long_answers
from reactive_desched.primitives.timers import DebounceConfig, DebounceQueue
from reactive_desched.testing.builders import pod

MakeBench = Callable[..., Any]  # the class Bench of conftest.py
ROOM = WakeOnGroupCapacity(1)
NEWS = NamespaceChanged("x")


def waiting(make_bench: MakeBench, *names: str) -> Any:
    """Return a bench on which these pods wait for room."""
    bench = make_bench().start(*names)
    for name in names:
        bench.gate.refuse(name, ROOM)
    bench.see(NodeTaintsChanged("n1"), now=0)
    bench.looked()
    return bench


@pytest.mark.parametrize(
    ("news", "woken"),
    [
        pytest.param(CapacityHint(ROOM), ["a", "b"], id="everybody"),
        pytest.param(CapacityHint(ROOM, 1), ["a"], id="one, who has waited longest"),
        pytest.param(CapacityHint(ROOM, 5), ["a", "b"], id="as many as there are"),
        pytest.param(CapacityHint(ROOM, 0), [], id="nobody"),
        pytest.param(CapacityHint(ROOM, None, "n1"), [], id="not those who sit there themselves"),
        pytest.param(CapacityHint(WakeOnGroupCapacity(2)), [], id="others"),
    ],
)
def test_room_wakes_the_pods_that_may_fit(
    make_bench: MakeBench, news: CapacityHint, woken: list[str]
) -> None:
    bench = waiting(make_bench, "a", "b")
    bench.rooms.append(news)

    bench.see(NEWS, now=1)

    assert bench.looked() == [PodSubject(name) for name in woken]


def test_room_for_two_nodes_wakes_two(make_bench: MakeBench) -> None:
    bench = waiting(make_bench, "a", "b")
    bench.rooms += [CapacityHint(ROOM, 1, "n8"), CapacityHint(ROOM, 1, "n9")]

    bench.see(NEWS, now=1)

    assert bench.looked() == [PodSubject("a"), PodSubject("b")]


def test_room_that_is_found_in_a_later_step_wakes_before_anything_else_is_evaluated(
    make_bench: MakeBench,
) -> None:
    bench = waiting(make_bench, "a", "b")
    bench.rooms.append(CapacityHint(WakeOnGroupCapacity(2)))
    bench.later_rooms += [CapacityHint(ROOM, 1, "n8"), CapacityHint(ROOM, 1, "n9")]

    assert bench.evaluator.apply_changes([NEWS], 1)
    assert bench.looked() == []
    assert bench.evaluator.next_due(1) == 1
    steps = iter([False, True])
    assert not list(bench.evaluator.process_due(1, lambda: next(steps)))

    assert bench.looked() == []
    bench.work(1)
    assert bench.looked() == [PodSubject("a"), PodSubject("b")]
    assert bench.evaluator.next_due(1) is None


def test_an_evaluation_that_makes_a_change_wakes_the_next(make_bench: MakeBench) -> None:
    bench = waiting(make_bench, "a", "b")
    bench.gate.verdicts["a"] = lambda finding, _: (
        bench.rooms.append(CapacityHint(ROOM, 1)) or Refuse(finding, "Gate", "AnotherNo", "no")
    )
    bench.rooms.append(CapacityHint(ROOM, 1))

    bench.see(NEWS, now=1)

    assert bench.looked() == [PodSubject("a"), PodSubject("b")]


def test_an_eviction_that_ends_may_wake_others(make_bench: MakeBench) -> None:
    bench = waiting(make_bench, "b")
    bench.plugin.wrong.add("a")
    bench.see(NodeTaintsChanged("n1"), now=1)
    bench.looked()
    bench.rooms.append(CapacityHint(ROOM, 1))

    bench.end(DENIED, 2)
    bench.work(2)

    assert bench.looked() == [PodSubject("b")]


def test_a_pod_that_is_due_anyway_takes_up_no_place() -> None:
    dirty: DebounceQueue[str, str] = DebounceQueue(DebounceConfig(1, 10))
    dirty.enqueue("a", 0, "because")

    assert "a" in dirty
    assert "b" not in dirty
    assert dirty.pop_due(1) == ("a", "because")
    assert "a" not in dirty


def test_a_finding_may_use_room_on_another_node_while_it_is_blocked() -> None:
    parking: BlockedFindings[str, str, str] = BlockedFindings()
    for name, found in (("a", pod("a", on="n1")), ("b", pod("b", on="n2"))):
        verdict = Refuse(Finding(found, "Test", "why"), "Gate", "No", "no", (ROOM,))
        parking.add(name, verdict, 0.0, "", ())

    assert parking.waiting_for(ROOM) == ["a", "b"], "longest blocked first"
    assert [parking.may_use(name, CapacityHint(ROOM)) for name in "abc"] == [True, True, False]
    assert [parking.may_use(name, CapacityHint(ROOM, 1, "n1")) for name in "ab"] == [False, True]


# --- many at once ---


@pytest.fixture
def by_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_answers, "PORTION", 1)


@pytest.mark.usefixtures("by_ones")
def test_a_group_is_woken_in_portions(make_bench: MakeBench) -> None:
    bench = waiting(make_bench, "a", "b")
    bench.rooms.append(CapacityHint(ROOM))

    assert bench.evaluator.apply_changes([NEWS], 1)
    assert len(bench.evaluator.queue) == 1
    assert not list(bench.evaluator.process_due(1, lambda: True))

    assert len(bench.evaluator.queue) == 2
    bench.work(1)
    assert bench.looked() == [PodSubject("a"), PodSubject("b")]
    assert bench.evaluator.next_due(1) is None


@pytest.mark.usefixtures("by_ones")
@pytest.mark.parametrize("slots", [1, 2])
def test_so_many_are_woken_as_there_is_room_for_however_many_portions(
    make_bench: MakeBench, slots: int
) -> None:
    bench = waiting(make_bench, "a", "b")
    bench.rooms.append(CapacityHint(ROOM, slots))

    bench.see(NEWS, now=1)

    assert bench.looked() == [PodSubject("a"), PodSubject("b")][:slots]


@pytest.mark.usefixtures("by_ones")
def test_a_pod_that_fits_does_not_wake_itself_in_a_later_portion(make_bench: MakeBench) -> None:
    bench = waiting(make_bench, "a", "b")

    def room_for_others(finding: Finding, _: float) -> Refuse:
        if len(bench.plugin.judged) < 5:
            bench.rooms.append(CapacityHint(ROOM, after_fit=True))
        return Refuse(finding, "Gate", "No", "no", (ROOM,))

    bench.gate.verdicts["b"] = room_for_others
    bench.rooms.append(CapacityHint(ROOM))

    bench.see(NEWS, now=1)

    assert bench.looked() == [PodSubject("a"), PodSubject("b"), PodSubject("a")]
