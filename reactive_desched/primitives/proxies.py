"""The HTTP proxy to an address: HTTPS_PROXY, HTTP_PROXY and NO_PROXY, read as Go reads them.

The rules are those of golang.org/x/net/http/httpproxy, by which kubectl and every client of
client-go choose: one list in NO_PROXY means the same for them and for each of our clients.
"""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final, NamedTuple
from urllib.parse import quote, unquote, unquote_to_bytes, urlsplit

from reactive_desched.primitives.url import split_url

_Address = IPv4Address | IPv6Address

_PORTS: Final = {"http": "80", "https": "443"}
_SCHEMES: Final = ("http", "https")
_MAPPED_BITS: Final = 96
"""So many bits of an IPv6 address say that the others are an IPv4 address."""

_UNREACHED: Final = (
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
)


class ProxyError(ValueError):
    """A proxy that cannot be used; the message names where it is written, and the remedy."""


class Proxy(NamedTuple):
    """An HTTP proxy: its URL for aiohttp, which may hold a password, and where that is written."""

    url: str
    source: str

    def __str__(self) -> str:
        """Name it by its URL, without user and password, and where that is written."""
        return f"the proxy {self.address} of {self.source}"

    @property
    def address(self) -> str:
        """Its URL without user and password."""
        return proxy_address(self.url)

    @property
    def host(self) -> str:
        """The name or address under which it is dialled."""
        return urlsplit(self.url).hostname or ""

    def refusal(self, status: int, headers: Iterable[tuple[str, str]]) -> str:
        """Say what its own answer, instead of a connection to the server, means."""
        if status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
            offered = [text for name, text in headers if name.lower() == "proxy-authenticate"]
            return f"{self} {self._authentication_remedy(offered)} (407)"
        if status == HTTPStatus.FORBIDDEN:
            remedy = f"have it allow that, or {self._bypass}"
            return f"{self} does not connect to the server (403): {remedy}"
        if status in _UNREACHED:
            remedy = f"does it reach the server? If not, {self._bypass}"
            return f"{self} has no connection to the server ({status}): {remedy}"
        return f"{self} answers {status} instead of a connection: is that an HTTP proxy?"

    @property
    def _bypass(self) -> str:
        """Return what makes requests pass it by: NO_PROXY is for those of the environment."""
        return "name the host in NO_PROXY" if self.source.startswith("$") else "leave it out"

    def _authentication_remedy(self, offered: Iterable[str]) -> str:
        schemes = [each.split()[0].rstrip(",") for each in offered if each.strip()]
        if schemes and "basic" not in map(str.lower, schemes):
            wanted = " or ".join(schemes)
            return (
                f"wants {wanted}, and only Basic is supported: name a proxy that takes Basic, or"
                " one on this machine that signs in there"
            )
        if urlsplit(self.url).username is None:
            return "wants a user and a password: write http://USER:PASSWORD@HOST:PORT"
        return (
            "does not accept the user and password in its URL: correct them, with special"
            " characters as %XX"
        )


def proxy_address(url: str) -> str:
    """Return the URL of a proxy without its user and password, for messages."""
    scheme, separator, rest = url.partition("://")
    authority = rest.split("/", 1)[0].rpartition("@")[2]
    return f"{scheme}{separator}{authority}" if separator else url.rpartition("@")[2]


def environment_proxy(url: str, environ: Mapping[str, str]) -> Proxy | None:
    """Return the environment's proxy for a URL; None where it is reached without one.

    As in Go, a name in capitals counts before the one in small letters, and an empty value is
    none. This machine never has a proxy. Raises ProxyError for a proxy that cannot be used.
    """
    parts = urlsplit(url)
    names = (f"{parts.scheme}_proxy".upper(), f"{parts.scheme}_proxy")
    name = next((name for name in names if environ.get(name)), None)
    if name is None or parts.scheme not in _SCHEMES:
        return None
    excluded = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if not _is_proxied(parts.hostname or "", str(parts.port or _PORTS[parts.scheme]), excluded):
        return None
    written = environ[name]
    read = urlsplit(written) if split_url(written) is not None else None
    is_url = read is not None and read.scheme and read.netloc
    return make_proxy(written if is_url else f"http://{written}", f"${name}")


def make_proxy(url: str, source: str) -> Proxy:
    """Return a proxy that `source` names; raises ProxyError for one that cannot be used."""
    parts, shown = split_url(url), proxy_address(url)
    if parts is not None and parts.scheme.startswith("socks"):
        raise ProxyError(
            f"the proxy {shown} of {source} speaks SOCKS, which is not supported: name an HTTP"
            " proxy (http://HOST:PORT), or forward the port, for example with ssh -L, and leave the"
            " proxy out"
        )
    if parts is None or parts.scheme not in _SCHEMES or not parts.hostname or parts.port == 0:
        raise ProxyError(
            f"the proxy {shown!r} of {source} is not the address of an HTTP proxy: write"
            " http://HOST:PORT"
        )
    return Proxy(_with_login_in_utf_8(url), source)


def _with_login_in_utf_8(url: str) -> str:
    """Return a URL whose user and password aiohttp, which takes them for Latin-1, sends as UTF-8.

    That is what programs in Go send, and curl.
    """
    scheme, separator, rest = url.partition("://")
    login, at, host = rest.rpartition("@")
    parts = [unquote_to_bytes(part) for part in login.split(":", 1)]
    if all(part.isascii() for part in parts):
        return url
    login = ":".join(quote(part.decode("latin-1"), safe="") for part in parts)
    return f"{scheme}{separator}{login}{at}{host}"


def _is_proxied(host: str, port: str, excluded: str) -> bool:
    """Say whether a proxy is used for a host, by the value of NO_PROXY."""
    if host == "localhost":
        return False
    name = _ascii_name(unquote(host)).lower().strip()
    ip = _address(name.partition("%")[0])
    if ip is not None and ip.is_loopback:
        return False
    entries = [entry.strip().lower() for entry in excluded.split(",")]
    return "*" not in entries and not any(_matches(each, name, port, ip) for each in entries)


def _matches(entry: str, name: str, port: str, ip: _Address | None) -> bool:
    """Say whether an entry of NO_PROXY names a host: a network, an address or a domain."""
    if (network := _network(entry)) is not None:
        return ip is not None and ip in network
    host, entry_port = _split_port(entry)
    if not host or entry_port not in ("", port):
        return False
    if (excluded := _address(host)) is not None:
        return excluded == ip
    if ip is not None:
        return False
    domain = _ascii_name(host.removeprefix("*") if host.startswith("*.") else host)
    return name.endswith(domain) if domain.startswith(".") else f".{name}".endswith(f".{domain}")


def _split_port(entry: str) -> tuple[str, str]:
    """Split HOST:PORT or [IPv6]:PORT; an entry of another form is a host as a whole."""
    host, separator, port = entry.rpartition(":")
    if not separator:
        return entry, ""
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1], port
    return (entry, "") if any(char in host for char in ":[]") else (host, port)


def _network(text: str) -> IPv4Network | IPv6Network | None:
    """Read a network in CIDR notation; an IPv4 network in the form of IPv6 is the IPv4 network."""
    base, separator, bits = text.partition("/")
    if not (separator and bits.isdecimal()) or "%" in base:
        return None
    try:
        network = ip_network(text, strict=False)
    except ValueError:
        return None
    mapped = network.network_address.ipv4_mapped if isinstance(network, IPv6Network) else None
    if mapped is None:
        return network
    return IPv4Network((mapped, network.prefixlen - _MAPPED_BITS))


def _address(text: str) -> _Address | None:
    """Read an IP address; an IPv4 address in the form of IPv6 is the IPv4 address."""
    try:
        ip = ip_address(text)
    except ValueError:
        return None
    return ip.ipv4_mapped or ip if isinstance(ip, IPv6Address) else ip


def _ascii_name(host: str) -> str:
    """Return a host name as DNS has it; one that has no such form as it is."""
    if host.isascii():
        return host
    try:
        labels = [label and label.encode("idna").decode() for label in host.split(".")]
    except UnicodeError:
        return host
    return ".".join(labels)
