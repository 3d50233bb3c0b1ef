"""The statuses a kubelet writes, one function per event in a pod's life."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from reactive_desched.sim.clock import rfc3339
from reactive_desched.sim.conditions import with_conditions
from reactive_desched.sim.objects import Obj

__all__ = [
    "PULL_FAILED",
    "admitted",
    "crashed",
    "ended",
    "not_found",
    "pulling_in_vain",
    "readiness",
    "restarted",
    "running",
    "waits_for",
]

PULL_FAILED: Final = "ErrImagePull"

_CONTAINERS: Final = "containerStatuses"
_INIT: Final = "initContainerStatuses"

State = Callable[[Obj], Obj]


def admitted(pod: Obj, host_ip: str, pod_ip: str, now: float) -> Obj:
    """Accept a pod: it has addresses and is being put together."""
    at, spec = rfc3339(now), pod["spec"]
    conditions = [
        _condition("PodReadyToStartContainers", ok=True),
        _condition(
            "Initialized", ok=not spec.get("initContainers"), why="ContainersNotInitialized"
        ),
        _condition("ContainersReady", ok=False, why="ContainersNotReady"),
        _condition("Ready", ok=False, why="ContainersNotReady"),
    ]
    reason = "PodInitializing" if spec.get("initContainers") else "ContainerCreating"
    status = {
        **pod.get("status", {}),
        "phase": "Pending",
        "startTime": at,
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
        _CONTAINERS: [_waiting(c, reason) for c in spec.get("containers") or ()],
    }
    if spec.get("initContainers"):
        status[_INIT] = [_waiting(c, reason) for c in spec["initContainers"]]
    return _concluded(status, conditions, at)


def running(pod: Obj, now: float, *, ready: bool) -> Obj:
    """Start every container; ordinary init containers have done their work."""
    at, spec = rfc3339(now), pod["spec"]
    status = {
        **pod["status"],
        "phase": "Running",
        _CONTAINERS: [_started(c, at, ready=ready) for c in spec.get("containers") or ()],
    }
    if spec.get("initContainers"):
        status[_INIT] = [
            _started(c, at, ready=True) if c.get("restartPolicy") == "Always" else _done(c, at)
            for c in spec["initContainers"]
        ]
    conditions = [_condition("Initialized", ok=True), *_ready_conditions(ready=ready)]
    return _concluded(status, conditions, at)


def readiness(pod: Obj, now: float, *, ready: bool) -> Obj:
    """Let the readiness probes answer."""
    status = pod["status"]
    containers = [{**c, "ready": ready} for c in status.get(_CONTAINERS) or ()]
    fresh = {**status, _CONTAINERS: containers}
    return _concluded(fresh, _ready_conditions(ready=ready), rfc3339(now))


def pulling_in_vain(pod: Obj, now: float, missing: Mapping[str, str], *, backs_off: bool) -> Obj:
    """Fail to find images, of which each container has one, or wait before the next time.

    Containers of other images run, behind init containers; the pod stays Pending.
    """
    at, status = rfc3339(now), pod["status"]

    def tried(container: Obj) -> Obj:
        image = missing.get(container["name"])
        if image is None:
            return _started(container, at, ready=True)
        return _unpulled({**container, "image": image}, backs_off=backs_off)

    done: list[Obj] = []
    is_stuck = False
    for each in status.get(_INIT) or ():
        is_done = is_stuck or "terminated" in each["state"]
        kept = each if is_done else _done(each, at)
        is_first = not is_stuck and each["name"] in missing
        done.append(tried(each) if is_first else kept)
        is_stuck = is_stuck or is_first
    fresh = {**status, _INIT: done} if done else dict(status)
    if not is_stuck:
        fresh[_CONTAINERS] = [tried(each) for each in status.get(_CONTAINERS) or ()]
    return _concluded(fresh, [], at)


def _unpulled(container: Obj, *, backs_off: bool) -> Obj:
    image = str(container["image"])
    if not backs_off:
        return _stated(container, {"waiting": _why(PULL_FAILED, not_found(image))})
    said = f'Back-off pulling image "{image}": {PULL_FAILED}: {not_found(image)}'
    return _stated(container, {"waiting": _why("ImagePullBackOff", said)})


def not_found(image: str) -> str:
    """Return what a container runtime says of an image that its registry does not have."""
    return f'failed to pull and unpack image "{image}": failed to resolve reference: not found'


def waits_for(pod: Obj, reason: str) -> bool:
    """Say whether a container of a pod waits for this reason."""
    status = pod["status"]
    return any(
        each.get("state", {}).get("waiting", {}).get("reason") == reason
        for kind in (_INIT, _CONTAINERS)
        for each in status.get(kind) or ()
    )


def crashed(pod: Obj, now: float, exit_code: int, wait_s: int) -> Obj:
    """End every container; the kubelet will start it again after a wait."""
    at, status = rfc3339(now), pod["status"]
    waiting = _why("CrashLoopBackOff", f"back-off {wait_s}s restarting failed container")
    containers = [
        {
            **_stated(c, {"waiting": waiting}),
            "lastState": {"terminated": _terminated(c, at, exit_code)},
        }
        for c in status.get(_CONTAINERS) or ()
    ]
    fresh = {**status, _CONTAINERS: containers}
    return _concluded(fresh, _ready_conditions(ready=False), at)


def restarted(pod: Obj, now: float) -> Obj:
    """Start every container once more."""
    at, status = rfc3339(now), pod["status"]
    containers = [
        {
            **_stated(c, {"running": {"startedAt": at}}),
            "ready": True,
            "started": True,
            "restartCount": int(c.get("restartCount", 0)) + 1,
        }
        for c in status.get(_CONTAINERS) or ()
    ]
    fresh = {**status, _CONTAINERS: containers}
    return _concluded(fresh, _ready_conditions(ready=True), at)


def ended(pod: Obj, now: float, exit_code: int, reason: str = "", message: str = "") -> Obj:
    """Stop every container for good; the phase follows from the exit code."""
    at, status = rfc3339(now), pod.get("status", {})
    well = exit_code == 0
    why = "PodCompleted" if well else "PodFailed"
    fresh = {
        **status,
        "phase": "Succeeded" if well else "Failed",
        _CONTAINERS: _all_terminated(status.get(_CONTAINERS) or (), at, exit_code),
    }
    if status.get(_INIT):
        fresh[_INIT] = _all_terminated(status[_INIT], at, 0)
    if reason:
        fresh["reason"] = reason
    if message:
        fresh["message"] = message
    conditions = [
        _condition("PodReadyToStartContainers", ok=False),
        _condition("ContainersReady", ok=False, why=why),
        _condition("Ready", ok=False, why=why),
    ]
    return _concluded(fresh, conditions, at)


def _all_terminated(containers: Iterable[Obj], at: str, exit_code: int) -> list[Obj]:
    return [
        c
        if "terminated" in c.get("state", {})
        else _stated(c, {"terminated": _terminated(c, at, exit_code)})
        for c in containers
    ]


def _concluded(status: Obj, conditions: Iterable[Obj], at: str) -> Obj:
    return {**status, "conditions": with_conditions(status.get("conditions") or (), conditions, at)}


def _condition(kind: str, *, ok: bool, why: str = "") -> Obj:
    status: Obj = {"type": kind, "status": "True" if ok else "False", "lastProbeTime": None}
    if not ok and why:
        status["reason"] = why
    return status


def _ready_conditions(*, ready: bool) -> list[Obj]:
    return [
        _condition(kind, ok=ready, why="ContainersNotReady")
        for kind in ("ContainersReady", "Ready")
    ]


def _why(reason: str, message: str) -> Obj:
    return {"reason": reason, "message": message}


def _blank(container: Obj) -> Obj:
    image = str(container.get("image", ""))
    return {
        "name": container["name"],
        "image": image,
        "imageID": "",
        "ready": False,
        "started": False,
        "restartCount": 0,
        "lastState": {},
    }


def _waiting(container: Obj, reason: str) -> Obj:
    return {**_blank(container), "state": {"waiting": {"reason": reason}}}


def _started(container: Obj, at: str, *, ready: bool) -> Obj:
    return {
        **_blank(container),
        "imageID": f"sim://{container.get('image', '')}",
        "containerID": f"sim://{container['name']}",
        "ready": ready,
        "started": True,
        "state": {"running": {"startedAt": at}},
    }


def _done(container: Obj, at: str) -> Obj:
    state = {
        "terminated": {"exitCode": 0, "reason": "Completed", "startedAt": at, "finishedAt": at}
    }
    return {**_blank(container), "ready": True, "state": state}


def _stated(container: Obj, state: Obj) -> Obj:
    return {**container, "ready": False, "started": False, "state": state}


def _terminated(container: Obj, at: str, exit_code: int) -> Obj:
    since = container.get("state", {}).get("running", {}).get("startedAt", at)
    reason = "Completed" if exit_code == 0 else "Error"
    return {"exitCode": exit_code, "reason": reason, "startedAt": since, "finishedAt": at}
