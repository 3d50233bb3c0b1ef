"""Nominations: `status.nominatedNodeName` of a pod that waits for a node.

The kube-scheduler counts a nominated pod on its node for all pods of its priority and below. It
takes a nomination back when it tries the pod, finds no place and could preempt others for it.
"""

from http import HTTPStatus
from urllib.parse import quote

import msgspec

from reactive_desched.kube.client.responses import ApiResponse, accepted_body
from reactive_desched.kube.client.session import MERGE_PATCH, Transport
from reactive_desched.model.objects import Pod


async def nominate(session: Transport, pod: Pod, node: str) -> bool:
    """Nominate a pod for a node, or for none if that is empty; raises ClusterError.

    Return whether it is nominated: not one that is gone, or has a node by now.
    """
    reply = await _patch(session, pod, node)
    if _is_overtaken(reply):
        return False
    accepted_body(reply, f"pod {pod}")
    return True


async def nominate_if_allowed(session: Transport, pod: Pod, node: str) -> None:
    """Nominate a pod for a node; skipped without the right to; raises ClusterError."""
    reply = await _patch(session, pod, node)
    if reply.status != HTTPStatus.FORBIDDEN and not _is_overtaken(reply):
        accepted_body(reply, f"pod {pod}")


def _is_overtaken(reply: ApiResponse) -> bool:
    """Say whether the pod is gone, or has a node: the API server calls that unprocessable."""
    return reply.is_overtaken or reply.status == HTTPStatus.UNPROCESSABLE_ENTITY


async def _patch(session: Transport, pod: Pod, node: str) -> ApiResponse:
    patch = {"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": node or None}}
    namespace, name = quote(pod.namespace, safe=""), quote(pod.name, safe="")
    return await session.request(
        "PATCH",
        f"/api/v1/namespaces/{namespace}/pods/{name}/status",
        body=msgspec.json.encode(patch),
        content_type=MERGE_PATCH,
    )
