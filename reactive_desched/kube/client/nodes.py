"""Cordons nodes and writes their annotations about drains; only what differs is sent."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from reactive_desched.kube.client.responses import accepted_body
from reactive_desched.kube.client.session import MERGE_PATCH, Transport
from reactive_desched.model.node_drains import DRAIN, DRAINED


async def request_drain(session: Transport, node: str, wish: str) -> None:
    """Cordon a node and say who wants it emptied, in one write; raises ClusterError."""
    await _patch(session, node, {DRAIN: wish, DRAINED: None}, unschedulable=True)


async def withdraw_drain(session: Transport, node: str) -> None:
    """Uncordon a node and take both annotations off, in one write; raises ClusterError."""
    await _patch(session, node, {DRAIN: None, DRAINED: None}, unschedulable=False)


async def mark_drained(session: Transport, node: str, drained: str | None) -> None:
    """Write when a node was emptied, None for one that is not; raises ClusterError."""
    await _patch(session, node, {DRAINED: drained})


async def _patch(
    session: Transport,
    node: str,
    annotations: Mapping[str, str | None],
    *,
    unschedulable: bool | None = None,
) -> None:
    patch: dict[str, Any] = {"metadata": {"annotations": annotations}}  # any JSON
    if unschedulable is not None:
        patch["spec"] = {"unschedulable": unschedulable}
    reply = await session.request(
        "PATCH",
        f"/api/v1/nodes/{quote(node, safe='')}",
        body=msgspec.json.encode(patch),
        content_type=MERGE_PATCH,
    )
    accepted_body(reply, f"node {node}")
