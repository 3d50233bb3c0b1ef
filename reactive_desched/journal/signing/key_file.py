"""The files that hold the key of checkpoints: read, or made once, and never half written."""

import binascii
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from reactive_desched.errors import ConfigError, JournalError
from reactive_desched.journal import atomic_files
from reactive_desched.journal.paths import os_error_hint
from reactive_desched.journal.signing.signed_note import parse_key

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

MAX_FILE_BYTES: Final = 1 << 16
"""A longer file holds no key."""
MAX_PUBLIC_KEYS: Final = 100
"""So many public keys are kept beside a journal; beyond, the oldest is forgotten."""

_PKCS8_ED25519: Final = bytes.fromhex("302e020100300506032b657004220420")
"""What stands before the 32 bytes of an Ed25519 key (RFC 8410, one key without attributes)."""
_PLAIN_KEY: Final = re.compile(
    rb"-----BEGIN PRIVATE KEY-----\n([A-Za-z0-9+/]{64})\n-----END PRIVATE KEY-----\n"
)
"""48 bytes in base64: so long is the text of such a key, and no other has its first 16."""


def load(path: Path) -> "Ed25519PrivateKey":
    """Read a key that a person gave; raises ConfigError naming the file and the remedy."""
    try:
        return _parse(_read_limited(path))
    except OSError as error:
        what_to_do = os_error_hint(
            error, "name a file that this process can read, or leave keyFile empty"
        )
        text = f"{path}: cannot read the key: {error.strerror}; {what_to_do}"
        raise ConfigError(text) from error
    except ValueError as error:
        what_to_do = "make one with: openssl genpkey -algorithm ed25519"
        raise ConfigError(f"{path}: {error}; {what_to_do}") from error


def load_or_create(path: Path) -> "Ed25519PrivateKey":
    """Read the key that we keep ourselves, or make it; raises JournalError."""
    try:
        _create_once(path)
        return _parse(_read_limited(path))
    except OSError as error:
        what_to_do = os_error_hint(error, "let this process write to its folder, or set keyFile")
        text = f"{path}: cannot keep a key here: {error.strerror}; {what_to_do}"
        raise JournalError(text) from error
    except ValueError as error:
        what_to_do = (
            "put back the right file, or move it away to have a new key made: "
            "what the old one signed is then checked with the old public key (--key)"
        )
        raise JournalError(f"{path}: {error}; {what_to_do}") from error


def publish(path: Path, key: str) -> bool:
    """Put the public key first in the file, before those that were there.

    What is no key is dropped. Returns whether there were keys, and not this one under any name;
    raises JournalError.
    """
    try:
        existing = _lines(path)
        existing_keys = [one for one in existing if _public_bytes(one)]
        new_lines = [key, *(one for one in existing_keys if one != key)][:MAX_PUBLIC_KEYS]
        if new_lines != existing:
            atomic_files.replace(path, "".join(f"{one}\n" for one in new_lines).encode())
        return bool(existing_keys) and _public_bytes(key) not in map(_public_bytes, existing_keys)
    except OSError as error:
        what_to_do = os_error_hint(error, "let this process write to its folder")
        text = f"{path}: cannot keep the public key here: {error.strerror}; {what_to_do}"
        raise JournalError(text) from error


def _public_bytes(text: str) -> bytes:
    """Return the key of a line; nothing when it is none."""
    try:
        return parse_key(text).public
    except ConfigError:
        return b""


def _lines(path: Path) -> list[str]:
    try:
        return _read_limited(path).decode(errors="replace").split()
    except FileNotFoundError:
        return []


def _read_limited(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_FILE_BYTES)


def _parse(raw: bytes) -> "Ed25519PrivateKey":
    """Return the key of a PEM text; raises ValueError with what is wrong, never with the text."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    if secret := _plain_secret(raw):
        return Ed25519PrivateKey.from_private_bytes(secret)
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(raw, password=None)
    except TypeError:
        raise ValueError("the key is encrypted, and there is no password for it") from None
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError("this is not a private key in PEM (PKCS #8)") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError("this is a key of another kind; checkpoints are signed with Ed25519")  # noqa: TRY004 -- the file is wrong, not our caller
    return key


def _plain_secret(raw: bytes) -> bytes:
    """Return the secret of a key as we and `openssl genpkey` write it; nothing for other texts.

    It saves importing the parser of every other form, which takes 7 ms of each start.
    """
    if (found := _PLAIN_KEY.fullmatch(raw)) is None:
        return b""
    body = binascii.a2b_base64(found[1])
    return body.removeprefix(_PKCS8_ED25519) if body.startswith(_PKCS8_ED25519) else b""


def _create_once(path: Path) -> None:
    """Make the key unless it is there; of two processes that try, one key stays."""
    if path.exists():
        _remove_drafts(path)
        return
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    raw = Ed25519PrivateKey.generate().private_bytes(
        form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()
    )
    draft = path.with_name(f"{path.name}.{os.getpid()}{atomic_files.TEMP_SUFFIX}")
    try:
        _write(draft, raw)
        with suppress(FileExistsError, FileNotFoundError):  # else another key is there by now
            path.hardlink_to(draft)
    finally:
        draft.unlink(missing_ok=True)
    atomic_files.sync_directory(path.parent)


def _remove_drafts(path: Path) -> None:
    """Remove drafts that a crash left beside the key: one may be a hard link to it."""
    for draft in path.parent.glob(f"{path.name}.*{atomic_files.TEMP_SUFFIX}"):
        draft.unlink(missing_ok=True)


def _write(path: Path, raw: bytes) -> None:
    """Write a file that only its owner reads, durably."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())
