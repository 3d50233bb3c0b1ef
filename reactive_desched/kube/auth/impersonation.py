"""The headers by which requests are sent as another user, as client-go writes them."""

import string
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

__all__ = ["Header", "impersonation_headers"]

Header = tuple[str, str]
"""The name and a value of an HTTP header, of which there may be several with one name."""

_TOKEN: Final = frozenset(f"{string.ascii_letters}{string.digits}!#$&'*+-.^_`|~".encode())
"""The bytes of a header's name that stay as they are; `%` begins an escape."""


def impersonation_headers(
    user: str, uid: str, groups: Sequence[str], extra: Mapping[str, Sequence[str]]
) -> tuple[Header, ...]:
    """Return the headers of these fields; none where all are empty.

    Raises ValueError for a uid, a group or an extra field without a user, and for a value that no
    header can have.
    """
    if not user and (uid or groups or extra):
        raise ValueError(
            "as-uid, as-groups and as-user-extra count for the user that `as` names, and there is"
            " no `as`: add it, or take them away"
        )
    headers = tuple(_headers(user, uid, groups, extra))
    for name, value in headers:
        if any((char < " " and char != "\t") or char == "\x7f" for char in value):
            raise ValueError(f"{name} would hold a line break or another control character")
    return headers


def _headers(
    user: str, uid: str, groups: Sequence[str], extra: Mapping[str, Sequence[str]]
) -> Iterator[Header]:
    if user:
        yield "Impersonate-User", user
    if uid:
        yield "Impersonate-Uid", uid
    for group in groups:
        yield "Impersonate-Group", group
    for key, values in extra.items():
        for value in values:
            yield f"Impersonate-Extra-{_escape(key)}", value


def _escape(key: str) -> str:
    """Escape the bytes that no header's name may have, as a URL does."""
    return "".join(chr(byte) if byte in _TOKEN else f"%{byte:02X}" for byte in key.encode())
