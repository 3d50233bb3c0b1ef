"""Text to trees: YAML 1.1 as upstream reads it (and JSON), places kept and sizes bound.

Reads parser events rather than a loader's objects: a loader loses the places of scalars, turns
words into dates, and expands aliases before anyone can count them.
"""

from collections.abc import Iterator
from itertools import chain, count
from operator import itemgetter
from typing import Final

from yaml.events import (  # type: ignore[import-untyped]  # PyYAML ships no types
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

from reactive_desched.api.rules import Rule
from reactive_desched.policy.yaml.scalars import (
    NotFiniteError,
    WrongTagError,
    parse_scalar,
    parse_tagged,
)
from reactive_desched.policy.yaml.text import YamlText, mark_of_event
from reactive_desched.policy.yaml.tree import (
    MappingEntry,
    MappingNode,
    PlainValue,
    ScalarNode,
    SequenceNode,
    YamlNode,
)
from reactive_desched.primitives.hints import quote

MAX_DEPTH: Final = 40
MAX_VALUES: Final = 20_000
MAX_DOCUMENTS: Final = 20

_TAGS: Final = "tag:yaml.org,2002:"
_SCALAR_TAGS: Final = frozenset(
    f"{_TAGS}{kind}" for kind in ("str", "int", "float", "bool", "null")
)
_TREE_TAGS: Final = frozenset((f"{_TAGS}map", f"{_TAGS}seq"))
_MERGE: Final = "<<"
_IS_THIS_IT: Final = "a policy is never that large: is this the file?"


def read_documents(text: str | bytes, source: str) -> tuple[YamlNode, ...]:
    """Parse a text into one tree per document; empty documents are left out.

    Refuses more than 1 MiB of text, 20 documents, 40 levels, or 20,000 values, aliases
    written out. Raises PolicyErrors naming the place.
    """
    return tuple(_TreeReader(YamlText(text, source)).documents())


class _TreeReader:
    """Builds trees from the events of one text."""

    def __init__(self, text: YamlText) -> None:
        self._text = text
        self._events = text.events()
        self._anchors: dict[str, YamlNode] = {}
        self._value_count = 0
        self._merged_key_count = 0

    def documents(self) -> Iterator[YamlNode]:
        """Yield the tree of each document that says anything."""
        count = 0
        for event in self._events:
            if isinstance(event, DocumentStartEvent):
                count += 1
                if count > MAX_DOCUMENTS:
                    raise self._text.fatal_error_at(
                        event,
                        f"more than {MAX_DOCUMENTS} documents in one text",
                        rule=Rule.TOO_LARGE,
                    )
                self._anchors.clear()
                yield from self._document()

    def _document(self) -> Iterator[YamlNode]:
        first = next(self._events)
        if isinstance(first, DocumentEndEvent):
            return
        tree = self._node(first, 0)
        if not (isinstance(tree, ScalarNode) and tree.value is None):
            yield tree

    def _node(self, event: Event, level: int) -> YamlNode:
        """Build the value that begins with this event."""
        self._value_count += 1
        if self._value_count > MAX_VALUES:
            raise self._text.fatal_error_at(
                event,
                f"more than {MAX_VALUES:,} values, aliases written out",
                _IS_THIS_IT,
                rule=Rule.TOO_LARGE,
            )
        if level > MAX_DEPTH:
            raise self._text.fatal_error_at(
                event,
                f"nested deeper than {MAX_DEPTH} levels, aliases written out",
                _IS_THIS_IT,
                rule=Rule.TOO_LARGE,
            )
        node = self._build(event, level)
        if node.size > MAX_VALUES:
            raise self._text.fatal_error_at(
                event,
                f"more than {MAX_VALUES:,} values, aliases written out",
                _IS_THIS_IT,
                rule=Rule.TOO_LARGE,
            )
        if level + node.depth > MAX_DEPTH:
            raise self._text.fatal_error_at(
                event,
                f"nested deeper than {MAX_DEPTH} levels, aliases written out",
                _IS_THIS_IT,
                rule=Rule.TOO_LARGE,
            )
        if isinstance(event, NodeEvent) and not isinstance(event, AliasEvent) and event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _build(self, event: Event, level: int) -> YamlNode:
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
                message = f"the alias {quote(f'*{anchor}')} has no anchor before it"
                hint = f"write &{anchor} before a value above, or the value itself here"
                raise self._text.fatal_error_at(event, message, hint, rule=Rule.UNSUPPORTED_YAML)
            case _:
                raise self._text.fatal_error_at(
                    event, "not valid YAML: a value is missing", rule=Rule.YAML_SYNTAX
                )

    def _items(self, event: SequenceStartEvent, level: int) -> SequenceNode:
        self._check_tag(event, _TREE_TAGS)
        items: list[YamlNode] = []
        while not isinstance(step := next(self._events), SequenceEndEvent):
            items.append(self._node(step, level + 1))
        return SequenceNode(mark_of_event(event), tuple(items), *_size_and_depth(items))

    def _table(self, event: MappingStartEvent, level: int) -> MappingNode:
        """Build a mapping; a merge key overrides what is written before it, as upstream."""
        self._check_tag(event, _TREE_TAGS)
        written: dict[str, list[tuple[int, MappingEntry]]] = {}
        merged: set[str] = set()
        for number in count():
            if isinstance(step := next(self._events), MappingEndEvent):
                break
            key = self._key(step)
            value = self._node(next(self._events), level + 1)
            if key == _MERGE and isinstance(step, ScalarEvent) and not step.style:
                brought = self._merged_entries(step, value)
                written.update((each, [(number, entry)]) for each, entry in brought.items())
                merged.update(brought)
                continue
            if key in merged:
                del written[key]
                merged.discard(key)
            written.setdefault(key, []).append(
                (number, MappingEntry(key, mark_of_event(step), value))
            )
        in_order = sorted(chain.from_iterable(written.values()), key=itemgetter(0))
        entries = tuple(entry for _, entry in in_order)
        return MappingNode(
            mark_of_event(event), entries, *_size_and_depth([it.value for it in entries])
        )

    def _key(self, event: Event) -> str:
        """Read a key; taken as written, so that `on:` and `1:` are the texts they look like."""
        if not isinstance(event, ScalarEvent):
            raise self._text.fatal_error_at(
                event, "a key must be a plain text", "write KEY: VALUE", rule=Rule.UNSUPPORTED_YAML
            )
        return self._join_surrogates(event)

    def _merged_entries(self, event: Event, value: YamlNode) -> dict[str, MappingEntry]:
        """Return the entries a merge key brings in; in a list the first with a key counts."""
        brought: dict[str, MappingEntry] = {}
        for part in value.items if isinstance(value, SequenceNode) else (value,):
            if not isinstance(part, MappingNode):
                raise self._text.fatal_error_at(
                    event,
                    "a merge key (<<) takes a mapping or a list of mappings",
                    rule=Rule.UNSUPPORTED_YAML,
                )
            self._merged_key_count += len(part.entries)
            if self._merged_key_count > MAX_VALUES:
                raise self._text.fatal_error_at(
                    event, f"more than {MAX_VALUES:,} keys merged in (<<)", rule=Rule.TOO_LARGE
                )
            brought.update((it.key, it) for it in part.entries if it.key not in brought)
        return brought

    def _scalar(self, event: ScalarEvent) -> ScalarNode:
        text = self._join_surrogates(event)
        tag = self._check_tag(event, _SCALAR_TAGS)
        return ScalarNode(mark_of_event(event), self._value(event, text, tag), text)

    def _value(self, event: ScalarEvent, text: str, tag: str | None) -> PlainValue:
        """Return the value; an explicit tag must agree with what is written."""
        if tag is None and event.style:
            return text
        try:
            return parse_scalar(text) if tag is None else parse_tagged(text, tag)
        except NotFiniteError as error:
            message = f"{quote(text)} is not a number that can be used"
            raise self._text.fatal_error_at(
                event, message, "write a number in digits", rule=Rule.UNSUPPORTED_YAML
            ) from error
        except WrongTagError as error:
            message = f"{quote(text)} is not what its tag says"
            raise self._text.fatal_error_at(
                event, message, "remove the tag", rule=Rule.UNSUPPORTED_YAML
            ) from error

    def _join_surrogates(self, event: ScalarEvent) -> str:
        """Join surrogate pairs that JSON escapes leave apart; refuse half ones."""
        try:
            return str(event.value).encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError as error:
            message = "half of a surrogate pair is not a character"
            raise self._text.fatal_error_at(event, message, rule=Rule.BAD_CHARACTER) from error

    def _check_tag(self, event: NodeEvent, allowed: frozenset[str]) -> str | None:
        """Return the explicit tag, refusing those no policy can need."""
        tag = getattr(event, "tag", None)
        if tag is None or str(tag) == "!":
            return f"{_TAGS}str" if tag is not None and isinstance(event, ScalarEvent) else None
        if str(tag) not in allowed:
            raise self._text.fatal_error_at(
                event,
                f"the tag {quote(str(tag))} is not supported",
                "remove the tag",
                rule=Rule.UNSUPPORTED_YAML,
            )
        return str(tag)


def _size_and_depth(nodes: list[YamlNode]) -> tuple[int, int]:
    """Count the values inside, and how deep they go."""
    return 1 + sum(node.size for node in nodes), 1 + max((node.depth for node in nodes), default=0)
