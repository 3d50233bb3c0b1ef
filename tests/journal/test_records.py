from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from reactive_desched.api import event as api
from reactive_desched.errors import JournalError
from reactive_desched.journal.event_builder import Correlation, build_event
from reactive_desched.journal.events import decode_event
from reactive_desched.journal.records import (
    GENESIS,
    AnyEvent,
    digest,
    encode,
    format_line,
    parse_header,
)

NOW = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)


def changed_leader(holder: str) -> AnyEvent:
    return told(api.LEADER_CHANGED, api.LeaderChanged(holder=holder, previous="", transitions=1))


def told(type_: str, data: Any) -> AnyEvent:
    story = Correlation("case", "subject", "key")
    return build_event(
        "//k/descheduler/h/1", type_, story, NOW, data, id_="id", causation_id="cause"
    )


def whole(event_: AnyEvent) -> bytes:
    return format_line(encode(event_), GENESIS, "2026-03-29T01:30:00.000000Z", 7)


def test_a_line_is_its_event_with_its_place_link_and_time() -> None:
    raw = whole(changed_leader("a"))

    found = parse_header(raw)
    read = decode_event(api.LEADER_CHANGED, raw)

    assert found is not None
    assert (found.seq, found.prev, found.type) == (7, GENESIS, api.LEADER_CHANGED)
    assert read == msgspec.structs.replace(
        changed_leader("a"),
        sequence=f"{7:020}",
        prev=GENESIS,
        recordedtime="2026-03-29T01:30:00.000000Z",
    )
    assert digest(raw) != digest(whole(changed_leader("b")))


def test_data_that_looks_like_the_stamps_is_left_as_it_is() -> None:
    numbers: dict[str, int | str] = {"prev": "", "recordedtime": "", "sequence": "", "z": 1}
    data = api.FindingMade(
        mode=api.MODE_LIVE,
        trigger=api.Cause(change="", object="", resource_version=""),
        what=api.What(action="evict"),
        who=api.Who(name="", namespace="", node="", owners=(), uid="", zone=""),
        why=api.Why(message="", numbers=numbers, plugin="", policy_revision="", profile=""),
    )
    raw = whole(told(api.FINDING_MADE, data))

    found, read = parse_header(raw), decode_event(api.FINDING_MADE, raw)

    assert found is not None
    assert found.seq == 7
    assert read is not None
    assert read.data.why.numbers == numbers


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b'{"prev":"","type":"t"}', id="no place"),
        pytest.param(b'{"prev":"","sequence":"7","type":"t"}', id="a place of few digits"),
        pytest.param(b'{"prev":"","sequence":"0000000000000000000x","type":"t"}', id="no number"),
        pytest.param(b'{"prev":"","sequence":"00000000000000000007","type":"t"', id="torn"),
        pytest.param(b'\xff{"prev":"","sequence":"00000000000000000007","type":"t"}', id="no text"),
    ],
)
def test_what_is_no_record_has_no_place(raw: bytes) -> None:
    assert parse_header(raw) is None


def test_what_no_reader_takes_is_refused() -> None:
    with pytest.raises(JournalError, match="too long"):
        encode(changed_leader("x" * (1 << 18)))
    with pytest.raises(JournalError, match="not Unicode"):
        encode(changed_leader("\udc80"))
