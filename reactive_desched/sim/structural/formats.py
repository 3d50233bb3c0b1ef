"""The formats of texts that schemas name; one that is not here is not checked."""

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

__all__ = ["has_format"]

_LABEL: Final = r"[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_NAME: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_UUID: Final = re.compile(r"(?i)[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}")
_MAC: Final = re.compile(r"(?i)([0-9a-f]{2}[:-]){5,7}[0-9a-f]{2}")
_EMAIL: Final = re.compile(r"[^@\s]+@[^@\s]+")
_DURATION: Final = re.compile(r"[-+]?(0|(\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))+|\d+ ?[a-zA-Z]+")


def has_format(form: str, text: str) -> bool:
    """Say whether a text is what its format says."""
    check = _CHECKS.get(form.replace("-", ""))
    return check is None or check(text)


def _reads(read: Callable[[str], object]) -> Callable[[str], bool]:
    """Return whether a text can be read."""

    def check(text: str) -> bool:
        try:
            read(text)
        except ValueError:
            return False
        return True

    return check


def _as_bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(text) from error


def _time(text: str) -> datetime:
    if len(text) < len("2006-01-02T15:04:05Z") or text[10] not in "Tt":
        raise ValueError(text)
    return datetime.fromisoformat(text)


def _is_uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return text.startswith("/") or bool(parts.scheme)


_CHECKS: Mapping[str, Callable[[str], bool]] = MappingProxyType(
    {
        "ipv4": _reads(ipaddress.IPv4Address),
        "ipv6": _reads(ipaddress.IPv6Address),
        "cidr": lambda text: "/" in text and _reads(ipaddress.ip_interface)(text),
        "uri": _is_uri,
        "email": lambda text: _EMAIL.fullmatch(text) is not None,
        "hostname": lambda text: len(text) < 256 and _NAME.fullmatch(text) is not None,  # noqa: PLR2004 -- RFC 1034
        "mac": lambda text: _MAC.fullmatch(text) is not None,
        "uuid": lambda text: _UUID.fullmatch(text) is not None,
        "byte": _reads(_as_bytes),
        "date": _reads(date.fromisoformat),
        "datetime": _reads(_time),
        "duration": lambda text: _DURATION.fullmatch(text) is not None,
    }
)
