"""Makes comments of what is wrong in a policy, with its place and the remedy."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Final

from reactive_desched.api.args import Path
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.detect_kind import DocumentKind
from reactive_desched.policy.documents import Document, DocumentSet, SourceText
from reactive_desched.policy.load import load_sources
from reactive_desched.policy.registry import DEFAULT_EVICTOR, MIGRATION_CONTROLLER, Registry
from reactive_desched.policy.yaml.diagnostics import (
    Diagnostic,
    DiagnosticList,
    PolicyErrors,
    format_path,
)
from reactive_desched.policy.yaml.outline import NodeSpan, Outline, outlines
from reactive_desched.policy.yaml.source_location import SourceLocation
from reactive_desched.policy.yaml.tree import SourceMark

_MAX_ROUNDS: Final = 20
"""What is left out may bring the next mistake to light, such as a list that is empty now."""

_RUNNING: Final = ("deschedule", "balance")
_LAST_STEP: Final = re.compile(r"(\.[^.\[\]]*|\[[^\[\]]*\])$")
_WIDTH: Final = 96
_LEAST_WIDTH: Final = 40


Notes = Mapping[int, Sequence[tuple[int, str]]]
"""Comments to put above lines, by their number from 0, each with its column."""


@dataclass(frozen=True, slots=True)
class SoundText:
    """A text in which what was wrong is a comment, what was read of it, and what was wrong.

    Its lines have the numbers that they had. `notes` say above them what is left out, and why.
    """

    source: SourceText
    read: Configuration
    errors: tuple[Diagnostic, ...]
    notes: Notes

    def with_notes(self, differences: Iterable[Diagnostic]) -> SourceText:
        """Return the text with its notes, and one above each line that acts otherwise here."""
        lines = text_of(self.source).split("\n")
        notes = {number: list(each) for number, each in self.notes.items()}
        for each in differences:
            line = lines[each.line - 1]
            column = len(line) - len(line.lstrip())
            said = f"line {each.line}: {each.text()}"
            notes.setdefault(each.line - 1, []).append((column, said))
        if not notes:
            return self.source
        made: list[str] = []
        for number, line in enumerate(lines):
            ending = "\r" if line.endswith("\r") else ""
            for column, note in notes.get(number, ()):
                width = max(_LEAST_WIDTH, _WIDTH - column)
                wrapped = wrap(note, width, break_long_words=False, break_on_hyphens=False)
                made += (f"{' ' * column}# {each}{ending}" for each in wrapped)
            made.append(line)
        return SourceText("\n".join(made), self.source.name)


def leave_out_errors(source: SourceText, registry: Registry, *, lenient: bool) -> SoundText:
    """Make comments of what is wrong in a policy.

    Nothing runs then that the old text kept from running: with an argument that is refused its
    plugin is not enabled, with one of the evictor's, or of a profile, no plugin of the profile, and
    with what is outside of profiles none at all. Of a policy that upstream takes as it is, what
    upstream does not read is left out alone. Raises PolicyErrors with all that is wrong where what
    is sound does not stand alone: a mistake in the YAML, in settings, outside the strategies of
    v1alpha1, or in each profile.
    """
    first: PolicyErrors | None = None
    runs_upstream = _runs_upstream(source, registry)
    text, said = source, tuple[Diagnostic, ...]()
    notes: dict[int, list[tuple[int, str]]] = {}
    for _ in range(_MAX_ROUNDS):
        try:
            read = _read(text, registry, lenient=lenient)
        except PolicyErrors as errors:
            first = first or errors
            cuts = _cuts(text, errors.diagnostics, lenient=lenient, unread_alone=runs_upstream)
            if not cuts:
                break
            said += _causes(cuts, notes)
            text = _cut_out(text, cuts, notes)
        else:
            if first is not None and not read.policy.profiles:
                break
            return SoundText(text, read, said, notes)
    assert first is not None
    raise first


def _read(source: SourceText, registry: Registry, *, lenient: bool) -> Configuration:
    """Read a policy; what keeps one of ours from running, or is empty, raises PolicyErrors."""
    read = load_sources([source], registry, lenient=lenient)
    document = _policy_document(source, lenient=lenient)
    if read.obstacles and document is not None and document.kind is not DocumentKind.KOORDINATOR:
        raise PolicyErrors(read.obstacles, texts={source.name: source.text})
    return read


def _runs_upstream(source: SourceText, registry: Registry) -> bool:
    try:
        load_sources([source], registry, lenient=True)
    except PolicyErrors:
        return False
    return True


def _policy_document(source: SourceText, *, lenient: bool) -> Document | None:
    documents = DocumentSet(DiagnosticList(lenient=lenient))
    documents.add(source)
    return documents.policy


@dataclass(slots=True)
class _Cut:
    """A part of the text that becomes a comment, its lines from 0, and the notes above.

    `errors` are why: none for what is sound and cannot run without another part.
    """

    span: NodeSpan
    lines: range
    notes: list[str]
    errors: tuple[Diagnostic, ...] = ()


def _cuts(
    source: SourceText, errors: Sequence[Diagnostic], *, lenient: bool, unread_alone: bool
) -> list[_Cut]:
    """Say what becomes a comment for errors; nothing where one of them cannot be left out."""
    document = _policy_document(source, lenient=lenient)
    root = None if document is None else document.location.node
    outline = None if root is None else _outline(text_of(source), root.mark)
    if document is None or outline is None:
        return []
    parts = _Parts(document.location, outline, unread_alone=unread_alone)
    cuts = [parts.cuts(each) for each in errors]
    return _outermost([each for some in cuts for each in some]) if all(cuts) else []


def _outline(text: str, root: SourceMark) -> Outline | None:
    """Outline the document that begins at a place; None of one inside another, as a ConfigMap."""
    return next((each for each in outlines(text) if each.root == root), None)


def _causes(cuts: Sequence[_Cut], earlier: Notes) -> tuple[Diagnostic, ...]:
    """Return the errors that cut, but for consequences of what was cut earlier.

    Such a consequence has no notes either: something is missing because it is a comment now.
    """
    for cut in cuts:
        if any(line in cut.lines for line in earlier):
            cut.notes, cut.errors = [], ()
    return tuple(error for cut in cuts for error in cut.errors)


def _cut_out(
    source: SourceText, cuts: Sequence[_Cut], notes: dict[int, list[tuple[int, str]]]
) -> SourceText:
    """Make comments of parts of a text, and add the notes about them to those there are."""
    lines = text_of(source).split("\n")
    for cut in cuts:
        if cut.notes:
            above = notes.setdefault(cut.lines.start, [])
            above += ((cut.span.column, each) for each in cut.notes)
        for number in cut.lines:
            lines[number] = _as_comment(lines[number], cut.span.column)
    return SourceText("\n".join(lines), source.name)


class _Parts:
    """The parts of a policy's text that can be left out."""

    def __init__(self, location: SourceLocation, outline: Outline, *, unread_alone: bool) -> None:
        self._unread_alone = unread_alone
        self._location = location
        self._text = outline.text
        self._lines = outline.text.split("\n")
        self._outline = outline
        self._spans = {span.path: span for span in outline.spans}
        self._disabled_items: set[Path] = set()
        self._by_name = {format_path(path): span for path, span in self._spans.items()}

    def _cut(self, span: NodeSpan, note: str, *errors: Diagnostic) -> _Cut:
        first = self._text.count("\n", 0, span.start)
        end = self._text.count("\n", 0, max(span.start, span.end - 1)) + 1
        while end < len(self._lines) and _is_comment(self._lines[end], deeper_than=span.column):
            end += 1
        return _Cut(span, range(first, end), [note], errors)

    def cuts(self, error: Diagnostic) -> list[_Cut]:
        """Return what an error takes out of the text; nothing where it takes all."""
        named = self._named(error)
        span = None if named is None else self._on_its_own(named)
        if span is None:
            return []
        note = f"Not converted: line {error.line}: {error.text()}"
        if error.forgivable and self._unread_alone and span is named:
            return [self._cut(span, note, error)]
        match span.path:
            case ("profiles" | "strategies",):
                return []
            case ("strategies", name, *_):
                span = self._spans["strategies", name]
                return [self._cut(span, note, error)] if self._on_its_own(span) is span else []
            case ("profiles", int()):
                return [self._cut(span, note, error)]
            case (str(),) if "strategies" in self._by_name:
                return []
            case _:
                disabled = self._disabled(span.path, error.line)
                return [self._cut(span, note, error), *disabled]

    def _named(self, error: Diagnostic) -> NodeSpan | None:
        """Find the part that an error names, or the nearest around it."""
        first, last = self._outline.start, self._outline.end
        at = self._line_start(error.line)
        path = error.path if first <= at < last or not error.line else ""
        while path and path not in self._by_name:
            path = _LAST_STEP.sub("", path) if _LAST_STEP.search(path) else ""
        return self._by_name.get(path)

    def _line_start(self, line: int) -> int:
        at = 0
        for _ in range(line - 1):
            at = self._text.find("\n", at) + 1
        return max(at, self._outline.start)

    def _on_its_own(self, span: NodeSpan) -> NodeSpan | None:
        """Return the innermost part around one that has its lines for itself."""
        path = span.path
        while path:
            around = self._spans[path]
            begin = self._text.rfind("\n", 0, around.start) + 1
            leading = self._text[begin : around.start].strip()
            is_item = isinstance(path[-1], int)
            if not around.is_flow and leading == ("-" if is_item else ""):
                return around
            path = path[:-1]
        return None

    def _disabled(self, path: Path, line: int) -> Iterator[_Cut]:
        """Take out of `enabled` what would run without a part of its arguments."""
        profile = path[:2] if len(path) > 1 else ()
        enabled = dict(self._enabled(profile, running=True))
        match path:
            case (_, _, "plugins", point, "enabled", *_) if point in _RUNNING:
                return
            case (_, _, "pluginConfig", int(), *_):
                name = self._location.below(*path[:4], "name").text
                kept = dict(self._enabled(profile, running=False)).values()
                keeps = name in (DEFAULT_EVICTOR, MIGRATION_CONTROLLER, *kept)
                concerned = [item for item, each in enabled.items() if keeps or each == name]
            case _:
                concerned = [*enabled]
        for item in concerned:
            if item in self._disabled_items:
                continue
            self._disabled_items.add(item)
            span = self._on_its_own(self._spans[item])
            name = enabled[item]
            if span is not None:
                why = f"while what line {line} says is left out: mend that, then enable it again"
                yield self._cut(span, f"{name} is not enabled {why}")

    def _enabled(self, profile: Path, *, running: bool) -> Iterator[tuple[Path, str]]:
        """Yield the plugins of a profile that find pods, or those that keep some, by their item."""
        for item in self._spans:
            match item:
                case ("profiles", int(), "plugins", point, "enabled", int()):
                    if (point in _RUNNING) == running and item[: len(profile)] == profile:
                        at = self._location.below(*item)
                        yield item, at.text or at.below("name").text or ""
                case _:
                    pass


def _outermost(cuts: Sequence[_Cut]) -> list[_Cut]:
    """Join what is inside another part with it; notes stay in order, each once."""
    kept: list[_Cut] = []
    for cut in sorted(cuts, key=lambda each: (each.span.start, -each.span.end)):
        if kept and cut.span.start < kept[-1].span.end:
            kept[-1].notes += (each for each in cut.notes if each not in kept[-1].notes)
            kept[-1].errors += cut.errors
        else:
            kept.append(cut)
    return kept


def _as_comment(line: str, column: int) -> str:
    """Make a comment of a line; one that is a comment, or empty, stays."""
    stripped = line.lstrip()
    if not stripped or stripped.startswith("#"):
        return line
    at = min(column, len(line) - len(stripped))
    return f"{line[:at]}# {line[at:]}"


def _is_comment(line: str, *, deeper_than: int) -> bool:
    stripped = line.lstrip()
    return stripped.startswith("#") and len(line) - len(stripped) > deeper_than


def text_of(source: SourceText) -> str:
    """Return the text as characters, without the mark that it is UTF-8."""
    text = source.text
    return text if isinstance(text, str) else text.decode("utf-8-sig")
