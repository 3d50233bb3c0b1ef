"""Detects objects that flap: one field changes again and again within a short time."""

from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from reactive_desched.model.changes import (
    Change,
    NodeAdded,
    NodeCapacityDecreased,
    NodeCapacityIncreased,
    NodeGone,
    NodeLabelsChanged,
    NodeTaintsChanged,
    PodLabelsChanged,
)
from reactive_desched.primitives.debounce import DebounceConfig

MAX_OBJECTS: Final = 10_000
"""Objects whose changes are counted; at the bound the one that changed longest ago is forgotten."""

FLAPPING_FIELDS: Final = {
    NodeTaintsChanged: "taints",
    NodeLabelsChanged: "labels",
    NodeCapacityIncreased: "allocatable or cordon",
    NodeCapacityDecreased: "allocatable or cordon",
    NodeAdded: "readiness",
    NodeGone: "readiness",
    PodLabelsChanged: "labels",
}
"""What flips back and forth, by the change that announces either direction."""


class FlappingConfig(Struct, frozen=True, gc=False):
    """An object flaps that changed so often within `per_s` seconds; `wait` is for its subjects.

    Zero changes: nothing ever counts as flapping.
    """

    changes: int = 0
    per_s: float = 60.0
    wait: DebounceConfig = DebounceConfig(30.0, 300.0)


class FlappingObject(Struct, frozen=True):
    """An object that flaps now: which of its fields, and how often it changed of late."""

    object: str
    field: str
    changes: int


class FlapDetector:
    """Counts the changes of each field of each node, and of each pod's labels.

    Times are monotonic seconds. At most the last `changes` times of 10,000 objects are kept.
    """

    def __init__(self, config: FlappingConfig) -> None:
        self._config = config
        self._times: OrderedDict[tuple[str, str], deque[float]] = OrderedDict()

    def record(self, change: Change, now: float) -> None:
        """Count one change of the cluster, if it is of a kind that can flap."""
        if (field := FLAPPING_FIELDS.get(type(change))) is None or not self._config.changes:
            return
        key = change.object_name, field
        times = self._times.pop(key, None)
        if times is None:
            times = deque(maxlen=self._config.changes)
            if len(self._times) >= MAX_OBJECTS:
                self._times.popitem(last=False)
        times.append(now)
        self._times[key] = times

    def is_flapping(self, change: Change, now: float) -> bool:
        """Say whether the object of this change has changed too often of late."""
        if (field := FLAPPING_FIELDS.get(type(change))) is None:
            return False
        times = self._times.get((change.object_name, field))
        return times is not None and self._flaps(times, now)

    def flapping(self, now: float) -> Iterator[FlappingObject]:
        """Yield the objects that flap now, those that changed last at the end."""
        for (name, field), times in self._times.items():
            if self._flaps(times, now):
                yield FlappingObject(name, field, len(times))

    def _flaps(self, times: deque[float], now: float) -> bool:
        return len(times) == self._config.changes and times[0] > now - self._config.per_s
