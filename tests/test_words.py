"""The words of docs/explain/glossary.md: identifiers and docstrings name the Kubernetes object."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "reactive_desched"
BANNED = re.compile(
    r"(?<![a-z])(told|untold|nobody|whoever|somebody|things?|pokes?|hears?)(?![a-z])", re.IGNORECASE
)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE), ast.parse(path.read_text(encoding="utf-8"))


def names_and_docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), text
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.name.replace("_", " ")
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg.replace("_", " ")
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id.replace("_", " ")
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr.replace("_", " ")


def test_identifiers_and_docstrings_use_no_banned_word() -> None:
    found = [
        f"{path}:{line}: {word.group()}: {text.strip()[:70]}"
        for path, tree in modules()
        for line, text in names_and_docstrings(tree)
        if (word := BANNED.search(text))
    ]
    assert found == []


def test_no_two_public_classes_have_one_name() -> None:
    homes: defaultdict[str, set[Path]] = defaultdict(set)
    for path, tree in modules():
        if path.parts[0] == "sim":
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].add(path)
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}
