"""The tables `kubectl get` prints: their columns and cells, as the real server fills them."""

from reactive_desched.sim.objects import Obj
from reactive_desched.sim.resources import Resource
from reactive_desched.sim.tables.columns import Column
from reactive_desched.sim.tables.kinds import TABLES

__all__ = ["columns", "row_cells"]


def columns(kind: Resource) -> list[Obj]:
    """Return the `columnDefinitions` of a kind; others have a name and a date."""
    return [_definition(column) for column in TABLES.get(kind.plural, TABLES["*"]).columns]


def row_cells(kind: Resource, obj: Obj, now: float) -> list[object]:
    """Return the cells of one object, in the order of the columns."""
    return TABLES.get(kind.plural, TABLES["*"]).cells(obj, now)


def _definition(column: Column) -> Obj:
    return {
        "name": column.name,
        "type": column.type,
        "format": "name" if column.name == "Name" else column.form,
        "description": column.description or column.name,
        "priority": column.priority,
    }
