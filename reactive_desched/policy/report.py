"""Messages with the line they are about, and carets under the key or value, as compilers show them.

The parts of a text are looked up here, after something was found: reading a policy does not pay.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Final, Literal
from unicodedata import combining, east_asian_width

import yaml  # type: ignore[import-untyped]  # PyYAML ships no types
from msgspec import Struct

from reactive_desched.api.rules import Rule
from reactive_desched.policy.enclosed import enclosed_policies
from reactive_desched.policy.yaml.diagnostics import Diagnostic, PolicyErrors
from reactive_desched.policy.yaml.reader import read_documents
from reactive_desched.policy.yaml.text import YamlText, decode, mark_of_event
from reactive_desched.policy.yaml.tree import SourceMark
from reactive_desched.primitives.bounded_text import printable
from reactive_desched.text.terminal import paint

Severity = Literal["error", "warning"]

MAX_COLUMNS: Final = 80
"""Lines of an excerpt are cut to this width, around what they point at."""

_NEVER_SHOWN: Final = frozenset((Rule.WEBHOOK_URL,))
"""The address of a webhook may hold a password; so may other URLs, of which only hosts show."""

_END_OF_URL: Final = r"\s\"',\]}"
_URL: Final = re.compile(
    rf"(https?://)([^{_END_OF_URL}]*@)?([^{_END_OF_URL}/?#]*)([^{_END_OF_URL}]*)", re.IGNORECASE
)
_BEFORE_CUT: Final = 24
_CUT: Final = "…"
_STYLES: Final[Mapping[str, str]] = {"error": "1;31", "warning": "1;33", "help": "36"}


class Token(Struct, frozen=True):
    """A key or a single value as it is written; `start` and `end` are indexes into the text.

    `style` is the kind of its quotes, empty without, and | or > for a block.
    """

    start: int
    end: int
    last: SourceMark
    style: str


class MarkedText:
    """One text: its lines, and its keys and single values by their places."""

    def __init__(self, text: str | bytes) -> None:
        self.text: Final = decode(text)
        self.lines: Final = self.text.splitlines()

    @cached_property
    def tokens(self) -> Mapping[SourceMark, Token]:
        """The keys and values, those of policies in a ConfigMap too; none after a syntax error."""
        found = dict(_tokens(self.text, 0))
        with suppress(PolicyErrors):
            for root in read_documents(self.text, ""):
                for each in enclosed_policies(self.text, root):
                    found |= dict(_tokens(each.text, each.shift))
        return found

    def width_at(self, mark: SourceMark) -> int:
        """Count the characters to underline: of the key or value, on its first line; at least 1."""
        line = self.lines[mark.line - 1]
        token = self.tokens.get(mark)
        if token is None:
            return 1
        end = token.last
        last = end.column - 1 if end.line == mark.line else len(line.rstrip())
        return max(1, last - (mark.column - 1))


class Report:
    """Writes messages about some texts; without colours unless a terminal shows them."""

    def __init__(self, texts: Mapping[str, str | bytes], *, colours: bool = False) -> None:
        self._texts = texts
        self._marked: dict[str, MarkedText] = {}
        self._colours = colours

    def lines(self, diagnostic: Diagnostic, severity: Severity) -> Iterator[str]:
        """Yield the message, and, where its place can be shown, the line with carets and remedy."""
        excerpt = tuple(self._excerpt(diagnostic, severity))
        said = diagnostic.text(with_hint=not excerpt)
        yield f"{diagnostic.where}: {self._styled(severity, f'{severity}:')} {said}"
        yield from excerpt

    def _excerpt(self, diagnostic: Diagnostic, severity: Severity) -> Iterator[str]:
        text = self._texts.get(diagnostic.source)
        if text is None or not diagnostic.line or diagnostic.rule in _NEVER_SHOWN:
            return
        marked = self._marked.setdefault(diagnostic.source, MarkedText(text))
        if diagnostic.line > len(marked.lines):
            return
        mark = SourceMark(diagnostic.line, diagnostic.column)
        gutter = len(str(diagnostic.line)) + 2
        line, before, width = _cut_out(
            marked.lines[mark.line - 1],
            mark.column - 1,
            marked.width_at(mark),
            MAX_COLUMNS - gutter - 3,
        )
        yield f"{diagnostic.line:{gutter}} | {line}".rstrip()
        yield f"{'':{gutter}} | {'':{before}}{self._styled(severity, '^' * width)}"
        if diagnostic.hint:
            yield f"{'':{gutter}} = {self._styled('help', 'help:')} {printable(diagnostic.hint)}"

    def _styled(self, style: str, text: str) -> str:
        return paint(_STYLES[style], text) if self._colours else text


def error_report(errors: PolicyErrors, *, colours: bool = False) -> str:
    """Return the errors as `policy check` prints them, each with its line."""
    report = Report(errors.texts, colours=colours)
    lines = (line for each in errors.diagnostics for line in report.lines(each, "error"))
    return "\n".join((*lines, *errors.ending))


def _tokens(text: str, shift: int) -> Iterator[tuple[SourceMark, Token]]:
    """Yield the keys and values of a text that begins so far inside another."""
    with suppress(PolicyErrors):
        for event in YamlText(text, "").events():
            if isinstance(event, yaml.ScalarEvent):
                start, end = event.start_mark, event.end_mark
                last = SourceMark(end.line + 1, end.column + 1)
                token = Token(start.index + shift, end.index + shift, last, event.style or "")
                yield mark_of_event(event), token


def _cut_out(line: str, begin: int, length: int, columns: int) -> tuple[str, int, int]:
    """Return a part of a line that fits, with the columns before what is marked, and of that.

    What cannot be printed shows as a replacement character, a tab as a space.
    """
    line = _URL.sub(_without_secrets, line)
    shown = "".join(each if each.isprintable() else " " if each == "\t" else "�" for each in line)
    first, lead = 0, ""
    if _columns(shown) > columns and begin > _BEFORE_CUT:
        first, lead = begin - _BEFORE_CUT, _CUT
    part = lead + shown[first:]
    if _columns(part) > columns:
        while _columns(part) > columns - 1:
            part = part[: columns - 1 if len(part) >= columns else -1]
        part += _CUT
    start = begin - first + len(lead)
    return part, _columns(part[:start]), max(1, _columns(part[start : start + length]))


def _without_secrets(url: "re.Match[str]") -> str:
    """Return a URL of the same length with stars for all but its scheme and host."""
    scheme, user, host, rest = url.groups(default="")
    return scheme + "*" * len(user) + host + "*" * len(rest)


def _columns(text: str) -> int:
    """Count the columns that a text takes in a terminal."""
    return sum(
        0 if combining(each) else 2 if east_asian_width(each) in "WF" else 1 for each in text
    )
