"""The gate's verdict on a finding: evict, look again later, or refuse; always naming the gate."""

from msgspec import Struct

from reactive_desched.model.findings import Finding

WakeKey = tuple[str, ...]
"""What a blocked finding waits for, for example ("pod", uid) or ("room",)."""


class CapacityHint(Struct, frozen=True, gc=False):
    """News that those who wait for `wake` may fit somewhere now.

    So many of them at most (None: all), and none that sits on the node `beside`.
    """

    wake: WakeKey
    slots: int | None = None
    exclude_node: str = ""


class Evict(Struct, frozen=True, gc=False):
    """Every gate agreed; the tokens it cost are taken."""

    finding: Finding


class Defer(Struct, frozen=True, gc=False):
    """Not now: `gate` says why, and the earliest moment (monotonic seconds) to look afresh."""

    finding: Finding
    gate: str
    message: str
    retry_at_s: float


class Refuse(Struct, frozen=True, gc=False):
    """Not as things are: `wakes` names what could change the answer.

    A refusal that time alone can lift also has `until` (monotonic seconds). `detail` has numbers
    that differ from one look to the next although the reason stays the same.
    """

    finding: Finding
    gate: str
    message: str
    wake_on: tuple[WakeKey, ...] = ()
    retry_at_s: float | None = None
    detail: str = ""


Decision = Evict | Defer | Refuse
