"""The resource metrics API, from which clients read measured use."""

from collections.abc import Mapping, Sequence

from reactive_desched.errors import SelectorError
from reactive_desched.model.labels import parse_selector
from reactive_desched.sim.clock import rfc3339
from reactive_desched.sim.http.handler_context import HandlerContext, Usage
from reactive_desched.sim.objects import Obj, labels_of, name_of, namespace_of
from reactive_desched.sim.status import StatusError, bad_request

__all__ = ["ROOT", "metrics_answer"]

ROOT = "/apis/metrics.k8s.io/v1beta1/"
_VERSION = "metrics.k8s.io/v1beta1"
_WINDOW = "15s"
_TERMINAL = ("Succeeded", "Failed")


def metrics_answer(parts: HandlerContext, path: str, selector: str) -> Obj | None:
    """Answer a GET below the metrics root; None when nothing is served there."""
    if parts.usage is None:
        return None
    match path.removeprefix(ROOT).strip("/").split("/"):
        case ["nodes"]:
            return _many("NodeMetrics", _nodes(parts, parts.usage, selector))
        case ["nodes", name]:
            return _one("nodes", name, [n for n in _nodes(parts, parts.usage, "") if _is(n, name)])
        case ["pods"]:
            return _many("PodMetrics", _pods(parts, parts.usage, None, selector))
        case ["namespaces", namespace, "pods"]:
            return _many("PodMetrics", _pods(parts, parts.usage, namespace, selector))
        case ["namespaces", namespace, "pods", name]:
            found = [p for p in _pods(parts, parts.usage, namespace, "") if _is(p, name)]
            return _one("pods", name, found)
    return None


def _is(obj: Obj, name: str) -> bool:
    return name_of(obj) == name


def _one(plural: str, name: str, found: list[Obj]) -> Obj:
    if found:
        return found[0]
    details = {"name": name, "group": "metrics.k8s.io", "kind": plural}
    message = f'{plural}.metrics.k8s.io "{name}" not found'
    raise StatusError(404, "NotFound", message, details=details)


def _many(kind: str, items: list[Obj]) -> Obj:
    return {"kind": f"{kind}List", "apiVersion": _VERSION, "metadata": {}, "items": items}


def _selected(
    parts: HandlerContext, resource: str, namespace: str | None, selector: str
) -> list[Obj]:
    try:
        wanted = parse_selector(selector)
    except SelectorError as error:
        raise bad_request(f"unable to parse requirement: {error}") from error
    return [o for o in parts.store.list(resource, namespace) if wanted.matches(labels_of(o))]


def _nodes(parts: HandlerContext, usage: Usage, selector: str) -> list[Obj]:
    return [
        {**_head("NodeMetrics", node, parts), "usage": dict(used)}
        for node in _selected(parts, "nodes", None, selector)
        if (used := usage.node(name_of(node))) is not None
    ]


def _pods(parts: HandlerContext, usage: Usage, namespace: str | None, selector: str) -> list[Obj]:
    found = []
    for pod in _selected(parts, "pods", namespace, selector):
        used = usage.pod(namespace_of(pod), name_of(pod))
        if used is not None and pod.get("status", {}).get("phase") not in _TERMINAL:
            found.append({**_head("PodMetrics", pod, parts), "containers": _containers(used)})
    return found


def _containers(used: Sequence[tuple[str, Mapping[str, str]]]) -> list[Obj]:
    return [{"name": name, "usage": dict(amounts)} for name, amounts in used]


def _head(kind: str, obj: Obj, parts: HandlerContext) -> Obj:
    now = rfc3339(parts.store.clock.now())
    meta: Obj = {"name": name_of(obj), "creationTimestamp": now, "labels": labels_of(obj)}
    if namespace := namespace_of(obj):
        meta["namespace"] = namespace
    head: Obj = {"kind": kind, "apiVersion": _VERSION, "metadata": meta}
    return {**head, "timestamp": now, "window": _WINDOW}
