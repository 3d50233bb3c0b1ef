"""Writes the JSON Schemas that ship with the package; a test holds them equal.

Draft 07, because the YAML language server, and with it most editors, supports all of that draft
and only parts of the later ones.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ValidationError

from reactive_desched import policy
from reactive_desched._version import __version__
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy import document
from reactive_desched.policy.koordinator.migration_controller import MigrationControllerArgs
from reactive_desched.policy.legacy import v1alpha1
from reactive_desched.policy.legacy.strategies import STATES, STRATEGIES, THRESHOLDS, Strategy
from reactive_desched.policy.registry import (
    EVICT,
    EXTENSION_POINTS,
    MIGRATION_CONTROLLER,
    SUPPORTED_POINTS,
    Registry,
    with_evictor,
)
from reactive_desched.policy.settings import controller_settings
from reactive_desched.policy.settings import reactive_settings as settings
from reactive_desched.policy.settings.installed_sections import settings_of, sink_offers
from tools.json_shapes import Definitions, definitions, merge_rule, or_null, reachable, ref
from tools.schema_rules import Json, if_then, mutually_exclusive, require_non_empty

SCHEMAS: Final = Path(policy.__file__).parent / "schemas"
DIALECT: Final = "http://json-schema.org/draft-07/schema#"
_NOT_READ: Final[Json] = {"description": "Accepted here and not read."}


def v1alpha2() -> Json:
    """Describe a DeschedulerPolicy, the arguments of each plugin by its name."""
    plugins = with_evictor(plugin_registry())
    models: list[type[BaseModel]] = [spec.args for spec in plugins.values()]
    models.append(MigrationControllerArgs)
    definitions_by_name = definitions([document.PolicyDocument, *models])
    for model in models:
        args = definitions_by_name[model.__name__]
        args["properties"] = {
            **args.get("properties", {}),
            "apiVersion": _NOT_READ,
            "kind": _NOT_READ,
        }
    definitions_by_name["PluginConfig"] = _plugin_config(
        definitions_by_name["PluginConfig"], plugins
    )
    definitions_by_name["PluginsSection"] = _extension_points(
        definitions_by_name["PluginsSection"], plugins
    )
    definitions_by_name["ProfileSection"] = {
        **definitions_by_name["ProfileSection"],
        "allOf": _enabled_requires_args(plugins),
    }
    root = definitions_by_name["PolicyDocument"]
    root["properties"]["profiles"]["items"] = or_null(ref("ProfileSection"))
    return _document(root, definitions_by_name, document.API_VERSION, document.KIND)


def legacy_policy() -> Json:
    """Describe a DeschedulerPolicy in the legacy format."""
    plugins = plugin_registry()
    definitions_by_name = definitions(
        [v1alpha1.LegacyPolicy, *(spec.args for spec in plugins.values())]
    )
    root = definitions_by_name["LegacyPolicy"]
    strategies = {
        name: _strategy(name, strategy, definitions_by_name[plugins[name].args.__name__])
        for name, strategy in STRATEGIES.items()
    }
    root["properties"]["strategies"] |= {"properties": strategies, "additionalProperties": False}
    return _document(root, definitions_by_name, v1alpha1.API_VERSION, document.KIND)


def built_in_settings() -> type[settings.ReactiveSettings]:
    """Return the model of settings, with the sections of all sinks of this package."""
    offers = sink_offers()
    return settings_of(offers.built_in(), offers)


def reactive_settings() -> Json:
    """Describe ReactiveSettings."""
    definitions_by_name = definitions([built_in_settings()])
    names = {"enum": sorted(plugin_registry())}
    definitions_by_name["DebounceSettings"]["properties"]["perPlugin"]["propertyNames"] = names
    definitions_by_name["GuardSettings"]["properties"]["ignoredBy"]["propertyNames"] = names
    root = definitions_by_name["ReactiveSettings"]
    return _document(
        root, definitions_by_name, controller_settings.API_VERSION, controller_settings.KIND
    )


def any_of(parts: Mapping[str, Json]) -> Json:
    """Describe a document that is any of these, by its apiVersion."""
    definitions_by_name: Definitions = {}
    for name, part in parts.items():
        for each, shape in part["definitions"].items():
            if definitions_by_name.setdefault(each, shape) != shape:
                raise ValueError(f"two definitions are called {each}")
        definitions_by_name[name] = {
            key: part[key] for key in part if key not in (*_head("any"), "definitions")
        }
    versions = {name: part["properties"]["apiVersion"]["const"] for name, part in parts.items()}
    return {
        **_head("any"),
        "description": "A DeschedulerPolicy or ReactiveSettings.",
        "type": "object",
        "required": ["apiVersion", "kind"],
        "properties": {"apiVersion": {"enum": list(versions.values())}},
        "allOf": [
            if_then(require_non_empty("apiVersion", const=version), ref(name))
            for name, version in versions.items()
        ],
        "definitions": definitions_by_name,
    }


def _document(root: Json, definitions_by_name: Definitions, version: str, kind: str) -> Json:
    """Describe a whole document, with what it needs."""
    root["properties"] |= {
        "apiVersion": {"const": version, "description": f"Always {version}."},
        "kind": {"const": kind, "description": f"Always {kind}."},
    }
    root["required"] = ["apiVersion", "kind"]
    head = _head(f"{kind}.{version.rpartition('/')[2]}")
    return {**head, **root, "definitions": reachable(root, definitions_by_name)}


def _head(name: str) -> Json:
    """Name a schema for as long as its format lasts, and the release whose plugins it has."""
    return {
        "$schema": DIALECT,
        "$id": f"urn:reactive-desched:schemas:{name}",
        "$comment": f"reactive-desched {__version__}",
    }


def _plugin_config(entry: Json, plugins: Registry) -> Json:
    """Tie the arguments of an entry to its name."""
    args = {name: spec.args for name, spec in plugins.items()}
    args[MIGRATION_CONTROLLER] = MigrationControllerArgs
    typed = [
        if_then(require_non_empty("name", const=name), _entry(model))
        for name, model in sorted(args.items())
    ]
    name = {**entry["properties"]["name"], "enum": sorted(args)}
    return {**entry, "properties": {**entry["properties"], "name": name}, "allOf": typed}


def _entry(args: type[BaseModel]) -> Json:
    """Describe an entry of one plugin."""
    if _has_required_args(args):
        return {"required": ["args"], "properties": {"args": ref(args.__name__)}}
    return {"properties": {"args": or_null(ref(args.__name__))}}


def _enabled_requires_args(plugins: Registry) -> list[Json]:
    """Ask for an entry of each enabled plugin that does not do without arguments."""
    asked = []
    for name, spec in sorted(plugins.items()):
        if _has_required_args(spec.args):
            is_listed = require_non_empty("enabled", type="array", contains={"const": name})
            points = [require_non_empty(point, **is_listed) for point in sorted(spec.points)]
            entry = require_non_empty(
                "pluginConfig", type="array", contains=require_non_empty("name", const=name)
            )
            asked.append(if_then(require_non_empty("plugins", anyOf=points), entry))
    return asked


def _has_required_args(args: type[BaseModel]) -> bool:
    """Say whether a plugin's arguments cannot be left out."""
    try:
        args.model_validate_json("{}", strict=True)
    except ValidationError:
        return True
    return False


def _extension_points(section: Json, plugins: Registry) -> Json:
    """Say which plugins can be enabled at which point."""
    points = dict(section["properties"])
    for point in EXTENSION_POINTS:
        if point in SUPPORTED_POINTS:
            names = sorted(name for name, spec in plugins.items() if point in spec.points)
            if point == "filter":  # as koordinator's profiles have it
                names.append(MIGRATION_CONTROLLER)
            enabled = {"items": {"type": "string", "enum": names}}
            points[point] = {**points[point], "properties": {"enabled": enabled}}
    evicts: Json = {"items": {"type": "string", "enum": [MIGRATION_CONTROLLER]}}
    points[EVICT] = {**points[EVICT], "properties": {"enabled": evicts}}
    return {**section, "properties": points}


def _strategy(name: str, strategy: Strategy, args: Json) -> Json:
    """Describe a strategy; what its plugin checks counts only where it is enabled."""
    params: Json = {}
    for argument, path in strategy.copied_params.items():
        shape = {k: v for k, v in args["properties"][argument].items() if k != "description"}
        params = merge_rule(params, _schema_at(path, shape))
    for path in strategy.derived_params:
        if path in STATES:
            params = merge_rule(
                params, _schema_at(path, {"items": args["properties"]["states"]["items"]})
            )
    needed = [strategy.copied_params[argument] for argument in args.get("required", [])]
    if name == "PodLifeTime":
        needed.append(strategy.copied_params["maxPodLifeTimeSeconds"])
    for path in needed:
        params = merge_rule(params, _requiring(path))
    thresholds = mutually_exclusive(*(path[-1] for path in THRESHOLDS.values()))
    asked = {"properties": {"params": merge_rule(params, thresholds)}}
    return {
        "anyOf": [ref("LegacyStrategy"), {"type": "null"}],
        **if_then(
            require_non_empty("enabled", const=True),
            {**asked, **({"required": ["params"]} if needed else {})},
        ),
    }


def _schema_at(path: tuple[str, ...], shape: Json) -> Json:
    """Describe what stands at a path."""
    for step in reversed(path):
        shape = {"properties": {step: shape}}
    return shape


def _requiring(path: tuple[str, ...]) -> Json:
    """Ask for something at a path."""
    shape: Json = {}
    for step in reversed(path):
        shape = {"type": "object", "required": [step], "properties": {step: shape} if shape else {}}
    return shape


def schemas() -> dict[str, str]:
    """Give the text of every schema by its name."""
    parts = {"v1alpha2": v1alpha2(), "v1alpha1": legacy_policy(), "settings": reactive_settings()}
    every = {**parts, "any": any_of(parts)}
    return {
        name: json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        for name, schema in every.items()
    }


def main() -> None:
    """Write every schema."""
    SCHEMAS.mkdir(exist_ok=True)
    for name, text in schemas().items():
        (SCHEMAS / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
