"""Measures that a user makes up: the annotation `sim.reactive-desched/metric.NAME` of an object.

A made-up measure has no labels. All amounts are thousandths, as in the autoscaler's controller.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from reactive_desched.errors import QuantityError
from reactive_desched.model.quantities import milli_value
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.profiles import METRIC, PREFIX
from reactive_desched.sim.store import Event, Store

__all__ = ["KnownMetrics", "made_up", "write_thousandths"]

_ANNOTATION: Final = f"{PREFIX}{METRIC}"
_THOUSAND: Final = 1000
_SUFFIXES: Final = ("", "k", "M", "G", "T", "P")


def made_up(obj: Obj | None, name: str) -> int | None:
    """Return what an object says of a metric; None where it says nothing, or no quantity."""
    text = _annotations(obj).get(f"{_ANNOTATION}{name}")
    try:
        return None if text is None else milli_value(text)
    except QuantityError:
        return None


def write_thousandths(amount: int) -> str:
    """Write thousandths as the API server writes a decimal quantity."""
    if amount % _THOUSAND:
        return f"{amount}m"
    whole, power = amount // _THOUSAND, 0
    while whole and whole % _THOUSAND == 0 and power < len(_SUFFIXES) - 1:
        whole, power = whole // _THOUSAND, power + 1
    return f"{whole}{_SUFFIXES[power]}"


class KnownMetrics:
    """The names of the metrics that there are, by the kind of the objects that have them.

    Bounded by the objects' annotations.
    """

    def __init__(self, store: Store) -> None:
        self._objects: Counter[tuple[str, str]] = Counter()
        for kind in store.kinds:
            for obj in store.list(kind.plural):
                self._count(kind.plural, obj, 1)
        self._unsubscribe = store.subscribe(self._observe)

    def close(self) -> None:
        """Stop listening to the store."""
        self._unsubscribe()

    def names(self) -> list[tuple[str, str]]:
        """Return the plural of a kind and a name, for each metric of it."""
        return sorted(self._objects)

    def _observe(self, event: Event) -> None:
        if event.previous is not None:
            self._count(event.resource, event.previous, -1)
        if event.type != "DELETED":
            self._count(event.resource, event.object, 1)

    def _count(self, resource: str, obj: Obj, by: int) -> None:
        for name in _names(obj):
            self._objects[resource, name] += by
            if not self._objects[resource, name]:
                del self._objects[resource, name]


def _names(obj: Obj) -> Iterator[str]:
    for key in _annotations(obj):
        if key.startswith(_ANNOTATION):
            yield key.removeprefix(_ANNOTATION)


def _annotations(obj: Obj | None) -> dict[str, str]:
    return ((obj or {}).get("metadata") or {}).get("annotations") or {}
