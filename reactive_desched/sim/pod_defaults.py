"""The defaults that a real API server fills into a pod."""

from collections.abc import Iterable, Iterator
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from reactive_desched.sim.amounts import exact
from reactive_desched.sim.objects import Obj

__all__ = ["fill_pod_spec", "fill_requests", "fill_tolerations", "qos_class"]

_NOT_READY_S = 300
_MOVED_OFF_AFTER = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_COMPUTE = ("cpu", "memory")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_DEFAULTS = MappingProxyType(
    {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
)
_FILE_MODE = 0o644


def fill_pod_spec(spec: Obj) -> None:
    """Fill in a pod spec's defaults in place; also right for the spec of a template."""
    for field, value in (
        ("restartPolicy", "Always"),
        ("terminationGracePeriodSeconds", 30),
        ("dnsPolicy", "ClusterFirst"),
        ("schedulerName", "default-scheduler"),
        ("securityContext", {}),
    ):
        spec.setdefault(field, value)
    if int(spec["terminationGracePeriodSeconds"]) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    on_host = bool(spec.get("hostNetwork"))
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        _fill_container(container, on_host=on_host)
    for volume in spec.get("volumes") or ():
        _fill_volume(volume)


def _fill_container(container: Obj, *, on_host: bool) -> None:
    image = str(container.get("image", ""))
    container.setdefault("imagePullPolicy", "Always" if _is_latest(image) else "IfNotPresent")
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("resources", {})
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
        if on_host:
            port.setdefault("hostPort", port.get("containerPort"))
    for variable in container.get("env") or ():
        if reference := (variable.get("valueFrom") or {}).get("fieldRef"):
            reference.setdefault("apiVersion", "v1")
    for name in _PROBES:
        if probe := container.get(name):
            _fill_probe(probe)


def _fill_probe(probe: Obj) -> None:
    for field, value in _PROBE_DEFAULTS.items():
        probe.setdefault(field, value)
    if request := probe.get("httpGet"):
        request.setdefault("scheme", "HTTP")
        request.setdefault("path", "/")


def _fill_volume(volume: Obj) -> None:
    for name in ("configMap", "secret", "downwardAPI", "projected"):
        if name in volume:
            volume[name].setdefault("defaultMode", _FILE_MODE)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")


def fill_requests(spec: Obj) -> None:
    """Set each request of a container that names only a limit to that limit."""
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        resources = container["resources"]
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}


def _is_latest(image: str) -> bool:
    tag = image.rpartition("/")[2].partition(":")[2]
    return "@" not in image and tag in ("", "latest")


def fill_tolerations(spec: Obj) -> None:
    """Let the pod stay five minutes on a node that stops answering, unless it says otherwise."""
    tolerations = list(spec.get("tolerations") or ())
    for key in _MOVED_OFF_AFTER:
        if not any(_covers(toleration, key) for toleration in tolerations):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _NOT_READY_S,
                }
            )
    spec["tolerations"] = tolerations


def _covers(toleration: Obj, key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in (
        "",
        "NoExecute",
    )


def qos_class(spec: Obj) -> str:
    """Return BestEffort, Burstable or Guaranteed, from cpu and memory of all containers."""
    containers = [*spec.get("containers", ()), *spec.get("initContainers", ())]
    requests, limits = _summed(containers, "requests"), _summed(containers, "limits")
    if not requests and not limits:
        return "BestEffort"
    all_limited = all(set(_positive(c, "limits")) == set(_COMPUTE) for c in containers)
    return "Guaranteed" if all_limited and requests == limits else "Burstable"


def _summed(containers: Iterable[Obj], field: str) -> dict[str, Fraction]:
    total: dict[str, Fraction] = {}
    for container in containers:
        for name, amount in _positive(container, field).items():
            total[name] = total.get(name, Fraction(0)) + amount
    return total


def _positive(container: Obj, field: str) -> dict[str, Fraction]:
    return dict(_amounts(container.get("resources", {}).get(field) or {}))


def _amounts(listed: dict[str, Any]) -> Iterator[tuple[str, Fraction]]:
    for name in _COMPUTE:
        if name in listed and (amount := exact(str(listed[name]))) > 0:
            yield name, amount
