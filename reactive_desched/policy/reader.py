"""Text to trees: YAML 1.1 as upstream reads it (and JSON), places kept and sizes bound.

Reads parser events rather than a loader's objects: a loader loses the places of scalars, turns
words into dates, and expands aliases before anyone can count them.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.reader import ReaderError

from reactive_desched.policy.problems import PolicyErrors, Problem, quoted
from reactive_desched.policy.scalars import NotFiniteError, understand
from reactive_desched.policy.tree import Entry, Items, Mark, Node, Plain, Scalar, Table

LARGEST_TEXT: Final = 1024 * 1024
DEEPEST: Final = 40
MOST_VALUES: Final = 20_000
MOST_DOCUMENTS: Final = 20

_TAGS: Final = "tag:yaml.org,2002:"
_SCALAR_TAGS: Final = frozenset(
    f"{_TAGS}{kind}" for kind in ("str", "int", "float", "bool", "null")
)
_TREE_TAGS: Final = frozenset((f"{_TAGS}map", f"{_TAGS}seq"))
_MERGE: Final = "<<"


def read_documents(text: str | bytes, source: str) -> tuple[Node, ...]:
    """Parse a text into one tree per document; empty documents are left out.

    Refuses more than 1 MiB of text, 20 documents, 40 levels, or 20,000 values, aliases
    written out. Raises PolicyErrors naming the place.
    """
    return tuple(_Reader(_decoded(text, source), source).documents())


def _decoded(text: str | bytes, source: str) -> str:
    """Bound the size, decode UTF-8, drop a byte order mark."""
    if len(text) > LARGEST_TEXT:
        raise _refusal(
            source, "the text is larger than 1 MiB", "a policy is a few KiB: is this the file?"
        )
    if isinstance(text, str):
        return text.removeprefix("\ufeff")
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        column = error.start - (text.rfind(b"\n", 0, error.start) + 1) + 1
        mark = Mark(line, column)
        raise _refusal(source, "the text is not UTF-8", "save it as UTF-8", mark) from error


def _refusal(source: str, message: str, hint: str = "", mark: Mark | None = None) -> PolicyErrors:
    """Describe why to give up on this text: nothing after such a problem can be trusted."""
    line, column = (mark.line, mark.column) if mark else (0, 0)
    return PolicyErrors([Problem(source, line, column, "", message, hint)])


class _Reader:
    """Builds trees from the events of one text."""

    def __init__(self, text: str, source: str) -> None:
        self._source = source
        self._lines = text.splitlines()
        self._events = self._parsed(_without_json_tabs(text))
        self._anchors: dict[str, Node] = {}
        self._values = 0
        self._merged_in = 0

    def documents(self) -> Iterator[Node]:
        """Yield the tree of each document that says anything."""
        count = 0
        for event in self._events:
            if isinstance(event, DocumentStartEvent):
                count += 1
                if count > MOST_DOCUMENTS:
                    raise self._refusal(event, f"more than {MOST_DOCUMENTS} documents in one text")
                self._anchors.clear()
                yield from self._document()

    def _document(self) -> Iterator[Node]:
        first = next(self._events)
        if isinstance(first, DocumentEndEvent):
            return
        tree = self._node(first, 0)
        if not (isinstance(tree, Scalar) and tree.value is None):
            yield tree

    def _parsed(self, text: str) -> Iterator[Event]:
        """Run the parser; whatever it raises becomes a problem with a place."""
        yaml = YAML(typ="safe", pure=True)
        try:
            yield from yaml.parse(text)
        except MarkedYAMLError as error:
            raise self._syntax_refusal(error) from error
        except ReaderError as error:
            before = text[: error.position]
            mark = Mark(before.count("\n") + 1, len(before) - before.rfind("\n"))
            message = f"the character {_code_point(error.character)} is not allowed"
            raise _refusal(self._source, message, "", mark) from error
        except Exception as error:  # the parser lets odd errors escape on odd input
            raise _refusal(self._source, f"not readable as YAML: {error}") from error

    def _syntax_refusal(self, error: MarkedYAMLError) -> PolicyErrors:
        """Describe what the parser stumbled over, and where."""
        at = error.problem_mark or error.context_mark
        mark = Mark(at.line + 1, at.column + 1) if at else None
        what = " ".join(filter(None, (error.context, error.problem)))
        message = f"not valid YAML: {what}"
        return _refusal(self._source, message, self._syntax_hint(what, mark), mark)

    def _syntax_hint(self, what: str, mark: Mark | None) -> str:
        """Recognise common causes in the lines themselves."""
        if "\t" in self._line(mark):
            return "indent with spaces: tabs are not allowed in YAML"
        if mark and any(map(_is_ellipsis, self._lines[: mark.line])):
            return 'a "..." left from an example is no YAML: remove it'
        if hint := self._template_hint(mark):
            return hint
        return "compare its indentation with the lines above" if "<block end>" in what else ""

    def _template_hint(self, mark: Mark | None) -> str:
        line = self._line(mark)
        return "this is a template: render it first" if "{{" in line or "{%" in line else ""

    def _line(self, mark: Mark | None) -> str:
        return self._lines[mark.line - 1] if mark and mark.line <= len(self._lines) else ""

    def _refusal(self, event: Event, message: str, hint: str = "") -> PolicyErrors:
        return _refusal(self._source, message, hint, _mark(event))

    def _node(self, event: Event, level: int) -> Node:
        """Build the value that begins with this event."""
        self._values += 1
        if self._values > MOST_VALUES:
            raise self._refusal(event, f"more than {MOST_VALUES:,} values, aliases written out")
        if level > DEEPEST:
            raise self._refusal(event, f"nested deeper than {DEEPEST} levels, aliases written out")
        node = self._built(event, level)
        if node.size > MOST_VALUES:
            raise self._refusal(event, f"more than {MOST_VALUES:,} values, aliases written out")
        if level + node.depth > DEEPEST:
            raise self._refusal(event, f"nested deeper than {DEEPEST} levels, aliases written out")
        if isinstance(event, NodeEvent) and not isinstance(event, AliasEvent) and event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _built(self, event: Event, level: int) -> Node:
        match event:
            case ScalarEvent():
                return self._scalar(event)
            case SequenceStartEvent():
                return self._items(event, level)
            case MappingStartEvent():
                return self._table(event, level)
            case AliasEvent(anchor=anchor) if anchor in self._anchors:
                return self._anchors[anchor]
            case AliasEvent(anchor=anchor):
                message = f"the alias {quoted(f'*{anchor}')} has no anchor before it"
                raise self._refusal(event, message)
            case _:
                raise self._refusal(event, "not valid YAML: a value is missing")

    def _items(self, event: SequenceStartEvent, level: int) -> Items:
        self._expect_tag(event, _TREE_TAGS)
        items: list[Node] = []
        while not isinstance(step := next(self._events), SequenceEndEvent):
            items.append(self._node(step, level + 1))
        return Items(_mark(event), tuple(items), *_measures(items))

    def _table(self, event: MappingStartEvent, level: int) -> Table:
        self._expect_tag(event, _TREE_TAGS)
        entries: list[Entry] = []
        merged: list[Entry] = []
        while not isinstance(step := next(self._events), MappingEndEvent):
            key = self._key(step)
            value = self._node(next(self._events), level + 1)
            if key == _MERGE and isinstance(step, ScalarEvent) and step.style is None:
                merged.extend(self._merged(step, value))
            else:
                entries.append(Entry(key, _mark(step), value))
        entries.extend(_unless_written(merged, {entry.key for entry in entries}))
        return Table(_mark(event), tuple(entries), *_measures([it.value for it in entries]))

    def _key(self, event: Event) -> str:
        """Read a key; taken as written, so that `on:` and `1:` are the texts they look like."""
        if not isinstance(event, ScalarEvent):
            hint = self._template_hint(_mark(event)) or "write key: value"
            raise self._refusal(event, "a key must be a plain text", hint)
        return self._sound(event)

    def _merged(self, event: Event, value: Node) -> Iterator[Entry]:
        """Give the entries a merge key brings in."""
        for part in value.items if isinstance(value, Items) else (value,):
            if not isinstance(part, Table):
                raise self._refusal(event, "a merge key (<<) takes a mapping or a list of mappings")
            self._merged_in += len(part.entries)
            if self._merged_in > MOST_VALUES:
                raise self._refusal(event, f"more than {MOST_VALUES:,} keys merged in (<<)")
            yield from part.entries

    def _scalar(self, event: ScalarEvent) -> Scalar:
        text = self._sound(event)
        tag = self._expect_tag(event, _SCALAR_TAGS)
        return Scalar(_mark(event), self._value(event, text, tag), text)

    def _value(self, event: ScalarEvent, text: str, tag: str | None) -> Plain:
        """Give the value; an explicit tag must agree with what is written."""
        if tag == f"{_TAGS}str" or (tag is None and event.style is not None):
            return text
        try:
            value = understand(text)
        except NotFiniteError as error:
            message = f"{quoted(text)} is not a number that can be used"
            raise self._refusal(event, message) from error
        if tag is not None and _TAG_TYPES[tag] is not type(value):
            raise self._refusal(event, f"{quoted(text)} is not what its tag says", "remove the tag")
        return value

    def _sound(self, event: ScalarEvent) -> str:
        """Join surrogate pairs that JSON escapes leave apart; refuse half ones."""
        try:
            return str(event.value).encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError as error:
            message = "half of a surrogate pair is not a character"
            raise self._refusal(event, message) from error

    def _expect_tag(self, event: NodeEvent, known: frozenset[str]) -> str | None:
        """Give the explicit tag, refusing those no policy can need."""
        tag = getattr(event, "tag", None)
        if tag is None or str(tag) == "!":
            return f"{_TAGS}str" if tag is not None and isinstance(event, ScalarEvent) else None
        if str(tag) not in known:
            raise self._refusal(
                event, f"the tag {quoted(str(tag))} is not supported", "remove the tag"
            )
        return str(tag)


_TAG_TYPES: Final[dict[str, type]] = {
    f"{_TAGS}int": int,
    f"{_TAGS}float": float,
    f"{_TAGS}bool": bool,
    f"{_TAGS}null": type(None),
}


def _is_ellipsis(line: str) -> bool:
    """Say whether a line holds nothing but the dots that stand for "and so on"."""
    return "..." in line and not line.strip(" -[].")


def _code_point(character: int | str) -> str:
    """Name a character that may not be printable."""
    return f"U+{character if isinstance(character, int) else ord(character[0]):04X}"


def _mark(event: Any) -> Mark:  # Any: ruamel's events are not typed
    """Give the place where an event begins."""
    return Mark(event.start_mark.line + 1, event.start_mark.column + 1)


def _measures(nodes: list[Node]) -> tuple[int, int]:
    """Count the values inside, and how deep they go."""
    return 1 + sum(node.size for node in nodes), 1 + max((node.depth for node in nodes), default=0)


def _unless_written(merged: list[Entry], written: set[str]) -> Iterator[Entry]:
    """Leave out merged entries that are written here or were merged before."""
    for entry in merged:
        if entry.key not in written:
            written.add(entry.key)
            yield entry


def _without_json_tabs(text: str) -> str:
    """Let JSON be indented with tabs, which YAML refuses; every place stays the same."""
    if "\t" not in text or not text.lstrip().startswith("{"):
        return text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text.replace("\t", " ")
