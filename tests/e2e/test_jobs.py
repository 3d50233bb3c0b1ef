"""Work that an eviction would end, on a real cluster: our rules beside the Job controller's."""

import json
import time
from typing import Any

import pytest

from reactive_desched.model.job_evictions import tries_left_without
from reactive_desched.model.objects import Job, Pod
from reactive_desched.state.kinds.interning import InternTables
from tests.support.audit_crosscheck import AuditCrosscheck
from tests.support.codecs import make_codecs
from tests.support.control_plane import wait_until
from tests.support.controller_process import RunController
from tests.support.kubectl import Object
from tests.support.limits import NO_BUDGETS
from tests.support.playground import OWNER, E2ENamespace

pytestmark = pytest.mark.real

LONG_ENOUGH_S = 5.0
SETTINGS = f"""
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
debounce: {{quiet: 200ms, maxWait: 2s}}
guards:
  {{minPodAge: 0s, minReadyTime: 0s,
    standingTimes: {{otherTaints: 0s, nodeLabels: 0s, openNodes: 0s}}}}
{NO_BUDGETS}
"""
IGNORE = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
COUNT = {"action": "Count", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
FAIL_ON_42 = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
FAIL_ON_143 = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [143]}}
FAIL_UNLESS_1 = {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [1]}}
INDEXED = {"completionMode": "Indexed", "backoffLimitPerIndex": 0}


def rules(*each: Object) -> Object:
    return {"podFailurePolicy": {"rules": list(each)}}


JOBS: dict[str, Object] = {
    "no-tries": {"backoffLimit": 0},
    "one-try": {"backoffLimit": 1},
    "ignores": {"backoffLimit": 0, **rules(IGNORE)},
    "ignores-late": {"backoffLimit": 0, **rules(FAIL_ON_42, IGNORE)},
    "counts-first": {"backoffLimit": 0, **rules(COUNT, IGNORE)},
    "fails-on-143": {"backoffLimit": 6, **rules(FAIL_ON_143, IGNORE)},
    "fails-unless-1": {"backoffLimit": 6, **rules(FAIL_UNLESS_1, IGNORE)},
    "index-no-tries": INDEXED,
    "index-one-try": INDEXED | {"backoffLimitPerIndex": 1},
    "index-in-a-full-job": INDEXED | {"backoffLimitPerIndex": 1, "backoffLimit": 0},
}


def make_job(ours: E2ENamespace, name: str, spec: Object) -> Object:
    """Return a Job whose pod runs until it is stopped."""
    stage = "pod-complete.stage.kwok.x-k8s.io"
    template = {
        "metadata": {"annotations": {f"{stage}/delay": "1h", f"{stage}/jitter-delay": "1h"}},
        "spec": {
            "containers": [{"name": "main", "image": "example.invalid/nothing"}],
            "restartPolicy": "Never",
            "nodeSelector": {OWNER: ours.namespace},
        },
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"namespace": ours.namespace, "name": name},
        "spec": {"completions": 1, "parallelism": 1, "template": template, **spec},
    }


def pods_of(ours: E2ENamespace, job: str) -> list[Object]:
    """Return the pods of a Job that do not terminate and have not ended."""
    found = ours.kubectl.get("pods", "-n", ours.namespace, "-l", f"job-name={job}")
    return [
        pod
        for pod in found
        if "deletionTimestamp" not in pod["metadata"]
        and pod["status"].get("phase") not in ("Failed", "Succeeded")
    ]


def running(ours: E2ENamespace, job: str) -> bool:
    return any(pod["status"].get("phase") == "Running" for pod in pods_of(ours, job))


def evict(ours: E2ENamespace, name: str) -> None:
    path = f"/api/v1/namespaces/{ours.namespace}/pods/{name}/eviction"
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    ours.kubectl.run("create", "--raw", path, "-f", "-", stdin=json.dumps(body))


def stop(ours: E2ENamespace, name: str) -> None:
    """Let the container of a pod end as by SIGTERM, which KWOK's kubelet does not."""
    ended: Any = {"name": "main", "image": "", "imageID": "", "ready": False, "restartCount": 0}
    ended["state"] = {"terminated": {"exitCode": 143, "reason": "Error"}}
    ours.set_status(name, phase="Failed", containerStatuses=[ended])


def verdict(ours: E2ENamespace, job: str, evicted: str) -> str:
    """Return what became of a Job: "lost" it or its index, or "goes on"; empty: not known yet."""
    [found] = ours.kubectl.get("job", job, "-n", ours.namespace)
    status = found["status"]
    conditions = {each["type"] for each in status.get("conditions", ()) if each["status"] == "True"}
    if conditions & {"Failed", "FailureTarget"} or status.get("failedIndexes"):
        return "lost"
    others = [pod for pod in pods_of(ours, job) if pod["metadata"]["uid"] != evicted]
    return "goes on" if others else ""


def test_the_job_controller_fails_those_jobs_that_we_say_it_would(playground: E2ENamespace) -> None:
    playground.add_nodes("n1")
    playground.kubectl.apply(*(make_job(playground, *each) for each in JOBS.items()))
    wait_until(lambda: all(running(playground, job) for job in JOBS), within_s=60, what="pods run")

    expected, found = dict[str, str](), dict[str, str]()
    for name in JOBS:
        expected[name], found[name] = said_and_seen(playground, name)

    assert found == expected
    assert set(expected.values()) == {"lost", "goes on"}


def said_and_seen(ours: E2ENamespace, name: str) -> tuple[str, str]:
    """Evict the pod of a Job; return what we say becomes of the Job, and what became of it."""
    codecs = make_codecs(InternTables())
    [written] = ours.kubectl.get("job", name, "-n", ours.namespace)
    [of_job] = pods_of(ours, name)
    job: Job = codecs.jobs.decode_object(json.dumps(written).encode())
    pod: Pod = codecs.pods.decode_object(json.dumps(of_job).encode())
    assert job.tries is not None
    left = tries_left_without(job.tries, pod)
    said = "lost" if left is not None and not left.tries else "goes on"
    evict(ours, pod.name)
    if "podFailurePolicy" in JOBS[name]:
        stop(ours, pod.name)
    seen = wait_until(
        lambda: verdict(ours, name, pod.uid), within_s=60, what=f"Job {name} has a verdict"
    )
    return said, seen


def run_once_pod(ours: E2ENamespace, owner: Object) -> Object:
    """Return a pod that a custom owner runs once."""
    meta = owner["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": meta["name"], "uid": meta["uid"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": ours.namespace,
            "name": "step",
            "labels": {"app": "step"},
            "ownerReferences": [reference | {"controller": True}],
        },
        "spec": {
            "containers": [{"name": "main", "image": "example.invalid/nothing"}],
            "restartPolicy": "Never",
            "nodeSelector": {OWNER: ours.namespace},
        },
    }


def test_a_tainted_node_keeps_the_work_that_an_eviction_would_end(
    playground: E2ENamespace, run_controller: RunController, referee: AuditCrosscheck
) -> None:
    playground.settings = SETTINGS
    playground.add_nodes("n1")
    jobs = {name: JOBS[name] for name in ("no-tries", "one-try", "ignores")}
    playground.kubectl.apply(*(make_job(playground, *each) for each in jobs.items()))
    playground.kubectl.run("create", "configmap", "pipeline", "-n", playground.namespace)
    [owner] = playground.kubectl.get("configmap", "pipeline", "-n", playground.namespace)
    playground.kubectl.apply(run_once_pod(playground, owner))
    web = playground.deploy("web", 1)
    wait_until(
        lambda: all(running(playground, job) for job in jobs) and playground.pods("step"),
        within_s=60,
        what="pods run",
    )
    going = {
        playground_pod["metadata"]["uid"]
        for job in ("one-try", "ignores")
        for playground_pod in pods_of(playground, job)
    } | web.keys()
    playground.add_nodes("n2")

    with run_controller() as controller:
        playground.taint("n1", "repair=now:NoSchedule")
        wait_until(lambda: len(referee.evicted()) >= 3, within_s=60, what="three pods are evicted")
        time.sleep(LONG_ENOUGH_S)
        wait_until(
            lambda: all(each in controller.log for each in ("LastJobTry", "OwnerMakesNoPod")),
            within_s=60,
            what="the log says why the others stay",
        )

    assert {each.uid for each in referee.evicted()} == going
