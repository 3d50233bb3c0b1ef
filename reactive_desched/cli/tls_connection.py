"""An HTTPS connection whose certificate may name another host than the one that is dialled."""

import socket
from http.client import HTTPConnection
from ssl import SSLContext


class TlsConnection(HTTPConnection):
    """A connection that is secured for `name`, whatever `host` leads there."""

    def __init__(
        self, host: str, port: int, timeout_s: float, context: SSLContext, name: str
    ) -> None:
        super().__init__(host, port, timeout=timeout_s)
        self._context = context
        self._name = name

    def connect(self) -> None:
        """Connect, and agree on encryption; raises OSError where the certificate is not trusted."""
        plain = socket.create_connection((self.host, self.port), self.timeout)
        self.sock = self._context.wrap_socket(plain, server_hostname=self._name)
