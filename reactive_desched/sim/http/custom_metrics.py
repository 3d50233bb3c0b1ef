"""The two APIs of metrics that are made up, read-only, as an adapter of a metrics system has them.

An adapter is asked for `pods/*/hits` in a namespace, or for an external `lag`; its discovery names
each metric as a resource. What is measured lies in annotations: see `made_up_metrics`.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from reactive_desched.errors import SelectorError
from reactive_desched.model.labels import Selector, parse_selector
from reactive_desched.sim.clock import rfc3339
from reactive_desched.sim.made_up_metrics import KnownMetrics, made_up, write_thousandths
from reactive_desched.sim.objects import Obj, labels_of, name_of, namespace_of
from reactive_desched.sim.resources import Resource
from reactive_desched.sim.status import StatusError, bad_request
from reactive_desched.sim.store import Store

__all__ = ["MetricsAdapter"]

_CUSTOM: Final = "custom.metrics.k8s.io"
_EXTERNAL: Final = "external.metrics.k8s.io"
_VERSIONS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {_CUSTOM: ("v1beta2", "v1beta1"), _EXTERNAL: ("v1beta1",)}
)
_HOMES: Final = "namespaces"


class MetricsAdapter(Struct, frozen=True, eq=False):
    """Serves what users made up, and says in discovery what there is."""

    store: Store
    known: KnownMetrics

    @property
    def versions(self) -> Mapping[str, tuple[str, ...]]:
        """The groups and their versions, the preferred one first."""
        return _VERSIONS

    def entries(self, group: str) -> list[Obj]:
        """Return the metrics of a group as discovery lists resources."""
        if group == _EXTERNAL:
            names = (name for plural, name in self.known.names() if plural == _HOMES)
            return [_entry(name, "ExternalMetricValueList", is_namespaced=True) for name in names]
        kinds = {kind.plural: kind for kind in self.store.kinds}
        return [
            _entry(f"{kind.qualified}/{name}", "MetricValueList", is_namespaced=kind.namespaced)
            for plural, name in self.known.names()
            if (kind := kinds.get(plural)) is not None
        ]

    def answer(self, path: str, query: Mapping[str, str]) -> Obj | None:
        """Answer a GET below one of the groups; None when nothing is served there."""
        parts = path.strip("/").split("/")
        if len(parts) < 4 or parts[0] != "apis" or parts[2] not in _VERSIONS.get(parts[1], ()):  # noqa: PLR2004 -- apis, group, version, and more
            return None
        _, group, version, *rest = parts
        match rest:
            case ["namespaces", namespace, name] if group == _EXTERNAL:
                wanted = _selector(query.get("labelSelector", ""))
                return self._external(namespace, name, wanted)
            case _ if group == _EXTERNAL:
                return None
            case ["namespaces", namespace, "metrics", metric]:
                plural, within, name = _HOMES, "", namespace
            case ["namespaces", within, plural, name, metric]:
                pass
            case [plural, name, metric]:
                within = ""
            case _:
                return None
        kind = self._kind(plural)
        if kind is None or kind.namespaced != bool(within):
            raise _not_found(metric, plural)
        objects = self._objects(kind, within, name, query.get("labelSelector", ""))
        if not _selector(query.get("metricLabelSelector", "")).matches({}):
            objects = []
        items = list(self._values(kind, objects, metric, version))
        if not items:
            raise _not_found(metric, kind.qualified, "" if name == "*" else name)
        return _listed("MetricValueList", f"{_CUSTOM}/{version}", items)

    def _kind(self, plural: str) -> Resource | None:
        """Return a kind by its plural, with its group behind it or without."""
        name, _, group = plural.partition(".")
        found = (kind for kind in self.store.kinds if kind.plural == name)
        return next((kind for kind in found if group in ("", kind.group)), None)

    def _objects(self, kind: Resource, namespace: str, name: str, labels: str) -> list[Obj]:
        if name != "*":
            found = self.store.get(kind.plural, namespace, name)
            return [] if found is None else [found]
        wanted = _selector(labels)
        listed = self.store.list(kind.plural, namespace or None)
        return [obj for obj in listed if wanted.matches(labels_of(obj))]

    def _values(
        self, kind: Resource, objects: Iterable[Obj], metric: str, version: str
    ) -> Iterator[Obj]:
        now = rfc3339(self.store.clock.now())
        for obj in objects:
            value = made_up(obj, metric)
            if value is None:
                continue
            described: Obj = {"kind": kind.kind}
            if namespace := namespace_of(obj):
                described["namespace"] = namespace
            # Adapters write group and version of the core as `/v1`.
            described |= {"name": name_of(obj), "apiVersion": f"{kind.group}/{kind.version}"}
            measure = {"timestamp": now, "value": write_thousandths(value)}
            if version == "v1beta1":
                named: Obj = {"metricName": metric, **measure, "selector": None}
            else:
                named = {"metric": {"name": metric, "selector": None}, **measure}
            yield {"describedObject": described, **named}

    def _external(self, namespace: str, name: str, wanted: Selector) -> Obj:
        value = made_up(self.store.get(_HOMES, "", namespace), name)
        items: list[Obj] = []
        if value is not None and wanted.matches({}):
            measure = {"timestamp": rfc3339(self.store.clock.now())}
            measure["value"] = write_thousandths(value)
            items.append({"metricName": name, "metricLabels": {}, **measure})
        return _listed("ExternalMetricValueList", f"{_EXTERNAL}/v1beta1", items)


def _entry(name: str, kind: str, *, is_namespaced: bool) -> Obj:
    head = {"name": name, "singularName": "", "namespaced": is_namespaced}
    return {**head, "kind": kind, "verbs": ["get"]}


def _listed(kind: str, version: str, items: list[Obj]) -> Obj:
    return {"kind": kind, "apiVersion": version, "metadata": {}, "items": items}


def _selector(text: str) -> Selector:
    try:
        return parse_selector(text)
    except SelectorError as error:
        raise bad_request(f"unable to parse requirement: {error}") from error


def _not_found(metric: str, plural: str, name: str = "") -> StatusError:
    of = f"{plural} {name}" if name else plural
    return StatusError(404, "NotFound", f"the server could not find the metric {metric} for {of}")
