"""What tenants and webhooks write reaches collectors and brokers cut, and as text on one line."""

import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest
from msgspec.structs import replace

from reactive_desched.api import event as api
from reactive_desched.journal.event_builder import (
    follow_up_payload,
    outcome_payload,
    who_payload,
    why_payload,
)
from reactive_desched.journal.events import decode_event
from reactive_desched.journal.records import MAX_RECORD_BYTES, JournalRecord
from reactive_desched.model.evaluation import DecisionContext
from reactive_desched.model.findings import Finding
from reactive_desched.model.moves import MoveEnd
from reactive_desched.model.objects import Pod
from reactive_desched.model.outcomes import Outcome
from reactive_desched.policy.settings.otlp import OtlpSettings
from reactive_desched.primitives.bounded_text import MAX_NAME_CHARS, MAX_TEXT_CHARS
from reactive_desched.sinks.kafka.message import to_kafka_message
from reactive_desched.sinks.otlp.spans import CaseSpans
from reactive_desched.state.kinds.interning import InternTables
from tests.support.codecs import make_codecs
from tests.support.entries import entry, followed_up_data, outcome_data

WRITTEN: Final = "\x1b[31m\x1b]0;owned\x07<script>|`*\r\n\u202egnp.exe\u202c\x9b2J\x00\u2028"
LONG: Final = WRITTEN * 2_000
LONGEST: Final = 10 * MAX_TEXT_CHARS  # a character that is escaped takes ten at most


def hostile_pod() -> Pod:
    """Return a pod whose texts are as odd as JSON has them."""
    owner = {"apiVersion": LONG, "kind": LONG, "name": LONG, "uid": LONG, "controller": True}
    written = {
        "metadata": {
            "name": "web",
            "namespace": "shop",
            "uid": "u1",
            "labels": {"pod-template-hash": LONG},
            "ownerReferences": [owner],
        },
        "spec": {"nodeName": LONG, "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Failed", "reason": LONG, "message": LONG},
    }
    codec = make_codecs(InternTables(reads_all=False)).pods
    return codec.decode_object(json.dumps(written).encode())


def hostile_records() -> Iterator[JournalRecord]:
    """Yield a denied eviction, and the end of a move, with such texts."""
    pod = hostile_pod()
    finding = Finding(pod, "RemoveFailedPods", f"the pod says {LONG}", details={"reason": LONG})
    who, why = (
        who_payload(pod, pod.owners, "north"),
        why_payload(DecisionContext(finding, "p"), "r"),
    )
    denied = outcome_payload(Outcome("denied", f"a webhook denied it: {LONG}", None, "Denied"), 5)
    ended = replace(outcome_data("denied"), who=who, why=why, outcome=denied)
    yield entry(api.EVICTION_REFUSED, ended, id_="case-1.outcome.1")
    end = follow_up_payload(MoveEnd("not_ready", LONG))
    followed_up = replace(followed_up_data("not_ready"), who=who, why=why, follow_up=end)
    yield entry(api.EVICTION_FOLLOWED_UP, followed_up, id_="case-1.followed_up.1")


RECORDS: Final = tuple(hostile_records())


def texts_in(value: Any) -> Iterator[str]:  # any JSON value
    match value:
        case str():
            yield value
        case dict():
            for key, member in value.items():
                yield key
                yield from texts_in(member)
        case list():
            for member in value:
                yield from texts_in(member)


@pytest.mark.parametrize("record", RECORDS)
def test_a_record_holds_no_command_to_a_terminal(record: JournalRecord) -> None:
    found = list(texts_in(msgspec.json.decode(record.raw)))

    assert any("script" in text for text in found)
    assert all(text.isprintable() for text in found)
    assert len(record.raw) < MAX_RECORD_BYTES


@pytest.mark.parametrize("record", RECORDS)
def test_a_span_says_it_in_printable_texts_of_a_length(record: JournalRecord) -> None:
    event = decode_event(json.loads(record.raw)["type"], record.raw)
    assert event is not None

    [of_source] = CaseSpans(OtlpSettings(url="https://collector:4318/v1/traces")).of([event])
    [span] = of_source.scope_spans[0].spans

    said = {each.key: each.value.string_value for each in span.attributes}
    assert {"descheduler.message", "k8s.node.name"} <= said.keys()
    for text in (*said.values(), span.status.message):
        assert text.isprintable()
        assert len(text) <= LONGEST
    assert len(said["k8s.node.name"]) <= MAX_NAME_CHARS


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "structured"])
@pytest.mark.parametrize("record", RECORDS)
def test_headers_and_keys_of_kafka_are_printable(record: JournalRecord, *, binary: bool) -> None:
    sent = to_kafka_message(record.raw, binary=binary)

    for name, value in (*sent.headers, ("key", sent.key)):
        assert value.decode().isprintable(), name
        assert len(value) <= 4 * MAX_NAME_CHARS, name
