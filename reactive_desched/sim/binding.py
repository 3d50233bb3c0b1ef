"""The binding endpoint: the one way a pod gets its node."""

from collections.abc import Mapping
from types import MappingProxyType

from reactive_desched.sim.clock import rfc3339
from reactive_desched.sim.conditions import with_condition
from reactive_desched.sim.objects import Obj, merged
from reactive_desched.sim.pods import without_nomination
from reactive_desched.sim.resources import RESOURCES
from reactive_desched.sim.status import StatusError, bad_request, conflict, not_found
from reactive_desched.sim.store import Store

__all__ = ["bind", "bind_as_asked"]

_PODS = RESOURCES["pods"]
_NAMED = "pods/binding"


def bind(
    store: Store,
    namespace: str,
    name: str,
    node: str,
    annotations: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Give a pod its node, and annotations; raise the StatusError that says why it cannot."""
    meta = {"name": name, "annotations": dict(annotations)}
    binding = {"metadata": meta, "target": {"kind": "Node", "name": node}}
    bind_as_asked(store, namespace, name, binding)


def bind_as_asked(
    store: Store, namespace: str, name: str, binding: Obj, *, dry_run: bool = False
) -> None:
    """Carry out a Binding object, its preconditions and annotations included."""
    meta, target = binding.get("metadata") or {}, binding.get("target") or {}
    if meta.get("name", name) != name:
        raise bad_request("name in URL does not match name in Binding object")
    if (named := target.get("kind")) not in (None, "", "Node"):
        text = f'target.kind: Unsupported value: "{named}": supported values: "Node", "<empty>"'
        raise StatusError(500, "", text)
    if not target.get("name"):
        raise StatusError(500, "", "target.name: Required value")
    pod = store.get("pods", namespace, name)
    if pod is None:
        raise not_found(_PODS, name)
    if refusal := _refusal(pod, meta):
        raise refusal
    if not dry_run:
        at = rfc3339(store.clock.now())

        def bound(current: Obj) -> Obj:
            return _bound(current, meta, target["name"], at)

        store.modify("pods", namespace, name, bound, subresource="binding")


def _refusal(pod: Obj, wanted: Obj) -> StatusError | None:
    meta, spec = pod["metadata"], pod["spec"]
    name = meta["name"]
    for field in ("uid", "resourceVersion"):
        if wanted.get(field) and wanted[field] != meta[field]:
            text = f"Precondition failed: {field} {wanted[field]} is not {meta[field]}"
            return conflict(_PODS, name, text, named=_NAMED)
    if "deletionTimestamp" in meta:
        text = f"pod {name} is being deleted, cannot be assigned to a host"
        return conflict(_PODS, name, text, named=_NAMED)
    if spec.get("nodeName"):
        text = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
        return conflict(_PODS, name, text, named=_NAMED)
    if spec.get("schedulingGates"):
        text = f"pod {name} has non-empty .spec.schedulingGates"
        return conflict(_PODS, name, text, named=_NAMED)
    return None


def _bound(pod: Obj, meta: Obj, node: str, at: str) -> Obj:
    own = pod["metadata"]
    labels = {**(own.get("labels") or {}), **(meta.get("labels") or {})}
    annotations = {**(own.get("annotations") or {}), **(meta.get("annotations") or {})}
    status = without_nomination(pod.get("status", {}))
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
    scheduled |= {"observedGeneration": own.get("generation")}
    conditions = with_condition(status.get("conditions") or (), scheduled, at)
    return {
        **pod,
        "metadata": merged(own, labels=labels or None, annotations=annotations or None),
        "spec": {**pod["spec"], "nodeName": node},
        "status": {**status, "conditions": conditions},
    }
