"""The tables `kubectl get` prints: their columns and cells, as the real server fills them."""

from reactive_desched.sim.objects import Obj
from reactive_desched.sim.resources import Resource
from reactive_desched.sim.tables.columns import Column
from reactive_desched.sim.tables.kinds import TABLES

__all__ = ["columns", "row_cells"]


def columns(kind: Resource) -> list[Obj]:
    """Return the `columnDefinitions` of a kind; unknown kinds have a name and an age."""
    return [_definition(column) for column in TABLES.get(kind.plural, TABLES["*"]).columns]


def row_cells(kind: Resource, obj: Obj, now: float) -> list[object]:
    """Return the cells of one object, in the order of the columns."""
    return TABLES.get(kind.plural, TABLES["*"]).cells(obj, now)


def _definition(column: Column) -> Obj:
    return {
        "name": column.name,
        "type": column.type,
        "format": "name" if column.name == "Name" and not column.priority else "",
        "description": column.description or column.name,
        "priority": column.priority,
    }
