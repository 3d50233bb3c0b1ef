"""What is about to be done, complete enough to be written down before it happens."""

from msgspec import Struct

from reactive_desched.model.objects import Pod


class Intent(Struct, frozen=True, gc=False):
    """One eviction that every gate agreed to, and what led to it."""

    pod: Pod
    plugin: str
    reason: str
    profile: str = ""
    trigger: str = ""
    dry_run: bool = False
    grace_period_s: int | None = None
