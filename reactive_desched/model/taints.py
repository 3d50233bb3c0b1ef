"""Taints and tolerations, as kube-scheduler's TaintToleration filter reads them."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

NO_SCHEDULE: Final = "NoSchedule"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
NO_EXECUTE: Final = "NoExecute"
HARD_EFFECTS: Final = frozenset({NO_SCHEDULE, NO_EXECUTE})

_CANONICAL_INT: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")
_INT64_LIMIT: Final = 2**63


class Taint(Struct, frozen=True, gc=False):
    """A node's mark that repels pods; unique on a node by (key, effect)."""

    key: str
    effect: str
    value: str = ""

    def __str__(self) -> str:
        value = f"={self.value}" if self.value else ""
        return f"{self.key}{value}:{self.effect}"


class Toleration(Struct, frozen=True, gc=False, rename="camel"):
    """A pod's toleration of a taint; an empty effect or key matches any."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None

    def tolerates(self, taint: Taint) -> bool:
        """Say whether this toleration matches the taint (api/core/v1 ToleratesTaint)."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        match self.operator:
            case "" | "Equal":
                return self.value == taint.value
            case "Exists":
                return True
            case "Gt" | "Lt":
                return self._compare_int64(taint.value)
            case _:
                return False

    def _compare_int64(self, taint_value: str) -> bool:
        """Compare canonical decimal int64 numbers; anything else is not tolerated."""
        taint, own = _canonical_int64(taint_value), _canonical_int64(self.value)
        if taint is None or own is None:
            return False
        return taint > own if self.operator == "Gt" else taint < own


def _canonical_int64(text: str) -> int | None:
    if not _CANONICAL_INT.fullmatch(text):
        return None
    number = int(text)
    return number if -_INT64_LIMIT <= number < _INT64_LIMIT else None


Tolerations = tuple[Toleration, ...]


def untolerated(tolerations: Tolerations, taints: Iterable[Taint]) -> Iterator[Taint]:
    """Yield the taints that no toleration matches, in the node's order."""
    for taint in taints:
        for toleration in tolerations:
            if toleration.tolerates(taint):
                break
        else:
            yield taint


def count_untolerated(tolerations: Tolerations, taints: Iterable[Taint]) -> int:
    """Count the taints that no toleration matches."""
    return sum(1 for _ in untolerated(tolerations, taints))


def soft_taints(taints: Iterable[Taint]) -> tuple[Taint, ...]:
    """Return the PreferNoSchedule taints: the kube-scheduler only prefers nodes without them."""
    return tuple(taint for taint in taints if taint.effect == PREFER_NO_SCHEDULE)
