"""Sentences that tests expect stand in golden files, of which each part has its test."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.golden import Golden, GoldenFile, golden_parts, renew_unequal
from tests.support.syntax import walked

TESTS = Path(__file__).parent
FEWEST_WORDS = 6
WORD = re.compile(r"[A-Za-z]?[a-z]*(?:['-][a-z]+)*$")
AROUND_WORDS = "\"'`.,;:()[]{}<>!?…|*\\"
SMALL_WORDS = {
    *("a", "an", "the", "is", "are", "be", "was", "were", "has", "have", "had", "not", "no", "nor"),
    *("of", "to", "in", "on", "by", "for", "with", "and", "or", "that", "this", "it", "its", "as"),
    *("at", "from", "than", "there", "which", "cannot", "can", "may", "must", "will", "would"),
    *("one", "only", "but", "if", "when"),
}
"""English has one of these in nearly every sentence; a list of names has none."""

TEXT_METHODS = {"startswith", "endswith", "index", "count", "partition", "search", "fullmatch"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def is_sentence(text: str) -> bool:
    """Say whether a text has six English words or more."""
    if len(split := text.split()) < FEWEST_WORDS:
        return False
    words = [word.strip(AROUND_WORDS) for word in split]
    words = [word.lower() for word in words if word and WORD.match(word)]
    return len(words) >= FEWEST_WORDS and not SMALL_WORDS.isdisjoint(words)


def is_expectation(call: ast.Call) -> bool:
    """Say whether what a call is given is compared: by a method of texts, or as part of a value.

    What another function is given is the input of a test. `verbatim` marks texts of other programs.
    """
    name = ast.unparse(call.func).rpartition(".")[2]
    return name in TEXT_METHODS or name[:1].isupper() or name in ("param", "dict", "escape")


def texts(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each string that an expression expects."""
    match node:
        case ast.Constant(value=str(text)):
            yield node.lineno, text
        case ast.JoinedStr(values=values):
            fixed = (each.value if isinstance(each, ast.Constant) else "x1" for each in values)
            yield node.lineno, "".join(map(str, fixed))
        case ast.Call() if not is_expectation(node):
            yield from texts(node.func)
        case _:
            for child in ast.iter_child_nodes(node):
                is_id = isinstance(child, ast.keyword) and child.arg in ("id", "ids")
                yield from () if is_id else texts(child)


def compared_names(function: Function) -> set[str]:
    """Return the names that a function compares with something in an assertion."""
    names: set[str] = set()
    for node in walked(function):
        if isinstance(node, ast.Assert):
            names |= {name for each in walked(node.test) for name in operands(each)}
        elif isinstance(node, ast.keyword) and node.arg == "match":
            names |= set(plain_names(node.value))
    return names


def operands(node: ast.AST) -> Iterator[str]:
    """Yield the names on the sides of a comparison, or in the call of a method of texts."""
    if isinstance(node, ast.Compare):
        for side in (node.left, *node.comparators):
            yield from plain_names(side)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        for each in node.args if node.func.attr in TEXT_METHODS else ():
            yield from plain_names(each)


def plain_names(node: ast.AST) -> Iterator[str]:
    """Yield the names of which an expression is made without a call of anything but a class."""
    if isinstance(node, ast.Name):
        yield node.id
    elif not isinstance(node, ast.Attribute | ast.Subscript) and (
        not isinstance(node, ast.Call) or is_expectation(node)
    ):
        for child in ast.iter_child_nodes(node):
            yield from plain_names(child)


def assigned(body: list[ast.stmt], names: set[str]) -> Iterator[ast.expr]:
    """Yield what is assigned to these names."""
    for node in body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in names:
                yield value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield from (value,) if name in names else ()


def parameters(function: Function, names: set[str]) -> Iterator[ast.expr]:
    """Yield the values that `parametrize` gives to these arguments of a test."""
    for node in function.decorator_list:
        match node:
            case ast.Call(
                func=ast.Attribute(attr="parametrize"), args=[given, ast.List(elts=rows)]
            ):
                arguments = re.findall(r"\w+", ast.unparse(given))
                for row in rows:
                    yield from row_values(row, arguments, names)


def row_values(row: ast.expr, arguments: list[str], names: set[str]) -> Iterator[ast.expr]:
    values = [row]
    if isinstance(row, ast.Call):
        values = row.args
    elif isinstance(row, ast.Tuple) and len(arguments) > 1:
        values = row.elts
    for name, value in zip(arguments, values, strict=False):
        if name in names:
            yield value


def expectations(tree: ast.Module, nodes: list[ast.AST]) -> Iterator[ast.expr]:
    """Yield the expressions that a module of tests, of these nodes, expects."""
    functions = [node for node in nodes if isinstance(node, Function)]
    compared = {function.name: compared_names(function) for function in functions}
    for function in functions:
        names = compared[function.name]
        if names:
            yield from assigned(list(walked(function)), names)  # type: ignore[arg-type]
            yield from assigned(tree.body, names)
        yield from parameters(function, names)
    arguments = {function.name: [each.arg for each in function.args.args] for function in functions}
    for node in nodes:
        match node:
            case ast.Assert(test=test):
                yield test
            case ast.keyword(arg="match", value=value):
                yield value
            case ast.Call(func=ast.Name(id=name), args=given) if name in compared:
                for argument, value in zip(arguments[name], given, strict=False):
                    yield from (value,) if argument in compared[name] else ()


def has_sentence(nodes: list[ast.AST]) -> bool:
    """Say whether any string but the docstrings is a sentence."""
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    strings = (each for each in nodes if isinstance(each, ast.Constant | ast.JoinedStr))
    others = (each for each in strings if id(each) not in docstrings)
    return any(is_sentence(text) for each in others for _, text in texts(each))


def sentences(tree: ast.Module) -> set[tuple[int, str]]:
    """Return the line and the text of each sentence that a module of tests expects."""
    nodes = list(walked(tree))
    if not has_sentence(nodes):  # which is cheaper to see
        return set()
    return {
        (line, text)
        for expected in expectations(tree, nodes)
        for line, text in texts(expected)
        if is_sentence(text)
    }


def read_modules() -> Iterator[tuple[Path, str]]:
    """Yield every module of tests and of their support, and its source."""
    for path in sorted(TESTS.rglob("*.py")):
        yield path, path.read_text(encoding="utf-8")


def titles_of(source: str) -> set[str]:
    """Return what the titles of a module's golden file may begin with."""
    names = re.findall(r"^ *(?:async )?def (\w+)", source, re.MULTILINE)
    shared = re.findall(r"golden\.shared\(\s*['\"]([^'\"]+)['\"]", source)
    return {name.removeprefix("test_").replace("_", " ") for name in names} | set(shared)


def test_sentences_are_expected_in_golden_files_alone() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{line}: {text}"
        for path, source in read_modules()
        for line, text in sorted(sentences(ast.parse(source)))
        if path != Path(__file__)  # whose samples are sentences
    ]

    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("def test_a():\n assert x == 'S'", id="in a comparison"),
        pytest.param("def test_a():\n assert 'S' in x", id="a part of a text"),
        pytest.param("def test_a():\n assert x.startswith('S')", id="the start of a text"),
        pytest.param("def test_a():\n assert x == [Outcome('S')]", id="in a value"),
        pytest.param("def test_a():\n assert x == f'{path}: S'", id="with a value in it"),
        pytest.param("def test_a():\n with pytest.raises(E, match='S'): f()", id="of an error"),
        pytest.param("def test_a():\n why = 'S'\n assert x == (1, why)", id="in a variable"),
        pytest.param("S = 'S'\ndef test_a():\n assert x == S", id="in a constant"),
        pytest.param(
            "@pytest.mark.parametrize(('a', 'b'), [(1, 'S')])\ndef test_a(a, b):\n assert b in x",
            id="in a row",
        ),
        pytest.param(
            "@pytest.mark.parametrize('b', ['S'])\ndef test_a(b):\n assert f(1) == b",
            id="in a row of one",
        ),
        pytest.param(
            "@pytest.mark.parametrize('b', [pytest.param('S', id='s')])\n"
            "def test_a(b):\n with pytest.raises(E, match=b): f()",
            id="in a named row",
        ),
        pytest.param(
            "def check(x, said):\n assert said in x\ndef test_a():\n check(1, 'S')",
            id="for a function that asserts",
        ),
    ],
)
def test_an_expected_sentence_is_found(source: str) -> None:
    sentence = "the pod has no node to go to"
    found = sentences(
        ast.parse(source.replace("'S'", f"'{sentence}'").replace(" S'", f" {sentence}'"))
    )

    assert [sentence in text for _, text in found] == [True]


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("def test_a():\n assert read('S') == 1", id="what a function reads"),
        pytest.param("def test_a():\n assert x == verbatim('S')", id="a text of another program"),
        pytest.param("def test_a():\n assert x, 'S'", id="what a failure says"),
        pytest.param("def test_a():\n text = 'S'\n assert read(text) == 1", id="an input"),
        pytest.param(
            "@pytest.mark.parametrize('b', [pytest.param(1, id='S')])\n"
            "def test_a(b):\n assert x == b",
            id="the name of a case",
        ),
    ],
)
def test_a_sentence_that_no_test_expects_may_stand_in_it(source: str) -> None:
    assert sentences(ast.parse(source.replace("'S'", "'the pod has no node to go to'"))) == set()


def test_a_list_of_names_and_five_words_are_no_sentence() -> None:
    assert not is_sentence("fit gate kube plan state sweep usage")
    assert not is_sentence("the pod has no node")
    assert is_sentence("the pod has no node (yet), it waits")


# --- golden files -------------------------------------------------------------------------------


def test_each_part_of_a_golden_file_belongs_to_a_test_of_its_module() -> None:
    files = sorted(TESTS.rglob("golden/*.txt"))
    modules = dict(read_modules())
    stray: list[str] = []
    for file in files:
        known = titles_of(modules.get(file.parents[1] / f"test_{file.stem}.py", ""))
        titles = [re.split(r" \[|: ", title)[0] for title, _ in golden_parts(file)]
        stray += [f"{file.relative_to(TESTS)}: {title}" for title in titles if title not in known]

    assert len(files) > 100
    assert stray == []


def test_no_two_parts_of_a_golden_file_have_one_title() -> None:
    for file in TESTS.rglob("golden/*.txt"):
        titles = [title for title, _ in golden_parts(file)]
        assert len(titles) == len(set(titles)), file


# --- the fixture --------------------------------------------------------------------------------


def a_file(folder: Path, *parts: tuple[str, str]) -> GoldenFile:
    file = GoldenFile(folder / "golden" / "x.txt")
    file.texts.update(parts)
    file.write()
    return file


def test_a_text_has_values_in_place_of_their_names(tmp_path: Path) -> None:
    golden = Golden(a_file(tmp_path, ("a test", "{path}: {} gone")), "a test", "", writing=False)

    assert golden(path="/a") == "/a: {} gone"
    assert golden(path="/b") + "\n" in "x\n/b: {} gone\n"


def test_a_case_without_a_text_of_its_own_has_that_of_its_test(tmp_path: Path) -> None:
    file = a_file(tmp_path, ("a test: why", "of all"), ("a test [b]: why", "of b"))

    cases = (Golden(file, "a test", f" [{case}]", writing=False) for case in "abc")

    assert [golden("why") for golden in cases] == ["of all", "of b", "of all"]


def test_a_text_that_is_not_there_is_named(tmp_path: Path) -> None:
    golden = Golden(a_file(tmp_path), "a test", " [b]", writing=False)

    with pytest.raises(AssertionError, match=r"no part 'a test \[b\]: why': pass --write-golden"):
        golden("why")


def test_texts_that_differ_are_written_with_names_in_place_of_values(tmp_path: Path) -> None:
    file = a_file(tmp_path, ("a test: one", "old"), ("a test: same", "same"))
    golden = Golden(file, "a test", "", writing=True)

    renew_unequal(
        [(1, "in /a: new\n"), {"why": "same", "how": "added"}],
        [(1, "in " + golden("one", path="/a") + "\n"), {"why": golden("same"), "how": golden()}],
    )

    written = {"a test: one": "{path}: new", "a test: same": "same", "a test": "added"}
    assert dict(golden_parts(file.path)) == written


def test_of_an_output_the_lines_that_resemble_a_text_are_written(tmp_path: Path) -> None:
    golden = Golden(
        a_file(tmp_path, ("a test", "pod a is gone\nfor good")), "a test", "", writing=True
    )

    assert golden().closest_in("x\npod a has gone\nfor good\ny") == "pod a has gone\nfor good"
    assert golden().closest_in("unlike") == "unlike"
