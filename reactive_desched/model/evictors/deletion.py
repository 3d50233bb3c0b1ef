"""Deletion of the pod, which no PodDisruptionBudget holds up."""

from typing import Final

import msgspec

from reactive_desched.model.eviction_options import delete_options
from reactive_desched.model.evictor import ApiCall, Evictor, Requester, pod_path
from reactive_desched.model.outcomes import EvictionRequest
from reactive_desched.model.rights import Right

_encode: Final = msgspec.json.Encoder().encode


def _call(request: EvictionRequest, _: Requester) -> ApiCall:
    options = delete_options(request.options, request.uid)
    return ApiCall("DELETE", pod_path(request), _encode(options))


DELETION: Final = Evictor(
    name="Delete",
    action="delete",
    does="by deletion, which asks no budget",
    choice="which no PodDisruptionBudget holds up",
    call=_call,
    is_deletion=True,
    right=Right("", "pods", ("delete",)),
    role="deletion",
    role_note="A pod is deleted by its uid. No PodDisruptionBudget is asked of a deletion.",
)
