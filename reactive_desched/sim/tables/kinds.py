"""One table for each kind people look at."""

from collections.abc import Mapping
from types import MappingProxyType

from reactive_desched.sim.conditions import condition_status
from reactive_desched.sim.objects import Obj, labels_of, name_of
from reactive_desched.sim.tables.columns import (
    AGE,
    NAME,
    Table,
    age_of,
    number,
    or_none,
    selector_text,
    since,
    template_of,
    text,
    wide,
)
from reactive_desched.sim.tables.pod_cells import pod_cells

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
        info.get("kernelVersion") or "<unknown>",
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


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


def _namespace(namespace: Obj, now: float) -> list[object]:
    phase = namespace.get("status", {}).get("phase", "")
    return [name_of(namespace), phase, age_of(namespace, now)]


def _deployment(obj: Obj, now: float) -> list[object]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    return [
        name_of(obj),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age_of(obj, now),
        *template_of(obj),
        selector_text(spec.get("selector")),
    ]


def _replica_set(obj: Obj, now: float) -> list[object]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    return [
        name_of(obj),
        spec.get("replicas", 1),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age_of(obj, now),
        *template_of(obj),
        selector_text(spec.get("selector")),
    ]


def _stateful_set(obj: Obj, now: float) -> list[object]:
    wanted = obj.get("spec", {}).get("replicas", 1)
    ready = f"{obj.get('status', {}).get('readyReplicas', 0)}/{wanted}"
    return [name_of(obj), ready, age_of(obj, now), *template_of(obj)]


def _daemon_set(obj: Obj, now: float) -> list[object]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    counts = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    node_selector = spec.get("template", {}).get("spec", {}).get("nodeSelector") or {}
    return [
        name_of(obj),
        *(status.get(count, 0) for count in counts),
        or_none([f"{key}={value}" for key, value in sorted(node_selector.items())]),
        age_of(obj, now),
        *template_of(obj),
        selector_text(spec.get("selector")),
    ]


def _job(obj: Obj, now: float) -> list[object]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    state = "Running"
    for kind, said in (("Complete", "Complete"), ("Failed", "Failed"), ("Suspended", "Suspended")):
        if condition_status(obj, kind) == "True":
            state = said
    done = f"{status.get('succeeded', 0)}/{spec.get('completions', 1)}"
    lasted = since(status.get("startTime"), now) if status.get("startTime") else ""
    return [name_of(obj), state, done, lasted, age_of(obj, now), *template_of(obj)]


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


def _claim(claim: Obj, now: float) -> list[object]:
    spec, status = claim.get("spec", {}), claim.get("status", {})
    return [
        name_of(claim),
        status.get("phase", ""),
        spec.get("volumeName", ""),
        (status.get("capacity") or {}).get("storage", ""),
        ",".join(status.get("accessModes") or ()),
        spec.get("storageClassName", ""),
        age_of(claim, now),
    ]


def _service(service: Obj, now: float) -> list[object]:
    spec = service.get("spec", {})
    ports = [f"{p.get('port')}/{p.get('protocol', 'TCP')}" for p in spec.get("ports") or ()]
    return [
        name_of(service),
        spec.get("type", ""),
        or_none(spec.get("clusterIP")),
        or_none(spec.get("externalIPs")),
        or_none(ports),
        age_of(service, now),
        selector_text(spec.get("selector")),
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


_TEMPLATE = wide("Containers", "Images")
_SELECTED = wide("Containers", "Images", "Selector")
_POD_WIDE = wide("IP", "Node", "Nominated Node", "Readiness Gates")
_NODE_WIDE = wide("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime")
_DAEMONS = number("Desired", "Current", "Ready", "Up-to-date", "Available")

TABLES: Mapping[str, Table] = MappingProxyType(
    {
        "*": Table((NAME, AGE), _plain),
        "pods": Table((NAME, *text("Ready", "Status", "Restarts"), AGE, *_POD_WIDE), pod_cells),
        "nodes": Table((NAME, *text("Status", "Roles"), AGE, *text("Version"), *_NODE_WIDE), _node),
        "namespaces": Table((NAME, *text("Status"), AGE), _namespace),
        "deployments": Table(
            (NAME, *text("Ready"), *number("Up-to-date", "Available"), AGE, *_SELECTED), _deployment
        ),
        "replicasets": Table(
            (NAME, *number("Desired", "Current", "Ready"), AGE, *_SELECTED), _replica_set
        ),
        "replicationcontrollers": Table(
            (NAME, *number("Desired", "Current", "Ready"), AGE, *_SELECTED), _replica_set
        ),
        "statefulsets": Table((NAME, *text("Ready"), AGE, *_TEMPLATE), _stateful_set),
        "daemonsets": Table(
            (NAME, *_DAEMONS, *text("Node Selector"), AGE, *_SELECTED), _daemon_set
        ),
        "jobs": Table((NAME, *text("Status", "Completions", "Duration"), AGE, *_TEMPLATE), _job),
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
            (NAME, *number("Value"), *text("Global-Default"), AGE, *text("PreemptionPolicy")),
            _priority_class,
        ),
        "leases": Table((NAME, *text("Holder"), AGE), _lease),
        "persistentvolumeclaims": Table(
            (
                NAME,
                *text("Status", "Volume", "Capacity", "Access Modes", "StorageClass"),
                AGE,
            ),
            _claim,
        ),
        "services": Table(
            (NAME, *text("Type", "Cluster-IP", "External-IP", "Port(s)"), AGE, *wide("Selector")),
            _service,
        ),
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
