import pytest

from reactive_desched.kube.watch.resume import ResumePoint, is_older


@pytest.mark.parametrize(
    ("version", "than", "verdict"),
    [
        pytest.param("9", "10", True, id="numbers, not texts"),
        pytest.param("10", "9", False, id="newer"),
        pytest.param("10", "10", False, id="the same"),
        pytest.param("", "10", False, id="no version says nothing"),
        pytest.param("a9", "b10", False, id="an opaque version is never older"),
        pytest.param("99999999999999999999", "100000000000000000000", True, id="large"),
    ],
)
def test_versions_are_compared_as_numbers(version: str, than: str, *, verdict: bool) -> None:
    assert is_older(version, than) is verdict


def test_a_bookmark_moves_on_but_never_back() -> None:
    place = ResumePoint()
    place.at_list("10")
    place.at_bookmark("12")
    place.at_bookmark("11")
    place.at_bookmark("")
    assert place.resource_version == "12"


def test_losing_the_place_does_not_forget_how_far_the_history_had_come() -> None:
    place = ResumePoint()
    place.at_list("10")
    place.reset()
    assert not place.can_resume
    assert [place.accepts("9") for _ in range(3)] == [False, False, True]


def test_what_watches_showed_counts_as_seen() -> None:
    place = ResumePoint()
    place.at_list("10")
    place.resource_version = "20"
    place.reset()
    assert not place.accepts("15")


def test_a_good_list_in_between_renews_the_doubt() -> None:
    place = ResumePoint()
    place.at_list("10")
    assert not place.accepts("9")
    assert place.accepts("11")
    assert [place.accepts("9") for _ in range(3)] == [False, False, True]
