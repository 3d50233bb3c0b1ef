"""Requests the eviction of one pod, and classifies every possible response.

It sends one request: whether and when to repeat it is decided where the budgets are.
"""

import re
from collections.abc import Awaitable
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.errors import RateLimited, RequestRejected, Unreachable
from reactive_desched.kube.client.clock import Clock, SystemClock
from reactive_desched.kube.client.rate_limiter import RequestPriority
from reactive_desched.kube.client.responses import WEB_PAGE, ApiStatus, is_web_page
from reactive_desched.kube.client.responses import ApiResponse as Reply
from reactive_desched.kube.client.session import Session
from reactive_desched.model.eviction_options import (
    SOFT_EVICTION,
    DeleteOptions,
    EvictionPolicy,
    Preconditions,
)
from reactive_desched.model.objects import DISRUPTION_TARGET
from reactive_desched.model.outcomes import (
    Accepted,
    Conflict,
    Denied,
    EffectUnknown,
    EvictionRequest,
    EvictionResponse,
    LeavesLater,
    NotFound,
    PdbRefused,
    PodFound,
    PodLookup,
    PodNotFound,
    RequestTime,
    ServerError,
    TooManyRequests,
)
from reactive_desched.primitives.decode_errors import DECODE_ERRORS

__all__ = ["ApiEvictor"]

WEBHOOK_TIMEOUT_S: Final = 30.0
"""So long after its time limit a request may still be carried out: a webhook has 30 s at most."""

# The server sends a plain 500 with these before it changes anything.
_NO_EFFECT_MESSAGES = ("more than one PodDisruptionBudget", "failed calling webhook")


# KubeVirt's webhook has begun to migrate the virtual machine of the pod.
_IN_BACKGROUND = "Eviction triggered evacuation"
_MERGE_PATCH = "application/merge-patch+json"
_IS_DNS_NAME: Final = re.compile(r"[a-z0-9.-]+").fullmatch


class ApiEvictor:
    """Evicts through `pods/eviction`, with the uid as precondition and the highest priority.

    A request of unknown effect may still evict the pod for `effect_timeout_s`.
    """

    def __init__(
        self,
        session: Session,
        *,
        requested_by: str = "reactive-desched",
        clock: Clock | None = None,
        dry_run: bool = False,
    ) -> None:
        self.effect_timeout_s = session.limits.total_s + WEBHOOK_TIMEOUT_S
        self._session = session
        self._requested_by = requested_by
        self._clock = clock or SystemClock()
        self._dry_run = ("All",) if dry_run else ()
        self._encode = msgspec.json.Encoder().encode

    async def evict(self, request: EvictionRequest) -> EvictionResponse:
        """Send one eviction and return how it ended; raises nothing that the server can cause.

        By the policy Delete it is the deletion of the pod, by SoftEviction its annotation.
        """
        if request.options.policy is EvictionPolicy.SOFT_EVICTION:
            return await self._evict_softly(request)
        if request.options.policy is EvictionPolicy.DELETE:
            path = _pod_path(request.namespace, request.name)
            body = self._encode(self._delete_options(request))
            deletion = self._session.request(
                "DELETE", path, body=body, priority=RequestPriority.CRITICAL
            )
            return await self.response_to(deletion)
        path, body = _eviction_path(request), self._eviction_body(request)
        post = self._session.request("POST", path, body=body, priority=RequestPriority.CRITICAL)
        return await self.response_to(post)

    async def _evict_softly(self, request: EvictionRequest) -> EvictionResponse:
        """Annotate the pod as koordinator does."""
        options, asked_at = request.options, datetime.fromtimestamp(self._clock.wall(), UTC)
        value = _SoftEviction(
            timestamp=asked_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            delete_options=options.delete,
            initiator=options.initiator,
            reason=options.reason or "NotSet",
        )
        annotations = {SOFT_EVICTION: self._encode(value).decode()}
        patch = self._session.request(
            "PATCH",
            _pod_path(request.namespace, request.name),
            params={"dryRun": "All"} if self._dry_run else None,
            body=self._encode({"metadata": {"uid": request.uid, "annotations": annotations}}),
            content_type=_MERGE_PATCH,
            priority=RequestPriority.CRITICAL,
        )
        response = await self.response_to(patch)
        if isinstance(response, Accepted):
            return LeavesLater("another program has to act on the annotation", is_soft=True)
        return response

    async def response_to(self, post: Awaitable[Reply]) -> EvictionResponse:
        """Return how a request ended; raises nothing that the server can cause."""
        try:
            reply = await post
        except RateLimited as error:
            return TooManyRequests(str(error))
        except Unreachable as error:
            return (
                EffectUnknown(str(error)) if error.sent else TooManyRequests(f"not sent: {error}")
            )
        if not reply.ok:
            return self._eviction_response(reply)
        return EffectUnknown(WEB_PAGE) if is_web_page(reply.body) else Accepted()

    async def get_pod(self, namespace: str, name: str) -> PodLookup:
        """Read the pod after an unknown effect; raises RequestRejected or Unreachable."""
        path = _pod_path(namespace, name)
        reply = await self._session.request("GET", path, priority=RequestPriority.CRITICAL)
        if reply.status == HTTPStatus.NOT_FOUND and reply.error.reason == "NotFound":
            return PodNotFound()
        if not reply.ok:
            retryable = (
                reply.status in _TRANSIENT_STATUSES
                or reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR
            )
            text = f"GET {path}: {reply.status} {reply.error.advice}"
            raise RequestRejected(text, retryable=retryable)
        try:
            return found_pod(bytes(reply.body))
        except DECODE_ERRORS as error:
            raise Unreachable(f"GET {path}", f"not a pod: {error}", sent=True) from error

    def now(self) -> RequestTime:
        """Return when a request is sent that is sent now."""
        server_time = self._session.server_clock.now()
        server_s = None if server_time is None else server_time.timestamp()
        return RequestTime(server_s, self._clock.wall())

    def _eviction_body(self, request: EvictionRequest) -> bytes:
        annotations = {"requested-by": self._requested_by}
        if request.message:
            annotations["reason"] = request.message
        eviction = _Eviction(
            metadata=_EvictionMeta(request.name, request.namespace, annotations),
            delete_options=self._delete_options(request),
        )
        return self._encode(eviction)

    def _delete_options(self, request: EvictionRequest) -> DeleteOptions:
        """Return the options of a request; the uid is always that of the pod that was judged."""
        asked = request.options.delete or DeleteOptions()
        version = None if asked.preconditions is None else asked.preconditions.resource_version
        return replace(
            asked,
            preconditions=Preconditions(request.uid, version),
            dry_run=self._dry_run or asked.dry_run,
        )

    def _eviction_response(self, reply: Reply) -> EvictionResponse:
        error = reply.error
        message = error.advice or error.reason or "the server gave no reason"
        pdb = _pdb_message(error)
        match reply.status:
            case HTTPStatus.TOO_MANY_REQUESTS if _IN_BACKGROUND in message:
                return LeavesLater(message)
            case status if pdb is not None and status < HTTPStatus.INTERNAL_SERVER_ERROR:
                return PdbRefused(pdb or message, reply.retry_after_s(self._clock.wall()))
            case HTTPStatus.SERVICE_UNAVAILABLE if not error.reason:
                # No Status: a proxy that lost the API server, perhaps after it sent the request.
                return EffectUnknown(f"503: {message}")
            case HTTPStatus.TOO_MANY_REQUESTS | HTTPStatus.SERVICE_UNAVAILABLE:
                return TooManyRequests(message, reply.retry_after_s(self._clock.wall()))
            case HTTPStatus.NOT_FOUND if error.reason == "NotFound":
                return NotFound()
            case HTTPStatus.CONFLICT:
                return Conflict(message)
            case status if status < HTTPStatus.INTERNAL_SERVER_ERROR:
                return Denied(status, message)
            case status if any(text in message for text in _NO_EFFECT_MESSAGES):
                return ServerError(status, message)
            case status:
                return EffectUnknown(f"{status}: {message}")


_TRANSIENT_STATUSES = (HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS)


class _EvictionMeta(Struct, frozen=True, gc=False):
    name: str
    namespace: str
    annotations: dict[str, str]


class _Eviction(Struct, frozen=True, gc=False, rename="camel", tag_field="kind", tag="Eviction"):
    metadata: _EvictionMeta
    delete_options: DeleteOptions
    api_version: str = "policy/v1"


class _SoftEviction(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The value of koordinator's annotation; what is empty is left out."""

    timestamp: str
    delete_options: DeleteOptions | None = None
    initiator: str = ""
    reason: str = ""


class _PodMeta(Struct, frozen=True, gc=False, rename="camel"):
    uid: str
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    annotations: dict[str, str] | None = None


class _PodSpec(Struct, frozen=True, gc=False, rename="camel"):
    termination_grace_period_seconds: int | None = None


class _PodCondition(Struct, frozen=True, gc=False, rename="camel"):
    type: str
    status: str = ""
    reason: str = ""
    last_transition_time: datetime | None = None


class _PodStatus(Struct, frozen=True, gc=False):
    conditions: tuple[_PodCondition, ...] | None = None


class _Pod(Struct, frozen=True, gc=False):
    metadata: _PodMeta
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


class _AskedSoftly(Struct, frozen=True, gc=False):
    timestamp: datetime | None = None


_read_pod: Final = msgspec.json.Decoder(_Pod).decode
_read_annotation: Final = msgspec.json.Decoder(_AskedSoftly).decode


def found_pod(body: bytes) -> PodFound:
    """Return what a pod's JSON says of its end; raises a decode error for anything else."""
    pod = _read_pod(body)
    meta, grace_s = pod.metadata, pod.metadata.deletion_grace_period_seconds
    deleted, deleted_s = meta.deletion_timestamp, None
    if deleted is not None and grace_s is not None:  # it ends that much after it began
        deleted_s = int(deleted.timestamp()) - grace_s
    conditions = pod.status.conditions or ()
    marks = [each for each in conditions if each.type == DISRUPTION_TARGET]
    mark = next((each for each in marks if each.status == "True"), _PodCondition(""))
    disrupted = mark.last_transition_time
    soft = (meta.annotations or {}).get(SOFT_EVICTION)
    return PodFound(
        meta.uid,
        deleted is not None,
        soft is not None,
        mark.reason,
        None if disrupted is None else int(disrupted.timestamp()),
        deleted_s,
        grace_s,
        pod.spec.termination_grace_period_seconds,
        None if soft is None else _soft_asked_s(soft),
    )


def _soft_asked_s(annotation: str) -> float | None:
    """Return when a soft eviction was asked for; None where the annotation does not say it."""
    try:
        asked = _read_annotation(annotation.encode()).timestamp
    except DECODE_ERRORS:
        return None
    return None if asked is None else asked.timestamp()


def _pod_path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{_segment(namespace)}/pods/{_segment(name)}"


def _segment(name: str) -> str:
    """Return a name as a segment of a path; every name that Kubernetes gives a pod is one."""
    return name if _IS_DNS_NAME(name) else quote(name, safe="")


def _eviction_path(request: EvictionRequest) -> str:
    return f"{_pod_path(request.namespace, request.name)}/eviction"


def _pdb_message(error: ApiStatus) -> str | None:
    """Say whether a 429 is a disruption budget's refusal, by its cause or its message."""
    for cause in error.causes:
        if cause.reason == "DisruptionBudget":
            return cause.message
    return None
