"""Identifies the cluster before anything is recorded: records of two clusters must not mix."""

import itertools
from http import HTTPStatus
from typing import Final

import anyio
import msgspec
from msgspec import Struct

from reactive_desched.errors import ClusterError, RequestRejected
from reactive_desched.journal.cluster import UNNAMED, ClusterIdentity
from reactive_desched.kube.client.session import Transport
from reactive_desched.primitives.decode_errors import DECODE_ERRORS
from reactive_desched.telemetry.logs import Logger

RETRY_S: Final = 1.0
"""How often a controller asks an API server that does not answer."""

_NAMESPACES: Final = "/api/v1/namespaces"
_QUERY: Final = {"fieldSelector": "metadata.name=kube-system", "limit": "1"}
"""A list needs no right that the controller would not have: it watches namespaces."""
_RETRYABLE: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS})


class _Metadata(Struct):
    name: str = ""
    uid: str = ""


class _Namespace(Struct):
    metadata: _Metadata


class _NamespaceList(Struct):
    items: tuple[_Namespace, ...] | None = None


async def identify_cluster(session: Transport, name: str, seen_as: str = "") -> ClusterIdentity:
    """Return the identity of the cluster; `name` is the settings' name of it, empty for none.

    `seen_as` is how people find it again, such as the context of the kubeconfig.

    A cluster without a name is called by the uid of its namespace kube-system. The uid is empty
    where the API server shows no such namespace. Raises ClusterError where it gives no answer.
    """
    uid = await _kube_system_uid(session)
    return ClusterIdentity(name or uid or UNNAMED, uid, is_named=bool(name), seen_as=seen_as)


async def wait_for_cluster(
    session: Transport, name: str, seen_as: str, log: Logger, attempts: int | None = None
) -> ClusterIdentity:
    """Return the identity of the cluster as soon as the API server answers.

    Raises ClusterError after so many attempts; without a number it goes on for ever.
    """
    last_reason = ""
    for attempt in itertools.count(1):
        try:
            return await identify_cluster(session, name, seen_as)
        except ClusterError as error:
            if attempt == attempts:
                raise
            if (reason := str(error)) != last_reason:
                last_reason = reason
                log.warning("waiting for the API server; nothing is recorded yet", message=reason)
        await anyio.sleep(RETRY_S)
    raise AssertionError("the loop has no end")


async def _kube_system_uid(session: Transport) -> str:
    reply = await session.request("GET", _NAMESPACES, params=_QUERY)
    if not reply.ok:
        if reply.status in _RETRYABLE or reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            text = f"GET {_NAMESPACES}: {reply.status} {reply.error.advice}"
            raise RequestRejected(text, retryable=True)
        return ""
    try:
        items = msgspec.json.decode(reply.body, type=_NamespaceList).items or ()
    except DECODE_ERRORS as error:
        text = f"GET {_NAMESPACES}: the answer is no list of namespaces: {error}"
        raise RequestRejected(text, retryable=True) from error
    named = (each.metadata for each in items if each.metadata.name == "kube-system")
    return next((metadata.uid for metadata in named), "")
