"""The kinds of object a picture is made of, and how each is read."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from reactive_desched.kube.decode.codec import Codec
from reactive_desched.kube.decode.codecs import make_codecs
from reactive_desched.kube.decode.interning import InternTables

__all__ = ["ResourceKind", "resource_kinds"]

_CORE: Final = ""


class ResourceKind(Struct, frozen=True):
    """One kind of object: the API group and resource it belongs to, and its codec."""

    group: str
    resource: str
    codec: Codec[Any]  # every kind has its own records

    def accepts(self, api_version: str) -> bool:
        """Say whether an object of this name and that version is one; no version will do."""
        return not api_version or _api_group(api_version) == self.group


def resource_kinds(shared: InternTables) -> Mapping[str, ResourceKind]:
    """Return every kind that is looked at by its name, their codecs sharing the same parts."""
    every: tuple[Codec[Any], ...] = msgspec.structs.astuple(make_codecs(shared))
    return {codec.kind: _resource_kind(codec) for codec in every}


def _resource_kind(codec: Codec[Any]) -> ResourceKind:
    """Read the group and the resource off the path, for example `/apis/policy/v1/…`."""
    _, _, below = codec.path.strip("/").partition("/")
    api_version, _, resource = below.rpartition("/")
    return ResourceKind(_api_group(api_version), resource, codec)


def _api_group(api_version: str) -> str:
    group, slash, _ = api_version.rpartition("/")
    return group if slash else _CORE
