"""What the models check in code, said in JSON Schema: the generated schemas get it from here.

Each rule may accept more than the code does, never less: an editor must not complain of a policy
that is sound.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from reactive_desched.model.usage import MetricsSourceKind
from reactive_desched.model.utilization import METRIC_RESOURCE
from reactive_desched.plugins.node_affinity import PREFERRED, REQUIRED
from reactive_desched.policy.protections import DEFAULT_PROTECTIONS, EXTRA_PROTECTIONS

Json = dict[str, Any]  # Any: JSON Schema is JSON

PROMETHEUS: Final = MetricsSourceKind.PROMETHEUS.value
KUBERNETES: Final = MetricsSourceKind.KUBERNETES.value


def require_non_empty(*fields: str, **shape: object) -> Json:
    """Describe an object that has each field, not empty (or of the shape given)."""
    non_empty = shape or {"not": {"enum": [None, "", 0, False, [], {}]}}
    return {"type": "object", "required": list(fields), **for_each_field(fields, non_empty)}


def for_each_field(fields: Iterable[str], shape: Json) -> Json:
    """Describe several fields alike."""
    return {"properties": dict.fromkeys(fields, shape)}


def mutually_exclusive(one: str, other: str) -> Json:
    """Refuse an object in which both fields say something; 0 and false say nothing here."""
    return {"not": require_non_empty(one, other)}


def if_then(condition: Json, then: Json) -> Json:
    """Ask for `then` where the condition holds."""
    return {"if": condition, "then": then}


def with_source(source: str) -> Json:
    """Describe an object with a source of metrics."""
    return require_non_empty("source", const=source)


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
    **if_then(
        require_non_empty("operator", enum=["In", "NotIn"]),
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
            "description": "Labels that an object must have.",
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
_LOADS: Final[Json] = for_each_field(
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
        **if_then(
            require_non_empty(
                "podProtections",
                anyOf=[require_non_empty("defaultDisabled"), require_non_empty("extraEnabled")],
            ),
            for_each_field(_SWITCHES, {"enum": [False, None]}),
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
        **for_each_field(("thresholds", "targetThresholds"), _SHARES),
        **if_then(
            require_non_empty("metricsUtilization", **with_source(PROMETHEUS)),
            for_each_field(("thresholds", "targetThresholds"), _METRIC_ALONE),
        ),
    },
    "MetricsProvider": {
        "required": ["source"],
        "allOf": [
            if_then(with_source(PROMETHEUS), require_non_empty("prometheus", type="object")),
            if_then(with_source(KUBERNETES), {"properties": {"prometheus": {"type": "null"}}}),
        ],
    },
    "MetricsUtilization": {
        "anyOf": [require_non_empty("source"), require_non_empty("metricsServer")],
        "allOf": [
            mutually_exclusive("source", "metricsServer"),
            if_then(
                with_source(PROMETHEUS),
                require_non_empty("prometheus", **require_non_empty("query")),
            ),
            if_then(with_source(KUBERNETES), {"properties": {"prometheus": {"type": "null"}}}),
        ],
    },
    "Namespaces": mutually_exclusive("include", "exclude"),
    "NodeAffinityArgs": {
        "properties": {
            "nodeAffinityType": {
                "minItems": 1,
                "items": {"anyOf": [{"enum": [REQUIRED, PREFERRED]}, {"type": "string"}]},
            }
        }
    },
    "NodePool": _LOADS,
    "NodeTaintsArgs": mutually_exclusive("includedTaints", "excludedTaints"),
    "OwnerKinds": mutually_exclusive("include", "exclude"),
    "PodLifeTimeArgs": {
        "anyOf": [
            require_non_empty("maxPodLifeTimeSeconds", type="integer"),
            *(require_non_empty(name) for name in ("states", "conditions", "exitCodes")),
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
    "SecretReference": require_non_empty("namespace", "name"),
    "StorageClassRef": require_non_empty("name"),
    "TooManyRestartsArgs": {"properties": {"podRestartThreshold": {"minimum": 1}}},
    "WantedCondition": {"minProperties": 1},
}
"""What to add to the schema of a model, by the model's name."""
