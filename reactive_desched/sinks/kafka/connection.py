"""Reads how a Kafka cluster is reached, for each producer again, so that changed secrets count."""

import ssl
from pathlib import Path
from typing import Any, Final

from reactive_desched.errors import SinkUnavailable
from reactive_desched.policy.settings.recording import KafkaSettings, KafkaTlsSettings, SaslSettings
from reactive_desched.primitives.client_tls import client_tls_context
from reactive_desched.sinks.kafka.tokens import BearerTokens, token_provider

CLIENT_ID: Final = "reactive-desched"
REQUEST_TIMEOUT_S: Final = 10.0
RETRY_AFTER_S: Final = 0.1
METADATA_AGE_S: Final = 60.0
"""Added partitions are seen within this time."""

MAX_BATCH_BYTES: Final = 256 * 1024
MAX_GZIP_BATCH_BYTES: Final = 48 * 1024
"""Batches are no larger: to pack and check one holds the event loop, longest when compressing."""

MIN_BATCH_BYTES: Final = 16 * 1024
"""However often batches are too large, they may be of this size."""

ProducerSettings = dict[str, Any]  # Any: keyword arguments of several types


def producer_settings(kafka: KafkaSettings, tokens: BearerTokens | None = None) -> ProducerSettings:
    """Return what aiokafka's producer is made with; blocks on files. OAUTHBEARER wants `tokens`.

    Raises SinkUnavailable for a file that cannot be read.
    """
    return {
        "bootstrap_servers": list(kafka.brokers),
        "client_id": CLIENT_ID,
        "acks": "all",
        "enable_idempotence": True,
        "compression_type": None if kafka.compression == "none" else kafka.compression,
        "max_batch_size": min(kafka.max_request_bytes, _max_batch_bytes(kafka.compression)),
        "max_request_size": kafka.max_request_bytes,
        "request_timeout_ms": int(REQUEST_TIMEOUT_S * 1000),
        "retry_backoff_ms": int(RETRY_AFTER_S * 1000),
        "metadata_max_age_ms": int(METADATA_AGE_S * 1000),
        "security_protocol": _protocol(kafka),
        "ssl_context": None if kafka.tls is None else _tls_context(kafka.tls),
        **({} if kafka.sasl is None else _sasl_settings(kafka.sasl, tokens)),
    }


def _max_batch_bytes(compression: str) -> int:
    """Return how many bytes are packed at once, before compression; only gzip is slow."""
    return MAX_GZIP_BATCH_BYTES if compression == "gzip" else MAX_BATCH_BYTES


def _protocol(kafka: KafkaSettings) -> str:
    transport = "PLAINTEXT" if kafka.tls is None else "SSL"
    return transport if kafka.sasl is None else f"SASL_{transport}"


def _tls_context(tls: KafkaTlsSettings) -> ssl.SSLContext:
    try:
        context = client_tls_context(tls.ca_file)
        if tls.cert_file:  # an empty password: an encrypted key must not ask for one
            context.load_cert_chain(tls.cert_file, tls.key_file, password="")
    except (OSError, ValueError) as error:
        files = ", ".join(filter(None, (tls.ca_file, tls.cert_file, tls.key_file)))
        raise SinkUnavailable(
            f"the TLS files ({files}) cannot be used: {_error_text(error)}; "
            "they are PEM, and the private key is not encrypted"
        ) from error
    return context


def _sasl_settings(sasl: SaslSettings, tokens: BearerTokens | None) -> ProducerSettings:
    if tokens is not None:
        return {
            "sasl_mechanism": sasl.mechanism,
            "sasl_oauth_token_provider": token_provider(tokens, sasl.extensions),
        }
    try:
        password = Path(sasl.password_file).read_text(encoding="utf-8").strip("\r\n")
    except (OSError, ValueError) as error:
        raise SinkUnavailable(
            f"the password file {sasl.password_file} cannot be read: {_error_text(error)}"
        ) from None  # what cannot be decoded would be in the cause
    if not password:
        raise SinkUnavailable(f"the password file {sasl.password_file} is empty")
    return {
        "sasl_mechanism": sasl.mechanism,
        "sasl_plain_username": sasl.username,
        "sasl_plain_password": password,
    }


def _error_text(error: OSError | ValueError) -> str:
    """Return the system's words, without any content of a file."""
    return getattr(error, "strerror", None) or type(error).__name__
