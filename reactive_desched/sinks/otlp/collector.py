"""Sends requests to a collector of OpenTelemetry, as OTLP's protobuf over HTTP."""

import os
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final, Protocol

from msgspec import Struct
from yarl import URL

from reactive_desched.errors import SinkUnavailable
from reactive_desched.policy.settings.otlp import OtlpEndpoint
from reactive_desched.sinks.webhook.client import WebhookAddress, WebhookClient
from reactive_desched.sinks.webhook.responses import classify_response
from reactive_desched.sinks.webhook.signing import read_secret_file

MISSING_PACKAGE: Final = (
    " needs the package opentelemetry-proto: install reactive-desched[otlp], or build the"
    " image with REQUIREMENTS=otlp"
)
_CONTENT_TYPE: Final = "application/x-protobuf"


class OtlpCollector(Protocol):
    """Takes the requests of one signal."""

    async def send(self, request: bytes) -> None:
        """Send a request; raises SinkUnavailable, or EventRejected where it is never taken."""
        ...

    async def close(self) -> None:
        """Close the connection, and end the thread that reads files."""
        ...


def open_collector(
    endpoint: OtlpEndpoint, wall: Callable[[], float], environ: Mapping[str, str] = os.environ
) -> OtlpCollector:
    """Return the collector, not connected yet; `wall` is the time of day in seconds."""
    return HttpCollector(endpoint, wall, environ)


class HeadersFile(Struct, frozen=True):
    """A file with headers, a line for each; it is read for each request, so a new one counts."""

    path: str

    def headers(self, id_: str, sent_at: int, body: bytes) -> Mapping[str, str]:
        """Return the headers of the file; blocks. Raises SinkUnavailable, without their values."""
        del id_, sent_at, body
        if not self.path:
            return {}
        raw = read_secret_file("headersFile", self.path)
        lines = raw.decode(errors="replace").splitlines()
        return dict(
            self._header(number, line) for number, line in enumerate(lines, 1) if line.strip()
        )

    def _header(self, number: int, line: str) -> tuple[str, str]:
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not (colon and name and value and line.isascii() and line.strip().isprintable()):
            raise SinkUnavailable(
                f"headersFile {self.path}: line {number} is no header, write NAME: VALUE"
            )
        return name, value


class HttpCollector:
    """A collector that is sent protobuf over HTTP."""

    def __init__(
        self, endpoint: OtlpEndpoint, wall: Callable[[], float], environ: Mapping[str, str]
    ) -> None:
        address = WebhookAddress(
            URL(endpoint.url),
            _CONTENT_TYPE,
            endpoint.ca_file,
            endpoint.timeout_s,
            endpoint.cert_file,
            endpoint.key_file,
        )
        self._client = WebhookClient(address, HeadersFile(endpoint.headers_file), wall, environ)
        self._wall = wall
        self._remedies = _remedies(endpoint.signal)

    async def send(self, request: bytes) -> None:
        """Post a request; raises SinkUnavailable, or EventRejected where it is never taken."""
        reply = await self._client.post("", request)
        error = classify_response(reply, self._client.origin, self._wall(), self._remedies)
        if error is not None:
            raise error

    async def close(self) -> None:
        """Close the connection, and end the thread that reads files."""
        await self._client.close()


def _remedies(signal: str) -> Mapping[HTTPStatus, str]:
    path = f"look at the path of url, which is /v1/{signal} for most collectors"
    return {
        HTTPStatus.UNAUTHORIZED: "look at headersFile",
        HTTPStatus.FORBIDDEN: "look at headersFile",
        HTTPStatus.NOT_FOUND: path,
        HTTPStatus.METHOD_NOT_ALLOWED: "look at the path of url: POST is not for it",
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "it takes no protobuf: look at url",
    }
