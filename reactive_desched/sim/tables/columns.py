"""The pieces every printed table is made of."""

from collections.abc import Callable, Iterable

from msgspec import Struct

from reactive_desched.sim.clock import parse_time
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.selector_text import selector_text

__all__ = [
    "AGE",
    "NAME",
    "Column",
    "Table",
    "age_of",
    "human_duration",
    "number",
    "or_none",
    "selectors",
    "since",
    "template_of",
    "text",
    "wide",
]

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86_400, 31_536_000
_NONE, _UNKNOWN = "<none>", "<unknown>"


class Column(Struct, frozen=True):
    """One column; those with priority 1 appear only with `-o wide`."""

    name: str
    type: str = "string"
    priority: int = 0
    description: str = ""
    form: str = ""


class Table(Struct, frozen=True):
    """The columns of a kind, and how an object fills them."""

    columns: tuple[Column, ...]
    cells: Callable[[Obj, float], list[object]]


def text(*names: str) -> tuple[Column, ...]:
    """Return text columns."""
    return tuple(Column(name) for name in names)


def number(*names: str) -> tuple[Column, ...]:
    """Return integer columns."""
    return tuple(Column(name, "integer") for name in names)


def wide(*names: str) -> tuple[Column, ...]:
    """Return text columns shown only with `-o wide`."""
    return tuple(Column(name, priority=1) for name in names)


NAME, AGE = text("Name", "Age")


def age_of(obj: Obj, now: float) -> str:
    """Return how long ago the object was created, as people say it."""
    return since(obj["metadata"].get("creationTimestamp"), now)


def since(moment: object, now: float) -> str:
    """Return how long ago a timestamp was, or that it is unknown."""
    return human_duration(now - parse_time(moment)) if isinstance(moment, str) else _UNKNOWN


def human_duration(seconds: float) -> str:
    """Return a duration in at most two units, coarser the longer it is."""
    if seconds < -1:
        return "<invalid>"
    whole = max(0, int(seconds))
    for below, unit, letter, finer, finer_letter in (
        (2 * _MINUTE, 1, "s", 0, ""),
        (10 * _MINUTE, _MINUTE, "m", 1, "s"),
        (3 * _HOUR, _MINUTE, "m", 0, ""),
        (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
        (2 * _DAY, _HOUR, "h", 0, ""),
        (8 * _DAY, _DAY, "d", _HOUR, "h"),
        (2 * _YEAR, _DAY, "d", 0, ""),
        (8 * _YEAR, _YEAR, "y", _DAY, "d"),
    ):
        if whole < below:
            rest = whole % unit // finer if finer else 0
            return f"{whole // unit}{letter}" + (f"{rest}{finer_letter}" if rest else "")
    return f"{whole // _YEAR}y"


def or_none(values: Iterable[object] | object) -> str:
    """Join values by commas; nothing is `<none>`."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        return str(values) if values not in (None, "") else _NONE
    return ",".join(str(value) for value in values) or _NONE


def template_of(obj: Obj) -> tuple[str, str]:
    """Return the names and the images of a workload's containers."""
    spec = obj.get("spec", {}).get("template", {}).get("spec", {})
    containers = spec.get("containers") or ()
    names = or_none([c.get("name", "") for c in containers])
    return names, or_none([c.get("image", "") for c in containers])


def selectors(selector: Obj | None) -> str:
    """Return a selector in words; none at all is `<none>`."""
    return selector_text(selector) or _NONE
