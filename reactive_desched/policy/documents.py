"""The documents of several texts, sorted by kind: one policy, and at most one set of settings."""

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from reactive_desched.policy import document, settings
from reactive_desched.policy.detect_kind import Kind, is_settings, recognise
from reactive_desched.policy.diagnostics import PolicyErrors, Problem, ProblemList
from reactive_desched.policy.reader import read_documents
from reactive_desched.policy.source_location import Place
from reactive_desched.policy.tree import last_of_each, tables

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
    """A document that is to be decoded, what it is, and the text it is from."""

    place: Place
    kind: Kind
    revision: str


class Documents:
    """Sorts documents by kind; each kind may be there once, a second one is a problem.

    Upstream reads the first document of a text alone, and of a key written twice the last: a
    lenient reading does so too, and warns of what is left. Settings may be before or after it.
    """

    def __init__(self, found: ProblemList) -> None:
        self._found = found
        self._by_kind: dict[str, Document] = {}

    @property
    def policy(self) -> Document | None:
        """The policy, if there is one."""
        return self._by_kind.get(document.KIND)

    @property
    def settings(self) -> Document | None:
        """The settings, if there are any."""
        return self._by_kind.get(settings.KIND)

    def add(self, source: Source) -> None:
        """Take the documents of a text; a text that is no YAML is a problem."""
        try:
            trees = read_documents(source.text, source.name)
        except PolicyErrors as error:
            for problem in error.problems:
                self._found.add(problem)
            return
        first = next(itertools.filterfalse(is_settings, trees), None)
        for tree in trees:
            place = Place(source.name, tree)
            if tree is first or not self._found.lenient or is_settings(tree):
                self._take(place, source.revision)
            else:
                hint = "only the first document of a file counts"
                self._found.warn(place.problem("this document is not read", hint))

    def _take(self, place: Place, revision: str) -> None:
        """Keep a document if it is of a kind we read and the first of it."""
        is_ours = is_settings(place.root)
        for problem in _repeated_keys(place, is_ours=is_ours):
            self._found.add(problem)
        if self._found.lenient and not is_ours:
            place = Place(place.source, last_of_each(place.root))
        if (kind := recognise(place, self._found)) is None:
            return
        taken = Document(place, kind, revision)
        if (first := self._by_kind.setdefault(kind.kind, taken)) is not taken:
            where = f"{first.place.source}, line {first.place.root.mark.line}"
            message = f"this is a second {kind.kind}; the first is in {where}"
            self._found.add(place.problem(message, "keep one"))


def _repeated_keys(place: Place, *, is_ours: bool) -> Iterator[Problem]:
    """Report each key that is written twice in one mapping; upstream lets a policy do that."""
    for path, table in tables(place.root):
        lines: dict[str, int] = {}
        for entry in table.entries:
            if entry.key in lines:
                message = f"is written twice; the first is on line {lines[entry.key]}"
                hint = "keep one" if is_ours else "keep one: upstream reads the last"
                at = place.below(*path, entry.key)
                yield at.problem(message, hint, entry.mark, forgivable=not is_ours)
            lines.setdefault(entry.key, entry.mark.line)
