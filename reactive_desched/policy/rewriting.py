"""`policy convert`: the text of a policy in today's format, with the comments of the old one."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from reactive_desched.errors import ConversionError
from reactive_desched.policy.comment_placement import Homes, with_strategies_at_home
from reactive_desched.policy.comments import comments
from reactive_desched.policy.conversion_notices import apart, notices
from reactive_desched.policy.decode import known_part
from reactive_desched.policy.detect_kind import Kind
from reactive_desched.policy.diagnostics import PolicyErrors, Problem, ProblemList
from reactive_desched.policy.document import KIND, PolicyDocument
from reactive_desched.policy.documents import Document, Documents, Source
from reactive_desched.policy.load import Configuration, configure
from reactive_desched.policy.merging import merged
from reactive_desched.policy.outline import Outline, outline
from reactive_desched.policy.policy_reader import PolicyReader
from reactive_desched.policy.registry import Registry, with_evictor
from reactive_desched.policy.semantics import meaning, meaning_by_plugin
from reactive_desched.policy.source_location import Place
from reactive_desched.policy.v1alpha2 import modern
from reactive_desched.policy.yaml_draft import Block, Draft, Drafter, Part, text
from reactive_desched.policy.yaml_lines import YamlLines

_BOM: Final = b"\xef\xbb\xbf"
_BUG: Final = "nothing is written; this is a mistake in the program, please report it:"


@dataclass(frozen=True, slots=True)
class Wishes:
    """How to convert.

    `merge` joins strategies that protect the same pods in one profile; `keep_deprecated` leaves
    deprecated forms as they are. A `lenient` conversion takes what a lenient reading takes, and
    leaves out what is not read.
    """

    merge: bool = False
    keep_deprecated: bool = False
    lenient: bool = False


@dataclass(frozen=True, slots=True)
class Rewriting:
    """A text with its policy in today's format, and what is worth telling about it.

    Documents beside the policy are as they were; so is everything if nothing `is_changed`. What
    `needs_lenience` has values that only a lenient reading takes.
    """

    text: bytes
    notices: tuple[Problem, ...]
    is_changed: bool
    needs_lenience: bool


def rewrite(source: Source, registry: Registry, wishes: Wishes) -> Rewriting:
    """Convert the policy in a text.

    Raises PolicyErrors with everything wrong in the text, and ConversionError if the new text would
    not say what the old one says.
    """
    old = configure([source], registry, lenient=wishes.lenient)
    raw = source.text if isinstance(source.text, bytes) else source.text.encode()
    document, decoded = _policy_in(source, wishes), raw.decode("utf-8-sig")
    found = outline(decoded, document.place.root.mark)
    draft = _Drafting(document, found, registry, wishes).draft(old)
    new = raw
    if draft is not None:
        new = (_BOM if raw.startswith(_BOM) else b"") + _spliced(found, draft).encode()
    read_again = _read_again(Source(new, source.name), registry, old, wishes)
    told = ProblemList()
    read = (warning for warning in old.warnings if warning.path != "apiVersion")
    ours = notices(document, found) if new != raw else ()
    for notice in (*read, *ours, *_of_merging(document, old, wishes)):
        told.warn(notice)
    return Rewriting(new, told.warnings, new != raw, _has_forgiven(read_again))


def _of_merging(document: Document, old: Configuration, wishes: Wishes) -> Iterator[Problem]:
    """Say what a wish to merge cannot do."""
    if not wishes.merge:
        return
    if document.kind is Kind.LEGACY_POLICY:
        yield from apart(document.place, old.policy.profiles)
    else:
        at = document.place.below("profiles")
        yield at.problem("are not merged", "merging is for the strategies of v1alpha1")


def _policy_in(source: Source, wishes: Wishes) -> Document:
    """Give the policy among the documents of a text that was read before."""
    documents = Documents(ProblemList(lenient=wishes.lenient))
    documents.add(source)
    if documents.policy is None:
        raise ConversionError(f"{_BUG} the policy was read and is not there")
    if documents.policy.kind is Kind.UNVERSIONED_POLICY:
        hint = "without it nothing in the document says which format to convert"
        place = documents.policy.place.below("apiVersion")
        raise PolicyErrors([place.problem("is required", hint)])
    return documents.policy


class _Drafting:
    """Drafts the document in today's format."""

    def __init__(
        self, document: Document, found: Outline, registry: Registry, wishes: Wishes
    ) -> None:
        self._document = document
        self._outline = found
        self._registry = registry
        self._wishes = wishes

    def draft(self, old: Configuration) -> Draft | None:
        """Give the draft, or None when there is nothing to convert."""
        is_old = self._document.kind is Kind.LEGACY_POLICY
        draft = self._from_strategies(old) if is_old else self._from_profiles(old)
        new = draft if self._wishes.keep_deprecated else modern(draft)
        is_same = new is draft and not is_old and not _has_forgiven(old)
        return None if is_same else new

    def _from_strategies(self, old: Configuration) -> Draft:
        """Draft what the legacy document is converted to when it is loaded."""
        reader = PolicyReader(with_evictor(self._registry), ProblemList(lenient=True))
        read = reader.read(self._document)
        if read is None:
            raise ConversionError(f"{_BUG} the policy cannot be read a second time")
        drafter = Drafter(self._outline, keeps=False)
        draft = with_strategies_at_home(drafter.draft(read.place))
        return merged(draft, old.policy.profiles) if self._wishes.merge else draft

    def _from_profiles(self, old: Configuration) -> Draft:
        """Draft the document as it is, without what is not read."""
        place, keeps = self._document.place, not (self._outline.shares or _has_forgiven(old))
        read = Place(place.source, known_part(place.root, PolicyDocument))
        return _with_kind(Drafter(self._outline, keeps=keeps).draft(read))


def _has_forgiven(old: Configuration) -> bool:
    """Say whether the policy needs a lenient reading."""
    return any(warning.forgivable for warning in old.warnings)


def _with_kind(draft: Draft) -> Draft:
    """Add the kind, if a lenient reading did without it."""
    if not isinstance(draft, Block) or draft.part("kind") is not None:
        return draft
    first, *others = draft.parts
    return replace(draft, parts=(first, Part("kind", text(KIND)), *others))


def _spliced(found: Outline, draft: Draft) -> str:
    """Give the text with a draft in the place of the document."""
    remarks = comments(found)
    homes = Homes(draft)
    homes.settle(remarks)
    written = found.text[found.start : found.end]
    line_break = "\r\n" if "\r\n" in written else "\n"
    before, after = found.text[: found.start], found.text[found.end :]
    gap = "" if before[-1:] in ("", "\n") else line_break
    space = written[len(written.rstrip()) :]
    rest = space if "\n" in space else line_break
    lines = YamlLines(found, remarks, homes.remarks).lines(draft)
    return f"{before}{gap}{line_break.join(lines)}{rest}{after}"


def _read_again(
    new: Source, registry: Registry, old: Configuration, wishes: Wishes
) -> Configuration:
    """Make sure that the new text says what the old one did; raises ConversionError."""
    try:
        read = configure([new], registry, lenient=wishes.lenient)
    except PolicyErrors as errors:
        raise ConversionError(f"{_BUG} the new text cannot be read: {errors}") from errors
    say = meaning_by_plugin if wishes.merge else meaning
    if say(read.policy) != say(old.policy) or read.settings != old.settings:
        raise ConversionError(f"{_BUG} the new text would not say what the old one says")
    return read
