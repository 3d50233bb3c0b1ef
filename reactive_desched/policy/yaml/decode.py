"""Decodes trees to models strictly: unknown fields and wrong types are errors."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import NoneType
from typing import Annotated, Any, ClassVar, Final, TypeVar, get_args, get_origin

from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel, ValidationError

from reactive_desched.api.args import LENIENT_CONTEXT, Fix, Path
from reactive_desched.api.rules import Rule
from reactive_desched.model.labels import LabelSelector
from reactive_desched.policy.yaml.diagnostics import Diagnostic, DiagnosticList
from reactive_desched.policy.yaml.explain import explain_validation_error, is_union
from reactive_desched.policy.yaml.hidden_errors import error_details, hidden_errors
from reactive_desched.policy.yaml.selectors import selector_errors
from reactive_desched.policy.yaml.source_location import SourceLocation
from reactive_desched.policy.yaml.tree import (
    MappingEntry,
    MappingNode,
    ScalarNode,
    SequenceNode,
    YamlNode,
    to_plain,
)
from reactive_desched.primitives.foreign_code import calls_foreign_code
from reactive_desched.primitives.hints import did_you_mean, sole_near_name

_ZEROS: Final[Mapping[type, object]] = {bool: False, float: 0, int: 0, str: ""}

M = TypeVar("M", bound=BaseModel)
Shape = tuple[type[Any], Any]  # Any: annotations are whatever a model's author wrote


class FieldAdvice(Struct, frozen=True):
    """Advice on a field that is not known; `known_name` is the one it can only mean."""

    rule: Rule
    message: str
    hint: str
    known_name: str = ""

    @classmethod
    def near(cls, key: str, known: Collection[str], otherwise: str = "") -> "FieldAdvice":
        """Offer the known field that is most like this one, else `otherwise`."""
        hint = did_you_mean(key, known) or otherwise
        name = sole_near_name(key, known) or ""
        return cls(Rule.UNKNOWN_FIELD, "unknown field", hint, name)

    @classmethod
    def misplaced(cls, home: str, known_name: str = "") -> "FieldAdvice":
        """Say where the field belongs."""
        return cls(Rule.MISPLACED_FIELD, "does not belong here", home, known_name)


class FieldHints:
    """Hints that need to know the kind of document; the base has only names.

    `allows_lenient` says that there is a lenient reading: for what upstream defines alone.
    """

    allows_lenient: ClassVar[bool] = False

    def unknown_field(
        self, entry: MappingEntry, at: SourceLocation, known_fields: frozenset[str]
    ) -> "FieldAdvice":
        """Say what is wrong with an unknown field in the table at a place, and what to do."""
        del at
        return FieldAdvice.near(entry.key, known_fields)

    def wrong_type(self, path: Path, node: YamlNode | None) -> str:
        """Return a better hint than the general one, or the empty text."""
        del path, node
        return ""

    def upstream_ignores(self, path: Path) -> bool:
        """Say whether upstream drops an unknown field of the table at `path` without a word."""
        del path
        return False


class Decoder:
    """Decodes parts of documents into models and collects what is wrong."""

    def __init__(self, diagnostics: DiagnosticList, hints: FieldHints) -> None:
        self._diagnostics = diagnostics
        self._hints = hints
        self._is_lenient = diagnostics.lenient and hints.allows_lenient

    def decode(
        self, model: type[M], location: SourceLocation, skip: frozenset[str] = frozenset()
    ) -> M | None:
        """Decode the value at a place; None when a problem was found in its known fields.

        Nothing there, or null, is the same as no fields. `skip` names fields that are dealt with
        elsewhere. A field's null means absent, except where its type has None as a value.
        """
        node = location.node
        data = {} if node is None or _is_null(node) else self._prepare(model, node, location, skip)
        return self._validate(model, data, location)

    def _validate(self, model: type[M], data: object, location: SourceLocation) -> M | None:
        """Validate prepared data; a lenient reading warns of what it forgives and goes on."""

        @calls_foreign_code  # a model of a plugin's has validators of its own
        def read(written: object) -> M:
            return model.model_validate_json(json.dumps(written), strict=True)

        try:
            return read(data)
        except ValidationError as error:
            details = error_details(error)
        details += hidden_errors(read, data, details)
        problems = tuple(explain_validation_error(details, location, self._hints.wrong_type, model))
        for problem in problems:
            self._diagnostics.add(problem)
        if not (self._is_lenient and any(problem.forgivable for problem in problems)):
            return None
        try:
            return model.model_validate_json(json.dumps(data), strict=True, context=LENIENT_CONTEXT)
        except ValidationError as error:
            again = error_details(error)
            for problem in explain_validation_error(again, location, self._hints.wrong_type, model):
                self._diagnostics.add(problem)
            return None

    def _prepare(
        self,
        annotation: object,
        node: YamlNode,
        at: SourceLocation,
        skip: frozenset[str] = frozenset(),
    ) -> object:
        """Return plain data without unknown fields and without nulls that mean absent."""
        if _is_null(node):
            return None
        match _inner_shape(annotation), node:
            case (kind, inner), MappingNode() if kind is BaseModel:
                return self._prepare_fields(inner, node, at, skip)
            case (kind, inner), MappingNode() if kind is Mapping:
                return {
                    entry.key: self._prepare_element(inner, entry.value, at.below(entry.key))
                    for entry in node.entries
                }
            case (kind, inner), SequenceNode() if kind is Sequence:
                return [
                    self._prepare_element(inner, item, at.below(index))
                    for index, item in enumerate(node.items)
                ]
            case (kind, _), _ if kind is LabelSelector:
                return self._checked_selector(node, at)
            case _:
                return to_plain(node)

    def _prepare_element(self, annotation: object, node: YamlNode, at: SourceLocation) -> object:
        """Prepare an item of a list or a value of a mapping; a lenient one may be left empty."""
        zero = _go_zero_value(annotation) if self._is_lenient and _is_null(node) else None
        if zero is None:
            return self._prepare(annotation, node, at)
        self._diagnostics.warn(
            at.diagnostic("is empty", f"it counts as {json.dumps(zero)}", rule=Rule.EMPTY_VALUE)
        )
        return zero

    def _checked_selector(self, node: YamlNode, at: SourceLocation) -> object:
        """Check a selector object here, where each fault has its place; {} stands for a bad one."""
        written = to_plain(node)
        errors = tuple(selector_errors(written))
        for error in errors:
            self._diagnostics.add(at.error(error))
        return {} if errors else _without_nulls(written)

    def _prepare_fields(
        self, model: type[BaseModel], table: MappingNode, at: SourceLocation, skip: frozenset[str]
    ) -> dict[str, object]:
        """Prepare each known field; report the others."""
        fields, is_open = fields_by_key(model), model.model_config.get("extra") == "allow"
        data: dict[str, object] = {}
        for entry in table.entries:
            if entry.key in skip:
                continue
            if entry.key not in fields and is_open:
                data[entry.key] = to_plain(entry.value)
            elif entry.key not in fields:
                self._diagnostics.add(self._unknown_field(entry, at, frozenset(fields)))
            elif not _means_absent(entry.value, fields[entry.key]):
                value = self._prepare(fields[entry.key], entry.value, at.below(entry.key))
                data[entry.key] = value
        return data

    def _unknown_field(
        self, entry: MappingEntry, at: SourceLocation, known_fields: frozenset[str]
    ) -> Diagnostic:
        """Describe a field that is not known here."""
        found = self._hints.unknown_field(entry, at, known_fields)
        renamed = found.known_name if found.known_name not in _keys(at.node) else ""
        return at.below(entry.key).diagnostic(
            found.message,
            found.hint,
            entry.mark,
            lenient_ok=self._hints.upstream_ignores(at.path),
            rule=found.rule,
            fix=Fix(renamed) if renamed else None,
        )


def _keys(node: YamlNode | None) -> frozenset[str]:
    return node.keys if isinstance(node, MappingNode) else frozenset()


def known_fields_only(node: YamlNode, annotation: object) -> YamlNode:
    """Return the tree without what a type has no fields for; every path in it stays as it was."""
    match _inner_shape(annotation), node:
        case (kind, inner), MappingNode(entries=entries) if kind is BaseModel:
            fields = fields_by_key(inner)
            kept = [
                replace(entry, value=known_fields_only(entry.value, fields[entry.key]))
                for entry in entries
                if entry.key in fields
            ]
            return replace(node, entries=tuple(kept))
        case (kind, inner), MappingNode(entries=entries) if kind is Mapping:
            return replace(
                node,
                entries=tuple(
                    replace(entry, value=known_fields_only(entry.value, inner)) for entry in entries
                ),
            )
        case (kind, inner), SequenceNode(items=items) if kind is Sequence:
            return replace(node, items=tuple(known_fields_only(item, inner) for item in items))
        case _:
            return node


def fields_by_key(model: type[BaseModel]) -> dict[str, object]:
    """Return the annotation of each field of a model by the name it has in a file."""
    return {
        alias if isinstance(alias := info.validation_alias or info.alias, str) else name: (
            info.annotation
        )
        for name, info in model.model_fields.items()
    }


def places_of_field(model: type[BaseModel], key: str, above: str = "") -> Iterator[str]:
    """Yield where a model and those inside it have a field of this name, as `budgets.schedules`."""
    for name, annotation in fields_by_key(model).items():
        place = f"{above}{name}"
        if name == key:
            yield place
        shape, lists = _inner_shape(annotation), ""
        while shape is not None and shape[0] in (Mapping, Sequence):
            lists += "[]" if shape[0] is Sequence else ".*"
            shape = _inner_shape(shape[1])
        if shape is not None and shape[0] is BaseModel:
            yield from places_of_field(shape[1], key, f"{place}{lists}.")


def _go_zero_value(annotation: object) -> object:
    """Return Go's zero value for a null in a field of this type; None where null is valid."""
    shape = _inner_shape(annotation)
    if is_union(annotation) or shape is not None:
        return {} if shape is not None and shape[0] is BaseModel else None
    bare = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    return _ZEROS.get(bare) if isinstance(bare, type) else None


def _means_absent(node: YamlNode, annotation: object) -> bool:
    """Say whether a null means that the field is not there."""
    return _is_null(node) and not (is_union(annotation) and NoneType in get_args(annotation))


def _is_null(node: YamlNode) -> bool:
    return isinstance(node, ScalarNode) and node.value is None


def _without_nulls(written: object) -> object:
    """Drop the nulls of mappings, which mean that a key is not there."""
    match written:
        case dict():
            return {key: _without_nulls(each) for key, each in written.items() if each is not None}
        case list():
            return [_without_nulls(each) for each in written]
        case _:
            return written


def _inner_shape(annotation: object) -> Shape | None:
    """Say what to look into: a model, a selector, a list's items, a mapping's values."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return BaseModel, annotation
    if annotation is LabelSelector:
        return LabelSelector, annotation
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _inner_shape(arguments[0])
    if is_union(annotation):
        return next(filter(None, map(_inner_shape, arguments)), None)
    if isinstance(origin, type) and arguments:
        if issubclass(origin, Mapping):
            return Mapping, arguments[-1]
        if issubclass(origin, (Sequence, frozenset, set)):
            return Sequence, arguments[0]
    return None
