"""Cordons nodes, and writes their annotations about drains and their taints.

Each write names the uid of the node, where that is known: one of the same name that was made since,
or in another cluster to which the address leads, is not written.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

import msgspec
from msgspec import Struct
from msgspec.json import Decoder

from reactive_desched.kube.client.responses import accepted_body
from reactive_desched.kube.client.session import MERGE_PATCH, Transport
from reactive_desched.model.node_drains import DRAIN, DRAINED
from reactive_desched.model.objects import Node
from reactive_desched.model.taints import Taint

_CONFLICT: Final = (HTTPStatus.CONFLICT,)


class _Metadata(Struct, rename="camel"):
    resource_version: str


class _Spec(Struct):
    taints: list[dict[str, Any]] = []  # any JSON: what others write stays as it is


class _ReadNode(Struct):
    """The parts of a node that a write of taints has to read first."""

    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)


_decode_node: Final = Decoder(_ReadNode).decode


async def request_drain(session: Transport, node: Node, wish: str) -> None:
    """Cordon a node and say who wants it emptied, in one write; raises ClusterError."""
    await _patch(session, node, {DRAIN: wish, DRAINED: None}, unschedulable=True)


async def withdraw_drain(session: Transport, node: Node) -> None:
    """Uncordon a node and take both annotations off, in one write; raises ClusterError."""
    await _patch(session, node, {DRAIN: None, DRAINED: None}, unschedulable=False)


async def mark_drained(session: Transport, node: Node, drained: str | None) -> None:
    """Write when a node was emptied, None for one that is not; raises ClusterError."""
    await _patch(session, node, {DRAINED: drained})


async def write_taint(session: Transport, node: Node, key: str, taint: Taint | None) -> None:
    """Write a taint in place of those of the same key, None for none; raises ClusterError.

    Taints are one list, which others write as well: it is read, and the write is refused where the
    node was written in between.
    """
    path, about = _path(node), f"node {node.name}"
    reply = await session.request("GET", path)
    read = _decode_node(accepted_body(reply, about))
    kept = [each for each in read.spec.taints if each.get("key") != key]
    if taint is not None:
        kept.append({"key": key, "effect": taint.effect, "value": taint.value})
    if kept == read.spec.taints:
        return
    patch = {
        "metadata": {"resourceVersion": read.metadata.resource_version, **_identity(node)},
        "spec": {"taints": kept},
    }
    body = msgspec.json.encode(patch)
    reply = await session.request("PATCH", path, body=body, content_type=MERGE_PATCH)
    accepted_body(reply, about, _CONFLICT)


async def _patch(
    session: Transport,
    node: Node,
    annotations: Mapping[str, str | None],
    *,
    unschedulable: bool | None = None,
) -> None:
    metadata = {"annotations": annotations, **_identity(node)}
    patch: dict[str, Any] = {"metadata": metadata}  # any JSON
    if unschedulable is not None:
        patch["spec"] = {"unschedulable": unschedulable}
    reply = await session.request(
        "PATCH",
        _path(node),
        body=msgspec.json.encode(patch),
        content_type=MERGE_PATCH,
    )
    accepted_body(reply, f"node {node.name}", _CONFLICT)


def _path(node: Node) -> str:
    return f"/api/v1/nodes/{quote(node.name, safe='')}"


def _identity(node: Node) -> dict[str, str]:
    return {"uid": node.uid} if node.uid else {}
