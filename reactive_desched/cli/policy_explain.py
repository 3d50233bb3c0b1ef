"""`policy explain`: what a plugin, one of its arguments, or a setting means."""

import argparse
import inspect
import json
import sys
import textwrap
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from reactive_desched.cli.commands import Commands
from reactive_desched.cli.policy_rule import rule_page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reactive_desched.policy.field_descriptions import FieldDescription

_REFERENCE: Final = Path(__file__).parents[2] / "docs" / "reference" / "reasons.md"
_EVICTOR: Final = "DefaultEvictor"
_SETTINGS: Final = "settings"
_INSTALLED: Final = ("sinks.", "usage.")
"""Sections of settings that installed packages add to."""

_MIGRATION: Final = "MigrationController"
_DESCRIPTION: Final = """\
Explain a plugin and its arguments, one argument, the evictor (DefaultEvictor), a setting
(settings.budgets.cluster), or koordinator's MigrationController, as `kubectl explain` explains a
field of an object; or a reason that `why`, `plan`, `pending` and events give, such as
EvictionRateLimited. A code of `policy check` is explained as by `policy rule`. Without a name, list
the plugins."""


def add(commands: Commands) -> None:
    """Describe `policy explain` to the parser of `policy`."""
    command = commands.add_parser("explain", help="explain a plugin, an argument or a setting")
    command.describe(
        _DESCRIPTION,
        examples=(
            "reactive-desched policy explain PodLifeTime",
            "reactive-desched policy explain LowNodeUtilization.thresholds",
            "reactive-desched policy explain settings.moves",
            "reactive-desched policy explain EvictionRateLimited",
        ),
    )
    command.add_argument(
        "name",
        metavar="PLUGIN[.ARG]",
        nargs="?",
        help="or DefaultEvictor[.ARG], MigrationController[.ARG], settings[.FIELD], a reason, "
        "a code of `policy check`",
    )
    command.set_defaults(command=_print, usage_error=command.error)


def _print(arguments: argparse.Namespace) -> int:
    from reactive_desched.errors import ConfigError
    from reactive_desched.text.layout import layout_for

    layout = layout_for(sys.stdout)
    try:
        lines = list(_lines(arguments.name, layout.width or 100))
    except ConfigError as error:
        arguments.usage_error(str(error))
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 0


def _lines(name: str | None, width: int) -> Iterator[str]:
    """Yield the explanation; raises ConfigError for a name that there is not."""
    from reactive_desched.errors import ConfigError
    from reactive_desched.policy.field_descriptions import fields_of
    from reactive_desched.text.layout import align

    if name is None:
        yield from align([("PLUGIN", "FINDS"), *_plugins()], width=width)
        yield ""
        others = f"{_EVICTOR}, {_MIGRATION} or {_SETTINGS}"
        yield f"Name one of them, {others}, to see its fields, or a code as RD201."
        return
    if (texts := _meanings().get(name)) is not None:
        yield from (name, "")
        yield from (line for text in texts for line in textwrap.wrap(text, width))
        if _REFERENCE.is_file():  # in a clone; an installed package has no pages
            anchor = f"docs/reference/{_REFERENCE.name}#{name.lower()}"
            yield from ("", "In the documentation:", anchor)
        return
    if (page := rule_page(name)) is not None:
        yield from page.splitlines()
        return
    is_setting = _is_setting(name) or name.startswith(_INSTALLED)
    head, _, rest = (f"{_SETTINGS}.{name}" if is_setting else name).partition(".")
    about, model = _described(head, rest)
    fields = list(fields_of(model))
    chosen = [each for each in fields if not rest or _is_below(each, rest)]
    if not chosen:
        installed = _installed_sections() if head == _SETTINGS else []
        hint = _named_beside(rest, [*(each.name for each in fields), *installed])
        raise ConfigError(f"{head} has no field {rest}; {hint}".rstrip("; "))
    yield from (f"{head}{f'.{rest}' if rest else ''}", "")
    for paragraph in [] if rest else about.split("\n\n"):
        yield from (*textwrap.wrap(paragraph, width, break_on_hyphens=False), "")
    yield from _table(chosen, width)


def _meanings() -> dict[str, list[str]]:
    """Return the sentences on each reason code."""
    text = (files("reactive_desched.api") / "reasons.json").read_text(encoding="utf-8")
    meanings: dict[str, list[str]] = json.loads(text)
    return meanings


def _is_setting(name: str) -> bool:
    """Say whether a name begins with a section of the settings: so `why` names a setting."""
    from reactive_desched.policy.field_descriptions import fields_of
    from reactive_desched.policy.settings.reactive_settings import ReactiveSettings

    return any(_is_below(each, name) for each in fields_of(ReactiveSettings))


def _is_below(field: "FieldDescription", path: str) -> bool:
    return field.name == path or field.name.startswith(f"{path}.")


def _table(fields: "Sequence[FieldDescription]", width: int) -> Iterator[str]:
    from reactive_desched.policy.field_descriptions import without_links
    from reactive_desched.text.layout import align

    rows = [("FIELD", "DEFAULT", "MEANING")]
    rows += [(each.name, each.default or "-", without_links(each.meaning)) for each in fields]
    yield from align(rows, width=width)


def _plugins() -> Iterator[tuple[str, str]]:
    from reactive_desched.errors import PluginError
    from reactive_desched.plugins.registry import plugin_registry

    registry = plugin_registry()
    for name in sorted(registry):
        try:
            plugin = registry[name].plugin
        except PluginError as error:
            yield name, str(error)
            continue
        yield name, (inspect.getdoc(plugin) or "").partition("\n")[0] if plugin else "not here"


def _described(name: str, field: str) -> tuple[str, type]:
    """Return the text and the model of a plugin, the evictor or the settings.

    The settings have the section of the installed sink that the field names.
    """
    from reactive_desched.errors import ConfigError
    from reactive_desched.plugins.registry import plugin_registry
    from reactive_desched.policy.evictor import DefaultEvictorArgs
    from reactive_desched.policy.settings.reactive_settings import ReactiveSettings
    from reactive_desched.primitives.hints import not_one_of

    if name == _EVICTOR:
        return inspect.getdoc(DefaultEvictorArgs) or "", DefaultEvictorArgs
    if name == _MIGRATION:
        from reactive_desched.policy.koordinator.migration_controller import MigrationControllerArgs

        return inspect.getdoc(MigrationControllerArgs) or "", MigrationControllerArgs
    if name == _SETTINGS:
        return inspect.getdoc(ReactiveSettings) or "", _settings_with(field)
    registry = plugin_registry()
    if name not in registry or (plugin := registry[name].plugin) is None:
        raise ConfigError(not_one_of(name, [*sorted(registry), _EVICTOR, _MIGRATION, _SETTINGS]))
    return inspect.getdoc(plugin) or "", registry[name].args


def _settings_with(field: str) -> type:
    """Return the model of settings, with the section of the installed package that has it."""
    from reactive_desched.api.usage_source import section_key, usage_offers
    from reactive_desched.policy.settings.installed_sections import (
        kind_of,
        settings_of,
        sink_offers,
    )

    section, _, below = field.partition(".")
    key = below.partition(".")[0]
    sinks, sources = sink_offers(), usage_offers()
    kinds = [kind for kind in sinks if section == "sinks" and kind == kind_of(key)]
    names = [name for name in sources if section == "usage" and section_key(name) == key]
    return settings_of(kinds, sinks, names, sources)


def _installed_sections() -> "Iterator[str]":
    """Yield where installed packages have a section; none of them is imported."""
    from reactive_desched.api.usage_source import section_key, usage_offers
    from reactive_desched.policy.settings.installed_sections import sink_offers

    yield from (f"sinks.{kind}" for kind in sink_offers())
    yield from (f"usage.{section_key(name)}" for name in usage_offers())


def _named_beside(path: str, fields: "Sequence[str]") -> str:
    """Suggest a near name for the first unknown part of a path."""
    from reactive_desched.primitives.hints import list_candidates, nearest_name

    at, beside = "", set[str]()
    for part in path.split("."):
        beside = {name.removeprefix(at).partition(".")[0] for name in fields if name.startswith(at)}
        if part not in beside:
            near = nearest_name(part, beside)
            return f"did you mean {at}{near}?" if near else list_candidates(sorted(beside))
        at += f"{part}."
    return ""
