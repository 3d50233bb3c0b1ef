"""One rule for the TLS of all our clients: what programs in Go trust, they trust."""

import os
import re
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reactive_desched.primitives.client_tls import client_tls_context, load_client_certificate
from tests.support.authority import CertificateAuthority
from tests.support.tls_handshake import check_strictly, shake_hands

PACKAGE = Path(__file__).parents[2] / "reactive_desched"


def open_files() -> set[int]:
    """Return the numbers of the open files of this process."""
    return {int(path.name) for path in Path("/proc/self/fd").iterdir() if path.exists()}


@pytest.fixture
def lax() -> CertificateAuthority:
    """Return an authority without key usage and key identifiers."""
    return CertificateAuthority(is_lax=True)


def test_an_authority_that_states_no_key_usage_and_no_identifier_is_trusted_on_every_python(
    lax: CertificateAuthority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_strictly(monkeypatch)
    ca_file, server = lax.write(tmp_path / "ca.pem"), lax.server_context(tmp_path, "127.0.0.1")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(ssl.create_default_context(cafile=str(ca_file)), server)

    assert shake_hands(client_tls_context(str(ca_file)), server) == "TLSv1.3"
    assert shake_hands(client_tls_context(ca_data=ca_file.read_bytes()), server) == "TLSv1.3"


def test_so_it_is_where_the_system_trusts_it(
    lax: CertificateAuthority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_strictly(monkeypatch)
    monkeypatch.setenv("SSL_CERT_FILE", str(lax.write(tmp_path / "system.pem")))

    server = lax.server_context(tmp_path, "127.0.0.1")
    assert shake_hands(client_tls_context(), server) == "TLSv1.3"


def test_an_authority_that_another_one_signed_is_enough(tmp_path: Path) -> None:
    between = CertificateAuthority().subordinate()
    ca_file = between.write(tmp_path / "ca.pem")

    server = between.server_context(tmp_path, "127.0.0.1")
    assert shake_hands(client_tls_context(str(ca_file)), server) == "TLSv1.3"


@pytest.mark.parametrize("host", ["127.0.0.2", "other.example"])
def test_a_certificate_of_another_host_or_authority_is_refused(tmp_path: Path, host: str) -> None:
    mine, other = CertificateAuthority(), CertificateAuthority()
    context = client_tls_context(str(mine.write(tmp_path / "ca.pem")))

    for server in (mine.server_context(tmp_path, host), other.server_context(tmp_path, host)):
        with pytest.raises(ssl.SSLCertVerificationError):
            shake_hands(context, server)


def test_a_certificate_that_has_expired_is_refused(tmp_path: Path) -> None:
    authority = CertificateAuthority()
    authority.now = datetime.now(UTC) - timedelta(days=3)
    context = client_tls_context(str(authority.write(tmp_path / "ca.pem")))
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        shake_hands(context, authority.server_context(tmp_path, "127.0.0.1"))


def test_words_beside_the_certificates_are_passed_over(tmp_path: Path) -> None:
    authority = CertificateAuthority()
    pem = authority.write(tmp_path / "ca.pem").read_bytes()
    context = client_tls_context(ca_data="# Größte Behörde\n".encode() + pem + b"\n# end\n")
    server = authority.server_context(tmp_path, "127.0.0.1")
    assert shake_hands(context, server) == "TLSv1.3"


@pytest.mark.parametrize("data", [b"", b"\n", b"no certificate", b"\xff\xfe", b"-----BEGIN X-----"])
def test_what_holds_no_certificate_is_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(data)
    with pytest.raises(OSError):  # noqa: PT011 -- the words are those of OpenSSL
        client_tls_context(ca_data=data)
    with pytest.raises(OSError):  # noqa: PT011
        client_tls_context(str(tmp_path / "ca.pem"))


@pytest.mark.parametrize("has_files_in_memory", [True, False])
def test_a_client_certificate_is_shown_and_its_key_stays_in_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_files_in_memory: bool
) -> None:
    authority, folder = CertificateAuthority(), tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    if not has_files_in_memory:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    certificate, key = (each.read_bytes() for each in authority.issue(tmp_path, "client"))
    context = client_tls_context(str(authority.write(tmp_path / "ca.pem")))
    opened = open_files()
    load_client_certificate(context, certificate, key)

    assert open_files() == opened
    assert list(folder.iterdir()) == []
    server = authority.server_context(tmp_path, "127.0.0.1", ask_clients=True)
    assert shake_hands(context, server) == "TLSv1.3"


def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    authority = CertificateAuthority()
    certificate = authority.issue(tmp_path, "a")[0].read_bytes()
    key = authority.issue(tmp_path, "b")[1].read_bytes()
    with pytest.raises(OSError, match="KEY_VALUES_MISMATCH"):
        load_client_certificate(client_tls_context(), certificate, key)


def test_no_other_module_makes_a_context_for_a_client() -> None:
    makers = re.compile(r"create_default_context\(|_create_\w+_context\(|PROTOCOL_TLS_CLIENT")
    found = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if makers.search(path.read_text(encoding="utf-8"))
    }
    assert found == {"primitives/client_tls.py"}
