"""Golden files: the sentences that tests expect, word for word, in files that one option writes.

`tests/ROOM/golden/NAME.txt` belongs to `tests/ROOM/test_NAME.py`. Each of its parts is `=== TITLE`
and a text. The title is the name of the test that expects the text, its case in brackets unless all
cases share the text, and a label if it expects several; or it names a text that tests share.
A test asks for its text by the fixture `golden`: `assert message == golden()`, or
`assert golden("a label", path=path) in output`, where `{path}` in the file stands for the path.

After a change of words, `pytest --write-golden` over that module writes each text whose comparison
in an `assert` fails, once in a run of a test; it drops parts of which no test has asked.
"""

import difflib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, Self

import pytest

__all__ = ["Golden", "GoldenFile", "GoldenText", "golden_parts", "renew_unequal", "verbatim"]

OPTION: Final = "--write-golden"
_TITLE: Final = "=== "


def verbatim(text: str) -> str:
    """Mark a text of another program, which ours must equal to the letter.

    Such a text is a fact about the API server, the SIG descheduler or koordinator, so it stands in
    the test: no option may write it again.
    """
    return text


def golden_parts(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the title and the text of each part of a golden file."""
    written = path.read_text(encoding="utf-8") if path.exists() else ""
    for part in f"\n{written}".split(f"\n{_TITLE}")[1:]:
        title, _, text = part.partition("\n")
        yield title, text.rstrip("\n")


class GoldenFile:
    """The golden file of one test module, read once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.texts = dict(golden_parts(path))
        self.asked: set[str] = set()

    @classmethod
    @cache  # of as many files as there are test modules
    def of(cls, module: Path) -> Self:
        name = module.stem.removeprefix("test_")
        return cls(module.parent / "golden" / f"{name}.txt")

    def write(self) -> None:
        """Write the file with the texts as they are now."""
        self.path.parent.mkdir(exist_ok=True)
        parts = [f"{_TITLE}{title}\n{text}\n" for title, text in self.texts.items()]
        self.path.write_text("\n".join(parts), encoding="utf-8")


class GoldenText(str):
    """A text of a golden file; what is added to it in a test is no part of the file."""

    __slots__ = ("after", "before", "file", "named", "part")

    before: str
    after: str
    file: GoldenFile
    named: dict[str, object]
    part: str

    @classmethod
    def made(
        cls, file: GoldenFile, title: str, named: dict[str, object], around: tuple[str, str]
    ) -> Self:
        text = file.texts[title]
        for name, value in named.items():
            text = text.replace(f"{{{name}}}", str(value))
        self = cls(around[0] + text + around[1])
        self.file, self.part, self.named = file, title, named
        self.before, self.after = around
        return self

    def __add__(self, other: str) -> Self:
        around = (self.before, self.after + other)
        return type(self).made(self.file, self.part, self.named, around)

    def __radd__(self, other: str) -> Self:
        around = (other + self.before, self.after)
        return type(self).made(self.file, self.part, self.named, around)

    def renew(self, actual: str) -> None:
        """Write what the text is now, with the names of values in place of them."""
        text = actual.removeprefix(self.before).removesuffix(self.after)
        for name, value in self.named.items():
            text = text.replace(str(value), f"{{{name}}}")
        self.file.texts[self.part] = text
        self.file.write()

    def closest_in(self, output: str) -> str:
        """Return the lines of an output that resemble this text most, or all if none do."""
        lines, height = output.splitlines(), len(self.splitlines())
        windows = ["\n".join(lines[at : at + height]) for at in range(len(lines))]
        return next(iter(difflib.get_close_matches(self, windows, 1)), output)


class Golden:
    """The texts that one test expects."""

    def __init__(self, file: GoldenFile, test: str, case: str, *, writing: bool) -> None:
        self._file = file
        self._test = test
        self._case = case
        self._writing = writing

    def __call__(self, label: str = "", **named: object) -> GoldenText:
        """Return the text of this test that has this label, with values in place of their names."""
        end = f": {label}" if label else ""
        own, of_all = f"{self._test}{self._case}{end}", f"{self._test}{end}"
        is_shared = own not in self._file.texts and of_all in self._file.texts
        return self.shared(of_all if is_shared else own, **named)

    def shared(self, title: str, **named: object) -> GoldenText:
        """Return a text that several tests of the module expect, by a title of its own."""
        self._file.asked.add(title)
        if title not in self._file.texts:
            assert self._writing, f"{self._file.path} has no part {title!r}: pass {OPTION}"
            self._file.texts[title] = f"({title})"
        return GoldenText.made(self._file, title, named, ("", ""))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, action="store_true", help="write golden files that differ")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption(OPTION) and config.getoption("numprocesses", None):
        raise pytest.UsageError(f"{OPTION} takes one process: pass -n 0")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Give the texts of a test in the golden file of its module."""
    name, bracket, case = request.node.name.partition("[")
    title = name.removeprefix("test_").replace("_", " ")
    writing = request.config.getoption(OPTION)
    file = GoldenFile.of(request.node.path)
    return Golden(file, title, f" [{case}" if bracket else "", writing=writing)


def pytest_assertrepr_compare(config: pytest.Config, op: str, left: object, right: object) -> None:
    """Write the golden texts in a comparison that failed."""
    if not config.getoption(OPTION):
        return
    if op == "==":
        renew_unequal(left, right)
    elif op == "in" and isinstance(left, GoldenText):
        output = right if isinstance(right, str) else "\n".join(map(str, _each(right)))
        left.renew(left.closest_in(output))


def _each(values: object) -> list[object]:
    return list(values) if isinstance(values, (list, tuple, set)) else []


def renew_unequal(left: object, right: object) -> None:
    """Write each golden text in one value that differs from the text in its place in the other."""
    match left, right:
        case (GoldenText() as text, str(actual)) | (str(actual), GoldenText() as text):
            if text != actual:
                text.renew(actual)
        case dict(), dict():
            for key in left.keys() & right.keys():
                renew_unequal(left[key], right[key])
        case (list() | tuple(), list() | tuple()):
            for one, other in zip(left, right, strict=False):
                renew_unequal(one, other)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Drop the parts that no test of a module asked for, if all its tests ran and passed."""
    chosen = session.config.getoption("keyword") or session.config.getoption("markexpr")
    named = any("::" in arg for arg in session.config.args)
    if not session.config.getoption(OPTION) or exitstatus or chosen or named:
        return
    for file in {GoldenFile.of(item.path) for item in session.items}:
        unasked = file.texts.keys() - file.asked
        for title in unasked:
            del file.texts[title]
        if unasked:
            file.write()
