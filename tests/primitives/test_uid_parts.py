"""What is kept in parts is what one dictionary or set would hold, and no part becomes large."""

from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.primitives.uid_parts import KeysInPortions, UidParts, end_of

UIDS = st.sampled_from(["", "f", "0f", "a0f", "b0f", "a1e", "pod-x", "A0F", "a0-f"])


@given(st.lists(st.tuples(UIDS, st.booleans())))
def test_uids_are_found_whatever_their_last_digits_are(steps: list[tuple[str, bool]]) -> None:
    parts, expected = UidParts[int](), dict[str, int]()
    for number, (uid, comes) in enumerate(steps):
        if comes:
            parts.part(uid)[uid] = expected[uid] = number
        else:
            assert parts.part(uid).pop(uid, None) == expected.pop(uid, None)
        assert {each: parts.get(each) for each in expected} == expected
        assert sorted(parts.values()) == sorted(expected.values())
        assert (len(parts), bool(parts)) == (len(expected), bool(expected))


@given(UIDS, UIDS)
def test_uids_with_the_same_end_are_in_the_same_part(one: str, other: str) -> None:
    parts = UidParts[int]()
    assert (parts.part(one) is parts.part(other)) == (end_of(one) == end_of(other))
    assert parts.part(f"0123{end_of(one)}") is parts.part(one)


def test_no_part_has_more_than_its_share_of_uids() -> None:
    parts = UidParts[None]()
    for number in range(4096):
        parts.part(f"{number:03x}")[f"{number:03x}"] = None
    assert max(map(len, parts.parts)) == 16


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans())))
def test_keys_come_and_go_as_in_a_set(steps: list[tuple[int, bool]]) -> None:
    keys, expected = KeysInPortions[int](), set[int]()
    for key, comes in steps:
        if not (comes and key in expected):  # a key is added once
            (keys.add if comes else keys.discard)(key)
        (expected.add if comes else expected.discard)(key)
        assert (sorted(keys), bool(keys)) == (sorted(expected), bool(expected))


def test_keys_in_steps_may_come_and_go_meanwhile() -> None:
    keys, seen = KeysInPortions[int](), list[int]()
    for number in range(25_000):
        keys.add(number)
    for number in keys.in_steps():
        seen.append(number)
        keys.discard(number)
    assert seen == list(range(25_000))
    assert not keys


def test_room_that_is_left_in_a_portion_is_used_before_a_new_one() -> None:
    keys = KeysInPortions[int]()
    for number in range(5_000):
        keys.add(number)
    for number in range(1_000):
        keys.discard(number)
    for number in range(6_000, 8_000):
        keys.add(number)
    assert sorted(keys) == [*range(1_000, 5_000), *range(6_000, 8_000)]
    assert [len(portion) for portion in keys._portions] == [2_000, 2_000, 2_000]
