"""What may happen to a kept place on a real control plane before the pod is evicted, and after."""

import json
import time
from typing import Any

import pytest

from tests.e2e.conftest import SETTINGS
from tests.support.audit_crosscheck import AuditCrosscheck
from tests.support.control_plane import wait_until
from tests.support.controller_process import RunController
from tests.support.playground import E2ENamespace, PodSnapshot
from tests.support.real_jobs import (
    await_phase,
    await_place,
    create_job,
    has_not,
    placeholders,
    status,
)

pytestmark = pytest.mark.real

HALF_CPU = "3500m"  # of nodes with 8 cores: two pods, and no room for another
A_WHILE_S = 3


def settings(**placeholder: str) -> str:
    """Return settings with which jobs of people keep a place by such a placeholder."""
    migration = {
        "defaultJobMode": "ReservationFirst",
        "placeholder": placeholder,
        "skipCheckExpectedReplicas": True,
        "maxUnavailablePerWorkload": 2,
    }
    return SETTINGS + f"migration: {json.dumps(migration)}\n"


def web_on_n1(jobs: E2ENamespace, **spec: Any) -> PodSnapshot:
    """Deploy two pods of web on n1, which takes no more pods; add n2; return one of the pods."""
    jobs.add_nodes("n1")
    doomed = next(iter(jobs.deploy("web", 2, cpu=HALF_CPU, **spec).values()))
    jobs.cordon("n1")
    jobs.add_nodes("n2")
    return doomed


def test_a_pod_stays_while_the_node_of_its_place_is_cordoned(
    jobs: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    doomed = web_on_n1(jobs)
    jobs.create_pdb("web", 0)
    jobs.settings = settings()

    with run_controller():
        name = create_job(jobs, doomed.name, ttl="5m")
        assert await_place(jobs, name) == jobs.node("n2")
        jobs.cordon("n2")
        jobs.delete_pdb("web")
        wait_until(
            lambda: status(jobs, name).get("reason") == "PlaceDoesNotFit",
            within_s=60,
            what="the job says why it waits",
        )
        assert referee.evicted() == []
        jobs.kubectl.run("uncordon", jobs.node("n2"))
        wait_until(referee.evicted, within_s=60, what="the pod is evicted")
        after = jobs.await_healthy("web", 2)
        await_phase(jobs, name, "Succeeded")

    assert {pod.node for pod in after.values()} == {jobs.node("n1"), jobs.node("n2")}
    assert placeholders(jobs) == []


@pytest.mark.parametrize("lost", ["deleted", "with its node"])
def test_a_pod_stays_whose_placeholder_is_lost(
    lost: str, jobs: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    doomed = web_on_n1(jobs)
    jobs.create_pdb("web", 0)
    jobs.settings = settings()

    with run_controller():
        name = create_job(jobs, doomed.name, ttl="5m")
        await_place(jobs, name)
        if lost == "deleted":
            [placeholder] = placeholders(jobs)
            jobs.kubectl.run("delete", "pod", placeholder, "-n", jobs.namespace)
        else:
            jobs.kubectl.run("delete", "node", jobs.node("n2"))
        ended = await_phase(jobs, name, "Failed") if lost == "deleted" else {}
        jobs.delete_pdb("web")
        time.sleep(A_WHILE_S)
        assert referee.evicted() == []

    assert ended.get("reason") in ("MissingReservation", None)


def test_a_place_is_kept_where_the_host_port_is_free(
    jobs: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    jobs.add_nodes("n1")
    port = [{"containerPort": 8080, "hostPort": 8080}]
    containers = [{"name": "main", "image": "example.invalid/nothing", "ports": port}]
    doomed = next(iter(jobs.deploy("web", 1, containers=containers).values()))
    jobs.cordon("n1")
    jobs.add_nodes("n2")
    jobs.deploy("other", 1, containers=containers)
    jobs.settings = settings()

    with run_controller():
        name = create_job(jobs, doomed.name, ttl="5m")
        wait_until(lambda: placeholders(jobs), within_s=60, what="a placeholder waits")
        time.sleep(A_WHILE_S)
        assert has_not(jobs, name, "ReservationScheduled")
        jobs.add_nodes("n3")
        assert await_place(jobs, name) == jobs.node("n3")
        after = jobs.await_healthy("web", 1, off="n1")

    assert {pod.node for pod in after.values()} == {jobs.node("n3")}
    assert len(referee.evicted()) == 1


def test_a_quota_that_leaves_room_for_one_pod_more_is_enough(
    jobs: E2ENamespace, run_controller: RunController
) -> None:
    doomed = web_on_n1(jobs)
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "three", "namespace": jobs.namespace},
        "spec": {"hard": {"pods": "2"}},
    }
    jobs.kubectl.apply(quota)
    jobs.settings = settings()

    with run_controller():
        name = create_job(jobs, doomed.name, ttl="5m")
        wait_until(
            lambda: status(jobs, name).get("reason") == "FailedCreateReservation",
            within_s=60,
            what="the quota refuses the placeholder",
        )
        jobs.kubectl.apply({**quota, "spec": {"hard": {"pods": "3"}}})
        await_phase(jobs, name, "Succeeded")
        after = jobs.await_healthy("web", 2)

    assert doomed.uid not in after
    assert {pod.node for pod in after.values()} == {jobs.node("n1"), jobs.node("n2")}
    assert placeholders(jobs) == []


def test_a_priority_class_that_does_not_exist_yet_is_waited_for(
    jobs: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    doomed = web_on_n1(jobs)
    jobs.settings = settings(priorityClassName=jobs.namespace)

    with run_controller():
        name = create_job(jobs, doomed.name, ttl="5m")
        wait_until(
            lambda: status(jobs, name).get("reason") == "FailedCreateReservation",
            within_s=60,
            what="the job says why it has no placeholder",
        )
        assert referee.evicted() == []
        head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        jobs.kubectl.apply({**head, "metadata": {"name": jobs.namespace}, "value": -10})
        await_phase(jobs, name, "Succeeded")
        after = jobs.await_healthy("web", 2)

    assert doomed.uid not in after


def test_the_place_of_a_pod_of_a_stateful_set_is_for_the_pod_of_its_name(
    jobs: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    jobs.add_nodes("n1")
    jobs.deploy_stateful("db", 2)
    jobs.cordon("n1")
    patch = json.dumps({"spec": {"replicas": 3}})
    jobs.kubectl.run("patch", "statefulset", "db", "-n", jobs.namespace, "-p", patch)
    wait_until(lambda: len(jobs.pods("db")) == 3, within_s=60, what="db-2 waits for a node")
    jobs.settings = settings()

    with run_controller():
        name = create_job(jobs, "db-0", ttl="5m")
        wait_until(lambda: placeholders(jobs), within_s=60, what="a placeholder waits")
        jobs.add_nodes("n2")
        jobs.await_healthy("db", 3, within_s=90)
        await_phase(jobs, name, "Succeeded")

    nodes = {pod.name: pod.node for pod in jobs.pods("db").values()}
    assert nodes["db-0"] == jobs.node("n2")
    assert len(referee.evicted()) == 1
    assert placeholders(jobs) == []


def test_a_namespace_that_is_deleted_meanwhile_leaves_no_job_running_and_no_placeholder(
    jobs: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    doomed = web_on_n1(jobs)
    jobs.create_pdb("web", 0)
    jobs.settings = settings()

    with run_controller():
        name = create_job(jobs, doomed.name, ttl="5m")
        await_place(jobs, name)
        jobs.kubectl.run("delete", "namespace", jobs.namespace, "--wait=false")
        ended = await_phase(jobs, name, "Failed")
        wait_until(
            lambda: not jobs.kubectl.get("pods", "-n", jobs.namespace),
            within_s=60,
            what="no pod is left",
        )

    assert ended["reason"] in ("MissingPod", "MissingReservation")
    assert referee.evicted() == []


def test_a_place_is_kept_where_the_spread_of_the_pods_lets_the_replacement_be(
    jobs: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    jobs.add_nodes("n1", "n2", "n3")
    selector = {"labelSelector": {"matchLabels": {"app": "web"}}}
    spread = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", **selector}
    constraint = {**spread, "whenUnsatisfiable": "DoNotSchedule"}
    before = jobs.deploy("web", 3, topologySpreadConstraints=[constraint])
    doomed = next(pod for pod in before.values() if pod.node == jobs.node("n1"))
    jobs.cordon("n1")
    jobs.settings = settings()

    with run_controller():
        name = create_job(jobs, doomed.name, ttl="5m")
        wait_until(lambda: placeholders(jobs), within_s=60, what="a placeholder waits")
        time.sleep(A_WHILE_S)
        assert has_not(jobs, name, "ReservationScheduled"), "n2 and n3 have a pod each"
        jobs.add_nodes("n4")
        assert await_place(jobs, name) == jobs.node("n4")
        after = jobs.await_healthy("web", 3, off="n1")

    assert {pod.node for pod in after.values()} == {jobs.node(n) for n in ("n2", "n3", "n4")}
    assert len(referee.evicted()) == 1


def test_a_placeholder_passes_what_its_pod_passes(
    jobs: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    per_container = {"max": {"cpu": "2"}, "min": {"cpu": "1"}, "maxLimitRequestRatio": {"cpu": "1"}}
    limits = [{"type": "Container", **per_container}, {"type": "Pod", "max": {"cpu": "4"}}]
    head = {"apiVersion": "v1", "kind": "LimitRange"}
    metadata = {"name": "narrow", "namespace": jobs.namespace}
    jobs.kubectl.apply({**head, "metadata": metadata, "spec": {"limits": limits}})
    enforce = "pod-security.kubernetes.io/enforce=restricted"
    jobs.kubectl.run("label", "namespace", jobs.namespace, enforce)
    amounts = {"cpu": "1750m", "memory": "64Mi"}
    container = {
        "image": "example.invalid/nothing",
        "resources": {"requests": amounts, "limits": amounts},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    doomed = web_on_n1(jobs, containers=[{"name": "a", **container}, {"name": "b", **container}])
    jobs.settings = settings()

    with run_controller():
        name = create_job(jobs, doomed.name, ttl="5m")
        assert await_place(jobs, name) == jobs.node("n2")
        await_phase(jobs, name, "Succeeded")
        after = jobs.await_healthy("web", 2)

    assert {pod.node for pod in after.values()} == {jobs.node("n1"), jobs.node("n2")}
    assert len(referee.evicted()) == 1
    assert placeholders(jobs) == []
