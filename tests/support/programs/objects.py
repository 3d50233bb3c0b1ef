"""The objects that the small programs create, and where they stand."""

from collections.abc import Callable
from typing import Any

from tests.support.two_planes import STRATEGIC, Plane, Planes, plain

Object = dict[str, Any]  # a Kubernetes object as JSON
NOWHERE = {"no-such-node": "true"}
"""A node selector that keeps pods Pending, so that the program plays their kubelet."""


def core(planes: Planes, rest: str) -> str:
    """Return a path of the core group in the program's namespace."""
    return f"api/v1/namespaces/{planes.namespace}/{rest}"


def apps(planes: Planes, rest: str) -> str:
    return f"apis/apps/v1/namespaces/{planes.namespace}/{rest}"


def batch(planes: Planes, rest: str) -> str:
    return f"apis/batch/v1/namespaces/{planes.namespace}/{rest}"


def policy(planes: Planes, rest: str) -> str:
    return f"apis/policy/v1/namespaces/{planes.namespace}/{rest}"


def pod_spec(**fields: object) -> Object:
    container = {"name": "main", "image": "example.invalid/main:1"}
    return {
        "containers": [container],
        "nodeSelector": NOWHERE,
        "automountServiceAccountToken": False,
        **fields,
    }


def pod(name: str, labels: Object | None = None, **spec: object) -> Object:
    meta: Object = {"name": name}
    if labels:
        meta["labels"] = labels
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod_spec(**spec)}


def create_pod(planes: Planes, made: Object) -> None:
    """Create a pod, and wait until the scheduler has tried to place it.

    Answers after that show what it noted on the pod.
    """
    planes.send("POST", core(planes, "pods"), made)
    planes.agree("the scheduler has tried", lambda plane: plane.items(core(planes, "pods")))


def workload(kind: str, name: str, template: Object | None = None, **spec: object) -> Object:
    """Return a Deployment, ReplicaSet, StatefulSet or DaemonSet."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template or pod_spec()},
            **spec,
        },
    }


def job(name: str, template: Object | None = None, **spec: object) -> Object:
    """Return a Job whose pods are not restarted."""
    made = template or pod_spec(restartPolicy="Never")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": {"spec": made}, **spec},
    }


def budget(name: str, app: str, **spec: object) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
    }


def pods_of(plane: Plane, app: str = "") -> list[Object]:
    """Return the pods of the namespace, or of an app, by name."""
    chosen = f"?labelSelector=app%3D{app}" if app else ""
    found = plane.items(f"api/v1/namespaces/{plane.namespace}/pods{chosen}")
    return sorted(found, key=lambda each: each["metadata"]["name"])


def set_status(plane: Plane, pod: Object, status: Object) -> None:
    """Change a pod's status as its kubelet would."""
    path = f"api/v1/namespaces/{plane.namespace}/pods/{pod['metadata']['name']}/status"
    answer = plane.send("PATCH", path, {"status": status}, STRATEGIC)
    assert answer.code == 200, answer


def make_ready(plane: Plane, pod: Object) -> None:
    """Have a pod run and be Ready, since a moment that both have passed."""
    at = "2026-01-01T00:00:00Z"
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": at}
    set_status(plane, pod, {"phase": "Running", "startTime": at, "conditions": [condition]})


def end(plane: Plane, pod: Object, phase: str, code: int = 0, *conditions: Object) -> None:
    """Have a pod end with an exit code."""
    at = "2026-01-01T00:00:00Z"
    ended = {"exitCode": code, "startedAt": at, "finishedAt": at, "reason": "Error"}
    container = {
        "name": "main",
        "image": "example.invalid/main:1",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"terminated": ended},
    }
    status = {"phase": phase, "containerStatuses": [container], "conditions": list(conditions)}
    set_status(plane, pod, status)


def first(plane: Plane, wanted: Callable[[Object], bool], app: str = "") -> Object:
    """Return the first pod by name of which this holds."""
    return next(each for each in pods_of(plane, app) if wanted(each))


def is_new(pod: Object) -> bool:
    return pod["status"].get("phase") == "Pending" and "deletionTimestamp" not in pod["metadata"]


def as_seen(pods: list[Object]) -> list[Object]:
    """Return what a client sees of pods whose names the server makes up, in one order."""
    shown = [
        {
            "name": each["metadata"].get("generateName") or each["metadata"]["name"],
            "labels": sorted((each["metadata"].get("labels") or {}).items()),
            "annotations": sorted((each["metadata"].get("annotations") or {}).items()),
            "finalizers": each["metadata"].get("finalizers"),
            "owners": each["metadata"].get("ownerReferences"),
            "terminating": "deletionTimestamp" in each["metadata"],
            "phase": each["status"].get("phase"),
            "node": each["spec"].get("nodeName"),
            "conditions": _conditions(each),
        }
        for each in pods
    ]
    return sorted(shown, key=lambda each: repr(plain(each)))


def _conditions(obj: Object) -> list[tuple[object, ...]]:
    return sorted(
        (c["type"], c["status"], c.get("reason"), c.get("message"))
        for c in obj["status"].get("conditions") or ()
    )
