"""One table for each kind people look at."""

from collections.abc import Mapping
from types import MappingProxyType

from reactive_desched.sim.conditions import condition_status
from reactive_desched.sim.objects import Obj, labels_of, name_of
from reactive_desched.sim.tables.columns import (
    AGE,
    NAME,
    Column,
    Table,
    age_of,
    number,
    or_none,
    since,
    text,
    wide,
)
from reactive_desched.sim.tables.configuration import CONFIGURATION_TABLES
from reactive_desched.sim.tables.migration import MIGRATION_TABLES
from reactive_desched.sim.tables.network import NETWORK_TABLES
from reactive_desched.sim.tables.pod_cells import pod_cells
from reactive_desched.sim.tables.volumes import VOLUME_TABLES
from reactive_desched.sim.tables.workloads import WORKLOAD_TABLES

__all__ = ["TABLES"]

_ROLE = "node-role.kubernetes.io/"


def _plain(obj: Obj, now: float) -> list[object]:
    return [name_of(obj), age_of(obj, now)]


def _node(node: Obj, now: float) -> list[object]:
    status, info = node.get("status", {}), node.get("status", {}).get("nodeInfo", {})
    addresses = {a.get("type"): a.get("address") for a in status.get("addresses") or ()}
    return [
        name_of(node),
        _node_status(node),
        _roles(node),
        age_of(node, now),
        info.get("kubeletVersion", ""),
        or_none(addresses.get("InternalIP")),
        or_none(addresses.get("ExternalIP")),
        info.get("osImage") or "<unknown>",
        _kernel(info),
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _kernel(info: Obj) -> str:
    version = str(info.get("kernelVersion") or "<unknown>")
    return f"{version} ({info['architecture']})" if info.get("architecture") else version


def _node_status(node: Obj) -> str:
    ready = condition_status(node, "Ready")
    said = ["Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"]
    if node.get("spec", {}).get("unschedulable"):
        said.append("SchedulingDisabled")
    return ",".join(said)


def _roles(node: Obj) -> str:
    labels = labels_of(node)
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE)}
    return or_none(sorted(role for role in (*roles, labels.get("kubernetes.io/role", "")) if role))


def _created(obj: Obj, _: float) -> list[object]:
    return [name_of(obj), obj["metadata"].get("creationTimestamp", "")]


def _namespace(namespace: Obj, now: float) -> list[object]:
    phase = namespace.get("status", {}).get("phase", "")
    return [name_of(namespace), phase, age_of(namespace, now)]


def _budget(budget: Obj, now: float) -> list[object]:
    spec, status = budget.get("spec", {}), budget.get("status", {})
    return [
        name_of(budget),
        str(spec.get("minAvailable", "N/A")),
        str(spec.get("maxUnavailable", "N/A")),
        status.get("disruptionsAllowed", 0),
        age_of(budget, now),
    ]


def _priority_class(obj: Obj, now: float) -> list[object]:
    value, default = obj.get("value", 0), bool(obj.get("globalDefault"))
    return [name_of(obj), value, default, age_of(obj, now), obj.get("preemptionPolicy", "")]


def _lease(lease: Obj, now: float) -> list[object]:
    return [name_of(lease), lease.get("spec", {}).get("holderIdentity", ""), age_of(lease, now)]


def _binding(binding: Obj, now: float) -> list[object]:
    role, subjects = binding.get("roleRef") or {}, binding.get("subjects") or ()
    by_kind = {
        kind: [
            f"{each.get('namespace', '')}/{each.get('name')}"
            if kind == "ServiceAccount"
            else str(each.get("name"))
            for each in subjects
            if each.get("kind") == kind
        ]
        for kind in ("User", "Group", "ServiceAccount")
    }
    listed = [", ".join(names) for names in by_kind.values()]
    return [
        name_of(binding),
        f"{role.get('kind')}/{role.get('name')}",
        age_of(binding, now),
        *listed,
    ]


def _event(event: Obj, now: float) -> list[object]:
    about, series = event.get("involvedObject") or {}, event.get("series") or {}
    first = event.get("firstTimestamp") or event.get("eventTime")
    last = series.get("lastObservedTime") or event.get("lastTimestamp") or first
    source = event.get("source") or {}
    reporter = source.get("component") or event.get("reportingComponent") or ""
    host = source.get("host") or event.get("reportingInstance") or ""
    return [
        since(last, now),
        event.get("type", ""),
        event.get("reason", ""),
        f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}",
        about.get("fieldPath", ""),
        f"{reporter}, {host}" if host else reporter,
        str(event.get("message", "")).strip(),
        since(first, now),
        series.get("count") or event.get("count") or 1,
        name_of(event),
    ]


_POD_WIDE = wide("IP", "Node", "Nominated Node", "Readiness Gates")
_NODE_WIDE = wide("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime")
# The real tables of the last two say more; nothing here gives them anything to say.
_PLAIN = (
    "serviceaccounts",
    "deviceclasses",
    "resourceclaimtemplates",
    "resourceclaims",
    "resourceslices",
)

TABLES: Mapping[str, Table] = MappingProxyType(
    {
        "*": Table((NAME, Column("Created At", "date")), _created),
        **MIGRATION_TABLES,
        **VOLUME_TABLES,
        **NETWORK_TABLES,
        **CONFIGURATION_TABLES,
        **dict.fromkeys(_PLAIN, Table((NAME, AGE), _plain)),
        "pods": Table((NAME, *text("Ready", "Status", "Restarts"), AGE, *_POD_WIDE), pod_cells),
        "nodes": Table((NAME, *text("Status", "Roles"), AGE, *text("Version"), *_NODE_WIDE), _node),
        "namespaces": Table((NAME, *text("Status"), AGE), _namespace),
        **WORKLOAD_TABLES,
        "poddisruptionbudgets": Table(
            (
                NAME,
                *text("Min Available", "Max Unavailable"),
                *number("Allowed Disruptions"),
                AGE,
            ),
            _budget,
        ),
        "priorityclasses": Table(
            (
                NAME,
                *number("Value"),
                Column("Global-Default", "boolean"),
                AGE,
                *text("PreemptionPolicy"),
            ),
            _priority_class,
        ),
        **dict.fromkeys(
            ("rolebindings", "clusterrolebindings"),
            Table(
                (NAME, *text("Role"), AGE, *wide("Users", "Groups", "ServiceAccounts")), _binding
            ),
        ),
        "leases": Table((NAME, *text("Holder"), AGE), _lease),
        "events": Table(
            (
                *text("Last Seen", "Type", "Reason", "Object"),
                *wide("Subobject", "Source"),
                *text("Message"),
                *wide("First Seen", "Count", "Name"),
            ),
            _event,
        ),
    }
)
