"""What is remembered has a bound, and nothing is wrong beyond it: it is found out anew."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.fit import change_log, free_amounts, labels, node_sets, unschedulable
from reactive_desched.fit.change_log import ChangeLog
from reactive_desched.fit.free_amounts import FreeResources
from reactive_desched.fit.labels import NodeLabels
from reactive_desched.fit.scheduler import NODES_PER_SYNC
from reactive_desched.gate.evictor import NodeFitFilter
from reactive_desched.model.decisions import Defer
from reactive_desched.model.findings import Finding
from reactive_desched.model.labels import EVERYTHING, Requirement
from reactive_desched.model.objects import Node, Pod
from reactive_desched.model.taints import Toleration
from reactive_desched.model.wakes import WakeOnGroupCapacity
from reactive_desched.primitives import bits
from reactive_desched.primitives.long_answers import AnswerTakesLong, LongAnswers
from reactive_desched.testing.builders import node, pod
from tests.support.golden import Golden


@given(st.sets(st.integers(0, 300)))
def test_a_set_of_slots_is_what_was_put_in(slots: set[int]) -> None:
    flags = [slot in slots for slot in range(301)]

    assert bits.of_slots(slots) == bits.of_flags(flags)
    assert list(bits.slots_in(bits.of_slots(slots))) == sorted(slots)


@given(st.sets(st.integers(0, 80)), st.integers(0, 80))
def test_one_slot_comes_and_goes(slots: set[int], slot: int) -> None:
    found = bits.of_slots(slots)

    assert bits.with_bit(found, slot, present=True) == bits.of_slots(slots | {slot})
    assert bits.with_bit(found, slot, present=False) == bits.of_slots(slots - {slot})


def test_a_follower_that_is_not_too_far_behind_learns_what_changed() -> None:
    seen: ChangeLog[int] = ChangeLog()
    stand = seen.end
    for slot in (3, 1, 3):
        seen.append(slot)

    assert seen.since(stand) == {1, 3}
    assert seen.since(seen.end) == ()


def test_a_follower_that_is_too_far_behind_learns_so() -> None:
    seen: ChangeLog[int] = ChangeLog()
    for _ in range(change_log.KEPT_CHANGES):
        seen.append(1)
    stand = seen.end
    for _ in range(change_log.KEPT_CHANGES):
        seen.append(2)

    assert seen.since(0) == {1, 2}
    seen.append(3)
    assert seen.since(0) is None
    assert seen.since(stand) == {2, 3}


def test_forgotten_amounts_are_found_out_anew() -> None:
    free = FreeResources()
    free.add_slot()
    free.update(0, {"cpu": free_amounts.MAX_CACHED_LEVELS}, ())
    for amount in range(free_amounts.MAX_CACHED_LEVELS + 50):
        free.with_at_least("cpu", amount)

    assert len(free._levels) == free_amounts.MAX_CACHED_LEVELS
    assert free.with_at_least("cpu", 5) == 1
    assert free.with_at_least("cpu", free_amounts.MAX_CACHED_LEVELS + 1) == 0


def test_resources_beyond_the_bound_are_found_out_anew(place: Callable[..., Any]) -> None:
    names = [f"example.com/r{number}" for number in range(free_amounts.MAX_TRACKED_RESOURCES + 5)]
    here = place(node("n1"), node("n2", allocatable={"pods": "9", **dict.fromkeys(names, "1")}))
    movers = [pod(name, on="n1", requests={name: "1"}) for name in names]

    for _ in range(2):
        assert all(here.fitting(mover) == {"n2"} for mover in movers)
    assert all(here.fit._nodes.free.tracks(always) for always in ("cpu", "memory", "pods"))


def test_a_resource_that_no_node_offers_takes_no_look_at_the_nodes_until_one_does(
    place: Callable[..., Any],
) -> None:
    here = place(node("n1"), node("n2"))
    wakes = here.park(pod("mover", on="n1", requests={"example.com/gpu": "1"}))
    assert not here.fit._nodes.free.tracks("example.com/gpu")

    here.put(node("n2", allocatable={"pods": "9", "example.com/gpu": "2"}))

    assert {room.wake for room in here.all_hints()} & set(wakes)
    mover = pod("mover", on="n1", requests={"example.com/gpu": "2"})
    assert here.fitting(mover) == {"n2"}
    here.put(node("n2", allocatable={"pods": "9"}))
    assert here.fitting(mover) == set()
    assert "example.com/gpu" not in here.fit._nodes._offering


def test_resources_that_no_node_offers_are_remembered_up_to_a_bound(
    place: Callable[..., Any],
) -> None:
    here = place(node("n1"), node("n2"))
    nodes = here.fit._nodes
    for number in range(node_sets.MAX_MISSING + 5):
        assert nodes.with_at_least(f"example.com/r{number}", 1) == 0

    assert len(nodes._missing) == 5
    assert set(nodes.free.resources) == {"cpu", "memory", "pods"}


def test_forgotten_labels_are_indexed_anew() -> None:
    known: list[Node | None] = [node("n1", labels={"l3": "x"}), None]
    made = NodeLabels(known, {"n1": 0}, ChangeLog())
    keys = [f"l{number}" for number in range(labels.MAX_INDEXED_LABELS + 5)]

    for _ in range(2):
        assert [key for key in keys if made.with_label(key)] == ["l3"]
    assert len(made._columns) == labels.MAX_INDEXED_LABELS


class CountedNodes(list[Node | None]):
    """Nodes that count how often all of them are read."""

    readings = 0

    def __getitem__(self, at: Any) -> Any:
        self.readings += isinstance(at, slice)
        return super().__getitem__(at)


@pytest.mark.parametrize("key", ["zone", "a label that no node has"])
def test_the_labels_of_all_nodes_are_read_once(key: str) -> None:
    known = CountedNodes([node("n1", labels={"zone": "a"}), node("n2", labels={"zone": "b"})])
    made = NodeLabels(known, {}, ChangeLog())

    for _ in range(3):
        made.values(key)
        made.value(key, 1)
        made.with_label_in(key, ("a",))

    assert known.readings == 1


def test_every_operator_of_a_requirement_is_known() -> None:
    values = ["5", "7", "x", None]
    known: list[Node | None] = [
        node(f"n{number}", labels={} if value is None else {"v": value})
        for number, value in enumerate(values)
    ]
    made = NodeLabels(known, {}, ChangeLog())

    for operator in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Odd"):
        asked = Requirement("v", operator, ("6",) if operator in ("Gt", "Lt") else ("5", "x"))
        met = [asked.matches(found.labels) for found in known if found is not None]
        assert made.matching_requirement(asked, 0b1111) == bits.of_flags(met)


def test_many_values_of_a_label_are_found_as_few_are() -> None:
    known: list[Node | None] = [
        node(f"n{number}", labels={"v": str(number)}) for number in range(30)
    ]
    known[7] = None
    made = NodeLabels(known, {}, ChangeLog())

    for count in range(31):
        wanted = [str(number) for number in range(count)]
        assert made.with_label_in("v", [*wanted, "none"]) == bits.of_flags(
            [found is not None and found.labels["v"] in wanted for found in known]
        )


def test_tolerations_beyond_the_bound_are_asked_again(place: Callable[..., Any]) -> None:
    here = place(node("n1"), node("n2", "a:NoSchedule"))
    many = [(Toleration(f"k{n}", "Exists"),) for n in range(node_sets.MAX_CACHED_TOLERATIONS + 1)]
    for tolerations in many:
        here.fitting(_tolerating(*tolerations))

    assert len(here.fit._nodes._untolerated) <= node_sets.MAX_CACHED_TOLERATIONS
    assert here.fitting(_tolerating(Toleration("a", "Exists"))) == {"n2"}


def test_groups_beyond_the_bound_look_again_in_time(place: Callable[..., Any]) -> None:
    mover = pod("mover", on="n1", requests={"cpu": "9"})
    here = place(node("n1"), node("n2"), mover)
    first = here.park(mover)
    for number in range(unschedulable.MAX_GROUPS):
        here.park(msgspec.structs.replace(mover, namespace=f"ns{number}"))

    assert len(here.fit._unschedulable.groups) == unschedulable.MAX_GROUPS
    here.put(node("n2", allocatable={"cpu": "9", "pods": "9"}))
    told = {room.wake for room in here.all_hints()}
    assert len(told) == unschedulable.MAX_GROUPS
    assert not told & first
    assert len(here.fit._unschedulable._feasibility) == 1


def test_a_change_of_a_node_is_checked_for_many_pods_in_several_turns(
    place: Callable[..., Any],
) -> None:
    here = place(node("n1"), node("n2"))
    waits_for = {
        wake
        for number in range(250)
        for wake in here.park(pod(f"p{number}", on="n1", requests={"cpu": f"{9_000 + number}m"}))
        if isinstance(wake, WakeOnGroupCapacity)
    }

    here.put(node("n2", allocatable={"cpu": "20", "pods": "99"}))
    first = {room.wake for room in here.fit.take_capacity_hints()}
    here.put(node("n3", allocatable={"cpu": "20", "pods": "99"}))

    assert 0 < len(first) <= unschedulable.CHECKS_PER_STEP
    rest = here.all_hints()
    assert first | {room.wake for room in rest} == waits_for
    assert {room.wake for room in rest if room.exclude_node == "n3"} == waits_for
    assert not here.fit.has_more_hints


def test_pods_that_ask_for_the_same_are_woken_in_several_turns(place: Callable[..., Any]) -> None:
    mover = pod("mover", on="n1", requests={"cpu": "9"})
    here = place(node("n1"), node("n2"))
    for number in range(250):
        here.park(msgspec.structs.replace(mover, namespace=f"ns{number}"))

    here.put(node("n2", allocatable={"cpu": "9", "pods": "9"}))

    assert len(here.fit.take_capacity_hints()) <= unschedulable.CHECKS_PER_STEP
    assert len(here.all_hints()) > 100


def test_a_slot_that_becomes_free_is_given_to_the_next_node(place: Callable[..., Any]) -> None:
    mover = pod("mover", on="n1", requests={"cpu": "1"})
    here = place(node("n1"), node("n2", "a:NoSchedule", labels={"d": "1"}), mover)
    assert here.fitting(mover) == set()

    here.remove(node("n2"))
    assert here.fitting(mover) == set()
    here.put(node("n3"))

    assert here.fitting(mover) == {"n3"}
    assert here.fit._nodes.slot_of("n3") == 1
    assert here.fit._nodes.slot_of("n2") is None


def test_many_nodes_are_looked_through_in_several_turns(place: Callable[..., Any]) -> None:
    here = place(*(node(f"n{number}") for number in range(2 * NODES_PER_SYNC + 25)))

    assert [here.fit.sync() for _ in range(4)] == [False, False, True, True]


def test_meanwhile_findings_are_put_off_to_the_next_turn(
    place: Callable[..., Any], golden: Golden
) -> None:
    finding = Finding(pod("mover", on="n1"), "Test", "why")
    here = place(*(node(f"n{number}") for number in range(2 * NODES_PER_SYNC + 25)))
    gate = NodeFitFilter(here.fit, EVERYTHING, evictor_requires=True)

    assert gate.check(finding, 7) == Defer(finding, "NodeFit", "NodeFitPending", golden(), 7)
    assert isinstance(gate.check(finding, 7), Defer)
    assert gate.check(finding, 7) is None


def _tolerating(*tolerations: Toleration) -> Pod:
    mover = pod("mover", on="n1")
    return msgspec.structs.replace(
        mover, spec=msgspec.structs.replace(mover.spec, tolerations=tolerations)
    )


def test_a_new_label_of_many_nodes_is_read_in_steps_and_what_changes_between_them_after_it() -> (
    None
):
    size = 3 * labels.READ_AT_ONCE
    known: list[Node | None] = [node(f"n{at}", labels={"v": "old"}) for at in range(size)]
    changes: ChangeLog[int] = ChangeLog()
    made, wanted = NodeLabels(known, {}, changes), LongAnswers()

    with pytest.raises(AnswerTakesLong) as asked, made.in_steps(wanted), wanted:
        made.with_label_in("v", ("new",))
    next(asked.value.steps)
    for at in (0, size - 1):
        known[at] = node(f"n{at}", labels={"v": "new"})
        changes.append(at)
    known.append(node("later", labels={"v": "new"}))
    changes.append(size)
    assert len(list(asked.value.steps)) == 3

    with made.in_steps(wanted), wanted:
        assert made.with_label_in("v", ("new",)) == bits.of_slots([0, size - 1, size])


def test_a_label_is_read_at_once_by_what_cannot_be_left_and_where_steps_are_not_wanted() -> None:
    known: list[Node | None] = [
        node(f"n{at}", labels={"v": "x", "w": "x"}) for at in range(2 * labels.READ_AT_ONCE)
    ]
    made, wanted = NodeLabels(known, {}, ChangeLog()), LongAnswers()

    with wanted:
        assert made.value("v", 0) == "x"
    with made.in_steps(wanted):
        assert made.value("w", 0) == "x"


def test_a_label_that_an_evaluation_waited_for_is_not_forgotten_before_it_is_read() -> None:
    keys = [f"l{number}" for number in range(labels.MAX_INDEXED_LABELS + 5)]
    known: list[Node | None] = [
        node(f"n{at}", labels=dict.fromkeys(keys, "x")) for at in range(2 * labels.READ_AT_ONCE)
    ]
    made, wanted = NodeLabels(known, {}, ChangeLog()), LongAnswers()
    waits = 0
    while True:
        try:
            with made.in_steps(wanted), wanted:
                assert all(made.with_label(key) for key in keys)
        except AnswerTakesLong as asked:
            waits += 1
            wanted.wait()
            steps = asked.steps
        else:
            break
        for _ in steps:
            pass

    assert waits == len(keys)
    wanted.end_wait()
    for key in keys:
        made.with_label(key)
    assert len(made._columns) <= labels.MAX_INDEXED_LABELS
