"""The TLS context of each of our clients: of the API server, Kafka, webhooks, Prometheus, commands.

One rule for all: they trust what kubectl and other programs in Go trust.
"""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

_PRIVATE: Final = 0o600


def client_tls_context(
    ca_file: str | None = None, *, ca_data: bytes | None = None
) -> ssl.SSLContext:
    """Return a context that trusts these PEM certificates; without any, the system's authorities.

    Authorities of clusters and companies often lack a key usage or an authority key identifier,
    which OpenSSL's strict checks ask for: Python 3.13 and newer has them on, Go has none, so they
    are off. As in Go, a certificate to trust need not sign itself: an intermediate authority is
    enough. Raises OSError for what cannot be read, or holds no certificate.
    """
    if ca_data is None and not ca_file:
        _require_open_file()
    if ca_data is None:
        context = ssl.create_default_context(cafile=ca_file or None)
    else:  # beside the certificates a file may hold words in any language
        context = ssl.create_default_context(cadata=_certificates(ca_data))
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def load_client_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a certificate into a context, PEM as the key; raises OSError for a wrong pair.

    The ssl module reads files alone: the key is on no disk where the system has files in memory,
    and in no file when this returns.
    """
    with _private_file(certificate.rstrip() + b"\n" + key) as path:
        # An empty password: an encrypted key must not ask for one at the terminal.
        context.load_cert_chain(path, password="")


def _require_open_file() -> None:
    """Raise OSError where no file can be opened: OpenSSL would trust no authority, in silence."""
    with Path(os.devnull).open("rb"):
        pass


def _certificates(data: bytes) -> str:
    text = data.decode("ascii", "ignore")
    if not text.strip():
        raise ssl.SSLError("it is empty")
    return text


@contextmanager
def _private_file(content: bytes) -> Iterator[str]:
    """Hold the content in a file that only this process reads."""
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("client-certificate")
        try:
            os.write(file, content)
            yield f"/proc/self/fd/{file}"
        finally:
            os.close(file)
        return
    with TemporaryDirectory() as folder:  # of other systems than Linux; for its owner alone
        path = Path(folder, "client.pem")
        path.touch(_PRIVATE)
        path.write_bytes(content)
        yield str(path)
