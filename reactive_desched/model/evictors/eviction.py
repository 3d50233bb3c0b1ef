"""The Eviction API: a POST to the pod's subresource `eviction`."""

from typing import Final

import msgspec
from msgspec import Struct

from reactive_desched.model.eviction_options import EVICTION, DeleteOptions, delete_options
from reactive_desched.model.evictor import ApiCall, Evictor, Requester, pod_path
from reactive_desched.model.outcomes import EvictionRequest
from reactive_desched.model.rights import Right

CASE_ANNOTATION: Final = "reactive-desched/case"
"""The annotation of the Eviction with the case in our records: the API server keeps no Eviction,
but its audit log has it."""

_encode: Final = msgspec.json.Encoder().encode


class _Metadata(Struct, frozen=True, gc=False):
    name: str
    namespace: str
    annotations: dict[str, str]


class _Eviction(Struct, frozen=True, gc=False, rename="camel", tag_field="kind", tag="Eviction"):
    metadata: _Metadata
    delete_options: DeleteOptions
    api_version: str = "policy/v1"


def _call(request: EvictionRequest, requester: Requester) -> ApiCall:
    annotations = {"requested-by": requester.name}
    if request.message:
        annotations["reason"] = request.message
    if request.case:
        annotations[CASE_ANNOTATION] = request.case
    eviction = _Eviction(
        metadata=_Metadata(request.name, request.namespace, annotations),
        delete_options=delete_options(request.options, request.uid),
    )
    return ApiCall("POST", f"{pod_path(request)}/eviction", _encode(eviction))


EVICTION_API: Final = Evictor(
    name=EVICTION,
    action="evict",
    call=_call,
    right=Right("", "pods/eviction", ("create",)),
    sets_disruption_target=True,
)
