"""Programs about what the controllers of Kubernetes make of workloads."""

import json
import time
from collections.abc import Callable
from typing import Any

from tests.support.programs.objects import (
    apps,
    as_seen,
    batch,
    core,
    end,
    first,
    is_new,
    job,
    make_ready,
    pod_spec,
    pods_of,
    workload,
)
from tests.support.two_planes import MERGE, STRATEGIC, Plane, Planes, plain

Object = dict[str, Any]  # a Kubernetes object as JSON
NEW_IMAGE = {
    "spec": {
        "template": {"spec": {"containers": [{"name": "main", "image": "example.invalid/main:2"}]}}
    }
}


def seen(planes: Planes, *paths: str) -> Callable[[Plane], object]:
    """Return a look at objects of a namespace as they are, and at its pods."""

    def look(plane: Plane) -> object:
        found = [_in_order(plane.send("GET", path).body) for path in paths]
        return {"objects": found, "pods": as_seen(pods_of(plane))}

    return look


def _in_order(body: Object) -> Object:
    """Put the items of a list in an order that no random name decides."""
    if "items" not in body:
        return body
    items = sorted(body["items"], key=lambda each: json.dumps(plain(each), sort_keys=True))
    return {**body, "items": items}


def _ready_one(plane: Plane, image: str = "") -> None:
    def wanted(pod: Object) -> bool:
        return is_new(pod) and image in pod["spec"]["containers"][0]["image"]

    make_ready(plane, first(plane, wanted))


def deployment(planes: Planes) -> None:
    """Scale a Deployment, roll it out step by step, pause it, roll it back, delete it."""
    place = apps(planes, "deployments/web")
    sets = apps(planes, "replicasets")
    look = seen(planes, place, sets)
    strategy = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    made = workload("Deployment", "web", replicas=3, strategy=strategy)
    planes.send("POST", apps(planes, "deployments"), made)
    planes.agree("three pods are created", look)
    for count in range(3):
        planes.each(_ready_one)
        planes.agree(f"{count + 1} are ready", look)
    planes.send("PATCH", f"{place}/scale", {"spec": {"replicas": 4}}, MERGE)
    planes.agree("scaled up", look)
    planes.each(_ready_one)
    planes.agree("four are ready", look)
    planes.send("PATCH", place, NEW_IMAGE, STRATEGIC)
    planes.agree("the rollout has begun", look)
    for count in range(4):
        planes.each(lambda plane: _ready_one(plane, ":2"))
        planes.agree(f"{count + 1} new ones are ready", look)
    planes.send("PATCH", place, {"spec": {"paused": True}}, MERGE)
    planes.agree("paused", look)
    third = {"name": "main", "image": "example.invalid/main:3"}
    planes.send(
        "PATCH", place, {"spec": {"template": {"spec": {"containers": [third]}}}}, STRATEGIC
    )
    planes.agree("a paused Deployment changes nothing", look)
    planes.send("PATCH", place, {"spec": {"replicas": 2}}, MERGE)
    planes.agree("but is scaled", look)
    second = {"name": "main", "image": "example.invalid/main:1"}
    rolled_back = {"paused": None, "template": {"spec": {"containers": [second]}}}
    planes.send("PATCH", place, {"spec": rolled_back}, STRATEGIC)
    planes.agree("back to the first template", look)
    planes.send("DELETE", f"{place}?propagationPolicy=Foreground")
    planes.agree("all is gone", look)


def proportional_scaling(planes: Planes) -> None:
    """Scale a Deployment whose rollout stands still: up, down, and while it is paused."""
    place = apps(planes, "deployments/web")

    def look(plane: Plane) -> object:
        sets = plane.items(apps(planes, "replicasets"))
        return sorted(
            (each["spec"]["template"]["spec"]["containers"][0]["image"], each["spec"]["replicas"])
            for each in sets
        )

    made = workload("Deployment", "web", replicas=10)
    made["spec"]["strategy"] = {"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
    planes.send("POST", apps(planes, "deployments"), made)
    planes.agree("ten pods", seen(planes))
    for _ in range(10):
        planes.each(_ready_one)
    planes.send("PATCH", place, NEW_IMAGE, STRATEGIC)
    planes.agree("the rollout stands still", look)
    for replicas in (30, 7, 8):
        planes.send("PATCH", f"{place}/scale", {"spec": {"replicas": replicas}}, MERGE)
        planes.agree(f"{replicas} are wanted", look)
    planes.send("PATCH", place, {"spec": {"paused": True}}, MERGE)
    planes.agree("it is paused", look)
    planes.send("PATCH", f"{place}/scale", {"spec": {"replicas": 13}}, MERGE)
    planes.agree("and scaled", look)
    planes.send("PATCH", f"{place}/scale", {"spec": {"replicas": 0}}, MERGE)
    planes.agree("to nothing", look)


def recreated_deployment(planes: Planes) -> None:
    """Roll out with the strategy Recreate, and with a limit of history."""
    place = apps(planes, "deployments/web")
    look = seen(planes, place, apps(planes, "replicasets"))
    made = workload(
        "Deployment", "web", replicas=2, strategy={"type": "Recreate"}, revisionHistoryLimit=1
    )
    planes.send("POST", apps(planes, "deployments"), made)
    planes.agree("two pods are created", look)
    for image in ("2", "3", "4"):
        planes.each(_ready_one)
        planes.each(_ready_one)
        planes.agree("two are ready", look)
        container = {"name": "main", "image": f"example.invalid/main:{image}"}
        planes.send(
            "PATCH",
            place,
            {"spec": {"template": {"spec": {"containers": [container]}}}},
            STRATEGIC,
        )
        planes.agree(f"all are replaced by {image}", look)


def adopted_pods(planes: Planes) -> None:
    """Have a ReplicaSet adopt a pod and release it."""
    look = seen(planes, apps(planes, "replicasets/web"))
    planes.send(
        "POST",
        core(planes, "pods"),
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "loner", "labels": {"app": "web"}},
            "spec": pod_spec(),
        },
    )
    planes.send("POST", apps(planes, "replicasets"), workload("ReplicaSet", "web", replicas=3))
    planes.agree("two are created beside the adopted one", look)
    planes.send("PATCH", core(planes, "pods/loner"), {"metadata": {"labels": {"app": "x"}}}, MERGE)
    planes.agree("the released one is replaced", look)


def replica_set(planes: Planes) -> None:
    """Scale down the pods of a ReplicaSet in the documented order."""
    place = apps(planes, "replicasets/web")
    look = seen(planes, place)
    planes.send("POST", apps(planes, "replicasets"), workload("ReplicaSet", "web", replicas=3))
    planes.agree("three are created", look)
    planes.each(_ready_one)
    planes.each(_ready_one)
    cost = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5"}}}

    def cheapen(plane: Plane) -> None:
        ready = first(plane, lambda pod: pod["status"]["phase"] == "Running", "web")
        plane.send("PATCH", core(planes, f"pods/{ready['metadata']['name']}"), cost, MERGE)

    planes.each(cheapen)
    planes.agree("two of three are ready, one is cheap", look)
    for replicas in (2, 1, 0):
        planes.send("PATCH", f"{place}/scale", {"spec": {"replicas": replicas}}, MERGE)
        planes.agree(f"scaled to {replicas}", look)
    planes.send("PATCH", f"{place}/scale", {"spec": {"replicas": 1}}, MERGE)
    planes.agree("one again", look)
    planes.each(lambda plane: end(plane, first(plane, is_new, "web"), "Failed", 1))
    planes.agree("a failed pod is replaced", look)


def stateful_set(planes: Planes) -> None:
    """Create, update and scale a StatefulSet one by one, with a partition."""
    place = apps(planes, "statefulsets/db")
    look = seen(planes, place)
    made = workload("StatefulSet", "db", replicas=3)
    made["spec"] |= {"serviceName": "db", "updateStrategy": {"rollingUpdate": {"partition": 1}}}
    planes.send("POST", apps(planes, "statefulsets"), made)
    for count in range(3):
        planes.agree(f"{count + 1} created", look)
        planes.each(_ready_one)
    planes.agree("three are ready", look)
    planes.send("PATCH", place, NEW_IMAGE, STRATEGIC)
    planes.agree("the last one is replaced", look)
    planes.each(_ready_one)
    planes.agree("the one before is replaced", look)
    planes.each(_ready_one)
    planes.agree("the first one stays", look)
    whole = {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}
    planes.send("PATCH", place, whole, MERGE)
    planes.agree("and is replaced", look)
    planes.each(_ready_one)
    planes.agree("all are new", look)
    planes.send("PATCH", f"{place}/scale", {"spec": {"replicas": 1}}, MERGE)
    planes.agree("scaled down", look)
    first_pod = core(planes, "pods/db-0?gracePeriodSeconds=0")
    planes.send("DELETE", first_pod, only=lambda body: body["metadata"]["name"])
    planes.agree("the first is created again", look)


def revisions(planes: Planes) -> None:
    """Change the templates of a StatefulSet and a DaemonSet, and return to the first ones."""
    place = apps(planes, "controllerrevisions")
    look = seen(planes, place)
    made = workload("StatefulSet", "db", replicas=1, revisionHistoryLimit=1)
    made["metadata"]["annotations"] = {"kubernetes.io/change-cause": "first"}
    made["spec"] |= {"serviceName": "db", "updateStrategy": {"rollingUpdate": {"partition": 1}}}
    planes.send("POST", apps(planes, "statefulsets"), made)
    planes.send("POST", apps(planes, "daemonsets"), workload("DaemonSet", "agent"))
    planes.agree("a revision of each", look)
    planes.each(_ready_one)
    for owner in ("statefulsets/db", "daemonsets/agent"):
        planes.send("PATCH", apps(planes, owner), NEW_IMAGE, STRATEGIC)
        planes.agree("two of it", look)
    first_pod = core(planes, "pods/db-0?gracePeriodSeconds=0")
    planes.send("DELETE", first_pod, only=lambda body: body["metadata"]["name"])
    planes.agree("below the partition it is created as it was", look)
    old = made["spec"]["template"]["spec"]["containers"][0]["image"]
    container = {"name": "main", "image": old}
    back = {"spec": {"template": {"spec": {"containers": [container]}}}}
    for owner in ("statefulsets/db", "daemonsets/agent"):
        planes.send("PATCH", apps(planes, owner), back, STRATEGIC)
        planes.agree("the first is the last again", look)
    planes.send("DELETE", apps(planes, "statefulsets/db"), only=lambda body: body["status"])
    planes.agree("its revisions go with it", look)


def parallel_stateful_set(planes: Planes) -> None:
    """Create and scale a StatefulSet all at once, with claims that go with it."""
    place = apps(planes, "statefulsets/db")
    claims = core(planes, "persistentvolumeclaims")
    look = seen(planes, place, claims)
    made = workload("StatefulSet", "db", replicas=3)
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "none",
        },
    }
    made["spec"] |= {
        "serviceName": "db",
        "podManagementPolicy": "Parallel",
        "ordinals": {"start": 5},
        "volumeClaimTemplates": [claim],
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Delete"},
    }
    planes.send("POST", apps(planes, "statefulsets"), made)
    planes.agree("all are created at once", look)
    planes.send("PATCH", f"{place}/scale", {"spec": {"replicas": 1}}, MERGE)
    planes.agree("two go, and their claims", look)
    planes.send("DELETE", f"{place}?propagationPolicy=Foreground")
    planes.agree("the claim stays", look)


def owners_of_pods_deleted_in_each_way(planes: Planes) -> None:
    """Delete each kind of owner of pods, and look at what is left of it and of its pods."""
    made = {
        "deployments": workload("Deployment", "web", replicas=1),
        "replicasets": workload("ReplicaSet", "web", replicas=1),
        "statefulsets": workload("StatefulSet", "web", replicas=1),
        "jobs": job("web", pod_spec(restartPolicy="Never")),
    }

    def look(plane: Plane) -> object:
        found = plane.items(core(planes, "pods")), plane.items(apps(planes, "replicasets"))
        return [
            [
                [owner["kind"] for owner in each["metadata"].get("ownerReferences", ())],
                each["metadata"].get("finalizers", []),
            ]
            for each in (*found[0], *found[1])
        ]

    for plural, owner in made.items():
        place = batch(planes, plural) if plural == "jobs" else apps(planes, plural)
        for asked in ("Policy=Orphan", "Policy=Background", "Policy=Foreground", ""):
            planes.send("POST", place, owner, only=lambda _: "")
            planes.agree(f"{plural}: a pod", look)
            options = f"?propagation{asked}" if asked else ""
            planes.send("DELETE", f"{place}/web{options}", only=lambda _: "")
            planes.agree(f"{plural}: deleted with {asked or 'no options'}", look)
            for left in (apps(planes, "replicasets"), core(planes, "pods")):
                planes.send("DELETE", left, only=lambda _: "")
            planes.agree(f"{plural}: nothing is left", look)


def collected_garbage(planes: Planes) -> None:
    """Delete owners in each way."""
    maps = core(planes, "configmaps")

    def owned(name: str, *owners: str, blocks: bool = False) -> Callable[[Plane], Object]:
        def make(plane: Plane) -> Object:
            references = [
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "name": owner,
                    "uid": plane.send("GET", f"{maps}/{owner}").body["metadata"]["uid"],
                    "blockOwnerDeletion": blocks,
                }
                for owner in owners
            ]
            return {"metadata": {"name": name, "ownerReferences": references}}

        return make

    def look(plane: Plane) -> object:
        return [
            [
                each["metadata"]["name"],
                [o["name"] for o in each["metadata"].get("ownerReferences", ())],
                each["metadata"].get("finalizers"),
            ]
            for each in plane.items(maps)
            if each["metadata"]["name"] != "kube-root-ca.crt"
        ]

    for policy in ("Background", "Foreground", "Orphan"):
        name = policy.lower()
        planes.send("POST", maps, owned(name))
        planes.send("POST", maps, owned(f"{name}-other"))
        planes.send("POST", maps, owned(f"{name}-child", name, blocks=True))
        planes.send("POST", maps, owned(f"{name}-grandchild", f"{name}-child"))
        planes.send("POST", maps, owned(f"{name}-shared", name, f"{name}-other"))
        planes.agree(f"all of {name}", look)
        planes.send("DELETE", f"{maps}/{name}?propagationPolicy={policy}")
        planes.agree(f"{name} is deleted", look)
    held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    planes.send("POST", maps, held)
    planes.send("DELETE", f"{maps}/held")
    planes.send("PATCH", f"{maps}/held", {"metadata": {"finalizers": None}}, MERGE)
    planes.send("GET", f"{maps}/held")
    missing = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "never-was",
        "uid": "00000000-0000-0000-0000-000000000001",
    }
    unknown = {
        **missing,
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "uid": "00000000-0000-0000-0000-000000000002",
    }
    planes.send("POST", maps, {"metadata": {"name": "orphan", "ownerReferences": [missing]}})
    planes.send("POST", maps, {"metadata": {"name": "unknown", "ownerReferences": [unknown]}})
    planes.send("POST", maps, {"metadata": {"name": "half", "ownerReferences": [missing, unknown]}})

    def misnamed(plane: Plane) -> Object:
        owner = plane.send("GET", f"{maps}/background-other").body["metadata"]
        reference = {**missing, "uid": owner["uid"]}
        return {"metadata": {"name": "misnamed", "ownerReferences": [reference]}}

    def foreign(plane: Plane) -> Object:
        owner = plane.send("GET", "api/v1/namespaces/kube-system/configmaps/kube-root-ca.crt").body
        reference = {**missing, "name": "kube-root-ca.crt", "uid": owner["metadata"]["uid"]}
        return {"metadata": {"name": "foreign", "ownerReferences": [reference]}}

    planes.send("POST", maps, misnamed)
    planes.send("POST", maps, foreign)
    planes.agree("what is owned by nothing goes", look)


def _job_view(planes: Planes, name: str) -> Callable[[Plane], object]:
    return seen(planes, batch(planes, f"jobs/{name}"))


def job_until_it_is_complete(planes: Planes) -> None:
    """Run a Job of three with two at a time; suspend and resume it."""
    look = _job_view(planes, "work")
    planes.send("POST", batch(planes, "jobs"), job("work", completions=3, parallelism=2))
    planes.agree("two are created", look)
    planes.each(_ready_one)
    planes.agree("one is ready", look)
    succeed = _ends("Succeeded")
    planes.each(succeed)
    planes.agree("one has succeeded", look)
    planes.send("PATCH", batch(planes, "jobs/work"), {"spec": {"suspend": True}}, MERGE)
    planes.agree("suspended", look)
    planes.send("PATCH", batch(planes, "jobs/work"), {"spec": {"suspend": False}}, MERGE)
    planes.agree("resumed", look)
    planes.each(succeed)
    planes.agree("two have succeeded", look)
    planes.each(succeed)
    planes.agree("complete", look)
    planes.send("DELETE", batch(planes, "jobs/work?propagationPolicy=Background"))
    planes.agree("deleted", look)


def _ends(phase: str, code: int = 0, *conditions: Object) -> Callable[[Plane], None]:
    def act(plane: Plane) -> None:
        def runs(pod: Object) -> bool:
            return (
                pod["status"].get("phase") in ("Pending", "Running")
                and "deletionTimestamp" not in pod["metadata"]
            )

        end(plane, first(plane, runs), phase, code, *conditions)

    return act


def job_that_fails_too_often(planes: Planes) -> None:
    """Fail more often than backoffLimit allows, while another pod still runs."""
    look = _job_view(planes, "work")
    made = job("work", completions=2, parallelism=2, backoffLimit=0)
    planes.send("POST", batch(planes, "jobs"), made)
    planes.agree("two are created", look)
    planes.each(_ends("Failed", 1))
    planes.agree("one failure is too many", look)


def job_past_its_deadline(planes: Planes) -> None:
    look = _job_view(planes, "work")
    planes.send("POST", batch(planes, "jobs"), job("work", activeDeadlineSeconds=2))
    planes.agree("late", look)


def job_failure_policy(planes: Planes) -> None:
    """Ignore a disruption, count an unknown end, and fail by an exit code."""
    look = _job_view(planes, "work")
    rules = [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
        {
            "action": "FailJob",
            "onExitCodes": {"containerName": "main", "operator": "In", "values": [42]},
        },
    ]
    made = job(
        "work", completions=2, parallelism=2, backoffLimit=3, podFailurePolicy={"rules": rules}
    )
    planes.send("POST", batch(planes, "jobs"), made)
    planes.agree("two are created", look)
    disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    planes.each(_ends("Failed", 143, disrupted))
    planes.agree("an ignored failure", look)
    planes.each(_ends("Failed", 42))
    planes.agree("the policy fails the Job", look)


def indexed_job(planes: Planes) -> None:
    """Run an Indexed Job: each index once, a failed one again, and too often."""
    look = _job_view(planes, "work")
    made = job(
        "work", completions=4, parallelism=3, completionMode="Indexed", backoffLimitPerIndex=0
    )
    planes.send("POST", batch(planes, "jobs"), made)
    planes.agree("three indexes begin", look)
    planes.each(_ends_index(1, "Succeeded"))
    planes.agree("index 1 is done, 3 begins", look)
    planes.each(_ends_index(0, "Failed"))
    planes.agree("index 0 has failed for good", look)
    planes.each(_ends_index(2, "Succeeded"))
    planes.each(_ends_index(3, "Succeeded"))
    planes.agree("the Job fails by an index", look)


def job_success_policy(planes: Planes) -> None:
    """End an Indexed Job with its first index."""
    look = _job_view(planes, "work")
    policy = {"rules": [{"succeededIndexes": "0,2-3", "succeededCount": 1}]}
    made = job("work", completions=4, parallelism=4, completionMode="Indexed", successPolicy=policy)
    planes.send("POST", batch(planes, "jobs"), made)
    planes.agree("four indexes begin", look)
    planes.each(_ends_index(1, "Succeeded"))
    planes.agree("index 1 is not enough", look)
    planes.each(_ends_index(2, "Succeeded"))
    planes.agree("index 2 is", look)


def _ends_index(index: int, phase: str) -> Callable[[Plane], None]:
    label = "batch.kubernetes.io/job-completion-index"

    def act(plane: Plane) -> None:
        def wanted(pod: Object) -> bool:
            return is_new(pod) and pod["metadata"].get("labels", {}).get(label) == str(index)

        end(plane, first(plane, wanted), phase, int(phase == "Failed"))

    return act


def job_replacement_policy(planes: Planes) -> None:
    """Replace a pod of a Job only when it has ended."""
    look = _job_view(planes, "work")
    made = job("work", podReplacementPolicy="Failed", backoffLimit=5)
    made["spec"]["template"]["metadata"] = {"finalizers": ["example.com/hold"]}
    planes.send("POST", batch(planes, "jobs"), made)
    planes.agree("one is created", look)
    _await_pod_gc(planes.real)
    planes.each(
        lambda plane: plane.send(
            "DELETE", core(planes, f"pods/{pods_of(plane)[0]['metadata']['name']}")
        )
    )
    planes.agree("it terminates, and nothing replaces it", look)
    planes.each(lambda plane: end(plane, pods_of(plane)[0], "Failed", 1))
    planes.agree("it has ended", look)


def events_of_workloads(planes: Planes) -> None:
    """Let workloads make and delete pods; what their controllers say of it is in Events."""

    def look(plane: Plane) -> object:
        found = plane.items(core(planes, "events"))
        return sorted(_of_a_controller(each) for each in found if "Pod" not in _about(each))

    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    db = workload("StatefulSet", "db", replicas=2)
    db["spec"] |= {"serviceName": "db", "volumeClaimTemplates": [claim]}
    planes.send("POST", apps(planes, "statefulsets"), db)
    for count in range(2):
        planes.agree(f"{count + 1} created", seen(planes))
        planes.each(_ready_one)
    planes.send("PATCH", apps(planes, "statefulsets/db/scale"), {"spec": {"replicas": 1}}, MERGE)
    planes.agree("one is left", seen(planes))
    planes.send("POST", apps(planes, "deployments"), workload("Deployment", "web", replicas=2))
    planes.agree("two more are created", seen(planes))
    planes.each(_ready_one)
    planes.each(_ready_one)
    planes.send("PATCH", apps(planes, "deployments/web/scale"), {"spec": {"replicas": 1}}, MERGE)
    planes.agree("one is left of each", seen(planes))
    planes.send("PATCH", apps(planes, "deployments/web"), NEW_IMAGE, STRATEGIC)
    planes.agree("a new one is created", seen(planes))
    planes.each(_ready_one)
    planes.agree("an old one is gone", seen(planes))
    planes.send("POST", batch(planes, "jobs"), job("once"))
    planes.agree("one more is created", seen(planes))
    planes.send("PATCH", batch(planes, "jobs/once"), {"spec": {"suspend": True}}, MERGE)
    planes.agree("and deleted", seen(planes))
    planes.agree("the Events of all controllers", look)


def _about(event: Object) -> str:
    found: str = event["involvedObject"]["kind"]
    return found


def _of_a_controller(event: Object) -> tuple[str, ...]:
    said = (str(plain(event[field])) for field in ("type", "reason", "message"))
    return (_about(event), event["source"]["component"], *said)


def _await_pod_gc(plane: Plane) -> None:
    """Wait until the pod garbage collector has looked, which it does every 20 s.

    It ends terminating pods that have no node, as those of these programs.
    """
    place = f"api/v1/namespaces/{plane.namespace}/pods"
    metadata = {"name": "collected", "finalizers": ["example.com/hold"]}
    made = {"metadata": metadata, "spec": pod_spec(nodeSelector={"home": "nowhere"})}
    assert plane.send("POST", place, made).code == 201
    plane.send("DELETE", f"{place}/collected")
    deadline = time.monotonic() + 60
    while plane.send("GET", f"{place}/collected").body["status"]["phase"] != "Failed":
        assert time.monotonic() < deadline, "no pod garbage collector looked"
        time.sleep(0.1)
    plane.send("PATCH", f"{place}/collected", {"metadata": {"finalizers": None}}, MERGE)


WORKLOADS = (
    deployment,
    proportional_scaling,
    recreated_deployment,
    adopted_pods,
    replica_set,
    stateful_set,
    revisions,
    parallel_stateful_set,
    collected_garbage,
    owners_of_pods_deleted_in_each_way,
    job_until_it_is_complete,
    job_that_fails_too_often,
    job_past_its_deadline,
    job_failure_policy,
    indexed_job,
    job_success_policy,
    job_replacement_policy,
    events_of_workloads,
)
