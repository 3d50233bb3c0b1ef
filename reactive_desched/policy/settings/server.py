"""The addresses that the controller serves, and the access rules of each."""

from typing import Final

from pydantic import Field, ValidationInfo, field_validator, model_validator

from reactive_desched.api.args import Section, field_error
from reactive_desched.api.rules import Rule
from reactive_desched.errors import ConfigError
from reactive_desched.policy.settings.certificates import CertificateFiles
from reactive_desched.primitives.hints import quote
from reactive_desched.primitives.listen_address import ListenAddress, parse_listen_address
from reactive_desched.primitives.url import is_loopback_host

__all__ = ["UNENCRYPTED_HINT", "ServerSettings", "ServerTlsSettings"]

UNENCRYPTED_HINT: Final = "set server.tls, or listen on 127.0.0.1"
"""What to do about tokens that would be sent unencrypted."""

_NO_ADDRESS: Final = ("", "0")


class ServerTlsSettings(CertificateFiles):
    """The server's certificate; both files are PEM, and read again when they change."""

    cert_file: str = Field(
        default="",
        description="Certificate, and behind it those of its authorities; empty: plain HTTP.",
    )
    key_file: str = Field(default="", description="Private key of the certificate.")


class ServerSettings(Section):
    """The addresses at which health, metrics and events are served."""

    listen: str = Field(
        default="127.0.0.1:10258", description="Address and port; an empty address means all."
    )

    health_probe_bind_address: str = Field(
        default="",
        description="A second address and port, for `/livez` and `/readyz` only, so that clients "
        "of metrics and events cannot delay probes; none if empty or 0.",
    )

    tls: ServerTlsSettings = Field(
        default=ServerTlsSettings.model_construct(),
        description="Encryption of everything but the second address of the probes.",
    )

    require_token: bool = Field(
        default=False,
        description="Answer only clients that send a bearer token: the API server says by a "
        "TokenReview whose it is, and by a SubjectAccessReview whether that user may get the path, "
        "or post to it. Probes and the files of the live page need none. Without it, `/debug/` and "
        "`/operator/` answer only clients in the controller's own pod, as kubectl exec and kubectl "
        "port-forward make them.",
    )

    ui: bool = Field(
        default=False,
        description="Serve the live page at `/`, and the stream of events that it shows. It only "
        "reads.",
    )

    ui_listen: str = Field(
        default="",
        description="An address and port of its own for the live page and what it reads, which "
        "the first address does not serve then; none if empty or 0.",
    )

    old_metric_names: bool = Field(
        default=False,
        description="Serve the metrics `descheduler_…` under the names of earlier releases of the "
        "SIG descheduler besides, `descheduler_pods_evicted` among them, which is koordinator's; "
        "with the SIG descheduler's command line and in sweeps that is the default.",
    )

    @property
    def probe_listen(self) -> ListenAddress | None:
        """The address of the probes, if they have one of their own; raises ConfigError."""
        return _address_if_set(self.health_probe_bind_address)

    @property
    def page_listen(self) -> ListenAddress | None:
        """The address of the live page, if it has one of its own; raises ConfigError."""
        return _address_if_set(self.ui_listen) if self.ui else None

    def exposed_tokens(self, listen: ListenAddress) -> ListenAddress | None:
        """Return where tokens would be sent unencrypted to another machine; None: nowhere."""
        if not self.require_token or self.tls.cert_file:
            return None
        served = (listen, self.page_listen)
        return next((each for each in served if each and not is_loopback_host(each.host)), None)

    @field_validator("listen", "health_probe_bind_address", "ui_listen", mode="before")
    @classmethod
    def _check_listen(cls, written: object, info: ValidationInfo) -> object:
        """Refuse what is no address, a number too, which quotes alone would not make one."""
        is_number = isinstance(written, int) and not isinstance(written, bool)
        is_none = info.field_name != "listen" and str(written) in _NO_ADDRESS
        if is_none or not (is_number or isinstance(written, str)):
            return written
        listen = str(written)
        try:
            parse_listen_address(listen)
        except ConfigError as error:
            hint = "write address:port, for example 127.0.0.1:10258 or [::1]:10258"
            message = f"{quote(listen)} is not an address to listen on"
            raise field_error(message, hint, rule=Rule.NOT_AN_ADDRESS) from error
        return listen

    @model_validator(mode="after")
    def _check_tokens(self) -> "ServerSettings":
        exposed = self.exposed_tokens(parse_listen_address(self.listen))
        if exposed is not None:
            message = f"tokens would be sent unencrypted to {exposed}"
            place, rule = ("requireToken",), Rule.CONTRADICTING_SETTINGS
            raise field_error(message, UNENCRYPTED_HINT, place, rule=rule)
        return self


def _address_if_set(address: str) -> ListenAddress | None:
    return None if address in _NO_ADDRESS else parse_listen_address(address)
