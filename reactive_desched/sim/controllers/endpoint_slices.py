"""Lists the pods of each Service with a selector in EndpointSlices, as their controller does."""

from typing import Final

from reactive_desched.model.objects import ZONE_LABEL
from reactive_desched.sim.clock import rfc3339
from reactive_desched.sim.controllers.controller import Reconciler
from reactive_desched.sim.objects import Obj, labels_of, name_of, namespace_of
from reactive_desched.sim.pods import (
    Key,
    is_ready,
    is_terminal,
    is_terminating,
    key_of,
    node_of,
    reference_to,
)
from reactive_desched.sim.store import Event

__all__ = ["EndpointSlices"]

_MOST: Final = 100
"""So many endpoints are in one slice."""

_SERVICE: Final = "kubernetes.io/service-name"
_HEADLESS: Final = "service.kubernetes.io/headless"
_TRIGGERED: Final = "endpoints.kubernetes.io/last-change-trigger-time"
_MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"


class EndpointSlices(Reconciler):
    """Looks at the Services of a namespace when one of its pods changes."""

    watches = frozenset({"services", "pods"})

    def observe(self, event: Event) -> None:
        """Look at the Service that changed, or at those that select a changed pod."""
        if event.resource == "services":
            if event.type != "DELETED":
                self.soon(key_of(event.object))
            return
        if event.previous is not None and _seen(event.object) == _seen(event.previous):
            return
        for service in self.store.list("services", namespace_of(event.object)):
            if any(_selects(service, each) for each in (event.object, event.previous) if each):
                self.soon(key_of(service))

    def reconcile(self, key: Key, now: float) -> None:
        """Bring the slices of a Service in line with its pods."""
        service = self.store.get("services", *key)
        if service is None or not service["spec"].get("selector"):
            return
        pods = [
            pod
            for pod in self.store.list("pods", key[0])
            if _selects(service, pod) and _has_endpoint(pod)
        ]
        parts = [pods[first : first + _MOST] for first in range(0, len(pods), _MOST)] or [[]]
        wanted = {f"{key[1]}-{number:x}": part for number, part in enumerate(parts)}
        for there in self.store.list("endpointslices", key[0]):
            is_ours = labels_of(there).get(_SERVICE) == key[1] and _MANAGED_BY in labels_of(there)
            if is_ours and name_of(there) not in wanted:
                self.store.delete("endpointslices", *key_of(there))
        for name, part in wanted.items():
            self._write(service, name, [self._endpoint(pod) for pod in part], now)

    def _write(self, service: Obj, name: str, endpoints: list[Obj], now: float) -> None:
        namespace = namespace_of(service)
        ports = _ports(service) if endpoints else None
        body = {"addressType": "IPv4", "ports": ports, "endpoints": endpoints}
        there = self.store.get("endpointslices", namespace, name)
        if there is not None and {key: there.get(key) for key in body} == body:
            return
        marks = {_TRIGGERED: rfc3339(now)}
        if there is not None:
            change = {**body, "metadata": {**there["metadata"], "annotations": marks}}
            self.store.modify("endpointslices", namespace, name, lambda it: {**it, **change})
            return
        meta = {
            "name": name,
            "namespace": namespace,
            "labels": _labels(service),
            "annotations": marks,
            "ownerReferences": [reference_to(service)],
        }
        self.store.create("endpointslices", {"metadata": meta, **body})

    def _endpoint(self, pod: Obj) -> Obj:
        """Return the endpoint of a pod: serving while it is Ready, ready while it stays, too."""
        serves, ends = is_ready(pod), is_terminating(pod)
        meta, node = pod["metadata"], self.store.get("nodes", "", node_of(pod))
        zone = labels_of(node or {}).get(ZONE_LABEL)
        return {
            "addresses": [pod["status"]["podIP"]],
            "conditions": {"ready": serves and not ends, "serving": serves, "terminating": ends},
            "nodeName": node_of(pod),
            "targetRef": {
                "kind": "Pod",
                "name": meta["name"],
                "namespace": meta["namespace"],
                "uid": meta["uid"],
            },
            **({"zone": zone} if zone else {}),
        }


def _labels(service: Obj) -> dict[str, str]:
    """Return the labels of the slices of a Service: its own, and who manages them."""
    headless = {_HEADLESS: ""} if service["spec"].get("clusterIP") == "None" else {}
    ours = {_SERVICE: name_of(service), _MANAGED_BY: "endpointslice-controller.k8s.io"}
    return {**labels_of(service), **headless, **ours}


def _has_endpoint(pod: Obj) -> bool:
    return not is_terminal(pod) and bool(node_of(pod) and pod["status"].get("podIP"))


def _selects(service: Obj, pod: Obj) -> bool:
    selector, labels = service["spec"].get("selector") or {}, labels_of(pod)
    return bool(selector) and all(labels.get(key) == value for key, value in selector.items())


def _seen(pod: Obj) -> tuple[object, ...]:
    """Return what an endpoint shows of a pod, and whether it has one."""
    address = pod["status"].get("podIP")
    return (labels_of(pod), address, is_ready(pod), is_terminating(pod), is_terminal(pod))


def _ports(service: Obj) -> list[Obj]:
    return [
        {
            "name": port.get("name", ""),
            "port": port.get("targetPort", port.get("port")),
            "protocol": port.get("protocol", "TCP"),
        }
        for port in service["spec"].get("ports") or ()
    ]
