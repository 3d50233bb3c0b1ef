"""Where in which file something was read, so that a problem can be told with its place."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from reactive_desched.policy.diagnostics import Complaint, Path, Problem, quoted, spelled
from reactive_desched.policy.tree import Items, Mark, Node, Scalar, Table, find, mark_of

_LONGEST: Final = 300


@dataclass(frozen=True, slots=True)
class Origin:
    """The document another one was made from, and where in it each part of that was written."""

    root: Node
    paths: Mapping[Path, Path]

    def written(self, path: Path) -> Path:
        """Give the path in the first document for one in the second."""
        lengths = range(len(path), -1, -1)
        known = next((length for length in lengths if path[:length] in self.paths), None)
        return path if known is None else (*self.paths[path[:known]], *path[known:])


@dataclass(frozen=True, slots=True)
class Place:
    """A path in one document of one source.

    In a document made from another, `origin` makes problems name the place a person wrote at.
    """

    source: str
    root: Node
    path: Path = ()
    origin: Origin | None = None

    @property
    def node(self) -> Node | None:
        """The value at this place, if there is one."""
        return find(self.root, self.path)

    def below(self, *steps: str | int) -> "Place":
        """Go further down."""
        return replace(self, path=(*self.path, *steps))

    @property
    def is_null(self) -> bool:
        """Say whether there is nothing here, or an explicit null."""
        node = self.node
        return node is None or (isinstance(node, Scalar) and node.value is None)

    @property
    def word(self) -> str | None:
        """The text at this place, or None where there is something else."""
        node = self.node
        return node.value if isinstance(node, Scalar) and isinstance(node.value, str) else None

    def items(self) -> Iterator["Place"]:
        """Give the places of the items of a list; nothing where there is no list."""
        node = self.node
        return map(self.below, range(len(node.items) if isinstance(node, Items) else 0))

    def words(self) -> Iterator[tuple[str, "Place"]]:
        """Give the texts in a list, each with its place; what is no text is left out."""
        return ((item.word, item) for item in self.items() if item.word is not None)

    @property
    def written(self) -> "Place":
        """The place where a person wrote this; the same place unless the document was made."""
        if self.origin is None:
            return self
        return Place(self.source, self.origin.root, self.origin.written(self.path))

    def problem(
        self, message: str, hint: str = "", mark: Mark | None = None, *, forgivable: bool = False
    ) -> Problem:
        """Describe what is wrong at this place; `mark` overrules where it is found."""
        root, path = self.written.root, self.written.path
        at = mark or mark_of(root, path)
        return Problem(
            source=self.source,
            line=at.line,
            column=at.column,
            path=spelled(path),
            message=message if len(message) <= _LONGEST else f"{message[:_LONGEST]}…",
            hint=hint,
            context=_context(root, path),
            forgivable=forgivable,
        )

    def complaint(self, complaint: Complaint) -> Problem:
        """Describe what a validator found wrong at or below this place."""
        at = self.below(*complaint.path)
        return at.problem(complaint.message, complaint.hint, forgivable=complaint.forgivable)


def _context(root: Node, path: Path) -> str:
    """Name the profile and the plugin around a path, as people know them by name."""
    match path:
        case ("profiles", int(), "pluginConfig", int(), *_):
            return ", ".join(filter(None, (_context(root, path[:2]), _name(root, path[:4]))))
        case ("profiles", int(), *_):
            name = _name(root, path[:2])
            return f"profile {name}" if name else ""
        case _:
            return ""


def _name(root: Node, path: Path) -> str:
    """Give the name written in the table at a path, on one line and bounded."""
    node = find(root, path)
    return quoted(node.text("name"))[1:-1] if isinstance(node, Table) else ""
