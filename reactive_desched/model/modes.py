"""Defines what is done with the findings of a plugin, and says what the controller does by that."""

from typing import Final, Literal

__all__ = ["ACT", "MODE_TEXTS", "OBSERVE", "PROPOSE", "Mode", "mode_text", "process_mode"]

Mode = Literal["observe", "propose", "act"]

OBSERVE: Final = "observe"
"""Everything is decided, and no request is sent: as a dry run of this plugin alone."""

PROPOSE: Final = "propose"
"""What is decided is carried out once a person has approved it."""

ACT: Final = "act"
"""What is decided is carried out."""


MODE_TEXTS: Final = {
    "dry run": "dry run: sends no eviction request",
    "no plugin acts": "live: evicts no pod by itself: each plugin observes or proposes",
    "live": "live: evicts pods",
}
"""What the log, /readyz and the command status say of what a process does, by `process_mode`."""


def process_mode(*, is_dry_run: bool, no_plugin_acts: bool) -> str:
    """Name what a process does; `no_plugin_acts` is whether no plugin acts by itself."""
    if is_dry_run:
        return "dry run"
    return "no plugin acts" if no_plugin_acts else "live"


def mode_text(*, is_dry_run: bool, no_plugin_acts: bool, is_standby: bool) -> str:
    """Say what a process does, or will do once it leads."""
    mode = process_mode(is_dry_run=is_dry_run, no_plugin_acts=no_plugin_acts)
    waits = is_standby and mode == "live"
    return f"{MODE_TEXTS[mode]}{' once it leads' if waits else ''}"
