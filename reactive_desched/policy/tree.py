"""A parsed document that still knows the line and column of every key and value."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from reactive_desched.policy.diagnostics import Path

Plain = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a text; both numbers count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value, and the text it was written as."""

    mark: Mark
    value: Plain
    text: str
    size: int = field(default=1, compare=False)
    depth: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Items:
    """A list; `size` counts every value inside, aliases written out."""

    mark: Mark
    items: tuple["Node", ...]
    size: int = field(default=1, compare=False)
    depth: int = field(default=1, compare=False)


@dataclass(frozen=True, slots=True)
class Entry:
    """One `key: value` of a table; `mark` is the place of the key."""

    key: str
    mark: Mark
    value: "Node"


@dataclass(frozen=True, slots=True)
class Table:
    """A mapping in written order; a key written twice is here twice."""

    mark: Mark
    entries: tuple[Entry, ...]
    size: int = field(default=1, compare=False)
    depth: int = field(default=1, compare=False)

    def entry(self, key: str) -> Entry | None:
        """Find a key; the first one counts."""
        return next((entry for entry in self.entries if entry.key == key), None)

    def get(self, key: str) -> "Node | None":
        """Find the value of a key; the first one counts."""
        found = self.entry(key)
        return found.value if found else None

    def text(self, key: str) -> str:
        """Give the value of a key if it is a text, else the empty text."""
        node = self.get(key)
        return node.value if isinstance(node, Scalar) and isinstance(node.value, str) else ""

    @property
    def keys(self) -> frozenset[str]:
        """All keys of this table."""
        return frozenset(entry.key for entry in self.entries)

    @property
    def keys_in_order(self) -> tuple[str, ...]:
        """All keys of this table as they are written, each once."""
        return tuple(dict.fromkeys(entry.key for entry in self.entries))


Node = Scalar | Items | Table


def plain(node: Node) -> object:
    """Give the value as Python's own lists, dicts and scalars."""
    match node:
        case Scalar(value=value):
            return value
        case Items(items=items):
            return [plain(item) for item in items]
        case Table(entries=entries):
            return {key: plain(value) for key, value in _first_of_each(entries).items()}


def _first_of_each(entries: tuple[Entry, ...]) -> dict[str, Node]:
    """Index entries by key, in written order; of a key written twice the first counts."""
    values: dict[str, Node] = {}
    for entry in entries:
        values.setdefault(entry.key, entry.value)
    return values


def last_of_each(node: Node) -> Node:
    """Give the tree in which, of a key written twice, only the last is left."""
    match node:
        case Items(items=items):
            return replace(node, items=tuple(map(last_of_each, items)))
        case Table(entries=entries):
            last = {entry.key: entry for entry in entries}
            kept = (replace(entry, value=last_of_each(entry.value)) for entry in last.values())
            return replace(node, entries=tuple(kept))
        case _:
            return node


def child(node: Node, step: str | int) -> Node | None:
    """Go one step down, or give None where there is nothing."""
    match node, step:
        case Table(), str():
            return node.get(step)
        case Items(items=items), int() if step < len(items):
            return items[step]
        case _:
            return None


def find(root: Node, path: Path) -> Node | None:
    """Follow a path to its value."""
    node: Node | None = root
    for step in path:
        node = child(node, step) if node is not None else None
    return node


def real_part(root: Node, path: Path) -> Path:
    """Give as much of a path as is there."""
    node, real = root, 0
    for step in path:
        if (below := child(node, step)) is None:
            break
        node, real = below, real + 1
    return path[:real]


def mark_of(root: Node, path: Path) -> Mark:
    """Give the place of a key or list item, or of the nearest thing around a missing one."""
    real = real_part(root, path)
    parent = find(root, real[:-1]) if real else None
    if isinstance(parent, Table) and (entry := parent.entry(str(real[-1]))) is not None:
        return entry.mark
    node = find(root, real)
    return node.mark if node is not None else root.mark


def tables(root: Node, path: Path = ()) -> Iterator[tuple[Path, Table]]:
    """Visit every table with its path, outermost first."""
    match root:
        case Table(entries=entries):
            yield path, root
            for entry in entries:
                yield from tables(entry.value, (*path, entry.key))
        case Items(items=items):
            for index, item in enumerate(items):
                yield from tables(item, (*path, index))
        case Scalar():
            return
