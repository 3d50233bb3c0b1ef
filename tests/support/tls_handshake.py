"""Two TLS contexts that meet in memory, and Python's strict checks on any Python."""

import ssl
from contextlib import suppress

import pytest

__all__ = ["check_strictly", "shake_hands"]


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> str | None:
    """Let two contexts meet; return the protocol; raises what the client raises."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for each in (ours, theirs):
            with suppress(ssl.SSLWantReadError):
                each.do_handshake()
    return ours.version()


def check_strictly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the module `ssl` check certificates as it does from Python 3.13 on."""
    usual = ssl.create_default_context

    def strict(*args: object, **options: object) -> ssl.SSLContext:
        context = usual(*args, **options)  # type: ignore[arg-type]  # whatever it is called with
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)
