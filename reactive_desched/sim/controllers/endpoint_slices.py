"""Lists the pods of each Service with a selector in EndpointSlices, and in its Endpoints.

They are those of two controllers of Kubernetes, which look at the same pods.
"""

from collections.abc import Iterator
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

_MOST_ADDRESSES: Final = 1000
"""So many addresses are in the Endpoints of a Service; more are left out, which they say."""

_ENDPOINTS_BY: Final = {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}
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
            self.soon(key_of(event.object))
            return
        if event.previous is not None and _seen(event.object) == _seen(event.previous):
            return
        for service in self.store.list("services", namespace_of(event.object)):
            if any(_selects(service, each) for each in (event.object, event.previous) if each):
                self.soon(key_of(service))

    def reconcile(self, key: Key, now: float) -> None:
        """Bring the slices and the Endpoints of a Service in line with its pods."""
        service = self.store.get("services", *key)
        if service is None:
            if self._endpoints_of(key) is not None:
                self.store.delete("endpoints", *key)
            return
        if not service["spec"].get("selector"):
            return
        pods = [
            pod
            for pod in self.store.list("pods", key[0])
            if _selects(service, pod) and _has_endpoint(pod)
        ]
        self._write_endpoints(service, pods, now)
        parts = list(_parts(service, pods)) or [[]]
        wanted = {f"{key[1]}-{number:x}": part for number, part in enumerate(parts)}
        for there in self.store.list("endpointslices", key[0]):
            is_ours = labels_of(there).get(_SERVICE) == key[1] and _MANAGED_BY in labels_of(there)
            if is_ours and name_of(there) not in wanted:
                self.store.delete("endpointslices", *key_of(there))
        for name, part in wanted.items():
            self._write(service, name, part, now)

    def _write(self, service: Obj, name: str, pods: list[Obj], now: float) -> None:
        namespace = namespace_of(service)
        ports = _ports(service, pods[0]) if pods else None
        endpoints = [self._endpoint(service, pod) for pod in pods]
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

    def _endpoints_of(self, key: Key) -> Obj | None:
        """Return the Endpoints of a Service unless a client made them."""
        there = self.store.get("endpoints", *key)
        is_ours = there is not None and _ENDPOINTS_BY.items() <= labels_of(there).items()
        return there if is_ours else None

    def _write_endpoints(self, service: Obj, pods: list[Obj], now: float) -> None:
        key = key_of(service)
        headless = {_HEADLESS: ""} if service["spec"].get("clusterIP") == "None" else {}
        labels = {**labels_of(service), **headless, **_ENDPOINTS_BY}
        subsets, is_whole = _subsets(service, pods)
        there = self.store.get("endpoints", *key)
        if there is not None and (there.get("subsets") or [], labels_of(there)) == (
            subsets,
            labels,
        ):
            return
        cut = {} if is_whole else {"endpoints.kubernetes.io/over-capacity": "truncated"}
        marks = {_TRIGGERED: rfc3339(now), **cut}
        body = {"subsets": subsets} if subsets else {}
        meta = {"labels": labels, "annotations": marks}
        if there is None:
            named = {"name": key[1], "namespace": key[0]}
            self.store.create("endpoints", {"metadata": {**named, **meta}, **body})
            return
        kept = {name: each for name, each in there.items() if name != "subsets"}
        changed = {**kept, "metadata": {**there["metadata"], **meta}, **body}
        self.store.modify("endpoints", *key, lambda _: changed)

    def _endpoint(self, service: Obj, pod: Obj) -> Obj:
        """Return the endpoint of a pod: serving while it is Ready, ready while it stays, too."""
        serves, ends = is_ready(pod), is_terminating(pod)
        node = self.store.get("nodes", "", node_of(pod))
        zone = labels_of(node or {}).get(ZONE_LABEL)
        return {
            "addresses": [pod["status"]["podIP"]],
            "conditions": {"ready": serves and not ends, "serving": serves, "terminating": ends},
            **_whose(service, pod),
            **({"zone": zone} if zone else {}),
        }


def _whose(service: Obj, pod: Obj) -> Obj:
    """Return what an address says of its pod."""
    meta, spec = pod["metadata"], pod["spec"]
    has_name = spec.get("hostname") and spec.get("subdomain") == name_of(service)
    return {
        "nodeName": node_of(pod),
        "targetRef": {
            "kind": "Pod",
            "name": meta["name"],
            "namespace": meta["namespace"],
            "uid": meta["uid"],
        },
        **({"hostname": spec["hostname"]} if has_name else {}),
    }


def _parts(service: Obj, pods: list[Obj]) -> Iterator[list[Obj]]:
    """Yield the pods of each slice: those of one have the same ports."""
    by_ports: dict[str, list[Obj]] = {}
    for pod in pods:
        by_ports.setdefault(str(_ports(service, pod)), []).append(pod)
    for alike in by_ports.values():
        for first in range(0, len(alike), _MOST):
            yield alike[first : first + _MOST]


def _subsets(service: Obj, pods: list[Obj]) -> tuple[list[Obj], bool]:
    """Return the subsets of Endpoints, and whether all addresses are in them."""
    publishes = bool(service["spec"].get("publishNotReadyAddresses"))
    listed = [pod for pod in pods if publishes or not is_terminating(pod)]
    by_ports: dict[str, list[Obj]] = {}
    ready_first = sorted(listed, key=lambda pod: (not is_ready(pod), pod["status"]["podIP"]))
    for pod in ready_first[:_MOST_ADDRESSES]:
        by_ports.setdefault(str(_ports(service, pod)), []).append(pod)
    found: list[Obj] = []
    for alike in by_ports.values():
        ports = _ports(service, alike[0])
        if not ports and service["spec"].get("ports"):
            continue
        addresses: dict[str, list[Obj]] = {"addresses": [], "notReadyAddresses": []}
        for pod in alike:
            kind = "addresses" if publishes or is_ready(pod) else "notReadyAddresses"
            addresses[kind].append({"ip": pod["status"]["podIP"], **_whose(service, pod)})
        named = [{name: each for name, each in port.items() if each != ""} for port in ports]
        found.append(
            {
                **{kind: each for kind, each in addresses.items() if each},
                **({"ports": named} if named else {}),
            }
        )
    return found, len(listed) <= _MOST_ADDRESSES


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


def _ports(service: Obj, pod: Obj) -> list[Obj]:
    """Return the ports of a Service as a pod has them; a name that it has not is left out."""
    return [
        {
            "name": port.get("name", ""),
            "port": number,
            "protocol": port.get("protocol", "TCP"),
        }
        for port in service["spec"].get("ports") or ()
        if (number := _number(port, pod)) is not None
    ]


def _number(port: Obj, pod: Obj) -> int | None:
    """Return the number of a target port, which may be the name of one of the pod's containers."""
    target = port.get("targetPort", port.get("port"))
    if not isinstance(target, str):
        return None if target is None else int(target)
    sidecars = (
        each
        for each in pod["spec"].get("initContainers") or ()
        if each.get("restartPolicy") == "Always"
    )
    for container in (*pod["spec"]["containers"], *sidecars):
        for each in container.get("ports") or ():
            is_same = each.get("protocol", "TCP") == port.get("protocol", "TCP")
            if each.get("name") == target and is_same:
                return int(each["containerPort"])
    return None
