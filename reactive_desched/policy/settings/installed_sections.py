"""Sections of settings that installed packages have: sinks, and sources of measured use.

A kind is offered by an entry point; those that the settings name are imported, and no others.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Annotated, Any, Final

from msgspec import Struct
from msgspec.structs import replace
from pydantic import Field, create_model

from reactive_desched.api.args import NEEDS_RESTART, Path, Section, file_key
from reactive_desched.api.installed import Offers
from reactive_desched.api.sink import SinkPlugin, SinkSection
from reactive_desched.api.usage_source import (
    UsagePlugin,
    UsageSourceSettings,
    section_key,
    usage_offers,
)
from reactive_desched.errors import PluginError, ReactiveDeschedError
from reactive_desched.policy.settings.controller_settings import UsageSettings
from reactive_desched.policy.settings.reactive_settings import ReactiveSettings
from reactive_desched.policy.settings.recording import SinkName, SinkSettings
from reactive_desched.policy.yaml.decode import (
    Decoder,
    FieldAdvice,
    FieldHints,
    fields_by_key,
    places_of_field,
)
from reactive_desched.policy.yaml.diagnostics import DiagnosticList
from reactive_desched.policy.yaml.source_location import SourceLocation
from reactive_desched.policy.yaml.tree import MappingEntry, MappingNode
from reactive_desched.primitives.foreign_code import is_fault
from reactive_desched.primitives.hints import likely_meant

GROUP: Final = "reactive_desched.sinks"
_MORE: Final = "additional"
_KEY: Final = re.compile(r"[a-z][a-zA-Z0-9]{0,38}")
_RESERVED: Final = frozenset({"index", "stream"})
"""Names of what else has a position or a section."""

_OWN_KEYS: Final = frozenset(fields_by_key(SinkSettings))
_KIND_OF: Final[Mapping[str, str]] = {"additionalWebhooks": "webhook"}
"""The kind of a key that does not say it."""

_NOT_INSTALLED: Final = "remove it, or install the package that offers it"


_MAX_PLACES_NAMED: Final = 3


class ConfiguredSink(Struct, frozen=True):
    """A sink that the settings ask for: its kind, what it is called, and its section."""

    kind: str
    name: str
    section: Section


def sink_offers() -> Offers:
    """Return the kinds of sinks that installed packages offer, those of this one among them."""
    return Offers(GROUP, "sink")


def configured_sinks(settings: SinkSettings) -> Iterator[ConfiguredSink]:
    """Yield the sinks that follow the journal, in the order of their fields."""
    for field in type(settings).model_fields:
        value, key = getattr(settings, field), file_key(field)
        kind = _KIND_OF.get(key, kind_of(key))
        if isinstance(value, tuple):
            yield from (ConfiguredSink(kind, f"{kind}-{each.name}", each) for each in value)
        elif value is not None and kind != "stream":
            yield ConfiguredSink(kind, kind, value)


def decode_settings(
    at: SourceLocation, diagnostics: DiagnosticList, skip: frozenset[str]
) -> ReactiveSettings | None:
    """Decode settings with the sections of those installed sinks and sources that they name.

    None where they have errors. Raises PluginError for a package that cannot be used.
    """
    kinds = {kind_of(key) for key in _other_keys(at.below("sinks"), SinkSettings)}
    keys = _other_keys(at.below("usage"), UsageSettings)
    if not kinds and not keys:
        return Decoder(diagnostics, SettingsHints()).decode(ReactiveSettings, at, skip)
    sinks, sources = sink_offers(), usage_offers()
    names = [name for name in sources if section_key(name) in keys]
    model = settings_of(filter(sinks.__contains__, sorted(kinds)), sinks, names, sources)
    try:
        return Decoder(diagnostics, SettingsHints(sinks, sources)).decode(model, at, skip)
    except ReactiveDeschedError:
        raise
    except BaseException as error:
        if not is_fault(error):
            raise
        found = [*map(sinks.describe, filter(sinks.__contains__, sorted(kinds)))]
        packages = ", ".join([*found, *map(sources.describe, names)])
        raise PluginError(
            f"the settings of {packages} cannot be read: {type(error).__name__}: {error}; upgrade "
            "that package, or take its section out of the settings"
        ) from error


def _other_keys(at: SourceLocation, section: type[Section]) -> frozenset[str]:
    """Return the keys that stand there beside the fields of a section of ours."""
    written = at.node.keys if isinstance(at.node, MappingNode) else frozenset[str]()
    return written - fields_by_key(section).keys()


def settings_of(
    kinds: Iterable[str], sinks: Offers, names: Iterable[str] = (), sources: Offers | None = None
) -> type[ReactiveSettings]:
    """Return the model of settings with the sections of these installed sinks and sources."""
    sections = {kind: load_sink(kind, sinks).settings for kind in kinds if kind not in _OWN_KEYS}
    measured = {section_key(name): load_source(name, sources).settings for name in names if sources}
    if not sections and not measured:
        return ReactiveSettings
    return _model(tuple(sorted(sections.items())), tuple(sorted(measured.items())))


def load_source(name: str, offers: Offers) -> type[UsagePlugin[Any]]:
    """Import a source of measured use; raises PluginError for one that cannot be used."""
    found, key = offers.load(name), section_key(name)
    wrong = _source_error(found)
    if wrong is None and file_key(_field_name(key)) != key:
        wrong = f"{key!r} cannot be a key: use letters, and digits at the end alone"
    if wrong is not None:
        raise offers.error(name, f"is not a source: {wrong}")
    return found  # type: ignore[no-any-return]  # what the contract asks for


def _source_error(found: object) -> str | None:
    """Say what keeps an object from being a source of measured use."""
    if not (isinstance(found, type) and issubclass(found, UsagePlugin)):
        return f"{found!r} is not a subclass of reactive_desched.api.UsagePlugin"
    if missing := sorted(found.__abstractmethods__):
        return f"{found.__name__} does not define {', '.join(missing)}"
    section: Any = getattr(found, "settings", None)  # Any: what the package assigned
    if not (isinstance(section, type) and issubclass(section, UsageSourceSettings)):
        return f"{found.__name__}.settings is not a subclass of UsageSourceSettings"
    fields = section.model_fields
    if required := [name for name in fields if fields[name].is_required()]:
        return f"{section.__name__} has fields without a default: {', '.join(required)}"
    return None


def load_sink(kind: str, offers: Offers) -> type[Any]:  # one of ours need be no SinkPlugin
    """Import a kind of sink; raises PluginError for one that cannot be used."""
    found = offers.load(kind)
    if (wrong := None if kind in _OWN_KEYS else _contract_error(kind, found)) is not None:
        raise offers.error(kind, f"is not a sink: {wrong}")
    return found  # type: ignore[no-any-return]  # what the contract asks for


def _contract_error(kind: str, found: object) -> str | None:
    """Say what keeps an object from being a kind of sink."""
    if not (isinstance(found, type) and issubclass(found, SinkPlugin)):
        return f"{found!r} is not a subclass of reactive_desched.api.SinkPlugin"
    if missing := sorted(found.__abstractmethods__):
        return f"{found.__name__} does not define {', '.join(missing)}"
    if kind in _RESERVED or kind.startswith(_MORE):
        return f"the name {kind!r} is kept for something else"
    if not _KEY.fullmatch(kind) or file_key(_field_name(kind)) != kind:
        return f"{kind!r} cannot be a key: use a lower-case letter and letters or digits after it"
    section = getattr(found, "settings", None)
    if not (isinstance(section, type) and issubclass(section, SinkSection)):
        return f"{found.__name__}.settings is not a subclass of reactive_desched.api.SinkSection"
    if "name" in section.model_fields:
        return f"{section.__name__} has a field name, which settings use for one more sink"
    return None


@lru_cache(maxsize=8)
def _model(
    sinks: tuple[tuple[str, type[SinkSection]], ...],
    sources: tuple[tuple[str, type[UsageSourceSettings]], ...],
) -> type[ReactiveSettings]:
    """Make the model; equal sections give the same one, so that settings of two files compare."""
    fields: dict[str, Any] = {}  # what create_model takes
    for kind, section in sinks:
        about = (section.__doc__ or "").partition("\n")[0]
        fields[_field_name(kind)] = (section | None, Field(default=None, description=about))
        named = create_model(
            f"Named{section.__name__}",
            __base__=section,
            __doc__=f"One more {kind} sink, which is called {kind}-NAME.",
            name=(SinkName, Field(description=f"Its name; the sink is called {kind}-NAME.")),
        )
        about = f"More of them, each at its own pace: as {kind}, with a name."
        fields[f"{_MORE}_{_field_name(kind)}"] = (
            tuple[named, ...],  # type: ignore[valid-type]  # made above
            Field(default=(), description=about),
        )
    measured: dict[str, Any] = {}  # as above
    for key, settings in sources:
        default = Field(default=settings(), description=(settings.__doc__ or "").partition("\n")[0])
        measured[_field_name(key)] = (settings, default)
    return create_model(
        "ReactiveSettings",
        __base__=ReactiveSettings,
        __doc__=ReactiveSettings.__doc__,
        sinks=_with_fields("sinks", SinkSettings, fields, NEEDS_RESTART),
        usage=_with_fields("usage", UsageSettings, measured),
    )


def _with_fields(
    name: str, base: type[Section], fields: dict[str, Any], *marks: object
) -> Any:  # what create_model takes
    """Return a section of settings with more fields; without any it stays as it is."""
    made = create_model(base.__name__, __base__=base, __doc__=base.__doc__, **fields)
    section = made if fields else base
    about = ReactiveSettings.model_fields[name].description
    default = Field(default=section.model_construct(), description=about)
    return (Annotated[section, *marks] if marks else section), default


class SettingsHints(FieldHints):
    """Hints by the fields of settings, and by the sinks and sources that are installed."""

    def __init__(self, sinks: Offers | None = None, sources: Offers | None = None) -> None:
        self._installed: dict[Path, set[str]] = {}
        if sinks is not None:
            self._installed["sinks",] = {*sinks}
        if sources is not None:
            self._installed["usage",] = set(map(section_key, sources))

    def unknown_field(
        self, entry: MappingEntry, at: SourceLocation, known_fields: frozenset[str]
    ) -> FieldAdvice:
        """Say what the field may mean, or where else settings have one of its name.

        Below `sinks` and `usage` it may be of a package that is not installed.
        """
        known = known_fields | self._installed.get(at.path, set())
        advice = FieldAdvice.near(entry.key, known)
        is_near = bool(likely_meant(entry.key, known))
        if at.path in self._installed:
            return advice if is_near else replace(advice, hint=f"{_NOT_INSTALLED}; {advice.hint}")
        places = tuple(places_of_field(ReactiveSettings, entry.key))
        is_slip = is_near and (bool(at.path) or len(places) > 1)
        if is_slip or not 0 < len(places) <= _MAX_PLACES_NAMED:
            return advice  # at the top, the only field of this name is meant more than a near one
        return FieldAdvice.misplaced(f"settings have it as {' and '.join(places)}")


def _field_name(key: str) -> str:
    """Return what the field of a key is called in code: countFile is count_file."""
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", key)


def kind_of(key: str) -> str:
    """Return the kind that a key below `sinks` stands for."""
    more = key.removeprefix(_MORE)
    return more[:1].lower() + more[1:] if more != key else key
