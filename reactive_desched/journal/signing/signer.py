"""Signs the journal's checkpoints, and reads or makes the key.

What is signed is the head of the hash chain: see `signed_note`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from reactive_desched.errors import ConfigError
from reactive_desched.journal.signing import key_file as files
from reactive_desched.journal.signing.signed_note import (
    PublicKey,
    checkpoint_text,
    format_note,
    is_key_name,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KEY_FILE: Final = "checkpoint.key"
"""The private key that is made in a journal's folder when none is given."""
PUBLIC_FILE: Final = "checkpoint.pub"
"""The public key beside the journal; after a change of keys the earlier ones on further lines."""


class Ed25519Signer:
    """Signs checkpoints of one journal, whose origin is the name of its key too.

    `replaces_key` says that another key signed here before.
    """

    def __init__(self, private: "Ed25519PrivateKey", origin: str) -> None:
        if not is_key_name(origin):
            raise ConfigError(f"{origin!r} cannot name a journal: it holds a space or a plus")
        self._private = private
        self._key = PublicKey(origin, private.public_key().public_bytes_raw())
        self.origin: Final = origin
        self.public_key: Final = self._key.encoded
        self.replaces_key = False

    def publish_key(self, directory: Path) -> None:
        """Put the public key beside the journal, and note whether it replaces another."""
        self.replaces_key = files.publish(directory / PUBLIC_FILE, self.public_key)

    def sign(self, size: int, root: str) -> str:
        """Return the signed note: so many records, the last of which has this SHA-256 in hex."""
        text = checkpoint_text(self.origin, size, root)
        return format_note(text, self._key, self._private.sign(text.encode()))


def open_signer(directory: Path, key_file: str, origin: str) -> Ed25519Signer:
    """Return the signer of the journal in a folder, and put its public key beside the journal.

    Without `key_file` the key is one made in the folder at the first call. Raises ConfigError
    for a key file that is not usable, JournalError for one of ours, or a folder that is not.
    """
    private = files.load(Path(key_file)) if key_file else files.load_or_create(directory / KEY_FILE)
    signer = Ed25519Signer(private, origin)
    signer.publish_key(directory)
    return signer
