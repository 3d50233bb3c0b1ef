"""`policy check --fix`: mechanical corrections, made at their places in the text.

Everything else in the text, comments too, stays as it is to the byte. What is mechanical is said
where a message is made: by its `fix`.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from reactive_desched.api.rules import Rule
from reactive_desched.errors import ConversionError
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import PolicyCheckResult, check_source
from reactive_desched.policy.registry import Registry
from reactive_desched.policy.report import MarkedText, Token
from reactive_desched.policy.semantics import policy_semantics
from reactive_desched.policy.yaml.diagnostics import Diagnostic
from reactive_desched.policy.yaml.outline import NodeSpan, outlines
from reactive_desched.policy.yaml.quoting import flow_text, yaml_text
from reactive_desched.policy.yaml.scalars import parse_scalar
from reactive_desched.policy.yaml.text import keeps_places
from reactive_desched.policy.yaml.tree import SourceMark

_MAX_ROUNDS: Final = 20
"""A correction may bring the next mistake to light, such as one in a field that had no name."""

_BOM: Final = b"\xef\xbb\xbf"
_BUG: Final = "nothing is written; this is a mistake in the program, please report it:"
_ITEM: Final = re.compile(r"\[[0-9]+\]$")
_WORD: Final = re.compile(r"[A-Za-z0-9_./-]+")
_BLANK: Final = " \t\r\n"


class Correction(Struct, frozen=True):
    """One mistake that was corrected: `before` is what stood there, `after` is empty if it went."""

    diagnostic: Diagnostic
    before: str
    after: str

    def __str__(self) -> str:
        where, rule = self.diagnostic.where, self.diagnostic.rule
        done = f"{self.before} -> {self.after}" if self.after else f"removed {self.before}"
        return f"{where}: corrected: {done} [{rule}]"


class CorrectedText(Struct, frozen=True):
    """A text with its mechanical errors corrected, these errors, and those that remain.

    The places of corrections are those in the text as it was when each was made.
    """

    text: bytes
    corrections: tuple[Correction, ...]
    before: PolicyCheckResult
    left: PolicyCheckResult

    @property
    def is_other_policy(self) -> bool:
        """Say whether a policy that was valid does something else."""
        old, new = self.before.policy, self.left.policy
        if old is None or new is None:
            return False
        return policy_semantics(old) != policy_semantics(new)


class _Edit(Struct, frozen=True):
    """Text to put in the place of other text."""

    start: int
    end: int
    new: str
    correction: Correction


def correct(
    file: SourceText | Path | str, registry: Registry, *, lenient: bool = False
) -> CorrectedText:
    """Correct mechanical errors in a file or text; a sound one is returned byte for byte.

    Raises ConversionError where the result could not be read, which would be a mistake of ours.
    """
    before = left = check_source(file, registry, lenient=lenient)
    if before.source is None:
        return CorrectedText(b"", (), before, before)
    name, text = before.source.name, before.source.text
    raw = text if isinstance(text, bytes) else text.encode()
    corrections: list[Correction] = []
    for _ in range(_MAX_ROUNDS):
        text = raw.removeprefix(_BOM).decode("utf-8", errors="surrogateescape")
        edits = _apart(_edits(text, left))
        if not edits:
            break
        corrections += [each.correction for each in edits]
        new = _edited(text, edits).encode("utf-8", errors="surrogateescape")
        raw = (_BOM if raw.startswith(_BOM) else b"") + new
        left = check_source(SourceText(raw, name), registry, lenient=lenient)
        if any(each.rule == Rule.YAML_SYNTAX for each in left.errors):
            raise ConversionError(f"{_BUG} {name} cannot be read after its correction")
    return CorrectedText(raw, tuple(corrections), before, left)


def _edits(text: str, found: PolicyCheckResult) -> Iterator[_Edit]:
    """Yield what to do about each message that can be corrected mechanically."""
    fixable = [each for each in (*found.errors, *found.warnings) if each.fix is not None]
    if not fixable or not keeps_places(text):
        return
    tokens = MarkedText(text).tokens
    spans = _spans(text) if any(each.fix and each.fix.text is None for each in fixable) else {}
    for each in fixable:
        token = tokens.get(SourceMark(each.line, each.column))
        if token is None or each.fix is None:
            continue
        if each.fix.text is None:
            edit = _removal(text, each, spans.get((token.start, bool(_ITEM.search(each.path)))))
        else:
            edit = _replacement(text, each, token)
        if edit is not None:
            yield edit


def _replacement(text: str, found: Diagnostic, token: Token) -> _Edit | None:
    """Write another word, in the quotes of the old one, or other YAML."""
    if found.fix is None or found.fix.text is None or token.style in ("|", ">"):
        return None
    old, new = text[token.start : token.end].rstrip(_BLANK), found.fix.text
    if not found.fix.is_yaml:
        quotes = {"'": "'{}'".format(new.replace("'", "''")), '"': json.dumps(new)}
        new = quotes.get(token.style) or _unquoted(new)
    if old == new:
        return None
    return _Edit(token.start, token.start + len(old), new, Correction(found, old, new))


def _unquoted(word: str) -> str:
    """Write a word without quotes where it stays a text; `5m` does."""
    is_text = _WORD.fullmatch(word) and isinstance(parse_scalar(word), str)
    return word if is_text else flow_text(yaml_text(word))


def _removal(text: str, found: Diagnostic, span: NodeSpan | None) -> _Edit | None:
    """Take an item of a list, or a key with its value, away; None where it is not on its own."""
    if span is None:
        return None
    said = Correction(found, _first_line(text[span.start : span.end]), "")
    if span.is_flow:
        before = text[: span.start].rstrip(_BLANK)
        return _Edit(len(before) - 1, span.end, "", said) if before.endswith(",") else None
    start = text.rfind("\n", 0, span.start) + 1
    leading = text[start : span.start].strip(_BLANK)
    if leading != ("-" if _ITEM.search(found.path) else ""):
        return None
    end = text.find("\n", span.end) + 1 or len(text)
    return _Edit(start, end, "", said)


def _first_line(text: str) -> str:
    """Return the first line of what goes, with a sign if there are more."""
    first, _, rest = text.strip().partition("\n")
    return f"{first.strip()} …" if rest else first


def _spans(text: str) -> Mapping[tuple[int, bool], NodeSpan]:
    """Index keys with their values, and items of lists, by where they begin and which they are.

    Where a text shares parts by anchors and aliases there are none: a part that goes in one place
    would go in the other too.
    """
    return {
        (span.start, isinstance(span.path[-1], int)): span
        for outline in outlines(text)
        if not outline.has_aliases
        for span in outline.spans
    }


def _apart(edits: Iterator[_Edit]) -> list[_Edit]:
    """Keep, in the order of the text, the edits that do not overlap; the others' turn is next."""
    kept: list[_Edit] = []
    for edit in sorted(edits, key=lambda each: (each.start, -each.end)):
        if not kept or edit.start >= kept[-1].end:
            kept.append(edit)
    return kept


def _edited(text: str, edits: list[_Edit]) -> str:
    """Make edits that are in order and apart."""
    parts, at = [], 0
    for edit in edits:
        parts += [text[at : edit.start], edit.new]
        at = edit.end
    return "".join((*parts, text[at:]))
