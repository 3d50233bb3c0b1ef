import pytest

from reactive_desched.plan.columns import align

ROWS = [["POD", "NODE", "REASON"], ["shop/cart", "n1", "one two three four five six seven eight"]]


def test_columns_line_up_and_rows_keep_to_one_line_without_a_width() -> None:
    assert list(align(ROWS)) == [
        "  POD        NODE  REASON",
        "  shop/cart  n1    one two three four five six seven eight",
    ]


def test_numbers_stand_to_the_right() -> None:
    rows = [["", "EVICT"], ["all", "12"], ["a", "3"]]

    assert list(align(rows, numbers=True, indent="")) == [
        "     EVICT",
        "all     12",
        "a        3",
    ]


def test_a_long_last_column_is_folded_in_its_place() -> None:
    assert list(align(ROWS, width=52))[1:] == [
        "  shop/cart  n1    one two three four five six seven",
        "                   eight",
    ]


def test_where_there_is_no_room_it_goes_below_its_row() -> None:
    assert list(align(ROWS, width=30))[1:] == [
        "  shop/cart  n1",
        "      one two three four five six seven eight",
    ]


@pytest.mark.parametrize("width", [None, 40])
def test_no_rows_are_no_lines(width: int | None) -> None:
    assert list(align([], width=width)) == []
