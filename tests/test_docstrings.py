"""Docstrings name what there is: what is renamed in the code is renamed in them."""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from reactive_desched import errors
from tests.support.syntax import ROOT, nodes_of, package_trees

pytestmark = pytest.mark.syntax_trees

OTHERS = ("bench", "tools", "tests/support")
"""What has docstrings of the same kind, beside the package."""

QUOTED = re.compile(r"`(_*[a-z][a-z0-9_]*)`")
CONSTANT = re.compile(r"(?<![\w./-])([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)(?!\w)")
RAISED = re.compile(r"[Rr]aises? ((?:`?[A-Z][A-Za-z]+`?(?:, or |, | or )?)+)")
CAMEL = re.compile(r"[A-Z][A-Za-z]+")
WORD = re.compile(r"\w+")
COMMANDS = frozenset({"audit", "events", "nodes", "plan", "run", "top", "why"})
OF_OTHERS = frozenset(
    {
        *("is", "true", "null", "__main__", "__spec__"),
        *("backend_options", "start_tls", "stop"),  # anyio, asyncio, aiokafka
        *("leaderelection", "explain", "memory", "pods"),  # client-go, kubectl, resources
        *("_total", "id", "post", "node", "max_wait_s"),  # in names of metrics and keys of formats
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_COLOR", "IN_FLIGHT"),  # of the environment, in a usage
        *("TEST_ASSET_ETCD", "TEST_ASSET_KUBE_APISERVER"),
    }
)
"""What docstrings quote and no code of the module has."""


class Docstring(NamedTuple):
    """A docstring, and where it stands; `is_of_module` says that it describes a whole module."""

    place: str
    text: str
    is_of_module: bool


class Module(NamedTuple):
    """The docstrings of a module, and every other word of it."""

    docstrings: list[Docstring]
    names: frozenset[str]


def read_module(source: str, place: str, tree: ast.Module | None = None) -> Module:
    lines = source.splitlines()
    docstrings = []
    for text, is_of_module in docstrings_in(tree or ast.parse(source), is_of_module=True):
        docstrings.append(Docstring(f"{place}:{text.lineno}", str(text.value), is_of_module))
        for number in range(text.lineno - 1, text.end_lineno or text.lineno):
            lines[number] = ""
    return Module(docstrings, frozenset(WORD.findall("\n".join(lines))))


def docstrings_in(parent: ast.AST, *, is_of_module: bool) -> Iterator[tuple[ast.Constant, bool]]:
    """Yield the strings that stand alone in a body: of the whole, or of the attribute before."""
    body: list[ast.stmt] = getattr(parent, "body", [])
    for number, statement in enumerate(body):
        match statement:
            case ast.Expr(value=ast.Constant(value=str()) as text):
                yield text, is_of_module and number == 0
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.If():
                yield from docstrings_in(statement, is_of_module=False)


@cache
def modules() -> dict[Path, Module]:
    trees: Mapping[Path, ast.Module | None] = package_trees()
    trees = {**trees, **{path: None for room in OTHERS for path in (ROOT / room).rglob("*.py")}}
    return {
        path: read_module(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)), tree)
        for path, tree in sorted(trees.items())
    }


@cache
def all_names() -> frozenset[str]:
    stems = frozenset(path.stem for path in modules())
    return stems.union(*(module.names for module in modules().values()))


def unknown_names(module: Module) -> Iterator[str]:
    """Yield the names that docstrings quote, and that their module does not have.

    The docstring of a whole module may name what other modules have, as every docstring may name
    the exceptions of others.
    """
    here = module.names | COMMANDS | OF_OTHERS | sys.stdlib_module_names
    for docstring in module.docstrings:
        text = docstring.text
        wrong = {*QUOTED.findall(text), *CONSTANT.findall(text)} - here
        if docstring.is_of_module:
            wrong = wrong - all_names()  # to join the two would copy all names for each module
        wrong |= {
            word for found in RAISED.findall(text) for word in CAMEL.findall(found)
        } - all_names()
        yield from (f"{docstring.place}: {name}" for name in sorted(wrong))


def test_docstrings_name_parameters_fields_and_exceptions_that_there_are() -> None:
    wrong = [each for module in modules().values() for each in unknown_names(module)]
    assert wrong == []


def test_names_that_are_gone_are_found_in_every_kind_of_docstring() -> None:
    module = read_module(
        '"""Of `log_states`, and of `what_was_here`."""\n'
        "class Kept:\n"
        '    """Keeps `limit` of MOST_KEPT; see `plan`."""\n'
        "    limit: int\n"
        '    """Not `most`; `log_states` is another module\'s."""\n'
        "    def read(self, path):\n"
        '        """Read `path` as `key`; raises ConfigError, or RecordsGone."""\n'
        '        return self.limit["key"]\n',
        "m",
    )
    assert list(unknown_names(module)) == [
        "m:1: what_was_here",
        "m:3: MOST_KEPT",
        "m:5: log_states",
        "m:5: most",
        "m:7: RecordsGone",
    ]


def test_the_tree_of_exceptions_has_each_exception_below_its_base() -> None:
    drawn: dict[str, str] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").partition("\n\n")[2].splitlines():
        if found := re.match(r"([│ ├└─]*)([A-Z]\w+)(?: |$)", line):
            depth = len(found[1]) // 4
            root = "BaseException" if " a BaseException" in line else "Exception"
            drawn[found[2]] = above[depth - 1] if depth else root
            above[depth:] = [found[2]]
    defined = {
        name: each.__bases__[0].__name__
        for name, each in vars(errors).items()
        if isinstance(each, type) and each.__module__ == errors.__name__
    }
    assert drawn == defined


# --- first lines --------------------------------------------------------------------------------

RIDDLE = re.compile(r"^Take in\b|^Have \w|\banew\b|\bmust (?:still )?stand\b|\bstands? beside\b")
"""Words of first lines that say less than the plain one: record, apply, write, again, last."""

NOUN_CLAUSE = re.compile(
    r"^(?:What|Which|How|Where|Whether|When|Who|Why|Since when|From when|Of [a-z]+|If|So)\b"
)
"""How no first line begins: a verb says what a function does, a noun what a class is."""


def first_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the place of each docstring, and its first line."""
    for node in nodes_of(package_trees()[path]):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                place = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"
                yield place, text.partition("\n")[0]


def test_first_lines_of_docstrings_are_plain_and_none_is_a_noun_clause() -> None:
    found = [
        f"{place}: {line}"
        for path in package_trees()
        for place, line in first_lines(path)
        if RIDDLE.search(line) or NOUN_CLAUSE.match(line)
    ]
    assert found == []
