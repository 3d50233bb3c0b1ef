"""Bounds what the long parts of all pods take in memory together: each pod has limits of its own.

A pod within its limits may take half a megabyte, and how many there are no server bounds.
"""

from collections.abc import Iterator
from typing import Final

from reactive_desched.telemetry.metrics import Metric, counter, gauge

__all__ = ["COPIES", "LONG_BYTES", "SHORT_TEXT_BYTES", "LongTexts", "estimate_bytes", "no_room"]

LONG_BYTES: Final = 16_000
"""A part that takes less memory is usual, and not counted: some four kilobytes of JSON."""

SHORT_TEXT_BYTES: Final = 800
"""A text of labels or owners that has fewer is estimated as less, whatever stands in it."""

MOST_LONG_BYTES: Final = 64_000_000
"""So much memory the long parts take together, as estimated; those of one namespace half of it."""

COPIES: Final = 3
"""A text is kept as the key of what it says, in that, and as a part of longer ones."""

_LITTLE_ROOM: Final = 0.75

LONG_PARTS: Final = gauge(
    "long_pod_parts_bytes", "Memory of long parts of pods, such as labels, as estimated."
)
LONG_PARTS_REFUSED: Final = counter(
    "long_pod_parts_refused", "Long parts of pods that were not read, as others take all the room."
)
_BYTES_PER_ELEMENT: Final = 120


class LongTexts:
    """Counts the memory of the long parts of pods that are kept, one that many share once.

    A part belongs to the namespace of the pod that had it first. Beyond the bound, of all or of a
    namespace, `refuses` says so: the part is not read, and its pod is held. `release` is called
    for each part that no pod has any more.
    """

    def __init__(self, most: int = MOST_LONG_BYTES) -> None:
        self._most: Final = most
        self._held: dict[int, tuple[str, int]] = {}
        self._by_namespace: dict[str, int] = {}
        self.held_bytes = 0
        self.refused = 0

    def refuses(self, size: int, namespace: str) -> bool:
        """Say whether there is no room for a part of this size; that is counted."""
        of_namespace = self._by_namespace.get(namespace, 0)
        if self.held_bytes + size <= self._most and of_namespace + size <= self._most // 2:
            return False
        self.refused += 1
        return True

    def hold(self, part: object, size: int, namespace: str) -> None:
        """Count a part, which a table keeps until it releases it."""
        if id(part) in self._held:
            return
        self._held[id(part)] = namespace, size
        self.held_bytes += size
        self._by_namespace[namespace] = self._by_namespace.get(namespace, 0) + size

    def release(self, part: object) -> None:
        """Count a part no more, if it was counted: its table has dropped it."""
        namespace, size = self._held.pop(id(part), ("", 0))
        if not size:
            return
        self.held_bytes -= size
        self._by_namespace[namespace] -= size
        if not self._by_namespace[namespace]:
            del self._by_namespace[namespace]

    def message(self) -> str:
        """Say that pods were read without long parts, while there is little room for such."""
        full = [
            (size, f"namespace {name}")
            for name, size in self._by_namespace.items()
            if size > _LITTLE_ROOM * self._most / 2
        ]
        if self.held_bytes > _LITTLE_ROOM * self._most:
            full.append((self.held_bytes, "all namespaces"))
        if not self.refused or not full:
            return ""
        size, whose = max(full)
        return (
            f"pods that came with long parts stay where they are until they change: those of"
            f" {whose} take {size / 1e6:.0f} MB of memory, of which all may take"
            f" {self._most / 1e6:.0f} and one namespace half"
        )

    def collect(self) -> Iterator[Metric]:
        """Yield what the long parts take, and how often there was no room for one."""
        yield LONG_PARTS.value(self.held_bytes)
        yield LONG_PARTS_REFUSED.value(self.refused)


def no_room(part: str, size: int) -> str:
    """Say of a part of a pod that it was not read for want of room."""
    return (
        f"{part} ({size // 1000:,} kB of memory, more than is left for the long parts of all pods"
        " or of its namespace)"
    )


def estimate_bytes(*texts: bytes) -> int:
    """Estimate the memory of what is read of JSON texts: short entries take most."""
    return sum(COPIES * len(text) + _BYTES_PER_ELEMENT * text.count(b",") for text in texts)
