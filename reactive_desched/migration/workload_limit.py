"""How many pods of one workload may move, or be unavailable, at a time: koordinator's formula."""

from typing import Final

from reactive_desched.migration.settings import WorkloadLimit

_LARGE: Final = 10
_SMALL: Final = 4


def workload_limit(replicas: int, written: WorkloadLimit) -> int:
    """Return the limit for so many replicas, never above them.

    A share is rounded down, and a limit that comes to 0 means 1. Unset, it is 1 below 4 replicas, 2
    up to 10, and a tenth above. A negative number stays negative: it allows nothing.
    Raises ValueError for a text that is no whole percentage.
    """
    if written is None:
        return min(replicas, _unset_limit(replicas))
    limit = written if isinstance(written, int) else _percentage(written) * replicas // 100
    return min(replicas, limit or 1)


def _unset_limit(replicas: int) -> int:
    if replicas > _LARGE:
        return replicas // 10
    return 2 if replicas >= _SMALL else 1


def _percentage(written: str) -> int:
    digits = written.removesuffix("%")
    if digits == written or not (digits.isascii() and digits.removeprefix("-").isdecimal()):
        raise ValueError(f'"{written}" is no limit: write a whole number, or a share such as 25%')
    return int(digits)
