"""Writes the entry points of built-in plugins and sinks into pyproject.toml; a test compares."""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT = Path(__file__).parent.parent
PYPROJECT = ROOT / "pyproject.toml"
PACKAGE = ROOT / "reactive_desched"
_SINK: Final = "Sink"

Names = Callable[[ast.ClassDef], str | None]
"""Returns the name under which a class is offered; None for one that is not."""


def plugin_name(found: ast.ClassDef) -> str | None:
    """Return the name that a plugin declares."""
    value = _assigned(found, "name")
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def sink_name(found: ast.ClassDef) -> str | None:
    """Return the key of a sink with settings: of SpoolSink it is spool."""
    if not found.name.endswith(_SINK) or _assigned(found, "settings") is None:
        return None
    name = found.name.removesuffix(_SINK)
    return name[:1].lower() + name[1:]


_OFFERED: Final[Mapping[str, Names]] = {"plugins": plugin_name, "sinks": sink_name}
"""What names the classes of a room; its entry points have the group `reactive_desched.ROOM`."""


def declared(text: str, names: Names) -> list[tuple[str, str]]:
    """Return name and class of each object that a module declares."""
    classes = (found for found in ast.parse(text).body if isinstance(found, ast.ClassDef))
    return [(name, found.name) for found in classes if (name := names(found)) is not None]


def with_entry_points(pyproject: str) -> str:
    """Return the text of pyproject.toml with one line for each built-in object."""
    for room in _OFFERED:
        group = rf'(?m)(^\[project\.entry-points\."reactive_desched\.{room}"\].*\n)((?:.+\n)*)'
        if (table := re.search(group, pyproject)) is not None:
            lines = "".join(sorted(_lines(room)))
            pyproject = f"{pyproject[: table.start(2)]}{lines}{pyproject[table.end(2) :]}"
    return pyproject


def _lines(room: str) -> Iterator[str]:
    for path in (PACKAGE / room).rglob("*.py"):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for name, found in declared(path.read_text(encoding="utf-8"), _OFFERED[room]):
            yield f'{name} = "{module}:{found}"\n'


def _assigned(found: ast.ClassDef, attribute: str) -> ast.expr | None:
    """Return what a class assigns to an attribute."""
    return next(
        (
            line.value
            for line in found.body
            if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == attribute
        ),
        None,
    )


def main() -> None:
    """Write the tables; the next `make install` installs them."""
    before = PYPROJECT.read_text(encoding="utf-8")
    if (after := with_entry_points(before)) != before:
        PYPROJECT.write_text(after, encoding="utf-8")


if __name__ == "__main__":
    main()
