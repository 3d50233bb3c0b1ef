"""The words of docs/explain/glossary.md: code, messages, pages and test names use plain ones."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.syntax import PACKAGE, ROOT, nodes_of, package_trees

pytestmark = pytest.mark.syntax_trees

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *(page for page in ROOT.glob("docs/**/*.md") if page.parent.name != "adr"),  # not edited later
    *(page for top in ("changes", "deploy", "examples") for page in ROOT.glob(f"{top}/**/*.md")),
    *PACKAGE.rglob("*.toml"),
    *(ROOT / "deploy").rglob("*.yaml"),
    *(ROOT / "deploy").rglob("*.json"),
    *(page for top in ("bench", "tools") for page in (ROOT / top).rglob("*.py")),
    *(page for end in ("py", "sh", "html") for page in (ROOT / "examples").rglob(f"*.{end}")),
]
GLOSSARY = ROOT / "docs" / "explain" / "glossary.md"
BANNED_WORDS = (
    *("told", "untold", "tell", "tells", "telling", "hear", "hears", "heard", "poke", "pokes"),
    "knows",
    *("nobody", "anybody", "somebody", "someone", "everybody", "everyone", "whoever"),
    *("thing", "things", "news", "dust", "mother", "hold back", "holds back", "held back"),
    "holding back",
)
BANNED = re.compile(rf"(?<![a-z])({'|'.join(BANNED_WORDS)})(?![a-z])", re.IGNORECASE)
MAIN_PATH = {
    *("reflector", "store", "change", "index", "subject", "debounce", "evaluator", "worker"),
    *("wakeup", "profile", "finding", "evaluation", "filter", "evictable", "node fit", "gate"),
    *("decision", "intent", "outcome", "readiness", "recorder", "record", "sink", "sink runner"),
    *("usage", "sample", "futile", "reservation", "brake", "guard"),
}
TEST_NAME = re.compile(r"^ *(?:(?:async )?def|class) ([Tt]est\w+)", re.MULTILINE)
QUOTED = re.compile(r"`[^`]*`")


class Sources(NamedTuple):
    """What one walk over the package's syntax trees finds."""

    texts: list[tuple[str, str]]
    """Where each identifier and string stands, and its words."""

    classes: dict[str, set[Path]]
    """The modules outside the simulator that define a class, by its name."""


@cache
def sources() -> Sources:
    found = Sources([], defaultdict(set))
    for path, tree in package_trees().items():
        place = path.relative_to(PACKAGE)
        for node in nodes_of(tree):
            for text in texts_of(node):
                found.texts.append((f"{place}:{getattr(node, 'lineno', 1)}", text))
            if isinstance(node, ast.ClassDef) and place.parts[0] != "sim":
                found.classes[node.name].add(place)
    return found


def texts_of(node: ast.AST) -> Iterator[str]:
    """Yield the identifier that a node binds, or the string that it is, as words."""
    match node:
        case ast.Constant(value=str(text)):  # docstrings, log lines, help, messages
            yield text.replace("_", " ")
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name.replace("_", " ")
        case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
            yield name.replace("_", " ")
        case ast.Attribute(attr=name, ctx=ast.Store()):
            yield name.replace("_", " ")


def banned(place: str, text: str) -> Iterator[str]:
    for word in BANNED.finditer(text):
        yield f"{place}: {word.group()}: {text[max(0, word.start() - 40) : word.end() + 40]}"


def test_identifiers_docstrings_and_messages_use_no_banned_word() -> None:
    found = [each for place, text in sources().texts for each in banned(place, text)]

    assert len(sources().texts) > 10_000
    assert found == []


def test_pages_use_no_banned_word() -> None:
    found = [
        each
        for page in PAGES
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        for each in banned(f"{page.relative_to(ROOT)}:{number}", QUOTED.sub("", line))
    ]

    assert GLOSSARY in PAGES
    assert found == []


def test_test_names_use_no_banned_word() -> None:
    found = [
        each
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for name in TEST_NAME.findall(path.read_text(encoding="utf-8"))
        for each in banned(str(path.relative_to(ROOT)), name.replace("_", " "))
    ]

    assert found == []


def test_the_glossary_lists_the_banned_words() -> None:
    listed = GLOSSARY.read_text(encoding="utf-8").partition("A lint")[2]

    assert [word for word in BANNED_WORDS if f"`{word}`" not in listed] == []


def test_the_glossary_explains_the_words_of_the_main_path() -> None:
    rows = re.findall(r"^\| ([^|]+) \|", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    explained = {word for row in rows for word in re.split(r"[,:] ", row)}

    assert explained >= MAIN_PATH


def test_the_lint_finds_words_in_every_kind_of_text() -> None:
    for code in (
        'log.info("a pod was told")',
        'parser.add_argument("x", help="asks whoever is there")',
        "def tell_all(self): pass",
        "def f(thing): pass",
        "self.news = 1",
        'def f():\n    """Nobody knows."""',
    ):
        texts = [text for node in ast.walk(ast.parse(code)) for text in texts_of(node)]
        assert [each for text in texts for each in banned("x", text)], code


def test_no_two_public_classes_have_one_name() -> None:
    public = {name: at for name, at in sources().classes.items() if not name.startswith("_")}

    assert len(public) > 500
    assert {name: at for name, at in public.items() if len(at) > 1} == {}
