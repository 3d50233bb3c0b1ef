"""Writes what the Helm chart has from elsewhere, as a chart reads no file outside its folder.

The schema of its values comes from the models of policies and settings, its rights from
`deploy/base/rbac.yaml` and `deploy/migration`, its alerts and dashboards from `deploy/monitoring`.
"""

import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml  # type: ignore[import-untyped]  # PyYAML ships no types
from pydantic import BaseModel

from reactive_desched.api.args import file_key, needs_restart
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.field_descriptions import section_of
from tools.chart_errors import with_answers
from tools.schema_rules import Json
from tools.write_schemas import DIALECT, built_in_settings, reactive_settings, v1alpha2

DEPLOY: Final = Path(__file__).resolve().parents[1] / "deploy"
CHART: Final = DEPLOY / "charts" / "reactive-desched"
MONITORING: Final = DEPLOY / "monitoring"

_TEXT: Final[Json] = {"type": "string"}
_BOOL: Final[Json] = {"type": "boolean"}
_MAP: Final[Json] = {"type": "object", "additionalProperties": {"type": "string"}}
_LABELS: Final[Json] = {
    "type": "object",
    "additionalProperties": {
        "type": "string",
        "pattern": "^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$",
    },
}
_OPEN: Final[Json] = {"type": "object"}
_OBJECTS: Final[Json] = {"type": "array", "items": {"type": "object"}}
_QUANTITY: Final[Json] = {
    "type": ["string", "number"],
    "pattern": r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)(n|u|m|k|[KMGTPE]i?|[eE][+-]?[0-9]+)?$",
    "minimum": 0,
}
_SIZE: Final[Json] = {
    "type": ["string", "number"],
    "pattern": r"^[0-9.]*[1-9][0-9.]*(m|k|[KMGTPE]i?|[eE][+-]?[0-9]+)?$",
    "exclusiveMinimum": 0,
}
_QUANTITIES: Final[Json] = {"type": "object", "additionalProperties": _QUANTITY}
_SCHEDULE: Final[Json] = {
    "type": "string",
    "pattern": r"^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|\S+( +\S+){4})$",
}
_PERIOD: Final[Json] = {"type": "string", "pattern": "^([0-9]+(ms|s|m|h))+$"}
_NAME: Final[Json] = {"type": "string", "pattern": "^([a-z0-9]([-.a-z0-9]*[a-z0-9])?)?$"}


_BOOL_OR_NULL: Final[Json] = {"type": ["boolean", "null"]}
_TEXT_OR_NULL: Final[Json] = {"type": ["string", "null"]}
_ID: Final[Json] = {"type": ["integer", "null"], "minimum": 0}
_TEXTS: Final[Json] = {"type": ["array", "null"], "items": _TEXT}
_VARIABLE: Final[Json] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "value": _TEXT,
        "valueFrom": {"type": "object"},
    },
}
_VARIABLES: Final[Json] = {"type": "array", "items": _VARIABLE}
_PORTS: Final[Json] = {
    "type": "array",
    "items": {"type": "integer", "minimum": 1, "maximum": 65535},
}

# Helm takes a value that is null out, and `--reuse-values` brings only those of the version before.
# The templates cannot do without these, and without what is needed of a section.
_NEEDED: Final = (
    *("kind", "replicas", "image", "persistence", "activeDeadlineSeconds"),
    *("ttlSecondsAfterFinished", "schedule", "serviceAccount", "rbac", "migrationJobs"),
    *("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"),
    *("networkPolicy", "monitoring"),
)

# Where a policy enables plugins of a package beside ours.
_POINTS: Final = ("deschedule", "balance")


def _section(*, may_lack: tuple[str, ...] = (), **properties: Json) -> Json:
    """Describe a map; the templates do without what it may lack, and have the rest by default."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [each for each in properties if each not in may_lack],
        "properties": properties,
    }


def _known(**properties: Json) -> Json:
    """Describe a part of a pod by the fields that people write; it may have others, and be null."""
    return {"type": ["object", "null"], "properties": properties}


def _security(**more: Json) -> Json:
    """Describe a security context of a pod or a container."""
    return _known(
        runAsNonRoot=_BOOL_OR_NULL,
        runAsUser=_ID,
        runAsGroup=_ID,
        seccompProfile=_known(type=_TEXT_OR_NULL),
        **more,
    )


def _values() -> dict[str, Json]:
    """Describe the values that are not a policy or settings."""
    monitor = _section(
        may_lack=(
            *("labels", "namespace", "scrapeTimeout", "honorLabels", "tlsConfig"),
            *("authorization", "relabelings", "metricRelabelings"),
        ),
        enabled=_BOOL,
        interval=_PERIOD,
        labels=_LABELS,
        namespace=_NAME,
        scrapeTimeout={"type": "string", "pattern": "^([0-9]+(ms|s|m|h))*$"},
        honorLabels=_BOOL,
        tlsConfig=_OPEN,
        authorization=_OPEN,
        relabelings=_OBJECTS,
        metricRelabelings=_OBJECTS,
    )
    count: Json = {"type": "integer", "minimum": 0}
    modes = ("ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod")
    return {
        "kind": {"enum": ["Deployment", "Job", "CronJob"]},
        "dryRun": _BOOL,
        "replicas": {"type": "integer", "minimum": 0},
        "nameOverride": _NAME,
        "fullnameOverride": _NAME,
        "commonLabels": _LABELS,
        "commonAnnotations": _MAP,
        "image": _section(
            may_lack=("tag", "digest"),
            repository={
                "type": "string",
                "pattern": "^[A-Za-z0-9][-A-Za-z0-9._:/@]*$",
                "if": {"pattern": "(^|/)descheduler/descheduler$"},
                "then": {
                    "const": "the image that you built from the Dockerfile: this is the image of"
                    " the SIG descheduler"
                },
            },
            tag={"type": "string", "pattern": "^([A-Za-z0-9_][-.A-Za-z0-9_]{0,127})?$"},
            digest={"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
            pullPolicy={"enum": ["Always", "IfNotPresent", "Never"]},
        ),
        "imagePullSecrets": {
            "type": "array",
            "items": {
                "type": ["object", "string"],
                "required": ["name"],
                "additionalProperties": False,
                "properties": {"name": _TEXT},
            },
        },
        "ownPlugins": {"type": "array", "items": {"type": "string", "minLength": 1}},
        "paused": {"type": ["string", "boolean"]},
        "extraArgs": {"type": "array", "items": _TEXT},
        "env": _VARIABLES,
        "extraEnv": _VARIABLES,
        "envFrom": _OBJECTS,
        "initContainers": _OBJECTS,
        "extraContainers": _OBJECTS,
        "persistence": _section(
            may_lack=("storageClassName", "accessModes", "existingClaim"),
            enabled=_BOOL,
            keep=_BOOL,
            size=_SIZE,
            storageClassName=_NAME,
            accessModes={"type": "array", "items": {"enum": list(modes)}},
            existingClaim=_NAME,
        ),
        "schedule": _SCHEDULE,
        "timeZone": {"type": "string", "pattern": "^[-A-Za-z0-9_+/]*$"},
        "suspend": _BOOL,
        "activeDeadlineSeconds": {"type": "integer", "minimum": 1},
        "ttlSecondsAfterFinished": {"type": "integer", "minimum": 0},
        "startingDeadlineSeconds": {"type": "integer", "minimum": 10},
        "successfulJobsHistoryLimit": count,
        "failedJobsHistoryLimit": count,
        "serviceAccount": _section(
            may_lack=("name", "annotations", "automountServiceAccountToken"),
            create=_BOOL,
            name=_NAME,
            annotations=_MAP,
            automountServiceAccountToken=_BOOL,
        ),
        "rbac": _section(create=_BOOL),
        "migrationJobs": _section(installDefinition=_BOOL),
        "resources": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"requests": _QUANTITIES, "limits": _QUANTITIES},
        },
        "priorityClassName": _NAME,
        "nodeSelector": _LABELS,
        "tolerations": _OBJECTS,
        "affinity": _OPEN,
        "topologySpreadConstraints": _OBJECTS,
        "podLabels": _LABELS,
        "podAnnotations": _MAP,
        "dnsPolicy": {"enum": ["", "Default", "ClusterFirst", "ClusterFirstWithHostNet", "None"]},
        "dnsConfig": _OPEN,
        "hostAliases": _OBJECTS,
        "automountServiceAccountToken": _BOOL,
        "podSecurityContext": _security(fsGroup=_ID, fsGroupChangePolicy=_TEXT_OR_NULL),
        "securityContext": _security(
            allowPrivilegeEscalation=_BOOL_OR_NULL,
            privileged=_BOOL_OR_NULL,
            readOnlyRootFilesystem=_BOOL_OR_NULL,
            capabilities=_known(add=_TEXTS, drop=_TEXTS),
        ),
        "extraVolumes": _OBJECTS,
        "extraVolumeMounts": _OBJECTS,
        "networkPolicy": _section(
            may_lack=("extraIngress",),
            enabled=_BOOL,
            monitoringNamespace={**_NAME, "minLength": 1},
            extraIngress=_OBJECTS,
            egress=_section(
                may_lack=("extra",),
                enabled=_BOOL,
                dns=_section(may_lack=("to",), ports=_PORTS, to=_OBJECTS),
                apiServer=_section(may_lack=("to",), ports=_PORTS, to=_OBJECTS),
                services=_section(may_lack=("to",), ports=_PORTS, to=_OBJECTS),
                extra=_OBJECTS,
            ),
        ),
        "monitoring": _section(
            documentationUrl={"type": "string", "pattern": "^(https?://.*[^/])?$"},
            serviceMonitor=monitor,
            podMonitor=monitor,
            prometheusRule=_section(may_lack=("labels",), enabled=_BOOL, labels=_LABELS),
            dashboards=_section(may_lack=("labels",), enabled=_BOOL, labels=_LABELS),
        ),
        "global": {"description": "Helm's own, for a chart that includes this one; not read."},
        "enabled": {
            **_BOOL,
            "description": "Of a chart that includes this one: the `condition` of its dependency.",
        },
    }


def values_schema() -> Json:
    """Describe the values of the chart; an unknown value is refused."""
    definitions: dict[str, Json] = {}
    documents: dict[str, Json] = {}
    for name, schema in (("policy", v1alpha2()), ("settings", reactive_settings())):
        for each, shape in schema["definitions"].items():
            if definitions.setdefault(each, shape) != shape:
                raise ValueError(f"two definitions are called {each}")
        # The templates add apiVersion and kind where they are left out.
        left_out = ("$schema", "$id", "$comment", "definitions", "required")
        documents[name] = {key: schema[key] for key in schema if key not in left_out}
    definitions["SinkSettings"] = {
        **definitions["SinkSettings"],
        "additionalProperties": {
            "type": ["object", "array", "null"],
            "description": "A sink that a package of the image offers: the controller checks it.",
        },
    }
    for name in ("MetricsProvider", "MetricsUtilization"):  # a package may offer another source
        shape = definitions[name]
        source = {key: each for key, each in shape["properties"]["source"].items() if key != "enum"}
        definitions[name] = {**shape, "properties": {**shape["properties"], "source": source}}
    definitions["UsageSettings"] = {
        **definitions["UsageSettings"],
        "additionalProperties": {
            "type": ["object", "null"],
            "description": "A source of measured use that a package of the image offers.",
        },
    }
    names = _closed_names(definitions)
    answered = {
        # Helm says what a const must be, beside every other wrong value: so this is the remedy
        name: {"const": f"gone, as it is of the chart of the SIG descheduler: {here}"}
        for name, here in upstream_values().items()
    }
    return {
        "$schema": DIALECT,
        "type": "object",
        "additionalProperties": False,
        "required": ["policy", "settings"],
        "properties": {
            **{name: _without_needs(shape) for name, shape in _values().items()},
            **documents,
            **answered,
        },
        # with names of `ownPlugins` no schema can say which there are: templates/checks.yaml does
        "if": {"properties": {"ownPlugins": {"maxItems": 0}}},
        "then": {"properties": names},
        "definitions": definitions,
    }


def _closed_names(definitions: dict[str, Json]) -> Json:
    """Take the lists of plugins out of the definitions, and return what says them of the values."""
    profile = {"pluginConfig": {"items": _take_names(definitions, "PluginConfig", "name")}}
    points = [_take_names(definitions, "PluginsSection", each) for each in _POINTS]
    profile["plugins"] = {
        "properties": {key: shape for each in points for key, shape in each["properties"].items()}
    }
    debounce = _take_names(definitions, "DebounceSettings", "perPlugin")
    guards = _take_names(definitions, "GuardSettings", "ignoredBy")
    return {
        "policy": {"properties": {"profiles": {"items": {"properties": profile}}}},
        "settings": {"properties": {"debounce": debounce, "guards": guards}},
    }


def _take_names(definitions: dict[str, Json], section: str, field: str) -> Json:
    """Take what lists plugins out of a field, and return it as a shape of the section."""
    shape = definitions[section]["properties"][field]
    taken = {key: shape[key] for key in ("enum", "propertyNames", "properties") if key in shape}
    left = {key: each for key, each in shape.items() if key not in taken}
    taken = json.loads(json.dumps(taken), object_hook=_with_remedy)
    properties = {**definitions[section]["properties"], field: left}
    definitions[section] = {**definitions[section], "properties": properties}
    return {"properties": {field: taken}}


def _with_remedy(shape: Json) -> Json:
    """Add what to do to a list of names: Helm says what it may be one of, and nothing else."""
    remedy = "a plugin of your image, with its name under `ownPlugins`"
    return {**shape, "enum": [*shape["enum"], remedy]} if "enum" in shape else shape


def upstream_values() -> dict[str, str]:
    """Return the top-level values of the SIG descheduler's chart, and what to write here."""
    found: dict[str, str] = yaml.safe_load(
        Path(__file__).with_name("upstream_values.yaml").read_text(encoding="utf-8")
    )
    return found


def _without_needs(shape: Json) -> Json:
    """Return the shape of a section that may lack everything."""
    if not _is_section(shape):
        return shape
    parts = {name: _without_needs(part) for name, part in shape["properties"].items()}
    return {
        **{key: each for key, each in shape.items() if key != "required"},
        "properties": parts,
    }


def _is_section(shape: Json) -> bool:
    return shape.get("type") == "object" and "properties" in shape


def needed_values() -> str:
    """Return the defaults of the values that the templates cannot do without."""
    defaults = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    shapes = _values()
    return yaml_of({name: _needed_of(shapes[name], defaults[name]) for name in _NEEDED})


def _needed_of(shape: Json, default: Any) -> Any:
    if not _is_section(shape):
        return default
    parts = shape["properties"]
    return {name: _needed_of(parts[name], default[name]) for name in shape["required"]}


def watched_kinds() -> str:
    """Return the rules of `deploy/base/rbac.yaml` that let the controller read."""
    text = (DEPLOY / "base" / "rbac.yaml").read_text(encoding="utf-8")
    found = re.search(r"# watched kinds:[^\n]*\n(.*?) *# end of watched kinds", text, re.DOTALL)
    if found is None:
        raise ValueError("deploy/base/rbac.yaml does not mark the watched kinds")
    return textwrap.dedent(found[1])


def migration_rights() -> str:
    """Return the rules of `deploy/migration/rbac.yaml`."""
    text = (DEPLOY / "migration" / "rbac.yaml").read_text(encoding="utf-8")
    found = re.search(r"^rules:\n(.*?)^---$", text, re.DOTALL | re.MULTILINE)
    if found is None:
        raise ValueError("deploy/migration/rbac.yaml begins with no role")
    return textwrap.dedent(found[1])


def restart_settings() -> str:
    """Return the settings that are read at the start only; of a section within one, the section."""
    return yaml_of(list(_read_at_start(built_in_settings())))


def _read_at_start(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        path = f"{prefix}{file_key(name)}"
        section = section_of(field)
        if needs_restart(field):
            yield path
        elif section is not None:
            yield from _read_at_start(section, f"{path}.")


def plugin_names() -> str:
    """Return the names of our plugins by the extension point where a policy enables them."""
    plugins = plugin_registry()
    return yaml_of(
        {
            point: sorted(name for name, spec in plugins.items() if point in spec.points)
            for point in _POINTS
        }
    )


def yaml_of(found: Json | list[str]) -> str:
    """Return what a template reads with `fromYaml`."""
    text: str = yaml.safe_dump(found, sort_keys=False)
    return text


def written() -> dict[str, str]:
    """Return the text of each written file by its path in the chart."""
    schema = json.dumps(with_answers(values_schema()), indent=2, ensure_ascii=False) + "\n"
    dashboards = {
        f"files/dashboards/{path.name}": path.read_text(encoding="utf-8")
        for path in sorted((MONITORING / "dashboards").glob("*.json"))
    }
    return {
        "values.schema.json": schema,
        "files/needed-values.yaml": needed_values(),
        "files/plugins.yaml": plugin_names(),
        "files/restart-settings.yaml": restart_settings(),
        "files/watched-kinds.yaml": watched_kinds(),
        "files/migration-rights.yaml": migration_rights(),
        "files/podmigrationjobs.yaml": (DEPLOY / "migration" / "podmigrationjobs.yaml").read_text(
            encoding="utf-8"
        ),
        "files/alerts.yaml": (MONITORING / "alerts.yaml").read_text(encoding="utf-8"),
        **dashboards,
    }


def main() -> None:
    """Write every file, and remove the dashboards that are gone."""
    texts = written()
    for path in (CHART / "files" / "dashboards").glob("*.json"):
        if f"files/dashboards/{path.name}" not in texts:
            path.unlink()
    for name, text in texts.items():
        (CHART / name).parent.mkdir(parents=True, exist_ok=True)
        (CHART / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
