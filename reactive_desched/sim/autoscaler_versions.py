"""Shows a HorizontalPodAutoscaler as autoscaling/v1 does: what that lacks is in annotations."""

import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from reactive_desched.sim.objects import Obj, merged

__all__ = ["from_first_version", "to_first_version"]

_PREFIX: Final = "autoscaling.alpha.kubernetes.io/"
_METRICS, _CURRENT = f"{_PREFIX}metrics", f"{_PREFIX}current-metrics"
_CONDITIONS, _BEHAVIOR = f"{_PREFIX}conditions", f"{_PREFIX}behavior"
_ANNOTATIONS: Final = (_METRICS, _CURRENT, _CONDITIONS, _BEHAVIOR)
_SELECTORS: Mapping[str, str] = MappingProxyType({"external": "metricSelector"})
_VALUES: Mapping[str, str] = MappingProxyType(
    {
        "averageUtilization": "AverageUtilization",
        "averageValue": "AverageValue",
        "value": "Value",
    }
)
"""The amounts of a target, and the ends of the names that the first version has for them."""


def to_first_version(autoscaler: Obj) -> Obj:
    """Return a stored HorizontalPodAutoscaler as autoscaling/v1 shows it."""
    spec, status, meta = autoscaler["spec"], autoscaler.get("status") or {}, autoscaler["metadata"]
    wanted, current = spec.get("metrics") or (), status.get("currentMetrics") or ()
    others = [each for each in wanted if _cpu_share(each, "target") is None]
    noted = {
        _METRICS: [_metric(each, "target") for each in others],
        _CURRENT: [_metric(each, "current") for each in current],
        _CONDITIONS: status.get("conditions"),
        _BEHAVIOR: spec.get("behavior"),
    }
    texts = {key: json.dumps(each, separators=(",", ":")) for key, each in noted.items() if each}
    annotations = {**(meta.get("annotations") or {}), **texts}
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": merged(meta, annotations=annotations or None),
        "spec": merged(
            {"scaleTargetRef": spec.get("scaleTargetRef"), "maxReplicas": spec.get("maxReplicas")},
            minReplicas=spec.get("minReplicas"),
            targetCPUUtilizationPercentage=_first_cpu_share(wanted, "target"),
        ),
        "status": merged(
            {
                "currentReplicas": status.get("currentReplicas", 0),
                "desiredReplicas": status.get("desiredReplicas", 0),
            },
            observedGeneration=status.get("observedGeneration"),
            lastScaleTime=status.get("lastScaleTime"),
            currentCPUUtilizationPercentage=_first_cpu_share(current, "current"),
        ),
    }


def from_first_version(written: Obj) -> Obj:
    """Return what a client wrote as autoscaling/v1 as it is stored."""
    meta = dict(written.get("metadata") or {})
    annotations = dict(meta.get("annotations") or {})
    noted = {key: _read(annotations.pop(key, "")) for key in _ANNOTATIONS}
    spec, status = written.get("spec") or {}, written.get("status") or {}
    metrics = [_full_metric(each, "target") for each in noted[_METRICS] or ()]
    if (share := spec.get("targetCPUUtilizationPercentage")) is not None:
        target = {"type": "Utilization", "averageUtilization": share}
        metrics.append({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    kept = ("observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas")
    return {
        "metadata": merged(meta, annotations=annotations or None),
        "spec": merged(
            {
                key: spec[key]
                for key in ("scaleTargetRef", "minReplicas", "maxReplicas")
                if key in spec
            },
            metrics=metrics or None,
            behavior=noted[_BEHAVIOR] or None,
        ),
        "status": merged(
            {key: status[key] for key in kept if key in status},
            currentMetrics=[_full_metric(each, "current") for each in noted[_CURRENT] or ()]
            or None,
            conditions=noted[_CONDITIONS] or None,
        ),
    }


def _read(text: str) -> Any:
    """Return what an annotation says; one that cannot be read says nothing."""
    try:
        return json.loads(text) if text else None
    except ValueError:
        return None


def _first_cpu_share(metrics: Iterable[Obj], field: str) -> int | None:
    shares = (_cpu_share(each, field) for each in metrics)
    return next((share for share in shares if share is not None), None)


def _cpu_share(metric: Obj, field: str) -> int | None:
    """Return the percentage of the requests of cpu; None where a metric is of something else.

    `field` is target or current.
    """
    resource = metric.get("resource") or {}
    share: int | None = (resource.get(field) or {}).get("averageUtilization")
    return share if metric.get("type") == "Resource" and resource.get("name") == "cpu" else None


def _metric(metric: Obj, field: str) -> Obj:
    """Return a metric as the first version writes it; `field` is target or current."""
    kind = str(metric.get("type", ""))
    name = kind[:1].lower() + kind[1:]
    source = metric.get(name) or {}
    found: Obj = {key: source[key] for key in ("name", "container") if key in source}
    if "describedObject" in source:
        found["target"] = source["describedObject"]
    if described := source.get("metric"):
        found["metricName"] = described.get("name")
        if described.get("selector"):
            found[_SELECTORS.get(name, "selector")] = described["selector"]
    for key, amount in (source.get(field) or {}).items():
        if key in _VALUES:
            found[_amount_name(name, field, key)] = amount
    return {"type": kind, name: found}


def _full_metric(metric: Obj, field: str) -> Obj:
    """Return a metric of the first version as it is stored."""
    kind = str(metric.get("type", ""))
    name = kind[:1].lower() + kind[1:]
    source = metric.get(name) or {}
    found: Obj = {key: source[key] for key in ("name", "container") if key in source}
    if name == "object":
        found["describedObject"] = source.get("target")
    if "metricName" in source:
        selector = source.get(_SELECTORS.get(name, "selector"))
        found["metric"] = merged({"name": source["metricName"]}, selector=selector)
    amounts = {
        key: source[written]
        for key in _VALUES
        if (written := _amount_name(name, field, key)) in source
    }
    if field == "target":
        kinds = {"averageUtilization": "Utilization", "averageValue": "AverageValue"}
        amounts["type"] = next((kinds[key] for key in amounts if key in kinds), "Value")
    found[field] = amounts
    return {"type": kind, name: found}


def _amount_name(name: str, field: str, key: str) -> str:
    if name == "object" and key == "averageValue":
        return key
    return f"{field}{_VALUES[key]}"
