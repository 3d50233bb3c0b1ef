"""Reads from a certificate's DER when it ends: the `ssl` module has no way to ask for it."""

import base64
import re
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

__all__ = ["certificate_end"]

_PEM: Final = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
_VERSION, _UTC_TIME, _LONG_FORM = 0xA0, 0x17, 0x80
_FIELDS_BEFORE: Final = 3
"""Serial number, signature and issuer stand before the validity."""


def certificate_end(pem: bytes) -> float | None:
    """Return the end of the first certificate, in seconds since the epoch; None if none is read."""
    if (found := _PEM.search(pem)) is None:
        return None
    with suppress(ValueError, IndexError):
        der = base64.b64decode(found[1])
        _, body, _ = _element(der, 0)
        tag, body, following = _element(der, body)
        tag, _, following = _element(der, body)
        position = following if tag == _VERSION else body
        for _ in range(_FIELDS_BEFORE):
            _, _, position = _element(der, position)
        _, begin, _ = _element(der, position)
        _, _, second = _element(der, begin)
        tag, at, end = _element(der, second)
        return _seconds(der[at:end].decode("ascii"), tag)
    return None


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """Return the tag of the element at a place, where its content begins, and where it ends."""
    tag, size, begin = der[at], der[at + 1], at + 2
    if size & _LONG_FORM:
        octets = size & ~_LONG_FORM
        size, begin = int.from_bytes(der[begin : begin + octets], "big"), begin + octets
    return tag, begin, begin + size


def _seconds(text: str, tag: int) -> float:
    """Read UTCTime, whose years are 1950 to 2049, or GeneralizedTime; RFC 5280 has both in UTC."""
    if tag == _UTC_TIME:
        text = f"{'19' if text[:2] >= '50' else '20'}{text}"
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()
