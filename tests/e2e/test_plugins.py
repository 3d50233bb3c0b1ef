"""Every plugin that deschedules moves what it should, soon after the change, on a real cluster."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.audit_crosscheck import AuditCrosscheck
from tests.support.control_plane import wait_until
from tests.support.controller_process import RunController
from tests.support.playground import E2ENamespace, PodSnapshot

pytestmark = pytest.mark.real

SOON = timedelta(seconds=60)
"""A reaction on a machine that has other work: a sweep comes after five minutes. The benchmark
measures the milliseconds."""
DEBOUNCE = timedelta(seconds=0.2)  # as conftest.py sets it
LIFE_TIME = timedelta(seconds=20)
HOST = "kubernetes.io/hostname"
Note = Callable[[str, object], None]


def container(**status: object) -> dict[str, object]:
    """Return a container's status as a kubelet reports it."""
    fixed = {"name": "main", "image": "example.invalid/nothing", "imageID": "", "ready": False}
    return {"restartCount": 0, "state": {"running": {}}, **fixed, **status}


def reaction(referee: AuditCrosscheck, pod: PodSnapshot, since: datetime, note: Note) -> timedelta:
    """Wait for the eviction of a pod and return how long after a moment the server had it."""
    at = wait_until(
        lambda: referee.first_answered_at(pod.uid), within_s=60, what=f"{pod.name} is evicted"
    )
    note("reaction_ms", round((at - since) / timedelta(milliseconds=1)))
    return at - since


def one_of(pods: dict[str, PodSnapshot]) -> PodSnapshot:
    return next(iter(pods.values()))


def evicted(referee: AuditCrosscheck) -> set[str | None]:
    return {each.uid for each in referee.evicted()}


def test_a_pod_that_restarts_too_often_is_moved(
    playground: E2ENamespace,
    run_controller: RunController,
    referee: AuditCrosscheck,
    record_property: Note,
) -> None:
    playground.add_nodes("n1", "n2")
    playground.plugins = {"RemovePodsHavingTooManyRestarts": {"podRestartThreshold": 10}}
    pods = playground.deploy("web", 4)
    fine, crashing = list(pods.values())[:2]

    with run_controller():
        playground.set_status(fine.name, containerStatuses=[container(restartCount=9)])
        changed = datetime.now(UTC)
        playground.set_status(crashing.name, containerStatuses=[container(restartCount=10)])
        took = reaction(referee, crashing, changed, record_property)
        playground.await_healthy("web", 4)

    assert evicted(referee) == {crashing.uid}
    assert DEBOUNCE <= took < SOON


def test_a_pod_that_failed_is_removed_for_the_reason_asked_for(
    playground: E2ENamespace,
    run_controller: RunController,
    referee: AuditCrosscheck,
    record_property: Note,
) -> None:
    playground.add_nodes("n1", "n2")
    playground.plugins = {
        "RemoveFailedPods": {"minPodLifetimeSeconds": 0, "reasons": ["OOMKilled"]},
    }
    pods = playground.deploy("web", 4)
    other, killed = list(pods.values())[:2]

    def end(pod: PodSnapshot, reason: str) -> None:
        state = {"terminated": {"reason": reason, "exitCode": 137}}
        playground.set_status(pod.name, phase="Failed", containerStatuses=[container(state=state)])

    with run_controller():
        end(other, "Error")
        changed = datetime.now(UTC)
        end(killed, "OOMKilled")
        took = reaction(referee, killed, changed, record_property)

    assert evicted(referee) == {killed.uid}
    assert DEBOUNCE <= took < SOON


def test_a_pod_is_moved_soon_after_the_end_of_its_life_time(
    playground: E2ENamespace,
    run_controller: RunController,
    referee: AuditCrosscheck,
    record_property: Note,
) -> None:
    playground.add_nodes("n1", "n2")
    playground.plugins = {"PodLifeTime": {"maxPodLifeTimeSeconds": LIFE_TIME.seconds}}
    pod = one_of(playground.deploy("web", 1))
    [found] = playground.kubectl.get("pod", "-n", playground.namespace, pod.name)
    created = datetime.fromisoformat(found["metadata"]["creationTimestamp"])

    with run_controller():
        took = reaction(referee, pod, created + LIFE_TIME, record_property)

    # An age of more than the life time is reached with the next full second.
    assert timedelta(seconds=1) <= took < SOON


def test_a_pod_leaves_when_another_gets_a_label_that_its_anti_affinity_forbids(
    playground: E2ENamespace,
    run_controller: RunController,
    referee: AuditCrosscheck,
    record_property: Note,
) -> None:
    playground.add_nodes("n1", "n2")
    playground.plugins = {"RemovePodsViolatingInterPodAntiAffinity": {}}
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"noise": "loud"}}}
    demand = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    database = one_of(playground.deploy("database", 1, affinity={"podAntiAffinity": demand}))
    neighbours = playground.deploy("web", 4).values()
    loud = next(pod for pod in neighbours if pod.node == database.node)

    with run_controller():
        changed = datetime.now(UTC)
        playground.label_pod(loud.name, "noise=loud")
        took = reaction(referee, database, changed, record_property)
        moved = playground.await_healthy("database", 1)

    assert evicted(referee) == {database.uid}
    assert one_of(moved).node != loud.node
    assert DEBOUNCE <= took < SOON
