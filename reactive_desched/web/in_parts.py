"""Encodes and sends a long answer part by part: at once either would hold the event loop.

A page of all findings of a large cluster has megabytes: to encode it at once, to copy it and to
encrypt it holds the event loop for tens of milliseconds.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final

from aiohttp.web_request import BaseRequest
from aiohttp.web_response import StreamResponse
from anyio.lowlevel import checkpoint
from msgspec import Raw, Struct
from msgspec.json import encode
from msgspec.structs import replace

from reactive_desched.web.connections import add_security_headers

PART_ENTRIES: Final = 32
"""So many entries of a list are one part."""

PART_BYTES: Final = 1 << 15
"""So long is a part of an answer that is JSON already."""

_PLACE: Final = b"\xff"
"""Stands for a long list: no byte of a text in UTF-8."""


async def send_in_parts(
    request: BaseRequest, parts: Iterable[bytes | bytearray], headers: Mapping[str, str]
) -> StreamResponse:
    """Answer with all these parts, each rendered when the one before is sent.

    Between two parts other tasks have their turn, and a client that reads slowly is waited for.
    """
    response = StreamResponse(status=HTTPStatus.OK, headers=headers)
    add_security_headers(response)
    with suppress(ConnectionError):  # a client that has gone is no fault
        await response.prepare(request)
        for part in () if request.method == "HEAD" else parts:
            if part:
                await response.write(part)
            await checkpoint()
        await response.write_eof()
    return response


def json_parts(answer: object) -> Iterator[bytes]:
    """Yield an answer as JSON: what `msgspec.json.encode` returns, in parts.

    Only the answer itself and its members are looked at: a list in an entry of a list is encoded
    with it.
    """
    if isinstance(answer, Raw):
        whole = memoryview(answer)
        yield from (bytes(whole[at : at + PART_BYTES]) for at in range(0, len(whole), PART_BYTES))
        return
    long_lists = [(name, value) for name, value in _members(answer) if _is_long(value)]
    texts = iter(encode(_with_places(answer, long_lists)).split(_PLACE))
    text = next(texts)
    for (_, entries), following in zip(long_lists, texts, strict=True):
        yield from _list_parts(entries, text)
        text = following
    yield text


def _members(answer: object) -> Iterator[tuple[str, Any]]:  # Any: whatever an answer holds
    """Yield what an answer holds, by name, in the order in which it is encoded."""
    if isinstance(answer, Struct):
        yield from ((name, getattr(answer, name)) for name in answer.__struct_fields__)
    elif isinstance(answer, Mapping):
        yield from answer.items()
    elif _is_long(answer):
        yield "", answer


def _is_long(value: object) -> bool:
    return isinstance(value, list | tuple) and len(value) > PART_ENTRIES


def _with_places(answer: object, long_lists: Sequence[tuple[str, object]]) -> object:
    """Return the answer with a place for each of its long lists."""
    places = {name: Raw(_PLACE) for name, _ in long_lists}
    if isinstance(answer, Struct):
        return replace(answer, **places)
    return {**answer, **places} if isinstance(answer, Mapping) else places.get("", answer)


def _list_parts(entries: Sequence[object], before: bytes) -> Iterator[bytes]:
    """Yield a list in parts, behind the text before it."""
    opening = before + b"["
    for first in range(0, len(entries), PART_ENTRIES):
        yield opening + encode(entries[first : first + PART_ENTRIES])[1:-1]
        opening = b","
    yield b"]"
