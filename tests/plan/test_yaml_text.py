import io
import json
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # it ships no types
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.errors import ConfigError
from reactive_desched.plan import yaml_text
from reactive_desched.plan.yaml_text import yaml_to_json
from tests.support.golden import Golden


def read(text: str | bytes) -> list[Any]:
    """Return what the JSON of each document of a YAML text says."""
    written = io.BytesIO()
    source = io.BytesIO(text.encode() if isinstance(text, str) else text)
    yaml_to_json(source, written, "it.yaml", lambda _: None)
    return [json.loads(line) for line in written.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        pytest.param("2026-05-01T12:00:00Z", "2026-05-01T12:00:00Z", id="a timestamp is a text"),
        pytest.param("2026-05-01", "2026-05-01", id="a date is a text"),
        pytest.param("1:30", "1:30", id="no number to the base sixty"),
        pytest.param("0777", 511, id="octal"),
        pytest.param("0o17", 15, id="octal in its newer form"),
        pytest.param("0x1F", 31, id="hexadecimal"),
        pytest.param("-0b11", -3, id="binary"),
        pytest.param("1_000", 1000, id="with underscores"),
        pytest.param("00000008", 8, id="no octal number"),
        pytest.param("-12", -12, id="negative"),
        pytest.param("+3", 3, id="with a plus"),
        pytest.param("0.10", 0.1, id="a fraction"),
        pytest.param(".5", 0.5, id="a fraction without a zero"),
        pytest.param("1.", 1.0, id="a fraction that ends early"),
        pytest.param("1e3", 1000.0, id="with an exponent"),
        pytest.param("1.e999", "1.e999", id="too big for a fraction"),
        pytest.param("0x_", "0x_", id="no digits"),
        pytest.param("100m", "100m", id="a quantity"),
        pytest.param("v1", "v1", id="a word"),
        pytest.param("yes", True, id="yes"),
        pytest.param("Off", False, id="off"),
        pytest.param("~", None, id="a tilde"),
        pytest.param("", None, id="nothing"),
        pytest.param("y", True, id="one letter"),
        pytest.param("!!binary aGk=", "hi", id="as base64"),
        pytest.param("!mine 5", "5", id="with a tag of one's own"),
        pytest.param("'yes'", "yes", id="quoted"),
        pytest.param('"5"', "5", id="quoted twice"),
        pytest.param("!!str 5", "5", id="called a text"),
        pytest.param("|\n  two\n  lines\n", "two\nlines\n", id="a block"),
    ],
)
def test_a_scalar_means_what_it_means_to_kubectl(written: str, meant: Any) -> None:
    assert read(f"a: {written}\n") == [{"a": meant}]


def test_keys_are_the_texts_that_kubectl_makes_of_them() -> None:
    assert read("1: a\nyes: b\n0x10: c\n'no': d\n") == [
        {"1": "a", "true": "b", "16": "c", "no": "d"}
    ]


def test_empty_collections_and_empty_documents_are_kept() -> None:
    assert read("a: {}\nb: []\nc: [[], {}]\n---\n---\nd: 1\n") == [
        {"a": {}, "b": [], "c": [[], {}]},
        None,
        {"d": 1},
    ]


texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")))
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


class Quoting(yaml.SafeDumper):  # type: ignore[misc]  # it ships no types
    """Quotes every text, as kubectl does with those that could be misread."""


Quoting.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')
)


@given(st.lists(st.dictionaries(texts, values), min_size=1), st.booleans())
def test_what_was_written_is_read(documents: list[Any], flow: bool) -> None:  # noqa: FBT001 -- drawn
    text = yaml.dump_all(documents, Dumper=Quoting, allow_unicode=True, default_flow_style=flow)

    assert read(text) == documents


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "a: 1\n b: 2\n",
            id="indented",
        ),
        pytest.param("a: [1\n", id="never closed"),
        pytest.param("a: &x 1\nb: *x\n", id="an alias"),
        pytest.param("a: !!binary a\n", id="a tag that is wrong"),
        pytest.param("a: .inf\n", id="endless"),
        pytest.param("a:\n  <<: {b: 1}\n", id="a merge key"),
        pytest.param("null: 1\n", id="nothing as a key"),
        pytest.param("a: b\n\tc: d\n", id="a tab"),
        pytest.param("a: b\n---\n{{ c }}: d\n- e\n", id="a template"),
        pytest.param("a: é\x07\n", id="a control character"),
        pytest.param("[a]: 1\n", id="a list as a key"),
        pytest.param(b"a: \xff\n", id="not UTF-8"),
    ],
)
def test_what_cannot_be_read_is_named_with_line_and_column(
    text: str | bytes, golden: Golden
) -> None:
    with pytest.raises(ConfigError) as caught:
        read(text)

    assert str(caught.value) == golden()


def test_a_long_text_is_written_in_parts_and_progress_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(yaml_text, "_FLUSH_AFTER_PARTS", 3)
    monkeypatch.setattr(yaml_text, "MAX_CACHED_SCALARS", 2)
    told: list[int] = []
    written = io.BytesIO()
    rows = [{"m": n, "of": [n, {}, []]} for n in range(40)]
    yaml_to_json(io.BytesIO(yaml.safe_dump(rows).encode()), written, "it", told.append)

    assert json.loads(written.getvalue()) == rows
    assert told == sorted(told)
    assert len(told) > 40


def test_what_is_remembered_of_scalars_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_text, "MAX_CACHED_SCALARS", 2)
    writer = yaml_text._JsonWriter("it")

    assert [writer._cached_scalar(str(number)) for number in range(9)] == list("012345678")
    assert len(writer._scalar_cache) <= 2


def test_a_merge_conflict_is_named_with_its_line(golden: Golden) -> None:
    with pytest.raises(ConfigError) as caught:
        read("a: 1\n<<<<<<< HEAD\nb: 2\n=======\nb: 3\n>>>>>>> theirs\n")

    assert str(caught.value) == golden()
