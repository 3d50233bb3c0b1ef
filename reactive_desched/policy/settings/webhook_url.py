"""Checks URLs that settings name: encrypted, without a password in them."""

from msgspec.structs import replace

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


def otlp_url_error(url: str, usual_path: str, *, insecure: bool) -> FieldError | None:
    """Say what is wrong with the address of a collector; never repeat it, as above.

    `usual_path` is that for HTTP, empty for gRPC, which has paths of its own.
    """
    example = f"https://HOST:4318{usual_path}" if usual_path else "https://HOST:4317"
    host, path, found = _read(url, example, "secrets into headersFile")
    if found is None and usual_path and path in ("", "/"):
        found = _error("the path is missing", f"most collectors have {usual_path}")
    if found is None and not usual_path and path not in ("", "/"):
        found = _error("with grpc there is no path", f"write {example}, or protocol: http/protobuf")
    if found is None and host and not insecure:
        message = f"http to {host} is not encrypted"
        found = _error(message, "write https://, or allow it by insecure: true")
    return None if found is None else replace(found, path=("url",))


def token_url_error(url: str) -> FieldError | None:
    """Say what is wrong with the address of a token endpoint; never repeat it, as above."""
    host, _, found = _read(url, "https://host/path", "the secret into clientSecretFile")
    if found is None and host:
        found = _error(f"http to {host} sends the client's secret unencrypted", "write https://")
    return found


def calendar_url_error(url: str) -> FieldError | None:
    """Say what is wrong with the address of a calendar; never repeat it, as above."""
    host, _, found = _read(url, "https://host/path", "a token into tokenFile")
    if found is None and host:
        message = f"http does not protect the answer of {host}: it could lack freezes"
        found = _error(message, "write https://")
    return found


def _read(url: str, example: str, secrets: str) -> tuple[str, str, FieldError | None]:
    """Return the host that http leads to, empty where no other machine reads along, and the path.

    The last is what is wrong: with an example of a URL, and where secrets are to be put.
    """
    parts = split_url(url)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        return "", "", _error("is not a URL", f"write {example}")
    if parts.username is not None or parts.fragment:
        return "", "", _error("a URL holds neither a password nor a #", f"put {secrets}")
    is_open = parts.scheme == "http" and not is_loopback_host(parts.hostname)
    return parts.hostname if is_open else "", parts.path, None


def _error(message: str, hint: str) -> FieldError:
    return FieldError(message, hint, rule=Rule.WEBHOOK_URL)
