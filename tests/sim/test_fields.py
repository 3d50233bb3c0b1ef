from typing import Any

import pytest

from reactive_desched.sim.fields import parse_fields
from reactive_desched.sim.resources import RESOURCES
from reactive_desched.sim.status import StatusError

POD = {
    "metadata": {"name": "p", "namespace": "d"},
    "spec": {"nodeName": "n1", "hostNetwork": True},
    "status": {"phase": "Running"},
}


def matches(resource: str, text: str, obj: dict[str, Any]) -> bool:
    return parse_fields(RESOURCES[resource], text).matches(obj)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("metadata.name=p", True),
        ("metadata.name==p,metadata.namespace=d", True),
        ("metadata.name=p,metadata.namespace=e", False),
        ("spec.nodeName=n1", True),
        ("spec.host=n1", True),
        ("spec.nodeName=", False),
        ("spec.nodeName!=", True),
        ("status.phase!=Succeeded,status.phase!=Failed", True),
        ("status.phase!=Running", False),
        ("spec.hostNetwork=true", True),
        ("status.podIP=", True),
    ],
)
def test_a_pod_is_selected_by_field(text: str, *, expected: bool) -> None:
    assert matches("pods", text, POD) is expected


def test_an_absent_flag_is_false() -> None:
    assert matches("nodes", "spec.unschedulable=false", {"metadata": {"name": "n"}, "spec": {}})


def test_an_absent_count_is_zero() -> None:
    empty: dict[str, Any] = {"metadata": {}, "status": {}}
    assert matches("replicationcontrollers", "status.replicas=0", empty)


def test_an_event_is_selected_by_what_it_is_about_in_both_spellings() -> None:
    event = {"metadata": {}, "involvedObject": {"kind": "Pod", "name": "p"}}
    assert matches("events", "involvedObject.kind=Pod,regarding.name=p", event)
    assert not matches("events", "regarding.name=q", event)


def test_escaped_characters_stand_for_themselves() -> None:
    event = {"metadata": {}, "reason": "a,b=c\\d"}
    assert matches("events", r"reason=a\,b\=c\\d", event)


@pytest.mark.parametrize(
    ("resource", "text", "said"),
    [
        ("pods", "spec.priority=1", "field label not supported: spec.priority"),
        ("configmaps", "data.x=1", "is not a known field"),
        ("nodes", "metadata.namespace=d", "field label not supported: metadata.namespace"),
    ],
)
def test_an_unsupported_field_is_a_bad_request(resource: str, text: str, said: str) -> None:
    with pytest.raises(StatusError, match=said) as refused:
        matches(resource, text, POD)
    assert refused.value.code == 400


@pytest.mark.parametrize("text", ["metadata.name", "reason=a\\x", "reason=a=b", "reason=a\\"])
def test_a_malformed_selector_is_a_bad_request(text: str) -> None:
    with pytest.raises(StatusError) as refused:
        matches("events", text, POD)
    assert refused.value.code == 400
