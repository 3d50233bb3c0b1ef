"""The tables of custom kinds: the columns that their definitions have, else name and age."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from reactive_desched.sim.objects import Obj, name_of
from reactive_desched.sim.structural.json_paths import values_at
from reactive_desched.sim.tables.columns import NAME, Column, Table, since
from reactive_desched.sim.views import PrintedColumn

__all__ = ["custom_table"]

_AGE: Final = PrintedColumn("Age", ".metadata.creationTimestamp", "date")
_TYPES: Final[Mapping[str, tuple[type, ...]]] = MappingProxyType(
    {"integer": (int,), "number": (int, float), "boolean": (bool,)}
)


@lru_cache(maxsize=1_000)
def custom_table(printed: tuple[PrintedColumn, ...]) -> Table:
    """Return the table of a custom kind."""
    shown = printed or (_AGE,)
    columns = (
        Column(each.name, each.type, each.priority, each.description, each.form) for each in shown
    )

    def cells(obj: Obj, now: float) -> list[object]:
        return [name_of(obj), *(_cell(each, values_at(obj, each.path), now) for each in shown)]

    return Table((NAME, *columns), cells)


def _cell(column: PrintedColumn, values: Sequence[Any], now: float) -> object:
    """Return what a column shows; nothing where the value is not there, or of another type."""
    if not values:
        return None
    value = values[0]
    if column.type == "date":
        return since(value, now)
    if column.type == "string":
        return value if isinstance(value, str) else str(value).lower()
    return value if type(value) in _TYPES.get(column.type, ()) else None
