"""Signs requests to a webhook (Standard Webhooks 1.0), or adds a token.

Secrets are read from their files for each request and kept nowhere: a new one counts at once, and
nothing that is logged or shown can hold one.
"""

import binascii
import hmac
from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from reactive_desched.errors import SinkUnavailable

MAX_SECRET_BYTES = 16 * 1024
"""A file that is longer holds no secret."""

_BASE64_PREFIX = b"whsec_"


class WebhookSigner(Struct, frozen=True):
    """The files that hold our secrets; empty: no such proof is given."""

    secret_file: str
    token_file: str

    def headers(self, id_: str, sent_at: int, body: bytes) -> Mapping[str, str]:
        """Return what proves this request; blocks, raises SinkUnavailable naming the file."""
        found = {"webhook-id": id_, "webhook-timestamp": str(sent_at)}
        if self.secret_file:
            signed = f"{id_}.{sent_at}.".encode() + body
            keys = _keys(self.secret_file)
            found["webhook-signature"] = " ".join(signature(key, signed) for key in keys)
        if self.token_file:
            found["authorization"] = f"Bearer {_token(self.token_file)}"
        return found


def signature(key: bytes, content: bytes) -> str:
    """Return one signature as the header has it."""
    return "v1," + b64encode(hmac.digest(key, content, "sha256")).decode()


def _keys(path: str) -> list[bytes]:
    """Return the secret, or the two that count while they are exchanged."""
    lines = _lines("secretFile", path)
    if len(lines) > 2:  # noqa: PLR2004 -- the old one and the new one
        raise SinkUnavailable(
            f"secretFile {path} has {len(lines)} lines: write one secret, or two while they are"
            " exchanged, each on a line of its own"
        )
    return [_key(path, line) for line in lines]


def _key(path: str, line: bytes) -> bytes:
    if not line.startswith(_BASE64_PREFIX):
        return line
    encoded = line.removeprefix(_BASE64_PREFIX).rstrip(b"=")
    try:
        key = b64decode(encoded + b"=" * (-len(encoded) % 4), validate=True)
    except binascii.Error:
        key = b""
    if not key:
        raise SinkUnavailable(f"secretFile {path}: what follows whsec_ must be base64")
    return key


def _token(path: str) -> str:
    lines = _lines("tokenFile", path)
    if len(lines) > 1:
        raise SinkUnavailable(f"tokenFile {path} has {len(lines)} lines: write the token alone")
    token = lines[0].decode(errors="replace")
    if not (token.isascii() and token.isprintable()):
        raise SinkUnavailable(f"tokenFile {path} holds signs that no header takes")
    return token


def _lines(field: str, path: str) -> list[bytes]:
    """Return the lines that are not blank, at least one, without the space around them."""
    lines = [line.strip() for line in read_secret_file(field, path).splitlines()]
    if not any(lines):
        raise SinkUnavailable(f"{field} {path} is empty: write the secret into it")
    return [line for line in lines if line]


def read_secret_file(field: str, path: str) -> bytes:
    """Return what a file with secrets holds; blocks, raises SinkUnavailable naming its field."""
    try:
        with Path(path).open("rb") as file:
            raw = file.read(MAX_SECRET_BYTES + 1)
    except OSError as error:
        raise SinkUnavailable(f"{field} {path} cannot be read: {error.strerror}") from error
    if len(raw) > MAX_SECRET_BYTES:
        raise SinkUnavailable(
            f"{field} {path} is longer than {MAX_SECRET_BYTES} bytes: is it the one?"
        )
    return raw
