"""Text to parser events: decodes and checks the size.

The parser is libyaml, of which the parser of the SIG descheduler is a translation: both take the
same texts, tabs included.
"""

import json
import re
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import yaml  # type: ignore[import-untyped]  # PyYAML ships no types

from reactive_desched.api.rules import Rule
from reactive_desched.policy.yaml.diagnostics import Diagnostic, PolicyErrors
from reactive_desched.policy.yaml.syntax_errors import (
    TextLines,
    explain,
    template_hint,
)
from reactive_desched.policy.yaml.tree import SourceMark

MAX_TEXT_BYTES: Final = 1024 * 1024

_SURROGATES: Final = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the first is there with libyaml
Event = Any  # PyYAML's events are not typed


class YamlText:
    """One text and its name; a text over 1 MiB, or one that is not UTF-8, is refused."""

    def __init__(self, text: str | bytes, source: str) -> None:
        self._source = source
        self._text = self._decode(text)

    def events(self) -> Iterator[Event]:
        """Yield the parser's events; whatever the parser raises of a text becomes PolicyErrors."""
        try:
            yield from yaml.parse(_for_libyaml(self._text), Loader=_LOADER)
        except MemoryError:
            raise
        except Exception as error:  # the parser raises errors of Python on odd input, too
            lines = TextLines(partial(self._text.splitlines, keepends=True))
            raise PolicyErrors([explain(error, self._source, lines)]) from error

    def fatal_error(
        self, message: str, hint: str = "", mark: SourceMark | None = None, *, rule: Rule
    ) -> PolicyErrors:
        """Describe why to give up on this text: nothing after such a problem can be trusted."""
        line, column = (mark.line, mark.column) if mark else (0, 0)
        return PolicyErrors([Diagnostic(self._source, line, column, "", message, hint, rule=rule)])

    def fatal_error_at(
        self, event: Event, message: str, hint: str = "", *, rule: Rule
    ) -> PolicyErrors:
        """Describe why to give up at an event."""
        mark = mark_of_event(event)
        return self.fatal_error(message, template_hint(self._line(mark)) or hint, mark, rule=rule)

    def _decode(self, text: str | bytes) -> str:
        """Bound the size and decode UTF-8; a byte order mark in a str is the parser's to drop."""
        if len(text) > MAX_TEXT_BYTES:
            hint = "a policy is a few KiB: is this the file?"
            raise self.fatal_error("the text is larger than 1 MiB", hint, rule=Rule.TOO_LARGE)
        if isinstance(text, str):
            return text
        try:
            return text.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = text.count(b"\n", 0, error.start) + 1
            mark = SourceMark(line, error.start - text.rfind(b"\n", 0, error.start))
            raise self.fatal_error(
                "the text is not UTF-8", _encoding_hint(text), mark, rule=Rule.BAD_CHARACTER
            ) from error

    def _line(self, mark: SourceMark) -> str:
        return next(iter(self._text.splitlines()[mark.line - 1 : mark.line]), "")


def _encoding_hint(text: bytes) -> str:
    """Say what to do about a text that is not UTF-8."""
    if text.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "it is UTF-16: save it as UTF-8"
    if text.startswith(b"\x1f\x8b"):
        return "it is compressed by gzip: unpack it"
    return "it is no text: is this the file?" if b"\0" in text else "save it as UTF-8"


def decode(text: str | bytes) -> str:
    """Return a text that was read before, without a byte order mark."""
    if isinstance(text, str):
        return text.removeprefix("\ufeff")
    return text.decode("utf-8-sig", errors="replace")


def mark_of_event(event: Event) -> SourceMark:
    """Return the place where an event begins."""
    return SourceMark(event.start_mark.line + 1, event.start_mark.column + 1)


def _for_libyaml(text: str) -> str:
    """Return JSON as YAML: spaces for the tabs around it, and one escape for a surrogate pair."""
    if not text.lstrip().startswith("{") or not ("\t" in text or re.search(_SURROGATES, text)):
        return text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text
    return re.sub(_SURROGATES, _one_escape, text.replace("\t", " "))


def keeps_places(text: str) -> bool:
    """Return whether what the parser counts are places in the text itself, not in a changed one."""
    return len(_for_libyaml(text)) == len(text)


def _one_escape(pair: "re.Match[str]") -> str:
    character: str = json.loads(f'"{pair[0]}"')
    return f"\\U{ord(character):08x}"
