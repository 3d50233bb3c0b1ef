"""Namespaces: their labels decide which pods a namespaceSelector selects; they can opt out."""

from typing import Final

from msgspec.structs import replace

from reactive_desched.model.changes import NamespaceChanged
from reactive_desched.model.objects import Namespace
from reactive_desched.state.kinds.interning import parse_resource_version
from reactive_desched.state.kinds.kind import (
    NO_OPT_OUT,
    Metadata,
    OptOutAnnotation,
    Timestamp,
    WatchedKind,
    WireStruct,
)

__all__ = ["NAMESPACE"]


class NamespaceMetadata(Metadata, frozen=True, gc=False):
    """A namespace's metadata."""

    annotations: OptOutAnnotation = NO_OPT_OUT
    deletion_timestamp: Timestamp | None = None


class WireNamespace(WireStruct, frozen=True, gc=False):
    """A namespace's JSON."""

    metadata: NamespaceMetadata


def _read(wire: WireNamespace) -> Namespace:
    metadata = wire.metadata
    return Namespace(
        name=metadata.name,
        uid=metadata.uid,
        resource_version=parse_resource_version(metadata.resource_version),
        labels=metadata.labels,
        do_not_evict=metadata.annotations.do_not_evict,
        is_terminating=metadata.deletion_timestamp is not None,
        answer=metadata.annotations.answer,
    )


def _mark_unread(namespace: Namespace, _: str) -> Namespace:
    """Hold the pods of a namespace of which not all is read: it may opt out."""
    return replace(namespace, do_not_evict="true")


NAMESPACE: Final = WatchedKind(
    kind="Namespace",
    resource="namespaces",
    api_version="v1",
    namespaced=False,
    record=Namespace,
    wire=WireNamespace,
    make_reader=lambda _: _read,
    make_change=lambda namespace: NamespaceChanged(namespace.name),
    mark_unread=_mark_unread,
    read_for="label selectors of namespaces in policies and in pod affinity, opt-outs, and whether "
    "its pods end with it",
)
