"""Checks URLs of webhooks and token endpoints: encrypted, without a password in them."""

from reactive_desched.api.args import FieldError
from reactive_desched.api.rules import Rule
from reactive_desched.primitives.url import is_loopback_host, split_url


def webhook_url_error(url: str) -> FieldError | None:
    """Say what is wrong with the address of a webhook; never repeat it: it may hold a password."""
    parts = split_url(url)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        return FieldError(
            "is not a URL", "write https://host/path, without spaces", rule=Rule.WEBHOOK_URL
        )
    if parts.username is not None:
        return FieldError(
            "a URL must not hold a password", "put a token into tokenFile", rule=Rule.WEBHOOK_URL
        )
    if parts.fragment:
        return FieldError(
            "what stands behind # is never sent", "leave it out", rule=Rule.WEBHOOK_URL
        )
    if parts.scheme == "http" and not is_loopback_host(parts.hostname):
        message = f"http to {parts.hostname} sends every event unencrypted"
        hint = "write https://, or send to a proxy on this machine, at http://127.0.0.1:PORT"
        return FieldError(message, hint, rule=Rule.WEBHOOK_URL)
    return None


def otlp_url_error(url: str, *, insecure: bool) -> FieldError | None:
    """Say what is wrong with the address of a collector; never repeat it, as above."""
    parts = split_url(url)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        hint = "write https://HOST:4318/v1/traces"
        return FieldError("is not a URL", hint, ("url",), rule=Rule.WEBHOOK_URL)
    if parts.username is not None or parts.fragment:
        message, hint = "a URL holds neither a password nor a #", "put secrets into headersFile"
        return FieldError(message, hint, ("url",), rule=Rule.WEBHOOK_URL)
    if parts.path in ("", "/"):
        hint = "collectors take traces at /v1/traces"
        return FieldError("the path is missing", hint, ("url",), rule=Rule.WEBHOOK_URL)
    if parts.scheme == "http" and not (insecure or is_loopback_host(parts.hostname)):
        message = f"http to {parts.hostname} sends every trace unencrypted"
        hint = "write https://, or allow it by insecure: true"
        return FieldError(message, hint, ("url",), rule=Rule.WEBHOOK_URL)
    return None


def token_url_error(url: str) -> FieldError | None:
    """Say what is wrong with the address of a token endpoint; never repeat it, as above."""
    parts = split_url(url)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        return FieldError("is not a URL", "write https://host/path", rule=Rule.WEBHOOK_URL)
    if parts.username is not None or parts.fragment:
        hint = "put the secret into clientSecretFile"
        return FieldError("a URL holds neither a password nor a #", hint, rule=Rule.WEBHOOK_URL)
    if parts.scheme == "http" and not is_loopback_host(parts.hostname):
        message = f"http to {parts.hostname} sends the client's secret unencrypted"
        return FieldError(message, "write https://", rule=Rule.WEBHOOK_URL)
    return None


def calendar_url_error(url: str) -> FieldError | None:
    """Say what is wrong with the address of a calendar; never repeat it, as above."""
    parts = split_url(url)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        return FieldError("is not a URL", "write https://host/path", rule=Rule.WEBHOOK_URL)
    if parts.username is not None or parts.fragment:
        hint = "put a token into tokenFile"
        return FieldError("a URL holds neither a password nor a #", hint, rule=Rule.WEBHOOK_URL)
    if parts.scheme == "http" and not is_loopback_host(parts.hostname):
        message = f"http does not protect the answer of {parts.hostname}: it could lack freezes"
        return FieldError(message, "write https://", rule=Rule.WEBHOOK_URL)
    return None
