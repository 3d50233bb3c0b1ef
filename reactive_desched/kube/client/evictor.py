"""Requests the eviction of one pod, and classifies every possible response.

Whether and when to ask again, after an answer, is decided where the budgets are.
"""

from collections.abc import Awaitable
from datetime import datetime
from http import HTTPStatus
from typing import Final

import msgspec
from msgspec import Struct

from reactive_desched.errors import RateLimited, RequestRejected, Unreachable
from reactive_desched.kube.client.clock import Clock, SystemClock
from reactive_desched.kube.client.rate_limiter import RequestPriority
from reactive_desched.kube.client.responses import WEB_PAGE, ApiStatus, is_web_page
from reactive_desched.kube.client.responses import ApiResponse as Reply
from reactive_desched.kube.client.session import Session
from reactive_desched.model.evictor import Requester, pod_path
from reactive_desched.model.evictor_table import evictor_named
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
    NotSent,
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

_REQUESTED_BY: Final = "reactive-desched"

READ_AFTER_S: Final = (0.2, 0.4, 0.8, 0.6, 0.6)
REPEATED_WITHIN_S: Final = 3.0
MOST_REPEATS: Final = 3
"""After a request that was answered with 5xx the pod is read after these waits, in this time of it.

Where it shows no effect, the request is sent again, so often at most: what fails requests fails
reads as well.
"""

WEBHOOK_TIMEOUT_S: Final = 30.0
"""So long after its time limit a request may still be carried out: a webhook has 30 s at most."""

# The server sends a plain 500 with these before it changes anything.
_NO_EFFECT_MESSAGES = ("more than one PodDisruptionBudget", "failed calling webhook")


# KubeVirt's webhook has begun to migrate the virtual machine of the pod.
_IN_BACKGROUND = "Eviction triggered evacuation"


class ApiEvictor:
    """Sends each request by the evictor that it names, with the highest priority.

    A request of unknown effect may still evict the pod for `effect_timeout_s`.
    """

    def __init__(self, session: Session, clock: Clock | None = None) -> None:
        self.effect_timeout_s = session.limits.total_s + WEBHOOK_TIMEOUT_S
        self._session = session
        self._clock = clock or SystemClock()

    async def caught_up(self) -> bool:
        """Return at once: it follows no watch that could be late."""
        del self
        return True

    async def evict(self, request: EvictionRequest) -> EvictionResponse:
        """Send one eviction and return how it ended; raises nothing that the server can cause.

        Where a proxy, or a server that fails, has answered 5xx, and the pod shows no effect, the
        same request is sent again, soon: with the uid it has one effect. Only a success settles it
        then: whatever else is answered, the first one may be carried out later.
        """
        began = self._clock.now()
        (response, is_answered), repeats = await self._send(request), 0
        for wait_s in READ_AFTER_S:
            is_over = self._clock.now() + wait_s - began > REPEATED_WITHIN_S
            is_over = is_over or repeats == MOST_REPEATS
            if is_over or not (isinstance(response, EffectUnknown) and is_answered):
                break
            await self._clock.sleep(wait_s)
            if not await self._is_untouched(request):
                continue
            repeats += 1
            again, is_answered = await self._send(request)
            response = again if isinstance(again, Accepted | LeavesLater) else response
        return response

    async def _is_untouched(self, request: EvictionRequest) -> bool:
        """Say whether the pod is there and does not terminate; False where it cannot be read."""
        try:
            found = await self.get_pod(request.namespace, request.name)
        except (RequestRejected, Unreachable, RateLimited):
            return False
        return isinstance(found, PodFound) and found.uid == request.uid and not found.terminating

    async def _send(self, request: EvictionRequest) -> tuple[EvictionResponse, bool]:
        """Return how one request ended, and whether it was answered at all."""
        evictor = evictor_named(request.options.evictor)
        call = evictor.call(request, Requester(_REQUESTED_BY, self._clock.wall()))
        is_answered = False

        async def reply() -> Reply:
            nonlocal is_answered
            found = await self._session.request(
                call.method,
                call.path,
                body=call.body,
                content_type=call.content_type,
                priority=RequestPriority.CRITICAL,
            )
            is_answered = True
            return found

        response = await self.response_to(reply())
        if isinstance(response, Accepted) and evictor.accepted is not None:
            return evictor.accepted, is_answered
        return response, is_answered

    async def response_to(self, post: Awaitable[Reply]) -> EvictionResponse:
        """Return how a request ended; raises nothing that the server can cause."""
        try:
            reply = await post
        except RateLimited as error:
            return NotSent(str(error))
        except Unreachable as error:
            return EffectUnknown(str(error)) if error.sent else NotSent(str(error))
        if not reply.ok:
            return self._eviction_response(reply)
        return EffectUnknown(WEB_PAGE) if is_web_page(reply.body) else Accepted()

    async def get_pod(self, namespace: str, name: str) -> PodLookup:
        """Read the pod after an unknown effect; raises RequestRejected or Unreachable."""
        path = pod_path(EvictionRequest(namespace, name, uid=""))
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

    def _eviction_response(self, reply: Reply) -> EvictionResponse:
        error = reply.error
        message = error.advice or error.reason or "the server gave no reason"
        pdb = _pdb_message(error)
        now = self._clock.wall()
        match reply.status:
            case HTTPStatus.TOO_MANY_REQUESTS if _IN_BACKGROUND in message:
                return LeavesLater(message)
            case status if pdb is not None and status < HTTPStatus.INTERNAL_SERVER_ERROR:
                return PdbRefused(pdb or message, reply.retry_after_s(now))
            case HTTPStatus.SERVICE_UNAVAILABLE | HTTPStatus.REQUEST_TIMEOUT if not error.reason:
                # No Status: a proxy that lost the API server, perhaps after it sent the request.
                return EffectUnknown(f"{reply.status}: {message}")
            case HTTPStatus.TOO_MANY_REQUESTS | HTTPStatus.SERVICE_UNAVAILABLE:
                return TooManyRequests(message + reply.wait_text(now), reply.retry_after_s(now))
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


_read_pod: Final = msgspec.json.Decoder(_Pod).decode


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
    return PodFound(
        meta.uid,
        deleted is not None,
        mark.reason,
        None if disrupted is None else int(disrupted.timestamp()),
        deleted_s,
        grace_s,
        pod.spec.termination_grace_period_seconds,
        meta.annotations or {},
    )


def _pdb_message(error: ApiStatus) -> str | None:
    """Say whether a 429 is a disruption budget's refusal, by its cause or its message."""
    for cause in error.causes:
        if cause.reason == "DisruptionBudget":
            return cause.message
    return None
