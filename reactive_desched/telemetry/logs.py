"""Configures logging: one line per event on stderr, for people or machines, without secrets.

structlog is imported inside the functions: its import is what `--help` must not pay for.
"""

import json
import logging
import os
import re
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Protocol, TextIO

import msgspec

from reactive_desched.errors import ConfigError
from reactive_desched.primitives.bounded_text import truncate
from reactive_desched.text.terminal import wants_colours

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger, Processor

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("console", "json")
REDACTED = "[redacted]"

Fields = MutableMapping[str, Any]  # Any: structlog's own event dictionary

_SECRET_WORDS = frozenset(
    [
        *("auth", "authorization", "cookie", "credential", "credentials"),
        *("passphrase", "passwd", "password", "secret", "token"),
    ]
)
_SECRET_NAMES = ("api_key", "apikey", "private_key", "client_key", "key_data")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_SECRET_TEXTS = (
    ("bearer", re.compile(r"(?i)\b(bearer\s+)[\w.~+/=-]{8,}")),
    ("basic", re.compile(r"(?i)\b(basic\s+)[\w.~+/=-]{8,}")),
    ("://", re.compile(r"(://[^\s/:@]*:)[^\s/@]+(?=@)")),
    ("eyj", re.compile(r"()\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*")),
    (
        "-----begin",
        re.compile(r"(?s)()-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*-----|\Z)"),
    ),
)
"""What looks like a secret, behind a text in small letters without which it is not there."""

_NEEDS_QUOTES = re.compile(r"[\s\"'=\\\x00-\x1f]")
_MAX_TEXT_CHARS = 16_384
"""Longer texts are cut, as by what an object holds."""

_MAX_DEPTH = 6
"""Values nested deeper are left out."""

_FIELD_ORDER = ("timestamp", "level", "event", "mode", "pod", "node", "plugin", "reason")
"""The fields that every line begins with, where it has them; the others keep their order."""

_EVENT_WIDTH = 30


class Logger(Protocol):
    """The part of a structlog logger that most of us use."""

    def info(self, event: str, **values: Any) -> None:  # structlog takes values of any type
        """Write a line."""
        ...

    def warning(self, event: str, **values: Any) -> None:  # as above
        """Write a line at level warning."""
        ...


class DebugLogger(Logger, Protocol):
    """A logger that also takes lines at level debug."""

    def debug(self, event: str, **values: Any) -> None:  # as above
        """Write a line at level debug."""
        ...


def configure(
    level: str,
    style: str,
    stream: TextIO,
    *,
    environ: Mapping[str, str] | None = None,
    mode: str | None = None,
    also: Callable[[Fields], None] | None = None,
) -> None:
    """Send everything logged, by structlog or the standard library, to the stream.

    Styles are "console" (in colour on a terminal, unless $NO_COLOR is set) and "json" (one object
    per line). Every line has `mode` as a field, where there is one. `environ` are the environment's
    variables; without them those of the process count. `also` is given the fields of each line.

    Replaces what an earlier call set up. Raises ConfigError for a level or style unknown here.
    """
    _require_choice("log level", level, LEVELS)
    _require_choice("log format", style, FORMATS)
    import structlog

    colours = wants_colours(stream, os.environ if environ is None else environ)
    common = _common_processors()
    render: list[Processor] = [
        partial(_put_in_order, mode),
        *_redact_processors(),
        *([] if also is None else [partial(_pass_on, also)]),
        _last_processor(style, colours=colours),
    ]
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=common,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
        )
    )
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    logging.captureWarnings(capture=True)
    structlog.configure(
        processors=[*common, *render],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=partial(_LineWriter, stream),
        cache_logger_on_first_use=False,  # configuring again applies to every logger
    )


def logger(name: str) -> "FilteringBoundLogger":
    """Return a logger that takes an event and keyword fields: `log.info("evicted", pod=...)`."""
    import structlog

    log: FilteringBoundLogger = structlog.get_logger(name)
    return log


class _LineWriter:
    """Writes the lines of our own loggers as logging.StreamHandler does, with less in between."""

    def __init__(self, stream: TextIO, name: str = "") -> None:
        self.name = name
        self._stream = stream

    def info(self, line: str) -> None:
        """Write a line; one that the stream does not take is lost."""
        with suppress(OSError, ValueError):  # a full disk, or a stream that was closed
            self._stream.write(f"{line}\n")
            self._stream.flush()

    debug = warning = error = critical = info


def format_timestamp(epoch_s: float) -> str:
    """Format a moment, in seconds since 1970, as the `timestamp` of a line."""
    time = datetime.fromtimestamp(epoch_s, UTC).isoformat(timespec="microseconds")
    return time.removesuffix("+00:00") + "Z"


def redact(_logger: object, _method: str, fields: Fields) -> Fields:
    """Blank the values of fields named like secrets, and secrets inside any text."""
    return {name: _redact_value(name, value, _MAX_DEPTH) for name, value in fields.items()}


def blank_secrets(text: str) -> str:
    """Blank what looks like a secret inside a text."""
    lowered = text.lower()
    for hint, pattern in _SECRET_TEXTS:
        if hint in lowered:  # seldom, and a fiftieth of a search
            text = pattern.sub(rf"\1{REDACTED}", text)
    return text


def _drop_none(_logger: object, _method: str, fields: Fields) -> Fields:
    """Drop fields that are None."""
    return {name: value for name, value in fields.items() if value is not None}


def _put_in_order(mode: str | None, _logger: object, _method: str, fields: Fields) -> Fields:
    """Put the fields that readers look for first and the name of the logger last."""
    given = {**fields, "mode": mode}
    name = given.pop("logger", None)
    first = {field: given[field] for field in _FIELD_ORDER if field in given}
    return {**first, **given, "logger": name}


def _require_choice(what: str, given: str, choices: tuple[str, ...]) -> None:
    if given not in choices:
        raise ConfigError(f"{what} {given!r} is unknown: choose one of {', '.join(choices)}")


def _common_processors() -> "list[Processor]":
    from structlog.contextvars import merge_contextvars
    from structlog.processors import MaybeTimeStamper
    from structlog.stdlib import ExtraAdder, add_log_level, add_logger_name

    return [
        merge_contextvars,
        add_log_level,
        add_logger_name,
        ExtraAdder(),
        MaybeTimeStamper(fmt="iso", utc=True),  # a deferred line has its own timestamp
    ]


def _redact_processors() -> "list[Processor]":
    """Return what blanks secrets; tracebacks show no local variables, which may hold some."""
    from structlog.processors import StackInfoRenderer, format_exc_info

    return [StackInfoRenderer(), format_exc_info, _drop_none, redact]


def _pass_on(
    also: Callable[[Fields], None], _logger: object, _method: str, fields: Fields
) -> Fields:
    also(fields)
    return fields


def _last_processor(style: str, *, colours: bool) -> "Processor":
    """Return what writes a line."""
    from structlog.processors import JSONRenderer

    return _console_renderer(colours=colours) if style == "console" else JSONRenderer(_json)


def _console_renderer(*, colours: bool) -> "Processor":
    """Return what writes a line for people: the level is in colour, values are like in JSON."""
    from structlog.dev import (
        Column,
        ConsoleRenderer,
        KeyValueColumnFormatter,
        LogLevelColumnFormatter,
    )

    styles = ConsoleRenderer.get_default_column_styles(colors=colours)
    levels = ConsoleRenderer.get_default_level_styles(colors=colours)

    def column(
        key_style: str | None, value_style: str, write: Callable[[object], str], width: int = 0
    ) -> KeyValueColumnFormatter:
        return KeyValueColumnFormatter(key_style, value_style, styles.reset, write, width=width)

    return ConsoleRenderer(
        columns=[
            Column("", column(styles.kv_key, styles.kv_value, _console_value)),
            Column("timestamp", column(None, styles.timestamp, _to_millisecond)),
            Column("level", LogLevelColumnFormatter(levels, styles.reset)),
            Column("event", column(None, styles.bright, str, width=_EVENT_WIDTH)),
        ],
        sort_keys=False,
    )


def _to_millisecond(timestamp: object) -> str:
    """Cut a timestamp: a person compares lines by the second."""
    return re.sub(r"(\.\d{3})\d+", r"\1", str(timestamp))


def _console_value(value: object) -> str:
    """Write a value; quotes stand around a text in which its end could be mistaken."""
    if isinstance(value, str) and value and value.isprintable() and not _NEEDS_QUOTES.search(value):
        return value
    return _json_text(value)


def _json(fields: Mapping[str, object], **_options: object) -> str:
    return _json_text(fields)


def _json_text(value: object) -> str:
    """Return a value as JSON in printable characters: a terminal takes some others for commands."""
    text = msgspec.json.encode(value).decode()
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)


def _redact_value(name: str, value: object, depth: int) -> object:
    if _is_secret_name(name) and isinstance(value, (str, bytes, Mapping, list, tuple, set)):
        return REDACTED
    match value:
        case str():
            return _redact_text(value)
        case bytes():
            return _redact_text(value.decode(errors="replace"))
        case bool() | int() | float() | None:
            return value
        case _ if depth == 0:
            return "..."
        case Mapping():
            return {
                str(key): _redact_value(str(key), item, depth - 1) for key, item in value.items()
            }
        case list() | tuple() | set() | frozenset():
            return [_redact_value("", item, depth - 1) for item in value]
        case BaseException():
            return _redact_text(f"{type(value).__name__}: {value}")
        case _:
            return _redact_text(str(value))


@lru_cache(maxsize=1000)
def _is_secret_name(name: str) -> bool:
    lowered = name.lower().replace("-", "_")
    if any(part in lowered for part in _SECRET_NAMES):
        return True
    return any(word.lower() in _SECRET_WORDS for word in _WORD.findall(name))


def _redact_text(text: str) -> str:
    text = truncate(text, _MAX_TEXT_CHARS)
    if not text.isascii():
        text = text.encode(errors="backslashreplace").decode()
    return blank_secrets(text)
