"""TLS for the HTTP server: a certificate that is read anew, and few handshakes at once."""

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

import anyio

from reactive_desched.errors import ConfigError
from reactive_desched.telemetry.logs import Logger

RELOAD_INTERVAL_S: Final = 10.0
"""The files are looked at this often, as the API server does."""

HANDSHAKE_TIMEOUT_S: Final = 5.0
MAX_HANDSHAKES: Final = 64
"""So many connections may be at their handshake; for one more the oldest is closed."""

_SHUTDOWN_TIMEOUT_S: Final = 1.0

_Fingerprint = tuple[tuple[int, int, int], ...]


class ServerCertificate:
    """A certificate with its key, both PEM files, as a context for new connections.

    Raises ConfigError when the files cannot be used. When they change, connections that are opened
    from then on get the new certificate; files that cannot be used then are logged, and the old
    certificate is served on.
    """

    def __init__(self, cert_file: str, key_file: str, log: Logger) -> None:
        self._files = cert_file, key_file
        self._log = log
        self._seen = self._fingerprint()
        self.context = _new_context()
        try:
            self.context.load_cert_chain(*self._files)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"server.tls: {self._describe(error)}") from error

    async def run(self) -> None:
        """Read the files anew whenever they change."""
        while True:
            await anyio.sleep(RELOAD_INTERVAL_S)
            await anyio.to_thread.run_sync(self._reload_if_changed)

    def _reload_if_changed(self) -> None:
        found = self._fingerprint()
        if found == self._seen:
            return
        self._seen = found
        try:
            _new_context().load_cert_chain(*self._files)  # a failure spoils the context it is in
            self.context.load_cert_chain(*self._files)
        except (OSError, ssl.SSLError) as error:
            self._log.warning(
                "the new certificate cannot be used, the old one is served on",
                reason=self._describe(error),
            )
        else:
            self._log.info("the certificate was read anew", file=self._files[0])

    def _fingerprint(self) -> _Fingerprint:
        """Return what distinguishes the files from later ones, also from a missing file."""
        stats = []
        for path in map(Path, self._files):
            try:
                found = path.stat()
            except OSError:
                stats.append((0, 0, 0))
            else:
                stats.append((found.st_ino, found.st_mtime_ns, found.st_size))
        return tuple(stats)

    def _describe(self, error: Exception) -> str:
        missing = next((each for each in self._files if not Path(each).is_file()), None)
        if missing is not None:
            return f"there is no file {missing}"
        if isinstance(error, PermissionError):
            return f"{' or '.join(self._files)} may not be read by this process"
        return (
            f"{self._files[0]} and {self._files[1]} are not a PEM certificate and its key"
            f" ({error.strerror if isinstance(error, OSError) and error.strerror else error})"
        )


def _new_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # TLS 1.2 or newer
    context.set_alpn_protocols(["http/1.1"])
    return context


class TlsHandshakes:
    """Gives each new connection its handshake, and then its protocol."""

    def __init__(
        self, context: ssl.SSLContext, new_protocol: Callable[[], asyncio.Protocol]
    ) -> None:
        self._context = context
        self._new_protocol = new_protocol
        self._under_way: dict[_Handshake, asyncio.Task[None]] = {}  # oldest first

    def new(self) -> asyncio.Protocol:
        """Return the protocol of a new connection."""
        return _Handshake(self)

    def start(self, handshake: "_Handshake", transport: asyncio.Transport) -> None:
        """Begin a handshake, in place of the oldest where there are too many."""
        if len(self._under_way) >= MAX_HANDSHAKES:
            self._under_way.pop(next(iter(self._under_way))).cancel()
        task = asyncio.get_running_loop().create_task(self._complete(handshake, transport))
        self._under_way[handshake] = task

    def close(self) -> None:
        """End the handshakes that are under way."""
        for task in self._under_way.values():
            task.cancel()

    async def _complete(self, handshake: "_Handshake", transport: asyncio.Transport) -> None:
        try:
            encrypted = await asyncio.get_running_loop().start_tls(
                transport,
                handshake,
                self._context,
                server_side=True,
                ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
                ssl_shutdown_timeout=_SHUTDOWN_TIMEOUT_S,
            )
        except (OSError, asyncio.CancelledError):  # ssl.SSLError is an OSError
            transport.abort()
            return
        finally:
            self._under_way.pop(handshake, None)
        if encrypted is not None and not handshake.is_lost:
            handshake.hand_over(encrypted, self._new_protocol())


class _Handshake(asyncio.Protocol):
    """A connection until its handshake is done; it keeps what the client sent right after that."""

    def __init__(self, handshakes: TlsHandshakes) -> None:
        self.is_lost = False
        self._handshakes = handshakes
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()  # the handshake's own protocol reads the first byte
        self._handshakes.start(self, transport)

    def data_received(self, data: bytes) -> None:
        self._early.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.is_lost = True

    def hand_over(self, transport: asyncio.Transport, protocol: asyncio.Protocol) -> None:
        """Let a protocol have the connection, and what was read already."""
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        for data in self._early:
            protocol.data_received(data)
