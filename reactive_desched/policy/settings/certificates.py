"""A certificate and its private key, as two files that go together."""

from pydantic import Field, model_validator

from reactive_desched.api.args import Section, field_error
from reactive_desched.api.rules import Rule

__all__ = ["CertificateFiles"]


class CertificateFiles(Section):
    """Two PEM files, or neither."""

    cert_file: str = Field(default="", description="Certificate.")
    key_file: str = Field(default="", description="Private key of the certificate.")

    @model_validator(mode="after")
    def _check_cert_and_key(self) -> "CertificateFiles":
        if bool(self.cert_file) != bool(self.key_file):
            raise field_error(
                "certFile and keyFile go together",
                "set both or neither",
                ("certFile",),
                rule=Rule.CONTRADICTING_SETTINGS,
            )
        return self
