"""Writes the annotation by which Kubernetes chooses the pods of a ReplicaSet that shrinks."""

from typing import Final
from urllib.parse import quote

import msgspec

from reactive_desched.kube.client.responses import accepted_body
from reactive_desched.kube.client.session import MERGE_PATCH, Transport
from reactive_desched.model.objects import Pod

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"


async def write_deletion_cost(session: Transport, pod: Pod, cost: int) -> bool:
    """Write the cost of a pod; return False where it is gone; raises ClusterError."""
    patch = {"metadata": {"uid": pod.uid, "annotations": {DELETION_COST: str(cost)}}}
    namespace, name = quote(pod.namespace, safe=""), quote(pod.name, safe="")
    reply = await session.request(
        "PATCH",
        f"/api/v1/namespaces/{namespace}/pods/{name}",
        body=msgspec.json.encode(patch),
        content_type=MERGE_PATCH,
    )
    if reply.is_overtaken:
        return False
    accepted_body(reply, f"pod {pod}")
    return True
