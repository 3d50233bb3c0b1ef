"""The end of a certificate, compared with what `cryptography` reads."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from reactive_desched.kube.auth.certificates import certificate_end
from tests.support.authority import CertificateAuthority


@pytest.mark.parametrize("year", [1951, 1999, 2024, 2049, 2050, 2999])
@pytest.mark.parametrize("is_lax", [True, False])
def test_the_end_of_the_first_certificate_is_read(
    tmp_path: Path, year: int, *, is_lax: bool
) -> None:
    authority = CertificateAuthority(is_lax=is_lax)
    authority.now = datetime(year, 7, 8, 9, 10, 11, tzinfo=UTC)
    file, _ = authority.issue(tmp_path, "leaf", "a.example", "b.example")
    pem = b"# words\n" + file.read_bytes() + authority.write(tmp_path / "ca").read_bytes()
    expected = x509.load_pem_x509_certificate(file.read_bytes()).not_valid_after_utc
    assert expected == authority.now + timedelta(days=1)
    assert certificate_end(pem) == expected.timestamp()


@pytest.mark.parametrize(
    "pem",
    [b"", b"x", b"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----"]
    + [
        b"-----BEGIN CERTIFICATE-----\n" + text + b"\n-----END CERTIFICATE-----"
        for text in (b"", b"#", b"MIIBAAAA", b"MAMCAQE=", b"/////w==")
    ],
)
def test_what_is_no_certificate_has_no_end(pem: bytes) -> None:
    assert certificate_end(pem) is None


def test_a_certificate_that_is_cut_anywhere_has_no_wrong_end(tmp_path: Path) -> None:
    file, _ = CertificateAuthority().issue(tmp_path, "leaf")
    der = x509.load_pem_x509_certificate(file.read_bytes()).public_bytes
    from base64 import b64encode

    from cryptography.hazmat.primitives.serialization import Encoding

    whole = der(Encoding.DER)
    right = certificate_end(file.read_bytes())
    for size in range(len(whole)):
        cut = b64encode(whole[:size])
        pem = b"-----BEGIN CERTIFICATE-----\n" + cut + b"\n-----END CERTIFICATE-----"
        assert certificate_end(pem) in (None, right)
