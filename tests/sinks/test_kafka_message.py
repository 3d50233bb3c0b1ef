from datetime import UTC, datetime

import msgspec
import pytest
from cloudevents.core.bindings.kafka import KafkaMessage, from_binary, from_structured
from cloudevents.core.formats.json import JSONFormat

from reactive_desched.api.event import CHECKPOINT, EVICTION_SUCCEEDED, Checkpoint
from reactive_desched.sinks.kafka.message import CONTENT_TYPE, to_kafka_message
from tests.support.entries import entry, outcome_data
from tests.support.kafka_lines import to_journal_line

EVICTED = entry(
    EVICTION_SUCCEEDED, outcome_data("evicted", 'he said "no" \\ \n \u2028 \U0001f600'), 41
)


def test_a_structured_message_is_the_line_itself() -> None:
    sent = to_kafka_message(EVICTED.raw, binary=False)

    assert sent.value == EVICTED.raw
    assert dict(sent.headers)[CONTENT_TYPE] == b"application/cloudevents+json"
    assert to_journal_line(sent.value, sent.headers) == EVICTED.raw


def test_of_a_binary_message_the_line_can_be_put_together_again_byte_for_byte() -> None:
    sent = to_kafka_message(EVICTED.raw, binary=True)

    assert dict(sent.headers)[CONTENT_TYPE] == b"application/json"
    assert msgspec.json.decode(sent.value) == msgspec.json.decode(EVICTED.raw)["data"]
    assert to_journal_line(sent.value, sent.headers) == EVICTED.raw


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "structured"])
def test_every_attribute_is_a_header(*, binary: bool) -> None:
    sent = to_kafka_message(EVICTED.raw, binary=binary)

    attributes = msgspec.json.decode(EVICTED.raw)
    del attributes["data"], attributes["datacontenttype"]
    headers = {name: text.decode() for name, text in sent.headers if name != CONTENT_TYPE}
    assert headers == {f"ce_{name}": text for name, text in attributes.items()}


def test_key_and_time_are_the_partition_key_and_when_it_was_recorded() -> None:
    sent = to_kafka_message(EVICTED.raw, binary=False)

    attributes = msgspec.json.decode(EVICTED.raw)
    recorded = datetime.fromisoformat(attributes["recordedtime"])
    assert sent.key.decode() == attributes["partitionkey"]
    assert datetime.fromtimestamp(sent.timestamp_ms / 1000, UTC) == recorded


def test_checkpoints_are_distinguished() -> None:
    checkpoint = entry(CHECKPOINT, Checkpoint(note="n", root="0" * 64, size=1, unrecorded=0))

    assert to_kafka_message(checkpoint.raw, binary=False).is_checkpoint
    assert not to_kafka_message(EVICTED.raw, binary=False).is_checkpoint


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "structured"])
def test_another_implementation_of_cloudevents_reads_it(*, binary: bool) -> None:
    sent = to_kafka_message(EVICTED.raw, binary=binary)

    read = from_binary if binary else from_structured
    theirs = read(KafkaMessage(dict(sent.headers), sent.key, sent.value), JSONFormat())

    ours = msgspec.json.decode(EVICTED.raw)
    assert theirs.get_id() == ours["id"]
    assert theirs.get_type() == ours["type"]
    assert theirs.get_subject() == "shop/web"
    assert theirs.get_data() == ours["data"]
    assert theirs.get_extension("sequence") == ours["sequence"]
