"""Journal lines as Kafka messages, by the Kafka binding of CloudEvents."""

from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from reactive_desched.api.event import CHECKPOINT

CONTENT_TYPE: Final = "content-type"
STRUCTURED: Final = b"application/cloudevents+json"
_ATTRIBUTE: Final = "ce_"

Header = tuple[str, bytes]

_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_text: Final = msgspec.json.Decoder(str)


class KafkaMessage(NamedTuple):
    """The message for one event; its time is when it was recorded, in milliseconds."""

    key: bytes
    value: bytes
    headers: list[Header]
    timestamp_ms: int
    is_checkpoint: bool


def to_kafka_message(line: bytes, *, binary: bool) -> KafkaMessage:
    """Return the message of a line.

    Both ways each attribute is a header. The value is the line itself, or in binary mode the data
    alone. What is no event raises ValueError, KeyError, OverflowError or another error of decoding.
    """
    members = _members.decode(line)
    data = members.pop("data")
    texts = {name: _text.decode(raw) for name, raw in members.items()}
    data_type = texts.pop("datacontenttype")
    headers = [(_ATTRIBUTE + name, text.encode()) for name, text in texts.items()]
    headers.append((CONTENT_TYPE, data_type.encode() if binary else STRUCTURED))
    return KafkaMessage(
        key=texts["partitionkey"].encode(),
        value=bytes(data) if binary else line,
        headers=headers,
        timestamp_ms=int(datetime.fromisoformat(texts["recordedtime"]).timestamp() * 1000),
        is_checkpoint=texts["type"] == CHECKPOINT,
    )
