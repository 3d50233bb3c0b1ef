"""URLs as a person wrote them: which of them are whole, and which lead to this machine."""

import re
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

_UNPRINTABLE: Final = re.compile(r"[^\x21-\x7e]")


def split_url(url: str) -> SplitResult | None:
    """Return the parts of a URL; None when something stands there that is in none.

    Its port, if it has one, is a number.
    """
    if _UNPRINTABLE.search(url):  # urlsplit would leave out some of these without a word
        return None
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts


def is_loopback_host(host: str) -> bool:
    """Say whether a host is a loopback address, or its name."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
