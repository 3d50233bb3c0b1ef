"""Says what is wrong with a text that the parser refuses: a policy, or objects for `plan`."""

import re
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator
from itertools import islice
from typing import Final

import yaml  # type: ignore[import-untyped]  # PyYAML ships no types

from reactive_desched.api.rules import Rule
from reactive_desched.policy.yaml.diagnostics import Diagnostic
from reactive_desched.policy.yaml.tree import SourceMark

__all__ = ["TextLines", "explain", "joined_value_hint", "template_hint"]

_BROKEN_SYNTAX: Final = (
    ("did not find expected '-' indicator", "an item of the list, beginning with -, must be here"),
    ("block mapping did not find expected key", "a key with a colon must be here"),
    ("mapping values are not allowed", "no second key may begin here"),
    ("could not find expected ':'", "this line has no colon after its key"),
    ("quoted scalar found unexpected end", "this quote is not closed"),
    ("unknown escape character", "this escape with a backslash does not exist"),
    ("expected <document start>", "only a new document may begin here"),
    ("flow node", "a value must be here"),
    ("flow sequence", "the list that begins with [ lacks a comma, or its ]"),
    ("flow mapping", "the mapping that begins with { lacks a comma, or its }"),
    ("while scanning a directive", "a line may not begin with %"),
    ("while scanning an alias", "a text may not begin with *"),
    ("while scanning an anchor", "a text may not begin with &"),
    ("undefined tag handle", "a text may not begin with !"),
    ("while scanning a tag", "a text may not begin with !"),
    ("tab character that violates indentation", "a tab may not indent a line"),
    ("block scalar", "what follows | or > must be a line break"),
)
"""What the parser complains of, by a part of its words, and the same in plain words."""

_AT_CONTEXT: Final = ("could not find expected ':'", "quoted scalar found unexpected end")
"""Complaints whose cause is where the construct begins, not where the parser gave up."""

_SYNTAX_HINTS: Final = {
    "block mapping did not find expected key": "compare indentation and quotes with the line above",
    "block collection did not find expected": "compare its indentation with the lines above",
    "could not find expected ':'": "write KEY: VALUE, or indent it below the text it continues",
    "quoted scalar found unexpected end": "close it, or put the text in the other kind of quotes",
    "unknown escape character": "write a backslash as two, or use single quotes",
    "while scanning a directive": "put the text in quotes",
    "an alias": "put the text in quotes",
    "an anchor": "put the text in quotes",
    "tag": "put the text in quotes",
    "cannot start any token": "put the text in quotes",
    "mapping values are not allowed": "quote a text with a colon in it, or look at the indentation",
    "parsing a flow": "look at the brackets and braces before it",
    "expected <document start>": "begin every document after the first with ---",
}
_TAB: Final = "\t"
_NO_PLAIN_SPACE: Final = "[\u00a0\u2000-\u200b\u202f\u3000\ufeff]"
_JOINED: Final = "([A-Za-z][A-Za-z0-9_-]*):([\u00a0\u2000-\u200b\u202f\u3000]*)([^\\s:/].*)"
"""`nodeFit:true`; a URL, a time and an image's tag are none."""
_PATCH: Final = r"diff --git |--- a/|Index: "
_CONFLICT: Final = "<<<<<<< "
_CONFLICT_MESSAGE: Final = "not valid YAML: a merge conflict is left in it"
_CONFLICT_HINT: Final = (
    "keep one side, and remove the lines that begin with <<<<<<<, ======= and >>>>>>>"
)
_SURROGATE: Final = r"\\?u?[dD][89a-fA-F][0-9a-fA-F]{2}"
_LINES_BEFORE: Final = 1000
"""How many lines before an error are looked at for its cause."""


class TextLines:
    """The lines of a text with their ends, which are read again for each question.

    A file of objects may be far larger than what should be held of it.
    """

    def __init__(self, read: Callable[[], Iterable[str]]) -> None:
        self._read = read

    def line(self, number: int) -> str:
        """Return a line by its number from 1, without its end; empty where there is none."""
        return next(islice(self._read(), max(0, number - 1), number), "").rstrip("\r\n")

    def before(self, number: int) -> Iterator[str]:
        """Yield the lines before one, the nearest first."""
        return reversed(deque(islice(self._read(), max(0, number - 1)), _LINES_BEFORE))

    def count(self) -> int:
        """Count the lines."""
        return sum(1 for _ in self._read())

    def conflict(self) -> int | None:
        """Return the first line at which version control left both sides of a conflict."""
        marked = (n for n, line in enumerate(self._read(), 1) if line.startswith(_CONFLICT))
        return next(marked, None)

    def mark_of_byte(self, position: int) -> SourceMark:
        """Return the place of a byte of the text in UTF-8."""
        number = 0
        for number, line in enumerate(self._read(), 1):
            written = line.encode()
            if position < len(written):
                return SourceMark(number, len(written[:position].decode(errors="replace")) + 1)
            position -= len(written)
        return SourceMark(number + 1, 1)


def explain(error: Exception, source: str, lines: TextLines) -> Diagnostic:
    """Say what made the parser refuse a text, where, and what to do; `source` is its name."""
    if isinstance(error, yaml.MarkedYAMLError):
        return _explain_syntax(error, source, lines)
    if isinstance(error, yaml.reader.ReaderError):
        mark = lines.mark_of_byte(error.position)
        if "octet" in error.reason or "UTF-8" in error.reason:
            message, hint = "the text is not UTF-8", "save it as UTF-8"
        else:
            character = _code_point(error.character)
            message, hint = f"the character {character} is not allowed", "remove it"
        return Diagnostic(
            source, mark.line, mark.column, "", message, hint, rule=Rule.BAD_CHARACTER
        )
    words = " ".join(str(error).split())  # the parser raises other errors on odd input
    return Diagnostic(source, 0, 0, "", f"cannot be read as YAML: {words}", rule=Rule.YAML_SYNTAX)


def _explain_syntax(error: yaml.MarkedYAMLError, source: str, lines: TextLines) -> Diagnostic:
    """Say where the parser stopped, and why."""
    if conflict := lines.conflict():
        return Diagnostic(
            source, conflict, 1, "", _CONFLICT_MESSAGE, _CONFLICT_HINT, rule=Rule.YAML_SYNTAX
        )
    what = _parser_words(error)
    at = error.problem_mark or error.context_mark
    count = lines.count()
    is_behind = at is not None and at.line >= count
    if error.context_mark and (is_behind or any(words in what for words in _AT_CONTEXT)):
        at = error.context_mark
    mark = SourceMark(at.line + 1, at.column + 1) if at else SourceMark(0, 0)
    if count and mark.line > count:
        mark = SourceMark(count, len(lines.line(count)) + 1)
    line = lines.line(mark.line) if mark.line else ""
    if "Unicode character escape" in what and re.match(_SURROGATE, line[max(0, at.column - 1) :]):
        begin = error.context_mark
        message = "half of a surrogate pair is not a character"
        return Diagnostic(
            source, begin.line + 1, begin.column + 1, "", message, rule=Rule.BAD_CHARACTER
        )
    plain = next((text for part, text in _BROKEN_SYNTAX if part in what), "")
    if "cannot start any token" in what:
        first = lines.line(at.line + 1)[at.column : at.column + 1]
        plain = f"a text may not begin with {'a tab' if first == _TAB else repr(first)}"
    message = f"not valid YAML: {plain or f'this cannot be read (the parser: {what})'}"
    hint = _syntax_hint(what, line, mark, lines)
    return Diagnostic(source, mark.line, mark.column, "", message, hint, rule=Rule.YAML_SYNTAX)


def _syntax_hint(what: str, line: str, mark: SourceMark, lines: TextLines) -> str:
    """Recognise common causes in the lines themselves."""
    if _TAB in line:
        return "indent with spaces: tabs are not allowed in YAML"
    if space := re.search(_NO_PLAIN_SPACE, line):
        return f"write a plain space: this line has the character {_code_point(space[0])}"
    if "mapping values are not allowed" in what:
        above = next(filter(str.strip, lines.before(mark.line)), "")
        if hint := joined_value_hint(above.strip().removeprefix("- ")):
            return f"in the line above, {hint}"
    if line.startswith("```"):
        return "remove this line, and the other with ```: they are of Markdown"
    if re.match(_PATCH, lines.line(1)):
        return "this is a patch: apply it, and name the file that it changes"
    if any(map(_is_ellipsis, (line, *lines.before(mark.line)))):
        return 'remove the "..." that is left from an example'
    if hint := template_hint(line):
        return hint
    return next((hint for tokens, hint in _SYNTAX_HINTS.items() if tokens in what), "")


def template_hint(line: str) -> str:
    """Recognise a line of a template."""
    return "this is a template: render it first" if "{{" in line or "{%" in line else ""


def joined_value_hint(text: str, known_fields: Container[str] | None = None) -> str | None:
    """Recognise a key and a value with no plain space behind the colon, which YAML takes as text.

    With `known_fields` the key must be one of them.
    """
    if (joined := re.fullmatch(_JOINED, text)) is None:
        return None
    key, gap, value = joined.groups()
    if known_fields is not None and key not in known_fields:
        return None
    space = "a plain space" if gap else "a space"
    return f"write {space} behind the colon: {key}: {value}"


def _parser_words(error: yaml.MarkedYAMLError) -> str:
    """Return what the parser says of a syntax error, in its own words."""
    words = " ".join(filter(None, (error.context, error.problem)))
    return words or " ".join(str(error).split())


def _is_ellipsis(line: str) -> bool:
    """Return whether a line holds nothing but the dots that stand for "and so on"."""
    return "..." in line and not line.strip(" -[].\r\n")


def _code_point(character: int | str) -> str:
    """Name a character that may not be printable."""
    return f"U+{character if isinstance(character, int) else ord(character[0]):04X}"
