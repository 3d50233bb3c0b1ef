"""Asks Prometheus by an instant query how much of each node is used."""

import math
import os
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import aiohttp
import anyio.to_thread
import msgspec
from msgspec import Struct
from yarl import URL

from reactive_desched._version import __version__
from reactive_desched.errors import ClusterError, MonitoringUnavailable, UsageUnavailable
from reactive_desched.kube.client.session import Transport
from reactive_desched.model.usage import MetricsSourceKind, NodeUsage
from reactive_desched.model.utilization import METRIC_RESOURCE
from reactive_desched.primitives.client_tls import client_tls_context
from reactive_desched.primitives.decode_errors import DECODE_ERRORS
from reactive_desched.usage.monitoring_server import MonitoringServer, TokenSource

__all__ = [
    "IN_CLUSTER_FOLDER",
    "PROMETHEUS",
    "QUERY_PATH",
    "TOKEN_KEY",
    "PrometheusQuerySource",
    "SecretToken",
    "Series",
    "ServiceAccountToken",
    "decode_answer",
    "decode_vector",
    "open_prometheus",
]

PROMETHEUS: Final = MetricsSourceKind.PROMETHEUS.value
"""The name by which policies call this source; a sample's source has the query behind it."""

TOKEN_KEY: Final = "prometheusAuthToken"  # noqa: S105 -- the name of a token, no token
"""The key of the Secret under which the token stands."""

IN_CLUSTER_FOLDER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
MAX_BODY_BYTES: Final = 32 * 2**20
"""The longest answer; 15,000 nodes take some 3 MB."""

QUERY_PATH: Final = "api/v1/query"
"""Where an instant query is sent, below the address."""

_PERCENT: Final = 100


class SecretToken:
    """The token in a Secret, read through the API server."""

    def __init__(self, session: Transport, namespace: str, name: str) -> None:
        self._session = session
        self._namespace = namespace
        self._name = name

    async def token(self, url: URL) -> str:
        """Return the token of the Secret; raises UsageUnavailable without one."""
        del url
        what = f"{self._namespace}/{self._name}"
        try:
            response = await self._session.request(
                "GET", f"/api/v1/namespaces/{self._namespace}/secrets/{self._name}"
            )
        except ClusterError as error:
            raise UsageUnavailable(f"unable to get {what} secret: {error}") from error
        if not response.ok:
            refusal = response.error
            reason = f"{response.status} {refusal.message or refusal.reason}".rstrip()
            raise UsageUnavailable(f"unable to get {what} secret: {reason}")
        try:
            data = msgspec.json.decode(response.body, type=_Secret).data or {}
        except DECODE_ERRORS:
            data = {}  # what was read is in no message: it may be the token
        token = data.get(TOKEN_KEY, b"").decode("ascii", "ignore").strip()
        if not token:
            raise UsageUnavailable(
                f'prometheus authentication token secret missing "{TOKEN_KEY}" data or empty'
            )
        return token


class ServiceAccountToken:
    """The token of our own service account, where we run in a cluster.

    Only Prometheus over https gets it: it is good for the API server as well.
    """

    def __init__(self, folder: Path = IN_CLUSTER_FOLDER) -> None:
        self._file = folder / "token"

    async def token(self, url: URL) -> str:
        """Return the token as it is on disk now; empty outside a cluster."""
        if url.scheme != "https":
            return ""
        try:
            return (await anyio.to_thread.run_sync(self._file.read_text)).strip()
        except FileNotFoundError:
            return ""
        except (OSError, ValueError) as error:
            text = f"unexpected error when reading in cluster config: {error}"
            raise UsageUnavailable(text) from error


class _Secret(Struct, frozen=True, gc=False):
    data: dict[str, bytes] | None = None  # base64 on the wire


class Series(Struct, frozen=True, gc=False):
    """A sample of an instant vector: its labels, its time, and its value as a text."""

    metric: dict[str, str] = {}
    value: tuple[float, str] = (0.0, "")


class _Data(Struct, frozen=True, gc=False, rename="camel"):
    result_type: str = ""
    result: msgspec.Raw = msgspec.Raw(b"[]")


class QueryAnswer(Struct, frozen=True, gc=False, rename="camel"):
    """The answer to an instant query, with what Prometheus warns of: it may be incomplete then."""

    status: str = ""
    error_type: str = ""
    error: str = ""
    warnings: list[str] = []
    data: _Data = _Data()


decode_answer: Final = msgspec.json.Decoder(QueryAnswer).decode
decode_vector: Final = msgspec.json.Decoder(list[Series]).decode


class PrometheusQuerySource:
    """One query: a sample for each node, from 0 to 1, with the node's name as `instance`.

    A sample becomes per cent, cut off to a whole number. One wrong sample makes the whole answer
    wrong, as upstream has it.
    """

    measures_pods = False

    def __init__(
        self,
        http: aiohttp.ClientSession,
        url: str,
        query: str,
        tokens: TokenSource,
        wall_clock: Callable[[], float],
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.name = f"{PROMETHEUS}/{query}"
        self._server = MonitoringServer(http, url, tokens, environ, MAX_BODY_BYTES)
        self._query = query
        self._wall_clock = wall_clock

    async def measure(self) -> Iterable[NodeUsage]:
        """Query once; raises UsageUnavailable."""
        try:
            reply = await self._server.post(QUERY_PATH, {"query": self._query})
        except MonitoringUnavailable as error:
            raise _not_captured(str(error)) from None
        return self._samples(_vector(reply.body))

    def _samples(self, vector: Iterable[Series]) -> list[NodeUsage]:
        now_s, samples = self._wall_clock(), []
        for series in vector:
            if (node := series.metric.get("instance")) is None:
                raise UsageUnavailable("the collected metrics sample is missing 'instance' key")
            text = series.value[1]
            value = _number(text)
            if not 0 <= value <= 1:
                raise UsageUnavailable(
                    f'the collected metrics sample for "{node}" has value {text} outside of <0; 1>'
                    " interval"
                )
            usage = {METRIC_RESOURCE: int(value * _PERCENT)}
            samples.append(NodeUsage(self.name, node, usage, min(now_s, series.value[0])))
        return samples


def _vector(body: bytes) -> list[Series]:
    """Read an answer as a vector; raises UsageUnavailable."""
    try:
        answer = decode_answer(body)
    except DECODE_ERRORS:
        raise _not_captured("the answer is not Prometheus's") from None
    if answer.status != "success":
        raise _not_captured(": ".join(filter(None, (answer.error_type, answer.error))))
    if (found := answer.data.result_type) != "vector":
        message = f'expected query results to be of type "vector", got "{found}" instead'
        raise UsageUnavailable(message)
    try:
        return decode_vector(answer.data.result)
    except DECODE_ERRORS:
        raise _not_captured("the answer is not Prometheus's") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _not_captured(reason: str) -> UsageUnavailable:
    return UsageUnavailable(f"unable to capture prometheus metrics: {reason}")


@asynccontextmanager
async def open_prometheus(
    timeout_s: float, folder: Path = IN_CLUSTER_FOLDER
) -> AsyncIterator[aiohttp.ClientSession]:
    """Keep connections to Prometheus while the block lasts.

    In a cluster its certificate may be of the cluster's own authority. Raises UsageUnavailable
    where the authority's file cannot be read.
    """
    tls = await anyio.to_thread.run_sync(_trust, folder / "ca.crt")
    timeout = aiohttp.ClientTimeout(total=timeout_s, connect=timeout_s)
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=4, ssl=tls),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=timeout,
        headers={"User-Agent": f"reactive-desched/{__version__}"},
    ) as http:
        yield http


def _trust(ca_file: Path) -> ssl.SSLContext:
    """Trust the system's authorities and, if there is one, the cluster's; blocks."""
    context = client_tls_context()
    try:
        if ca_file.exists():
            context.load_verify_locations(ca_file)
    except (OSError, ssl.SSLError) as error:
        raise UsageUnavailable(f"error loading CA file: {error}") from error
    return context
