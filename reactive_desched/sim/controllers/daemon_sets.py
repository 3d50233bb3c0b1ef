"""Keeps one pod of a DaemonSet on every node it belongs on."""

from collections.abc import Callable, Iterable, Mapping
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
from reactive_desched.sim.controllers.rollout import share_of
from reactive_desched.sim.index import PodIndex
from reactive_desched.sim.metadata import generated_name
from reactive_desched.sim.objects import Obj, labels_of, name_of, namespace_of
from reactive_desched.sim.pods import (
    Key,
    controller_of,
    from_template,
    is_active,
    is_available,
    is_ready,
    is_terminal,
    is_terminating,
    key_of,
    node_of,
    ready_since,
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
    """Recreates a node's pod when the old one is gone, and updates as many nodes as it may."""

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
            wanted = [n for n, node in nodes.items() if placement.may_start(node)]
            self._update(found, len(wanted), now)
            self._report(found, wanted, now)

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

    def _update(self, owner: Obj, wanted: int, now: float) -> None:
        """Replace outdated pods: those that are not available, and of the others as many as may go.

        With maxSurge the new pod of a node is made first, and the old one goes when that is
        available.
        """
        strategy = owner["spec"].get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return
        surge, unavailable = _limits(strategy.get("rollingUpdate") or {}, wanted)
        is_there = self._availability(owner, now)
        current = template_hash(owner["spec"]["template"])
        old: dict[str, Obj] = {}
        new: dict[str, Obj] = {}
        targets: dict[str, None] = {}
        for pod in self._owned(owner):
            targets[_target(pod)] = None
            if is_active(pod):
                (new if labels_of(pod).get(REVISION) == current else old)[_target(pod)] = pod
        broken = [node for node, pod in old.items() if node not in new and not is_there(pod)]
        sound = [node for node in old if node not in new and node not in broken]
        if surge:
            waiting = sum(node in old and not is_there(pod) for node, pod in new.items())
            for node, pod in new.items():
                if node in old and is_there(pod):
                    self._pods.delete_for(owner, old[node], draws_uid=False)
            for node in (*broken, *sound[: max(0, surge - waiting)]):
                self._create(owner, node)
            return
        away = sum(node not in sound and not is_there(new.get(node)) for node in targets)
        doubled = [node for node in old if node in new]
        for node in (*doubled, *broken, *sound[: max(0, unavailable - away)]):
            self._pods.delete_for(owner, old[node], draws_uid=False)

    def _availability(self, owner: Obj, now: float) -> Callable[[Obj | None], bool]:
        """Return a function that says whether a pod has been ready for minReadySeconds.

        The set is looked at again when one that is ready will have been.
        """
        least_s = int(owner["spec"].get("minReadySeconds") or 0)

        def is_there(pod: Obj | None) -> bool:
            if pod is None or not is_ready(pod):
                return False
            if is_available(pod, least_s, now):
                return True
            self.soon(key_of(owner), ready_since(pod) + least_s)
            return False

        return is_there

    def _report(self, owner: Obj, eligible: Iterable[str], now: float) -> None:
        current = template_hash(owner["spec"]["template"])
        wanted = set(eligible)
        first: dict[str, Obj] = {}
        for pod in self._owned(owner):
            if is_active(pod):
                first.setdefault(_target(pod), pod)
        right = [pod for node, pod in first.items() if node in wanted]
        available = sum(map(self._availability(owner, now), right))
        status = {
            "currentNumberScheduled": len(right),
            "numberMisscheduled": len(first) - len(right),
            "desiredNumberScheduled": len(wanted),
            "numberReady": sum(map(is_ready, right)),
            "observedGeneration": owner["metadata"].get("generation"),
            "updatedNumberScheduled": sum(
                1 for pod in right if labels_of(pod).get(REVISION) == current
            )
            or None,
            "numberAvailable": available or None,
            "numberUnavailable": len(wanted) - available or None,
        }
        write_status(self.store, "daemonsets", owner, status)


def _limits(rolling: Obj, wanted: int) -> tuple[int, int]:
    """Return how many pods may be made beside old ones, and how many may be away meanwhile."""
    surge = share_of(rolling.get("maxSurge", 0), wanted, round_up=True)
    unavailable = share_of(rolling.get("maxUnavailable", 1), wanted, round_up=True)
    return surge, unavailable if surge or unavailable else 1


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
