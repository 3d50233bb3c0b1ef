"""Turns YAML into JSON, event by event: nothing of it is held, and there is one way to read both.

A scalar means what it means to kubectl (`policy.yaml.scalars`). Aliases and merge keys, which
kubectl never writes, are refused: a few lines of them can stand for gigabytes.
"""

from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final

import msgspec

from reactive_desched.errors import ConfigError
from reactive_desched.policy.yaml.scalars import (
    NotFiniteError,
    WrongTagError,
    parse_key,
    parse_scalar,
    parse_tagged,
)
from reactive_desched.policy.yaml.syntax_errors import TextLines, explain
from reactive_desched.policy.yaml.tree import PlainValue

__all__ = ["OffsetProgress", "yaml_to_json"]

MAX_CACHED_SCALARS: Final = 100_000
"""Plain scalars whose JSON is remembered; at the bound all are forgotten."""

_FLUSH_AFTER_PARTS: Final = 4096
_MERGE: Final = "<<"
_MERGE_TAG: Final = "tag:yaml.org,2002:merge"
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
        try:
            if self._inside and self._inside[-1] == _KEY:
                self._inside[-1] = _VALUE
                self._parts += (_quoted(self._key(event)), ":")
            else:
                self._parts.append(self._value(event))
                self._end_value()
        except NotFiniteError as error:
            raise self._unsupported(
                event, f"{event.value} is no number that JSON has; put a text in quotes"
            ) from error
        except WrongTagError as error:
            raise self._unsupported(
                event, f"{event.value} is not what its tag {event.tag} says; write it plainly"
            ) from error

    def _key(self, event: Event) -> str:
        is_plain = event.tag is None and event.implicit[0]
        if (is_plain and event.value == _MERGE) or event.tag == _MERGE_TAG:
            raise self._unsupported(event, "a merge key (<<) is not supported; write it out")
        if event.tag is None and not is_plain:
            return str(event.value)
        if (key := parse_key(event.value, event.tag)) is None:
            raise self._unsupported(event, "a key must be a text; put it in quotes")
        return key

    def _value(self, event: Event) -> str:
        if event.tag is not None:
            return _to_json(parse_tagged(event.value, event.tag))
        return self._cached_scalar(event.value) if event.implicit[0] else _quoted(event.value)

    def _cached_scalar(self, text: str) -> str:
        """Return the JSON of a plain scalar; most repeat, so they are remembered."""
        cached = self._scalar_cache.get(text)
        if cached is None:
            if len(self._scalar_cache) >= MAX_CACHED_SCALARS:
                self._scalar_cache.clear()
            cached = self._scalar_cache[text] = _to_json(parse_scalar(text))
        return cached

    def _mapping(self, event: Event) -> None:
        self._open(event, "{", _KEY)

    def _sequence(self, event: Event) -> None:
        self._open(event, "[", _SEQUENCE)

    def _open(self, event: Event, bracket: str, inside: int) -> None:
        if self._inside and self._inside[-1] == _KEY:
            raise self._unsupported(
                event, "a key must be a text; put it in quotes, or render the template that it is"
            )
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


def _to_json(value: PlainValue) -> str:
    """Write a value; its numbers are finite, and may have more digits than 64 bits hold."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return repr(value)
    return msgspec.json.encode(value).decode()


def _syntax_error(name: str, source: BinaryIO, error: Exception) -> ConfigError:
    """Say where the parser stumbled and over what."""

    def lines() -> Iterator[str]:
        source.seek(0)
        return (line.decode(errors="replace") for line in source)

    found = explain(error, name, TextLines(lines))
    where = f"{name}:{found.line}:{found.column}" if found.line else name
    return ConfigError("; ".join(filter(None, (f"{where}: {found.message}", found.hint))))
