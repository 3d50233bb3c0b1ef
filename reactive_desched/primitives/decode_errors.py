"""The exceptions of decoding foreign JSON, in one place: one that is missed is a crash."""

from typing import Final

import msgspec

DECODE_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""No JSON or not of the asked shape, no UTF-8, or nested too deeply to be read."""
