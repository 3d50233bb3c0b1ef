"""The pluginConfig of a profile: each plugin's arguments, by the plugin's own model."""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from pydantic import BaseModel, ValidationError

from reactive_desched.api.args import Fix, file_key
from reactive_desched.api.possible_names import value_warnings
from reactive_desched.api.rules import Rule
from reactive_desched.policy.registry import (
    DEFAULT_EVICTOR,
    PluginSpec,
    Registry,
    blamed,
    naming_diagnostic,
    plugin_names,
)
from reactive_desched.policy.yaml.decode import Decoder, fields_by_key
from reactive_desched.policy.yaml.diagnostics import DiagnosticList
from reactive_desched.policy.yaml.source_location import SourceLocation
from reactive_desched.policy.yaml.tree import MappingNode
from reactive_desched.primitives.foreign_code import calls_foreign_code
from reactive_desched.primitives.hints import quote, sole_near_name

_TYPE_META: Final = frozenset(("apiVersion", "kind"))


class ArgumentsReader:
    """Reads the arguments of one profile's plugins.

    `enabled` says where each enabled plugin is named, because an enabled plugin without an entry
    is taken with the arguments it has by default. `meant` are those of which an error says why they
    are not enabled.
    """

    def __init__(
        self,
        registry: Registry,
        decoder: Decoder,
        diagnostics: DiagnosticList,
        enabled: Mapping[str, SourceLocation],
        meant: Collection[str],
    ) -> None:
        self._registry = registry
        self._decoder = decoder
        self._diagnostics = diagnostics
        self._enabled = enabled
        self._meant = meant

    def read(self, configs: SourceLocation, apart: frozenset[str]) -> dict[str, BaseModel]:
        """Return the arguments of every enabled plugin and of DefaultEvictor, by name.

        Entries of names in `apart` are read by another.
        """
        entries = {name: at for name, at in self._entries(configs) if name not in apart}
        read = {name: self._decode_entry(name, entry) for name, entry in entries.items()}
        misspelt = {
            sole_near_name(name, plugin_names(self._registry))
            for name in entries
            if name not in self._registry
        }
        for name in self._enabled.keys() - entries.keys() - misspelt:
            read[name] = self._default_args(name)
        needed = {*self._enabled, DEFAULT_EVICTOR}
        return {name: args for name, args in read.items() if args is not None and name in needed}

    def _entries(self, configs: SourceLocation) -> Iterator[tuple[str, SourceLocation]]:
        """Give each configured name with its entry; of a name configured twice the first counts."""
        seen: set[str] = set()
        for entry in configs.items():
            at = entry.below("name")
            if (name := at.text) is None:
                continue
            if name not in seen:
                yield name, entry
            else:
                hint = "the first entry counts; remove this one"
                self._diagnostics.warn(
                    entry.diagnostic(
                        f"{quote(name)} is configured already",
                        hint,
                        rule=Rule.CONFIGURED_TWICE,
                        fix=Fix(None),
                    )
                )
                self._check_unused(name, entry)
            seen.add(name)

    def _check_unused(self, name: str, entry: SourceLocation) -> None:
        """Refuse an entry that is wrong even where it is not used, as upstream does."""
        if (spec := self._registry.get(name)) is not None:
            self._decode(spec, entry.below("args"))

    def _decode_entry(self, name: str, entry: SourceLocation) -> BaseModel | None:
        """Decode the arguments of one entry."""
        at = entry.below("name")
        is_enabled = name in self._enabled
        if (spec := self._registry.get(name)) is None:
            if not is_enabled and (problem := naming_diagnostic(name, at, self._registry)):
                self._diagnostics.add(problem)
            return None
        if not is_enabled and name != DEFAULT_EVICTOR and name not in self._meant:
            where = " or ".join(f"plugins.{point}.enabled" for point in sorted(spec.points))
            message = f"{name} is configured but not enabled: it will not run"
            self._diagnostics.warn(
                at.diagnostic(message, f"add it to {where}", rule=Rule.NOT_ENABLED)
            )
        return self._decode(spec, entry.below("args"))

    def _decode(self, spec: PluginSpec, at: SourceLocation) -> BaseModel | None:
        """Decode arguments; the check of the profile's shape reports what is no mapping."""
        if not (at.is_null or isinstance(at.node, MappingNode)):
            return None
        skipped = _TYPE_META - fields_by_key(spec.args).keys()
        with blamed(spec.origin, "cannot check its arguments"):
            args = self._decoder.decode(spec.args, at, skipped)
            for warning in () if args is None else value_warnings(args):
                self._diagnostics.warn(at.error(warning))
        return args

    @calls_foreign_code
    def _default_args(self, name: str) -> BaseModel | None:
        """Return the arguments of a plugin enabled without an entry, if it requires none."""
        if (spec := self._registry.get(name)) is None:
            return None
        with blamed(spec.origin, "cannot check its arguments"):
            try:
                return spec.args.model_validate_json("{}", strict=True)
            except ValidationError as error:
                missing = (file_key(str(it["loc"][0])) for it in error.errors() if it["loc"])
                hint = f"configure it in pluginConfig; required: {', '.join(missing)}"
        message = f"{name} is enabled but has no arguments"
        self._diagnostics.add(
            self._enabled[name].diagnostic(message, hint, rule=Rule.MISSING_ARGUMENTS)
        )
        return None
