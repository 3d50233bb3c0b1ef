"""TLS for the HTTP server: a certificate that is read again, and few handshakes at once."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial
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

BACKLOG: Final = 100
"""So many connections may wait to be accepted."""

_SHUTDOWN_TIMEOUT_S: Final = 1.0
_ACCEPT_RETRY_S: Final = 1.0

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
        """Read the files again whenever they change."""
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
                message=self._describe(error),
            )
        else:
            self._log.info("the certificate was read again", file=self._files[0])

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
    """Accepts connections; each has its handshake, and then its protocol.

    The event loop accepts them itself only where nothing limits how many handshakes are under way;
    `start_tls` of an accepted connection loses what the client sends first, on uvloop.
    """

    def __init__(
        self, context: ssl.SSLContext, new_protocol: Callable[[], asyncio.Protocol]
    ) -> None:
        self._context = context
        self._new_protocol = new_protocol
        self._loop = asyncio.get_running_loop()
        self._listening: set[socket.socket] = set()
        self._under_way: dict[asyncio.Task[None], None] = {}  # oldest first

    def accept_from(self, listening: socket.socket) -> None:
        """Accept the connections of a socket that listens, until closed."""
        listening.setblocking(False)  # noqa: FBT003 -- it takes no keyword
        self._listening.add(listening)
        self._loop.add_reader(listening, self._accept, listening)

    def close(self) -> None:
        """Accept no more, and end the handshakes that are under way."""
        for listening in self._listening:
            self._loop.remove_reader(listening)
        self._listening.clear()
        for task in self._under_way:
            task.cancel()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(BACKLOG):
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # as a rule, too many files are open
                self._loop.remove_reader(listening)
                self._loop.call_later(_ACCEPT_RETRY_S, self._accept_again, listening)
                return
            self._start(accepted)

    def _accept_again(self, listening: socket.socket) -> None:
        if listening in self._listening:
            self.accept_from(listening)

    def _start(self, accepted: socket.socket) -> None:
        """Begin a handshake, in place of the oldest where there are too many."""
        if len(self._under_way) >= MAX_HANDSHAKES:
            oldest = next(iter(self._under_way))
            del self._under_way[oldest]
            oldest.cancel()
        task = self._loop.create_task(self._complete(accepted))
        self._under_way[task] = None
        task.add_done_callback(partial(self._end, accepted))

    def _end(self, accepted: socket.socket, task: asyncio.Task[None]) -> None:
        self._under_way.pop(task, None)
        if task.cancelled():
            accepted.close()

    async def _complete(self, accepted: socket.socket) -> None:
        with suppress(OSError):  # ssl.SSLError is an OSError
            await self._loop.connect_accepted_socket(
                self._new_protocol,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
                ssl_shutdown_timeout=_SHUTDOWN_TIMEOUT_S,
            )
