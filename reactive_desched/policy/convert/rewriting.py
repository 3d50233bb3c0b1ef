"""`policy convert`: the text of a policy in today's format, with the comments of the old one."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from reactive_desched.api.rules import Rule
from reactive_desched.errors import ConversionError
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.convert.comment_placement import CommentPlacement, mark_strategy_parts
from reactive_desched.policy.convert.comments import find_comments
from reactive_desched.policy.convert.draft import Block, Draft, Drafter, DraftPart, text_leaf
from reactive_desched.policy.convert.leaving_out import SoundText, leave_out_errors, text_of
from reactive_desched.policy.convert.lines import YamlWriter
from reactive_desched.policy.convert.merging import merge_profiles
from reactive_desched.policy.convert.notices import conversion_notices, unmergeable_strategies
from reactive_desched.policy.convert.v1alpha2 import replace_deprecated
from reactive_desched.policy.detect_kind import DocumentKind
from reactive_desched.policy.document import KIND, PolicyDocument
from reactive_desched.policy.documents import Document, DocumentSet, SourceText
from reactive_desched.policy.load import load_sources
from reactive_desched.policy.policy_reader import PolicyReader, ReadPolicy
from reactive_desched.policy.registry import Registry, with_evictor
from reactive_desched.policy.semantics import policy_semantics, policy_semantics_by_plugin
from reactive_desched.policy.yaml.decode import known_fields_only
from reactive_desched.policy.yaml.diagnostics import Diagnostic, DiagnosticList, PolicyErrors
from reactive_desched.policy.yaml.outline import Outline, outline_document
from reactive_desched.policy.yaml.source_location import SourceLocation
from reactive_desched.policy.yaml.tree import MappingNode, ScalarNode

_BOM: Final = b"\xef\xbb\xbf"
_FORMATS: Final = (Rule.LEGACY_FORMAT, Rule.KOORDINATOR_FORMAT)
_BUG: Final = "nothing is written; this is a mistake in the program, please report it:"


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """Options of a conversion.

    `merge` joins strategies that protect the same pods in one profile; `keep_deprecated` leaves
    deprecated forms as they are. A `lenient` conversion takes what a lenient reading takes, and
    leaves out what is not read.
    """

    merge: bool = False
    keep_deprecated: bool = False
    lenient: bool = False


@dataclass(frozen=True, slots=True)
class _Drafts:
    """The policy in today's format and, where a file of koordinator's says some, settings."""

    policy: Draft
    settings: Draft | None = None


@dataclass(frozen=True, slots=True)
class ConvertResult:
    """A text with its policy in today's format, and the notices about it.

    Documents beside the policy are as they were; so is everything if nothing `is_changed`. What
    `needs_lenient` has values that only a lenient reading takes. What `left_out` says is wrong is
    a comment in the text, and what cannot run without it is not enabled.
    """

    text: bytes
    notices: tuple[Diagnostic, ...]
    is_changed: bool
    needs_lenient: bool
    left_out: tuple[Diagnostic, ...] = ()


def convert_policy(
    source: SourceText, registry: Registry, options: ConvertOptions
) -> ConvertResult:
    """Convert the policy in a text.

    What is wrong in it becomes comments, as `leave_out_errors` says. Raises PolicyErrors with
    everything wrong in the text where nothing sound is left, and ConversionError if the new text
    would not say what the old one says.
    """
    raw = source.text if isinstance(source.text, bytes) else source.text.encode()
    source, mislabelled = (source, ()) if options.lenient else _as_legacy(source)
    sound = leave_out_errors(source, registry, lenient=options.lenient)
    old = sound.read
    noted = sound.with_notes(_differences(old))
    text = text_of(noted)
    documents = _find_documents(noted, options)
    document = _policy_of(documents, noted)
    outline = outline_document(text, document.location.root.mark)
    drafts = _DraftBuilder(documents, document, outline, registry, options).draft(old)
    new = (text if drafts is None else _splice(outline, drafts)).encode()
    if raw.startswith(_BOM) and not new.startswith(_BOM):
        new = _BOM + new
    read_again = _verify_conversion(SourceText(new, source.name), registry, old, options)
    notices = (*mislabelled, *_notices(sound, options, is_changed=new != raw))
    is_changed = new != raw
    return ConvertResult(new, notices, is_changed, _needs_lenient(read_again), sound.errors)


def _differences(old: Configuration) -> Iterator[Diagnostic]:
    """Yield what acts otherwise here than in the file of koordinator's that was read."""
    is_koordinators = any(each.rule is Rule.KOORDINATOR_FORMAT for each in old.warnings)
    for each in (*old.warnings, *old.obstacles) if is_koordinators else ():
        if each.rule in (Rule.KOORDINATOR_DIFFERENCE, Rule.KOORDINATOR_ONLY) and each.line:
            yield each


def _notices(
    sound: SoundText, options: ConvertOptions, *, is_changed: bool
) -> tuple[Diagnostic, ...]:
    """Return what is worth saying of a conversion, in the order of the lines."""
    documents, old = _find_documents(sound.source, options), sound.read
    document = _policy_of(documents, sound.source)
    outline = outline_document(text_of(sound.source), document.location.root.mark)
    read = (warning for warning in old.warnings if warning.rule not in _FORMATS)
    obstacles = (each for each in old.obstacles if each.rule is Rule.KOORDINATOR_ONLY)
    own_notices = conversion_notices(document, outline) if is_changed else ()
    notice_list = DiagnosticList()
    merge_notices = _merge_notices(document, old, options)
    for notice in (*read, *obstacles, *own_notices, *merge_notices):
        notice_list.warn(notice)
    return notice_list.warnings


def _as_legacy(source: SourceText) -> tuple[SourceText, tuple[Diagnostic, ...]]:
    """Return the text with the apiVersion that its strategies belong to, and what to say of that.

    A policy that says v1alpha2 and has strategies and no profiles was written as v1alpha1: a second
    apiVersion was put on it, and nothing of it has run since.
    """
    documents = DocumentSet(DiagnosticList())
    documents.add(source)
    root = documents.policy.location.root if documents.policy is not None else None
    if not isinstance(root, MappingNode) or documents.policy is None:
        return source, ()
    version = root.get("apiVersion")
    is_mislabelled = (
        documents.policy.kind is DocumentKind.POLICY
        and "strategies" in root.keys
        and "profiles" not in root.keys
        and isinstance(version, ScalarNode)
    )
    if not is_mislabelled or version is None:
        return source, ()
    text = source.text if isinstance(source.text, str) else source.text.decode("utf-8-sig")
    lines = text.split("\n")
    line = version.mark.line - 1
    lines[line] = lines[line].replace("v1alpha2", "v1alpha1", 1)
    notice = documents.policy.location.below("apiVersion").diagnostic(
        "says v1alpha2, but strategies belong to v1alpha1, so nothing of them has run so far",
        "those with enabled: true run with the new text: try it with `plan` first",
        rule=Rule.MISLABELLED_VERSION,
    )
    return SourceText("\n".join(lines).encode(), source.name), (notice,)


def _merge_notices(
    document: Document, old: Configuration, options: ConvertOptions
) -> Iterator[Diagnostic]:
    """Yield notices about what a merge that was asked for leaves apart."""
    if not options.merge:
        return
    if document.kind is DocumentKind.LEGACY_POLICY:
        yield from unmergeable_strategies(document.location, old.policy.profiles)
    else:
        at = document.location.below("profiles")
        yield at.diagnostic(
            "are not merged", "merging is for the strategies of v1alpha1", rule=Rule.NOT_MERGED
        )


def _find_documents(source: SourceText, options: ConvertOptions) -> DocumentSet:
    """Return the documents of a text that was read before."""
    documents = DocumentSet(DiagnosticList(lenient=options.lenient))
    documents.add(source)
    return documents


def _policy_of(documents: DocumentSet, source: SourceText) -> Document:
    """Return the policy among documents."""
    if documents.policy is None:
        raise ConversionError(f"{_BUG} the policy was read and is not there")
    if documents.policy.kind is DocumentKind.UNVERSIONED_POLICY:
        hint = "without it nothing in the document says which format to convert"
        location = documents.policy.location.below("apiVersion")
        missing = location.diagnostic("is required", hint, rule=Rule.MISSING_API_VERSION)
        raise PolicyErrors([missing], texts={source.name: source.text})
    return documents.policy


class _DraftBuilder:
    """Drafts the document in today's format."""

    def __init__(
        self,
        documents: DocumentSet,
        document: Document,
        outline: Outline,
        registry: Registry,
        options: ConvertOptions,
    ) -> None:
        self._has_settings = documents.settings is not None
        self._document = document
        self._outline = outline
        self._registry = registry
        self._options = options

    def draft(self, old: Configuration) -> _Drafts | None:
        """Return the drafts, or None when there is nothing to convert."""
        if self._document.kind is DocumentKind.KOORDINATOR:
            return self._from_koordinator()
        is_old = self._document.kind is DocumentKind.LEGACY_POLICY
        draft = self._from_strategies(old) if is_old else self._from_profiles(old)
        new = draft if self._options.keep_deprecated else replace_deprecated(draft)
        is_same = new is draft and not is_old and not _needs_lenient(old)
        return None if is_same else _Drafts(new)

    def _from_koordinator(self) -> _Drafts:
        """Draft what a file of koordinator's is converted to when it is loaded."""
        read = self._read_again()
        drafter = Drafter(self._outline, keep_source=False)
        takes_settings = read.settings is not None and not self._has_settings
        settings = drafter.draft(read.settings) if takes_settings and read.settings else None
        return _Drafts(drafter.draft(read.location), settings)

    def _from_strategies(self, old: Configuration) -> Draft:
        """Draft what the legacy document is converted to when it is loaded."""
        drafter = Drafter(self._outline, keep_source=False)
        draft = mark_strategy_parts(drafter.draft(self._read_again().location))
        return merge_profiles(draft, old.policy.profiles) if self._options.merge else draft

    def _read_again(self) -> ReadPolicy:
        """Read the document, which has no errors, as it is when it is loaded."""
        reader = PolicyReader(with_evictor(self._registry), DiagnosticList(lenient=True))
        read = reader.read(self._document)
        if read is None:
            raise ConversionError(f"{_BUG} the policy cannot be read a second time")
        return read

    def _from_profiles(self, old: Configuration) -> Draft:
        """Draft the document as it is, without what is not read."""
        location, keeps = (
            self._document.location,
            not (self._outline.has_aliases or _needs_lenient(old)),
        )
        read = SourceLocation(location.source, known_fields_only(location.root, PolicyDocument))
        return _with_kind(Drafter(self._outline, keep_source=keeps).draft(read))


def _needs_lenient(old: Configuration) -> bool:
    """Say whether the policy needs a lenient reading."""
    return any(warning.forgivable for warning in old.warnings)


def _with_kind(draft: Draft) -> Draft:
    """Add the kind, if a lenient reading did without it."""
    if not isinstance(draft, Block) or draft.part("kind") is not None:
        return draft
    first, *rest = draft.parts
    return replace(draft, parts=(first, DraftPart("kind", text_leaf(KIND)), *rest))


def _splice(outline: Outline, drafts: _Drafts) -> str:
    """Return the text with what was drafted in the place of the document."""
    remarks = find_comments(outline)
    placement = CommentPlacement(drafts.policy)
    settings = None if drafts.settings is None else CommentPlacement(drafts.settings)
    placement.attach_all(remarks, settings)
    written = outline.text[outline.start : outline.end]
    line_break = "\r\n" if "\r\n" in written else "\n"
    before, after = outline.text[: outline.start], outline.text[outline.end :]
    gap = "" if before[-1:] in ("", "\n") else line_break
    space = written[len(written.rstrip()) :]
    rest = space if "\n" in space else line_break
    lines = [*YamlWriter(outline, remarks, placement.part_comments).lines(drafts.policy)]
    if settings is not None and drafts.settings is not None:
        writer = YamlWriter(outline, remarks, settings.part_comments)
        lines += ("---", *writer.lines(drafts.settings))
    return f"{before}{gap}{line_break.join(lines)}{rest}{after}"


def _verify_conversion(
    new: SourceText, registry: Registry, old: Configuration, options: ConvertOptions
) -> Configuration:
    """Make sure that the new text says what the old one did; raises ConversionError."""
    try:
        read = load_sources([new], registry, lenient=options.lenient)
    except PolicyErrors as errors:
        raise ConversionError(f"{_BUG} the new text cannot be read: {errors}") from errors
    semantics = policy_semantics_by_plugin if options.merge else policy_semantics
    if semantics(read.policy) != semantics(old.policy) or read.settings != old.settings:
        raise ConversionError(f"{_BUG} the new text would not say what the old one says")
    return read
