"""Defines a credential for requests to the API server, and the sources of credentials."""

from typing import Final, Protocol

from msgspec import Struct

__all__ = ["LOAD_LIMIT_S", "LOG_IN_LIMIT_S", "Credential", "CredentialSource"]

LOAD_LIMIT_S: Final = 60.0
"""So long a plugin or an identity provider may take."""

LOG_IN_LIMIT_S: Final = 600.0
"""So long a person may take who logs in through a plugin, at a terminal."""


WRITE_ANEW: Final = "there are no others: have them written anew; they are read again by themselves"
"""What to do about credentials in files that the API server does not accept."""


class Credential(Struct, frozen=True):
    """The value of the header Authorization, and a client certificate with its key, as PEM.

    `renew_at_s` says when the next one is to be had, in seconds since the epoch: before this one
    ends, or None where only a changed file or a 401 makes another.
    """

    authorization: str = ""
    certificate: bytes = b""
    key: bytes = b""
    renew_at_s: float | None = None


class CredentialSource(Protocol):
    """The credentials of a user; blocks on files."""

    wait_hint: str
    """What a load may wait for, behind `no answer in 60 s`."""

    limit_s: float
    """How long a load may take."""

    refused_hint: str
    """What to do where the API server accepts none of them, behind `(401), and`."""

    is_kept: bool
    """Whether a load may return the credential of an earlier one, without asking for it again."""

    async def load(self, now_s: float, *, is_rejected: bool) -> Credential:
        """Return the credential of this moment; raises ValueError or OSError, without secrets.

        `is_rejected` says that the API server did not accept the last one.
        """
        ...
