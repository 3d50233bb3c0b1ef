"""The documents of several texts, sorted by kind: one policy, and at most one set of settings."""

import itertools
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.api.args import Fix
from reactive_desched.api.rules import Rule
from reactive_desched.policy.detect_kind import (
    POLICY_KIND,
    SETTINGS_KIND,
    DocumentKind,
    detect_kind,
    is_koordinators,
    is_settings,
)
from reactive_desched.policy.enclosed import enclosed_policies
from reactive_desched.policy.yaml.diagnostics import Diagnostic, DiagnosticList, PolicyErrors
from reactive_desched.policy.yaml.reader import read_documents
from reactive_desched.policy.yaml.scalars import is_octal
from reactive_desched.policy.yaml.source_location import SourceLocation
from reactive_desched.policy.yaml.text import decode
from reactive_desched.policy.yaml.tree import (
    MappingEntry,
    MappingNode,
    ScalarNode,
    SequenceNode,
    YamlNode,
    to_plain,
    walk_mappings,
    without_duplicate_keys,
)

IDENTITY: Final = ("apiVersion", "kind")
_REVISION_DIGITS: Final = 12
_OWN_SHA256: Final = "_sha2" if sys.version_info >= (3, 12) else "_sha256"
"""Python's own code, as `random` takes it: to load OpenSSL for one text takes three ms."""


def _sha256(raw: bytes) -> str:
    try:
        module = import_module(_OWN_SHA256)
    except ImportError:  # a build that leaves it to OpenSSL
        module = import_module("hashlib")
    digest: str = module.sha256(raw).hexdigest()
    return digest


class SourceText(Struct, frozen=True):
    """A text and what to call it in messages: its file, unless it `is_of_api`.

    With `only` its documents of one kind are read, DeschedulerPolicy or ReactiveSettings.
    """

    text: str | bytes
    name: str
    only: str = ""
    is_of_api: bool = False

    @property
    def sha256(self) -> str:
        """The SHA-256 of the text, in hexadecimal."""
        raw = self.text if isinstance(self.text, bytes) else self.text.encode(errors="replace")
        return _sha256(raw)

    @property
    def revision(self) -> str:
        """Identify the text: the beginning of its SHA-256."""
        return self.sha256[:_REVISION_DIGITS]


class Document(Struct, frozen=True):
    """A document that is to be decoded, what it is, and the text it is from."""

    location: SourceLocation
    kind: DocumentKind
    revision: str


class DocumentSet:
    """Sorts documents: one policy, in whichever format, and one of settings; a second is a problem.

    Upstream reads the first document of a text alone, and of a key written twice the last: a
    lenient reading does so too, and warns of what is left. Settings may be before or after it.
    """

    def __init__(self, diagnostics: DiagnosticList) -> None:
        self._diagnostics = diagnostics
        self._policy: Document | None = None
        self._settings: Document | None = None

    @property
    def policy(self) -> Document | None:
        """The policy, if there is one."""
        return self._policy

    @property
    def settings(self) -> Document | None:
        """The settings, if there are any."""
        return self._settings

    def add(self, source: SourceText) -> None:
        """Take the documents of a text; a text that is no YAML is a problem."""
        self._diagnostics.texts[source.name] = source.text
        try:
            trees = read_documents(source.text, source.name)
        except PolicyErrors as error:
            for problem in error.diagnostics:
                self._diagnostics.add(problem)
            return
        if source.only:
            wants_settings = source.only == SETTINGS_KIND
            trees = tuple(tree for tree in trees if is_settings(tree) is wants_settings)
        first = next(itertools.filterfalse(is_settings, trees), None)
        for tree in trees:
            location = SourceLocation(source.name, tree)
            if tree is first or not self._diagnostics.lenient or is_settings(tree):
                self._add_document(location, source.revision)
                self._add_enclosed(source, tree)
            else:
                hint = "only the first document of a file counts"
                self._diagnostics.warn(
                    location.diagnostic(
                        "this document is not read", hint, rule=Rule.DOCUMENT_NOT_READ
                    )
                )

    def _add_enclosed(self, source: SourceText, tree: YamlNode) -> None:
        """Read policies inside another object as well, to say what is wrong in them."""
        if not isinstance(tree, MappingNode) or tree.get("data") is None:
            return
        for each in enclosed_policies(decode(source.text), tree):
            try:
                trees = read_documents(each.text, source.name)
            except PolicyErrors as error:
                for problem in error.diagnostics:
                    self._diagnostics.add(problem)
                continue
            for inner in trees:
                self._add_document(SourceLocation(source.name, inner), source.revision)

    def _add_document(self, location: SourceLocation, revision: str) -> None:
        """Keep a document if it is of a kind we read and the first of it."""
        location = self._with_identity(location)
        is_strict = is_settings(location.root) or is_koordinators(location.root)
        for warning in _octal_numbers(location):
            self._diagnostics.warn(warning)
        for problem in duplicate_keys(location, is_strict=is_strict):
            self._diagnostics.add(problem)
        if self._diagnostics.lenient and not is_strict:
            location = SourceLocation(location.source, without_duplicate_keys(location.root))
        if (kind := detect_kind(location, self._diagnostics)) is None:
            return
        taken = Document(location, kind, revision)
        first = self._policy if kind.is_policy else self._settings
        if first is None and kind.is_policy:
            self._policy = taken
        elif first is None:
            self._settings = taken
        else:
            where = f"{first.location.source}, line {first.location.root.mark.line}"
            message = f"this is a second {_family(kind)}; the first is in {where}"
            hint = "take one out" if kind.is_policy else "write what both say into one of them"
            self._diagnostics.add(location.diagnostic(message, hint, rule=Rule.SECOND_DOCUMENT))

    def _with_identity(self, location: SourceLocation) -> SourceLocation:
        """Return a document whose apiVersion and kind are spelt so; another case is an error.

        Upstream finds neither then: a lenient reading leaves the document as it is.
        """
        root = location.root
        if self._diagnostics.lenient or not isinstance(root, MappingNode):
            return location
        meant = {name.casefold(): name for name in IDENTITY if name not in root.keys}
        entries = []
        for entry in root.entries:
            name = meant.pop(entry.key.casefold(), entry.key)
            if name != entry.key:
                message = f"is written {name}: capital letters count in the names of fields"
                at = location.below(entry.key)
                self._diagnostics.add(
                    at.diagnostic(
                        message,
                        f"write {name}",
                        entry.mark,
                        rule=Rule.IDENTITY_CAPITALS,
                        fix=Fix(name),
                    )
                )
            entries.append(replace(entry, key=name))
        return replace(location, root=replace(root, entries=tuple(entries)))


def _family(kind: DocumentKind) -> str:
    return POLICY_KIND if kind.is_policy else kind.kind


def _octal_numbers(location: SourceLocation) -> Iterator[Diagnostic]:
    """Warn of each number that begins with 0: YAML reads it to the base 8."""
    for path, table in walk_mappings(location.root):
        for entry in table.entries:
            values = entry.value.items if isinstance(entry.value, SequenceNode) else (entry.value,)
            for value in values:
                if isinstance(value, ScalarNode) and is_octal(value.text, value.value):
                    decimal = value.text.replace("_", "").lstrip("+-0") or "0"
                    message = (
                        f"{value.text} begins with 0, so YAML reads it as octal: {value.value}"
                    )
                    hint = f"write {decimal} if you mean that, else {value.value}"
                    at = location.below(*path, entry.key)
                    yield at.diagnostic(
                        message,
                        hint,
                        value.mark,
                        rule=Rule.OCTAL_NUMBER,
                        fix=Fix(str(value.value), is_yaml=True),
                    )


def duplicate_keys(location: SourceLocation, *, is_strict: bool) -> Iterator[Diagnostic]:
    """Report each key that is written twice in one mapping; upstream lets a policy do that."""
    for path, table in walk_mappings(location.root):
        seen: dict[str, MappingEntry] = {}
        for entry in table.entries:
            first = seen.setdefault(entry.key, entry)
            if first is not entry:
                message = f"is written twice; the first is on line {first.mark.line}"
                hint = "keep one" if is_strict else "keep one: upstream reads the last"
                at = location.below(*path, entry.key)
                yield at.diagnostic(
                    message,
                    hint,
                    entry.mark,
                    lenient_ok=not is_strict,
                    rule=Rule.DUPLICATE_KEY,
                    fix=Fix(None) if to_plain(first.value) == to_plain(entry.value) else None,
                )
