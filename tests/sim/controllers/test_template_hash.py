"""One template, one name."""

from reactive_desched.sim.controllers.pod_control import template_hash


def test_the_order_of_fields_and_nulls_do_not_matter_but_everything_else_does() -> None:
    first = template_hash({"a": 1, "b": [{"c": None, "d": 2}]})

    assert first == template_hash({"b": [{"d": 2}], "a": 1, "x": None})
    assert first != template_hash({"a": 1, "b": [{"d": 3}]})


def test_the_name_is_safe_in_labels() -> None:
    name = template_hash({})

    assert len(name) == 10
    assert name.isalnum()
    assert name.islower() or name.isdecimal()
