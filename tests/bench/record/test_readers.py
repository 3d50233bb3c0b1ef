"""A client that reads the stream notices whatever is missing in it."""

import asyncio

from bench.record.readers import StreamReader, distinct_query
from reactive_desched.api.event import DATA_TYPES
from reactive_desched.journal.summary import check_types

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n19\r\nretry: 3000\n\n\r\n"


def frame(seq: int, kind: str = "eviction.succeeded") -> bytes:
    data = b'{"recordedtime":"2026-03-29T01:30:00.000000Z"}'
    return b"id: 0123abcd.%d\nevent: %s\ndata: %s\n\n" % (seq, kind.encode(), data)


def chunk(*frames: bytes) -> bytes:
    data = b"".join(frames)
    return b"%x\r\n%s\r\n" % (len(data), data)


def reader_of(stream: bytes, portion: int = 1 << 20) -> StreamReader:
    reader = StreamReader()
    for begin in range(0, len(stream), portion):
        reader.data_received(stream[begin : begin + portion])
    return reader


def test_a_reader_begins_at_the_first_heartbeat_and_counts_records_alone() -> None:
    stream = HEAD + chunk(frame(7, "heartbeat")) + chunk(frame(8), frame(9))
    reader = reader_of(stream + chunk(frame(9, "heartbeat")) + chunk(frame(10)))

    assert (reader.seq, reader.records, reader.gaps) == (10, 3, 0)


def test_it_does_not_matter_where_the_system_cuts_the_stream() -> None:
    stream = HEAD + chunk(frame(7, "heartbeat")) + chunk(frame(8), frame(9)) + chunk(frame(10))

    for portion in (1, 7, 64):
        reader = reader_of(stream, portion)
        assert (reader.seq, reader.records, reader.gaps) == (10, 3, 0)


def test_a_record_that_was_left_out_is_a_gap() -> None:
    reader = reader_of(HEAD + chunk(frame(7, "heartbeat")) + chunk(frame(8), frame(10)))

    assert reader.gaps == 1


def test_a_record_that_comes_twice_is_a_gap() -> None:
    reader = reader_of(HEAD + chunk(frame(7, "heartbeat")) + chunk(frame(8), frame(8)))

    assert reader.gaps == 1


def test_a_reset_is_a_gap() -> None:
    reader = reader_of(HEAD + chunk(frame(7, "heartbeat")) + chunk(frame(90, "reset")))

    assert reader.gaps == 1


def test_a_reader_waits_until_it_has_seen_the_last() -> None:
    async def reached() -> bool:
        reader = reader_of(HEAD + chunk(frame(7, "heartbeat")) + chunk(frame(8)))
        waiting = asyncio.create_task(reader.wait_for_seq(9))
        await asyncio.sleep(0)
        early = waiting.done()
        reader.data_received(chunk(frame(9)))
        await waiting
        return early

    assert asyncio.run(reached()) is False


def test_no_two_clients_that_ask_apart_ask_for_the_same() -> None:
    asked = [
        frozenset(distinct_query(number).removeprefix("?type=").split(",")) for number in range(256)
    ]

    assert len(set(asked)) == 256
    for words in asked:
        check_types(tuple(words), tuple(DATA_TYPES))
