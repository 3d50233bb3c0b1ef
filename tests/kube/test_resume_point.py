import pytest

from reactive_desched.kube.watch.resume_point import Place, older


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
    assert older(version, than) is verdict


def test_a_bookmark_moves_on_but_never_back() -> None:
    place = Place()
    place.listed("10")
    place.bookmarked("12")
    place.bookmarked("11")
    place.bookmarked("")
    assert place.version == "12"


def test_losing_the_place_does_not_forget_how_far_the_history_had_come() -> None:
    place = Place()
    place.listed("10")
    place.lose()
    assert not place.known
    assert [place.believes("9") for _ in range(3)] == [False, False, True]


def test_what_watches_told_counts_as_seen() -> None:
    place = Place()
    place.listed("10")
    place.version = "20"
    place.lose()
    assert not place.believes("15")


def test_a_good_list_in_between_renews_the_doubt() -> None:
    place = Place()
    place.listed("10")
    assert not place.believes("9")
    assert place.believes("11")
    assert [place.believes("9") for _ in range(3)] == [False, False, True]
