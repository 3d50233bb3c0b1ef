"""`policy schema`: the JSON Schema of policies and settings, for editors."""

import argparse
import json
import sys
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from reactive_desched.cli.commands import Commands

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

    from reactive_desched.api.installed import Offers

FORMATS: Final = ("any", "v1alpha2", "v1alpha1", "settings")
_NAMES_A_SOURCE: Final = ("MetricsProvider", "MetricsUtilization")
"""The sections of policies that name a source of measured use."""

_NAMES_A_PLUGIN: Final = frozenset({"PluginConfig", "DebounceSettings", "GuardSettings"})
"""The sections that name a plugin."""

_DESCRIPTION = """\
Print a JSON Schema (draft 07). An editor that has it completes names, explains fields and marks
mistakes while a policy is written; what it cannot know, `policy check` says."""


def add(commands: Commands) -> None:
    """Describe `policy schema` to the parser of `policy`."""
    command = commands.add_parser("schema", help="print the JSON Schema, for editors")
    command.describe(
        _DESCRIPTION,
        examples=(
            "reactive-desched policy schema > policy.schema.json",
            "reactive-desched policy schema settings",
            "reactive-desched policy schema settings --sink spool",
            "reactive-desched policy schema any --source NodeFile",
            "reactive-desched policy schema --plugin RemovePodsFromRetiringNodes",
        ),
    )
    command.add_argument(
        "format",
        nargs="?",
        choices=FORMATS,
        default="any",
        help="what to describe (default any: each document by its apiVersion)",
    )
    command.add_argument(
        "--sink",
        metavar="NAME",
        action="append",
        default=[],
        help="with the section of this installed sink; may be repeated",
    )
    command.add_argument(
        "--source",
        metavar="NAME",
        action="append",
        default=[],
        help="with this installed source of measured use; may be repeated",
    )
    command.add_argument(
        "--plugin",
        metavar="NAME",
        action="append",
        default=[],
        help="with this installed plugin and its arguments; may be repeated",
    )
    command.set_defaults(command=_print, usage_error=command.error)


def text(name: str) -> str:
    """Return the text of a schema that comes with the package."""
    file = files("reactive_desched.policy") / "schemas" / f"{name}.json"
    return file.read_text(encoding="utf-8")


def _print(arguments: argparse.Namespace) -> int:
    from reactive_desched.errors import ConfigError, PluginError

    if not (arguments.sink or arguments.source or arguments.plugin):
        sys.stdout.write(text(arguments.format))
        return 0
    schema = json.loads(text(arguments.format))
    try:
        if arguments.sink:
            _add_sinks(schema, arguments.sink)
        if arguments.source:
            _add_sources(schema, arguments.source)
        if arguments.plugin:
            _add_plugins(schema, arguments.plugin)
    except (ConfigError, PluginError) as error:
        arguments.usage_error(str(error))
    sys.stdout.write(json.dumps(schema, indent=2, ensure_ascii=False) + "\n")
    return 0


def _add_sinks(schema: dict[str, Any], names: "Iterable[str]") -> None:  # Any: a schema is JSON
    """Put the sections of installed sinks into a schema; raises ConfigError."""
    from reactive_desched.errors import ConfigError
    from reactive_desched.policy.settings.installed_sections import settings_of, sink_offers

    offers = sink_offers()
    if "SinkSettings" not in schema["definitions"]:
        raise ConfigError("--sink: this format has no sinks; take any or settings")
    _refuse_unknown("--sink", names, offers)
    _add_sections(schema, "SinkSettings", settings_of(names, offers).model_fields["sinks"])


def _add_sources(schema: dict[str, Any], names: "Iterable[str]") -> None:  # as above
    """Put installed sources of measured use into a schema; raises ConfigError.

    Settings have a section of each, and policies name it as a source.
    """
    from reactive_desched.api.usage_source import usage_offers
    from reactive_desched.errors import ConfigError
    from reactive_desched.policy.settings.installed_sections import settings_of, sink_offers

    offers, definitions = usage_offers(), schema["definitions"]
    named = [definitions[each] for each in _NAMES_A_SOURCE if each in definitions]
    if "UsageSettings" not in definitions and not named:
        raise ConfigError("--source: this format has none; take any, v1alpha2 or settings")
    _refuse_unknown("--source", names, offers)
    if "UsageSettings" in definitions:
        model = settings_of((), sink_offers(), names, offers)
        _add_sections(schema, "UsageSettings", model.model_fields["usage"])
    for each in named:
        known = each["properties"]["source"]["enum"]
        known += [name for name in names if name not in known]


def _add_plugins(schema: dict[str, Any], names: "Iterable[str]") -> None:  # as above
    """Let a schema name installed plugins, each with its arguments; raises ConfigError.

    Policies name them in `pluginConfig` and at their extension point, settings by what concerns
    one plugin.
    """
    from reactive_desched.errors import ConfigError
    from reactive_desched.plugins.registry import plugin_registry

    registry, definitions = plugin_registry(), schema["definitions"]
    if not _NAMES_A_PLUGIN & definitions.keys():
        raise ConfigError("--plugin: this format has none but ours; take any, v1alpha2 or settings")
    _refuse_unknown("--plugin", names, registry)
    for name in sorted({*names}.difference(registry.built_in())):
        spec = registry[name]
        for section, field in (("DebounceSettings", "perPlugin"), ("GuardSettings", "ignoredBy")):
            if section in definitions:
                definitions[section]["properties"][field]["propertyNames"]["enum"].append(name)
        if "PluginConfig" in definitions:
            _add_arguments(definitions, name, spec.args)
            for point in spec.points:
                enabled = definitions["PluginsSection"]["properties"][point]["properties"]
                enabled["enabled"]["items"]["enum"].append(name)


def _add_arguments(definitions: dict[str, Any], name: str, args: "type[BaseModel]") -> None:
    """Tie a plugin's arguments to its name, in definitions that no other plugin has."""
    made = args.model_json_schema(ref_template=f"#/definitions/{name}.{{model}}")
    definitions |= {f"{name}.{key}": shape for key, shape in made.pop("$defs", {}).items()}
    definitions[f"{name}.args"] = made
    shape: dict[str, Any] = {"$ref": f"#/definitions/{name}.args"}  # Any: as above
    if not made.get("required"):
        shape = {"anyOf": [shape, {"type": "null"}]}
    entry = definitions["PluginConfig"]
    entry["properties"]["name"]["enum"].append(name)
    entry["allOf"].append(
        {
            "if": {"required": ["name"], "properties": {"name": {"const": name}}},
            "then": {"properties": {"args": shape}},
        }
    )


def _refuse_unknown(
    flag: str, names: "Iterable[str]", offers: "Offers | Mapping[str, object]"
) -> None:
    """Raise ConfigError for a name that no installed package offers."""
    from reactive_desched.errors import ConfigError
    from reactive_desched.primitives.hints import not_one_of

    for name in names:
        if name not in offers:
            raise ConfigError(f"{flag} {not_one_of(name, offers)}")


def _add_sections(schema: dict[str, Any], section: str, field: "FieldInfo") -> None:  # as above
    """Put what the model of a field has more than a schema into that."""
    model, definitions = field.annotation, schema["definitions"]
    assert model is not None, "every field has a type"
    made = model.model_json_schema(ref_template="#/definitions/{model}")
    for key, shape in made["properties"].items():
        definitions[section]["properties"].setdefault(key, shape)
    for key, shape in made.get("$defs", {}).items():
        definitions.setdefault(key, shape)
