"""Conditions are found and replaced by their type."""

from reactive_desched.sim.conditions import (
    condition_status,
    find_condition,
    with_condition,
    with_conditions,
)

OLD = {"type": "Ready", "status": "False", "reason": "Starting", "lastTransitionTime": "t0"}


def test_the_time_moves_with_the_status_and_only_then() -> None:
    same = with_condition([OLD], {"type": "Ready", "status": "False", "reason": "Other"}, "t1")
    other = with_condition([OLD], {"type": "Ready", "status": "True"}, "t1")

    assert same == [{**OLD, "reason": "Other"}]
    assert other == [{"type": "Ready", "status": "True", "lastTransitionTime": "t1"}]


def test_the_order_is_kept_and_new_types_come_last() -> None:
    before = [OLD, {"type": "Disk", "status": "True"}]
    fresh = [{"type": "Net", "status": "True"}, {"type": "Ready", "status": "True"}]

    after = with_conditions(before, fresh, "t1")

    assert [condition["type"] for condition in after] == ["Ready", "Disk", "Net"]


def test_fields_of_others_survive_but_a_reason_does_not() -> None:
    before = [{**OLD, "observedGeneration": 3}]

    (after,) = with_condition(before, {"type": "Ready", "status": "True"}, "t1")

    assert after["observedGeneration"] == 3
    assert "reason" not in after


def test_what_is_absent_is_none() -> None:
    obj = {"status": {"conditions": [OLD]}}

    assert find_condition(obj, "Ready") is OLD
    assert condition_status(obj, "Ready") == "False"
    assert condition_status({}, "Ready") is None
