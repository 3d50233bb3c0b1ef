"""Reads and writes what a simple JSON path names, as definitions of kinds write them."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from reactive_desched.sim.objects import Obj

__all__ = ["values_at", "with_value"]

_STEP: Final = re.compile(
    r"""\.((?:\\.|[^.\[\\])+)             # a field, whose own dots are escaped
      | \[(-?\d+|\*)\]                    # an item, or all
      | \['((?:\\.|[^'\\])+)'\]           # a field in quotes
      | \[\?\(@\.([\w.]+)\s*==\s*["']([^"']*)["']\)\]  # items of which a field has a value
    """,
    re.VERBOSE,
)
_ESCAPED: Final = re.compile(r"\\(.)")


def values_at(obj: Any, path: str) -> list[Any]:
    """Return what a path such as `.status.conditions[?(@.type=="Ready")].status` names."""
    found = [obj]
    for step in _STEP.finditer(path.strip().strip("{}")):
        found = [inner for value in found for inner in _stepped(value, step)]
    return found


def with_value(obj: Obj, path: str, value: Any) -> Obj:
    """Return an object with another value of the field that a path such as `.spec.size` names."""
    return _with(obj, [_field(step) for step in _STEP.finditer(path)], value)


def _with(obj: Obj, names: Sequence[str], value: Any) -> Obj:
    name, *rest = names
    return {**obj, name: _with(obj.get(name) or {}, rest, value) if rest else value}


def _field(step: re.Match[str]) -> str:
    return _ESCAPED.sub(r"\1", step[1] or step[3] or "")


def _stepped(value: Any, step: re.Match[str]) -> Iterator[Any]:
    if name := _field(step):
        if isinstance(value, dict) and name in value:
            yield value[name]
    elif not isinstance(value, list):
        return
    elif step[4]:
        yield from (item for item in value if step[5] in map(str, values_at(item, f".{step[4]}")))
    elif step[2] == "*":
        yield from value
    else:
        yield from value[int(step[2]) :][:1]
