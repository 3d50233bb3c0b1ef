"""`policy schema`: the JSON Schema of policies and settings, for editors."""

import argparse
import json
import sys
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from reactive_desched.cli.commands import Commands

if TYPE_CHECKING:
    from collections.abc import Iterable

FORMATS: Final = ("any", "v1alpha2", "v1alpha1", "settings")
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
    command.set_defaults(command=_print, usage_error=command.error)


def text(name: str) -> str:
    """Return the text of a schema that comes with the package."""
    file = files("reactive_desched.policy") / "schemas" / f"{name}.json"
    return file.read_text(encoding="utf-8")


def _print(arguments: argparse.Namespace) -> int:
    from reactive_desched.errors import ConfigError

    if not arguments.sink:
        sys.stdout.write(text(arguments.format))
        return 0
    schema = json.loads(text(arguments.format))
    try:
        _add_sinks(schema, arguments.sink)
    except ConfigError as error:
        arguments.usage_error(str(error))
    sys.stdout.write(json.dumps(schema, indent=2, ensure_ascii=False) + "\n")
    return 0


def _add_sinks(schema: dict[str, Any], names: "Iterable[str]") -> None:  # Any: a schema is JSON
    """Put the sections of installed sinks into a schema; raises ConfigError."""
    from reactive_desched.errors import ConfigError
    from reactive_desched.policy.settings.installed_sections import settings_of, sink_offers
    from reactive_desched.primitives.hints import not_one_of

    offers, definitions = sink_offers(), schema["definitions"]
    if "SinkSettings" not in definitions:
        raise ConfigError("--sink: this format has no sinks; take any or settings")
    for name in names:
        if name not in offers:
            raise ConfigError(f"--sink {not_one_of(name, offers)}")
    model = settings_of(names, offers).model_fields["sinks"].annotation
    assert model is not None, "every field has a type"
    made = model.model_json_schema(ref_template="#/definitions/{model}")
    for key, shape in made["properties"].items():
        definitions["SinkSettings"]["properties"].setdefault(key, shape)
    for key, shape in made.get("$defs", {}).items():
        definitions.setdefault(key, shape)
