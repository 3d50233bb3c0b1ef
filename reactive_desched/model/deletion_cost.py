"""Reads `controller.kubernetes.io/pod-deletion-cost`: which pods a controller deletes first."""

from typing import Final

_FIRST_DIGITS: Final = frozenset("123456789-")
_INT32: Final = range(-(2**31), 2**31)
_MOST_DIGITS: Final = 10


def read_deletion_cost(written: str | None) -> int | None:
    """Return the cost that an annotation gives; None where it gives none that Kubernetes reads.

    Read as by the API server, which refuses any other, and by the ReplicaSet controller, for which
    such a pod has the cost 0 (`GetDeletionCostFromPodAnnotations` of 1.36): 32 bits, no plus sign,
    and no leading zero unless a minus sign is before it.
    """
    if written is None or not (written == "0" or written[:1] in _FIRST_DIGITS):
        return None
    digits = written.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()):
        return None
    digits = digits.lstrip("0") or "0"
    if len(digits) > _MOST_DIGITS:  # int() refuses thousands of them
        return None
    cost = -int(digits) if written.startswith("-") else int(digits)
    return cost if cost in _INT32 else None
