"""Parses listen addresses of flags and settings: `127.0.0.1:10258`, `[::1]:0`, `:10258`."""

import re
from typing import NamedTuple

from reactive_desched.errors import ConfigError

_LISTEN = re.compile(r"(?:\[([^\]]+)\]|([^\[\]:]*)):(\d{1,5})")
_MAX_PORT = 65535


class ListenAddress(NamedTuple):
    """An address; an empty host means every interface, port 0 any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        """Write the address as it is set: `127.0.0.1:10258`, `[::1]:0`, `:10258`."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def url(self, scheme: str = "http") -> str:
        """Return the address to type into a browser on the same machine."""
        return f"{scheme}://{self._replace(host=self.host or '127.0.0.1')}"


def parse_listen_address(text: str) -> ListenAddress:
    """Return the address a person wrote; raise ConfigError with the form expected."""
    match = _LISTEN.fullmatch(text)
    if match is None or int(match[3]) > _MAX_PORT:
        raise ConfigError(
            f"{text!r} is not an address to listen on: write HOST:PORT, [IPV6]:PORT or :PORT,"
            f" with a port from 0 to {_MAX_PORT}"
        )
    return ListenAddress(match[1] or match[2], int(match[3]))
