"""Events, which two API groups show, each in its own words."""

from typing import Any

import pytest

pytestmark = pytest.mark.anyio

STRATEGIC = "application/strategic-merge-patch+json"


async def test_the_two_views_of_an_event(api: Any) -> None:
    event = {
        "metadata": {"name": "e"},
        "eventTime": "2027-01-15T08:00:00.000000Z",
        "reportingController": "x/y",
        "reportingInstance": "y-1",
        "action": "Descheduled",
        "reason": "TooOld",
        "type": "Normal",
        "regarding": {"kind": "Pod", "name": "p"},
        "note": "moved",
    }
    events = "namespaces/default/events"
    status, _ = await api.ask("POST", f"/apis/events.k8s.io/v1/{events}", event)
    assert status == 201

    core = await api.get(f"/api/v1/{events}/e")
    assert (core["apiVersion"], core["message"]) == ("v1", "moved")
    assert (core["involvedObject"]["name"], core["reportingComponent"]) == ("p", "x/y")
    shown = await api.get(f"/apis/events.k8s.io/v1/{events}/e")
    assert event.items() <= {**shown, "metadata": event["metadata"]}.items()

    series = {"count": 2, "lastObservedTime": "2027-01-15T08:00:01.000000Z"}
    status, body = await api.patch(
        f"/apis/events.k8s.io/v1/{events}/e", STRATEGIC, {"series": series}
    )
    assert (status, body["series"]) == (200, series)


async def test_an_event_without_its_reporter_is_422(api: Any) -> None:
    event = {"metadata": {"name": "e"}, "type": "Normal", "note": "x" * 1025}
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    status, body = await api.ask("POST", path, event)
    fields = {c["field"] for c in body["details"]["causes"]}
    assert (status, {"reportingController", "action", "message"} <= fields) == (422, True)
