"""The lists the load server holds: stored bytes, and on top of them what events have changed."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Lock

from bench.generate import LIST_VERSION, Dataset, Items
from reactive_desched.state.resources import WATCHED_KINDS


@dataclass
class Resource:
    """One resource: stored items, and those that events replaced (None: deleted)."""

    name: str
    kind: str
    api: str
    items: Items
    changed: dict[int, bytes | None] = field(default_factory=dict)
    count: int = 0

    def __post_init__(self) -> None:
        """Hold what is stored, until events add to it."""
        self.count = len(self.items)

    def change(self, number: int, obj: bytes | None) -> None:
        """Replace an item, add one behind the last, or delete one."""
        self.changed[number] = obj
        self.count = max(self.count, number + 1)

    def page(self, version: int, limit: int, first: int) -> list[bytes | memoryview]:
        """Return the parts of a list answer: a head, the items, a tail."""
        last = min(self.count, first + limit) if limit else self.count
        metadata = f'"resourceVersion":"{version}"'
        if left := self.count - last:
            metadata += f',"continue":"p{last}","remainingItemCount":{left}'
        head = f'{{"kind":"{self.kind}List","apiVersion":"{self.api}","metadata":{{{metadata}}},'
        return [head.encode() + b'"items":[', self._items(first, last), b"]}"]

    def _items(self, first: int, last: int) -> bytes | memoryview:
        if not any(number in self.changed for number in range(first, last)):
            return self.items.slice(first, last)
        return b",".join(self.each(first, last))

    def each(self, first: int, last: int) -> Iterator[bytes]:
        """Yield items one by one, as they are now."""
        for number in range(first, last):
            item = self.changed.get(number, b"")
            if item is not None:
                yield item or self.items.item(number)

    def event(self, what: str, obj: bytes) -> bytes:
        """Return a watch event; there, unlike in a list, an object names its kind."""
        head = f'{{"type":"{what}","object":{{"kind":"{self.kind}","apiVersion":"{self.api}",'
        return head.encode() + obj[1:] + b"}\n"

    def bookmark(self, version: int, *, initial_end: bool = False) -> bytes:
        """Return a bookmark, or the one that ends a streaming list."""
        end = b',"annotations":{"k8s.io/initial-events-end":"true"}' if initial_end else b""
        return self.event("BOOKMARK", b'{"metadata":{"resourceVersion":"%d"%b}}' % (version, end))


class Versions:
    """Hands out resource versions, one line for all resources as etcd does."""

    def __init__(self) -> None:
        """Begin where the stored lists end."""
        self.now = LIST_VERSION
        self._lock = Lock()

    def next(self) -> int:
        """Return a version later than every one before."""
        with self._lock:
            self.now += 1
            return self.now


def open_resources(data: Dataset) -> dict[str, Resource]:
    """Open every watched kind of the data by its collection's path."""
    return {
        kind.path: Resource(
            kind.resource,
            kind.kind,
            kind.api_version,
            data.items(kind.resource),
        )
        for kind in WATCHED_KINDS.values()
    }
