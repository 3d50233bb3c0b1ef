import pytest

from reactive_desched.primitives.hints import did_you_mean, nearest_name, not_one_of

KNOWN = ("PodLifeTime", "RemoveDuplicates", "RemoveFailedPods")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("PodLifetime", "PodLifeTime"),
        ("podlifetime", "PodLifeTime"),
        ("pod-life_time", "PodLifeTime"),
        ("PodLifTime", "PodLifeTime"),
        ("RemoveDuplicate", "RemoveDuplicates"),
    ],
)
def test_the_nearest_known_name_is_offered(written: str, meant: str) -> None:
    assert nearest_name(written, KNOWN) == meant


@pytest.mark.parametrize("written", ["", "Xyz", "LoadAware", "RemoveDuplicates" + "s" * 100])
def test_a_name_that_is_near_to_none_gets_none(written: str) -> None:
    assert nearest_name(written, KNOWN) is None


def test_a_name_longer_than_any_of_ours_is_not_compared() -> None:
    known = "x" * 100
    assert nearest_name(known, [known]) is None


def test_few_known_names_are_listed_and_many_are_not() -> None:
    assert did_you_mean("zzz", {"b", "a"}) == "known here: a, b"
    assert did_you_mean("zzz", {str(number) for number in range(9)}) == ""
    assert did_you_mean("zzz", set()) == ""


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("duplicates", "did you mean RemoveDuplicates? it"),
        ("remove", "did you mean RemoveDuplicates or RemoveFailedPods? it"),
        ("pod", "unknown; it"),  # three letters are in too many
    ],
)
def test_a_word_that_is_a_part_of_a_few_names_offers_them(written: str, meant: str) -> None:
    assert meant in not_one_of(written, KNOWN)
