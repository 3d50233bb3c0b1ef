"""Text to parser events: decodes, bounds, and explains what is no YAML."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import Event
from ruamel.yaml.reader import ReaderError

from reactive_desched.policy.diagnostics import Diagnostic, PolicyErrors
from reactive_desched.policy.tree import SourceMark

MAX_TEXT_BYTES: Final = 1024 * 1024

_SYNTAX_HINTS: Final = {
    "<block end>": "compare its indentation with the lines above",
    "an alias": "a text that begins with * needs quotes",
    "an anchor": "a text that begins with & needs quotes",
    "cannot start any token": "a text that begins with it needs quotes",
    "mapping values are not allowed": "quote a text with a colon in it, or look at the indentation",
    "parsing a flow": "a bracket or brace before it is not closed",
}
_IDLE_TABS: Final = re.compile(r"(?<=\S)[ \t]+(?=[#\r\n]|\Z)|(?<=:)[ \t]+")


class YamlText:
    """One text and what to call it; refuses more than 1 MiB and what is not UTF-8."""

    def __init__(self, text: str | bytes, source: str) -> None:
        self._source = source
        self._text = self._decode(text)
        self._lines = self._text.splitlines()

    def events(self) -> Iterator[Event]:
        """Run the parser; whatever it raises becomes PolicyErrors with a place."""
        try:
            yield from YAML(typ="safe", pure=True).parse(_without_idle_tabs(self._text))
        except MarkedYAMLError as error:
            raise self._syntax_error(error) from error
        except ReaderError as error:
            before = self._text[: error.position]
            mark = SourceMark(before.count("\n") + 1, len(before) - before.rfind("\n"))
            message = f"the character {_code_point(error.character)} is not allowed"
            raise self.fatal_error(message, "", mark) from error
        except Exception as error:  # the parser lets odd errors escape on odd input
            error_message = " ".join(str(error).split())
            raise self.fatal_error(f"not readable as YAML: {error_message}") from error

    def fatal_error(
        self, message: str, hint: str = "", mark: SourceMark | None = None
    ) -> PolicyErrors:
        """Describe why to give up on this text: nothing after such a problem can be trusted."""
        line, column = (mark.line, mark.column) if mark else (0, 0)
        return PolicyErrors([Diagnostic(self._source, line, column, "", message, hint)])

    def fatal_error_at(self, event: Event, message: str, hint: str = "") -> PolicyErrors:
        """Describe why to give up at an event."""
        mark = mark_of_event(event)
        return self.fatal_error(message, hint or self._template_hint(mark), mark)

    def _decode(self, text: str | bytes) -> str:
        """Bound the size and decode UTF-8; a byte order mark in a str is the parser's to drop."""
        if len(text) > MAX_TEXT_BYTES:
            hint = "a policy is a few KiB: is this the file?"
            raise self.fatal_error("the text is larger than 1 MiB", hint)
        if isinstance(text, str):
            return text
        try:
            return text.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = text.count(b"\n", 0, error.start) + 1
            mark = SourceMark(line, error.start - text.rfind(b"\n", 0, error.start))
            raise self.fatal_error("the text is not UTF-8", "save it as UTF-8", mark) from error

    def _syntax_error(self, error: MarkedYAMLError) -> PolicyErrors:
        """Describe what the parser stumbled over, and where."""
        at = error.problem_mark or error.context_mark
        mark = SourceMark(at.line + 1, at.column + 1) if at else None
        what = " ".join(filter(None, (error.context, error.problem)))
        return self.fatal_error(f"not valid YAML: {what}", self._syntax_hint(what, mark), mark)

    def _syntax_hint(self, what: str, mark: SourceMark | None) -> str:
        """Recognise common causes in the lines themselves."""
        if "\t" in self._line(mark):
            return "indent with spaces: tabs are not allowed in YAML"
        if mark and any(map(_is_ellipsis, self._lines[: mark.line])):
            return 'a "..." left from an example is no YAML: remove it'
        if hint := self._template_hint(mark):
            return hint
        return next((hint for tokens, hint in _SYNTAX_HINTS.items() if tokens in what), "")

    def _template_hint(self, mark: SourceMark | None) -> str:
        line = self._line(mark)
        return "this is a template: render it first" if "{{" in line or "{%" in line else ""

    def _line(self, mark: SourceMark | None) -> str:
        return self._lines[mark.line - 1] if mark and mark.line <= len(self._lines) else ""


def mark_of_event(event: Any) -> SourceMark:  # Any: ruamel's events are not typed
    """Give the place where an event begins."""
    return SourceMark(event.start_mark.line + 1, event.start_mark.column + 1)


def _is_ellipsis(line: str) -> bool:
    """Say whether a line holds nothing but the dots that stand for "and so on"."""
    return "..." in line and not line.strip(" -[].")


def _code_point(character: int | str) -> str:
    """Name a character that may not be printable."""
    return f"U+{character if isinstance(character, int) else ord(character[0]):04X}"


def _without_idle_tabs(text: str) -> str:
    """Make spaces of tabs that mean nothing, which the parser refuses; every place stays the same.

    They are those after a value or a key, as upstream's parser has them, and all around in JSON.
    """
    if "\t" not in text:
        return text
    if text.lstrip().startswith("{") and _is_json(text):
        return text.replace("\t", " ")
    return _IDLE_TABS.sub(lambda tabs: " " * len(tabs[0]), text)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
