"""Signed notes: the text form in which a checkpoint travels, so that any C2SP tool can check it.

As c2sp.org/signed-note and c2sp.org/tlog-checkpoint say, with one difference: the root is the
head of our hash chain (SHA-256 of the last record), not the root of a Merkle tree. It proves that
nothing before it was changed to a holder of the records; it gives no proof about single ones.
"""

import base64
import binascii
import hashlib
import re
from enum import StrEnum
from typing import Final, NamedTuple

from reactive_desched.errors import ConfigError, JournalError

MAX_NOTE_CHARACTERS: Final = 1 << 16
"""A longer text is no note."""
MAX_SIGNATURES: Final = 100
"""A note with more signature lines is refused."""

_ED25519: Final = b"\x01"
_ID_BYTES: Final = 4
_KEY_BYTES: Final = 32
_ROOT_BYTES: Final = 32
_SIGNATURE_PREFIX: Final = "— "
_TEXT_LINES: Final = 3
_SIZE_PATTERN: Final = re.compile(r"0|[1-9][0-9]{0,19}")
_KEY_ID_PATTERN: Final = re.compile(r"[0-9a-f]{8}")


class PublicKey(NamedTuple):
    """A public key and the name it signs under; notes name it by both, the key as a short hash."""

    name: str
    public: bytes

    @property
    def id(self) -> bytes:
        """The key hash in front of each of its signatures."""
        named = self.name.encode() + b"\n" + _ED25519 + self.public
        return hashlib.sha256(named).digest()[:_ID_BYTES]

    @property
    def encoded(self) -> str:
        """The key as people hand it on: NAME+HASH+BASE64."""
        return f"{self.identity}+{_encode_base64(_ED25519 + self.public)}"

    @property
    def identity(self) -> str:
        """The key's name and hash, which identify it."""
        return f"{self.name}+{self.id.hex()}"


class Signature(NamedTuple):
    """One signature line."""

    name: str
    id: bytes
    value: bytes

    @property
    def key_identity(self) -> str:
        """Return what identifies the key: its name and hash."""
        return f"{self.name}+{self.id.hex()}"


class SignedNote(NamedTuple):
    """A checkpoint that was read, not yet trusted: `root` is hexadecimal, `text` what is signed."""

    text: str
    origin: str
    size: int
    root: str
    signatures: tuple[Signature, ...]


class SignatureStatus(StrEnum):
    """The result of checking a note's signature by a key."""

    VALID = "signed by this key"
    OTHER_KEY = "signed by another key"
    INVALID = "the signature is not right"


def is_key_name(name: str) -> bool:
    """Say whether this can name a key: no spaces, no plus, nothing that cannot be printed."""
    return bool(name) and name.isprintable() and not any(c.isspace() or c == "+" for c in name)


def parse_key(text: str) -> PublicKey:
    """Read a public key as `Key.text` writes it; raises ConfigError."""
    name, _, rest = text.strip().partition("+")
    id_, _, encoded = rest.partition("+")
    raw = _decode_base64(encoded)
    if not is_key_name(name) or raw is None or raw[:1] != _ED25519 or len(raw) != 1 + _KEY_BYTES:
        raise ConfigError(f"{text.strip()[:100]!r} is not an Ed25519 key: write NAME+HASH+BASE64")
    key = PublicKey(name, raw[1:])
    if not _KEY_ID_PATTERN.fullmatch(id_) or key.id.hex() != id_:
        raise ConfigError(f"the key {key.name}+{id_[:20]} does not fit its own hash: copy it again")
    return key


def checkpoint_text(origin: str, size: int, root: str) -> str:
    """Return what is signed: whose record, how many records, and the hash of the last."""
    return f"{origin}\n{size}\n{_encode_base64(bytes.fromhex(root))}\n"


def format_note(text: str, key: PublicKey, signature: bytes) -> str:
    """Return the whole note."""
    return f"{text}\n{_SIGNATURE_PREFIX}{key.name} {_encode_base64(key.id + signature)}\n"


def parse_note(note: str) -> SignedNote:
    """Read a note; raises JournalError saying what about its form is wrong."""
    if len(note) > MAX_NOTE_CHARACTERS or not _has_no_control_characters(note):
        raise _malformed_note("it is too long, or holds control characters")
    text, gap, tail = note.rpartition("\n\n")
    if not gap or not tail.endswith("\n"):
        raise _malformed_note(
            "an empty line and signature lines with their ends must follow the text"
        )
    found = tail[:-1].split("\n")
    if len(found) > MAX_SIGNATURES:
        raise _malformed_note(f"it has more than {MAX_SIGNATURES} signatures")
    return _parse_checkpoint_text(text + "\n", tuple(map(_parse_signature, found)))


def verify_note(note: SignedNote, key: PublicKey) -> SignatureStatus:
    """Say whether this key signed the note; signatures of other keys are not looked at."""
    matching = [one for one in note.signatures if (one.name, one.id) == (key.name, key.id)]
    if not matching:
        return SignatureStatus.OTHER_KEY
    return (
        SignatureStatus.VALID
        if all(_is_valid_signature(note, key, one) for one in matching)
        else SignatureStatus.INVALID
    )


def _is_valid_signature(note: SignedNote, key: PublicKey, signature: Signature) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(key.public).verify(signature.value, note.text.encode())
    except (InvalidSignature, ValueError):
        return False
    return True


def _has_no_control_characters(text: str) -> bool:
    """Say whether this is Unicode without control characters other than ends of lines."""
    surrogate = any("\ud800" <= c <= "\udfff" for c in text)
    return not surrogate and not any(c < " " and c != "\n" for c in text)


def _parse_checkpoint_text(text: str, signatures: tuple[Signature, ...]) -> SignedNote:
    lines = text[:-1].split("\n")
    if len(lines) < _TEXT_LINES or "" in lines or not _SIZE_PATTERN.fullmatch(lines[1]):
        raise _malformed_note("its text must be an origin, a size and a root, each on a line")
    origin, size, root = lines[:_TEXT_LINES]  # further lines are extensions: signed, not for us
    raw = _decode_base64(root)
    if raw is None or len(raw) != _ROOT_BYTES:
        raise _malformed_note("its root is not the base64 of 32 bytes")
    return SignedNote(text, origin, int(size), raw.hex(), signatures)


def _parse_signature(line: str) -> Signature:
    name, _, encoded = line.removeprefix(_SIGNATURE_PREFIX).partition(" ")
    raw = _decode_base64(encoded)
    if (
        not line.startswith(_SIGNATURE_PREFIX)
        or not is_key_name(name)
        or raw is None
        or len(raw) <= _ID_BYTES
    ):
        raise _malformed_note("a signature line must be a dash, a key's name and base64")
    return Signature(name, raw[:_ID_BYTES], raw[_ID_BYTES:])


def _malformed_note(reason: str) -> JournalError:
    return JournalError(f"this is not a checkpoint's note: {reason}")


def _encode_base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _decode_base64(text: str) -> bytes | None:
    """Decode base64 in its one canonical form; None when it is not."""
    try:
        raw = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        return None
    return raw if _encode_base64(raw) == text else None
