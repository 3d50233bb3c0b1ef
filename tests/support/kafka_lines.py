"""The journal's line of a Kafka message: what a consumer of the topic can restore."""

from collections.abc import Iterable
from typing import Final

import msgspec

from reactive_desched.sinks.kafka.message import CONTENT_TYPE, STRUCTURED, Header

_ATTRIBUTE: Final = "ce_"


def to_journal_line(value: bytes, headers: Iterable[Header]) -> bytes:
    """Return the journal's line of a message of either mode, byte for byte."""
    texts = dict(headers)
    content_type = texts.pop(CONTENT_TYPE)
    if content_type == STRUCTURED:
        return value
    members = {name.removeprefix(_ATTRIBUTE): _to_json_string(text) for name, text in texts.items()}
    members["data"] = value
    members["datacontenttype"] = _to_json_string(content_type)
    return b"{" + b",".join(b'"%s":%s' % (n.encode(), members[n]) for n in sorted(members)) + b"}"


def _to_json_string(text: bytes) -> bytes:
    return msgspec.json.encode(text.decode())
