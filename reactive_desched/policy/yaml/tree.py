"""A parsed document with the line and column of every key and value."""

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.api.args import Path

PlainValue = str | int | float | bool | None


class SourceMark(Struct, frozen=True):
    """A place in a text; both numbers count from 1."""

    line: int
    column: int


class ScalarNode(Struct, frozen=True):
    """A single value, and the text it was written as."""

    mark: SourceMark
    value: PlainValue
    text: str
    size: int = 1
    depth: int = 0


class SequenceNode(Struct, frozen=True):
    """A list; `size` counts every value inside, aliases written out."""

    mark: SourceMark
    items: tuple["YamlNode", ...]
    size: int = 1
    depth: int = 1


class MappingEntry(Struct, frozen=True):
    """One `key: value` of a table; `mark` is the place of the key."""

    key: str
    mark: SourceMark
    value: "YamlNode"


class MappingNode(Struct, frozen=True):
    """A mapping in written order; a key written twice is here twice."""

    mark: SourceMark
    entries: tuple[MappingEntry, ...]
    size: int = 1
    depth: int = 1

    def entry(self, key: str) -> MappingEntry | None:
        """Find a key; the first one counts."""
        return next((entry for entry in self.entries if entry.key == key), None)

    def get(self, key: str) -> "YamlNode | None":
        """Find the value of a key; the first one counts."""
        entry = self.entry(key)
        return entry.value if entry else None

    def text(self, key: str) -> str:
        """Return the value of a key if it is a text, else the empty text."""
        node = self.get(key)
        return node.value if isinstance(node, ScalarNode) and isinstance(node.value, str) else ""

    @property
    def keys(self) -> frozenset[str]:
        """All keys of this table."""
        return frozenset(entry.key for entry in self.entries)

    @property
    def keys_in_order(self) -> tuple[str, ...]:
        """All keys of this table as they are written, each once."""
        return tuple(dict.fromkeys(entry.key for entry in self.entries))


YamlNode = ScalarNode | SequenceNode | MappingNode


def to_plain(node: YamlNode) -> object:
    """Return the value as Python's own lists, dicts and scalars."""
    match node:
        case ScalarNode(value=value):
            return value
        case SequenceNode(items=items):
            return [to_plain(item) for item in items]
        case MappingNode(entries=entries):
            return {key: to_plain(value) for key, value in _first_by_key(entries).items()}


def _first_by_key(entries: tuple[MappingEntry, ...]) -> dict[str, YamlNode]:
    """Index entries by key, in written order; of a key written twice the first counts."""
    values: dict[str, YamlNode] = {}
    for entry in entries:
        values.setdefault(entry.key, entry.value)
    return values


def without_duplicate_keys(node: YamlNode) -> YamlNode:
    """Return the tree in which, of a key written twice, only the last is left."""
    match node:
        case SequenceNode(items=items):
            return replace(node, items=tuple(map(without_duplicate_keys, items)))
        case MappingNode(entries=entries):
            last = {entry.key: entry for entry in entries}
            kept = (
                replace(entry, value=without_duplicate_keys(entry.value)) for entry in last.values()
            )
            return replace(node, entries=tuple(kept))
        case _:
            return node


def child(node: YamlNode, step: str | int) -> YamlNode | None:
    """Go one step down, or give None where there is nothing."""
    match node, step:
        case MappingNode(), str():
            return node.get(step)
        case SequenceNode(items=items), int() if step < len(items):
            return items[step]
        case _:
            return None


def walk(node: YamlNode, skipped: MappingEntry | None = None) -> Iterator[YamlNode]:
    """Yield a value and every value inside it, but those of one entry."""
    yield node
    match node:
        case MappingNode(entries=entries):
            for entry in entries:
                if entry is not skipped:
                    yield from walk(entry.value, skipped)
        case SequenceNode(items=items):
            for item in items:
                yield from walk(item, skipped)


def find(root: YamlNode, path: Path) -> YamlNode | None:
    """Follow a path to its value."""
    node: YamlNode | None = root
    for step in path:
        node = child(node, step) if node is not None else None
    return node


def existing_prefix(root: YamlNode, path: Path) -> Path:
    """Return as much of a path as is there."""
    node, real = root, 0
    for step in path:
        if (below := child(node, step)) is None:
            break
        node, real = below, real + 1
    return path[:real]


def mark_of(root: YamlNode, path: Path) -> SourceMark:
    """Return the place of a key or list item, or of the nearest value around a missing one."""
    real = existing_prefix(root, path)
    parent = find(root, real[:-1]) if real else None
    if isinstance(parent, MappingNode) and (entry := parent.entry(str(real[-1]))) is not None:
        return entry.mark
    node = find(root, real)
    return node.mark if node is not None else root.mark


def walk_mappings(root: YamlNode, path: Path = ()) -> Iterator[tuple[Path, MappingNode]]:
    """Visit every table with its path, outermost first."""
    match root:
        case MappingNode(entries=entries):
            yield path, root
            for entry in entries:
                yield from walk_mappings(entry.value, (*path, entry.key))
        case SequenceNode(items=items):
            for index, item in enumerate(items):
                yield from walk_mappings(item, (*path, index))
        case ScalarNode():
            return
