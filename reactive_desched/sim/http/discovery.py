"""Answers discovery, plain and aggregated, from which clients learn the kinds."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from reactive_desched.sim.custom_kinds import Kinds
from reactive_desched.sim.http.custom_metrics import MetricsAdapter
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.resources import Resource, by_preference

__all__ = ["Catalogue"]

_SUBRESOURCE_KINDS: Mapping[str, tuple[str, str, str]] = MappingProxyType(
    {
        "binding": ("", "v1", "Binding"),
        "eviction": ("policy", "v1", "Eviction"),
        "scale": ("autoscaling", "v1", "Scale"),
        "token": ("authentication.k8s.io", "v1", "TokenRequest"),
        "attach": ("", "v1", "PodAttachOptions"),
        "exec": ("", "v1", "PodExecOptions"),
        "portforward": ("", "v1", "PodPortForwardOptions"),
        "proxy": ("", "v1", "PodProxyOptions"),
    }
)
_SUBRESOURCE_VERBS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "binding": ("create",),
        "eviction": ("create",),
        "token": ("create",),
        "finalize": ("update",),
        "attach": ("create", "get"),
        "exec": ("create", "get"),
        "portforward": ("create", "get"),
        "proxy": ("create", "delete", "get", "patch", "update"),
        "log": ("get",),
    }
)
_READ_CHANGE = ("get", "patch", "update")
_CREATE_ONLY = ("create",)
_METRICS = ("get", "list")
_REVIEWS = (
    ("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    ("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    ("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"),
    ("authorization.k8s.io", "localsubjectaccessreviews", "LocalSubjectAccessReview"),
    ("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
    ("authentication.k8s.io", "tokenreviews", "TokenReview"),
)


class Catalogue(Struct, frozen=True):
    """The kinds on offer; metrics only where there is something to measure."""

    all_kinds: Kinds
    metrics: bool = False
    adapter: MetricsAdapter | None = None

    def legacy_core(self) -> Obj:
        """Answer `/api`."""
        anywhere = [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}]
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": anywhere}

    def groups(self) -> Obj:
        """Answer `/apis`."""
        found = [self._group(name) for name in self._group_names()]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}

    def group(self, name: str) -> Obj | None:
        """Answer `/apis/{group}`."""
        if name not in self._group_names():
            return None
        return {"kind": "APIGroup", "apiVersion": "v1", **self._group(name)}

    def resources(self, group: str, version: str) -> Obj | None:
        """Answer `/api/v1` and `/apis/{group}/{version}`."""
        if self.adapter is not None and version in self.adapter.versions.get(group, ()):
            entries = self.adapter.entries(group)
        else:
            kinds = self.kinds_of(group, version)
            if not kinds:
                return None
            entries = [entry for kind in kinds for entry in _entries(kind)]
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{group}/{version}" if group else version,
            "resources": entries,
        }

    def aggregated(self, groups: Iterable[str]) -> Obj:
        """Answer `/api` or `/apis` in the one-request form."""
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": [self._aggregated_group(name) for name in groups],
        }

    def named_groups(self) -> list[str]:
        """Return every group but the core one."""
        return self._group_names()

    def group_versions(self) -> list[tuple[str, str]]:
        """Return every group and version, the core one as ("", "v1")."""
        return sorted({(kind.group, kind.version) for kind in self._kinds()})

    def kinds_of(self, group: str, version: str) -> list[Resource]:
        """Return the kinds of one group and version."""
        return [k for k in self._kinds() if (k.group, k.version) == (group, version)]

    def _kinds(self) -> Iterator[Resource]:
        yield from self.all_kinds.served()
        for group, plural, kind in _REVIEWS:
            yield Resource(
                plural=plural,
                kind=kind,
                group=group,
                namespaced=plural.startswith("local"),
                verbs=_CREATE_ONLY,
            )
        if self.metrics:
            for plural, kind in (("nodes", "NodeMetrics"), ("pods", "PodMetrics")):
                yield Resource(
                    plural=plural,
                    kind=kind,
                    group="metrics.k8s.io",
                    version="v1beta1",
                    namespaced=plural == "pods",
                    verbs=_METRICS,
                )

    def _group_names(self) -> list[str]:
        adapted = {} if self.adapter is None else self.adapter.versions
        return sorted({kind.group for kind in self._kinds() if kind.group} | set(adapted))

    def _versions(self, group: str) -> Sequence[str]:
        if self.adapter is not None and group in self.adapter.versions:
            return self.adapter.versions[group]
        return by_preference({kind.version for kind in self._kinds() if kind.group == group})

    def _group(self, name: str) -> Obj:
        versions = self._versions(name)
        entries = [{"groupVersion": f"{name}/{v}", "version": v} for v in versions]
        return {"name": name, "versions": entries, "preferredVersion": entries[0]}

    def _aggregated_group(self, name: str) -> Obj:
        return {
            "metadata": {"name": name, "creationTimestamp": None} if name else {},
            "versions": [
                {
                    "version": version,
                    "resources": self._aggregated_resources(name, version),
                    "freshness": "Current",
                }
                for version in self._versions(name)
            ],
        }

    def _aggregated_resources(self, group: str, version: str) -> list[Obj]:
        if self.adapter is not None and group in self.adapter.versions:
            return _aggregated_metrics(group, version, self.adapter.entries(group))
        return [_aggregated(kind) for kind in self.kinds_of(group, version)]


def _entries(kind: Resource) -> Iterator[Obj]:
    yield {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
        **({"shortNames": list(kind.short_names)} if kind.short_names else {}),
        **({"categories": list(kind.categories)} if kind.categories else {}),
    }
    for subresource in kind.subresources:
        group, version, name = _response_kind(kind, subresource)
        entry: Obj = {
            "name": f"{kind.plural}/{subresource}",
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": name,
            "verbs": list(_SUBRESOURCE_VERBS.get(subresource, _READ_CHANGE)),
        }
        if (group, version) != (kind.group, kind.version):
            entry |= {"group": group, "version": version}
        yield entry


def _aggregated(kind: Resource) -> Obj:
    return {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
        **({"shortNames": list(kind.short_names)} if kind.short_names else {}),
        **({"categories": list(kind.categories)} if kind.categories else {}),
        **({"subresources": _aggregated_parts(kind)} if kind.subresources else {}),
    }


def _aggregated_metrics(group: str, version: str, entries: Iterable[Obj]) -> list[Obj]:
    """Return metrics as an aggregator writes them: below a resource of their kind without verbs."""
    found: dict[str, Obj] = {}
    for entry in entries:
        resource, _, metric = entry["name"].partition("/")
        shown = {
            "responseKind": {"group": group, "version": version, "kind": entry["kind"]},
            "verbs": entry["verbs"],
        }
        head = {
            "resource": resource,
            "scope": "Namespaced" if entry["namespaced"] else "Cluster",
            "singularResource": "",
        }
        if not metric:
            found[resource] = {**head, **shown}
            continue
        nothing = {"group": "", "version": "", "kind": ""}
        parent = found.setdefault(
            resource, {**head, "responseKind": nothing, "verbs": [], "subresources": []}
        )
        parent["subresources"].append({"subresource": metric, **shown})
    return list(found.values())


def _aggregated_parts(kind: Resource) -> list[Obj]:
    parts = []
    for subresource in kind.subresources:
        group, version, name = _response_kind(kind, subresource)
        parts.append(
            {
                "subresource": subresource,
                "responseKind": {"group": group, "version": version, "kind": name},
                "verbs": list(_SUBRESOURCE_VERBS.get(subresource, _READ_CHANGE)),
            }
        )
    return parts


def _response_kind(kind: Resource, subresource: str) -> tuple[str, str, str]:
    return _SUBRESOURCE_KINDS.get(subresource, (kind.group, kind.version, kind.kind))
