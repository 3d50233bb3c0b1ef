"""Server-sent events as they come over the wire."""

import pytest

from reactive_desched.cli.sse import ServerSentEvent, SseReader
from reactive_desched.errors import StreamFailed
from tests.support.golden import Golden

TEXT = (
    b'retry: 3000\r\n\r\n: hello\nid: a.1\nevent: finding.made\ndata: {"x":1}\n\n'
    b"id: a.2\n\ndata:two\ndata: lines\n\nid: bad\0id\nevent: heartbeat\ndata: {}\n\ndata: torn"
)
EVENTS = [
    ("a.1", "finding.made", b'{"x":1}'),
    ("a.2", "message", b"two\nlines"),
    ("a.2", "heartbeat", b"{}"),
]


def read(*pieces: bytes, longest: int = 1000) -> list[ServerSentEvent]:
    reader = SseReader(longest)
    return [event for piece in pieces for event in reader.feed(piece)]


def single(text: bytes) -> list[bytes]:
    return [bytes([byte]) for byte in text]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_stream_reads_the_same_however_its_lines_end_and_however_it_is_cut_into_pieces(
    end: bytes, mark: bytes
) -> None:
    text = mark + TEXT.replace(b"\r\n", b"\n").replace(b"\n", end)

    assert read(text) == EVENTS
    assert read(*single(text)) == EVENTS
    for cut in range(len(text)):
        assert read(text[:cut], b"", text[cut:]) == EVENTS


def test_line_ends_may_differ_within_a_stream() -> None:
    assert read(TEXT) == EVENTS
    assert read(*single(TEXT)) == EVENTS


def test_a_byte_order_mark_is_skipped_at_the_very_beginning_only() -> None:
    mark = b"\xef\xbb\xbf"

    assert read(mark + b"data: 1\n\n") == [("", "message", b"1")]
    assert read(b"\n" + mark + b"data: 1\n\ndata: 2\n\n") == [("", "message", b"2")]
    assert read(b"data: " + mark + b"\n\n") == [("", "message", mark)]


def test_an_event_that_ends_with_cr_is_there_at_once() -> None:
    assert read(b"data: 1\r\r") == [("", "message", b"1")]
    assert read(b"data: 1\r\n\r") == [("", "message", b"1")]
    assert read(b"data: 1\r\n\r", b"", b"\ndata: 2\r", b"\ndata: 3\r\r") == [
        ("", "message", b"1"),
        ("", "message", b"2\n3"),
    ]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        pytest.param(b"data: " + b"x" * 100, "a line", id="a line without an end"),
        pytest.param(b"data: x\n" * 51, "an event", id="an event without an end"),
        pytest.param(b"data:\n" * 101, "an event", id="an event of empty lines"),
    ],
)
def test_what_has_no_end_is_not_gathered(text: bytes, what: str, golden: Golden) -> None:
    for pieces in ([text], single(text)):
        with pytest.raises(StreamFailed) as caught:
            read(*pieces, longest=100)

        assert golden(what=what) in str(caught.value)


def test_what_is_as_long_as_may_be_is_taken() -> None:
    value = b"x" * 94
    assert read(*single(b"data: " + value + b"\n\n") * 20, longest=100) == (
        [("", "message", value)] * 20
    )
