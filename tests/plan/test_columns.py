import pytest

from reactive_desched.plan.columns import align
from tests.support.golden import Golden

ROWS = [["POD", "NODE", "REASON"], ["shop/cart", "n1", "one two three four five six seven eight"]]


def test_columns_line_up_and_rows_keep_to_one_line_without_a_width(golden: Golden) -> None:
    assert list(align(ROWS)) == [
        "  POD        NODE  REASON",
        golden(),
    ]


def test_numbers_stand_to_the_right() -> None:
    rows = [["", "EVICT"], ["all", "12"], ["a", "3"]]

    assert list(align(rows, numbers=True, indent="")) == [
        "     EVICT",
        "all     12",
        "a        3",
    ]


def test_a_long_last_column_is_folded_in_its_place(golden: Golden) -> None:
    assert list(align(ROWS, width=52))[1:] == [
        golden(),
        "                   eight",
    ]


def test_where_there_is_no_room_it_goes_below_its_row(golden: Golden) -> None:
    assert list(align(ROWS, width=30))[1:] == [
        "  shop/cart  n1",
        golden(),
    ]


@pytest.mark.parametrize("width", [None, 40])
def test_no_rows_are_no_lines(width: int | None) -> None:
    assert list(align([], width=width)) == []


def test_columns_that_do_not_fit_go_below_their_row_with_the_last() -> None:
    rows = [
        ["POD", "NODE", "PLUGIN", "SINCE", "MESSAGE"],
        ["shop/cart-6d4b75cb6d-x7k2p", "node-1", "RemovePodsViolatingNodeTaints", "2s", "no room"],
    ]

    assert list(align(rows, width=64, indent="")) == [
        "POD                         NODE",
        "      PLUGIN  SINCE  MESSAGE",
        "shop/cart-6d4b75cb6d-x7k2p  node-1",
        "      RemovePodsViolatingNodeTaints  2s  no room",
    ]


@pytest.mark.parametrize("width", [60, 66, 80, 100, 120])
def test_no_line_is_wider_than_the_width_and_no_word_is_lost(width: int) -> None:
    rows = [[f"{'x' * (7 * column + row)}-{column}" for column in range(7)] for row in range(4)]

    lines = list(align(rows, width=width))

    assert max(map(len, lines)) <= width
    assert " ".join(lines).split() == [cell for row in rows for cell in row]
