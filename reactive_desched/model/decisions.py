"""The gate's verdict on a finding: evict, look again later, or refuse; always naming the gate."""

from msgspec import Struct

from reactive_desched.model.findings import Finding

WakeKey = tuple[str, ...]
"""What a blocked finding waits for, for example ("pod", uid) or ("room",)."""


class Evict(Struct, frozen=True, gc=False):
    """Every gate agreed; the tokens it cost are taken."""

    finding: Finding


class Defer(Struct, frozen=True, gc=False):
    """Not now: `gate` says why, and the earliest moment (monotonic seconds) to look afresh."""

    finding: Finding
    gate: str
    reason: str
    until: float


class Refuse(Struct, frozen=True, gc=False):
    """Not as things are: `wakes` names what could change the answer.

    A refusal that only time can lift also has `until` (monotonic seconds).
    """

    finding: Finding
    gate: str
    reason: str
    wakes: tuple[WakeKey, ...] = ()
    until: float | None = None


Decision = Evict | Defer | Refuse
