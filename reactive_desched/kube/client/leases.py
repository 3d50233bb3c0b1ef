"""Reads and writes one Lease of coordination.k8s.io, with the API server's optimistic lock."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

import msgspec
from msgspec import Struct

from reactive_desched.election.lease import Lease, LeaseRecord
from reactive_desched.errors import RequestRejected, Unreachable
from reactive_desched.kube.client.rate_limiter import RequestPriority
from reactive_desched.kube.client.responses import ApiResponse
from reactive_desched.kube.client.session import RequestLimits, Transport
from reactive_desched.primitives.decode_errors import DECODE_ERRORS

_RETRYABLE: Final = frozenset({HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS})


class ApiLeaseClient:
    """Reads and writes the Lease of this name.

    A request may take `timeout_s`: so one that hangs does not use up the whole renew deadline.
    """

    def __init__(self, session: Transport, namespace: str, name: str, *, timeout_s: float) -> None:
        self._session = session
        self._namespace = namespace
        self._name = name
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace, safe='')}/leases"
        self._collection = leases
        self._path = f"{leases}/{quote(name, safe='')}"
        self._limits = RequestLimits(timeout_s, timeout_s, timeout_s)

    async def get(self) -> Lease | None:
        """Return the Lease, or None where there is none."""
        reply = await self._request("GET", self._path)
        if reply.status == HTTPStatus.NOT_FOUND and reply.error.reason == "NotFound":
            return None
        return _lease("GET", self._path, reply)

    async def create(self, record: LeaseRecord) -> Lease:
        """Create the Lease; fails with 409 where another candidate created it first."""
        metadata = {"name": self._name, "namespace": self._namespace}
        body = _body(metadata, _spec(record))
        reply = await self._request("POST", self._collection, body)
        return _lease("POST", self._collection, reply)

    async def update(self, lease: Lease, record: LeaseRecord) -> Lease:
        """Put another record into the Lease; fails with 409 unless it is still as it was read."""
        body = _body(lease.metadata, {**lease.spec, **_spec(record)})
        return _lease("PUT", self._path, await self._request("PUT", self._path, body))

    async def _request(self, method: str, path: str, body: bytes | None = None) -> ApiResponse:
        return await self._session.request(
            method, path, body=body, limits=self._limits, priority=RequestPriority.CRITICAL
        )


class _LeaseSpec(Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _LeaseObject(Struct, frozen=True):
    metadata: dict[str, Any]  # see Lease
    spec: msgspec.Raw = msgspec.Raw(b"{}")


_read_object = msgspec.json.Decoder(_LeaseObject).decode
_read_spec = msgspec.json.Decoder(_LeaseSpec).decode
_read_members = msgspec.json.Decoder(dict[str, Any]).decode


def _lease(method: str, path: str, reply: ApiResponse) -> Lease:
    """Read a Lease; raises RequestRejected for a denial and Unreachable for anything unreadable."""
    if not reply.ok:
        retryable = reply.status in _RETRYABLE or reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        text = f"{method} {path}: {reply.status} {reply.error.advice}"
        raise RequestRejected(text, retryable=retryable)
    try:
        found = _read_object(reply.body)
        written = b"{}" if bytes(found.spec) == b"null" else found.spec
        spec, members = _read_spec(written), _read_members(written)
    except DECODE_ERRORS as error:
        raise Unreachable(f"{method} {path}", f"not a Lease: {error}", sent=True) from error
    record = LeaseRecord(
        spec.holder_identity or "",
        spec.lease_duration_seconds or 0,
        spec.acquire_time or "",
        spec.renew_time or "",
        spec.lease_transitions or 0,
    )
    return Lease(record, found.metadata, members)


def _spec(record: LeaseRecord) -> dict[str, object]:
    return {
        "holderIdentity": record.holder,
        "leaseDurationSeconds": record.duration_s,
        "acquireTime": record.acquire_time,
        "renewTime": record.renew_time,
        "leaseTransitions": record.transitions,
    }


def _body(metadata: Mapping[str, object], spec: Mapping[str, object]) -> bytes:
    return msgspec.json.encode(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": spec,
        }
    )
