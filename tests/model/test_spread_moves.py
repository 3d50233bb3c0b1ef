"""Which pods of a spread leave first: those that serve all of their constraints."""

from collections.abc import Mapping

from msgspec.structs import replace

from reactive_desched.model.objects import Node, Pod
from reactive_desched.model.spread_moves import Companion, Companions, SourcePods
from reactive_desched.testing.builders import pod

TEMPLATE = pod("x")
PLACES = {"a": ("a1", "a1", "a1", "a2"), "b": ("b1", "b1", "b2", "b2", "b2")}
"""The hosts of the pods of two racks."""


def pods() -> dict[str, list[Pod]]:
    """Return the pods of each rack, named for their hosts: a1-0, a1-1 and so on."""
    return {
        rack: [replace(TEMPLATE, name=f"{host}-{n}", node=host) for n, host in enumerate(hosts)]
        for rack, hosts in PLACES.items()
    }


def hosts(*, is_restored: bool = True, **sizes: int) -> Companion:
    def host_of(each: Pod) -> str:
        return each.node

    def name_of(each: Node) -> str:
        return each.name

    return Companion(sizes, 1, host_of, name_of, is_restored=is_restored)


def picked(companions: Companions, floor: float, stays: Mapping[str, str] = {}) -> list[str]:
    """Name the pods that leave in their order, but for those that stay."""
    of_racks = pods()
    sources = SourcePods(floor, companions)
    for rack, those in of_racks.items():
        assert list(sources.add(rack, len(those), those)) == those
    picks = sources.pick()
    names: list[str] = []
    pick = next(picks, None)
    while pick is not None:
        leaves = pick.pod.name not in stays
        names += [pick.pod.name] * leaves
        try:
            pick = picks.send(leaves)
        except StopIteration:
            pick = None
    return names


def test_the_fullest_domain_gives_first_and_of_its_pods_those_of_the_fullest_host() -> None:
    full = Companions([hosts(a1=3, a2=1, b1=2, b2=3, c1=0)])

    assert picked(full, 3) == ["b2-2", "a1-0", "b1-0"]


def test_without_other_constraints_pods_leave_in_their_order() -> None:
    assert picked(Companions([]), 3) == ["b1-0", "a1-0", "b1-1"]


def test_a_domain_gives_none_once_it_has_no_more_than_the_floor() -> None:
    assert picked(Companions([]), 5) == []


def test_after_a_pod_that_stays_the_others_of_its_host_and_template_are_passed_over() -> None:
    full = Companions([hosts(a1=3, a2=1, b1=2, b2=3, c1=0)])

    assert picked(full, 4, {"b2-2": ""}) == ["b1-0"]
    assert picked(full, 4) == ["b2-2"]


def test_a_pod_may_go_where_no_constraint_is_worse_off() -> None:
    companion = hosts(a1=4, a2=3, b1=4, b2=1, c1=0)
    near = ("a1", "a2", "b1", "b2", "c1")

    assert companion.admits("a1", near) == frozenset(["a1", "a2", "b2", "c1"])
    assert companion.admits("b2", near) == frozenset(["b2", "c1"])
    assert companion.admits(None, near) is None
    assert hosts(is_restored=False, a1=4).admits("a1", near) is None


def test_what_keeps_a_constraint_within_its_skew_makes_it_no_worse() -> None:
    even = hosts(a1=2, a2=1, b1=1)

    assert even.admits("a2", ("a1", "a2", "b1")) == frozenset(["a2", "b1"])


def test_a_move_costs_what_it_makes_a_spread_less_even() -> None:
    companion = hosts(a1=4, a2=3, b1=0)

    assert companion.cost("a1", "a2") == 0
    assert companion.cost("a1", "b1") < 0
    assert companion.cost("b1", "a1") > 0
    assert companion.cost("a1", "a1") == companion.cost(None, "a1") == 0
