import json
import mmap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.errors import ConfigError
from reactive_desched.plan import json_text
from reactive_desched.plan.json_text import JsonText
from tests.support.golden import Golden

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
spaces = st.text(" \t\r\n", max_size=3)


def everything(text: JsonText) -> list[Any]:
    found = []
    while text.next():
        found.append(json.loads(bytes(text.read_value())))
    return found


def walk(text: JsonText) -> list[tuple[str, Any]]:
    return [(key, json.loads(bytes(text.read_value()))) for key in text.members()]


@given(
    st.lists(st.tuples(values.filter(lambda v: isinstance(v, dict | list | str)), spaces)),
    st.sampled_from([None, 4]),
    st.integers(1, 40),
)
def test_values_in_a_row_are_taken_one_by_one_however_small_the_window(
    written: list[tuple[Any, str]], indent: int | None, window: int
) -> None:
    row = "".join(json.dumps(value, indent=indent) + space for value, space in written)

    assert everything(JsonText(row.encode(), "it", window)) == [value for value, _ in written]


@given(st.dictionaries(st.text(), values, max_size=5), st.sampled_from([None, 2]))
def test_an_object_is_walked_member_by_member(value: dict[str, Any], indent: int | None) -> None:
    text = JsonText(json.dumps(value, indent=indent).encode(), "it", window=8)
    assert text.next() == b"{"

    assert walk(text) == list(value.items())
    assert text.next() == b""


@given(st.lists(values, max_size=6), st.sampled_from([None, 2]))
def test_an_array_is_walked_element_by_element(value: list[Any], indent: int | None) -> None:
    text = JsonText(json.dumps(value, indent=indent).encode() + b" 7", "it", window=8)
    assert text.next() == b"["

    assert [json.loads(bytes(text.read_value())) for _ in text.elements()] == value
    assert everything(text) == [7]


def test_what_was_walked_can_be_taken_as_a_whole() -> None:
    text = JsonText(b' [0] {"a": [1]} ', "it")
    text.next(), text.read_value()
    begins = text.at if text.next() else 0
    for _ in text.members():
        text.read_value()

    assert bytes(text.slice_from(begins)) == b'{"a": [1]}'


def test_a_byte_order_mark_is_passed_over() -> None:
    assert everything(JsonText(b"\xef\xbb\xbf{}", "it")) == [{}]


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(b'{"a" 1}', id="no colon"),
        pytest.param(b'{"a": 1 "b": 2}', id="no comma"),
        pytest.param(b'{"a": [1, 2', id="cut short"),
        pytest.param(b'{"a": tru}', id="no word of JSON"),
        pytest.param(b'{"a": 1,}', id="a comma too many"),
        pytest.param(b'{"a": ' + b"[" * 200_000, id="too deep"),
        pytest.param(b'{"a\xff": 1}', id="not UTF-8"),
    ],
)
def test_what_is_no_json_is_named_with_its_byte(written: bytes, golden: Golden) -> None:
    text = JsonText(written, "cluster.json", window=4)
    text.next()
    with pytest.raises(ConfigError) as caught:
        walk(text)

    assert str(caught.value).startswith("cluster.json: not valid JSON at byte ")
    assert golden() in str(caught.value)


def test_a_mapped_file_is_given_back_to_the_system_behind_the_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_text, "_RELEASE_EVERY_BYTES", 4 * mmap.PAGESIZE)
    path = tmp_path / "rows"
    path.write_bytes(b"".join(b'{"n": %d}\n' % n for n in range(10_000)))
    with path.open("rb") as file:
        data = Remembering(file.fileno(), 0, access=mmap.ACCESS_READ)
    text = JsonText(data, "rows")

    assert [value["n"] for value in everything(text)] == list(range(10_000))
    assert len(data.given_back) > 4
    assert all(begins % mmap.PAGESIZE == 0 for _, begins, _ in data.given_back)
    ends = [begins + length for _, begins, length in data.given_back]
    assert [begins for _, begins, _ in data.given_back] == [0, *ends[:-1]]
    assert ends[-1] <= len(text)


class Remembering(mmap.mmap):
    """A map that remembers what it was advised."""

    given_back: list[tuple[int, int, int]]

    def __init__(self, *_: object, **__: object) -> None:
        self.given_back = []

    def madvise(self, option: int, start: int = 0, length: int = 0) -> None:
        self.given_back.append((option, start, length))
        super().madvise(option, start, length)


def test_a_comma_before_the_end_of_an_array_is_named(golden: Golden) -> None:
    array = JsonText(b"[1, 2, ]", "it")
    with pytest.raises(ConfigError) as caught:
        _ = [array.read_value() for _ in array.elements()]

    assert str(caught.value) == golden()
