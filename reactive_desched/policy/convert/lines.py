"""A draft as lines of YAML with its comments; what was kept is written as it was."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from reactive_desched.api.args import Path
from reactive_desched.policy.convert.comment_placement import PartComments
from reactive_desched.policy.convert.comments import Comment, CommentLine, CommentPosition
from reactive_desched.policy.convert.draft import Block, Draft, DraftPart, Leaf, child_steps
from reactive_desched.policy.yaml.outline import NodeSpan, Outline
from reactive_desched.policy.yaml.quoting import flow_text, yaml_text

_INDENT: Final = 2
_MAX_COLUMNS: Final = 100
_NO_COMMENTS: Final = PartComments()


class YamlWriter:
    """Writes one draft, once; lists are indented as in most of the old document."""

    def __init__(
        self,
        outline: Outline,
        comments: Sequence[Comment],
        part_comments: Mapping[Path, PartComments],
    ) -> None:
        self._text = outline.text
        self._spots = {spot.path: spot for spot in outline.spans}
        self._comments = comments
        self._part_comments = part_comments
        self._above = {path: remark.above for path, remark in part_comments.items()}
        self._list_indent = _INDENT if _indents_lists(self._spots) else 0

    def lines(self, draft: Draft) -> Iterator[str]:
        """Return the lines without line breaks."""
        if isinstance(draft, Block) and draft.parts:
            yield from self._block(draft, 0, ())
        else:
            yield _flow_style(draft)

    def _block(self, block: Block, indent: int, path: Path) -> Iterator[str]:
        for step, part in child_steps(block):
            below = (*path, step)
            remarks = self._part_comments.get(below, _NO_COMMENTS)
            yield from self._comments_above(below, indent)
            yield from self._part(part, indent, below, remarks.beside)
            yield from _reindent(remarks.below, indent)

    def _comments_above(self, path: Path, indent: int) -> Iterator[str]:
        """Write the comments above a part, unless they are written already."""
        return _reindent(self._above.pop(path, ()), indent)

    def _part(self, part: DraftPart, indent: int, path: Path, beside: str) -> Iterator[str]:
        beginning = " " * indent + ("-" if part.key is None else f"{yaml_text(part.key)}:")
        if (kept := self._unchanged_lines(part, indent, path)) is not None:
            yield from kept
        elif (line := self._line(part.value, path, len(beginning))) is not None:
            yield _with_comment(f"{beginning} {line}", beside)
        elif isinstance(part.value, Block) and part.key is None:
            yield from self._item(part.value, indent, path, beside)
        elif isinstance(part.value, Block):
            yield _with_comment(beginning, beside)
            yield from self._block(part.value, self._child_indent(part.value, indent), path)

    def _item(self, block: Block, indent: int, path: Path, beside: str) -> Iterator[str]:
        """Write the item of a list: its first line begins with the dash."""
        column = block.column if block.column is not None else indent + _INDENT
        first_step, _ = next(child_steps(block))
        if beside:
            yield " " * indent + beside
        yield from self._comments_above((*path, first_step), indent)
        lines = self._block(block, column, path)
        yield f"{'':{indent}}{'-':{column - indent}}{next(lines)[column:]}"
        yield from lines

    def _child_indent(self, block: Block, indent: int) -> int:
        """Say how far to indent what is below a key."""
        if block.column is not None:
            return block.column
        return indent + (self._list_indent if block.is_list else _INDENT)

    def _line(self, value: Draft, path: Path, before: int) -> str | None:
        """Write a value on the line of its key, if it is short and nothing is said inside it."""
        line = _flow_style(value)
        if isinstance(value, Leaf) or not value.parts:
            return line
        is_quiet = not any(_leads_into(each, path) for each in self._part_comments)
        return line if value.is_flow and is_quiet and before + len(line) < _MAX_COLUMNS else None

    def _unchanged_lines(self, part: DraftPart, indent: int, path: Path) -> Iterator[str] | None:
        """Return the lines as they were, if the part is still where it was and begins a line."""
        spot = self._spots.get(path)
        if not part.is_unchanged or spot is None or spot.is_flow:
            return None
        begin = self._text.rfind("\n", 0, spot.start) + 1
        if part.key is None and "-" not in self._text[begin : spot.start]:
            return None
        end = max((spot.end, *(each.end for each in self._comments if _is_inside(each, path))))
        first, *rest = self._text[begin:end].splitlines()
        return iter((" " * indent + first[indent:], *rest))


def _flow_style(value: Draft) -> str:
    """Write a value on one line."""
    if isinstance(value, Leaf):
        return value.text
    if value.is_list:
        return f"[{', '.join(_in_brackets(part) for part in value.parts)}]"
    pairs = (f"{yaml_text(part.key or '')}: {_in_brackets(part)}" for part in value.parts)
    return f"{{{', '.join(pairs)}}}"


def _in_brackets(part: DraftPart) -> str:
    return flow_text(part.value.text) if isinstance(part.value, Leaf) else _flow_style(part.value)


def _reindent(lines: Iterable[tuple[CommentLine, int]], indent: int) -> Iterator[str]:
    """Indent comments as far as their part, and those that were indented deeper deeper."""
    for line, column in lines:
        deeper = line.column - column
        spaces = " " * (indent + (deeper if indent == column else max(0, deeper)))
        yield f"{spaces}{line.text}".rstrip()


def _with_comment(line: str, beside: str) -> str:
    return f"{line} {beside}" if beside else line


def _leads_into(path: Path, outer: Path) -> bool:
    return len(path) > len(outer) and path[: len(outer)] == outer


def _is_inside(comment: Comment, path: Path) -> bool:
    """Say whether a comment stands between the first and the last line of a part."""
    is_own = comment.path == path and comment.position is CommentPosition.BESIDE
    return is_own or _leads_into(comment.path, path)


def _indents_lists(spots: Mapping[Path, NodeSpan]) -> bool:
    """Say whether most lists of a document are indented below their key."""
    firsts = (spot for path, spot in spots.items() if path[-1] == 0 and not spot.is_flow)
    pairs = ((spot, spots.get(spot.path[:-1])) for spot in firsts)
    votes = [spot.column > key.column for spot, key in pairs if key is not None]
    return 2 * sum(votes) >= len(votes)
