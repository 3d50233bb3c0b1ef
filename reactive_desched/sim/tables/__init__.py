"""The tables `kubectl get` prints: their columns and cells, as the real server fills them."""

from reactive_desched.sim.objects import Obj
from reactive_desched.sim.tables.columns import Column, Table
from reactive_desched.sim.tables.custom import custom_table
from reactive_desched.sim.tables.kinds import TABLES
from reactive_desched.sim.views import View

__all__ = ["columns", "row_cells"]


def columns(view: View) -> list[Obj]:
    """Return the `columnDefinitions` of a kind; others have a name and a date."""
    return [_definition(column) for column in _table(view).columns]


def row_cells(view: View, obj: Obj, now: float) -> list[object]:
    """Return the cells of one object, in the order of the columns."""
    return _table(view).cells(obj, now)


def _table(view: View) -> Table:
    if view.resource.is_custom:
        return custom_table(view.printed)
    return TABLES.get(view.storage, TABLES["*"])


def _definition(column: Column) -> Obj:
    return {
        "name": column.name,
        "type": column.type,
        "format": "name" if column.name == "Name" else column.form,
        "description": column.description or column.name,
        "priority": column.priority,
    }
