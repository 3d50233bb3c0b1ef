"""Nodes as an API server shows them: about 11 KB, half of it images."""

import hashlib
import random

import msgspec

from bench.pod_json import DEDICATED_TAINT
from bench.render import Obj, managed_fields
from bench.small_json import CSI_DRIVER
from bench.workloads import is_dedicated_node, uid_text

_REGISTRY = "registry.example.com"
_IMAGES = 34


def node_name(number: int) -> str:
    """Return the name of a node, as a large cloud provider would form it."""
    return (
        f"ip-10-{number >> 16 & 255}-{number >> 8 & 255}-{number & 255}.eu-west-1.compute.internal"
    )


def host_ip(number: int) -> str:
    """Return the node's own address."""
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def render_node(number: int, nodes: int, version: int, taints: tuple[str, ...] = ()) -> bytes:
    """Return a node as JSON with further NoSchedule taints of these keys."""
    keys = (DEDICATED_TAINT, *taints) if is_dedicated_node(number, nodes) else taints
    return msgspec.json.encode(_node(number, version, keys))


def render_csi_node(number: int) -> bytes:
    """Return what the storage driver says of a node as JSON."""
    driver = {"name": CSI_DRIVER, "nodeID": f"i-{number:017x}", "allocatable": {"count": 25}}
    metadata = {
        "name": node_name(number),
        "uid": uid_text(f"{random.Random(-number).getrandbits(128):032x}"),  # noqa: S311  # as below
        "resourceVersion": "900000000",
    }
    return msgspec.json.encode({"metadata": metadata, "spec": {"drivers": [driver]}})


def _node(number: int, version: int, taints: tuple[str, ...]) -> Obj:
    rng = random.Random(number)  # noqa: S311  # the data must be the same on every machine
    zone = f"eu-west-1{'abc'[number % 3]}"
    metadata = _metadata(number, zone, version, rng)
    status = _status(number, rng)
    metadata["managedFields"] = _managed_fields(metadata, status)
    spec: Obj = {
        "podCIDR": "10.64.0.0/24",
        "podCIDRs": ["10.64.0.0/24"],
        "providerID": f"aws:///{zone}/i-{number:017x}",
    }
    if taints:
        spec["taints"] = [{"key": key, "effect": "NoSchedule"} for key in taints]
    return {"metadata": metadata, "spec": spec, "status": status}


def _metadata(number: int, zone: str, version: int, rng: random.Random) -> Obj:
    name = node_name(number)
    return {
        "name": name,
        "uid": uid_text(f"{rng.getrandbits(128):032x}"),
        "resourceVersion": str(version),
        "creationTimestamp": "2025-10-09T08:53:20Z",
        "labels": {
            "beta.kubernetes.io/arch": "amd64",
            "beta.kubernetes.io/instance-type": "m6i.4xlarge",
            "beta.kubernetes.io/os": "linux",
            "example.com/pool": ("general", "memory")[number % 2],
            "failure-domain.beta.kubernetes.io/region": "eu-west-1",
            "failure-domain.beta.kubernetes.io/zone": zone,
            "karpenter.sh/capacity-type": "spot",
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "node.kubernetes.io/instance-type": "m6i.4xlarge",
            "topology.kubernetes.io/region": "eu-west-1",
            "topology.kubernetes.io/zone": zone,
        },
        "annotations": {
            "alpha.kubernetes.io/provided-node-ip": host_ip(number),
            "node.alpha.kubernetes.io/ttl": "0",
            "volumes.kubernetes.io/controller-managed-attach-detach": "true",
        },
    }


_RESOURCES = {
    "cpu": "16",
    "ephemeral-storage": "104845292Ki",
    "hugepages-1Gi": "0",
    "hugepages-2Mi": "0",
    "memory": "64894368Ki",
    "pods": "110",
}
_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "is posting ready status"),
)


def _status(number: int, rng: random.Random) -> Obj:
    return {
        "capacity": _RESOURCES,
        "allocatable": _RESOURCES,
        "conditions": [
            {
                "type": name,
                "status": state,
                "lastHeartbeatTime": "2026-01-21T12:53:20Z",
                "lastTransitionTime": "2025-10-09T08:53:40Z",
                "reason": reason,
                "message": f"kubelet {message}",
            }
            for name, state, reason, message in _CONDITIONS
        ],
        "addresses": [
            {"type": "InternalIP", "address": host_ip(number)},
            {"type": "Hostname", "address": node_name(number)},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": _node_info(number, rng),
        "images": [_image(image) for image in rng.sample(range(400), _IMAGES)],
    }


def _node_info(number: int, rng: random.Random) -> Obj:
    return {
        "machineID": f"{number:032x}",
        "systemUUID": uid_text(f"{rng.getrandbits(128):032x}"),
        "bootID": uid_text(f"{rng.getrandbits(128):032x}"),
        "kernelVersion": "6.1.112-122.189.amzn2023.x86_64",
        "osImage": "Amazon Linux 2023",
        "containerRuntimeVersion": "containerd://1.7.22",
        "kubeletVersion": "v1.33.2",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }


def _image(number: int) -> Obj:
    name = f"{_REGISTRY}/team-{number % 9}/image-{number}"
    digest = hashlib.sha256(name.encode()).hexdigest()
    return {
        "names": [f"{name}@sha256:{digest}", f"{name}:v1.{number}"],
        "sizeBytes": 50_000_000 + number,
    }


def _managed_fields(metadata: Obj, status: Obj) -> list[Obj]:
    named = {name: metadata[name] for name in ("annotations", "labels")}
    common = {"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    return [
        {"manager": "kubelet", "time": "2025-10-09T08:53:20Z"}
        | common
        | {"fieldsV1": managed_fields({"metadata": named, "spec": {"providerID": 0}})},
        {"manager": "kubelet", "time": "2026-01-21T12:53:20Z", "subresource": "status"}
        | common
        | {
            "fieldsV1": managed_fields(
                {"status": {"conditions": status["conditions"], "images": 0}}
            )
        },
    ]
