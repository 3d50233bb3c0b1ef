"""The structure of the package: no circles of imports, no assignments to other objects."""

import ast
import inspect
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from types import FunctionType, ModuleType

import pytest

from tests.support.syntax import PACKAGE, ROOT, nodes_of, package_trees

pytestmark = pytest.mark.syntax_trees

Sources = Mapping[str, ast.Module]  # by the names of modules, as `reactive_desched.model.pods`


@cache
def package_sources() -> Sources:
    """Return every module of the package by its name."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): tree
        for path, tree in package_trees().items()
    }


# --- circles of imports -------------------------------------------------------------------------


def imported_modules(tree: ast.Module, known: Sources) -> Iterator[str]:
    """Yield what a module imports: at its top, in functions, and for types alone."""
    for node in nodes_of(tree):
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


# --- internals of libraries ---------------------------------------------------------------------

INTERNALS = {
    "kube/client/cluster_guard.py": {"aiohttp.client_proto"},  # aio-libs/aiohttp#434
    "kube/client/raw_http.py": {"aiohttp.client_proto"},
    "sinks/kafka/producer.py": {"_sender", "_closed", "_get_conn_lock"},  # aio-libs/aiokafka#1101
    "cli/commands.py": {"_SubParsersAction"},  # python/cpython#101503
    "app/config_reload.py": {"_current_frames"},  # of sys, and documented
}
"""What has no public door, by the file that goes by it; pyproject.toml bounds these libraries."""

UNDOCUMENTED = ("aiohttp.client_proto", "aiohttp.client_reqrep", "aiohttp.http_writer")
_PRIVATE_OF_ANOTHER = re.compile(r"\.(_[A-Za-z]\w*)\b[^#\n]*# noqa: SLF001")


def internals(text: str) -> Iterator[str]:
    """Yield the undocumented modules and the private attributes that a file goes by."""
    yield from (each for each in UNDOCUMENTED if f"from {each} import" in text)
    yield from _PRIVATE_OF_ANOTHER.findall(re.sub(r"\bself\._\w+", "own", text))


def test_only_what_has_no_public_door_goes_by_the_internals_of_a_library() -> None:
    texts = {
        str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8")
        for path in PACKAGE.rglob("*.py")
    }

    found = {name: set(internals(text)) for name, text in texts.items() if any(internals(text))}
    assert found == INTERNALS


HOOKS = {
    "CommandParser._check_value",
    "CommandParser._get_value",
    "_ParagraphFormatter._fill_text",
}
"""Private methods of a library that are overridden: argparse has no public ones for these."""


def private_overrides(module: ModuleType) -> Iterator[str]:
    """Yield the methods of a module's classes that stand in place of private ones of a library."""
    for kind in vars(module).values():
        if not isinstance(kind, type) or kind.__module__ != module.__name__:
            continue
        foreign = [base for base in kind.__mro__ if not base.__module__.startswith(PACKAGE.name)]
        for name, value in vars(kind).items():
            own = isinstance(value, FunctionType) and value.__module__ == module.__name__
            if own and re.match("_[a-z]", name) and any(name in vars(base) for base in foreign):
                yield f"{kind.__name__}.{name}"


def package_modules() -> Iterator[ModuleType]:
    return (import_module(name) for name in package_sources() if not name.endswith("__main__"))


def test_only_the_parser_of_commands_overrides_private_methods_of_a_library() -> None:
    assert {name for module in package_modules() for name in private_overrides(module)} == HOOKS


INHERITED = {
    "CommandParser._actions",
    "CommandParser._negative_number_matcher",
    "CommandParser._option_string_actions",
}
"""Private attributes of a library's class that one of ours, derived from it, reads or sets.

argparse has no public name for what a parser takes (python/cpython#144932), nor for what it reads
as a negative number. Each Python that is supported has them; `make test-pythons` tries them.
"""

_OWN_ATTRIBUTE = re.compile(r"\bself\.(_[a-z]\w*)")


@cache
def own_attributes(kind: type) -> frozenset[str]:
    """Return the private attributes that the methods of a class use; none if it is not Python."""
    with suppress(OSError, TypeError):
        return frozenset(_OWN_ATTRIBUTE.findall(inspect.getsource(kind)))
    return frozenset()


def inherited_attributes(module: ModuleType) -> Iterator[str]:
    """Yield the private attributes of a library that classes of a module have by inheritance."""
    for kind in vars(module).values():
        if not isinstance(kind, type) or kind.__module__ != module.__name__:
            continue
        bases = (base for base in kind.__mro__[1:] if not base.__module__.startswith(PACKAGE.name))
        theirs = frozenset[str]().union(*map(own_attributes, bases))
        for name in theirs and own_attributes(kind) & theirs:
            if f"{kind.__name__}.{name}" not in HOOKS:
                yield f"{kind.__name__}.{name}"


def test_only_the_parser_of_commands_goes_by_what_a_library_hides_in_a_base_class() -> None:
    found = {name for module in package_modules() for name in inherited_attributes(module)}

    assert found == INHERITED


def test_no_other_room_reaches_through_the_controls_that_the_controller_has() -> None:
    through = re.compile(r"\w*controller\.gates\b")
    rooms = {
        path.relative_to(PACKAGE).parts[0]
        for path in PACKAGE.rglob("*.py")
        if through.search(path.read_text(encoding="utf-8"))
    }

    assert rooms == {"controller"}


INTERNAL_OF_TEST_TOOLS = re.compile(
    r"^ *(?:from|import) ((?:_pytest|xdist|hypothesis\.internal)\b[\w.]*)|\b(trio)\._core\b",
    re.MULTILINE,
)


def test_tests_go_by_no_internals_of_pytest_and_by_one_of_hypothesis_and_of_trio() -> None:
    found = {
        str(path.relative_to(ROOT)): {
            "".join(each) for each in INTERNAL_OF_TEST_TOOLS.findall(text)
        }
        for path in (ROOT / "tests").rglob("*.py")
        if INTERNAL_OF_TEST_TOOLS.search(text := path.read_text(encoding="utf-8"))
    }

    assert found == {
        "tests/conftest.py": {"hypothesis.internal.conjecture"},
        "tests/support/trio_order.py": {"trio"},  # draws the order of tasks
    }


# --- assignments to other objects ---------------------------------------------------------------

FOREIGN = {
    "cli/completion.py": {"complete", "choices"},  # what an argument may name, as shtab has it
    "journal/journal.py": {"deadline"},  # a cancel scope of anyio gets its time limit late
    "journal/reader.py": {"filename"},  # an OSError of a read names no file
    "sinks/kafka/client_log.py": {"propagate"},  # a switch of `logging`
    "sinks/kafka/producer.py": {"_closed"},  # aiokafka has no public way to give up
}
"""Attributes of objects of other libraries that have no other door, by the file that sets them."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def assigned_attributes(tree: ast.AST) -> Iterator[ast.Attribute]:
    """Yield each attribute that is assigned, incremented or deleted, wherever that is done."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            yield node


def is_own(attribute: ast.Attribute) -> bool:
    """Say whether an attribute is assigned by its own object or class."""
    return isinstance(attribute.value, ast.Name) and attribute.value.id in ("self", "cls")


def declared_attributes(tree: ast.Module) -> set[str]:
    """Return the attributes that the classes of a module declare, or assign to themselves."""
    declared: set[str] = set()
    for node in nodes_of(tree):
        if isinstance(node, ast.ClassDef):
            fields = (each.target for each in node.body if isinstance(each, ast.AnnAssign))
            declared |= {each.id for each in fields if isinstance(each, ast.Name)}
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_own(node):
            declared.add(node.attr)
    return declared


def made_here(tree: ast.Module) -> set[int]:
    """Return the lines that assign to an object which a call of the same function returned."""
    lines: set[int] = set()
    for function in nodes_of(tree):
        if isinstance(function, Function):
            made = {
                target.id
                for node in nodes_of(function)
                if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
                for target in node.targets
                if isinstance(target, ast.Name)
            }
            lines |= {
                each.lineno
                for each in assigned_attributes(function)
                if isinstance(each.value, ast.Name) and each.value.id in made
            }
    return lines


def assignments_to_others(sources: Sources) -> list[str]:
    """Return what is assigned to an object outside of the module that declares the attribute.

    An object of another library may be set up by the function that made it.
    """
    declared = {name: declared_attributes(tree) for name, tree in sources.items()}
    ours: set[str] = set().union(*declared.values())
    found: list[str] = []
    for name, tree in sources.items():
        known = declared[name] | FOREIGN.get("/".join(name.split(".")[1:]) + ".py", set())
        others = [each for each in assigned_attributes(tree) if not is_own(each)]
        if others := [each for each in others if each.attr not in known]:
            made = made_here(tree)
            found += (
                f"{name}:{each.lineno}: {ast.unparse(each)}"
                for each in others
                if each.attr in ours or each.lineno not in made
            )
    return found


def test_an_attribute_is_assigned_only_in_the_module_that_declares_it() -> None:
    assert assignments_to_others(package_sources()) == []


def test_each_foreign_attribute_is_assigned_where_the_list_says() -> None:
    sources = package_sources()
    for path, names in FOREIGN.items():
        tree = sources["reactive_desched." + path.removesuffix(".py").replace("/", ".")]
        assert names <= {each.attr for each in assigned_attributes(tree) if not is_own(each)}


def test_assignments_to_objects_of_other_modules_are_found() -> None:
    texts = {
        "p.counts": "class Counts:\n    sent: int = 0\ndef reset(counts):\n    counts.sent = 0",
        "p.own": "class Own:\n    def __init__(self):\n        self.kept = 1",
        "p.late": "counts.sent = 1",
        "p.deep": "class A:\n    def f(self):\n        self.counts.sent += 1",
        "p.pair": "def f():\n    own = Own()\n    own.kept, x = 1, 2",
        "p.loop": "for own.kept in range(3):\n    pass",
        "p.foreign": "def f():\n    made = foreign()\n    made.switch = 1\n    given.switch = 1",
    }
    found = assignments_to_others({name: ast.parse(text) for name, text in texts.items()})
    assert found == [
        "p.late:1: counts.sent",
        "p.deep:3: self.counts.sent",
        "p.pair:3: own.kept",
        "p.loop:1: own.kept",
        "p.foreign:4: given.switch",
    ]


# --- nothing is patched -------------------------------------------------------------------------


def imported_names(tree: ast.AST) -> set[str]:
    """Return the names that imports bind in a module, wherever they stand."""
    return {
        (each.asname or each.name).partition(".")[0]
        for node in nodes_of(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for each in node.names
    }


def root_of(node: ast.AST) -> str:
    """Return the name that a chain of attributes, subscripts and calls of `vars` begins with."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value) | ast.Subscript(value=value) | ast.Starred(value=value):
            return root_of(value)
        case ast.Call(func=ast.Name(id="vars" | "globals" | "getattr"), args=[first, *_]):
            return root_of(first)
    return ""


def is_namespace(node: ast.AST) -> bool:
    """Say whether an expression is the dictionary of an object, or that of all modules."""
    match node:
        case ast.Attribute(attr="__dict__") | ast.Call(func=ast.Name(id="vars")):
            return True
        case ast.Attribute(value=ast.Name(id="sys"), attr="modules") | ast.Name(id="modules"):
            return True
    return False


SETTERS = ("setattr", "delattr", "__setattr__", "__delattr__")
WRITERS = ("update", "setdefault", "pop", "popitem", "clear", "__setitem__", "__delitem__")


def patched(tree: ast.AST) -> Iterator[str]:
    """Yield what changes an imported module, class or function, or the table of modules."""
    imported = imported_names(tree)
    for node in nodes_of(tree):
        match node:
            case ast.Attribute(ctx=ast.Store() | ast.Del()):
                changes = root_of(node) in imported
            case ast.Subscript(value=value, ctx=ast.Store() | ast.Del()) if is_namespace(value):
                changes = root_of(value) in imported
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[first, *_]) if (
                name in SETTERS
            ):
                changes = root_of(first) in imported
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in WRITERS:
                changes = is_namespace(value) and root_of(value) in imported
            case ast.ImportFrom(module="unittest.mock") | ast.alias(name="unittest.mock"):
                changes = True
            case _:
                changes = False
        if changes:
            yield ast.unparse(node)


def test_no_module_changes_a_library_or_python_itself() -> None:
    found = {name: list(patched(tree)) for name, tree in package_sources().items()}
    assert {name: each for name, each in found.items() if each} == {}


def test_changes_of_what_is_imported_are_found() -> None:
    text = """
import re, ssl, sys
from sys import modules
import a.b as c
from unittest.mock import patch

re.compile = later
ssl.SSLContext.set_default_verify_paths = later
del re.compile
(x, c.switch) = 1, 2
c.count += 1
sys.modules["secrets"] = stand_in
modules["secrets"] = stand_in
del sys.modules["secrets"]
sys.modules.pop("secrets")
vars(re)["compile"] = later
re.__dict__["compile"] = later
vars(re).update(compile=later)
setattr(re, "compile", later)
type.__setattr__(ssl.SSLContext, "verify_mode", 0)

def late():
    import typing
    typing.TypedDict = dict

own.kept = 1
self.kept = re.compile("a")
own["secrets"] = vars(re)["compile"]
os.environ["A"] = "b"
setattr(own, "kept", re.compile)
"""
    assert sorted(patched(ast.parse(text))) == sorted(
        [
            "from unittest.mock import patch",
            "re.compile",
            "re.compile",
            "ssl.SSLContext.set_default_verify_paths",
            "c.switch",
            "c.count",
            "sys.modules['secrets']",
            "modules['secrets']",
            "sys.modules['secrets']",
            "sys.modules.pop('secrets')",
            "vars(re)['compile']",
            "re.__dict__['compile']",
            "vars(re).update(compile=later)",
            "setattr(re, 'compile', later)",
            "type.__setattr__(ssl.SSLContext, 'verify_mode', 0)",
            "typing.TypedDict",
        ]
    )


# --- the import contracts of pyproject.toml -----------------------------------------------------


def rooms() -> set[str]:
    """Return the packages and modules that lie in the root of the package."""
    found = {"reactive_desched." + path.stem for path in PACKAGE.iterdir() if path.suffix == ".py"}
    found |= {"reactive_desched." + path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    return found - {"reactive_desched.__init__"}


def contract(name: str) -> dict[str, list[str]]:
    """Return the import contract whose name begins like this."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    [found] = [each for each in contracts if each["name"].startswith(name)]
    assert isinstance(found, dict)
    return found


def test_every_room_is_held_to_import_no_test_support() -> None:
    held = contract("Nothing shipped imports test support")
    assert {*held["source_modules"], *held["forbidden_modules"]} == rooms()


def test_every_room_but_the_demo_is_held_to_import_no_simulator() -> None:
    held = contract("Only the commands sim and demo import the simulator")
    assert {*held["source_modules"], *held["forbidden_modules"]} == rooms()


def test_every_room_but_the_model_and_what_lies_below_is_forbidden_to_the_simulator() -> None:
    held = contract("The simulator imports only the model")
    names = ("model", "text", "primitives", "errors", "_version")
    below = {f"reactive_desched.{name}" for name in names}
    assert {*held["source_modules"], *held["forbidden_modules"]} == rooms() - below


def test_every_room_has_its_row_in_the_architecture() -> None:
    page = (ROOT / "docs" / "explain" / "architecture.md").read_text(encoding="utf-8")
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert {name for name in packages if f"\n| `{name}/` |" not in page} == set()


# --- nesting ------------------------------------------------------------------------------------

MOST_NESTED = 4
BLOCKS = (ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith, ast.Try, ast.Match)
STATEMENTS = (ast.stmt, ast.excepthandler, ast.match_case)


def nesting(node: ast.AST, depth: int = 0) -> int:
    """Return how deep the blocks of a function lie in each other; `elif` adds nothing."""
    deepest = depth
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, STATEMENTS):
            continue
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and node.orelse == [child]
        is_deeper = isinstance(child, BLOCKS) and not is_elif
        deepest = max(deepest, nesting(child, depth + is_deeper))
    return deepest


def test_no_function_nests_its_blocks_deeper_than_four() -> None:
    found = [
        f"{name}:{node.lineno}: {node.name}"
        for name, tree in package_sources().items()
        for node in nodes_of(tree)
        if isinstance(node, Function) and nesting(node) > MOST_NESTED
    ]
    assert found == []


def test_nesting_is_counted() -> None:
    text = "def f():\n for a in b:\n  if a:\n   pass\n  elif b:\n   with c:\n    pass"
    assert nesting(ast.parse(text)) == 3


# --- length -------------------------------------------------------------------------------------

MOST_LINES = 50
LONGER = {
    "reactive_desched.app.controller.open_controller",  # every asynchronous edge, on one screen
    "reactive_desched.cli.sim.add",  # the flags of a command, with their help
}


def test_no_function_is_longer_than_a_screen() -> None:
    long = {
        f"{name}.{node.name}"
        for name, tree in package_sources().items()
        for node in nodes_of(tree)
        if isinstance(node, Function) and node.name != "__init__"  # which lists what there is
        if (node.end_lineno or 0) - node.lineno > MOST_LINES
    }
    assert long == LONGER


# --- shared rooms -------------------------------------------------------------------------------


def test_each_module_of_primitives_serves_two_rooms_or_more() -> None:
    sources = package_sources()
    users: dict[str, set[str]] = {
        name: set() for name in sources if name.startswith("reactive_desched.primitives.")
    }
    for name, tree in sources.items():
        room = name.split(".")[1] if "." in name else name
        for each in imported_modules(tree, sources):
            if each in users and room != "primitives":
                users[each].add(room)
    assert {name: found for name, found in users.items() if not len(found) > 1} == {}


# --- code of other packages ---------------------------------------------------------------------

NOT_WATCHED: Mapping[str, str] = {
    "reactive_desched.policy.arguments._decode": "what it calls is watched",
    "reactive_desched.policy.settings.installed_sections.decode_settings": "as above",
    "reactive_desched.state.index_registry.keep": "what it calls is watched",
    "reactive_desched.state.pods._call_hooks_for": "what it calls is watched",
}
"""What isolates faults of other packages, and is no place at which a call that hangs is ended."""

ISOLATES = frozenset({"is_fault", "faults_as", "blamed"})


def isolating_functions(sources: Sources) -> Iterator[tuple[str, set[str]]]:
    """Yield the functions that isolate what other code raises, with their decorators."""
    for module, tree in sources.items():
        for node in nodes_of(tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            calls = (each.func for each in ast.walk(node) if isinstance(each, ast.Call))
            if ISOLATES & {each.id for each in calls if isinstance(each, ast.Name)}:
                marks = {each.id for each in node.decorator_list if isinstance(each, ast.Name)}
                yield f"{module}.{node.name}", marks


def test_a_call_of_another_package_that_hangs_is_ended_wherever_its_faults_are_isolated() -> None:
    found = {
        name
        for name, marks in isolating_functions(package_sources())
        if not marks & {"calls_foreign_code", "contextmanager"}
    }
    assert found == NOT_WATCHED.keys()
