"""Opens TCP sockets that notice within a minute that the other end is gone."""

import socket
from typing import Final

__all__ = ["open_tcp_socket"]

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
