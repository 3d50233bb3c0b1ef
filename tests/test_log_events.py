"""Log events are sentences: what `event` says has a verb, however the call gets its text."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from types import MappingProxyType
from typing import NamedTuple

import pytest

from reactive_desched.controller.public_state import ControllerState
from tests.support.syntax import PACKAGE, nodes_of, package_trees

pytestmark = pytest.mark.syntax_trees

METHODS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})
LOGGERS = frozenset({"log", "_log", "logger", "getLogger"})
FUNCTIONS = frozenset({"log", "_log"})
"""Methods of a logger that a class was given as a function."""


AUXILIARY = re.compile(
    r"\b(?:is|are|was|were|be|been|has|have|had|does|do|did|can|cannot|could|will|would|must|may"
    r"|might)\b"
)
PAST = re.compile(
    r"\b(?:began|went|left|lost|gave|took|came|led|changed|engaged|failed|stopped|rejected)\b"
)
PARTICIPLE_FIRST = re.compile(r"^(?:not )?(?:[a-z]{2,}ed|made|sent|kept|read|written)\b")
"""`evicted`, `skipped an object`: the subject is the pod of a field, or the process."""

PARTICIPLE_LAST = re.compile(r"\b[a-z]{2,}ed$")
SINGULAR = re.compile(r"^(?:an?|the controller|reactive-desched)(?: \S+)*? [a-z]+[^su ]s\b")
"""`a plugin fails`: only behind a singular subject a word that ends in s is no plural."""

MODE = re.compile(r"^[a-z ]+: [a-z]+s [a-z]")
"""`live: evicts pods`."""

SHAPES = (AUXILIARY, PAST, PARTICIPLE_FIRST, PARTICIPLE_LAST, SINGULAR, MODE)
VALUE = "{}"
"""A value in a text. A text that is one value is a problem or a notice, which has its own tests."""


class Event(NamedTuple):
    """The text of a log call, and its place."""

    place: str
    text: str


def has_verb(text: str) -> bool:
    """Say whether a text has the shape of a sentence."""
    return text == VALUE or any(shape.search(text) for shape in SHAPES)


@dataclass
class Module:
    """One module of the package: follows the text of a log call to the literals it comes from."""

    place: str
    tree: ast.Module
    constants: dict[str, ast.expr]

    def __post_init__(self) -> None:
        self.bindings: dict[ast.AST, defaultdict[str, list[ast.expr]]] = {}

    @cached_property
    def parents(self) -> Mapping[ast.AST, ast.AST]:
        return {
            child: parent
            for parent in nodes_of(self.tree)
            for child in ast.iter_child_nodes(parent)
        }

    @cached_property
    def log_names(self) -> set[str]:
        """The names that any function assigns the method of a logger to."""
        return {
            name
            for node in nodes_of(self.tree)
            for name, value in assignments(node)
            if is_log_method(value)
        }

    def events(self) -> Iterator[Event]:
        for call in nodes_of(self.tree):
            if isinstance(call, ast.Call) and self._logs(call):
                for text in self._texts(call.args[0], call) if call.args else ():
                    yield Event(f"{self.place}:{call.lineno}", text)

    def _logs(self, call: ast.Call) -> bool:
        func = call.func
        if isinstance(func, ast.Name):  # log = self._log.info if ... else self._log.warning
            return func.id in self.log_names and any(map(is_log_method, self._bound(func.id, call)))
        return is_log_method(func) or (isinstance(func, ast.Attribute) and func.attr in FUNCTIONS)

    def _texts(self, text: ast.expr, at: ast.AST) -> Iterator[str]:
        match text:
            case ast.Constant(value=str(literal)):
                yield literal
            case ast.JoinedStr(values=parts):
                yield "".join(str(p.value) if isinstance(p, ast.Constant) else VALUE for p in parts)
            case ast.IfExp(body=body, orelse=orelse):
                yield from self._texts(body, at)
                yield from self._texts(orelse, at)
            case ast.Dict(values=values) | ast.Tuple(elts=values) | ast.List(elts=values):
                for each in values:
                    yield from self._texts(each, at)
            case ast.Subscript(value=table):
                yield from self._texts(table, at)
            case ast.Call(func=ast.Attribute(value=table, attr="get")):
                yield from self._texts(table, at)
            case ast.Name(id=name):
                yield from self._named(name, at)
            case _:
                yield VALUE

    def _named(self, name: str, at: ast.AST) -> Iterator[str]:
        bound = self._bound(name, at)
        if (function := self._function(at)) is not None and name in parameters(function):
            for call, argument in self._arguments(function, name):
                yield from self._texts(argument, call)
        elif bound:
            for each in bound:
                yield from self._texts(each, at)
        elif name in self.constants:
            yield from self._texts(self.constants[name], self.tree)
        else:
            yield VALUE

    def _bound(self, name: str, at: ast.AST) -> list[ast.expr]:
        """Return what the function around a node assigns to a name."""
        if (function := self._function(at)) is None:
            return []
        if (found := self.bindings.get(function)) is None:
            found = self.bindings[function] = defaultdict(list)
            for node in nodes_of(function):
                for bound, value in assignments(node):
                    found[bound].append(value)
        return found.get(name, [])

    def _arguments(
        self, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str
    ) -> Iterator[tuple[ast.Call, ast.expr]]:
        """Yield the calls of a function in this module with their argument of this name."""
        names = [each for each in parameters(function) if each != "self"]
        for call in nodes_of(self.tree):
            if not isinstance(call, ast.Call):
                continue
            args = list(call.args)
            if args and isinstance(args[0], ast.Name) and args[0].id == function.name:
                args = args[1:]  # group.start_soon(function, ...)
            elif not (
                isinstance(call.func, ast.Name | ast.Attribute)
                and function.name == getattr(call.func, "id", getattr(call.func, "attr", ""))
            ):
                continue
            for at, argument in enumerate(args):
                if isinstance(argument, ast.Starred):
                    yield call, argument.value
                elif at == names.index(name):
                    yield call, argument
            yield from ((call, each.value) for each in call.keywords if each.arg == name)

    def _function(self, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        while not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if (parent := self.parents.get(node)) is None:
                return None
            node = parent
        return node


def is_log_method(func: ast.expr) -> bool:
    """Say whether an expression is the method of a logger, such as `self._log.warning`."""
    match func:
        case ast.IfExp(body=body, orelse=orelse):
            return is_log_method(body) or is_log_method(orelse)
        case ast.Attribute(value=logger, attr=method):
            while isinstance(logger, ast.Call):
                logger = logger.func
            name = getattr(logger, "attr", getattr(logger, "id", ""))
            return method in METHODS and name in LOGGERS
    return False


def assignments(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the name that a node assigns to, if it is one, and the value."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            yield name, value
        case ast.NamedExpr(target=ast.Name(id=name), value=value):
            yield name, value


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    return [each.arg for each in (*function.args.args, *function.args.kwonlyargs)]


def module(
    tree: ast.Module, place: str, constants: Mapping[str, ast.expr] = MappingProxyType({})
) -> Module:
    return Module(place, tree, {**constants, **constants_of(tree)})


def constants_of(tree: ast.Module) -> dict[str, ast.expr]:
    found: dict[str, ast.expr] = {}
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found[name] = value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found[name] = value
    return found


@cache
def events() -> tuple[Event, ...]:
    constants: dict[str, ast.expr] = {}
    for tree in package_trees().values():
        constants.update(constants_of(tree))
    return tuple(
        event
        for path, tree in package_trees().items()
        for event in module(tree, str(path.relative_to(PACKAGE)), constants).events()
    )


def test_every_log_event_is_a_sentence_with_a_verb() -> None:
    assert [event for event in events() if not has_verb(event.text)] == []


def test_every_state_of_the_controller_is_a_sentence_with_a_verb() -> None:
    assert [state for state in ControllerState if not has_verb(state.sentence)] == []


def test_the_walk_finds_the_events_that_a_reader_meets() -> None:
    found = {event.text for event in events()}
    assert found >= {
        *("reactive-desched starts", "live: evicts pods", "the cluster is synced"),
        *("evicted", "would be evicted", "deferred", "refused", "decided to evict"),
        *("refused by a PodDisruptionBudget", "a migration job waits", "made a placeholder"),
        *("a brake engaged", "an Event was not written"),
    }


@pytest.mark.parametrize(
    "text",
    [
        *("moving pods", "brakes", "found", "cluster", "API server", "serving", "policy in force"),
        *("eviction limits", "the eviction limits", "warning of the Kafka client", "measuring"),
        *("another cluster", "waiting for the API server", "stopping", "a bus", "a policy status"),
    ],
)
def test_a_noun_or_a_gerund_is_no_sentence(text: str) -> None:
    assert not has_verb(text)


@pytest.mark.parametrize(
    "body",
    [
        'log.info("brakes")',
        'self._log.warning("brakes" if x else "stopped leading")',
        'logger("x").info("brakes", pod=1)',
        'text = "brakes"\n    deps.log.info(text)',
        'write = log.info if x else log.warning\n    write("brakes")',
        '(log.info if x else log.warning)("brakes")',
        "log.info(TABLE[x])",
        "if (done := TABLE.get(x)) is not None:\n        log.info(done)",
        'self.write(1, "brakes")',
        "group.start_soon(follow, 1, *TEXTS)",
    ],
)
def test_a_noun_is_found_however_the_call_gets_it(body: str) -> None:
    source = (
        f'TABLE = {{1: "brakes"}}\nTEXTS = ("brakes",)\ndef f(x):\n    {body}\n'
        "def write(self, number, event):\n    self._log.info(event)\n"
        "def follow(number, event):\n    log.info(event)\n"
    )
    assert "brakes" in {event.text for event in module(ast.parse(source), "m").events()}
