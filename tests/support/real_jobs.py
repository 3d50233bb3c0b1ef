"""Migration jobs of a real cluster: made by hand, and looked at with kubectl."""

import json
from typing import Any

from tests.support.control_plane import wait_until
from tests.support.kubectl import Object
from tests.support.playground import E2ENamespace


def create_job(playground: E2ENamespace, pod: str, ttl: str, **spec: Any) -> str:
    """Apply a job by hand for a pod, and return its name."""
    name = f"{playground.namespace}-job"
    job = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "PodMigrationJob",
        "metadata": {"name": name},
        "spec": {"ttl": ttl, "podRef": {"namespace": playground.namespace, "name": pod}, **spec},
    }
    playground.kubectl.run("apply", "-f", "-", stdin=json.dumps(job))
    return name


def status(playground: E2ENamespace, job: str) -> Object:
    """Return the status of a job; empty where there is none."""
    found = playground.kubectl.get("podmigrationjobs", job)
    written: Object = found[0].get("status", {})
    return written


def has_not(playground: E2ENamespace, job: str, condition: str) -> bool:
    """Say whether a condition of a job does not hold, or not yet."""
    found = status(playground, job).get("conditions", ())
    return condition not in {each["type"] for each in found if each["status"] == "True"}


def await_place(playground: E2ENamespace, job: str) -> str:
    """Wait until the placeholder of a job has a node, and name that."""
    wait_until(
        lambda: not has_not(playground, job, "ReservationScheduled"),
        within_s=60,
        what="the placeholder has a node",
    )
    node: str = status(playground, job)["nodeName"]
    return node


def await_phase(playground: E2ENamespace, job: str, phase: str) -> Object:
    """Wait until a job is in a phase, and return its status."""
    wait_until(
        lambda: status(playground, job).get("phase") == phase,
        within_s=60,
        what=f"the job is {phase}",
    )
    return status(playground, job)


def placeholders(playground: E2ENamespace) -> list[str]:
    """Name the placeholders of a playground."""
    pods = playground.kubectl.get("pods", "-n", playground.namespace)
    names = [pod["metadata"]["name"] for pod in pods]
    return [name for name in names if name.startswith("placeholder")]
