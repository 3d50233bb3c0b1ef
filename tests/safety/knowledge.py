"""What one process was told of the cluster, and since when: it can go by nothing else."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from math import inf
from typing import Any, Final

import anyio

from reactive_desched.model.node_marks import CORDON
from reactive_desched.model.opt_outs import DO_NOT_EVICT
from reactive_desched.sim.conditions import condition_status, find_condition
from reactive_desched.sim.objects import Obj

OPT_OUT: Final = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
ZONE: Final = "topology.kubernetes.io/zone"


class Knowledge:
    """Objects by resource and uid, as the process has them; times are virtual seconds.

    `opted_out` and `unschedulable` are the objects and pods that are so, since when. `lacking` are
    the StatefulSets with fewer Ready pods than they want, and `ready_since` the Ready pods.
    `unfit_until` is until when a node had a taint that is a reason to evict, `inf` where it has
    one, and `changed_at` when its labels or taints changed last.
    """

    def __init__(self) -> None:
        self._objects: defaultdict[str, dict[str, Obj]] = defaultdict(dict)
        self.opted_out: dict[str, float] = {}
        self.unschedulable: dict[str, float] = {}
        self.lacking: dict[str, float] = {}
        self.ready_since: dict[str, float] = {}
        self.unfit_until: dict[str, float] = {}
        self.changed_at: dict[str, float] = {}

    def of(self, resource: str) -> dict[str, Obj]:
        """Return the objects of a resource by uid."""
        return self._objects[resource]

    def node(self, name: str) -> Obj | None:
        """Return a node by name."""
        return next((n for n in self.of("nodes").values() if n["metadata"]["name"] == name), None)

    def zone_of(self, name: str) -> str:
        """Return the zone of a node; empty where it has none, or is not known."""
        return zone_of(self.node(name))

    def ready_by_zone(self) -> dict[str, list[bool]]:
        """Return which nodes are Ready by zone; one without that condition counts as Ready."""
        zones: defaultdict[str, list[bool]] = defaultdict(list)
        for node in self.of("nodes").values():
            zones[zone_of(node)].append(condition_status(node, "Ready") in (None, "True"))
        return zones

    def take_in(self, resource: str, obj: Obj) -> None:
        """Take in an object as it is now."""
        uid, now = obj["metadata"]["uid"], anyio.current_time()
        before = self.of(resource).get(uid)
        self.of(resource)[uid] = obj
        _note(self.opted_out, uid, now, holds=opts_out(obj))
        if resource == "nodes":
            self._take_in_node(before, obj, now)
        if resource == "statefulsets":
            self._count_ready(uid, now)
        if resource == "pods":
            _note(self.unschedulable, uid, now, holds=is_unschedulable(obj))
            _note(self.ready_since, uid, now, holds=condition_status(obj, "Ready") == "True")
            self._count_ready(controller_uid(obj), now)

    def forget(self, resource: str, uid: str) -> None:
        """Take in that an object is gone."""
        obj = self.of(resource).pop(uid, None)
        for noted in (self.opted_out, self.unschedulable, self.ready_since):
            noted.pop(uid, None)
        if resource == "pods" and obj is not None:
            self._count_ready(controller_uid(obj), anyio.current_time())
        if resource == "nodes" and obj is not None:
            self.changed_at[obj["metadata"]["name"]] = anyio.current_time()

    def _take_in_node(self, before: Obj | None, node: Obj, now: float) -> None:
        name = node["metadata"]["name"]
        if before is None or features(before) != features(node):
            self.changed_at[name] = now
        if has_reason(node):
            self.unfit_until[name] = inf
        elif self.unfit_until.get(name) == inf:
            self.unfit_until[name] = now

    def _count_ready(self, uid: str, now: float) -> None:
        if (stateful_set := self.of("statefulsets").get(uid)) is None:
            self.lacking.pop(uid, None)
            return
        ready = sum(
            controller_uid(pod) == uid and "deletionTimestamp" not in pod["metadata"]
            for key in self.ready_since
            if (pod := self.of("pods").get(key)) is not None
        )
        wanted = int(stateful_set["spec"]["replicas"])
        _note(self.lacking, uid, now, holds=ready < wanted)


def _note(noted: dict[str, float], uid: str, now: float, *, holds: bool) -> None:
    if holds:
        noted.setdefault(uid, now)
    else:
        noted.pop(uid, None)


def opts_out(obj: Obj) -> bool:
    """Say whether an object asks for no eviction, be it for a time only."""
    annotations = obj["metadata"].get("annotations") or {}
    return OPT_OUT in annotations or DO_NOT_EVICT in annotations


def opted_out_until(obj: Obj) -> float:
    """Return the time of day at which the object's wish for no eviction ends."""
    annotations = obj["metadata"].get("annotations") or {}
    value = annotations.get(DO_NOT_EVICT, "true")
    return inf if value == "true" else datetime.fromisoformat(value).timestamp()


def has_reason(node: Obj) -> bool:
    """Say whether a node has a taint for which its pods may be evicted."""
    return any(taint["key"] != CORDON for taint in _taints(node))


def features(node: Obj) -> object:
    """Return what of a node decides which pods may be there."""
    taints = sorted((taint["key"], taint["effect"]) for taint in _taints(node))
    return taints, node["metadata"].get("labels"), node["status"].get("allocatable")


def controller_uid(obj: Obj) -> str:
    """Return the uid of an object's controller; empty where it has none."""
    owners: Iterable[Any] = obj["metadata"].get("ownerReferences") or ()
    return str(next((owner["uid"] for owner in owners if owner.get("controller")), ""))


def zone_of(node: Obj | None) -> str:
    """Return the zone of a node; empty where it has none."""
    return "" if node is None else str((node["metadata"].get("labels") or {}).get(ZONE, ""))


def is_unschedulable(pod: Obj) -> bool:
    """Say whether the scheduler found no node for a pod that is to stay."""
    found = find_condition(pod, "PodScheduled")
    return (
        found is not None
        and found["status"] == "False"
        and found.get("reason") == "Unschedulable"
        and "deletionTimestamp" not in pod["metadata"]
    )


def _taints(node: Obj) -> list[Obj]:
    taints: list[Obj] = node["spec"].get("taints") or []
    return taints
