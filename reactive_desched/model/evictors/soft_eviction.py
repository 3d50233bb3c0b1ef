"""Soft eviction: koordinator's annotation of the pod, on which another program acts."""

from datetime import datetime
from typing import Final

import msgspec
from msgspec import Struct

from reactive_desched.model.eviction_options import DeleteOptions
from reactive_desched.model.evictor import ApiCall, Evictor, Requester, pod_path
from reactive_desched.model.outcomes import (
    EVICTED,
    EvictionRequest,
    LeavesLater,
    Outcome,
    OutcomeReason,
    PodFound,
)
from reactive_desched.model.rights import Right
from reactive_desched.primitives.decode_errors import DECODE_ERRORS
from reactive_desched.text.times import format_second

ANNOTATION: Final = "scheduling.koordinator.sh/soft-eviction"
"""koordinator's annotation of a pod that is to be evicted softly: who asked, when, and why."""

SOFT_EVICTION_REQUESTED: Final = OutcomeReason(
    EVICTED,
    "SoftEvictionRequested",
    "The pod has koordinator's annotation of a soft eviction: it leaves when another program has "
    "acted on it.",
)


class _SoftEviction(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The value of the annotation; what is empty is left out."""

    timestamp: str
    delete_options: DeleteOptions | None = None
    initiator: str = ""
    reason: str = ""


class _Asked(Struct, frozen=True, gc=False):
    timestamp: datetime | None = None


_encode: Final = msgspec.json.Encoder().encode
_read: Final = msgspec.json.Decoder(_Asked).decode


def _call(request: EvictionRequest, requester: Requester) -> ApiCall:
    options = request.options
    value = _SoftEviction(
        timestamp=format_second(requester.now_s),
        delete_options=options.delete,
        initiator=options.initiator,
        reason=options.reason or "NotSet",
    )
    annotations = {ANNOTATION: _encode(value).decode()}
    return ApiCall(
        "PATCH",
        pod_path(request),
        _encode({"metadata": {"uid": request.uid, "annotations": annotations}}),
        "application/merge-patch+json",
    )


def _found(request: EvictionRequest, found: PodFound) -> Outcome | None:
    """Return what the annotation shows, if it is that of the request: times are cut."""
    if (annotation := found.annotations.get(ANNOTATION)) is None:
        return None
    asked_s = request.sent.own_s
    if asked_s is not None and _asked_s(annotation) < int(asked_s):
        return None
    return SOFT_EVICTION_REQUESTED.outcome("a read of the pod shows the annotation")


def _asked_s(annotation: str) -> float:
    """Return when a soft eviction was asked for; 0 where the annotation does not say it."""
    try:
        asked = _read(annotation.encode()).timestamp
    except DECODE_ERRORS:
        return 0.0
    return 0.0 if asked is None else asked.timestamp()


SOFT_EVICTION: Final = Evictor(
    name="SoftEviction",
    action="soft-evict",
    does="by an annotation, on which another program acts",
    choice="an annotation on which another program acts",
    call=_call,
    accepted=LeavesLater("another program has to act on the annotation", SOFT_EVICTION_REQUESTED),
    found=_found,
    right=Right("", "pods", ("patch",)),
    role="soft-eviction",
    role_note="It is used for the annotation scheduling.koordinator.sh/soft-eviction alone; RBAC "
    "cannot say that.",
)
