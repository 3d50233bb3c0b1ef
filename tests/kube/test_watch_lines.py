"""A watch line is a change, a bookmark or an error; anything else is refused by name."""

import json
from typing import Any

import pytest

from reactive_desched.errors import Malformed
from reactive_desched.state.kinds.interning import InternTables
from tests.support.codecs import Codecs, make_codecs

JSON = dict[str, Any]  # any JSON object
METADATA = {"name": "n1", "uid": "u1", "resourceVersion": "7", "namespace": "shop"}
POD = {"metadata": METADATA | {"name": "web"}, "spec": {"nodeName": "n1"}}


def fresh() -> Codecs:
    return make_codecs(InternTables())


def all_of(made: Codecs) -> list[Any]:  # codecs of different records
    return list(made.all())


def as_line(kind: str, obj: Any) -> bytes:  # any JSON value
    return json.dumps({"type": kind, "object": obj}).encode()


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_a_change_carries_its_object_and_version(kind: str) -> None:
    event = fresh().pods.decode_event(as_line(kind, POD))

    assert event.type == kind
    assert event.object == fresh().pods.decode_object(json.dumps(POD).encode())
    assert (event.resource_version, event.initial_events_end, event.status) == ("7", False, None)


@pytest.mark.parametrize("version", ["1e30", "abc", "-5", "12.5", " 7", "9" * 31])
def test_a_change_whose_version_is_no_number_is_refused_by_the_name_of_its_object(
    version: str,
) -> None:
    pod = POD | {"metadata": METADATA | {"name": "web", "resourceVersion": version}}
    with pytest.raises(Malformed, match=r"shop/web cannot be read: its resourceVersion"):
        fresh().pods.decode_event(as_line("MODIFIED", pod))


def test_a_change_with_a_null_is_read_as_if_it_were_absent() -> None:
    event = fresh().pods.decode_event(as_line("MODIFIED", POD | {"spec": {"tolerations": None}}))

    assert event.type == "MODIFIED"
    assert event.object == fresh().pods.decode_object(json.dumps(POD | {"spec": {}}).encode())
    assert event.resource_version == "7"


@pytest.mark.parametrize(
    ("obj", "version", "ends"),
    [
        pytest.param({"metadata": {"resourceVersion": "12"}}, "12", False, id="a version alone"),
        pytest.param(
            {
                "metadata": {"resourceVersion": "12", "creationTimestamp": None},
                "spec": {"containers": None},
                "status": {},
            },
            "12",
            False,
            id="nulls in required places",
        ),
        pytest.param(
            {
                "metadata": {
                    "resourceVersion": "12",
                    "annotations": {"k8s.io/initial-events-end": "true"},
                }
            },
            "12",
            True,
            id="the end of a streamed list",
        ),
        pytest.param(
            {
                "metadata": {
                    "resourceVersion": "12",
                    "annotations": {"k8s.io/initial-events-end": "false", "other": "true"},
                }
            },
            "12",
            False,
            id="other annotations end nothing",
        ),
        pytest.param(
            {"metadata": {"resourceVersion": None, "annotations": None}}, "", False, id="nothing"
        ),
        pytest.param(POD, "7", False, id="one that looks like a whole object"),
    ],
)
def test_a_bookmark_carries_only_its_version(obj: JSON, version: str, *, ends: bool) -> None:
    for codec in all_of(fresh()):
        event = codec.decode_event(as_line("BOOKMARK", obj))

        assert (event.type, event.object, event.status) == ("BOOKMARK", None, None)
        assert (event.resource_version, event.initial_events_end) == (version, ends)


def test_an_error_carries_the_servers_status() -> None:
    status = {
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "message": "too old resource version: 1 (9)",
        "reason": "Expired",
        "code": 410,
    }

    for codec in all_of(fresh()):
        event = codec.decode_event(as_line("ERROR", status))

        assert (event.type, event.object, event.resource_version) == ("ERROR", None, "")
        assert (event.status.code, event.status.reason) == (410, "Expired")


def test_an_error_that_looks_like_an_object_is_still_an_error() -> None:
    event = fresh().namespaces.decode_event(as_line("ERROR", {"metadata": METADATA, "code": 500}))

    assert event.object is None
    assert event.status is not None
    assert event.status.code == 500


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{", id="half an object"),
        pytest.param(b'{"type":"ADDED","object":{"metadata":{"name":"w', id="a line cut short"),
        pytest.param(b"<html>502 Bad Gateway</html>", id="a proxy's page"),
        pytest.param(b'{"type":"ADDED"}', id="a change without an object"),
        pytest.param(b'{"type":"MOVED","object":{}}', id="an unknown type"),
        pytest.param(b'{"type":"BOOKMARK","object":null}', id="a bookmark of nothing"),
        pytest.param(b'{"object":{}}', id="no type"),
        pytest.param(b"[" * 100_000 + b"]" * 100_000, id="nesting without end"),
        pytest.param(
            b'{"type":"ADDED","object":{"deep":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
            id="nesting without end in a member nobody reads",
        ),
        pytest.param(b'{"type":"ADDED","object":{"metadata":{"name":"\xff"}}}', id="not UTF-8"),
    ],
)
def test_a_line_that_cannot_be_read_is_malformed(line: bytes) -> None:
    for codec in all_of(fresh()):
        with pytest.raises(Malformed):
            codec.decode_event(line)
