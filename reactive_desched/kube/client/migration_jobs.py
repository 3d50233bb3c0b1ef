"""Writes PodMigrationJobs: what arbitration decided, how far a job is, and its deletion.

Every write names the version of the job that it follows from: where another write came first, the
API server refuses, and the watch brings the newer job.
"""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from reactive_desched.errors import RequestRejected
from reactive_desched.kube.client.placeholders import keep_place, make_room, read_pod
from reactive_desched.kube.client.reservations import give_up, reserve, set_order
from reactive_desched.kube.client.responses import ApiResponse, accepted_body
from reactive_desched.kube.client.session import MERGE_PATCH, Transport
from reactive_desched.migration.actions import (
    Action,
    CreatePlaceholder,
    CreateReservation,
    DeleteJob,
    DeletePlaceholder,
    DeleteReservation,
    PassArbitration,
    SetReservationOrder,
    SetStatus,
)
from reactive_desched.migration.admission import NewJob
from reactive_desched.model.migration_jobs import (
    ABORT,
    API_VERSION,
    EVICT_REASON,
    EVICT_TRIGGER,
    KIND,
    PASSED_ARBITRATION,
    RESOURCE,
    JobStatus,
    MigrationJob,
    PodReference,
)
from reactive_desched.policy.settings.migration import MigrationJobSettings
from reactive_desched.primitives.durations import write_duration

PATH: Final = f"/apis/{API_VERSION}/{RESOURCE}"
_TRANSIENT: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS)
_MAX_PREFIX_CHARS: Final = 200
_UNSEEN: Final = (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)
_JsonObject = dict[str, Any]  # any JSON below the named members


class MigrationJobWriter:
    """Carries out the steps of jobs; raises ClusterError or Malformed."""

    def __init__(
        self,
        session: Transport,
        decode: Callable[[bytes], MigrationJob],
        settings: MigrationJobSettings,
        wall_clock: Callable[[], float],
    ) -> None:
        self._session = session
        self._decode = decode
        self._settings = settings
        self._wall_clock = wall_clock

    async def create(self, order: NewJob) -> MigrationJob:
        """Make a job, and return it as the API server has it."""
        settings = self._settings
        pod = PodReference.to(order.pod)
        annotations = {EVICT_TRIGGER: order.trigger, EVICT_REASON: order.cause}
        body = new_job(
            order.name, pod, settings.default_job_mode, settings.default_job_ttl_s, annotations
        )
        return self._decode(await create_job(self._session, body))

    async def carry_out(self, step: Action) -> MigrationJob | None:
        """Carry a step out; return the job as it is then, None where it is gone or was overtaken.

        The job that a placeholder belongs to stays as it is: the watch of pods brings the pod.
        """
        match step:
            case PassArbitration(job, uid):
                return await self._patch(job, _admission(job, uid))
            case SetStatus(job, status):
                return await self._patch(job, {"status": _wire(status)}, "/status")
            case CreatePlaceholder(job):
                is_there = await keep_place(self._session, step, self._settings.placeholder)
                return job if is_there else None
            case DeletePlaceholder(job, placeholder, successor):
                await make_room(self._session, placeholder, successor)
                return job
            case CreateReservation():
                return await self._reserve(step)
            case SetReservationOrder(job, kept):
                await set_order(self._session, kept, self._now_ms())
                return job
            case DeleteReservation(job, kept):
                await give_up(self._session, kept)
                return job
            case DeleteJob(job):
                body = msgspec.json.encode({"preconditions": {"uid": job.uid}})
                _answer(await self._session.request("DELETE", _path(job), body=body), job)
                return None

    async def _reserve(self, step: CreateReservation) -> MigrationJob | None:
        """Make the job's Reservation, and name it in the job; a pod that is gone has none."""
        job = step.job
        if (written := await read_pod(self._session, step.pod)) is None:
            return job
        found = _answer(await self._session.request("GET", _path(job)), job)
        if found is None:
            return None
        template = msgspec.json.decode(found, type=_Asked).spec.reservation_options.template
        reference = await reserve(self._session, step, template or {}, written, self._now_ms())
        return await self._patch(
            job, {"spec": {"reservationOptions": {"reservationRef": reference}}}
        )

    def _now_ms(self) -> int:
        return int(self._wall_clock() * 1000)

    async def _patch(
        self, job: MigrationJob, patch: _JsonObject, subresource: str = ""
    ) -> MigrationJob | None:
        version = {"resourceVersion": str(job.resource_version)} if job.resource_version else {}
        metadata = {**patch.get("metadata", {}), "uid": job.uid, **version}
        reply = await self._session.request(
            "PATCH",
            f"{_path(job)}{subresource}",
            body=msgspec.json.encode({**patch, "metadata": metadata}),
            content_type=MERGE_PATCH,
        )
        written = _answer(reply, job)
        return None if written is None else self._decode(written)


def new_job(
    name: str, pod: PodReference, mode: str, ttl_s: float, annotations: Mapping[str, str]
) -> _JsonObject:
    """Return a job as it is made; a time to live of 0 is none, an empty mode that of the settings.

    A job without a name is named after its pod; the API server adds what makes that unique.
    """
    named = {"name": name} if name else {"generateName": f"migrate-{pod.name[:_MAX_PREFIX_CHARS]}-"}
    ttl = {"ttl": write_duration(ttl_s)} if ttl_s else {}
    modes = {"mode": mode} if mode else {}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {**named, "annotations": dict(annotations)},
        "spec": {**modes, **ttl, "podRef": _reference(pod)},
    }


async def create_job(session: Transport, job: _JsonObject) -> bytes:
    """Create a job, and return it; raises ClusterError."""
    reply = await session.request("POST", PATH, body=msgspec.json.encode(job))
    return _body(reply, PATH)


async def pod_exists(session: Transport, pod: PodReference) -> bool:
    """Say whether there is such a pod; True where the account may not know. Raises ClusterError."""
    path = f"/api/v1/namespaces/{quote(pod.namespace, safe='')}/pods/{quote(pod.name, safe='')}"
    reply = await session.request("GET", path)
    if reply.status in _UNSEEN:
        return reply.status == HTTPStatus.FORBIDDEN
    _body(reply, path)
    return True


async def abort_job(session: Transport, name: str) -> None:
    """Ask for a job to be aborted; raises ClusterError."""
    await _change_job(session, name, {"metadata": {"annotations": {ABORT: "true"}}})


async def pause_job(session: Transport, name: str, *, paused: bool) -> None:
    """Pause a job, or let it go on; raises ClusterError."""
    await _change_job(session, name, {"spec": {"paused": paused}})


async def _change_job(session: Transport, name: str, patch: _JsonObject) -> None:
    path = f"{PATH}/{quote(name, safe='')}"
    body = msgspec.json.encode(patch)
    reply = await session.request("PATCH", path, body=body, content_type=MERGE_PATCH)
    if reply.status == HTTPStatus.NOT_FOUND and name in reply.error.advice:  # the kind is there
        raise RequestRejected(
            f"there is no migration job {name}; `kubectl get pmj` lists them", retryable=False
        )
    _body(reply, path)


def job_name(job: bytes) -> str:
    """Return the name of a job that was made."""
    return msgspec.json.decode(job, type=_Made).metadata.name


class _AskedOptions(msgspec.Struct, frozen=True):
    template: _JsonObject | None = None


class _AskedSpec(msgspec.Struct, frozen=True, rename="camel"):
    reservation_options: _AskedOptions = _AskedOptions()


class _Asked(msgspec.Struct, frozen=True):
    spec: _AskedSpec = _AskedSpec()


class _MadeMetadata(msgspec.Struct, frozen=True):
    name: str


class _Made(msgspec.Struct, frozen=True):
    metadata: _MadeMetadata


def _reference(pod: PodReference) -> _JsonObject:
    uid = {"uid": pod.uid} if pod.uid else {}
    return {"kind": "Pod", "namespace": pod.namespace, "name": pod.name, **uid}


def _admission(job: MigrationJob, uid: str) -> _JsonObject:
    return {
        "metadata": {"annotations": {PASSED_ARBITRATION: "true"}},
        "spec": {"podRef": _reference(replace(job.pod, uid=uid))},
    }


def _wire(status: JobStatus) -> _JsonObject:
    return {
        "phase": status.phase,
        "status": status.step,
        "reason": status.reason,
        "message": status.message,
        "nodeName": status.node or None,
        "podRef": None if status.replacement is None else _reference(status.replacement),
        "conditions": msgspec.to_builtins(status.conditions),
    }


def _answer(reply: ApiResponse, job: MigrationJob) -> bytes | None:
    """Return the body; raises RequestRejected unless the API server took the write."""
    return None if reply.is_overtaken else _body(reply, _path(job))


def _body(reply: ApiResponse, path: str) -> bytes:
    """Return the body; raises RequestRejected for a refusal."""
    return accepted_body(reply, path, _TRANSIENT)


def _path(job: MigrationJob) -> str:
    return f"{PATH}/{quote(job.name, safe='')}"
