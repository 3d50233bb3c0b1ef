"""Conditions of nodes other than Ready, and for how long one stands though it lapses now and then.

The kubelet, the node-problem-detector, agents of devices and of storage report them. They renew
what they report every so often; only another status is a change here.
"""

from collections.abc import Sequence
from typing import Final

READY: Final = "Ready"
"""Whether a node is Ready is kept apart: pods of nodes that are not are never judged."""

MAX_CONDITIONS: Final = 64
"""So many conditions of a node are kept, the first by their types."""

MAX_STATUS_CHANGES: Final = 16
"""So many status changes of a condition are remembered; what was before counts as another."""

Condition = tuple[str, str]
"""The type of a condition, and its status."""

StatusChange = tuple[float, str]
"""When a condition got a status, in monotonic seconds, and the status."""


def stood_s(
    changes: Sequence[StatusChange], status: str, lapse_s: float, now: float
) -> float | None:
    """Return for how long a condition has had a status; None where it has another now.

    `changes` are in order. Times with another status of `lapse_s` at most, from its end to its
    begin, do not interrupt it, and do not count: a condition that is hardly ever there does not
    stand.
    """
    if not changes or changes[-1][1] != status:
        return None
    stood, ends, lapse_ends = 0.0, now, now
    for begins, had in reversed(changes):
        if had == status:
            stood += ends - begins
            lapse_ends = begins
        elif lapse_ends - begins > lapse_s:
            break
        ends = begins
    return stood


def with_change(
    changes: tuple[StatusChange, ...], at: float, status: str
) -> tuple[StatusChange, ...]:
    """Add a status change, and forget the oldest beyond the bound."""
    return (*changes, (at, status))[-MAX_STATUS_CHANGES:]
