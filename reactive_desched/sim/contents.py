"""The checks of what ConfigMaps and Secrets hold."""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from reactive_desched.sim.objects import Obj
from reactive_desched.sim.status import cause

__all__ = ["config_map_faults", "held_faults", "secret_faults"]

_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")
_KEY_FORM: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name', "
    " or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_REQUIRED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "kubernetes.io/tls": ("tls.crt", "tls.key"),
        "kubernetes.io/ssh-auth": ("ssh-privatekey",),
        "kubernetes.io/dockercfg": (".dockercfg",),
        "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    }
)
_EITHER: Final = ("username", "password")


def config_map_faults(obj: Obj) -> Iterator[Obj]:
    """Yield what is wrong with the keys of a ConfigMap."""
    binary = obj.get("binaryData") or {}
    for key in obj.get("data") or ():
        yield from _key_faults("data", key)
        if key in binary:
            text = f'Invalid value: "{key}": duplicate of key present in binaryData'
            yield cause("FieldValueInvalid", f"data[{key}]", text)
    for key in binary:
        yield from _key_faults("binaryData", key)


def secret_faults(obj: Obj) -> Iterator[Obj]:
    """Yield what is wrong with the keys of a Secret, and which its type lacks."""
    data = obj.get("data") or {}
    for key in data:
        yield from _key_faults("data", key)
    required = _REQUIRED.get(str(obj.get("type")), ())
    if obj.get("type") == "kubernetes.io/basic-auth" and not any(key in data for key in _EITHER):
        required = _EITHER
    for key in required:
        if key not in data:
            yield cause("FieldValueRequired", f"data[{key}]", "Required value")


def held_faults(current: Obj, new: Obj) -> Iterator[Obj]:
    """Yield what may not change in a ConfigMap or a Secret: a type, and what is immutable."""
    if current.get("type") != new.get("type"):
        text = f'Invalid value: "{new.get("type")}": field is immutable'
        yield cause("FieldValueInvalid", "type", text)
    if not current.get("immutable"):
        return
    why = "Forbidden: field is immutable when `immutable` is set"
    if not new.get("immutable"):
        yield cause("FieldValueForbidden", "immutable", why)
    if any(current.get(field) != new.get(field) for field in ("data", "binaryData")):
        yield cause("FieldValueForbidden", "data", why)


def _key_faults(field: str, key: str) -> Iterator[Obj]:
    says = "" if _KEY.fullmatch(key) else _KEY_FORM
    if key in (".", "..") or key.startswith(".."):
        says = f"must not be '{key}'" if key in (".", "..") else "must not start with '..'"
    if says:
        yield cause("FieldValueInvalid", f"{field}[{key}]", f'Invalid value: "{key}": {says}')
