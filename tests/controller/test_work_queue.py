from typing import Any

import pytest

from reactive_desched.controller.evaluation_queue import RESYNC_TURN
from reactive_desched.controller.instances import PluginInstance
from reactive_desched.controller.work_queue import (
    MAX_OBJECTS,
    FlapDetector,
    FlappingConfig,
    FlappingObject,
    WorkQueue,
)
from reactive_desched.model.changes import (
    Change,
    NodeAdded,
    NodeGone,
    NodeLabelsChanged,
    NodeTaintsChanged,
    PodBound,
    PodLabelsChanged,
)
from reactive_desched.model.evaluation import ChangeTrigger
from reactive_desched.model.subjects import NodeOrPod, NodeSubject, PodSubject
from reactive_desched.primitives.timers import DebounceConfig
from reactive_desched.testing.builders import pod

FLAPS = FlappingConfig(4, 60.0, DebounceConfig(30, 300))
TAINTED = NodeTaintsChanged("n1")


def record(detector: FlapDetector, change: Change, *times: float) -> None:
    for now in times:
        detector.record(change, now)


def test_an_object_flaps_when_one_field_changed_so_often_within_the_time() -> None:
    detector = FlapDetector(FLAPS)
    record(detector, TAINTED, 0, 20, 40)
    assert not detector.is_flapping(TAINTED, 40)

    detector.record(TAINTED, 59)
    assert detector.is_flapping(TAINTED, 59)
    assert list(detector.flapping(59)) == [FlappingObject("node n1", "taints", 4)]
    assert not detector.is_flapping(TAINTED, 61)
    assert list(detector.flapping(61)) == []


def test_pods_whose_labels_change_have_no_node_forgotten() -> None:
    detector = FlapDetector(FLAPS)
    record(detector, TAINTED, 0, 1, 2, 3)

    for number in range(MAX_OBJECTS + 1):
        detector.record(PodLabelsChanged(pod(f"web{number}", on="n1")), 4)

    assert detector.is_flapping(TAINTED, 5)


def test_each_object_and_each_field_is_counted_for_itself() -> None:
    detector = FlapDetector(FLAPS)
    record(detector, TAINTED, 0, 1, 2)
    detector.record(NodeTaintsChanged("n2"), 3)
    detector.record(NodeLabelsChanged("n1"), 3)
    assert not detector.is_flapping(TAINTED, 3)

    for change in (NodeGone("n1"), NodeAdded("n1"), NodeGone("n1"), NodeAdded("n1")):
        detector.record(change, 4)
    assert detector.is_flapping(NodeAdded("n1"), 4)
    record(detector, PodLabelsChanged(pod("web", on="n1")), 1, 2, 3, 4)
    assert detector.is_flapping(PodLabelsChanged(pod("web", on="n1")), 4)


def test_only_what_can_flip_back_is_counted_and_zero_switches_it_off() -> None:
    detector, off = FlapDetector(FLAPS), FlapDetector(FlappingConfig())
    bound = PodBound(pod("web", on="n1"))
    record(detector, bound, *range(10))
    record(off, TAINTED, *range(10))

    assert not detector.is_flapping(bound, 9)
    assert not off.is_flapping(TAINTED, 9)


def test_the_object_that_changed_longest_ago_is_forgotten_at_the_bound() -> None:
    detector = FlapDetector(FLAPS)
    record(detector, NodeTaintsChanged("first"), 0, 1, 2, 3)
    record(detector, NodeTaintsChanged("again"), 0, 1, 2, 3)
    for number in range(MAX_OBJECTS - 2):
        detector.record(NodeTaintsChanged(f"n{number}"), 4)
    detector.record(NodeTaintsChanged("again"), 5)
    detector.record(NodeTaintsChanged("one more"), 5)

    assert not detector.is_flapping(NodeTaintsChanged("first"), 5)
    assert detector.is_flapping(NodeTaintsChanged("again"), 5)


def flip(bench: Any, times: int, every_s: float) -> float:
    """Flip a taint, and let the evaluator work every second; return when the last flip was."""
    now = 0.0
    for number in range(times):
        bench.see(TAINTED, now=number * every_s)
        for _ in range(int(every_s)):
            now += 1
            bench.work(now)
    return (times - 1) * every_s


def test_ten_flips_in_a_minute_are_evaluated_once_they_end(make_bench: Any) -> None:
    bench = make_bench(flapping=FLAPS).start()

    last = flip(bench, 10, 6)
    seen = bench.looked().count(NodeSubject("n1"))
    assert seen == FLAPS.changes - 1

    bench.work(last + 29.9)
    assert bench.looked() == []
    bench.work(last + 30)
    assert bench.looked() == [NodeSubject("n1")]


def test_an_object_that_never_stops_flapping_is_evaluated_after_the_longest_wait(
    make_bench: Any,
) -> None:
    bench = make_bench(flapping=FLAPS).start()

    flip(bench, 100, 6)

    assert bench.looked().count(NodeSubject("n1")) == FLAPS.changes - 1 + 1


def test_a_finding_that_a_timer_wakes_waits_for_the_flapping_to_end_as_well(
    make_bench: Any,
) -> None:
    bench = make_bench(flapping=FLAPS).start("a")
    bench.gate.defer("a", until=25)
    for now in (0, 1, 2, 3):
        bench.see(TAINTED, now=now)
    del bench.gate.verdicts["a"]
    bench.work(25)
    assert bench.evicted == []

    bench.work(33)
    assert bench.evicted == ["a"]


def instance(bench: Any, wait: DebounceConfig, **by_change: DebounceConfig) -> PluginInstance:
    plugin, gate, view = bench.plugin, bench.gate, bench.instance.view
    return PluginInstance("p", plugin, gate, view, wait, by_change)


def drain(queue: WorkQueue, now: float) -> list[NodeOrPod]:
    found = []
    while (popped := queue.pop_due(now)) is not None:
        found.append(popped[0][1])
    return found  # type: ignore[return-value]  # subjects of a PodPlugin


def test_a_kind_of_change_can_have_a_wait_of_its_own(make_bench: Any) -> None:
    one = instance(make_bench(), DebounceConfig(1, 10), NodeTaintsChanged=DebounceConfig(20, 60))
    queue = WorkQueue([one], FlappingConfig())
    queue.enqueue((one, NodeSubject("n1")), 0, ChangeTrigger(TAINTED, 0))
    queue.enqueue((one, NodeSubject("n2")), 0, ChangeTrigger(NodeLabelsChanged("n2"), 0))

    assert drain(queue, 1) == [NodeSubject("n2")]
    assert queue.next_due() == 20
    assert drain(queue, 20) == [NodeSubject("n1")]


def test_a_subject_that_two_kinds_of_change_concern_is_taken_out_once(make_bench: Any) -> None:
    one = instance(make_bench(), DebounceConfig(1, 10), NodeTaintsChanged=DebounceConfig(20, 60))
    queue = WorkQueue([one], FlappingConfig())
    queue.enqueue((one, NodeSubject("n1")), 0, ChangeTrigger(TAINTED, 0))
    queue.enqueue((one, NodeSubject("n1")), 0, ChangeTrigger(NodeLabelsChanged("n1"), 0))

    assert drain(queue, 1) == [NodeSubject("n1")]
    assert len(queue) == 0
    assert queue.next_due() is None


def test_what_came_due_first_is_next_whichever_plugin_it_belongs_to(make_bench: Any) -> None:
    bench = make_bench()
    busy, other = instance(bench, DebounceConfig(0, 0)), instance(bench, DebounceConfig(1, 10))
    queue = WorkQueue([busy, other], FlappingConfig())
    queue.enqueue((other, PodSubject("rare")), 0, ChangeTrigger(TAINTED, 0))
    for number in range(3):
        queue.enqueue((busy, PodSubject(str(number))), 2, ChangeTrigger(TAINTED, 2))

    assert drain(queue, 2)[0] == PodSubject("rare")


def test_changes_that_do_not_end_hold_up_no_resync(make_bench: Any) -> None:
    bench = make_bench()
    bench.evaluator.resync(0)
    seen: set[NodeOrPod] = set()
    for _ in range(4 * RESYNC_TURN):
        bench.evaluator.apply_changes([TAINTED], 1)
        list(bench.evaluator.process_due(1, lambda: True))
        seen.update(bench.looked())

    assert NodeSubject("n2") in seen


def test_changes_that_do_not_end_hold_up_no_timer(make_bench: Any) -> None:
    bench = make_bench().start()
    bench.plugin.again[NodeSubject("n2")] = 5.0
    bench.see(NodeTaintsChanged("n2"), now=0)
    bench.looked()
    for now in range(4, 8):
        bench.evaluator.apply_changes([TAINTED], now)
        list(bench.evaluator.process_due(now, lambda: True))

    assert NodeSubject("n2") in bench.looked()


@pytest.mark.parametrize("flapping", [FLAPS, FlappingConfig()])
def test_a_subject_is_in_the_queue_once(make_bench: Any, flapping: FlappingConfig) -> None:
    one = instance(make_bench(), DebounceConfig(1, 10))
    queue = WorkQueue([one], flapping)
    for now in range(6):
        queue.flaps.record(TAINTED, now)
        queue.enqueue((one, NodeSubject("n1")), now, ChangeTrigger(TAINTED, now))

    assert len(queue) == 1
    assert (one, NodeSubject("n1")) in queue
    assert drain(queue, 100) == [NodeSubject("n1")]
