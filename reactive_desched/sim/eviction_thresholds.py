"""Reads from a node's annotations when its kubelet evicts, in the words of the kubelet's flags."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from reactive_desched.errors import QuantityError
from reactive_desched.model.resources import MEMORY, parse_amount
from reactive_desched.primitives.hints import quote
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.profiles import PREFIX, number
from reactive_desched.sim.usage import EPHEMERAL_STORAGE

__all__ = [
    "THRESHOLD_NOTES",
    "Threshold",
    "has_thresholds",
    "most_grace_s",
    "threshold_fault",
    "thresholds_of",
]

_HARD, _SOFT = "eviction-hard", "eviction-soft"
_GRACE, _MOST_GRACE = "eviction-soft-grace-period", "eviction-max-pod-grace-period"
THRESHOLD_NOTES: Final = (_HARD, _SOFT, _GRACE, _MOST_GRACE)
"""The annotations of nodes, behind the prefix."""
_SIGNALS: Final[Mapping[str, str]] = MappingProxyType(
    {"memory.available": MEMORY, "nodefs.available": EPHEMERAL_STORAGE}
)
_DEFAULT: Final = "memory.available<100Mi,nodefs.available<10%"
_UNITS: Final[Mapping[str, int]] = MappingProxyType({"s": 1, "m": 60, "h": 3600})
_WHOLE: Final = 100


class Threshold(Struct, frozen=True):
    """The least that has to be left of a resource: an amount, or a share of the capacity."""

    resource: str
    amount: int
    percent: float | None = None
    grace_s: float | None = None
    """How long it is met before a pod ends; None where one ends at once."""

    def least(self, capacity: int) -> int:
        """Return how many bytes have to be left."""
        return self.amount if self.percent is None else int(capacity * self.percent / _WHOLE)


def has_thresholds(node: Obj) -> bool:
    """Say whether the annotations of a node set any."""
    return any(f"{PREFIX}{name}" in _notes(node) for name in (_HARD, _SOFT))


def thresholds_of(node: Obj) -> Iterator[Threshold]:
    """Yield the hard thresholds, the kubelet's defaults where none are set, and the soft ones.

    A soft one without a grace period, and what cannot be read, count as absent.
    """
    hard = _note(node, _HARD)
    for resource, text in _pairs(_DEFAULT if hard is None else hard, "<"):
        if (found := _threshold(resource, text)) is not None:
            yield found
    graces = {name: _seconds(text) for name, text in _pairs(_note(node, _GRACE) or "", "=")}
    for name, text in _pairs(_note(node, _SOFT) or "", "<"):
        grace = graces.get(name)
        if grace is not None and (found := _threshold(name, text, grace)) is not None:
            yield found


def most_grace_s(node: Obj) -> float:
    """Return the longest grace that a pod gets that a soft threshold ends."""
    return number(_note(node, _MOST_GRACE) or "") or 0.0


def threshold_fault(name: str, text: str) -> str:
    """Return what is wrong with an annotation of a node; empty where it can be read."""
    if name == _MOST_GRACE:
        return "" if number(text) is not None else f"{quote(text)} is not a number of seconds"
    sign = "=" if name == _GRACE else "<"
    for part in text.split(","):
        signal, found, value = part.partition(sign)
        if not found or signal not in _SIGNALS:
            return f"{quote(part)} does not begin with {f'{sign} or '.join(_SIGNALS)}{sign}"
        read = _seconds(value) if name == _GRACE else _threshold(signal, value)
        if read is None:
            what = "1m30s" if name == _GRACE else "1Gi or 10%"
            return f"{quote(value)} is not like {what}"
    return ""


def _notes(node: Obj) -> Mapping[str, str]:
    return node["metadata"].get("annotations") or {}


def _note(node: Obj, name: str) -> str | None:
    return _notes(node).get(f"{PREFIX}{name}")


def _pairs(text: str, sign: str) -> Iterator[tuple[str, str]]:
    for part in text.split(","):
        name, found, value = part.partition(sign)
        if found:
            yield name, value


def _threshold(signal: str, text: str, grace_s: float | None = None) -> Threshold | None:
    resource = _SIGNALS.get(signal)
    if resource is None:
        return None
    if text.endswith("%"):
        percent = number(text.removesuffix("%"))
        return None if percent is None else Threshold(resource, 0, percent, grace_s)
    try:
        return Threshold(resource, parse_amount(resource, text), None, grace_s)
    except QuantityError:
        return None


def _seconds(text: str) -> float | None:
    """Read a duration such as 1m30s."""
    total, digits = 0.0, ""
    for letter in text:
        if letter in _UNITS and digits:
            total, digits = total + float(digits) * _UNITS[letter], ""
        elif letter.isdecimal() or letter == ".":
            digits += letter
        else:
            return None
    return None if digits or not text else total
