"""Turns YAML into JSON, event by event: nothing of it is held, and there is one way to read both.

A plain scalar means what it means to kubectl, so timestamps stay texts. Aliases, which kubectl
never writes, are refused: a few lines of them can stand for gigabytes.
"""

import math
import re
from collections.abc import Callable
from typing import Any, BinaryIO, Final

import msgspec

from reactive_desched.errors import ConfigError
from reactive_desched.policy.yaml.text import (
    CONFLICT,
    CONFLICT_HINT,
    conflict_line,
    parser_words,
    plain_syntax_error,
)

__all__ = ["OffsetProgress", "yaml_to_json"]

MAX_CACHED_SCALARS: Final = 100_000
"""Plain scalars whose JSON is remembered; at the bound all are forgotten."""

_FLUSH_AFTER_PARTS: Final = 4096
_TEXT_TAGS: Final = frozenset({"!", "tag:yaml.org,2002:str"})
_COLLECTION_TAGS: Final = frozenset({None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})
_CONSTANTS: Final = (
    dict.fromkeys(("", "~", "null", "Null", "NULL"), "null")
    | dict.fromkeys(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"), "true")
    | dict.fromkeys(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"), "false")
)
_JSON_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_INTEGER: Final = re.compile(r"([-+]?)(?:0b([01_]+)|0x([0-9a-fA-F_]+)|0o?([0-7_]+)|([1-9][0-9_]*))")
_BASES: Final = (2, 16, 8, 10)
_FRACTION: Final = re.compile(
    r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
)
_SEQUENCE, _KEY, _VALUE = range(3)

Event = Any  # PyYAML's events are not typed
OffsetProgress = Callable[[int], None]
"""Called with the number of characters read."""


def yaml_to_json(source: BinaryIO, into: BinaryIO, name: str, progress: OffsetProgress) -> None:
    """Write every document as one line of JSON; raises ConfigError naming line and column."""
    import yaml  # type: ignore[import-untyped]  # it ships no types

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the first is there with libyaml
    writer = _JsonWriter(name)
    try:
        for number, event in enumerate(yaml.parse(source, Loader=loader)):
            writer.write_event(event)
            if number % _FLUSH_AFTER_PARTS == 0:
                into.write(writer.flush())
                progress(event.start_mark.index)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise _syntax_error(name, source, error) from error
    into.write(writer.flush())


class _JsonWriter:
    """Writes JSON for the parser's events, one at a time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._parts: list[str] = []
        self._inside: list[int] = []
        self._scalar_cache: dict[str, str] = {}
        self._handlers: dict[str, Callable[[Event], None]] = {
            "ScalarEvent": self._scalar,
            "MappingStartEvent": self._mapping,
            "SequenceStartEvent": self._sequence,
            "MappingEndEvent": lambda _: self._close("}"),
            "SequenceEndEvent": lambda _: self._close("]"),
            "DocumentEndEvent": self._line,
            "AliasEvent": self._alias,
        }

    def write_event(self, event: Event) -> None:
        """Write the JSON of one YAML event."""
        take = self._handlers.get(type(event).__name__)
        if take is not None:
            take(event)

    def flush(self) -> bytes:
        """Hand over what is written but for its end, which the next event may alter."""
        parts = self._parts
        self._parts = [parts.pop()] if parts[-1:] == [","] else []
        return "".join(parts).encode()

    def _scalar(self, event: Event) -> None:
        plain = event.tag is None and event.implicit[0]
        if not plain and event.tag is not None and event.tag not in _TEXT_TAGS:
            raise self._unsupported(
                event, f"the tag {event.tag} is not supported; write it plainly"
            )
        if self._inside and self._inside[-1] == _KEY:
            self._inside[-1] = _VALUE
            self._parts += (_quoted(event.value), ":")
        else:
            self._parts.append(self._cached_scalar(event.value) if plain else _quoted(event.value))
            self._end_value()

    def _cached_scalar(self, text: str) -> str:
        """Return the JSON of a plain scalar; most repeat, so they are remembered."""
        cached = self._scalar_cache.get(text)
        if cached is None:
            if len(self._scalar_cache) >= MAX_CACHED_SCALARS:
                self._scalar_cache.clear()
            cached = self._scalar_cache[text] = _scalar_to_json(text)
        return cached

    def _mapping(self, event: Event) -> None:
        self._open(event, "{", _KEY)

    def _sequence(self, event: Event) -> None:
        self._open(event, "[", _SEQUENCE)

    def _open(self, event: Event, bracket: str, inside: int) -> None:
        if event.tag not in _COLLECTION_TAGS:
            raise self._unsupported(
                event, f"the tag {event.tag} is not supported; write it plainly"
            )
        if self._inside and self._inside[-1] == _KEY:
            raise self._unsupported(event, "a key must be a text")
        self._parts.append(bracket)
        self._inside.append(inside)

    def _close(self, bracket: str) -> None:
        if self._parts and self._parts[-1] == ",":
            self._parts.pop()
        self._inside.pop()
        self._parts.append(bracket)
        self._end_value()

    def _end_value(self) -> None:
        """Follow a value by a comma, which the end of what is around it takes back."""
        if self._inside:
            self._inside[-1] = _KEY if self._inside[-1] else _SEQUENCE
        self._parts.append(",")

    def _line(self, _: Event) -> None:
        self._parts[-1] = "\n"

    def _alias(self, event: Event) -> None:
        raise self._unsupported(event, f"the alias *{event.anchor} is not supported; write it out")

    def _unsupported(self, event: Event, reason: str) -> ConfigError:
        mark = event.start_mark
        return ConfigError(f"{self._name}:{mark.line + 1}:{mark.column + 1}: {reason}")


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _scalar_to_json(text: str) -> str:
    """Return what a plain scalar means, in JSON: a word, a number, or a text."""
    if (constant := _CONSTANTS.get(text)) is not None:
        return constant
    if text[0] not in "+-.0123456789":
        return _quoted(text)
    if _JSON_NUMBER.fullmatch(text):
        return text
    if (integer := _INTEGER.fullmatch(text)) is not None:
        return _integer(integer)
    if _FRACTION.fullmatch(text) and math.isfinite(float(text)):
        return repr(float(text))
    return _quoted(text)


def _integer(match: "re.Match[str]") -> str:
    """Write a whole number of any base as JSON has it."""
    sign, *digits = match.groups("")
    base, written = next((b, d) for b, d in zip(_BASES, digits, strict=True) if d)
    try:
        return str(int(f"{sign}{written.replace('_', '')}", base))
    except ValueError:
        return _quoted(match[0])  # nothing but underscores, or endless


def _syntax_error(name: str, source: BinaryIO, error: Exception) -> ConfigError:
    """Say where the parser stumbled and over what."""
    source.seek(0)
    if line := conflict_line(each.decode(errors="replace") for each in source):
        return ConfigError(f"{name}:{line}:1: not valid YAML: {CONFLICT}; {CONFLICT_HINT}")
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
    return ConfigError(f"{where}: not valid YAML: {plain_syntax_error(parser_words(error))}")
