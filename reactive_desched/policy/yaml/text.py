"""Text to parser events: decodes, checks the size, and explains syntax errors.

The parser is libyaml, of which the parser of the SIG descheduler is a translation: both take the
same texts, tabs included.
"""

import json
import re
from collections.abc import Container, Iterable, Iterator
from typing import Any, Final

import yaml  # type: ignore[import-untyped]  # PyYAML ships no types

from reactive_desched.api.rules import Rule
from reactive_desched.policy.yaml.diagnostics import Diagnostic, PolicyErrors
from reactive_desched.policy.yaml.tree import SourceMark

MAX_TEXT_BYTES: Final = 1024 * 1024

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
_NO_PLAIN_SPACE: Final = re.compile("[\u00a0\u2000-\u200b\u202f\u3000\ufeff]")
_JOINED: Final = re.compile(
    "([A-Za-z][A-Za-z0-9_-]*):([\u00a0\u2000-\u200b\u202f\u3000]*)([^\\s:/].*)"
)
"""`nodeFit:true`; a URL, a time and an image's tag are none."""
_PATCH: Final = re.compile(r"diff --git |--- a/|Index: ")
_CONFLICT: Final = "<<<<<<< "
CONFLICT: Final = "a merge conflict is left in it"
CONFLICT_HINT: Final = (
    "keep one side, and remove the lines that begin with <<<<<<<, ======= and >>>>>>>"
)
_SURROGATES: Final = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_SURROGATE: Final = re.compile(r"\\?u?[dD][89a-fA-F][0-9a-fA-F]{2}")
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the first is there with libyaml
Event = Any  # PyYAML's events are not typed


class YamlText:
    """One text and its name; a text over 1 MiB, or one that is not UTF-8, is refused."""

    def __init__(self, text: str | bytes, source: str) -> None:
        self._source = source
        self._text = self._decode(text)
        self._lines = self._text.splitlines()

    def events(self) -> Iterator[Event]:
        """Yield the parser's events; whatever the parser raises becomes PolicyErrors."""
        try:
            yield from yaml.parse(_for_libyaml(self._text), Loader=_LOADER)
        except yaml.MarkedYAMLError as error:
            raise self._syntax_error(error) from error
        except yaml.reader.ReaderError as error:
            before = self._text.encode()[: error.position].decode(errors="replace")
            mark = SourceMark(before.count("\n") + 1, len(before) - before.rfind("\n"))
            message = f"the character {_code_point(error.character)} is not allowed"
            raise self.fatal_error(message, "remove it", mark, rule=Rule.BAD_CHARACTER) from error
        except Exception as error:  # the parser raises other errors on odd input
            error_message = " ".join(str(error).split())
            raise self.fatal_error(
                f"cannot be read as YAML: {error_message}", rule=Rule.YAML_SYNTAX
            ) from error

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
        return self.fatal_error(message, self._template_hint(mark) or hint, mark, rule=rule)

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

    def _syntax_error(self, error: yaml.MarkedYAMLError) -> PolicyErrors:
        """Describe where the parser stopped, and why."""
        if conflict := self._conflict():
            message = f"not valid YAML: {CONFLICT}"
            return self.fatal_error(message, CONFLICT_HINT, conflict, rule=Rule.YAML_SYNTAX)
        what = parser_words(error)
        at = error.problem_mark or error.context_mark
        is_behind = at is not None and at.line >= len(self._lines)
        if error.context_mark and (is_behind or any(words in what for words in _AT_CONTEXT)):
            at = error.context_mark
        mark = SourceMark(at.line + 1, at.column + 1) if at else None
        if mark and self._lines and mark.line > len(self._lines):
            mark = SourceMark(len(self._lines), len(self._lines[-1]) + 1)
        if "Unicode character escape" in what and _SURROGATE.match(self._line(mark), at.column - 1):
            begin = SourceMark(error.context_mark.line + 1, error.context_mark.column + 1)
            return self.fatal_error(
                "half of a surrogate pair is not a character", "", begin, rule=Rule.BAD_CHARACTER
            )
        plain = plain_syntax_error(what)
        if "cannot start any token" in what:
            first = self._text_at(at)
            plain = f"a text may not begin with {'a tab' if first == _TAB else repr(first)}"
        return self.fatal_error(
            f"not valid YAML: {plain}", self._syntax_hint(what, mark), mark, rule=Rule.YAML_SYNTAX
        )

    def _syntax_hint(self, what: str, mark: SourceMark | None) -> str:
        """Recognise common causes in the lines themselves."""
        line = self._line(mark)
        if _TAB in line:
            return "indent with spaces: tabs are not allowed in YAML"
        if space := _NO_PLAIN_SPACE.search(line):
            return f"write a plain space: this line has the character {_code_point(space[0])}"
        if hint := self._joined_above(mark, what):
            return hint
        if line.startswith("```"):
            return "remove this line, and the other with ```: they are of Markdown"
        if self._lines[:1] and _PATCH.match(self._lines[0]):
            return "this is a patch: apply it, and name the file that it changes"
        if mark and any(map(_is_ellipsis, self._lines[: mark.line])):
            return 'remove the "..." that is left from an example'
        if hint := self._template_hint(mark):
            return hint
        return next((hint for tokens, hint in _SYNTAX_HINTS.items() if tokens in what), "")

    def _joined_above(self, mark: SourceMark | None, what: str) -> str:
        """Recognise, as the cause, a line above that has no plain space behind its colon."""
        if mark is None or "mapping values are not allowed" not in what:
            return ""
        above = next(filter(str.strip, reversed(self._lines[: mark.line - 1])), "")
        hint = joined_value_hint(above.strip().removeprefix("- "))
        return f"in the line above, {hint}" if hint else ""

    def _conflict(self) -> SourceMark | None:
        """Return where a version control system left both sides of a conflict, if it did."""
        line = conflict_line(self._lines)
        return None if line is None else SourceMark(line, 1)

    def _template_hint(self, mark: SourceMark | None) -> str:
        line = self._line(mark)
        return "this is a template: render it first" if "{{" in line or "{%" in line else ""

    def _text_at(self, mark: Any) -> str:  # Any: PyYAML's marks are not typed
        """Return the character at a place."""
        character: str = self._lines[mark.line][mark.column : mark.column + 1]
        return character

    def _line(self, mark: SourceMark | None) -> str:
        return self._lines[mark.line - 1] if mark and mark.line <= len(self._lines) else ""


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


def parser_words(error: Exception) -> str:
    """Return what the parser says of a syntax error, in its own words."""
    words = (getattr(error, "context", None), getattr(error, "problem", None))
    return " ".join(filter(None, words)) or " ".join(str(error).split())


def conflict_line(lines: Iterable[str]) -> int | None:
    """Return the first line at which version control left both sides of a conflict, if it did."""
    marked = (number for number, line in enumerate(lines, 1) if line.startswith(_CONFLICT))
    return next(marked, None)


def plain_syntax_error(what: str) -> str:
    """Return a complaint of the parser in plain words; a rare one stays as the parser put it."""
    plain = (text for part, text in _BROKEN_SYNTAX if part in what)
    return next(plain, f"this cannot be read (the parser: {what})")


def mark_of_event(event: Event) -> SourceMark:
    """Return the place where an event begins."""
    return SourceMark(event.start_mark.line + 1, event.start_mark.column + 1)


def _is_ellipsis(line: str) -> bool:
    """Return whether a line holds nothing but the dots that stand for "and so on"."""
    return "..." in line and not line.strip(" -[].")


def _code_point(character: int | str) -> str:
    """Name a character that may not be printable."""
    return f"U+{character if isinstance(character, int) else ord(character[0]):04X}"


def _for_libyaml(text: str) -> str:
    """Return JSON as YAML: spaces for the tabs around it, and one escape for a surrogate pair."""
    if not text.lstrip().startswith("{") or not ("\t" in text or _SURROGATES.search(text)):
        return text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text
    return _SURROGATES.sub(_one_escape, text.replace("\t", " "))


def keeps_places(text: str) -> bool:
    """Return whether what the parser counts are places in the text itself, not in a changed one."""
    return len(_for_libyaml(text)) == len(text)


def _one_escape(pair: "re.Match[str]") -> str:
    character: str = json.loads(f'"{pair[0]}"')
    return f"\\U{ord(character):08x}"


def joined_value_hint(text: str, known_fields: Container[str] | None = None) -> str | None:
    """Recognise a key and a value with no plain space behind the colon, which YAML takes as text.

    With `known_fields` the key must be one of them.
    """
    if (joined := _JOINED.fullmatch(text)) is None:
        return None
    key, gap, value = joined.groups()
    if known_fields is not None and key not in known_fields:
        return None
    space = "a plain space" if gap else "a space"
    return f"write {space} behind the colon: {key}: {value}"
