"""Members by what groups them."""

from reactive_desched.primitives.groups import Groups


def test_a_group_has_its_members_in_the_order_in_which_they_came() -> None:
    groups = Groups[str, int]()
    for member in (3, 1, 2, 3):
        groups.add("a", member)

    assert list(groups.of("a")) == [3, 1, 2]
    assert list(groups.of("b")) == []


def test_a_group_without_members_is_not_kept() -> None:
    groups = Groups[str, int]()
    groups.add("a", 1)
    groups.add("b", 1)

    groups.discard("a", 1)
    groups.discard("a", 1)
    groups.discard("c", 1)

    assert "a" not in groups
    assert list(groups.groups()) == ["b"]
    assert groups.as_sets() == {"b": {1}}
