"""The cells of a pod, whose status column says what a person would say."""

from msgspec import Struct

from reactive_desched.sim.conditions import condition_status, find_condition
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.tables.columns import age_of, or_none, since

__all__ = ["pod_cells"]


class _Containers(Struct, frozen=True):
    """The sums over the containers of a pod."""

    total: int
    ready: int
    restarts: int
    last_restart: str


def pod_cells(pod: Obj, now: float) -> list[object]:
    """Return name, ready, status, restarts, age; and the wide ones: IP, node, nominated, gates."""
    counted = _count(pod)
    restarts = str(counted.restarts)
    if counted.restarts and counted.last_restart:
        restarts += f" ({since(counted.last_restart, now)} ago)"
    status, spec = pod.get("status", {}), pod.get("spec", {})
    return [
        pod["metadata"]["name"],
        f"{counted.ready}/{counted.total}",
        _status(pod),
        restarts,
        age_of(pod, now),
        or_none(status.get("podIP")),
        or_none(spec.get("nodeName")),
        or_none(status.get("nominatedNodeName")),
        _gates(pod),
    ]


def _gates(pod: Obj) -> str:
    gates = pod.get("spec", {}).get("readinessGates") or ()
    if not gates:
        return or_none(None)
    met = [gate for gate in gates if condition_status(pod, gate.get("conditionType", "")) == "True"]
    return f"{len(met)}/{len(gates)}"


def _count(pod: Obj) -> _Containers:
    spec, status = pod.get("spec", {}), pod.get("status", {})
    sidecars = {c["name"] for c in spec.get("initContainers", ()) if _is_sidecar(c)}
    counted = [
        *(s for s in status.get("initContainerStatuses") or () if s.get("name") in sidecars),
        *(status.get("containerStatuses") or ()),
    ]
    ready = [s for s in counted if s.get("ready") and "running" in s.get("state", {})]
    ended = [
        s["lastState"]["terminated"].get("finishedAt") or ""
        for s in counted
        if s.get("lastState", {}).get("terminated")
    ]
    total = len(spec.get("containers", ())) + len(sidecars)
    if _initializing(pod):
        counted = status["initContainerStatuses"]
    restarts = sum(int(s.get("restartCount", 0)) for s in counted)
    return _Containers(total, len(ready), restarts, max(ended, default=""))


def _is_sidecar(container: Obj) -> bool:
    return container.get("restartPolicy") == "Always"


def _status(pod: Obj) -> str:
    status = pod.get("status", {})
    if "deletionTimestamp" in pod["metadata"]:
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    if initializing := _initializing(pod):
        return initializing
    return _running(pod, _without_containers(pod))


def _without_containers(pod: Obj) -> str:
    status = pod.get("status", {})
    scheduled = find_condition(pod, "PodScheduled") or {}
    if scheduled.get("reason") == "SchedulingGated":
        return "SchedulingGated"
    return str(status.get("reason") or status.get("phase") or "Unknown")


def _initializing(pod: Obj) -> str:
    """Name the first init container that is not done, or "" when all are."""
    specs = {c["name"]: c for c in pod.get("spec", {}).get("initContainers") or ()}
    for index, container in enumerate(pod.get("status", {}).get("initContainerStatuses") or ()):
        state = container.get("state", {})
        if (state.get("terminated") or {}).get("exitCode") == 0 and "terminated" in state:
            continue
        if _is_sidecar(specs.get(container.get("name"), {})) and container.get("started"):
            continue
        if ended := state.get("terminated"):
            return f"Init:{_ended(ended)}"
        waiting = (state.get("waiting") or {}).get("reason")
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{index}/{len(specs)}"
    return ""


def _running(pod: Obj, reason: str) -> str:
    running = False
    # From the last to the first, so that the first container has the last word.
    for container in reversed(pod.get("status", {}).get("containerStatuses") or ()):
        state = container.get("state", {})
        if waiting := (state.get("waiting") or {}).get("reason"):
            reason = str(waiting)
        elif "terminated" in state:
            reason = _ended(state["terminated"])
        elif "running" in state and container.get("ready"):
            running = True
    if reason == "Completed" and running:
        return "Running" if condition_status(pod, "Ready") == "True" else "NotReady"
    return reason


def _ended(terminated: Obj) -> str:
    if reason := terminated.get("reason"):
        return str(reason)
    if signal := terminated.get("signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"
