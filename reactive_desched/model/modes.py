"""Defines what is done with the findings of a plugin: they are shown, or carried out."""

from typing import Final, Literal

__all__ = ["ACT", "OBSERVE", "PROPOSE", "Mode"]

Mode = Literal["observe", "propose", "act"]

OBSERVE: Final = "observe"
"""Everything is decided, and no request is sent: as a dry run of this plugin alone."""

PROPOSE: Final = "propose"
"""What is decided is carried out once a person has approved it."""

ACT: Final = "act"
"""What is decided is carried out."""
