"""The fields of the published API types, as protobuf numbers and as JSON names them."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from msgspec import Struct

__all__ = ["Field", "message_for", "named_fields", "numbered_fields", "readable_message"]

_PACKAGES = MappingProxyType(
    {
        "v1": "core",
        "apps/v1": "apps",
        "batch/v1": "batch",
        "policy/v1": "policy",
        "coordination.k8s.io/v1": "coord",
        "events.k8s.io/v1": "events",
        "scheduling.k8s.io/v1": "sched",
        "authorization.k8s.io/v1": "authz",
        "authentication.k8s.io/v1": "authn",
        "autoscaling/v1": "autosc",
        "autoscaling/v2": "hpa",
        "discovery.k8s.io/v1": "disc",
        "storage.k8s.io/v1": "storage",
        "node.k8s.io/v1": "node",
        "networking.k8s.io/v1": "net",
        "rbac.authorization.k8s.io/v1": "rbac",
    }
)
_READ_ALONE = MappingProxyType(
    {
        "admissionregistration.k8s.io/v1": "adm",
        "apiextensions.k8s.io/v1": "ext",
        "apiregistration.k8s.io/v1": "apireg",
        "resource.k8s.io/v1": "res",
    }
)
"""Packages that are read from protobuf; their objects are of no other use by field."""

_INLINED = "."


class Field(Struct, frozen=True):
    """One field: its name in JSON, whether zero is a wish, and its kind in the table's letters."""

    name: str
    keeps_zero: bool
    kind: str


def message_for(api_version: str, kind: str) -> str | None:
    """Return the message a kind is described by, or None when the table does not hold it."""
    return _known(_PACKAGES.get(api_version, ""), kind)


def readable_message(api_version: str, kind: str) -> str | None:
    """Return the message as which a kind is read from protobuf, or None."""
    return message_for(api_version, kind) or _known(_READ_ALONE.get(api_version, ""), kind)


def _known(package: str, kind: str) -> str | None:
    message = f"{package}.{kind}"
    return message if message in _table() else None


def numbered_fields(message: str) -> Mapping[int, Field]:
    """Return a message's fields by their number in protobuf."""
    return _table()[message]


@cache
def named_fields(message: str) -> Mapping[str, Field]:
    """Return a message's fields by their name in JSON, where inlined messages have no name."""
    found: dict[str, Field] = {}
    for field in _table()[message].values():
        if field.name == _INLINED:
            found |= named_fields(field.kind.removeprefix("@"))
        else:
            found[field.name] = field
    return found


@cache
def _table() -> Mapping[str, Mapping[int, Field]]:
    """Read the table when the first body arrives."""
    text = files("reactive_desched.sim.http").joinpath("protobuf.schema").read_text("utf-8")
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            message, _, listed = line.partition(": ")
            found[message] = dict(_field(entry) for entry in listed.split())
    return found


def _field(entry: str) -> tuple[int, Field]:
    number, _, rest = entry.partition("=")
    name, _, kind = rest.partition(":")
    return int(number), Field(name.removesuffix("?"), name.endswith("?"), kind)
