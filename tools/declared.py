"""Finds the values of a type that the package declares: reasons, metric families."""

from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, TypeVar

import reactive_desched

Declared = TypeVar("Declared")


def declared(kind: type[Declared]) -> set[Declared]:
    """Return the values of this type that any module of the package declares."""
    return {value for value in _values() if isinstance(value, kind)}


@cache  # finding and importing a thousand modules again took a tenth of the tests that ask
def _values() -> list[Any]:
    """Return what any module of the package has under a name."""
    modules = walk_packages(reactive_desched.__path__, "reactive_desched.")
    names = (vars(import_module(m.name)) for m in modules if not m.name.endswith("__main__"))
    return [value for values in names for value in values.values()]
