"""Text to trees: YAML 1.1 as upstream reads it (and JSON), places kept and sizes bound.

Reads parser events rather than a loader's objects: a loader loses the places of scalars, turns
words into dates, and expands aliases before anyone can count them.
"""

from collections.abc import Iterator
from typing import Final

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

from reactive_desched.policy.diagnostics import quoted
from reactive_desched.policy.scalars import NotFiniteError, understand
from reactive_desched.policy.tree import Entry, Items, Node, Plain, Scalar, Table
from reactive_desched.policy.yaml_text import YamlText, mark_of_event

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
    return tuple(_Reader(YamlText(text, source)).documents())


class _Reader:
    """Builds trees from the events of one text."""

    def __init__(self, text: YamlText) -> None:
        self._text = text
        self._events = text.events()
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
                    raise self._text.refusal_at(
                        event, f"more than {MOST_DOCUMENTS} documents in one text"
                    )
                self._anchors.clear()
                yield from self._document()

    def _document(self) -> Iterator[Node]:
        first = next(self._events)
        if isinstance(first, DocumentEndEvent):
            return
        tree = self._node(first, 0)
        if not (isinstance(tree, Scalar) and tree.value is None):
            yield tree

    def _node(self, event: Event, level: int) -> Node:
        """Build the value that begins with this event."""
        self._values += 1
        if self._values > MOST_VALUES:
            raise self._text.refusal_at(
                event, f"more than {MOST_VALUES:,} values, aliases written out"
            )
        if level > DEEPEST:
            raise self._text.refusal_at(
                event, f"nested deeper than {DEEPEST} levels, aliases written out"
            )
        node = self._built(event, level)
        if node.size > MOST_VALUES:
            raise self._text.refusal_at(
                event, f"more than {MOST_VALUES:,} values, aliases written out"
            )
        if level + node.depth > DEEPEST:
            raise self._text.refusal_at(
                event, f"nested deeper than {DEEPEST} levels, aliases written out"
            )
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
                raise self._text.refusal_at(event, message)
            case _:
                raise self._text.refusal_at(event, "not valid YAML: a value is missing")

    def _items(self, event: SequenceStartEvent, level: int) -> Items:
        self._expect_tag(event, _TREE_TAGS)
        items: list[Node] = []
        while not isinstance(step := next(self._events), SequenceEndEvent):
            items.append(self._node(step, level + 1))
        return Items(mark_of_event(event), tuple(items), *_measures(items))

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
                entries.append(Entry(key, mark_of_event(step), value))
        entries.extend(_unless_written(merged, {entry.key for entry in entries}))
        return Table(mark_of_event(event), tuple(entries), *_measures([it.value for it in entries]))

    def _key(self, event: Event) -> str:
        """Read a key; taken as written, so that `on:` and `1:` are the texts they look like."""
        if not isinstance(event, ScalarEvent):
            raise self._text.refusal_at(event, "a key must be a plain text")
        return self._sound(event)

    def _merged(self, event: Event, value: Node) -> Iterator[Entry]:
        """Give the entries a merge key brings in."""
        for part in value.items if isinstance(value, Items) else (value,):
            if not isinstance(part, Table):
                raise self._text.refusal_at(
                    event, "a merge key (<<) takes a mapping or a list of mappings"
                )
            self._merged_in += len(part.entries)
            if self._merged_in > MOST_VALUES:
                raise self._text.refusal_at(event, f"more than {MOST_VALUES:,} keys merged in (<<)")
            yield from part.entries

    def _scalar(self, event: ScalarEvent) -> Scalar:
        text = self._sound(event)
        tag = self._expect_tag(event, _SCALAR_TAGS)
        return Scalar(mark_of_event(event), self._value(event, text, tag), text)

    def _value(self, event: ScalarEvent, text: str, tag: str | None) -> Plain:
        """Give the value; an explicit tag must agree with what is written."""
        if tag == f"{_TAGS}str" or (tag is None and event.style is not None):
            return text
        try:
            value = understand(text)
        except NotFiniteError as error:
            message = f"{quoted(text)} is not a number that can be used"
            raise self._text.refusal_at(event, message) from error
        if tag is not None and _TAG_TYPES[tag] is not type(value):
            raise self._text.refusal_at(
                event, f"{quoted(text)} is not what its tag says", "remove the tag"
            )
        return value

    def _sound(self, event: ScalarEvent) -> str:
        """Join surrogate pairs that JSON escapes leave apart; refuse half ones."""
        try:
            return str(event.value).encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError as error:
            message = "half of a surrogate pair is not a character"
            raise self._text.refusal_at(event, message) from error

    def _expect_tag(self, event: NodeEvent, known: frozenset[str]) -> str | None:
        """Give the explicit tag, refusing those no policy can need."""
        tag = getattr(event, "tag", None)
        if tag is None or str(tag) == "!":
            return f"{_TAGS}str" if tag is not None and isinstance(event, ScalarEvent) else None
        if str(tag) not in known:
            raise self._text.refusal_at(
                event, f"the tag {quoted(str(tag))} is not supported", "remove the tag"
            )
        return str(tag)


_TAG_TYPES: Final[dict[str, type]] = {
    f"{_TAGS}int": int,
    f"{_TAGS}float": float,
    f"{_TAGS}bool": bool,
    f"{_TAGS}null": type(None),
}


def _measures(nodes: list[Node]) -> tuple[int, int]:
    """Count the values inside, and how deep they go."""
    return 1 + sum(node.size for node in nodes), 1 + max((node.depth for node in nodes), default=0)


def _unless_written(merged: list[Entry], written: set[str]) -> Iterator[Entry]:
    """Leave out merged entries that are written here or were merged before."""
    for entry in merged:
        if entry.key not in written:
            written.add(entry.key)
            yield entry
