"""Describes each field of a model, its name and default: for pages and `policy explain`."""

import inspect
import re
from collections.abc import Iterator
from types import UnionType
from typing import Final, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

_LINK: Final = re.compile(r"\[([^\]]+)\]\([^)]*\)")
REQUIRED: Final = "required"
_SKIPPED: Final = ("apiVersion", "kind")


class FieldDescription(NamedTuple):
    """A field by its path, as policies and settings write it.

    `default` is `required` for a field that must be given, and empty where leaving it out means
    nothing in particular.
    """

    name: str
    default: str
    meaning: str


def without_links(text: str) -> str:
    """Return a text of the documentation as it stands where its pages are not."""
    return _LINK.sub(r"\1", text)


def fields_of(model: type[BaseModel], prefix: str = "") -> Iterator[FieldDescription]:
    """Yield the fields of a model and of its sections, in their order."""
    for name, field in model.model_fields.items():
        written = str(field.serialization_alias or field.alias or name)
        if written in _SKIPPED:
            continue
        section = section_of(field)
        if section is not None and get_origin(field.annotation) is not dict:
            yield from fields_of(section, f"{prefix}{written}.")
        else:
            meaning = re.sub(r"\s+", " ", field.description or "")
            yield FieldDescription(f"{prefix}{written}", _default(name, field), meaning)


def section_of(field: FieldInfo) -> type[BaseModel] | None:
    """Return the model of a field that is a section, with or without None; else None."""
    kinds = [field.annotation]
    if get_origin(field.annotation) in (Union, UnionType):
        kinds = list(get_args(field.annotation))
    for kind in kinds:
        if inspect.isclass(kind) and issubclass(kind, BaseModel):
            return kind
    return None


def _default(name: str, field: FieldInfo) -> str:
    if field.is_required():
        return REQUIRED
    value = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, float):
        return _seconds(value) if name.endswith("_s") else f"{value:g}"
    if isinstance(value, tuple) and value:
        return f"[{', '.join(map(str, value))}]"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if text and value not in (None, (), {}) else ""


def _seconds(value: float) -> str:
    """Write seconds as people write durations: 30d rather than 2592000s."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if value and value % size == 0:
            return f"{value / size:g}{unit}"
    return f"{value:g}s"
