"""The syntax of names and labels, and the messages of the API server about wrong ones."""

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from reactive_desched.sim.objects import Obj
from reactive_desched.sim.resources import Resource
from reactive_desched.sim.status import cause

__all__ = ["metadata_faults", "name_faults", "qualified_name_faults", "selector_faults"]

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_PART: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_VALUE: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_RBAC: Final = "rbac.authorization.k8s.io"
_LABEL_NAMED: Final = ("namespaces", "services")
_LONGEST_LABEL: Final = 63
_LONGEST_SUBDOMAIN: Final = 253
_ENDS: Final = "and must start and end with an alphanumeric character"
_PART_FORM: Final = (
    f"must consist of alphanumeric characters, '-', '_' or '.', {_ENDS} (e.g. 'MyName', "
    f" or 'my.name',  or '123-abc', regex used for validation is '{_NAME_PART.pattern}')"
)
_WITH_PREFIX: Final = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
_EXTENSIONS: Final = ("apiextensions.k8s.io", "apiregistration.k8s.io")
_STANDARD_FINALIZERS: Final = ("kubernetes", "orphan", "foregroundDeletion")
_OWNER_NEEDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "apiVersion": "version must not be empty",
        "kind": "kind must not be empty",
        "name": "name must not be empty",
        "uid": "must not be empty",
    }
)
_VALUE_FORM: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or"
    f" '.', {_ENDS} (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is"
    f" '{_VALUE.pattern}')"
)
_LABEL_FORM: Final = (
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ENDS}"
    " (e.g. 'my-name',  or '123-abc', regex used for validation is"
    f" '{_LABEL.pattern}')"
)
_SUBDOMAIN_FORM: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or"
    f" '.', {_ENDS} (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN.pattern}')"
)


def name_faults(kind: Resource, name: str) -> Iterator[Obj]:
    """Yield what is wrong with the name of a new object."""
    if not name:
        text = "Required value: name or generateName is required"
        yield cause("FieldValueRequired", "metadata.name", text)
    elif kind.group == _RBAC:
        yield from _path_segment_fault(name)
    elif kind.plural == "services" and "." in name:
        text = f'Invalid value: "{name}": must not contain dots'
        yield cause("FieldValueInvalid", "metadata.name", text)
    elif kind.plural in _LABEL_NAMED:
        yield from _form_fault(name, _LABEL, _LONGEST_LABEL, _LABEL_FORM)
    else:
        yield from _form_fault(name, _SUBDOMAIN, _LONGEST_SUBDOMAIN, _SUBDOMAIN_FORM)


def _form_fault(name: str, form: re.Pattern[str], longest: int, says: str) -> Iterator[Obj]:
    if len(name) > longest:
        says = f"must be no more than {longest} characters"
    elif form.fullmatch(name):
        return
    yield cause("FieldValueInvalid", "metadata.name", f'Invalid value: "{name}": {says}')


def _path_segment_fault(name: str) -> Iterator[Obj]:
    """Yield why the name of a role cannot be a part of a URL."""
    says = f"may not be '{name}'" if name in (".", "..") else ""
    for character in "/%":
        says = says or (f"may not contain '{character}'" if character in name else "")
    if says:
        yield cause("FieldValueInvalid", "metadata.name", f'Invalid value: "{name}": {says}')


def metadata_faults(kind: Resource, obj: Obj) -> Iterator[Obj]:
    """Yield what is wrong with the metadata of an object besides its name."""
    meta = obj["metadata"]
    yield from _label_faults(meta.get("labels") or {})
    for key in meta.get("annotations") or ():
        for says in qualified_name_faults(key.lower()):
            text = f'Invalid value: "{key}": {says}'
            yield cause("FieldValueInvalid", "metadata.annotations", text)
    yield from _owner_faults(meta.get("ownerReferences") or [])
    yield from _finalizer_faults(kind, meta.get("finalizers") or [])


def selector_faults(selector: Obj, place: str) -> Iterator[Obj]:
    """Yield what is wrong with a label selector, which is found at a place."""
    if isinstance(labels := selector.get("matchLabels"), dict):
        yield from _label_faults(labels, f"{place}.matchLabels")
    for index, each in enumerate(selector.get("matchExpressions") or ()):
        at, operator, values = f"{place}.matchExpressions[{index}]", each.get("operator"), "values"
        if operator in ("In", "NotIn") and not each.get(values):
            text = "Required value: must be specified when `operator` is 'In' or 'NotIn'"
            yield cause("FieldValueRequired", f"{at}.{values}", text)
        elif operator in ("Exists", "DoesNotExist") and each.get(values):
            text = "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield cause("FieldValueForbidden", f"{at}.{values}", text)
        elif operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            text = f'Invalid value: "{operator or ""}": not a valid selector operator'
            yield cause("FieldValueInvalid", f"{at}.operator", text)


def _label_faults(labels: Mapping[str, str], place: str = "metadata.labels") -> Iterator[Obj]:
    for key, value in labels.items():
        for says in qualified_name_faults(key):
            text = f'Invalid value: "{key}": {says}'
            yield cause("FieldValueInvalid", place, text)
        if not _VALUE.fullmatch(value) or len(value) > _LONGEST_LABEL:
            long = len(value) > _LONGEST_LABEL
            says = f"must be no more than {_LONGEST_LABEL} bytes" if long else _VALUE_FORM
            text = f'Invalid value: "{value}": {says}'
            yield cause("FieldValueInvalid", place, text)


def _owner_faults(owners: Sequence[Obj]) -> Iterator[Obj]:
    place = "metadata.ownerReferences"
    for owner in owners:
        for field, says in _OWNER_NEEDS.items():
            if not owner.get(field):
                yield cause("FieldValueInvalid", f"{place}.{field}", f'Invalid value: "": {says}')
        if (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Event"):
            says = "/v1, Kind=Event is disallowed from being an owner"
            yield cause("FieldValueInvalid", place, f"Invalid value: {_json(owner)}: {says}")
    leading = [f"{owner.get('kind')}/{owner.get('name')}" for owner in owners if _controls(owner)]
    for other in leading[1:]:
        says = (
            'Only one reference can have Controller set to true. Found "true" in references for'
            f" {leading[0]} and {other}"
        )
        yield cause("FieldValueInvalid", place, f"Invalid value: {_json(owners)}: {says}")


def _controls(owner: Obj) -> bool:
    return bool(owner.get("controller"))


def _finalizer_faults(kind: Resource, finalizers: Sequence[str]) -> Iterator[Obj]:
    place = "metadata.finalizers"
    for index, each in enumerate(finalizers):
        for says in qualified_name_faults(each):
            yield cause("FieldValueInvalid", place, f'Invalid value: "{each}": {says}')
        if "/" not in each and each not in _STANDARD_FINALIZERS and not _is_extension(kind):
            says = "name is neither a standard finalizer name nor is it fully qualified"
            text = f'Invalid value: "{each}": {says}'
            yield cause("FieldValueInvalid", f"{place}[{index}]", text)
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        says = "finalizer orphan and foregroundDeletion cannot be both set"
        yield cause("FieldValueInvalid", place, f"Invalid value: {_json(finalizers)}: {says}")


def _is_extension(kind: Resource) -> bool:
    """Say whether a kind is checked by the rules of all kinds alone."""
    return kind.is_custom or kind.group in _EXTENSIONS


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def qualified_name_faults(key: str) -> Iterator[str]:
    """Yield what is wrong with the key of a label or a taint, or the name of a finalizer."""
    prefix, slash, name = key.partition("/")
    if "/" in name:
        yield f"a valid label key {_PART_FORM} {_WITH_PREFIX}"
        return
    if not slash:
        prefix, name = "", key
    elif not prefix:
        yield "prefix part must be non-empty"
    elif not _SUBDOMAIN.fullmatch(prefix) or len(prefix) > _LONGEST_SUBDOMAIN:
        yield f"prefix part {_SUBDOMAIN_FORM}"
    if not name:
        yield "name part must be non-empty"
    elif len(name) > _LONGEST_LABEL:
        yield f"name part must be no more than {_LONGEST_LABEL} bytes"
    if not _NAME_PART.fullmatch(name):
        yield f"name part {_PART_FORM}"
