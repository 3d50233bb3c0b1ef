"""What a kubelet reports of the generated pods."""

import hashlib

from bench.render import Obj, mark, unquoted_mark
from bench.workloads import Workload


def time_at(second: int) -> str:
    """Return a moment within the pod's first minute."""
    return f"{mark('minute')}{second:02d}Z"


def sha256(text: str) -> str:
    """Return a digest, as images and checksums show it."""
    return hashlib.sha256(text.encode()).hexdigest()


def image_of(owner: Workload) -> str:
    """Return the image of the owner's own container."""
    version = f"v1.{owner.number % 40}.{owner.number % 7}"
    return f"registry.example.com/{owner.namespace}/{owner.app}:{version}"


def sidecar_of(owner: Workload) -> str:
    """Return the image of the sidecar."""
    return f"registry.example.com/mesh/sidecar-proxy:v1.{owner.number % 4}.0"


PROXY_RESOURCES: Obj = {
    "limits": {"cpu": "200m", "memory": "128Mi"},
    "requests": {"cpu": "10m", "memory": "32Mi"},
}


def resources_of(owner: Workload) -> Obj:
    """Return the requests and limits of the owner's own container."""
    return {
        "limits": {"memory": f"{owner.memory_mi * 2}Mi"},
        "requests": {"cpu": f"{owner.cpu_m}m", "memory": f"{owner.memory_mi}Mi"},
    }


def pod_status(owner: Workload) -> Obj:
    """Return the status of a healthy pod of this owner."""
    containers = (
        (
            "app",
            image_of(owner),
            resources_of(owner),
            unquoted_mark("restarts"),
            mark("container_a"),
        ),
        ("proxy", sidecar_of(owner), PROXY_RESOURCES, 0, mark("container_b")),
    )
    return {
        "observedGeneration": 1,
        "phase": "Running",
        "conditions": _conditions(),
        "hostIP": mark("host_ip"),
        "hostIPs": [{"ip": mark("host_ip")}],
        "podIP": mark("pod_ip"),
        "podIPs": [{"ip": mark("pod_ip")}],
        "startTime": time_at(1),
        "containerStatuses": [_container_status(*row) for row in containers],
        "qosClass": "Burstable",
    }


def _conditions() -> list[Obj]:
    rows = (
        ("PodReadyToStartContainers", "True", time_at(4)),
        ("Initialized", "True", time_at(1)),
        ("Ready", mark("ready"), mark("ready_since")),
        ("ContainersReady", mark("ready"), mark("ready_since")),
        ("PodScheduled", "True", time_at(0)),
    )
    return [
        {
            "type": name,
            "status": state,
            "lastProbeTime": None,
            "lastTransitionTime": since,
        }
        for name, state, since in rows
    ]


def _container_status(
    name: str, image: str, resources: Obj, restarts: int | str, container: str
) -> Obj:
    return {
        "name": name,
        "state": {"running": {"startedAt": time_at(5)}},
        "lastState": {},
        "ready": True,
        "restartCount": restarts,
        "image": image,
        "imageID": f"{image.partition(':')[0]}@sha256:{sha256(image)}",
        "containerID": f"containerd://{container}",
        "started": True,
        "resources": resources,
    }
