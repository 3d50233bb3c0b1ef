import pytest

from reactive_desched.text.counts import agree, and_more, format_count, share, times


@pytest.mark.parametrize(
    ("count", "verbs", "text"),
    [
        (0, (), "0 pods"),
        (1, (), "1 pod"),
        (2, (), "2 pods"),
        (1200, (), "1,200 pods"),
        (1, ("is", "are"), "1 pod is"),
        (2, ("is", "are"), "2 pods are"),
    ],
)
def test_one_is_singular_and_the_verb_agrees(count: int, verbs: tuple[str, ...], text: str) -> None:
    assert format_count(count, "pod", *verbs) == text


@pytest.mark.parametrize(("count", "word"), [(0, "they are"), (1, "it is"), (2, "they are")])
def test_a_word_agrees_with_its_count(count: int, word: str) -> None:
    assert agree(count, "it is", "they are") == word


@pytest.mark.parametrize(("count", "often"), [(1, "once"), (2, "2 times"), (1200, "1,200 times")])
def test_once_is_a_word_and_further_times_are_counted(count: int, often: str) -> None:
    assert times(count) == often


@pytest.mark.parametrize(
    ("count", "what", "text"),
    [
        (1, "", "and 1 more"),
        (1200, "", "and 1,200 more"),
        (12, "row", "and 12 more rows"),
        (1, "row", "and 1 more row"),
    ],
)
def test_a_list_that_is_cut_counts_the_others(count: int, what: str, text: str) -> None:
    assert and_more(count, what) == text


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        pytest.param(0, 0, "\N{EN DASH}", id="of nothing"),
        pytest.param(0, 9, "0 %", id="none"),
        pytest.param(1, 999, "under 1 %", id="few"),
        pytest.param(1, 3, "33 %", id="a third"),
        pytest.param(999, 1000, "over 99 %", id="nearly all"),
        pytest.param(9, 9, "100 %", id="all"),
    ],
)
def test_a_share_is_0_or_100_percent_only_where_it_is_just_that(
    part: int, whole: int, text: str
) -> None:
    assert share(part, whole) == text
