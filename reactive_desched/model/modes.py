"""Defines what is done with the findings of a plugin, and says what the controller does by that."""

from typing import Final, Literal

__all__ = ["ACT", "OBSERVE", "PROPOSE", "Mode", "controller_mode_text"]

Mode = Literal["observe", "propose", "act"]

OBSERVE: Final = "observe"
"""Everything is decided, and no request is sent: as a dry run of this plugin alone."""

PROPOSE: Final = "propose"
"""What is decided is carried out once a person has approved it."""

ACT: Final = "act"
"""What is decided is carried out."""


def controller_mode_text(*, is_dry_run: bool, no_plugin_acts: bool, is_standby: bool) -> str:
    """Say whether the controller evicts pods: /readyz, `status` and the log say it alike.

    `no_plugin_acts` is whether the settings let no plugin act by itself.
    """
    if is_dry_run:
        return "dry run: sends no eviction request"
    if no_plugin_acts:
        return "live: evicts no pod by itself: each plugin observes or proposes"
    return f"live: evicts pods{' once it leads' if is_standby else ''}"
