"""What one process was told of the cluster, and since when: it can go by nothing else."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from math import inf
from typing import Any, Final

import anyio

from reactive_desched.model.node_marks import CONSOLIDATING, CORDON
from reactive_desched.model.opt_outs import DO_NOT_DISRUPT, DO_NOT_EVICT, SAFE_TO_EVICT
from reactive_desched.sim.clock import parse_time
from reactive_desched.sim.conditions import condition_status, find_condition
from reactive_desched.sim.objects import Obj

OPT_OUT: Final = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
DRAIN: Final = "ToBeDeletedByClusterAutoscaler"
ZONE: Final = "topology.kubernetes.io/zone"
NO_REASON: Final = (CORDON, DRAIN, CONSOLIDATING)
"""The taints for which no pod is evicted."""

GANG: Final = "scheduling.x-k8s.io/pod-group"


class Knowledge:
    """Objects by resource and uid, as the process has them; times are virtual seconds.

    `opted_out` and `unschedulable` are the objects and pods that are so, since when. `lacking` are
    the StatefulSets with fewer Ready pods than they want, and `ready_since` the Ready pods.
    `unfit_until` is until when a node had a taint that is a reason to evict, `inf` where it has
    one, and `changed_at` when its labels or taints changed last. `taints_since` has the taints of
    each node as they are, since when. `drained_since` are the nodes that an autoscaler empties, and
    `bound_at` is when pods were first seen on their node.
    """

    def __init__(self) -> None:
        self._objects: defaultdict[str, dict[str, Obj]] = defaultdict(dict)
        self.opted_out: dict[str, float] = {}
        self.unschedulable: dict[str, float] = {}
        self.lacking: dict[str, float] = {}
        self.ready_since: dict[str, float] = {}
        self.unfit_until: dict[str, float] = {}
        self.changed_at: dict[str, float] = {}
        self.taints_since: dict[str, dict[tuple[str, str, str], float]] = {}
        self.drained_since: dict[str, float] = {}
        self.bound_at: dict[str, float] = {}

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

    def deployment_of(self, pod: Obj) -> Obj | None:
        """Return the Deployment of a pod, where it and its ReplicaSet are known."""
        replica_set = self.of("replicasets").get(controller_uid(pod))
        return replica_set and self.of("deployments").get(controller_uid(replica_set))

    def ready_pods(self, controller: str) -> int:
        """Count the Ready pods of a controller that are to stay."""
        pods = (self.of("pods").get(uid) for uid in self.ready_since)
        return sum(
            pod is not None
            and controller_uid(pod) == controller
            and "deletionTimestamp" not in pod["metadata"]
            for pod in pods
        )

    def gang_of(self, pod: Obj) -> dict[str, Obj]:
        """Return the pods of a pod's gang that are on nodes and are to stay, by uid."""
        gang = _gang(pod)
        return {
            uid: each
            for uid, each in self.of("pods").items()
            if gang is not None
            and _gang(each) == gang
            and uid in self.bound_at
            and "deletionTimestamp" not in each["metadata"]
            and (each.get("status") or {}).get("phase") not in ("Failed", "Succeeded")
        }

    def lost_pods(self, controller: str, wall_s: float, timeout_s: float) -> int:
        """Count the pods of a controller that are not Ready for so long, by a clock of the day."""
        return sum(
            controller_uid(pod) == controller
            and "deletionTimestamp" not in pod["metadata"]
            and self.is_lost(uid, wall_s, timeout_s)
            for uid, pod in self.of("pods").items()
        )

    def is_lost(self, uid: str, wall_s: float, timeout_s: float) -> bool:
        """Say whether a pod is not Ready for so long, by a clock of the day; never if that is 0."""
        is_unready = uid not in self.ready_since and timeout_s > 0
        return is_unready and _unready_since_s(self.of("pods")[uid]) <= wall_s - timeout_s

    def ready_for_s(self, uid: str, wall_s: float) -> float:
        """Return for how long a pod is Ready by its condition; `inf` for one that is not."""
        found = find_condition(self.of("pods")[uid], "Ready")
        if found is None or found["status"] != "True":
            return inf
        return wall_s - parse_time(found["lastTransitionTime"])

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
            _note(self.bound_at, uid, now, holds=bool(obj["spec"].get("nodeName")))
            _note(self.ready_since, uid, now, holds=condition_status(obj, "Ready") == "True")
            self._count_ready(controller_uid(obj), now)

    def forget(self, resource: str, uid: str) -> None:
        """Take in that an object is gone."""
        obj = self.of(resource).pop(uid, None)
        for noted in (self.opted_out, self.unschedulable, self.ready_since, self.bound_at):
            noted.pop(uid, None)
        if resource == "pods" and obj is not None:
            self._count_ready(controller_uid(obj), anyio.current_time())
        if resource == "nodes" and obj is not None:
            self.changed_at[obj["metadata"]["name"]] = anyio.current_time()
            self.drained_since.pop(obj["metadata"]["name"], None)
            self.taints_since.pop(obj["metadata"]["name"], None)

    def _take_in_node(self, before: Obj | None, node: Obj, now: float) -> None:
        name = node["metadata"]["name"]
        if before is None or features(before) != features(node):
            self.changed_at[name] = now
        stood, taints = self.taints_since.get(name, {}), [_taint(t) for t in _taints(node)]
        self.taints_since[name] = {
            each: stood.get(each, now) for each in taints if each[0] not in NO_REASON
        }
        _note(self.drained_since, name, now, holds=is_drained(node))
        if has_reason(node):
            self.unfit_until[name] = inf
        elif self.unfit_until.get(name) == inf:
            self.unfit_until[name] = now

    def _count_ready(self, uid: str, now: float) -> None:
        if (stateful_set := self.of("statefulsets").get(uid)) is None:
            self.lacking.pop(uid, None)
            return
        wanted = int(stateful_set["spec"]["replicas"])
        _note(self.lacking, uid, now, holds=self.ready_pods(uid) < wanted)


def _note(noted: dict[str, float], uid: str, now: float, *, holds: bool) -> None:
    if holds:
        noted.setdefault(uid, now)
    else:
        noted.pop(uid, None)


def opts_out(obj: Obj) -> bool:
    """Say whether an object asks for no eviction, be it for a time only."""
    annotations = obj["metadata"].get("annotations") or {}
    if annotations.get(SAFE_TO_EVICT) == "false" or annotations.get(DO_NOT_DISRUPT) == "true":
        return True
    return OPT_OUT in annotations or DO_NOT_EVICT in annotations


def opted_out_until(obj: Obj) -> float:
    """Return the time of day at which the object's wish for no eviction ends."""
    annotations = obj["metadata"].get("annotations") or {}
    value = annotations.get(DO_NOT_EVICT, "true")
    return inf if value == "true" else datetime.fromisoformat(value).timestamp()


def has_reason(node: Obj) -> bool:
    """Say whether a node has a taint for which its pods may be evicted."""
    return any(taint["key"] not in NO_REASON for taint in _taints(node))


def _taint(taint: Obj) -> tuple[str, str, str]:
    return taint["key"], taint.get("value", ""), taint["effect"]


def is_drained(node: Obj) -> bool:
    """Say whether an autoscaler empties a node."""
    return any(taint["key"] == DRAIN for taint in _taints(node))


def is_rolling_out(deployment: Obj) -> bool:
    """Say whether a Deployment has pods of an older template, or its rollout has yet to begin."""
    status = deployment.get("status") or {}
    if status.get("observedGeneration", 0) < deployment["metadata"].get("generation", 0):
        return True
    conditions: list[Obj] = status.get("conditions") or []
    is_given_up = any(c.get("reason") == "ProgressDeadlineExceeded" for c in conditions)
    is_over = is_given_up or bool(deployment["spec"].get("paused"))
    return not is_over and status.get("replicas", 0) > status.get("updatedReplicas", 0)


def features(node: Obj) -> object:
    """Return what of a node decides which pods may be there."""
    taints = sorted((taint["key"], taint["effect"]) for taint in _taints(node))
    return taints, node["metadata"].get("labels"), node["status"].get("allocatable")


def controller_uid(obj: Obj) -> str:
    """Return the uid of an object's controller; empty where it has none."""
    owners: Iterable[Any] = obj["metadata"].get("ownerReferences") or ()
    return str(next((owner["uid"] for owner in owners if owner.get("controller")), ""))


def _gang(pod: Obj) -> tuple[str, str] | None:
    """Return the namespace and name of a pod's gang; None where it is in none."""
    name = (pod["metadata"].get("labels") or {}).get(GANG)
    return None if name is None else (pod["metadata"]["namespace"], name)


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


def _unready_since_s(pod: Obj) -> float:
    """Return since when a pod that is not Ready is not, its creation where that is not known."""
    found = find_condition(pod, "Ready")
    at = pod["metadata"]["creationTimestamp"] if found is None else found["lastTransitionTime"]
    return parse_time(at)
