"""The checks whose refusal clients rely on; everything else is stored as it comes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import msgspec

from reactive_desched.sim.contents import config_map_faults, held_faults, secret_faults
from reactive_desched.sim.objects import Obj, labels_of, name_of, namespace_of
from reactive_desched.sim.pod_updates import resize_faults, update_faults
from reactive_desched.sim.pod_validation import container_faults, spec_faults
from reactive_desched.sim.resources import Resource
from reactive_desched.sim.status import cause, invalid
from reactive_desched.sim.structural.definitions import definition_faults
from reactive_desched.sim.syntax import (
    metadata_faults,
    name_faults,
    qualified_name_faults,
    selector_faults,
)

__all__ = ["check_create", "check_resize", "check_update"]

_SELECTING = ("deployments", "replicasets", "statefulsets", "daemonsets", "jobs")
_SYSTEM_CLASSES = ("system-cluster-critical", "system-node-critical")
_HIGHEST_USER_PRIORITY = 1_000_000_000
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_WHOLE = 100
_JOB_COUNTS = (
    "parallelism",
    "completions",
    "backoffLimit",
    "activeDeadlineSeconds",
    "ttlSecondsAfterFinished",
)
_JOB_FIXED = (
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)
_MOVABLE_METADATA = ("labels", "annotations")
_MOVABLE_SPEC = ("nodeSelector", "tolerations", "schedulingGates")
_CRON_COUNTS = ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
_LONGEST_CRON_JOB = 52
_UNHEALTHY_POLICIES = ("AlwaysAllow", "IfHealthyBudget")
_ROLE_KINDS = ("Role", "ClusterRole")
_ONE = MappingProxyType({"apiGroups": "api group", "resources": "resource"})


def check_create(kind: Resource, obj: Obj) -> None:
    """Raise 422 with every fault found in a new object."""
    faults = [*name_faults(kind, name_of(obj)), *_shape_faults(kind, obj)]
    if faults:
        raise invalid(kind, name_of(obj), faults)


def check_update(kind: Resource, current: Obj, new: Obj) -> None:
    """Raise 422 when an update is malformed or touches what must stay as created."""
    faults = [*_shape_faults(kind, new), *_immutable_faults(kind, current, new)]
    if faults:
        raise invalid(kind, name_of(current), faults)


def check_resize(kind: Resource, current: Obj, new: Obj) -> None:
    """Raise 422 when a resize of a pod is malformed or touches more than it may."""
    faults = [*_pod_faults(new), *resize_faults(current["spec"], new["spec"])]
    if faults:
        raise invalid(kind, name_of(current), faults)


def _shape_faults(kind: Resource, obj: Obj) -> Iterator[Obj]:
    spec = obj.get("spec") or {}
    yield from metadata_faults(kind, obj)
    if kind.plural in _SELECTING:
        yield from _selector_faults(spec)
        template = spec.get("template", {}).get("spec", {})
        yield from container_faults(template, "spec.template.spec")
    if check := _CHECKS.get(kind.plural):
        yield from check(obj)
    replicas = spec.get("replicas", 0)
    if isinstance(replicas, int) and replicas < 0 and not kind.is_custom:
        text = f"Invalid value: {replicas}: must be greater than or equal to 0"
        yield cause("FieldValueInvalid", "spec.replicas", text)


def _pod_faults(pod: Obj) -> Iterator[Obj]:
    spec = pod.get("spec") or {}
    yield from container_faults(spec, "spec")
    yield from spec_faults(spec, "spec")


def _taint_faults(node: Obj) -> Iterator[Obj]:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(node.get("spec", {}).get("taints") or ()):
        key, effect = str(taint.get("key", "")), str(taint.get("effect", ""))
        # The real server, too, looks for taints in the metadata when it finds fault with them.
        place = f"metadata.taints[{index}]"
        for says in qualified_name_faults(key):
            yield cause("FieldValueInvalid", f"{place}.key", f'Invalid value: "{key}": {says}')
        if effect not in _EFFECTS:
            known = ", ".join(f'"{each}"' for each in _EFFECTS)
            text = f'Unsupported value: "{effect}": supported values: {known}'
            yield cause("FieldValueNotSupported", f"{place}.effect", text)
        if (key, effect) in seen:
            text = f"Duplicate value: {_json(taint)}: taints must be unique by key and effect pair"
            yield cause("FieldValueDuplicate", place, text)
        seen.add((key, effect))


def _budget_faults(budget: Obj) -> Iterator[Obj]:
    spec = budget.get("spec") or {}
    yield from _choice_faults(spec, "unhealthyPodEvictionPolicy", _UNHEALTHY_POLICIES)
    yield from selector_faults(spec.get("selector") or {}, "spec.selector")
    if {"minAvailable", "maxUnavailable"} <= set(spec):
        both = "minAvailable and maxUnavailable cannot be both set"
        text = f"Invalid value: {_written_budget(spec)}: {both}"
        yield cause("FieldValueInvalid", "spec", text)
    for field in ("minAvailable", "maxUnavailable"):
        if (value := spec.get(field)) is not None and (says := _share_fault(value)):
            text = f"Invalid value: {_json(value)}: {says}"
            yield cause("FieldValueInvalid", f"spec.{field}", text)


def _autoscaler_faults(autoscaler: Obj) -> Iterator[Obj]:
    """Yield what is wrong with the bounds and the target; metrics and rules are not checked."""
    spec = autoscaler.get("spec") or {}
    least, most = spec.get("minReplicas", 1), spec.get("maxReplicas") or 0
    if least < 1:
        text = f"Invalid value: {least}: must be greater than or equal to 1"
        yield cause("FieldValueInvalid", "spec.minReplicas", text)
    if not most:
        text = "Required value: must be set and greater than 0"
        yield cause("FieldValueRequired", "spec.maxReplicas", text)
    elif most < 0:
        text = f"Invalid value: {most}: must be greater than or equal to 1"
        yield cause("FieldValueInvalid", "spec.maxReplicas", text)
    if most < least:
        text = f"Invalid value: {most}: must be greater than or equal to `minReplicas`"
        yield cause("FieldValueInvalid", "spec.maxReplicas", text)
    kinds = {metric.get("type") for metric in spec.get("metrics") or ()}
    if not least and kinds.isdisjoint(("Object", "External")):
        text = "must specify at least one Object or External metric to support scaling to zero"
        yield cause("FieldValueForbidden", "spec.metrics", f"Forbidden: {text} replicas")
    target = spec.get("scaleTargetRef") or {}
    for field in ("kind", "name"):
        if not target.get(field):
            text = "Required value"
            yield cause("FieldValueRequired", f"spec.scaleTargetRef.{field}", text)
    has_group = "/" in str(target.get("apiVersion") or "")
    if not has_group and target.get("kind") != "ReplicationController":
        text = 'Invalid value: "": apiVersion must specify API group'
        yield cause("FieldValueInvalid", "spec.scaleTargetRef.apiVersion", text)


def _written_budget(spec: Obj) -> str:
    """Write the spec of a budget as the real server does in its refusal."""
    fields = ("MinAvailable", "Selector", "MaxUnavailable", "UnhealthyPodEvictionPolicy")
    return _json({name: spec.get(name[0].lower() + name[1:]) for name in fields})


def _deployment_faults(deployment: Obj) -> Iterator[Obj]:
    limits = deployment.get("spec", {}).get("strategy", {}).get("rollingUpdate") or {}
    if {str(limits.get(each)) for each in ("maxSurge", "maxUnavailable")} <= {"0", "0%"}:
        text = "Invalid value: 0: may not be 0 when `maxSurge` is 0"
        place = "spec.strategy.rollingUpdate.maxUnavailable"
        yield cause("FieldValueInvalid", place, text)


def _share_fault(value: object) -> str:
    if isinstance(value, int):
        return "must be greater than or equal to 0" if value < 0 else ""
    number, percent, rest = str(value).partition("%")
    if not percent or rest or not number.isdecimal():
        return (
            "a valid percent string must be a numeric string followed by an ending '%'"
            " (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
        )
    return "must not be greater than 100%" if int(number) > _WHOLE else ""


def _job_faults(job: Obj) -> Iterator[Obj]:
    template = job.get("spec", {}).get("template", {}).get("spec", {})
    spec = job.get("spec") or {}
    yield from _negative_faults(spec, _JOB_COUNTS)
    if spec.get("backoffLimitPerIndex") is not None and spec.get("completionMode") != "Indexed":
        text = f"Invalid value: {spec['backoffLimitPerIndex']}: requires indexed completion mode"
        yield cause("FieldValueInvalid", "spec.backoffLimitPerIndex", text)
    replaced = ("Failed", "TerminatingOrFailed")
    known = replaced if spec.get("podFailurePolicy") is None else replaced[:1]
    yield from _choice_faults(spec, "podReplacementPolicy", known)
    if template.get("restartPolicy") not in ("OnFailure", "Never"):
        text = 'Required value: valid values: "OnFailure", "Never"'
        yield cause("FieldValueRequired", "spec.template.spec.restartPolicy", text)


def _cron_job_faults(job: Obj) -> Iterator[Obj]:
    """Yield what makes no CronJob; the names of its Jobs get eleven more characters."""
    spec = job.get("spec") or {}
    if len(name_of(job)) > _LONGEST_CRON_JOB:
        text = f'Invalid value: "{name_of(job)}": must be no more than {_LONGEST_CRON_JOB}'
        yield cause("FieldValueInvalid", "metadata.name", f"{text} characters")
    if not spec.get("schedule"):
        yield cause("FieldValueRequired", "spec.schedule", "Required value")
    yield from _choice_faults(spec, "concurrencyPolicy", ("Allow", "Forbid", "Replace"))
    yield from _negative_faults(spec, _CRON_COUNTS)


def _negative_faults(spec: Obj, fields: Iterable[str]) -> Iterator[Obj]:
    for field in fields:
        value = spec.get(field)
        if isinstance(value, int) and value < 0:
            text = f"Invalid value: {value}: must be greater than or equal to 0"
            yield cause("FieldValueInvalid", f"spec.{field}", text)


def _choice_faults(spec: Obj, field: str, choices: Sequence[str]) -> Iterator[Obj]:
    """Yield a fault where a field that is there holds none of the choices."""
    if (value := spec.get(field)) is not None and value not in choices:
        known = ", ".join(f'"{each}"' for each in choices)
        text = f'Unsupported value: "{value}": supported values: {known}'
        yield cause("FieldValueNotSupported", f"spec.{field}", text)


def _event_faults(event: Obj) -> Iterator[Obj]:
    namespace = (event.get("involvedObject") or {}).get("namespace") or ""
    if (namespace or "default") != namespace_of(event):
        text = f'Invalid value: "{namespace}": does not match event.namespace'
        yield cause("FieldValueInvalid", "involvedObject.namespace", text)


def _priority_faults(obj: Obj) -> Iterator[Obj]:
    value, system = obj.get("value", 0), name_of(obj) in _SYSTEM_CLASSES
    if not system and name_of(obj).startswith("system-"):
        text = (
            "Forbidden: priority class names with 'system-' prefix are reserved for system use"
            f" only. error: {name_of(obj)} is not a known system priority class"
        )
        yield cause("FieldValueForbidden", "metadata.name", text)
    if not system and isinstance(value, int) and value > _HIGHEST_USER_PRIORITY:
        text = (
            "Forbidden: maximum allowed value of a user defined priority is"
            f" {_HIGHEST_USER_PRIORITY}"
        )
        yield cause("FieldValueForbidden", "value", text)


def _role_faults(role: Obj) -> Iterator[Obj]:
    """Yield what makes a rule no rule; those of a namespace reach no URL beside resources."""
    for index, rule in enumerate(role.get("rules") or ()):
        place = f"rules[{index}]"
        if not rule.get("verbs"):
            text = "Required value: verbs must contain at least one value"
            yield cause("FieldValueRequired", f"{place}.verbs", text)
        if rule.get("nonResourceURLs"):
            if role["kind"] == "Role":
                urls = _json(rule["nonResourceURLs"])
                why = "namespaced rules cannot apply to non-resource URLs"
                text = f"Invalid value: {urls}: {why}"
                yield cause("FieldValueInvalid", f"{place}.nonResourceURLs", text)
            continue
        for field in ("apiGroups", "resources"):
            if not rule.get(field):
                text = f"Required value: resource rules must supply at least one {_ONE[field]}"
                yield cause("FieldValueRequired", f"{place}.{field}", text)


def _binding_faults(binding: Obj) -> Iterator[Obj]:
    role = binding.get("roleRef") or {}
    known = ("ClusterRole",) if binding["kind"] == "ClusterRoleBinding" else _ROLE_KINDS
    if role.get("kind") not in known:
        said = ", ".join(f'"{each}"' for each in known)
        text = f'Unsupported value: "{role.get("kind") or ""}": supported values: {said}'
        yield cause("FieldValueNotSupported", "roleRef.kind", text)
    if not role.get("name"):
        yield cause("FieldValueRequired", "roleRef.name", "Required value")
    for index, subject in enumerate(binding.get("subjects") or ()):
        if not subject.get("name"):
            yield cause("FieldValueRequired", f"subjects[{index}].name", "Required value")
        is_account = subject.get("kind") == "ServiceAccount" and not subject.get("namespace")
        if is_account and binding["kind"] == "ClusterRoleBinding":
            yield cause("FieldValueRequired", f"subjects[{index}].namespace", "Required value")


def _selector_faults(spec: Obj) -> Iterator[Obj]:
    wanted = (spec.get("selector") or {}).get("matchLabels") or {}
    if not spec.get("selector"):
        yield cause("FieldValueRequired", "spec.selector", "Required value")
    labels = labels_of(spec.get("template") or {})
    if not spec.get("selector") or not wanted.items() <= labels.items():
        said = _json(labels) if labels else "null"
        text = f"Invalid value: {said}: `selector` does not match template `labels`"
        yield cause("FieldValueInvalid", "spec.template.metadata.labels", text)


def _immutable_faults(kind: Resource, current: Obj, new: Obj) -> Iterator[Obj]:
    old, meta = current["metadata"], new["metadata"]
    added = [f for f in meta.get("finalizers") or () if f not in (old.get("finalizers") or ())]
    if old.get("deletionTimestamp") and added:
        found = ", ".join(f'"{each}"' for each in added)
        text = (
            "Forbidden: no new finalizers can be added if the object is being deleted, found new"
            f" finalizers []string{{{found}}}"
        )
        yield cause("FieldValueForbidden", "metadata.finalizers", text)
    before, after = current.get("spec") or {}, new.get("spec") or {}
    if kind.plural in _SELECTING and before.get("selector") != after.get("selector"):
        yield _immutable("spec.selector", after.get("selector"))
    elif check := _UPDATE_CHECKS.get(kind.plural):
        yield from check(current, new)
    elif kind.plural == "priorityclasses" and current.get("value") != new.get("value"):
        text = "Forbidden: may not be changed in an update."
        yield cause("FieldValueForbidden", "value", text)
    elif "roleRef" in current and current["roleRef"] != new.get("roleRef"):
        text = f"Invalid value: {_json(new.get('roleRef'))}: cannot change roleRef"
        yield cause("FieldValueInvalid", "roleRef", text)
    elif kind.plural == "nodes" and _replaced(before, after, "providerID"):
        text = "Forbidden: node updates may not change providerID except from empty to valid"
        yield cause("FieldValueForbidden", "spec.providerID", text)
    elif kind.plural == "pods":
        yield from update_faults(before, after)


def _job_update_faults(current: Obj, new: Obj) -> Iterator[Obj]:
    """Yield what of a Job may not change; where its pods go may, until it first starts."""
    before, after = current["spec"], new["spec"]
    waits = bool(before.get("suspend")) and not (current.get("status") or {}).get("startTime")
    yield from _completions_faults(before, after)
    if waits and _kept_while_it_waits(before) != _kept_while_it_waits(after):
        yield _immutable("spec.template.spec", after["template"].get("spec"))
    elif not waits and before["template"] != after["template"]:
        yield _immutable("spec.template", after["template"])
    for field in _JOB_FIXED:
        if before.get(field) != after.get(field):
            yield _immutable(f"spec.{field}", after.get(field))


def _claim_update_faults(current: Obj, new: Obj) -> Iterator[Obj]:
    """Yield a fault where a claim changes more than its size, or that before it is bound."""
    before, after = current["spec"], new["spec"]
    is_bound = (current.get("status") or {}).get("phase") == "Bound"
    free = {each for each in ("volumeName", "storageClassName") if not before.get(each)}
    free |= {"resources", "volumeAttributesClassName"} if is_bound else set()
    if any(before.get(each) != after.get(each) for each in {*before, *after} - free):
        why = "except resources.requests and volumeAttributesClassName for bound claims"
        text = f"Forbidden: spec is immutable after creation {why}"
        yield cause("FieldValueForbidden", "spec", text)


def _completions_faults(before: Obj, after: Obj) -> Iterator[Obj]:
    wanted = after.get("completions")
    if wanted == before.get("completions"):
        return
    if before.get("completionMode") != "Indexed" or wanted is None:
        yield _immutable("spec.completions", wanted)
    elif wanted != after.get("parallelism"):
        text = f"Invalid value: {wanted}: can only be modified in tandem with spec.parallelism"
        yield cause("FieldValueInvalid", "spec.completions", text)


def _kept_while_it_waits(job_spec: Obj) -> object:
    """Return what of the template of a Job that has not begun stays as created."""
    meta, spec = (job_spec["template"].get(each) or {} for each in ("metadata", "spec"))
    affinity = {k: v for k, v in (spec.get("affinity") or {}).items() if k != "nodeAffinity"}
    kept = {k: v for k, v in spec.items() if k not in (*_MOVABLE_SPEC, "affinity")}
    return {k: v for k, v in meta.items() if k not in _MOVABLE_METADATA}, kept, affinity


def _immutable(field: str, value: object) -> Obj:
    text = f"Invalid value: {_json(value)}: field is immutable"
    return cause("FieldValueInvalid", field, text)


_CHECKS: Mapping[str, Callable[[Obj], Iterator[Obj]]] = MappingProxyType(
    {
        "pods": _pod_faults,
        "configmaps": config_map_faults,
        "secrets": secret_faults,
        "nodes": _taint_faults,
        "poddisruptionbudgets": _budget_faults,
        "horizontalpodautoscalers": _autoscaler_faults,
        "jobs": _job_faults,
        "cronjobs": _cron_job_faults,
        "deployments": _deployment_faults,
        "events": _event_faults,
        "priorityclasses": _priority_faults,
        "customresourcedefinitions": definition_faults,
        "roles": _role_faults,
        "clusterroles": _role_faults,
        "rolebindings": _binding_faults,
        "clusterrolebindings": _binding_faults,
    }
)


_UPDATE_CHECKS: Mapping[str, Callable[[Obj, Obj], Iterator[Obj]]] = MappingProxyType(
    {
        "jobs": _job_update_faults,
        "persistentvolumeclaims": _claim_update_faults,
        "configmaps": held_faults,
        "secrets": held_faults,
    }
)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _replaced(before: Obj, after: Obj, field: str) -> bool:
    return bool(before.get(field)) and before.get(field) != after.get(field)
