"""The retention limits of a journal, written into its directory for `audit status`."""

from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from reactive_desched.journal import atomic_files
from reactive_desched.primitives.decode_errors import DECODE_ERRORS
from reactive_desched.primitives.shortage import lacking

_FILE: Final = "retention.json"


class RetentionLimits(Struct, frozen=True, rename="camel"):
    """The limits that the controller last kept to; ages in seconds."""

    max_bytes: int
    max_age_s: float
    hard_max_bytes: int
    compress: bool


_decoder: Final = msgspec.json.Decoder(RetentionLimits)


def write(directory: Path, limits: RetentionLimits) -> None:
    """Say which limits are kept from now on; blocks, and raises OSError."""
    atomic_files.replace(directory / _FILE, msgspec.json.encode(limits))


def read(directory: Path) -> RetentionLimits | None:
    """Return the limits; None when there is no such file, or it cannot be read. Blocks.

    Raises OSError where this process lacks what it takes to read it.
    """
    try:
        return _decoder.decode((directory / _FILE).read_bytes())
    except (OSError, *DECODE_ERRORS) as error:
        if lacking(error):
            raise
        return None
