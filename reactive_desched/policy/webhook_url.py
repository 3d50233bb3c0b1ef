"""Where a webhook may be: nobody on the way reads the events, and its address has no password."""

from reactive_desched.policy.diagnostics import Complaint
from reactive_desched.primitives.url import is_this_machine, parts_of


def complaint_of(url: str) -> Complaint | None:
    """Say what is wrong with the address of a webhook; never repeat it: it may hold a password."""
    parts = parts_of(url)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        return Complaint("is not a URL", "write https://host/path, without spaces")
    if parts.username is not None:
        return Complaint("a URL must not hold a password", "put a token into tokenFile")
    if parts.fragment:
        return Complaint("what stands behind # is never sent", "leave it out")
    if parts.scheme == "http" and not is_this_machine(parts.hostname):
        message = f"http to {parts.hostname} shows every event to whoever listens on the way"
        hint = "write https://, or send to a proxy on this machine, at http://127.0.0.1:PORT"
        return Complaint(message, hint)
    return None
