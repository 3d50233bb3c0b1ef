"""Keeps one pod of a DaemonSet on every node it belongs on."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from reactive_desched.model.labels import Labels
from reactive_desched.model.node_affinity import NodeAffinity, satisfies_required
from reactive_desched.model.taints import (
    HARD_EFFECTS,
    Taint,
    Toleration,
    Tolerations,
    untolerated,
)
from reactive_desched.sim.controllers.adoption import claim, selecting
from reactive_desched.sim.controllers.controller import Reconciler, write_status
from reactive_desched.sim.controllers.pod_control import RETRY_S, PodControl, template_hash
from reactive_desched.sim.controllers.revisions import REVISION, Revisions
from reactive_desched.sim.index import PodIndex
from reactive_desched.sim.metadata import generated_name
from reactive_desched.sim.objects import Obj, labels_of, name_of, namespace_of
from reactive_desched.sim.pods import (
    Key,
    controller_of,
    from_template,
    is_active,
    is_ready,
    is_terminal,
    is_terminating,
    key_of,
    node_of,
)
from reactive_desched.sim.store import Event, Store

__all__ = ["DaemonSets"]

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFIX: Final = "node.kubernetes.io"
_ALWAYS_TOLERATED: Final = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)
_ON_HOST_NETWORK: Final = ("network-unavailable", "NoSchedule")


class _Placement(Struct, frozen=True):
    """The nodes on which a template may run, by its automatic tolerations too."""

    selector: Labels
    affinity: NodeAffinity | None
    tolerations: Tolerations

    def may_start(self, node: Obj) -> bool:
        """Say whether a pod belongs on the node."""
        taints = msgspec.convert(node.get("spec", {}).get("taints") or (), tuple[Taint, ...])
        left = untolerated(self.tolerations, taints)
        return self.may_stay(node) and not any(taint.effect in HARD_EFFECTS for taint in left)

    def may_stay(self, node: Obj) -> bool:
        """Say whether a pod that is there already may go on, as far as taints let it."""
        return satisfies_required(self.selector, self.affinity, name_of(node), labels_of(node))


class DaemonSets(Reconciler):
    """Recreates a node's pod when the old one is gone; updates one node at a time."""

    watches = frozenset({"daemonsets", "pods", "nodes"})

    def __init__(self, store: Store, index: PodIndex, pods: PodControl) -> None:
        super().__init__(store)
        self._index = index
        self._pods = pods
        self._revisions = Revisions(store, hash_label=REVISION)

    def observe(self, event: Event) -> None:
        """Look again at the set that changed or whose pod did, and at all when a node did."""
        if event.resource == "daemonsets":
            self.soon(key_of(event.object))
        elif event.resource == "nodes":
            if _matters(event):
                for daemons in self.store.list("daemonsets"):
                    self.soon(key_of(daemons))
        else:
            owner = controller_of(event.object)
            if owner is not None and owner["kind"] == "DaemonSet":
                self.soon((namespace_of(event.object), owner["name"]))
            for key in selecting(self.store, "daemonsets", event):
                self.soon(key)

    def reconcile(self, key: Key, now: float) -> None:
        """Make what is missing, delete what is out of place or outdated, and report."""
        found = self.store.get("daemonsets", *key)
        if found is None:
            return
        nodes = {name_of(node): node for node in self.store.list("nodes")}
        if not is_terminating(found):
            hashes = {str(labels_of(pod).get(REVISION)) for pod in self._owned(found)}
            self._revisions.keep(found, {f"{name_of(found)}-{each}" for each in hashes})
            placement = _placement(found)
            self._level(found, placement, nodes, now)
            self._update(found)
            self._report(found, [n for n, node in nodes.items() if placement.may_start(node)])

    def _owned(self, owner: Obj) -> list[Obj]:
        return claim(self.store, "pods", owner, self._index.claimable_by(owner))

    def _level(
        self, owner: Obj, placement: _Placement, nodes: Mapping[str, Obj], now: float
    ) -> None:
        held: dict[str, Obj] = {}
        for pod in self._owned(owner):
            if (node := nodes.get(_target(pod))) is None:
                unwanted = not node_of(pod)  # what ran on it is the pod garbage collector's
            else:
                unwanted = not placement.may_stay(node) or is_terminal(pod)
            if unwanted and not is_terminating(pod):
                self._pods.delete_for(owner, pod, draws_uid=False)
            else:
                held[_target(pod)] = pod
        for name, node in nodes.items():
            if name not in held and placement.may_start(node) and not self._create(owner, name):
                self.soon(key_of(owner), now + RETRY_S)
                return

    def _create(self, owner: Obj, node: str) -> bool:
        prefix = f"{name_of(owner)}-"
        name = generated_name(prefix, self._pods.rng)
        pod = from_template(owner, name, {REVISION: template_hash(owner["spec"]["template"])})
        pod["metadata"]["generateName"] = prefix
        spec = pod["spec"]
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *_extra_tolerations(spec)]
        affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
        affinity[_REQUIRED] = _pinned(affinity.get(_REQUIRED), node)
        return not self._pods.put_for(owner, pod, draws_uid=False)

    def _update(self, owner: Obj) -> None:
        """Delete one outdated pod when every other is ready."""
        strategy = owner["spec"].get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return
        current = template_hash(owner["spec"]["template"])
        pods = self._owned(owner)
        outdated = [p for p in pods if is_active(p) and labels_of(p).get(REVISION) != current]
        broken = next((pod for pod in outdated if not is_ready(pod)), None)
        if broken is not None:
            self._pods.delete_for(owner, broken, draws_uid=False)
        elif outdated and all(is_ready(pod) and not is_terminating(pod) for pod in pods):
            self._pods.delete_for(owner, outdated[0], draws_uid=False)

    def _report(self, owner: Obj, eligible: Iterable[str]) -> None:
        current = template_hash(owner["spec"]["template"])
        wanted = set(eligible)
        placed = [pod for pod in self._owned(owner) if is_active(pod)]
        right = [pod for pod in placed if _target(pod) in wanted]
        ready = sum(map(is_ready, right))
        status = {
            "currentNumberScheduled": len(right),
            "numberMisscheduled": len(placed) - len(right),
            "desiredNumberScheduled": len(wanted),
            "numberReady": ready,
            "observedGeneration": owner["metadata"].get("generation"),
            "updatedNumberScheduled": sum(
                1 for pod in right if labels_of(pod).get(REVISION) == current
            )
            or None,
            "numberAvailable": ready or None,
            "numberUnavailable": len(wanted) - ready or None,
        }
        write_status(self.store, "daemonsets", owner, status)


def _matters(event: Event) -> bool:
    node, before = event.object, event.previous
    if before is None or event.type == "DELETED":
        return True
    return node.get("spec") != before.get("spec") or labels_of(node) != labels_of(before)


def _extra_tolerations(spec: Obj) -> list[Obj]:
    marks = list(_ALWAYS_TOLERATED)
    if spec.get("hostNetwork"):
        marks.append(_ON_HOST_NETWORK)
    return [
        {"key": f"{_PREFIX}/{name}", "operator": "Exists", "effect": effect}
        for name, effect in marks
    ]


def _placement(owner: Obj) -> _Placement:
    spec = owner["spec"]["template"]["spec"]
    affinity = (spec.get("affinity") or {}).get("nodeAffinity")
    wished = [*(spec.get("tolerations") or ()), *_extra_tolerations(spec)]
    return _Placement(
        selector=spec.get("nodeSelector") or {},
        affinity=None if affinity is None else msgspec.convert(affinity, NodeAffinity),
        tolerations=tuple(msgspec.convert(toleration, Toleration) for toleration in wished),
    )


def _pinned(required: Any, node: str) -> Obj:
    """Narrow every alternative to one node by name; without any, the name is the whole demand."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = (required or {}).get("nodeSelectorTerms") or [{}]
    return {"nodeSelectorTerms": [{**term, "matchFields": [field]} for term in terms]}


def _target(pod: Obj) -> str:
    """Return the node a pod is meant for, also before it is bound."""
    if node := node_of(pod):
        return node
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    for term in (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == "metadata.name" and field.get("values"):
                return str(field["values"][0])
    return ""
