"""Sends requests to a collector of OpenTelemetry: OTLP's protobuf, over HTTP or gRPC."""

import gzip
import os
from collections.abc import Callable, Mapping
from http import HTTPStatus
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import unquote

from anyio import to_thread
from msgspec import Struct
from yarl import URL

from reactive_desched.errors import EventRejected, SinkUnavailable
from reactive_desched.policy.settings.otlp import GZIP, NO_COMPRESSION, OtlpEndpoint
from reactive_desched.sinks.webhook.client import WebhookAddress, WebhookClient, read_client_tls
from reactive_desched.sinks.webhook.responses import classify_response
from reactive_desched.sinks.webhook.signing import read_secret_file

if TYPE_CHECKING:  # they import a package of an extra
    from reactive_desched.sinks.otlp.grpc_call import GrpcCall, GrpcFailure

MISSING_PACKAGE: Final = (
    " needs the package opentelemetry-proto: install reactive-desched[otlp], or build the"
    " image with REQUIREMENTS=otlp"
)
_MISSING_GRPC: Final = (
    "protocol grpc needs the package grpclib: install reactive-desched[otlp], or build the"
    " image with REQUIREMENTS=otlp"
)
HTTP_PORT, GRPC_PORT = 4318, 4317
_REFUSED_STATUSES: Final = frozenset({"INVALID_ARGUMENT"})
"""The answers of gRPC that are about this one request: it will never be taken."""

_TOO_LARGE: Final = "RESOURCE_EXHAUSTED"
MAX_GRPC_BYTES: Final = 4 * 1024 * 1024
"""A server of gRPC takes no more at once where it is not set otherwise; it answers such a request
as one beyond a quota, which passes."""

_GRPC_REMEDIES: Final = {
    "UNAUTHENTICATED": "look at headersFile",
    "PERMISSION_DENIED": "look at headersFile",
    "UNIMPLEMENTED": "it takes no {signal} at this address: look at url",
}
_CONTENT_TYPE: Final = "application/x-protobuf"
_HTTP_HEADERS: Final[Mapping[str, Mapping[str, str]]] = {
    NO_COMPRESSION: {"accept-encoding": "identity"},
    GZIP: {"accept-encoding": "identity", "content-encoding": GZIP},
}
_GRPC_CALL: Final = "reactive_desched.sinks.otlp.grpc_call"
_METHODS: Final = {
    "traces": "trace.v1.TraceService",
    "metrics": "metrics.v1.MetricsService",
    "logs": "logs.v1.LogsService",
}


class PartialSuccess(Struct, frozen=True):
    """The answer to a request that was taken: how many of its parts were dropped, and why.

    With a message and no dropped part the collector warns.
    """

    dropped: int = 0
    message: str = ""

    def __bool__(self) -> bool:
        """Say whether something was dropped, or the collector warns."""
        return bool(self.dropped or self.message)


TAKEN: Final = PartialSuccess()

PARTLY_TAKEN: Final = "the collector took a request and dropped part of it, or warns"
"""The log line about such an answer."""

MAX_MESSAGE: Final = 300
"""So many characters of a collector's message are logged."""


class OtlpCollector(Protocol):
    """Takes the requests of one signal."""

    async def send(self, request: bytes) -> PartialSuccess:
        """Send a request, and return what was dropped of it.

        Raises SinkUnavailable, or EventRejected where it is never taken.
        """
        ...

    async def close(self) -> None:
        """Close the connection, and end the thread that reads files."""
        ...


def open_collector(
    endpoint: OtlpEndpoint, wall: Callable[[], float], environ: Mapping[str, str] = os.environ
) -> OtlpCollector:
    """Return the collector, not connected yet; `wall` is the time of day in seconds."""
    if endpoint.protocol == "grpc":
        return GrpcCollector(endpoint, environ)
    return HttpCollector(endpoint, wall, environ)


class Headers(Struct, frozen=True):
    """The headers of a variable and of a file, which is read for each request: a new one counts."""

    path: str
    variable: str
    environ: Mapping[str, str]
    always: Mapping[str, str] = {}

    def headers(self, id_: str, sent_at: int, body: bytes) -> Mapping[str, str]:
        """Return the headers; blocks. Raises SinkUnavailable, without their values."""
        del id_, sent_at, body
        return {**self._of_variable(), **self._of_file(), **self.always}

    def _of_variable(self) -> Mapping[str, str]:
        """Return the headers that OpenTelemetry writes `name=value,name=value`."""
        pairs = filter(None, self.environ.get(self.variable, "").split(","))
        found = {}
        for pair in pairs:
            name, equals, value = (unquote(part.strip()) for part in pair.partition("="))
            if not (equals and _is_header(name, value)):
                raise SinkUnavailable(
                    f"variable {self.variable} holds what is no header, write NAME=VALUE,NAME=VALUE"
                )
            found[name] = value
        return found

    def _of_file(self) -> Mapping[str, str]:
        if not self.path:
            return {}
        raw = read_secret_file("headersFile", self.path)
        lines = raw.decode(errors="replace").splitlines()
        return dict(
            self._header(number, line) for number, line in enumerate(lines, 1) if line.strip()
        )

    def _header(self, number: int, line: str) -> tuple[str, str]:
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not (colon and _is_header(name, value)):
            raise SinkUnavailable(
                f"headersFile {self.path}: line {number} is no header, write NAME: VALUE"
            )
        return name, value


def _is_header(name: str, value: str) -> bool:
    text = name + value
    return bool(name and value and text.isascii() and text.isprintable())


class HttpCollector:
    """A collector that is sent protobuf over HTTP."""

    def __init__(
        self, endpoint: OtlpEndpoint, wall: Callable[[], float], environ: Mapping[str, str]
    ) -> None:
        headers = _headers(endpoint, environ, _HTTP_HEADERS[endpoint.compression])
        self._client = WebhookClient(_address(endpoint), headers, wall, environ)
        self._compresses = endpoint.compression == GZIP
        self._wall = wall
        self._remedies = _remedies(endpoint.signal)
        self._hint = _port_hint(endpoint)

    async def send(self, request: bytes) -> PartialSuccess:
        """Post a request; raises SinkUnavailable, or EventRejected where it is never taken."""
        body = request
        if self._compresses:
            body = await to_thread.run_sync(gzip.compress, request)
        try:
            reply = await self._client.post("", body)
        except SinkUnavailable as unavailable:
            raise SinkUnavailable(f"{unavailable}{self._hint}") from None
        error = classify_response(reply, self._client.origin, self._wall(), self._remedies)
        if error is not None:
            raise error
        return await _partial_success(reply.body)

    async def close(self) -> None:
        """Close the connection, and end the thread that reads files."""
        await self._client.close()


class GrpcCollector:
    """A collector that is sent protobuf over gRPC; no proxy is used."""

    def __init__(self, endpoint: OtlpEndpoint, environ: Mapping[str, str]) -> None:
        self._endpoint = endpoint
        self._url = URL(endpoint.url)
        self._headers = _headers(endpoint, environ)
        self._call: GrpcCall | None = None

    async def send(self, request: bytes) -> PartialSuccess:
        """Call; raises SinkUnavailable, or EventRejected where the request is never taken."""
        headers = await to_thread.run_sync(self._headers.headers, "", 0, b"")
        call = await self._open()
        answer = await call.send(request, headers)
        if isinstance(answer, bytes):
            return await _partial_success(answer)
        await self.close()
        raise self._error(answer, len(request))

    async def close(self) -> None:
        """Close the connection; for the next one files of certificates are read again."""
        call, self._call = self._call, None
        if call is not None:
            call.close()

    async def _open(self) -> "GrpcCall":
        if self._call is None:
            try:
                await to_thread.run_sync(import_module, _GRPC_CALL)
            except ModuleNotFoundError as error:
                raise SinkUnavailable(_MISSING_GRPC) from error
            from reactive_desched.sinks.otlp.grpc_call import GrpcCall

            address = _address(self._endpoint)
            tls = None
            if self._url.scheme == "https":
                tls = await to_thread.run_sync(read_client_tls, address)
            method = f"/opentelemetry.proto.collector.{_METHODS[self._endpoint.signal]}/Export"
            self._call = GrpcCall(self._url, method, tls, self._endpoint.timeout_s)
        return self._call

    def _error(self, failure: "GrpcFailure", size: int) -> SinkUnavailable | EventRejected:
        """Return what to raise; what a person has to put right waits like an outage."""
        text = f"{self._url.origin()}: {failure.text}"
        is_too_large = failure.status == _TOO_LARGE and size > MAX_GRPC_BYTES
        if is_too_large or failure.status in _REFUSED_STATUSES:
            return EventRejected(text)
        if not failure.status:
            return SinkUnavailable(text + _port_hint(self._endpoint))
        remedy = _GRPC_REMEDIES.get(failure.status, "").format(signal=self._endpoint.signal)
        return SinkUnavailable(f"{text}: {remedy}" if remedy else text)


def _headers(
    endpoint: OtlpEndpoint, environ: Mapping[str, str], always: Mapping[str, str] | None = None
) -> Headers:
    return Headers(endpoint.headers_file, endpoint.headers_variable, environ, always or {})


async def _partial_success(answer: bytes) -> PartialSuccess:
    """Read the answer of a collector that took a request, which is empty as a rule.

    The answers about traces, metrics and log lines are written alike. One that cannot be read says
    nothing: the request was taken.
    """
    if not answer:
        return TAKEN
    try:
        return await to_thread.run_sync(_read_answer, answer)
    except ValueError:
        return TAKEN


def _read_answer(answer: bytes) -> PartialSuccess:
    """Read an answer by a package of the extra; raises ValueError."""
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # it has no types
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    try:
        found = ExportTraceServiceResponse.FromString(answer).partial_success
    except DecodeError as error:
        raise ValueError("it is no answer of a collector") from error
    message = "".join(each if each.isprintable() else " " for each in found.error_message)
    return PartialSuccess(found.rejected_spans, message[:MAX_MESSAGE])


def _address(endpoint: OtlpEndpoint) -> WebhookAddress:
    return WebhookAddress(
        URL(endpoint.url),
        _CONTENT_TYPE,
        endpoint.ca_file,
        endpoint.timeout_s,
        endpoint.cert_file,
        endpoint.key_file,
    )


def _port_hint(endpoint: OtlpEndpoint) -> str:
    """Return what to look at where the port is the usual one of the other protocol."""
    port = URL(endpoint.url).port
    if endpoint.protocol == "grpc" and port == HTTP_PORT:
        return f"; {HTTP_PORT} is the port for HTTP of most collectors, {GRPC_PORT} that for gRPC"
    if endpoint.protocol != "grpc" and port == GRPC_PORT:
        return f"; {GRPC_PORT} is the port for gRPC of most collectors: set protocol: grpc"
    return ""


def _remedies(signal: str) -> Mapping[HTTPStatus, str]:
    path = f"look at the path of url, which is /v1/{signal} for most collectors"
    return {
        HTTPStatus.UNAUTHORIZED: "look at headersFile",
        HTTPStatus.FORBIDDEN: "look at headersFile",
        HTTPStatus.NOT_FOUND: path,
        HTTPStatus.METHOD_NOT_ALLOWED: "look at the path of url: POST is not for it",
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "it takes no protobuf: look at url",
    }
