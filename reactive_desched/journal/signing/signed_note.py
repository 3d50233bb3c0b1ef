"""Signed notes: the text form in which a checkpoint travels, so that any C2SP tool can check it.

As c2sp.org/signed-note and c2sp.org/tlog-checkpoint say, with one thing to know: the root is the
head of our hash chain (SHA-256 of the last record), not the root of a Merkle tree. It proves that
nothing before it was changed to whoever has the records; it gives no proof about single ones.
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
_MARK: Final = "— "
_LINES: Final = 3
_SIZE: Final = re.compile(r"0|[1-9][0-9]{0,19}")
_KEY_ID: Final = re.compile(r"[0-9a-f]{8}")


class Key(NamedTuple):
    """A public key and the name it signs under; notes name it by both, the key as a short hash."""

    name: str
    public: bytes

    @property
    def id(self) -> bytes:
        """The hash that stands before each of its signatures."""
        named = self.name.encode() + b"\n" + _ED25519 + self.public
        return hashlib.sha256(named).digest()[:_ID_BYTES]

    @property
    def text(self) -> str:
        """The key as people hand it on: NAME+HASH+BASE64."""
        return f"{self.short}+{_base64(_ED25519 + self.public)}"

    @property
    def short(self) -> str:
        """The key's name and hash, which identify it."""
        return f"{self.name}+{self.id.hex()}"


class Signature(NamedTuple):
    """One signature line."""

    name: str
    id: bytes
    value: bytes

    @property
    def key(self) -> str:
        """What identifies the key: its name and hash."""
        return f"{self.name}+{self.id.hex()}"


class Note(NamedTuple):
    """A checkpoint that was read, not yet trusted: `root` is hexadecimal, `text` what is signed."""

    text: str
    origin: str
    size: int
    root: str
    signatures: tuple[Signature, ...]


class Seal(StrEnum):
    """What a key says of a note."""

    SOUND = "signed by this key"
    OTHER_KEY = "signed by another key"
    FORGED = "the signature is not right"


def is_name(name: str) -> bool:
    """Say whether this can name a key: no spaces, no plus, nothing that cannot be printed."""
    return bool(name) and name.isprintable() and not any(c.isspace() or c == "+" for c in name)


def parse_key(text: str) -> Key:
    """Read a public key as `Key.text` writes it; raises ConfigError."""
    name, _, rest = text.strip().partition("+")
    id_, _, encoded = rest.partition("+")
    raw = _bytes(encoded)
    if not is_name(name) or raw is None or raw[:1] != _ED25519 or len(raw) != 1 + _KEY_BYTES:
        raise ConfigError(f"{text.strip()[:100]!r} is no Ed25519 key: write NAME+HASH+BASE64")
    key = Key(name, raw[1:])
    if not _KEY_ID.fullmatch(id_) or key.id.hex() != id_:
        raise ConfigError(f"the key {key.name}+{id_[:20]} does not fit its own hash: copy it again")
    return key


def checkpoint_text(origin: str, size: int, root: str) -> str:
    """Return what is signed: whose record, how many records, and the hash of the last."""
    return f"{origin}\n{size}\n{_base64(bytes.fromhex(root))}\n"


def signed(text: str, key: Key, signature: bytes) -> str:
    """Return the whole note."""
    return f"{text}\n{_MARK}{key.name} {_base64(key.id + signature)}\n"


def parse_note(note: str) -> Note:
    """Read a note; raises JournalError saying what about its form is wrong."""
    if len(note) > MAX_NOTE_CHARACTERS or not _is_plain(note):
        raise _malformed("it is too long, or holds control characters")
    text, gap, tail = note.rpartition("\n\n")
    if not gap or not tail.endswith("\n"):
        raise _malformed("an empty line and signature lines with their ends must follow the text")
    found = tail[:-1].split("\n")
    if len(found) > MAX_SIGNATURES:
        raise _malformed(f"it has more than {MAX_SIGNATURES} signatures")
    return _checkpoint(text + "\n", tuple(map(_signature, found)))


def verify_note(note: Note, key: Key) -> Seal:
    """Say whether this key signed the note; signatures of other keys are not looked at."""
    ours = [one for one in note.signatures if (one.name, one.id) == (key.name, key.id)]
    if not ours:
        return Seal.OTHER_KEY
    return Seal.SOUND if all(_is_right(note, key, one) for one in ours) else Seal.FORGED


def _is_right(note: Note, key: Key, signature: Signature) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(key.public).verify(signature.value, note.text.encode())
    except (InvalidSignature, ValueError):
        return False
    return True


def _is_plain(text: str) -> bool:
    """Say whether this is Unicode without control characters other than ends of lines."""
    surrogate = any("\ud800" <= c <= "\udfff" for c in text)
    return not surrogate and not any(c < " " and c != "\n" for c in text)


def _checkpoint(text: str, signatures: tuple[Signature, ...]) -> Note:
    lines = text[:-1].split("\n")
    if len(lines) < _LINES or "" in lines or not _SIZE.fullmatch(lines[1]):
        raise _malformed("its text must be an origin, a size and a root, each on a line")
    origin, size, root = lines[:_LINES]  # further lines are extensions: signed, not for us
    raw = _bytes(root)
    if raw is None or len(raw) != _ROOT_BYTES:
        raise _malformed("its root is not the base64 of 32 bytes")
    return Note(text, origin, int(size), raw.hex(), signatures)


def _signature(line: str) -> Signature:
    name, _, encoded = line.removeprefix(_MARK).partition(" ")
    raw = _bytes(encoded)
    if not line.startswith(_MARK) or not is_name(name) or raw is None or len(raw) <= _ID_BYTES:
        raise _malformed("a signature line must be a dash, a key's name and base64")
    return Signature(name, raw[:_ID_BYTES], raw[_ID_BYTES:])


def _malformed(reason: str) -> JournalError:
    return JournalError(f"this is no checkpoint's note: {reason}")


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _bytes(text: str) -> bytes | None:
    """Decode base64 in its one canonical form; None when it is not."""
    try:
        raw = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        return None
    return raw if _base64(raw) == text else None
