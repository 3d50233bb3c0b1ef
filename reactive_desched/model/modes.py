"""Defines what is done with the findings of a plugin: they are shown, or carried out."""

from typing import Final, Literal

__all__ = ["ACT", "OBSERVE", "Mode"]

Mode = Literal["observe", "act"]

OBSERVE: Final = "observe"
"""Everything is decided, and no request is sent: as a dry run of this plugin alone."""

ACT: Final = "act"
"""What is decided is carried out."""
