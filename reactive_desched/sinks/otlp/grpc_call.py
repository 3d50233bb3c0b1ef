"""Calls one method of a collector over gRPC, on one connection that is kept.

A request is bytes already, so that no stubs are needed. The texts of answers are in no error: they
may repeat what was sent.
"""

import asyncio
import gzip
import logging
import os
import socket
import ssl
import zlib
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, cast
from urllib.parse import unquote, urlsplit

import anyio
from anyio import to_thread
from grpclib import protocol
from grpclib.client import Channel, Handler
from grpclib.const import Cardinality
from grpclib.encoding.base import CodecBase
from grpclib.exceptions import GRPCError, StreamTerminatedError
from grpclib.utils import Wrapper
from h2.exceptions import H2Error
from msgspec import Struct
from yarl import URL

from reactive_desched.primitives.proxies import Proxy, ProxyError

CONNECTION_CLOSED: Final = "it closed the connection without an answer"

_PLAIN: Final = b"\x00"
_COMPRESSED: Final = b"\x01"
_MAX_ANSWER_BYTES: Final = 1024 * 1024
_MAX_HEAD_BYTES: Final = 16 * 1024
"""The answer of a proxy to CONNECT is not read any further."""


class _Bytes(CodecBase):
    """Passes on messages that are protobuf already."""

    __content_subtype__ = "proto"

    def encode(self, message: object, message_type: object) -> bytes:
        """Return the message as it is."""
        del message_type
        assert isinstance(message, bytes)
        return message

    def decode(self, data: bytes, message_type: object) -> bytes:
        """Return the answer as it is."""
        del message_type
        return data


class _CompressedStream(protocol.Stream):
    """Says of what grpclib sends that it is compressed, and unpacks what comes.

    grpclib itself does neither. Many servers compress their answer as the request was.
    """

    _unpacked: bytes | None = None
    """The rest of an answer whose head was read; None before that."""

    async def send_request(
        self,
        headers: list[tuple[str, str]],
        end_stream: bool = False,  # noqa: FBT001, FBT002 -- grpclib's signature
        *,
        _processor: protocol.EventsProcessor,
    ) -> Callable[[], None]:
        """Send the headers of a call, with the encoding of its messages."""
        headers = [*headers, ("grpc-encoding", "gzip")]
        return await super().send_request(headers, end_stream, _processor=_processor)

    async def send_data(self, data: bytes, end_stream: bool = False) -> None:  # noqa: FBT001, FBT002 -- as above
        """Send the frame of a message, whose first byte says whether it is compressed."""
        await super().send_data(_COMPRESSED + data[1:], end_stream)

    async def recv_data(self, size: int) -> bytes:
        """Return the next bytes of the frame of an answer, as though it came unpacked."""
        if self._unpacked is not None:
            part, self._unpacked = self._unpacked[:size], self._unpacked[size:]
            return part
        head = await super().recv_data(size)
        if len(head) < size:
            return head
        content = await super().recv_data(int.from_bytes(head[1:], "big"))
        self._unpacked = _unpack(content) if head[:1] == _COMPRESSED else content
        return _PLAIN + len(self._unpacked).to_bytes(4, "big")


def _unpack(content: bytes) -> bytes:
    """Return what was compressed; nothing where it cannot be read, or is larger than any answer."""
    reader = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)  # 16: gzip
    with suppress(zlib.error):
        found = reader.decompress(content, _MAX_ANSWER_BYTES)
        return found if reader.eof else b""
    return b""


class _CompressedConnection(protocol.Connection):
    """Has streams of messages that are compressed."""

    def create_stream(
        self, *, stream_id: int | None = None, wrapper: Wrapper | None = None
    ) -> protocol.Stream:
        """Return a new stream."""
        h2, transport = self._connection, self._transport
        return _CompressedStream(self, h2, transport, stream_id=stream_id, wrapper=wrapper)


class _CompressedProtocol(protocol.H2Protocol):
    """Speaks HTTP/2 with compressed messages."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin as grpclib does, with a connection of ours."""
        super().connection_made(transport)
        h2 = self.connection._connection  # noqa: SLF001 -- a second one would send a second preface
        writing = cast(asyncio.Transport, transport)  # that of uvloop has another ancestor
        self.connection = _CompressedConnection(h2, writing, config=self.config)
        self.processor = protocol.EventsProcessor(self.handler, self.connection)


class _Channel(Channel):
    """The connection to a collector, through the tunnel of an HTTP proxy where there is one."""

    def __init__(
        self, url: URL, tls: ssl.SSLContext | None, proxy: Proxy | None, *, compresses: bool
    ) -> None:
        super().__init__(url.host, url.port, ssl=tls, codec=_Bytes())
        self._proxy = proxy
        self._compresses = compresses

    def _protocol_factory(self) -> protocol.H2Protocol:
        if not self._compresses:
            return super()._protocol_factory()
        return _CompressedProtocol(Handler(), self._config, self._h2_config)

    async def _create_connection(self) -> protocol.H2Protocol:
        if self._proxy is None:
            return await super()._create_connection()
        tunnel = await _open_tunnel(self._proxy, self._authority)
        try:
            _, made = await asyncio.get_running_loop().create_connection(
                self._protocol_factory,
                sock=tunnel,
                ssl=self._ssl,
                server_hostname=None if self._ssl is None else self._host,
            )
        except BaseException:
            tunnel.close()
            raise
        return made


async def _open_tunnel(proxy: Proxy, target: str) -> socket.socket:
    """Return a socket that leads to a host and port; raises ProxyError, and OSError."""
    tunnel = await _connect(proxy)
    try:
        status, headers = await _ask_for_tunnel(tunnel, proxy, target)
    except BaseException:
        tunnel.close()
        raise
    if status // 100 == 2:  # noqa: PLR2004 -- every status of success opens the tunnel
        return tunnel
    tunnel.close()
    raise ProxyError(proxy.refusal(status, headers))


async def _connect(proxy: Proxy) -> socket.socket:
    """Connect to the first address of a proxy that answers; raises ProxyError."""
    loop, parts, why = asyncio.get_running_loop(), urlsplit(proxy.url), "its name has no address"
    if parts.scheme != "http":
        raise ProxyError(
            f"{proxy} speaks TLS itself, through which no gRPC is sent: name one that does not"
            " (http://HOST:PORT), or name the host in NO_PROXY"
        )
    with suppress(OSError):
        for family, kind, number, _, address in await loop.getaddrinfo(
            proxy.host, parts.port or 80, type=socket.SOCK_STREAM
        ):
            made = socket.socket(family, kind, number)
            made.settimeout(0)
            try:
                await loop.sock_connect(made, address)
            except OSError as error:
                why = os.strerror(error.errno) if error.errno else type(error).__name__
                made.close()
            except BaseException:
                made.close()
                raise
            else:
                return made
    raise ProxyError(f"no connection to {proxy}: {why}")


async def _ask_for_tunnel(
    tunnel: socket.socket, proxy: Proxy, target: str
) -> tuple[int, list[tuple[str, str]]]:
    """Send CONNECT; return the status of the answer and its headers. Raises ProxyError, OSError.

    What the collector sends behind the answer is left unread: it is of the connection.
    """
    loop, lines = asyncio.get_running_loop(), [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    parts = urlsplit(proxy.url)
    if parts.username is not None:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        lines.append(f"Proxy-Authorization: Basic {b64encode(login.encode()).decode()}")
    await loop.sock_sendall(tunnel, "\r\n".join([*lines, "", ""]).encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        part = await loop.sock_recv(tunnel, 1) if len(head) < _MAX_HEAD_BYTES else b""
        if not part:
            raise ProxyError(f"{proxy} gave no answer of HTTP: is that an HTTP proxy?")
        head += part
    first, *rest = head.decode("latin-1").split("\r\n")
    status = first.split()[1:2]
    if not (first.startswith("HTTP/") and status and status[0].isdecimal()):
        raise ProxyError(f"{proxy} gave no answer of HTTP: is that an HTTP proxy?")
    pairs = (line.partition(":") for line in rest if line)
    return int(status[0]), [(name.strip(), value.strip()) for name, _, value in pairs]


class GrpcFailure(Struct, frozen=True):
    """A call that failed: the name of its status, empty where no answer came, and what it is."""

    status: str
    text: str


class GrpcCall:
    """One method at one address; `tls` is None in the clear.

    Where it `compresses`, requests are compressed with gzip.
    """

    def __init__(
        self,
        url: URL,
        method: str,
        tls: ssl.SSLContext | None,
        timeout_s: float,
        *,
        proxy: Proxy | None = None,
        compresses: bool = False,
    ) -> None:
        # At level debug it logs the headers that it packs: those of the file are secrets.
        logging.getLogger("hpack").setLevel(logging.WARNING)
        if tls is not None:
            tls.set_alpn_protocols(["h2"])
        self._channel = _Channel(url, tls, proxy, compresses=compresses)
        self._method = method
        self._timeout_s = timeout_s
        self._compresses = compresses

    async def send(self, request: bytes, headers: Mapping[str, str]) -> bytes | GrpcFailure:
        """Send a request, and return the answer, or how it failed."""
        metadata = {name.lower(): value for name, value in headers.items()}
        if self._compresses:
            request = await to_thread.run_sync(gzip.compress, request)
        try:
            with anyio.fail_after(self._timeout_s):
                async with self._channel.request(
                    self._method, Cardinality.UNARY_UNARY, bytes, bytes, metadata=metadata
                ) as stream:
                    await stream.send_message(request, end=True)
                    answer: bytes | None = await stream.recv_message()
        except GRPCError as error:
            return GrpcFailure(error.status.name, f"it answered {error.status.name}")
        except (StreamTerminatedError, H2Error):
            return GrpcFailure("", CONNECTION_CLOSED)
        except TimeoutError:
            return GrpcFailure("", f"no answer within {self._timeout_s:g}s")
        except ssl.SSLCertVerificationError as error:
            return GrpcFailure("", f"its certificate is not to be trusted: {error.verify_message}")
        except OSError as error:
            return GrpcFailure("", f"no connection: {error.strerror or type(error).__name__}")
        except ProxyError as error:
            return GrpcFailure("", str(error))
        except ValueError:
            return GrpcFailure("", "headersFile holds a header that gRPC has for itself")
        return answer or b""

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()
