"""A certificate authority made on the spot, for tests that need TLS; needs `cryptography`."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from ssl import CERT_REQUIRED, PROTOCOL_TLS_SERVER, SSLContext

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

__all__ = ["CertificateAuthority"]


class CertificateAuthority:
    """Signs certificates that a client who trusts it accepts, and servers ask of clients.

    One that `is_lax` states no key usage and no key identifier, and its basic constraints are not
    critical, as those of many clusters and companies; from Python 3.13 on, the strict checks of
    `ssl` refuse it.
    """

    def __init__(self, *, is_lax: bool = False) -> None:
        self.now = datetime.now(UTC)
        self._is_lax = is_lax
        self._name = "authority"
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._sign("authority", self._key, [], is_authority=True)

    def subordinate(self) -> "CertificateAuthority":
        """Return an authority whose certificate this one signed."""
        made = CertificateAuthority()
        made._name = "subordinate"
        made._certificate = self._sign("subordinate", made._key, [], is_authority=True)
        return made

    def write(self, path: Path) -> Path:
        """Write the certificate to trust."""
        path.write_bytes(self._certificate.public_bytes(Encoding.PEM))
        return path

    def issue(self, folder: Path, name: str, *hosts: str) -> tuple[Path, Path]:
        """Write a certificate for these hosts and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(name, key, list(hosts), is_authority=False)
        cert_file, key_file = folder / f"{name}.crt", folder / f"{name}.key"
        cert_file.write_bytes(certificate.public_bytes(Encoding.PEM))
        encoding = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        key_file.write_bytes(key.private_bytes(*encoding))
        return cert_file, key_file

    def server_context(self, folder: Path, *hosts: str, ask_clients: bool = False) -> SSLContext:
        """Make what a server of these hosts needs, perhaps asking clients for a certificate."""
        context = SSLContext(PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.issue(folder, "server", *hosts))
        if ask_clients:
            context.load_verify_locations(self.write(folder / "clients-authority.crt"))
            context.verify_mode = CERT_REQUIRED
        return context

    def _sign(
        self, name: str, key: ec.EllipticCurvePrivateKey, hosts: list[str], *, is_authority: bool
    ) -> x509.Certificate:
        now = self.now
        common_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = (
            x509.CertificateBuilder()
            .subject_name(common_name)
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self._name)]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(
                x509.BasicConstraints(ca=is_authority, path_length=None),
                critical=not self._is_lax,
            )
        )
        if not self._is_lax:
            builder = (
                builder.add_extension(
                    x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
                )
                .add_extension(  # asked for from Python 3.13 on, as are key usages
                    x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                    critical=False,
                )
                .add_extension(_key_usage(is_authority=is_authority), critical=True)
            )
        if hosts:
            names = x509.SubjectAlternativeName([_host(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _key_usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        return x509.DNSName(text)
