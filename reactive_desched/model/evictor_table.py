"""The table of evictors, by name: every `Evictor` in `model/evictors/`."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

from reactive_desched.model import evictors
from reactive_desched.model.eviction_options import EVICTION
from reactive_desched.model.evictor import Evictor

__all__ = ["EVICTORS", "EvictorName", "evictor_named"]


def _find() -> Iterator[Evictor]:
    for module in iter_modules(evictors.__path__, f"{evictors.__name__}."):
        for value in vars(import_module(module.name)).values():
            if isinstance(value, Evictor):
                yield value


def _in_order(found: Iterator[Evictor]) -> Iterator[Evictor]:
    """Yield the default first, then those that take a right of their own, by name."""
    yield from sorted(found, key=lambda each: (each.name != EVICTION, each.name))


def _by_name(found: Iterator[Evictor]) -> dict[str, Evictor]:
    """Return evictors by name; raises ValueError for two of one name, as of a copied file."""
    table: dict[str, Evictor] = {}
    for each in _in_order(found):
        if table.setdefault(each.name, each) is not each:
            raise ValueError(f"two evictors are called {each.name}")
    return table


EVICTORS: Final[Mapping[str, Evictor]] = MappingProxyType(_by_name(_find()))

if TYPE_CHECKING:
    EvictorName = str
else:
    EvictorName = Literal[tuple(EVICTORS)]
    """A name of the table, as settings have it."""


def evictor_named(name: str) -> Evictor:
    """Return an evictor; for a name that a later version has written, the Eviction API."""
    return EVICTORS.get(name) or EVICTORS[EVICTION]
