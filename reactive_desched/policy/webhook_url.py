"""Where a webhook may be: nobody on the way reads the events, and its address has no password."""

import re
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

from reactive_desched.policy.problems import Complaint

_UNPRINTABLE: Final = re.compile(r"[^\x21-\x7e]")


def complaint_of(url: str) -> Complaint | None:
    """Say what is wrong with the address of a webhook; never repeat it: it may hold a password."""
    parts = _parts(url)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        return Complaint("is not a URL", "write https://host/path, without spaces")
    if parts.username is not None:
        return Complaint("a URL must not hold a password", "put a token into tokenFile")
    if parts.fragment:
        return Complaint("what stands behind # is never sent", "leave it out")
    if parts.scheme == "http" and not _is_this_machine(parts.hostname):
        message = f"http to {parts.hostname} shows every event to whoever listens on the way"
        hint = "write https://, or send to a proxy on this machine, at http://127.0.0.1:PORT"
        return Complaint(message, hint)
    return None


def _parts(url: str) -> SplitResult | None:
    """Return the parts of a URL that has a port, if any, which is a number."""
    if _UNPRINTABLE.search(url):  # urlsplit would leave out some of these without a word
        return None
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts


def _is_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
