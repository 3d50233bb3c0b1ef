"""Events as a real API server takes them, with the role from deploy/ alone."""

from pathlib import Path

import pytest

from tests.support.audit_crosscheck import AuditCrosscheck
from tests.support.control_plane import wait_until
from tests.support.controller_process import RunController
from tests.support.kubectl import Object
from tests.support.playground import E2ENamespace

pytestmark = pytest.mark.real


def told(playground: E2ENamespace, reason: str) -> list[Object]:
    """Return our events of this reason in the playground, the earliest first."""
    found = playground.kubectl.get("events.v1.events.k8s.io", "-n", playground.namespace)
    ours = [e for e in found if e.get("reportingController") == "reactive-desched"]
    return [e for e in sorted(ours, key=lambda e: str(e["eventTime"])) if e["reason"] == reason]


def test_every_eviction_has_an_event_on_its_pod_and_its_deployment(
    playground: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    playground.add_nodes("n1", "n2")
    playground.deploy("web", 4)
    doomed = playground.pods_on("web", "n1")
    assert doomed

    def events() -> list[Object]:
        return told(playground, "RemovePodsViolatingNodeTaints")

    with run_controller():
        playground.taint("n1", "gpu=yes:NoSchedule")
        wait_until(
            lambda: len(events()) == len(doomed) == len(told(playground, "PodEvicted")),
            within_s=60,
            what="an event for each eviction, beside the pod and beside its deployment",
        )

    assert {event["regarding"]["uid"] for event in events()} == doomed
    for event in events():
        assert (event["type"], event["action"]) == ("Normal", "Descheduled")
        assert f"pod eviction from {playground.node('n1')} node" in event["note"]
        assert "does not tolerate gpu=yes:NoSchedule" in event["note"]
    beside_owner = told(playground, "PodEvicted")
    assert {event["regarding"]["kind"] for event in beside_owner} == {"Deployment"}
    names = {event["regarding"]["name"] for event in events()}
    assert {event["note"].split()[1] for event in beside_owner} == names


def test_a_policy_that_is_refused_again_and_again_is_one_event_with_a_count(
    playground: E2ENamespace,
    run_controller: RunController,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("POD_NAME", "controller-1")
    monkeypatch.setenv("POD_NAMESPACE", playground.namespace)
    playground.add_nodes("n1", "n2")
    path = tmp_path / "policy.yaml"

    with run_controller() as controller:

        def await_lines(text: str, count: int) -> None:
            def are_there() -> bool:
                return controller.tail(400).count(text) == count

            wait_until(are_there, within_s=60, what=f"{count} lines of {text}")

        good = path.read_text()
        for times in (1, 2):
            path.write_text("{")
            await_lines('"the new policy was rejected"', times)
            path.write_text(good)
            await_lines('"the policy is valid again"', times)

        def counts() -> list[int]:
            found = told(playground, "PolicyRejected")
            return [event.get("series", {}).get("count", 1) for event in found]

        wait_until(lambda: counts() == [2], within_s=60, what="one event that counts both")
