"""The documents of several texts, sorted by kind: one policy, and at most one set of settings."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from reactive_desched.policy.place import Place
from reactive_desched.policy.problems import PolicyErrors, Problem, ProblemList
from reactive_desched.policy.reader import read_documents
from reactive_desched.policy.recognise import Kind, recognise
from reactive_desched.policy.tree import Table, tables

_REVISION_DIGITS: Final = 12


@dataclass(frozen=True, slots=True)
class Source:
    """A text and what to call it in messages."""

    text: str | bytes
    name: str

    @property
    def revision(self) -> str:
        """Identify the text: the beginning of its SHA-256."""
        raw = self.text if isinstance(self.text, bytes) else self.text.encode(errors="replace")
        return hashlib.sha256(raw).hexdigest()[:_REVISION_DIGITS]


@dataclass(frozen=True, slots=True)
class Document:
    """A document that is to be decoded, and the text it is from."""

    place: Place
    revision: str


class Documents:
    """Sorts documents by kind; each kind may be there once, a second one is a problem."""

    def __init__(self, found: ProblemList) -> None:
        self._found = found
        self._by_kind: dict[Kind, Document] = {}

    @property
    def policy(self) -> Document | None:
        """The policy, if there is one."""
        return self._by_kind.get(Kind.POLICY)

    @property
    def settings(self) -> Document | None:
        """The settings, if there are any."""
        return self._by_kind.get(Kind.SETTINGS)

    def add(self, source: Source) -> None:
        """Take the documents of a text; a text that is no YAML is a problem."""
        try:
            trees = read_documents(source.text, source.name)
        except PolicyErrors as error:
            for problem in error.problems:
                self._found.add(problem)
            return
        for tree in trees:
            self._take(Document(Place(source.name, tree), source.revision))

    def _take(self, document: Document) -> None:
        """Keep a document if it is of a kind we read and the first of it."""
        for problem in _repeated_keys(document.place):
            self._found.add(problem)
        kind = recognise(document.place, self._found)
        if kind is None:
            return
        if (first := self._by_kind.setdefault(kind, document)) is not document:
            where = f"{first.place.source}, line {first.place.root.mark.line}"
            message = f"this is a second {kind.kind}; the first is in {where}"
            self._found.add(document.place.problem(message, "keep one"))


def _repeated_keys(document: Place) -> Iterator[Problem]:
    """Report each key that is written twice in one mapping."""
    for path, table in tables(document.root):
        yield from _repeated_in(table, document.below(*path))


def _repeated_in(table: Table, at: Place) -> Iterator[Problem]:
    lines: dict[str, int] = {}
    for entry in table.entries:
        if entry.key in lines:
            message = f"is written twice; the first is on line {lines[entry.key]}"
            yield at.below(entry.key).problem(message, "keep one", entry.mark)
        lines.setdefault(entry.key, entry.mark.line)
