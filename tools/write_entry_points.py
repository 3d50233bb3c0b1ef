"""Writes the entry points of the built-in plugins into pyproject.toml; a test holds them equal."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PYPROJECT = ROOT / "pyproject.toml"
PLUGINS = ROOT / "reactive_desched" / "plugins"
_TABLE = re.compile(r'(?m)(^\[project\.entry-points\."reactive_desched\.plugins"\].*\n)((?:.+\n)*)')


def declared_plugins(text: str) -> list[tuple[str, str]]:
    """Return name and class of each plugin that a module declares."""
    return [
        (line.value.value, found.name)
        for found in ast.parse(text).body
        if isinstance(found, ast.ClassDef)
        for line in found.body
        if isinstance(line, ast.Assign)
        and ast.unparse(line.targets[0]) == "name"
        and isinstance(line.value, ast.Constant)
        and isinstance(line.value.value, str)
    ]


def with_entry_points(pyproject: str) -> str:
    """Return the text of pyproject.toml with one line for each built-in plugin."""
    lines = sorted(
        f'{name} = "reactive_desched.plugins.{path.stem}:{class_name}"\n'
        for path in PLUGINS.glob("*.py")
        for name, class_name in declared_plugins(path.read_text(encoding="utf-8"))
    )
    return _TABLE.sub(lambda table: table[1] + "".join(lines), pyproject)


def main() -> None:
    """Write the table; the next `make install` has it known."""
    before = PYPROJECT.read_text(encoding="utf-8")
    if (after := with_entry_points(before)) != before:
        PYPROJECT.write_text(after, encoding="utf-8")


if __name__ == "__main__":
    main()
