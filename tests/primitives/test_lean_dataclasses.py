"""Dataclasses of a lean import have other methods, and differ in nothing else that is seen."""

import copy
import dataclasses
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from reactive_desched.primitives.lean_imports import shared_dataclass_methods


def own_repr(_: object) -> str:
    return "mine"


def always_equal(_: object, __: object) -> bool:
    return True


DATACLASSES: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    ({}, {}),
    ({"frozen": True}, {}),
    ({"frozen": True, "slots": True}, {}),
    ({"slots": True, "kw_only": True}, {}),
    ({"order": True}, {}),
    ({"unsafe_hash": True}, {}),
    ({"eq": False}, {}),
    ({"repr": False, "frozen": True}, {}),
    ({}, {"__repr__": own_repr}),
    ({"frozen": True}, {"__eq__": always_equal}),
    ({"frozen": True}, {"__eq__": always_equal, "__hash__": lambda _: 7}),
    ({}, {"__hash__": lambda _: 7}),
    ({}, {"__hash__": None}),
)
"""Options of dataclasses, and methods that the class has of its own."""


def traits(options: dict[str, Any], methods: dict[str, Any]) -> list[object]:
    """Make a dataclass and one that derives from it; return what can be seen of their instances."""
    fields: list[Any] = [
        ("size", int),
        ("note", str, dataclasses.field(default="", compare=False)),
        ("key", int, dataclasses.field(default=1, hash=False)),
        ("hidden", Any, dataclasses.field(default=None, repr=False)),
        ("parts", list, dataclasses.field(default_factory=list, hash=False)),
        ("fixed", int, dataclasses.field(default=7, init=False)),
    ]
    made = dataclasses.make_dataclass("Made", fields, namespace=dict(methods), **options)
    derived = dataclasses.make_dataclass("Derived", [("more", int, 0)], bases=(made,), **options)
    found: list[object] = []
    for each in (made, derived):
        one, same = each(size=1), each(size=1, note="other")
        unequal = each(size=2), each(size=1, key=2), each(size=1, hidden=3), made(size=1)
        shown = [repr(seen).partition(" at 0x")[0] for seen in (one, same)]  # without addresses
        found += [shown, one == same, [one == other for other in unequal], one == 1]
        hashable = vars(each).get("__hash__")
        found += [hashable is None]
        if hashable is not None:
            found += [hash(one), hash(same), hash(unequal[1])]
    looped = made(1, "looped") if not options.get("kw_only") else made(size=1, note="looped")
    with suppress(dataclasses.FrozenInstanceError):
        looped.size = looped
        found.append(repr(looped))
    names = ("size",) if options.get("slots") else ("size", "no field")  # CPython's own error there
    found += [
        vars(made)["__match_args__"],
        copy.copy(made(size=1)) == copy.deepcopy(made(size=1)),
        dataclasses.replace(derived(size=1), note="other").note,
        [refusal(each, *names) for each in (made(size=1), derived(size=1))],
        [refused_arguments(each) for each in (made, derived)],
    ]
    return found


def refusal(instance: object, *names: str) -> list[object]:
    """What is said of assigning and deleting attributes."""
    said: list[object] = []
    for name in names:
        for change in (partial(setattr, instance, name, 5), partial(delattr, instance, name)):
            try:
                said.append(change())
            except (dataclasses.FrozenInstanceError, AttributeError) as error:
                said.append((type(error), str(error)))
    return said


def refused_arguments(cls: Any) -> list[bool]:
    """Which calls are refused: no size, too many values, one twice, one that is no field."""
    found: list[bool] = []
    for values, named in (((), {}), ((1,) * 9, {}), ((1,), {"size": 1}), ((), {"size": 1, "x": 1})):
        try:
            cls(*values, **named)
        except TypeError:
            found.append(True)
        else:
            found.append(False)
    return found


@pytest.mark.parametrize(("options", "methods"), DATACLASSES)
def test_dataclasses_with_shared_methods_differ_in_nothing_else(
    options: dict[str, Any], methods: dict[str, Any]
) -> None:
    usual = traits(options, methods)
    with shared_dataclass_methods():
        assert traits(options, methods) == usual


def test_dataclasses_of_that_time_share_the_code_of_their_methods_and_later_ones_do_not() -> None:
    with shared_dataclass_methods():

        @dataclasses.dataclass(frozen=True)
        class Early:
            size: int

        @dataclasses.dataclass
        class Other:
            name: str

    @dataclasses.dataclass
    class Late:
        name: str

    assert Early.__eq__.__code__ is Other.__eq__.__code__
    assert Late.__eq__.__code__ is not Other.__eq__.__code__
    assert Other("a") == Other("a") != Other("b")


def test_what_works_after_its_init_and_what_derives_from_another_is_made_as_ever() -> None:
    with shared_dataclass_methods():

        @dataclasses.dataclass
        class Larger:
            size: int
            more: dataclasses.InitVar[int]

            def __post_init__(self, more: int) -> None:
                self.size += more

        @dataclasses.dataclass(frozen=True)
        class Frozen:
            size: int

    assert Larger(size=2, more=3).size == 5
    with pytest.raises(TypeError, match="frozen"):

        @dataclasses.dataclass
        class Thawed(Frozen):  # type: ignore[misc]  # refused here, too
            pass


def test_two_instances_share_no_value_that_a_factory_made() -> None:
    with shared_dataclass_methods():

        @dataclasses.dataclass
        class Listed:
            names: list[str] = dataclasses.field(default_factory=list)

    one, other = Listed(), Listed()
    one.names.append("a")
    assert (one.names, other.names) == (["a"], [])
