"""What the models check in code, said in JSON Schema: the generated schemas get it from here.

Each rule may accept more than the code does, never less: an editor must not complain of a policy
that is sound.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from reactive_desched.plugins.low_node_utilization import METRIC_RESOURCE, MetricsSource
from reactive_desched.plugins.node_affinity import PREFERRED, REQUIRED
from reactive_desched.policy.protections import DEFAULT_PROTECTIONS, EXTRA_PROTECTIONS

Json = dict[str, Any]  # Any: JSON Schema is JSON

PROMETHEUS: Final = MetricsSource.PROMETHEUS.value
KUBERNETES: Final = MetricsSource.KUBERNETES.value


def some(*fields: str, **shape: object) -> Json:
    """Describe an object that has each field, not empty (or of the shape given)."""
    is_there = shape or {"not": {"enum": [None, "", 0, False, [], {}]}}
    return {"type": "object", "required": list(fields), **each(fields, is_there)}


def each(fields: Iterable[str], shape: Json) -> Json:
    """Describe several fields alike."""
    return {"properties": dict.fromkeys(fields, shape)}


def not_both(one: str, other: str) -> Json:
    """Refuse an object in which both fields say something; 0 and false say nothing here."""
    return {"not": some(one, other)}


def when(condition: Json, then: Json) -> Json:
    """Ask for `then` where the condition holds."""
    return {"if": condition, "then": then}


def with_source(source: str) -> Json:
    """Describe an object with a source of metrics."""
    return some("source", const=source)


_NAME: Final = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_DNS: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL: Final[Json] = {"type": "string", "pattern": rf"^({_DNS}(\.{_DNS})*/)?{_NAME}$"}
_VALUE: Final[Json] = {"type": "string", "pattern": f"^({_NAME})?$"}

_REQUIREMENT: Final[Json] = {
    "type": "object",
    "required": ["key", "operator"],
    "additionalProperties": False,
    "properties": {
        "key": {**_LABEL, "description": "The label."},
        "operator": {
            "enum": ["In", "NotIn", "Exists", "DoesNotExist"],
            "description": "What must hold of it.",
        },
        "values": {
            "type": ["array", "null"],
            "items": _VALUE,
            "description": "For In and NotIn: the values.",
        },
    },
    **when(
        some("operator", enum=["In", "NotIn"]),
        {"required": ["values"], "properties": {"values": {"type": "array", "minItems": 1}}},
    ),
    "else": {"properties": {"values": {"maxItems": 0}}},
}

LABEL_SELECTOR: Final[Json] = {
    "description": "A label selector: every part must hold, and {} matches everything.",
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "matchLabels": {
            "description": "Labels a thing must have.",
            "type": ["object", "null"],
            "propertyNames": _LABEL,
            "additionalProperties": _VALUE,
        },
        "matchExpressions": {
            "description": "Further requirements on labels.",
            "type": ["array", "null"],
            "items": _REQUIREMENT,
        },
    },
}

_SHARES: Final[Json] = {"minProperties": 1, "additionalProperties": {"minimum": 0, "maximum": 100}}
_LOADS: Final[Json] = each(
    ("highThresholds", "lowThresholds", "prodHighThresholds", "prodLowThresholds"),
    {"additionalProperties": {"minimum": 0}},
)
_METRIC_ALONE: Final[Json] = {"propertyNames": {"const": METRIC_RESOURCE}}
_SWITCHES: Final = (
    "evictLocalStoragePods",
    "evictDaemonSetPods",
    "evictSystemCriticalPods",
    "evictFailedBarePods",
    "ignorePvcPods",
    "ignorePodsWithoutPDB",
)

RULES: Final[Mapping[str, Json]] = {
    "AuthToken": {"required": ["secretReference"]},
    "DefaultEvictorArgs": {
        "properties": {"noEvictionPolicy": {"enum": ["Preferred", "Mandatory", ""]}},
        **when(
            some(
                "podProtections",
                anyOf=[some("defaultDisabled"), some("extraEnabled")],
            ),
            each(_SWITCHES, {"enum": [False, None]}),
        ),
    },
    "ExcludedNamespaces": {"properties": {"include": {"maxItems": 0}}},
    "HighNodeUtilizationArgs": {
        "required": ["thresholds"],
        "properties": {"thresholds": _SHARES},
    },
    "LowNodeLoadArgs": _LOADS,
    "LowNodeUtilizationArgs": {
        "required": ["thresholds", "targetThresholds"],
        **each(("thresholds", "targetThresholds"), _SHARES),
        **when(
            some("metricsUtilization", **with_source(PROMETHEUS)),
            each(("thresholds", "targetThresholds"), _METRIC_ALONE),
        ),
    },
    "MetricsProvider": {
        "required": ["source"],
        "allOf": [
            when(with_source(PROMETHEUS), some("prometheus", type="object")),
            when(with_source(KUBERNETES), {"properties": {"prometheus": {"type": "null"}}}),
        ],
    },
    "MetricsUtilization": {
        "anyOf": [some("source"), some("metricsServer")],
        "allOf": [
            not_both("source", "metricsServer"),
            when(
                with_source(PROMETHEUS),
                some("prometheus", **some("query")),
            ),
            when(with_source(KUBERNETES), {"properties": {"prometheus": {"type": "null"}}}),
        ],
    },
    "Namespaces": not_both("include", "exclude"),
    "NodeAffinityArgs": {
        "properties": {
            "nodeAffinityType": {
                "minItems": 1,
                "items": {"anyOf": [{"enum": [REQUIRED, PREFERRED]}, {"type": "string"}]},
            }
        }
    },
    "NodePool": _LOADS,
    "NodeTaintsArgs": not_both("includedTaints", "excludedTaints"),
    "OwnerKinds": not_both("include", "exclude"),
    "PodLifeTimeArgs": {
        "anyOf": [
            some("maxPodLifeTimeSeconds", type="integer"),
            *(some(name) for name in ("states", "conditions", "exitCodes")),
        ]
    },
    "PodProtections": {
        "properties": {
            "defaultDisabled": {
                "items": {"type": "string", "enum": list(DEFAULT_PROTECTIONS)},
                "uniqueItems": True,
            },
            "extraEnabled": {
                "items": {"type": "string", "enum": list(EXTRA_PROTECTIONS)},
                "uniqueItems": True,
            },
        }
    },
    "PriorityThreshold": {
        "properties": {"value": {"maximum": 2_000_000_000}},
        "not": {
            "type": "object",
            "required": ["value", "name"],
            "properties": {
                "value": {"type": "integer"},
                "name": {"type": "string", "minLength": 1},
            },
        },
    },
    "Prometheus": {
        "required": ["url"],
        "properties": {"url": {"pattern": r"^\s*[hH][tT][tT][pP][sS]?://."}},
    },
    "SecretReference": some("namespace", "name"),
    "StorageClassRef": some("name"),
    "TooManyRestartsArgs": {"properties": {"podRestartThreshold": {"minimum": 1}}},
    "WantedCondition": {"minProperties": 1},
}
"""What to add to the schema of a model, by the model's name."""
