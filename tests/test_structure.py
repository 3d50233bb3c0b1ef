"""The structure of the package: its imports form no circle, wherever in a file they stand."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "reactive_desched"

Sources = Mapping[str, ast.Module]  # by the names of modules, as `reactive_desched.model.pods`


def package_sources() -> Sources:
    """Parse every module of the package."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): ast.parse(
            path.read_text(encoding="utf-8")
        )
        for path in sorted(PACKAGE.rglob("*.py"))
    }


# --- circles of imports -------------------------------------------------------------------------


def imported_modules(tree: ast.Module, known: Sources) -> Iterator[str]:
    """Yield what a module imports: at its top, in functions, and for types alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in known)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            for each in node.names:
                inner = f"{node.module}.{each.name}"
                yield inner if inner in known else str(node.module)


def import_circles(sources: Sources) -> list[list[str]]:
    """Return the sets of modules of which each imports, in some steps, each other one."""
    imports = {
        name: {each for each in imported_modules(tree, sources) if each in sources}
        for name, tree in sources.items()
    }
    while leaves := {name for name, needed in imports.items() if not needed}:
        imports = {name: needed - leaves for name, needed in imports.items() if name not in leaves}
    reach = {name: _reachable(name, imports) for name in imports}
    circles = {
        tuple(sorted(other for other in reach[name] if name in reach[other]))
        for name in imports
        if name in reach[name]
    }
    return sorted(map(list, circles))


def _reachable(name: str, imports: Mapping[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    ahead = [name]
    while ahead:
        found = imports[ahead.pop()] - seen
        seen |= found
        ahead += found
    return seen


def test_no_import_closes_a_circle() -> None:
    assert import_circles(package_sources()) == []


def test_circles_of_late_imports_and_of_imports_for_types_are_found() -> None:
    sources = {
        "p.top": "import p.first",
        "p.first": "from p import second\nimport p.leaf",
        "p.second": "def late():\n    from p.third import name",
        "p.third": "if TYPE_CHECKING:\n    from p.first import Name",
        "p.own": "import p.own",
        "p.leaf": "import sys",
    }
    parsed = {name: ast.parse(text) for name, text in sources.items()}
    assert import_circles(parsed) == [["p.first", "p.second", "p.third"], ["p.own"]]
