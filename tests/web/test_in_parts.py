"""An answer in parts is the same JSON as at once, and no part is long."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from reactive_desched.web.in_parts import PART_ENTRIES, json_parts


class Row(Struct, frozen=True, rename="camel", omit_defaults=True):
    pod_name: str
    since: datetime | None = None


class Page(Struct, frozen=True, rename="camel", omit_defaults=True):
    total_rows: int
    first_rows: tuple[Row, ...] = ()
    by_gate: dict[str, int] = {}  # msgspec copies an empty one
    last_rows: tuple[Row, ...] = ()
    note: str = ""


class Tagged(Struct, frozen=True, tag="page"):
    rows: list[Row]


rows = st.builds(Row, st.text(), st.none() | st.just(datetime(2026, 1, 21, tzinfo=UTC)))
lists = st.lists(rows, max_size=3 * PART_ENTRIES)
tuples = lists.map(tuple)
counts = st.dictionaries(st.text(), st.integers(0, 9), max_size=3)
answers = (
    st.builds(Page, st.integers(0, 9), tuples, counts, tuples, st.text())
    | st.builds(Tagged, lists)
    | st.dictionaries(st.text(), lists | st.text() | st.none(), max_size=4)
    | lists
    | tuples
    | st.none()
    | st.text()
)


@given(answers)
def test_parts_are_together_what_is_encoded_at_once(answer: Any) -> None:
    assert b"".join(json_parts(answer)) == msgspec.json.encode(answer)


@pytest.mark.parametrize(
    "text", ["\xff", "\\u00ff", "þÿ", "\udcff".encode(errors="replace").decode()]
)
def test_no_text_is_taken_for_the_place_of_a_list(text: str) -> None:
    answer = Page(1, (Row(text),) * (PART_ENTRIES + 1), {text: 1}, note=text)

    assert b"".join(json_parts(answer)) == msgspec.json.encode(answer)


def test_no_part_has_more_than_a_few_entries() -> None:
    row = Row("a" * 100)
    longest = PART_ENTRIES * (len(msgspec.json.encode(row)) + 1) + 100

    parts = list(json_parts(Page(10_000, (row,) * 10_000, last_rows=(row,) * 500)))

    assert max(map(len, parts)) <= longest
