"""The syntax of names and labels, and the messages of the API server about wrong ones."""

import re
from collections.abc import Iterator
from typing import Final

from reactive_desched.sim.objects import Obj
from reactive_desched.sim.resources import Resource
from reactive_desched.sim.status import cause

__all__ = ["label_faults", "name_faults", "qualified_name_fault"]

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_PART: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_VALUE: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_RBAC: Final = "rbac.authorization.k8s.io"
_LABEL_NAMED: Final = ("namespaces", "services")
_LONGEST_LABEL: Final = 63
_LONGEST_SUBDOMAIN: Final = 253
_ENDS: Final = "and must start and end with an alphanumeric character"
_NAME_FORM: Final = (
    f"name part must consist of alphanumeric characters, '-', '_' or '.', {_ENDS} (e.g. 'MyName', "
    f" or 'my.name',  or '123-abc', regex used for validation is '{_NAME_PART.pattern}')"
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


def label_faults(obj: Obj) -> Iterator[Obj]:
    """Yield what is wrong with the labels of an object."""
    for key, value in (obj["metadata"].get("labels") or {}).items():
        if says := qualified_name_fault(key):
            text = f'Invalid value: "{key}": {says}'
            yield cause("FieldValueInvalid", "metadata.labels", text)
        if not _VALUE.fullmatch(value) or len(value) > _LONGEST_LABEL:
            long = len(value) > _LONGEST_LABEL
            says = f"must be no more than {_LONGEST_LABEL} characters" if long else _VALUE_FORM
            text = f'Invalid value: "{value}": {says}'
            yield cause("FieldValueInvalid", "metadata.labels", text)


def qualified_name_fault(key: str) -> str:
    """Return what is wrong with the key of a label or a taint, or "" when nothing is."""
    prefix, slash, name = key.rpartition("/")
    if not _NAME_PART.fullmatch(name):
        return _NAME_FORM
    if len(name) > _LONGEST_LABEL:
        return f"name part must be no more than {_LONGEST_LABEL} characters"
    if slash and (not _SUBDOMAIN.fullmatch(prefix) or len(prefix) > _LONGEST_SUBDOMAIN):
        return f"prefix part {_SUBDOMAIN_FORM}"
    return ""
