from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.state.indexes.topology_domains import CompactMultiMap


def groups(*pairs: tuple[str, str]) -> CompactMultiMap[str]:
    made: CompactMultiMap[str] = CompactMultiMap()
    for group, pod in pairs:
        made.add(group, pod)
    return made


def held(made: CompactMultiMap[str]) -> dict[str, list[str]]:
    assert len(made) == len(list(made))
    assert all(group in made for group in made)
    return {group: list(made.members(group)) for group in made}


def test_members_come_in_their_order_and_a_group_exists_while_it_has_some() -> None:
    made = groups(("a", "1"), ("b", "2"), ("a", "3"), ("a", "0"))
    assert held(made) == {"a": ["1", "3", "0"], "b": ["2"]}

    made.discard("a", "1")
    made.discard("b", "2")
    assert held(made) == {"a": ["3", "0"]}
    made.discard("a", "0")
    assert held(made) == {"a": ["3"]}
    made.discard("a", "3")
    assert held(made) == {}
    assert "a" not in made
    assert made.members("a") == ()


def test_an_only_member_costs_no_set() -> None:
    made = groups(("a", "1"), ("a", "2"))
    made.discard("a", "1")

    assert made._groups == {"a": "2"}


def test_a_member_that_is_not_there_cannot_leave() -> None:
    made = groups(("a", "1"), ("b", "1"), ("b", "2"))
    made.discard("a", "2")
    made.discard("b", "3")
    made.discard("c", "1")

    assert held(made) == {"a": ["1"], "b": ["1", "2"]}


def test_a_member_is_not_there_twice() -> None:
    made = groups(("a", "1"), ("a", "1"), ("b", "1"), ("b", "2"), ("b", "1"))
    made.discard("a", "1")

    assert held(made) == {"b": ["1", "2"]}


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("ab"), st.sampled_from("123"))))
def test_groups_hold_what_sets_would(steps: list[tuple[bool, str, str]]) -> None:
    made: CompactMultiMap[str] = CompactMultiMap()
    sets: dict[str, set[str]] = {"a": set(), "b": set()}
    for joins, group, pod in steps:
        (made.add if joins else made.discard)(group, pod)
        (sets[group].add if joins else sets[group].discard)(pod)

    assert {group: set(pods) for group, pods in held(made).items()} == {
        group: pods for group, pods in sets.items() if pods
    }
