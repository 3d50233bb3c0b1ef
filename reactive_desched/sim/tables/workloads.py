"""Tables of what keeps pods running."""

from collections.abc import Mapping
from types import MappingProxyType

from reactive_desched.sim.clock import parse_time
from reactive_desched.sim.conditions import condition_status
from reactive_desched.sim.objects import Obj, name_of
from reactive_desched.sim.pods import controller_of
from reactive_desched.sim.tables.columns import (
    AGE,
    NAME,
    Column,
    Table,
    age_of,
    number,
    or_none,
    selectors,
    since,
    template_of,
    text,
    wide,
)

__all__ = ["WORKLOAD_TABLES"]

_TEMPLATE = wide("Containers", "Images")
_SELECTED = wide("Containers", "Images", "Selector")
_DAEMONS = number("Desired", "Current", "Ready", "Up-to-date", "Available")


def _deployment(obj: Obj, now: float) -> list[object]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    return [
        name_of(obj),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age_of(obj, now),
        *template_of(obj),
        selectors(spec.get("selector")),
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
        selectors(spec.get("selector")),
    ]


def _revision(revision: Obj, now: float) -> list[object]:
    owner = controller_of(revision)
    kind = "" if owner is None else str(owner["kind"]).lower()
    group = "" if owner is None else f".{str(owner['apiVersion']).partition('/')[0]}"
    shown = "<none>" if owner is None else f"{kind}{group}/{owner['name']}"
    return [name_of(revision), shown, revision.get("revision", 0), age_of(revision, now)]


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
        selectors(spec.get("selector")),
    ]


def _job(obj: Obj, now: float) -> list[object]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    state = "Running"
    for kind, said in (("Complete", "Complete"), ("Failed", "Failed"), ("Suspended", "Suspended")):
        if condition_status(obj, kind) == "True":
            state = said
    return [
        name_of(obj),
        state,
        _completions(spec, status),
        _duration(status, now),
        age_of(obj, now),
        *template_of(obj),
        selectors(spec.get("selector")),
    ]


def _completions(spec: Obj, status: Obj) -> str:
    done, parallel = status.get("succeeded", 0), spec.get("parallelism", 0)
    if "completions" not in spec and parallel > 1:
        return f"{done}/1 of {parallel}"
    return f"{done}/{spec.get('completions', 1)}"


def _duration(status: Obj, now: float) -> str:
    start, end = status.get("startTime"), status.get("completionTime")
    return since(start, parse_time(end) if end else now) if start else ""


def _cron_job(obj: Obj, now: float) -> list[object]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    job = spec.get("jobTemplate") or {}
    last = status.get("lastScheduleTime")
    return [
        name_of(obj),
        spec.get("schedule", ""),
        or_none(spec.get("timeZone")),
        str(bool(spec.get("suspend"))),
        len(status.get("active") or ()),
        since(last, now) if last else or_none(None),
        age_of(obj, now),
        *template_of(job),
        selectors(job.get("spec", {}).get("selector")),
    ]


WORKLOAD_TABLES: Mapping[str, Table] = MappingProxyType(
    {
        "deployments": Table(
            (NAME, *text("Ready", "Up-to-date", "Available"), AGE, *_SELECTED), _deployment
        ),
        "replicasets": Table(
            (NAME, *number("Desired", "Current", "Ready"), AGE, *_SELECTED), _replica_set
        ),
        "replicationcontrollers": Table(
            (NAME, *number("Desired", "Current", "Ready"), AGE, *_SELECTED), _replica_set
        ),
        "statefulsets": Table((NAME, *text("Ready"), AGE, *_TEMPLATE), _stateful_set),
        "controllerrevisions": Table((NAME, *text("Controller", "Revision"), AGE), _revision),
        "daemonsets": Table(
            (NAME, *_DAEMONS, *text("Node Selector"), AGE, *_SELECTED), _daemon_set
        ),
        "jobs": Table((NAME, *text("Status", "Completions", "Duration"), AGE, *_SELECTED), _job),
        "cronjobs": Table(
            (
                NAME,
                *text("Schedule", "Timezone"),
                Column("Suspend", "boolean"),
                *number("Active"),
                *text("Last Schedule"),
                AGE,
                *_SELECTED,
            ),
            _cron_job,
        ),
    }
)
