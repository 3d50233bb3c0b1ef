"""The three metrics APIs of a real control plane, made up of what the simulator's annotations say.

kube-apiserver hands requests of these groups on to it, as to a metrics server.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, quote, unquote, urlsplit

from tests.support.authority import CertificateAuthority
from tests.support.control_plane import wait_until
from tests.support.http_server import answer_request, serving
from tests.support.two_planes import Plane

__all__ = ["serving_metrics"]

Object = dict[str, Any]  # a Kubernetes object as JSON
PREFIX: Final = "sim.reactive-desched/"
_GROUPS: Final = {
    "metrics.k8s.io": "v1beta1",
    "custom.metrics.k8s.io": "v1beta2",
    "external.metrics.k8s.io": "v1beta1",
}
_SERVICES: Final = "apis/apiregistration.k8s.io/v1/apiservices"
_SERVICE: Final = "api/v1/namespaces/default/services"
_NOW: Final = "2026-11-01T00:00:00Z"


@contextmanager
def serving_metrics(plane: Plane, folder: Path) -> Iterator[None]:
    """Serve the metrics of a plane's pods and objects while the block lasts."""

    def respond(request: BaseHTTPRequestHandler) -> None:
        code, body = _answer(plane, request.path)
        answer_request(request, code, json.dumps(body).encode())

    tls = CertificateAuthority().server_context(folder, "localhost")
    with serving(respond, tls) as port:
        outside = {"type": "ExternalName", "externalName": "localhost"}
        made = plane.send("POST", _SERVICE, {"metadata": {"name": "metrics"}, "spec": outside})
        assert made.code == 201, made
        for group, version in _GROUPS.items():
            spec = {
                "group": group,
                "version": version,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "insecureSkipTLSVerify": True,
                "service": {"namespace": "default", "name": "metrics", "port": port},
            }
            meta = {"name": f"{version}.{group}"}
            made = plane.send("POST", _SERVICES, {"metadata": meta, "spec": spec})
            assert made.code == 201, made
        try:
            wait_until(lambda: _are_available(plane), within_s=60, what="the metrics APIs")
            yield
        finally:
            for group, version in _GROUPS.items():
                plane.send("DELETE", f"{_SERVICES}/{version}.{group}")
            plane.send("DELETE", f"{_SERVICE}/metrics")


def _are_available(plane: Plane) -> bool:
    """Say whether the API server hands on what is asked of each group."""
    conditions = (
        plane.send("GET", f"{_SERVICES}/{version}.{group}").body["status"].get("conditions") or ()
        for group, version in _GROUPS.items()
    )
    return all(any(each["status"] == "True" for each in found) for found in conditions)


def _answer(plane: Plane, url: str) -> tuple[int, Object]:
    parts = urlsplit(url)
    query = {key: value[0] for key, value in parse_qs(parts.query).items()}
    match unquote(parts.path).strip("/").split("/"):
        case ["apis", group, version]:
            return 200, {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": f"{group}/{version}",
                "resources": [],
            }
        case ["apis", "metrics.k8s.io", _, "namespaces", namespace, "pods"]:
            return 200, _use(plane, namespace, query.get("labelSelector", ""))
        case ["apis", "custom.metrics.k8s.io", _, "namespaces", namespace, "pods", "*", name]:
            pods = _pods(plane, namespace, query.get("labelSelector", ""))
            return _custom(pods, "Pod", "pods", name, query)
        case ["apis", "custom.metrics.k8s.io", _, "namespaces", namespace, plural, of, name]:
            group = "apis/apps/v1" if plural.endswith(".apps") else "api/v1"
            path = f"{group}/namespaces/{namespace}/{plural.removesuffix('.apps')}/{of}"
            return _custom([plane.send("GET", path).body], "Any", f"{plural} {of}", name, query)
        case ["apis", "custom.metrics.k8s.io", _, "namespaces", namespace, "metrics", name]:
            home = plane.send("GET", f"api/v1/namespaces/{namespace}").body
            return _custom([home], "Namespace", f"namespaces {namespace}", name, query)
        case ["apis", "external.metrics.k8s.io", version, "namespaces", namespace, name]:
            home = plane.send("GET", f"api/v1/namespaces/{namespace}").body
            items = [
                {"metricName": name, "metricLabels": {}, "timestamp": _NOW, "value": value}
                for value in _values(home, name, query.get("labelSelector", ""))
            ]
            return 200, _list(
                "ExternalMetricValueList", f"external.metrics.k8s.io/{version}", items
            )
    return _missing(f"nothing is served at {parts.path}")


def _pods(plane: Plane, namespace: str, selector: str) -> list[Object]:
    chosen = f"?labelSelector={quote(selector)}" if selector else ""
    return plane.items(f"api/v1/namespaces/{namespace}/pods{chosen}")


def _use(plane: Plane, namespace: str, selector: str) -> Object:
    items = []
    for pod in _pods(plane, namespace, selector):
        notes = pod["metadata"].get("annotations") or {}
        if pod["status"].get("phase") != "Running":
            continue
        use = {
            resource: notes.get(f"{PREFIX}usage-{resource}", "0") for resource in ("cpu", "memory")
        }
        containers = [{"name": each["name"], "usage": use} for each in pod["spec"]["containers"]]
        meta = {"name": pod["metadata"]["name"], "namespace": namespace}
        items.append(
            {"metadata": meta, "timestamp": _NOW, "window": "15s", "containers": containers}
        )
    return _list("PodMetricsList", "metrics.k8s.io/v1beta1", items)


def _custom(
    objects: list[Object], kind: str, where: str, name: str, query: dict[str, str]
) -> tuple[int, Object]:
    items = [
        {
            "describedObject": {"kind": kind, "name": each["metadata"]["name"]},
            "metric": {"name": name},
            "timestamp": _NOW,
            "windowSeconds": 15,
            "value": value,
        }
        for each in objects
        for value in _values(each, name, query.get("metricLabelSelector", ""))
    ]
    if not items:
        return _missing(f"the server could not find the metric {name} for {where}")
    return 200, _list("MetricValueList", "custom.metrics.k8s.io/v1beta2", items)


def _values(obj: Object, name: str, selector: str) -> list[str]:
    """Return what an annotation says; a series has no labels."""
    if selector:
        return []
    notes = obj.get("metadata", {}).get("annotations") or {}
    value = notes.get(f"{PREFIX}metric.{name}")
    return [] if value is None else [value]


def _list(kind: str, version: str, items: list[Object]) -> Object:
    return {"kind": kind, "apiVersion": version, "metadata": {}, "items": items}


def _missing(message: str) -> tuple[int, Object]:
    return 404, {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": "NotFound",
        "code": 404,
    }
