"""Reports the status of a node as a kubelet does."""

from typing import Any, Final

from reactive_desched.sim.clock import rfc3339
from reactive_desched.sim.conditions import condition_status, with_conditions
from reactive_desched.sim.objects import Obj, labels_of, name_of

__all__ = ["VERSION", "internal_ip", "needs_report", "reported"]

VERSION: Final = "v1.36.0"
_HEALTHY: Final = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "sufficient PID available"),
)
_CAPACITY: Final = {"cpu": "4", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi"}


def needs_report(node: Obj) -> bool:
    """Say whether the kubelet has never reported, or the control plane stopped hearing it."""
    return condition_status(node, "Ready") in (None, "Unknown")


def reported(node: Obj, now: float) -> Obj:
    """Return the status of a healthy node, keeping what its author wrote."""
    at, status = rfc3339(now), node.get("status", {})
    capacity: dict[str, Any] = {**_CAPACITY, **(status.get("capacity") or {})}
    return {
        **status,
        "capacity": capacity,
        "allocatable": status.get("allocatable") or capacity,
        "conditions": with_conditions(status.get("conditions") or (), _conditions(node, at), at),
        "addresses": status.get("addresses") or _addresses(node),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": status.get("nodeInfo") or _info(node),
    }


def internal_ip(node: Obj) -> str:
    """Return the node's address; "" while it has none."""
    for address in node.get("status", {}).get("addresses") or ():
        if address.get("type") == "InternalIP":
            return str(address["address"])
    return ""


def _conditions(node: Obj, at: str) -> list[Obj]:
    """Report all well, but leave alone a pressure that a user put there on purpose."""
    conditions = [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": f"kubelet has {message}",
            "lastHeartbeatTime": at,
        }
        for kind, status, reason, message in _HEALTHY
        if condition_status(node, kind) != "True"
    ]
    if condition_status(node, "NetworkUnavailable") is None:
        conditions.append(
            {
                "type": "NetworkUnavailable",
                "status": "False",
                "reason": "RouteCreated",
                "message": "RouteController created a route",
                "lastHeartbeatTime": at,
            }
        )
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "kubelet is posting ready status",
        "lastHeartbeatTime": at,
    }
    return [*conditions, ready]


def _addresses(node: Obj) -> list[Obj]:
    """Make up an address from the name, the same each time."""
    number = sum(ord(letter) * 31**place for place, letter in enumerate(name_of(node))) % 2**16
    address = f"192.168.{number // 256}.{number % 256}"
    return [
        {"type": "InternalIP", "address": address},
        {"type": "Hostname", "address": name_of(node)},
    ]


def _info(node: Obj) -> Obj:
    labels = labels_of(node)
    return {
        "architecture": labels.get("kubernetes.io/arch", "amd64"),
        "operatingSystem": labels.get("kubernetes.io/os", "linux"),
        "bootID": f"boot-{name_of(node)}",
        "machineID": f"machine-{name_of(node)}",
        "systemUUID": f"uuid-{name_of(node)}",
        "kernelVersion": "6.12.0",
        "osImage": "Simulated Linux",
        "containerRuntimeVersion": "sim://1.0.0",
        "kubeletVersion": VERSION,
        "kubeProxyVersion": VERSION,
    }
