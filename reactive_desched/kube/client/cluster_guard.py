"""Asks every connection which cluster it leads to before it carries anything else.

An address may lead elsewhere from one connection to the next: a tunnel is opened anew, a load
balancer fails over, a cluster is made anew on the port of the one before it.
"""

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import aiohttp
import msgspec
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.tracing import Trace
from msgspec import Struct
from yarl import URL

from reactive_desched.errors import RequestRejected
from reactive_desched.kube.client.failures import ClusterNotConfirmed
from reactive_desched.kube.client.raw_http import begin_request, protocol_of, read_response
from reactive_desched.kube.client.responses import ApiResponse
from reactive_desched.primitives.decode_errors import DECODE_ERRORS
from reactive_desched.primitives.http_failures import CONNECTION_ERRORS, describe_error
from reactive_desched.primitives.wakeup import Latch

__all__ = [
    "NAMESPACES",
    "OF_A_PROXY",
    "ONE_NAMESPACE",
    "ClusterGuard",
    "GuardedConnector",
    "open_tcp_socket",
    "read_cluster_uid",
]

_AddrInfo = tuple[
    socket.AddressFamily | int,
    socket.SocketKind | int,
    int,
    str,
    tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes],
]

OPTIONS: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
"""The kernel asks a connection that brings nothing for 30 s, as Go's does, and gives up after 30 s.

Without them a half-open connection stays for two hours, and a NAT forgets it meanwhile.
"""

UNACKNOWLEDGED_MS: Final = 60_000
"""So long may what was sent remain without an acknowledgement."""


def open_tcp_socket(address: _AddrInfo) -> socket.socket:
    """Return a socket for this address, with keep-alives where the system has such options."""
    family, kind, protocol, *_ = address
    opened = socket.socket(family, kind, protocol)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, seconds in OPTIONS:
        if hasattr(socket, name):
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), seconds)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS)
    return opened


NAMESPACES: Final = "/api/v1/namespaces"
ONE_NAMESPACE: Final = {"fieldSelector": "metadata.name=kube-system", "limit": "1"}
"""A list needs no right that the controller would not have: it watches namespaces."""

_TARGET: Final = f"{NAMESPACES}?fieldSelector=metadata.name%3Dkube-system&limit=1"
_MAX_BODY_BYTES: Final = 2**24
FRESH_S: Final = 1.0
"""A connection whose last answer is older is asked again before aiohttp sends a request on it."""

OF_A_PROXY: Final = frozenset(
    {HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT}
)
"""What a proxy answers for a server that it does not reach."""

_CONNECT_S: Final = 10.0
_BUSY_S: Final = 1.0
"""A server that has too many requests is asked again after this time, or the one that it names."""

_FAILED_S: Final = 0.2
_MAX_FAILED: Final = 3
"""Where a server failed, or a proxy has none, it is asked again so soon, and so often."""

_NO_LINE_CHARS: Final = ("\r", "\n", "\0")
_OF_THE_BODY: Final = frozenset(
    {"accept", "content-length", "content-type", "content-encoding", "transfer-encoding", "expect"}
)


class _Metadata(Struct):
    name: str = ""
    uid: str = ""


class _Namespace(Struct):
    metadata: _Metadata


class _NamespaceList(Struct):
    items: tuple[_Namespace, ...] | None = None


_read_list: Final = msgspec.json.Decoder(_NamespaceList).decode


def read_cluster_uid(body: bytes | bytearray) -> str:
    """Return the uid of kube-system from a list of namespaces; empty where it is not in there.

    Raises RequestRejected for anything else.
    """
    try:
        items = _read_list(body).items or ()
    except DECODE_ERRORS as error:
        text = f"GET {NAMESPACES}: the answer is no list of namespaces: {error}"
        raise RequestRejected(text, retryable=True) from error
    named = (each.metadata for each in items if each.metadata.name == "kube-system")
    return next((metadata.uid for metadata in named), "")


class _Trust(NamedTuple):
    """The doubts there had been when a connection was asked, and when it answered."""

    generation: int
    asked_at: float


class ClusterGuard:
    """Holds a session to one cluster: the one that its first connection leads to.

    `uid` is that of the namespace kube-system there; empty while no server has shown it, and then
    nothing can be compared. `fault` says that a connection led to another cluster: from then on,
    for the life of the process, nothing is sent. `on_unauthorized` is called for a 401.
    With `asks` False no connection is asked, as for a command that sends one request and ends.
    `clock` is monotonic, in seconds.
    """

    def __init__(self, *, asks: bool = True, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.uid = ""
        self.fault = ""
        self.faulted = Latch()
        self.requests: Counter[tuple[str, ...]] = Counter()
        self.asks = asks
        self._server: Callable[[], str] = str
        self._on_unauthorized: Callable[[], None] = lambda: None
        self._generation = self._confirmed = 0
        self._passed_unseen = False
        self._trusted: WeakKeyDictionary[ResponseHandler, _Trust] = WeakKeyDictionary()

    def attach(self, server: Callable[[], str], on_unauthorized: Callable[[], None]) -> None:
        """Set how the server's address is read, and what is called for a 401."""
        self._server, self._on_unauthorized = server, on_unauthorized

    def doubt(self) -> None:
        """Ask every connection again: one broke, or a proxy answered for the server."""
        self._generation += 1

    @property
    def is_in_doubt(self) -> bool:
        """Say whether no connection was asked since the last doubt."""
        return self._confirmed != self._generation

    def trusts(self, connection: Connection) -> bool:
        """Say whether a connection was asked since the last doubt, and all led to one cluster."""
        if not self.asks:
            return True
        protocol = connection.protocol
        trust = None if protocol is None else self._trusted.get(protocol)
        return trust is not None and trust.generation == self._generation and not self.fault

    def trusts_now(self, connection: Connection) -> bool:
        """Say whether a connection is trusted, and was asked within a second.

        Of one address a proxy may lead each request elsewhere.
        """
        if not (self.asks and self.trusts(connection)):
            return not self.asks
        return self._clock() - self._trusted[protocol_of(connection)].asked_at <= FRESH_S

    def was_asked(self, connection: Connection) -> bool:
        """Say whether a connection was asked before, also before the last doubt."""
        return protocol_of(connection) in self._trusted

    async def ask(
        self, connection: Connection, request: aiohttp.ClientRequest, limit_s: float
    ) -> None:
        """Ask a connection which cluster it leads to, as who sends `request`, and trust it then.

        An earlier answer counts on while the server has too many requests to give another one; the
        first one is asked for until it comes, or `limit_s` are over. A server that fails, with 5xx,
        is asked up to three times more. Raises ClusterNotConfirmed, which closes nothing.
        """
        generation, now = self._generation, asyncio.get_running_loop().time
        deadline = now() + limit_s
        response, failed = await self._answer(connection, request, limit_s), 0
        while (is_busy := response.status == HTTPStatus.TOO_MANY_REQUESTS) or (
            response.status >= HTTPStatus.INTERNAL_SERVER_ERROR and failed < _MAX_FAILED
        ):
            if is_busy and self.trusts(connection):
                return  # a Lease is still renewed over what a server that is busy said
            failed += not is_busy
            wait_s = response.retry_after_s(time.time()) or (_BUSY_S if is_busy else _FAILED_S)
            if protocol_of(connection).should_close or now() + wait_s > deadline:
                break
            await asyncio.sleep(wait_s)
            response = await self._answer(connection, request, limit_s)
        self.confirm(response)
        self._confirmed = generation
        self.trust(connection, generation)

    async def _answer(
        self, connection: Connection, request: aiohttp.ClientRequest, limit_s: float
    ) -> ApiResponse:
        """Return the answer to the question; raises ClusterNotConfirmed where there is none."""
        code = "none"
        try:
            begin_request(connection, self._question(request), limit_s)
            async with asyncio.timeout(limit_s):
                response = await read_response(connection, request.request_info, _MAX_BODY_BYTES)
            code = str(response.status)
        except CONNECTION_ERRORS as error:
            raise ClusterNotConfirmed(describe_error(error)) from error
        finally:
            self.requests["GET", code] += 1
        return response

    def trust(self, connection: Connection, generation: int | None = None) -> None:
        """Let a connection carry requests until the next doubt."""
        trusted = self._generation if generation is None else generation
        self._trusted[protocol_of(connection)] = _Trust(trusted, self._clock())

    def confirm(self, response: ApiResponse) -> None:
        """Compare the cluster of a list of namespaces; raises ClusterNotConfirmed.

        While no uid is known, every answer will do: there is nothing to compare it with.
        """
        if self.fault:
            raise ClusterNotConfirmed(self.fault)
        if response.status == HTTPStatus.UNAUTHORIZED:
            self._on_unauthorized()
        uid = ""
        if response.ok:
            try:
                uid = read_cluster_uid(response.body)
            except RequestRejected as error:
                if self.uid:
                    raise self._not_confirmed(str(error)) from error
        if not uid:
            if self.uid:
                raise self._not_confirmed(_why_unseen(response))
            self._passed_unseen = True
        elif not self.uid:
            self.uid = uid
            self._generation += self._passed_unseen  # those that passed are to be asked as well
        elif uid != self.uid:
            self._fail(uid)
            raise ClusterNotConfirmed(self.fault)

    def _fail(self, uid: str) -> None:
        self.fault = (
            f"{self._server()} led to another cluster: the uid of its namespace kube-system is"
            f" {uid}, and was {self.uid} at the start; nothing is sent any more. Restart this"
            f" process once the address leads to the first cluster again: a restart before that"
            " begins anew with the other one"
        )
        self.doubt()
        self.faulted.set()

    def _not_confirmed(self, reason: str) -> ClusterNotConfirmed:
        return ClusterNotConfirmed(f"which cluster answers is not known: {reason}")

    def _question(self, request: aiohttp.ClientRequest) -> bytes:
        """Return the request as bytes, with the headers of another one to the same server."""
        url = URL(f"{self._server()}{_TARGET}", encoded=True)
        is_forwarded = request.proxy is not None and not request.is_ssl()
        target = str(url) if is_forwarded else url.raw_path_qs
        headers = [
            f"{name}: {value}"
            for name, value in request.headers.items()
            if name.lower() not in _OF_THE_BODY
        ]
        lines = [f"GET {target} HTTP/1.1", *headers, "Accept: application/json"]
        if any(char in line for line in lines for char in _NO_LINE_CHARS):
            raise ValueError("a header holds a line break")
        return "".join(f"{line}\r\n" for line in (*lines, "")).encode()


class GuardedConnector(aiohttp.TCPConnector):
    """A connector whose connections have said that they lead to the guard's cluster."""

    def __init__(self, guard: ClusterGuard, *, limit: int, keepalive_timeout: float) -> None:
        super().__init__(
            limit=limit, keepalive_timeout=keepalive_timeout, socket_factory=open_tcp_socket
        )
        self._guard = guard

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 -- it is aiohttp's
    ) -> Connection:
        """Return a connection of the pool, or a new one; raises aiohttp's errors.

        ClusterNotConfirmed is one of them.
        """
        limit_s = timeout.connect or _CONNECT_S
        while True:
            if self._guard.fault:
                raise ClusterNotConfirmed(self._guard.fault)
            connection = await super().connect(req, traces, timeout)
            is_trusted = self._guard.trusts if _names_a_uid(req) else self._guard.trusts_now
            if is_trusted(connection):
                return connection
            was_asked = self._guard.was_asked(connection)
            try:
                await self._guard.ask(connection, req, limit_s)
            except BaseException as error:
                connection.close()
                if was_asked and _has_broken(error):  # while it was unused: another one may work
                    continue
                raise
            if not protocol_of(connection).should_close:
                return connection
            # The server ends each connection after one response: the next one is taken on trust.
            connection.close()
            connection = await super().connect(req, traces, timeout)
            self._guard.trust(connection)
            return connection


def _names_a_uid(request: aiohttp.ClientRequest) -> bool:
    """Say whether a request is an eviction: with the uid of its pod it does nothing elsewhere."""
    return request.method == "POST" and request.url.raw_path.endswith("/eviction")


def _has_broken(error: BaseException) -> bool:
    return isinstance(error, CONNECTION_ERRORS) and isinstance(error.__cause__, CONNECTION_ERRORS)


def _why_unseen(response: ApiResponse) -> str:
    if response.ok:
        return f"GET {NAMESPACES}: there is no namespace kube-system"
    error = response.error
    return f"GET {NAMESPACES}: {response.status} {error.advice or error.reason}".rstrip()
