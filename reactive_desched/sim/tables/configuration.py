"""Tables of the kinds that hold what others are configured with."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from reactive_desched.sim.objects import Obj, name_of
from reactive_desched.sim.tables.columns import AGE, NAME, Table, age_of, text

__all__ = ["CONFIGURATION_TABLES"]

_MOST_METRICS = 2
_UNKNOWN = "<unknown>"
_OF_ALL: Final = ("External", "Object")
"""The metrics that are of all pods together, or are shared by them."""


def _config_map(obj: Obj, now: float) -> list[object]:
    entries = len(obj.get("data") or ()) + len(obj.get("binaryData") or ())
    return [name_of(obj), entries, age_of(obj, now)]


def _secret(obj: Obj, now: float) -> list[object]:
    return [name_of(obj), obj.get("type", ""), len(obj.get("data") or ()), age_of(obj, now)]


def _quota(quota: Obj, now: float) -> list[object]:
    said = [
        (name, f"{name}: {used}/{hard}")
        for name, (used, hard) in sorted(_used(quota).items(), key=lambda entry: entry[0])
    ]
    limits = [words for name, words in said if name.startswith("limits")]
    requests = [words for name, words in said if not name.startswith("limits")]
    return [name_of(quota), ", ".join(requests), ", ".join(limits), age_of(quota, now)]


def _used(quota: Obj) -> dict[str, tuple[str, str]]:
    """Return used and hard by resource; nothing is used where no use is counted."""
    status = quota.get("status", {})
    hard = status.get("hard") or quota.get("spec", {}).get("hard") or {}
    used = status.get("used") or {}
    return {name: (used.get(name, "0"), amount) for name, amount in hard.items()}


def _runtime_class(obj: Obj, now: float) -> list[object]:
    return [name_of(obj), obj.get("handler", ""), age_of(obj, now)]


def _autoscaler(obj: Obj, now: float) -> list[object]:
    spec, scaled = obj.get("spec", {}), obj.get("spec", {}).get("scaleTargetRef") or {}
    targets = list(_targets(spec, obj.get("status", {}).get("currentMetrics") or ()))
    more = len(targets) - _MOST_METRICS
    shown = ", ".join(targets[:_MOST_METRICS]) or "<none>"
    return [
        name_of(obj),
        f"{scaled.get('kind', '')}/{scaled.get('name', '')}",
        f"{shown} + {more} more..." if more > 0 else shown,
        str(spec.get("minReplicas", "<unset>")),
        spec.get("maxReplicas", 0),
        obj.get("status", {}).get("currentReplicas", 0),
        age_of(obj, now),
    ]


def _targets(spec: Obj, current: Sequence[Obj]) -> Iterator[str]:
    """Yield the value and the target of each metric; the value of one that failed is unknown."""
    for number, metric in enumerate(spec.get("metrics") or ()):
        kind = str(metric.get("type", ""))
        field = kind[:1].lower() + kind[1:]
        source = metric.get(field) or {}
        target = source.get("target") or {}
        measured = current[number].get(field) if number < len(current) else None
        found = (measured or {}).get("current") or {}
        name = f"{source['name']}: " if "name" in source else ""
        if (average := target.get("averageValue")) is not None:
            shared = " (avg)" if kind in _OF_ALL else ""
            yield f"{name}{found.get('averageValue', _UNKNOWN)}/{average}{shared}"
        elif kind in _OF_ALL:
            yield f"{found.get('value', _UNKNOWN)}/{target.get('value')}"
        else:
            yield f"{name}{_percent(found)}/{_percent(target, '<auto>')}"


def _percent(value: Obj, unset: str = _UNKNOWN) -> str:
    found = value.get("averageUtilization")
    return unset if found is None else f"{found}%"


CONFIGURATION_TABLES: Mapping[str, Table] = MappingProxyType(
    {
        "configmaps": Table((NAME, *text("Data"), AGE), _config_map),
        "secrets": Table((NAME, *text("Type", "Data"), AGE), _secret),
        "resourcequotas": Table((NAME, *text("Request", "Limit"), AGE), _quota),
        "runtimeclasses": Table((NAME, *text("Handler"), AGE), _runtime_class),
        "horizontalpodautoscalers": Table(
            (NAME, *text("Reference", "Targets", "MinPods", "MaxPods", "Replicas"), AGE),
            _autoscaler,
        ),
    }
)
