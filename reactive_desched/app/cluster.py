"""Identifies the cluster before anything is recorded: records of two clusters must not mix."""

import itertools
import time
from http import HTTPStatus
from typing import Final

import anyio

from reactive_desched.errors import ClusterError, RequestRejected
from reactive_desched.journal.cluster import UNNAMED, ClusterIdentity
from reactive_desched.kube.client.cluster_guard import (
    NAMESPACES,
    ONE_NAMESPACE,
    read_cluster_uid,
)
from reactive_desched.kube.client.patience import Patience
from reactive_desched.kube.client.session import Transport
from reactive_desched.telemetry.logs import Logger

RETRY_S: Final = 1.0
"""How often a controller asks an API server that does not answer."""

MAX_DENIALS: Final = 5
"""So often a denial is taken for that of a server that has just started: it has no roles yet."""

_RETRYABLE: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS})


async def identify_cluster(session: Transport, name: str, seen_as: str = "") -> ClusterIdentity:
    """Return the identity of the cluster; `name` is the settings' name of it, empty for none.

    `seen_as` is how people find it again, such as the context of the kubeconfig.

    A cluster without a name is called by the uid of its namespace kube-system. The uid is empty
    where the API server shows no such namespace. Raises ClusterError where it gives no answer.
    """
    uid = await _kube_system_uid(session)
    return ClusterIdentity(name or uid or UNNAMED, uid, is_named=bool(name), seen_as=seen_as)


async def wait_for_cluster(
    session: Transport, name: str, seen_as: str, log: Logger
) -> ClusterIdentity:
    """Return the identity of the cluster as soon as the API server answers, however long it takes.

    A server that shows no uid is taken for what it is after a few seconds.
    """
    last_reason = ""
    for attempt in itertools.count(1):
        try:
            cluster = await identify_cluster(session, name, seen_as)
            if cluster.uid or attempt >= MAX_DENIALS:
                return cluster
        except ClusterError as error:
            if (reason := str(error)) != last_reason:
                last_reason = reason
                log.warning(
                    "the controller waits for the API server; nothing is recorded yet",
                    message=reason,
                )
        await anyio.sleep(RETRY_S)
    raise AssertionError("the loop has no end")


async def identify_within(
    patience: Patience, session: Transport, name: str, seen_as: str
) -> ClusterIdentity:
    """Return the identity of the cluster; raises ClusterError where no answer comes in time."""
    while True:
        try:
            cluster = await identify_cluster(session, name, seen_as)
        except ClusterError as error:
            if not await patience.waited_after(error):
                raise
        else:
            patience.succeeded()
            return cluster


async def _kube_system_uid(session: Transport) -> str:
    reply = await session.request("GET", NAMESPACES, params=ONE_NAMESPACE)
    if reply.ok:
        return read_cluster_uid(reply.body)
    if reply.status in _RETRYABLE or reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise RequestRejected(
            f"GET {NAMESPACES}: {reply.status} {reply.error.advice}",
            retryable=True,
            is_unauthorized=reply.status == HTTPStatus.UNAUTHORIZED,
            retry_after_s=reply.retry_after_s(time.time()),
        )
    return ""
