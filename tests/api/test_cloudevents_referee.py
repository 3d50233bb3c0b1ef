"""Others read our events: the CloudEvents SDK takes each, canonical JSON gives the same bytes."""

import json
from typing import Any

import msgspec
import pytest
from cloudevents.core.exceptions import CloudEventValidationError
from cloudevents.core.formats.json import JSONFormat
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.api.event import FINDING_MADE
from reactive_desched.errors import JournalError
from reactive_desched.journal.events import decode_event
from reactive_desched.journal.records import AnyEvent, digest, encode, format_line
from tests.support.journals import some_events

FINDING = next(each for each in some_events(100) if each.type == FINDING_MADE)
BMP_KEYS = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]))
EXACT = st.integers(-(2**53) + 1, 2**53 - 1)
"""What a double holds exactly: RFC 8785 writes other numbers differently."""


def finding(message: str, numbers: dict[str, int | str]) -> AnyEvent:
    """Return a finding that says this."""
    why = msgspec.structs.replace(FINDING.data.why, message=message, numbers=numbers)
    data = msgspec.structs.replace(FINDING.data, why=why)
    return msgspec.structs.replace(FINDING, data=data)


def written(found: AnyEvent) -> bytes:
    """Return its line."""
    return format_line(encode(found), digest(b"before"), "2026-11-20T12:00:00.000001Z", 42)


def canonical(value: Any) -> str:
    """Write JSON by RFC 8785, for whole numbers: sort keys by their UTF-16 units."""
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join(f"{_text(name)}:{canonical(value[name])}" for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    return _text(value) if isinstance(value, str) else json.dumps(value)


def _text(value: str) -> str:
    """Escape what must be, the short way where there is one, and nothing else."""
    short = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}
    escapes = {code: f"\\u{code:04x}" for code in range(32)} | short
    return f'"{value.translate(escapes)}"'


def test_the_cloudevents_sdk_takes_every_event(lines: list[bytes]) -> None:
    for raw in lines:
        ours = json.loads(raw)
        taken = JSONFormat().read(None, raw)

        assert taken.get_specversion() == "1.0"
        assert (taken.get_source(), taken.get_id()) == (ours["source"], ours["id"])
        assert (taken.get_type(), taken.get_subject()) == (ours["type"], ours["subject"])
        assert taken.get_dataschema() == ours["dataschema"]
        assert taken.get_data() == ours["data"]
        for name in ("sequence", "partitionkey", "prev", "recordedtime", "traceparent"):
            assert taken.get_extension(name) == ours[name]


def test_the_referee_refuses_what_is_no_event(lines: list[bytes]) -> None:
    spoiled = json.loads(lines[0]) | {"not_a_name": "x"}

    with pytest.raises(CloudEventValidationError):
        JSONFormat().read(None, json.dumps(spoiled))


def test_every_line_is_canonical(lines: list[bytes]) -> None:
    for raw in lines:
        assert canonical(json.loads(raw)).encode() == raw


@given(st.text(), st.dictionaries(BMP_KEYS, EXACT | st.text()))
def test_parsing_and_writing_canonically_gives_the_same_bytes(
    reason: str, numbers: dict[str, int | str]
) -> None:
    raw = written(finding(reason, numbers))
    parsed = json.loads(raw)
    plain = json.dumps(parsed, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    assert plain.encode() == raw
    assert canonical(parsed).encode() == raw


@given(st.text(), st.dictionaries(st.text(), st.integers(-(2**63), 2**63 - 1) | st.text()))
def test_whatever_an_event_says_is_read_back_the_same(
    reason: str, numbers: dict[str, int | str]
) -> None:
    said = finding(reason, numbers)
    found = decode_event(FINDING_MADE, written(said))

    assert found is not None
    assert found.data == said.data


@pytest.mark.parametrize(
    "text", ["\x00\x1f\x7f\n\t", "\u2028\u2029</script>", '"\\/', "😀é\u0301", "\ufeff\ufffe\uffff"]
)
def test_text_that_others_escape_differently_is_canonical(text: str) -> None:
    raw = written(finding(text, {"a": text}))

    assert canonical(json.loads(raw)).encode() == raw
    assert json.loads(raw)["data"]["why"]["message"] == text


def test_half_a_character_is_refused_before_it_is_written() -> None:
    with pytest.raises(JournalError, match="not Unicode"):
        encode(finding("\ud83d", {}))


def test_only_names_beyond_the_basic_plane_would_be_sorted_otherwise() -> None:
    """We sort by code points, RFC 8785 by UTF-16 units; the page says that names are ASCII."""
    raw = written(finding("", {"\uff5e": 1, "😀": 2}))
    parsed = json.loads(raw)

    assert canonical(parsed).encode() != raw
    plain = json.dumps(parsed, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert plain.encode() == raw
