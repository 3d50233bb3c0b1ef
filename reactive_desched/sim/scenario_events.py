"""Changes a simulated cluster while one watches; each event repeats until `sim` is stopped."""

from collections.abc import Callable
from typing import Final

import anyio

from reactive_desched.model.objects import HOSTNAME_LABEL, ZONE_LABEL
from reactive_desched.sim.clock import parse_time
from reactive_desched.sim.conditions import find_condition
from reactive_desched.sim.objects import Obj, clone, labels_of, name_of, namespace_of
from reactive_desched.sim.pods import (
    controller_of,
    is_terminal,
    node_of,
    phase_of,
)
from reactive_desched.sim.profiles import PREFIX
from reactive_desched.sim.store import DeleteOptions, Store

__all__ = [
    "LEAKY",
    "NAMESPACE",
    "URGENT",
    "annotate_pod",
    "autoscaler",
    "batch",
    "create_job",
    "preemption",
    "pressure",
    "storm",
    "taint_node",
]

NAMESPACE: Final = "lab"
LEAKY: Final = "leaky"
URGENT: Final = "urgent"
_FIRST_AFTER_S: Final = 30.0
_EVERY_S: Final = 120.0
_JOB_EVERY_S: Final = 60.0
_FAILING_JOB: Final = 3
"""One Job in so many fails."""

_SCAN_S: Final = 10.0
_WAITS_S: Final = 15.0
_EMPTY_S: Final = 60.0
_MOST_ADDED: Final = 10
_WAVE: Final = "wave"
_WAVE_S: Final = 180.0


async def storm(store: Store) -> None:
    """Taint zone after zone, each until the next one's turn; and again, without end."""
    zones = sorted({labels_of(node).get(ZONE_LABEL, "") for node in store.list("nodes")})
    await anyio.sleep(_FIRST_AFTER_S)
    while zones:
        for zone in zones:
            struck = [n for n in store.list("nodes") if labels_of(n).get(ZONE_LABEL, "") == zone]
            for node in struck:
                taint_node(store, name_of(node), "storm")
            await anyio.sleep(_EVERY_S)
            for node in struck:
                untaint_node(store, name_of(node), "storm")


async def pressure(store: Store) -> None:
    """Let one pod after the other use all memory of its node, until the kubelet ends it."""
    await anyio.sleep(_FIRST_AFTER_S)
    while True:
        running = [pod for pod in _pods_of(store, LEAKY) if phase_of(pod) == "Running"]
        if running:
            node = store.get("nodes", "", node_of(running[0])) or {}
            listed = node.get("status", {}).get("capacity") or {}
            annotate_pod(store, running[0], "usage-memory", str(listed.get("memory", "64Mi")))
        await anyio.sleep(_EVERY_S)


async def preemption(store: Store) -> None:
    """Ask for pods of high priority that fit only where others leave, and let them end again."""
    await anyio.sleep(_FIRST_AFTER_S)
    while True:
        for replicas in (max(2, len(store.list("nodes")) // 3), 0):
            _scale(store, URGENT, replicas)
            await anyio.sleep(_EVERY_S)


async def batch(store: Store) -> None:
    """Create a Job each minute; one in three fails."""
    number = 0
    while True:
        number += 1
        create_job(store, f"import-{number}", fails=number % _FAILING_JOB == 0)
        await anyio.sleep(_JOB_EVERY_S)


async def autoscaler(store: Store) -> None:
    """Add a node while pods wait for room, and take away one that was empty for a minute.

    Pods that wait for room come for three minutes of each six. At most ten nodes are added, and
    half of those that there were stay.
    """
    nodes = len(store.list("nodes"))
    store.create("deployments", _wave())
    async with anyio.create_task_group() as group:
        group.start_soon(_raise_and_end_waves, store, 3 * nodes)
        added = 0
        empty_since: dict[str, float] = {}
        while True:
            there, now = store.list("nodes"), store.clock.now()
            if len(there) < nodes + _MOST_ADDED and _any_waits(store, now):
                added += 1
                _join(store, there, f"added-{added}")
            empty = [name_of(node) for node in _empty(store, there)]
            empty_since = {name: empty_since.get(name, now) for name in empty}
            for name, since in empty_since.items():
                if now - since >= _EMPTY_S and len(there) > max(1, nodes // 2):
                    store.delete("nodes", "", name, DeleteOptions())
                    break
            await anyio.sleep(_SCAN_S)


async def _raise_and_end_waves(store: Store, replicas: int) -> None:
    await anyio.sleep(_FIRST_AFTER_S)
    while True:
        for wanted in (replicas, 0):
            _scale(store, _WAVE, wanted)
            await anyio.sleep(_WAVE_S)


def create_job(store: Store, name: str, *, fails: bool) -> None:
    """Create a Job of six pods, three at a time, that is removed five minutes after its end."""
    profile = "fail" if fails else "complete"
    notes = {f"{PREFIX}profile": profile, f"{PREFIX}run-seconds": "20"}
    requests = {"cpu": "200m", "memory": "64Mi"}
    container = {"name": "main", "image": "lab/job:1", "resources": {"requests": requests}}
    ignored = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    spec: Obj = {
        "parallelism": 3,
        "completions": 6,
        "backoffLimit": 4,
        "ttlSecondsAfterFinished": 300,
        "podFailurePolicy": {"rules": [ignored]},
        "template": {
            "metadata": {"annotations": notes},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        },
    }
    store.create("jobs", {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})


def taint_node(store: Store, name: str, key: str) -> None:
    """Add a NoSchedule taint to a node; nothing happens to one that has gone."""
    _retaint(store, name, key, [{"key": key, "effect": "NoSchedule"}])


def untaint_node(store: Store, name: str, key: str) -> None:
    """Take the taints with a key off a node; nothing happens to one that has gone."""
    _retaint(store, name, key, [])


def _retaint(store: Store, name: str, key: str, added: list[Obj]) -> None:
    def change(node: Obj) -> Obj:
        spec = dict(node["spec"])
        kept = [taint for taint in spec.pop("taints", None) or () if taint["key"] != key]
        taints = [*kept, *added]
        return {**node, "spec": {**spec, **({"taints": taints} if taints else {})}}

    if store.get("nodes", "", name) is not None:
        store.modify("nodes", "", name, change)


def _pods_of(store: Store, app: str) -> list[Obj]:
    return [pod for pod in store.list("pods", NAMESPACE) if labels_of(pod).get("app") == app]


def annotate_pod(store: Store, pod: Obj, key: str, value: str) -> None:
    """Set an annotation of those that steer a pod; `key` is without their prefix."""

    def change(current: Obj) -> Obj:
        meta = current["metadata"]
        notes = {**(meta.get("annotations") or {}), f"{PREFIX}{key}": value}
        return {**current, "metadata": {**meta, "annotations": notes}}

    store.modify("pods", namespace_of(pod), name_of(pod), change)


def _scale(store: Store, deployment: str, replicas: int) -> None:
    """Set a Deployment's replicas; nothing happens to one that was deleted."""
    if store.get("deployments", NAMESPACE, deployment) is None:
        return
    change: Callable[[Obj], Obj] = lambda current: {  # noqa: E731 -- a one-line change reads best in place
        **current,
        "spec": {**current["spec"], "replicas": replicas},
    }
    store.modify("deployments", NAMESPACE, deployment, change)


def _wave() -> Obj:
    """Return a Deployment without pods, each of which would ask for two cores."""
    labels = {"app": _WAVE}
    requests = {"cpu": "2", "memory": "64Mi"}
    container = {"name": "main", "image": "lab/app:1", "resources": {"requests": requests}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": _WAVE, "namespace": NAMESPACE}, "spec": spec}


def _any_waits(store: Store, now: float) -> bool:
    """Say whether a pod has been unschedulable for so long that a node is added for it."""
    return any(_waits(pod, now) for pod in store.list("pods"))


def _waits(pod: Obj, now: float) -> bool:
    condition = find_condition(pod, "PodScheduled") or {}
    if node_of(pod) or is_terminal(pod) or condition.get("reason") != "Unschedulable":
        return False
    return parse_time(condition["lastTransitionTime"]) + _WAITS_S <= now


def _empty(store: Store, nodes: list[Obj]) -> list[Obj]:
    """Return the nodes without pods, but those of DaemonSets."""
    used = {
        node_of(pod)
        for pod in store.list("pods")
        if not is_terminal(pod) and (controller_of(pod) or {}).get("kind") != "DaemonSet"
    }
    return [node for node in nodes if name_of(node) not in used]


def _join(store: Store, nodes: list[Obj], name: str) -> None:
    """Add a node like the one with the most cores, under another name."""
    like = clone(max(nodes, key=lambda node: int(node["status"]["capacity"]["cpu"])))
    status = {field: like["status"][field] for field in ("capacity", "allocatable")}
    labels = {**labels_of(like), HOSTNAME_LABEL: name}
    spec = {"providerID": f"sim:///{labels.get(ZONE_LABEL, '')}/{name}"}
    store.create(
        "nodes", {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}
    )
