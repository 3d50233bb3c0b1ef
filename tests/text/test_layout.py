import io

import pytest

from reactive_desched.text.layout import (
    TextLayout,
    align,
    fold,
    hanging_indent,
    layout_for,
    titled,
)
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


def test_no_name_is_broken_at_a_hyphen() -> None:
    name = "shop/cart-6d4b75cb6d-x7k2p"

    lines = list(align([["POD", f"one two three four {name}"]], width=44, indent=""))

    assert lines == ["POD  one two three four", f"     {name}"]


WORDS = ["a" * 9] * 7


def test_a_text_hangs_behind_its_head_or_goes_below_it() -> None:
    text = " ".join(WORDS)

    assert list(hanging_indent("head: ", text, TextLayout(width=60))) == [
        f"head: {' '.join(WORDS[:5])}",
        f"      {' '.join(WORDS[5:])}",
    ]
    assert list(hanging_indent(f"{'x' * 40}: ", text, TextLayout(width=60))) == [
        f"{'x' * 40}:",
        f"      {' '.join(WORDS[:5])}",
        f"      {' '.join(WORDS[5:])}",
    ]
    assert list(hanging_indent("head: ", text, TextLayout())) == [f"head: {text}"]


def test_a_line_is_folded_deeper_than_it_is_indented() -> None:
    line = f"  {' '.join(WORDS)}"

    assert list(fold(line, TextLayout(width=60))) == [
        f"  {' '.join(WORDS[:5])}",
        f"      {' '.join(WORDS[5:])}",
    ]
    assert list(fold(line, TextLayout())) == [line]


def test_a_titled_text_keeps_its_column_and_its_style_on_every_line() -> None:
    lines = list(titled("mode", " ".join(WORDS), TextLayout(60, colours=True), width=8, style="31"))

    assert lines == [
        f"\x1b[1mmode    \x1b[0m\x1b[31m{' '.join(WORDS[:5])}\x1b[0m",
        f"        \x1b[31m{' '.join(WORDS[5:])}\x1b[0m",
    ]
    assert list(titled("mode", "live", TextLayout(), width=8, style="31")) == ["mode    live"]
    assert list(titled("", "live", TextLayout(), width=8)) == ["        live"]


def test_what_is_piped_is_neither_folded_nor_coloured() -> None:
    assert layout_for(io.StringIO()) == TextLayout()
