"""The file, line and path of a value, for diagnostics."""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.api.args import FieldError, Fix, Path
from reactive_desched.api.rules import Rule
from reactive_desched.policy.yaml.diagnostics import Diagnostic, format_path
from reactive_desched.policy.yaml.tree import (
    MappingNode,
    ScalarNode,
    SequenceNode,
    SourceMark,
    YamlNode,
    find,
    mark_of,
)
from reactive_desched.primitives.hints import quote

_MAX_MESSAGE_CHARS: Final = 300


class ConversionOrigin(Struct, frozen=True):
    """The document another one was made from, and where in it each part of that was written."""

    root: YamlNode
    paths: Mapping[Path, Path]

    def original_path(self, path: Path) -> Path:
        """Return the path in the first document for one in the second."""
        lengths = range(len(path), -1, -1)
        length_known = next((length for length in lengths if path[:length] in self.paths), None)
        return (
            path
            if length_known is None
            else (*self.paths[path[:length_known]], *path[length_known:])
        )


class SourceLocation(Struct, frozen=True):
    """A path in one document of one source.

    In a document made from another, `origin` makes problems name the place a person wrote at.
    """

    source: str
    root: YamlNode
    path: Path = ()
    origin: ConversionOrigin | None = None

    @property
    def node(self) -> YamlNode | None:
        """The value at this place, if there is one."""
        return find(self.root, self.path)

    def below(self, *steps: str | int) -> "SourceLocation":
        """Go further down."""
        return replace(self, path=(*self.path, *steps))

    @property
    def is_null(self) -> bool:
        """Say whether there is nothing here, or an explicit null."""
        node = self.node
        return node is None or (isinstance(node, ScalarNode) and node.value is None)

    @property
    def text(self) -> str | None:
        """The text at this place, or None where there is something else."""
        node = self.node
        return node.value if isinstance(node, ScalarNode) and isinstance(node.value, str) else None

    def items(self) -> Iterator["SourceLocation"]:
        """Return the places of the items of a list; nothing where there is no list."""
        node = self.node
        return map(self.below, range(len(node.items) if isinstance(node, SequenceNode) else 0))

    def field_names(self) -> Iterator[str]:
        """Return the names of the fields of a mapping; nothing where there is no mapping."""
        node = self.node
        return (each.key for each in (node.entries if isinstance(node, MappingNode) else ()))

    def texts(self) -> Iterator[tuple[str, "SourceLocation"]]:
        """Return the texts in a list, each with its place; what is no text is left out."""
        return ((item.text, item) for item in self.items() if item.text is not None)

    @property
    def original(self) -> "SourceLocation":
        """The place where a person wrote this; the same place unless the document was made."""
        if self.origin is None:
            return self
        return SourceLocation(self.source, self.origin.root, self.origin.original_path(self.path))

    def diagnostic(
        self,
        message: str,
        hint: str = "",
        mark: SourceMark | None = None,
        *,
        rule: Rule,
        lenient_ok: bool = False,
        fix: Fix | None = None,
        at_key: bool = False,
    ) -> Diagnostic:
        """Describe what is wrong at this place: at the value if it is a single one, else its key.

        `at_key` makes it the key in any case; `mark` overrules where it is found.
        """
        root, path = self.original.root, self.original.path
        at = mark or (mark_of(root, path) if at_key else _value_mark(root, path))
        return Diagnostic(
            source=self.source,
            line=at.line,
            column=at.column,
            path=format_path(path),
            message=message
            if len(message) <= _MAX_MESSAGE_CHARS
            else f"{message[:_MAX_MESSAGE_CHARS]}…",
            hint=hint,
            context=_context(root, path),
            forgivable=lenient_ok,
            rule=rule,
            fix=fix,
        )

    def error(self, error: FieldError) -> Diagnostic:
        """Describe what a validator found wrong at or below this place."""
        at = self.below(*error.path)
        return at.diagnostic(
            error.message,
            error.hint,
            lenient_ok=error.lenient_ok,
            rule=error.rule,
            fix=error.fix,
            at_key=error.at_key,
        )


def _value_mark(root: YamlNode, path: Path) -> SourceMark:
    """Return the place of a single value that is written, else what `mark_of` gives."""
    node = find(root, path)
    is_written = isinstance(node, ScalarNode) and bool(node.text)
    return node.mark if node is not None and is_written else mark_of(root, path)


def _context(root: YamlNode, path: Path) -> str:
    """Name the profile and the plugin around a path, as people know them by name."""
    match path:
        case ("profiles", int(), "pluginConfig", int(), *_):
            return ", ".join(filter(None, (_context(root, path[:2]), _name(root, path[:4]))))
        case ("profiles", int(), *_):
            name = _name(root, path[:2])
            return f"profile {name}" if name else ""
        case _:
            return ""


def _name(root: YamlNode, path: Path) -> str:
    """Return the name written in the table at a path, on one line and bounded."""
    node = find(root, path)
    return quote(node.text("name"))[1:-1] if isinstance(node, MappingNode) else ""
