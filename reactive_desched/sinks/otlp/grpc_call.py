"""Calls one method of a collector over gRPC, on one connection that is kept.

A request is bytes already, so that no stubs are needed. The texts of answers are in no error: they
may repeat what was sent.
"""

import logging
import ssl
from collections.abc import Mapping
from typing import Final

import anyio
from grpclib.client import Channel
from grpclib.const import Cardinality
from grpclib.encoding.base import CodecBase
from grpclib.exceptions import GRPCError, StreamTerminatedError
from h2.exceptions import H2Error
from msgspec import Struct
from yarl import URL

CONNECTION_CLOSED: Final = "it closed the connection without an answer"


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


class GrpcFailure(Struct, frozen=True):
    """A call that failed: the name of its status, empty where no answer came, and what it is."""

    status: str
    text: str


class GrpcCall:
    """One method at one address; `tls` is None in the clear."""

    def __init__(self, url: URL, method: str, tls: ssl.SSLContext | None, timeout_s: float) -> None:
        # At level debug it logs the headers that it packs: those of the file are secrets.
        logging.getLogger("hpack").setLevel(logging.WARNING)
        if tls is not None:
            tls.set_alpn_protocols(["h2"])
        self._channel = Channel(url.host, url.port, ssl=tls, codec=_Bytes())
        self._method = method
        self._timeout_s = timeout_s

    async def send(self, request: bytes, headers: Mapping[str, str]) -> bytes | GrpcFailure:
        """Send a request, and return the answer, or how it failed."""
        metadata = {name.lower(): value for name, value in headers.items()}
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
        except ValueError:
            return GrpcFailure("", "headersFile holds a header that gRPC has for itself")
        return answer or b""

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()
