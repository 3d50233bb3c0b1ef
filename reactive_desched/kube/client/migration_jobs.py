"""Writes PodMigrationJobs: what arbitration decided, how far a job is, and its deletion.

Every write names the version of the job that it follows from: where another write came first, the
API server refuses, and the watch brings the newer job.
"""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

import msgspec

from reactive_desched.errors import RequestRejected
from reactive_desched.kube.client.responses import ApiResponse
from reactive_desched.kube.client.session import Transport
from reactive_desched.migration.life import Admit, Delete, SetStatus, Step
from reactive_desched.model.migration_jobs import (
    API_VERSION,
    PASSED_ARBITRATION,
    RESOURCE,
    JobStatus,
    MigrationJob,
)

PATH: Final = f"/apis/{API_VERSION}/{RESOURCE}"
_MERGE_PATCH: Final = "application/merge-patch+json"
_TRANSIENT: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS)
_OVERTAKEN: Final = (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND)
_JsonObject = dict[str, Any]  # any JSON below the named members


class MigrationJobWriter:
    """Carries out the steps of jobs; raises ClusterError or Malformed."""

    def __init__(self, session: Transport, decode: Callable[[bytes], MigrationJob]) -> None:
        self._session = session
        self._decode = decode

    async def carry_out(self, step: Step) -> MigrationJob | None:
        """Write a step; return the job as it is then, None where it is gone or was overtaken."""
        match step:
            case Admit(job, uid):
                return await self._patch(job, _admission(job, uid))
            case SetStatus(job, status):
                return await self._patch(job, {"status": _wire(status)}, "/status")
            case Delete(job):
                body = msgspec.json.encode({"preconditions": {"uid": job.uid}})
                _answer(await self._session.request("DELETE", _path(job), body=body), job)
                return None

    async def _patch(
        self, job: MigrationJob, patch: _JsonObject, subresource: str = ""
    ) -> MigrationJob | None:
        version = {"resourceVersion": str(job.resource_version)} if job.resource_version else {}
        metadata = {**patch.get("metadata", {}), "uid": job.uid, **version}
        reply = await self._session.request(
            "PATCH",
            f"{_path(job)}{subresource}",
            body=msgspec.json.encode({**patch, "metadata": metadata}),
            content_type=_MERGE_PATCH,
        )
        written = _answer(reply, job)
        return None if written is None else self._decode(written)


def _admission(job: MigrationJob, uid: str) -> _JsonObject:
    return {
        "metadata": {"annotations": {PASSED_ARBITRATION: "true"}},
        "spec": {
            "podRef": {
                "kind": "Pod",
                "namespace": job.pod.namespace,
                "name": job.pod.name,
                "uid": uid,
            }
        },
    }


def _wire(status: JobStatus) -> _JsonObject:
    return {
        "phase": status.phase,
        "status": status.step,
        "reason": status.reason,
        "message": status.message,
        "nodeName": status.node or None,
        "conditions": msgspec.to_builtins(status.conditions),
    }


def _answer(reply: ApiResponse, job: MigrationJob) -> bytes | None:
    """Return the body; raises RequestRejected unless the API server took the write."""
    if reply.ok:
        return bytes(reply.body)
    if reply.status in _OVERTAKEN:
        return None
    passes = reply.status in _TRANSIENT or reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    text = f"{_path(job)}: {reply.status} {reply.error.message}"
    raise RequestRejected(text, retryable=passes)


def _path(job: MigrationJob) -> str:
    return f"{PATH}/{quote(job.name, safe='')}"
