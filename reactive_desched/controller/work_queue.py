"""The subjects that changes enqueued: each waits until it is quiet, but never too long.

As a controller-runtime work queue holds requests, with a wait of its own for each plugin and kind
of change. The subjects of an object that flaps, one of whose fields changes again and again within
a short time, wait longer, and are not evaluated more often. As there, what failed waits for longer
each time: a pod whose eviction did.
"""

from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Final, TypeAlias
from zlib import crc32

from msgspec import Struct

from reactive_desched.controller.instances import PluginInstance, SubjectKey
from reactive_desched.model.changes import (
    Change,
    NodeAdded,
    NodeCapacityDecreased,
    NodeCapacityIncreased,
    NodeConditionsChanged,
    NodeGone,
    NodeLabelsChanged,
    NodeTaintsChanged,
    PodLabelsChanged,
)
from reactive_desched.model.evaluation import ChangeTrigger
from reactive_desched.model.objects import PodKey
from reactive_desched.model.outcomes import CANCELLED, PDB_REFUSED, Outcome
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.settings.controller_settings import RetrySettings
from reactive_desched.primitives.timers import DebounceConfig, DebounceQueue
from reactive_desched.telemetry.metrics import Metric, gauge

MAX_OBJECTS: Final = 10_000
"""Nodes, and pods, whose changes are counted; the one that changed longest ago is forgotten."""

FLAPPING_FIELDS: Final = {
    NodeTaintsChanged: "taints",
    NodeConditionsChanged: "conditions",
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


NEVER_FLAPPING: Final = FlappingConfig()


def flapping_config(config: Configuration) -> FlappingConfig:
    """Say when an object flaps, and how long its subjects wait then."""
    settings = config.controller.debounce.flapping
    if settings is None:
        return NEVER_FLAPPING
    wait = DebounceConfig(settings.quiet_s, settings.max_wait_s)
    return FlappingConfig(settings.changes, settings.per_s, wait)


class FlappingObject(Struct, frozen=True):
    """An object that flaps now: which of its fields, and how often it changed of late."""

    object: str
    field: str
    changes: int


class FlapDetector:
    """Counts the changes of each field of each node, and of each pod's labels.

    Times are monotonic seconds. At most the last `changes` times of 10,000 nodes and of 10,000 pods
    are kept: who relabels many pods has no node forgotten.
    """

    def __init__(self, config: FlappingConfig) -> None:
        self._config = config
        self._of_nodes: OrderedDict[tuple[str, str], deque[float]] = OrderedDict()
        self._of_pods: OrderedDict[tuple[str, str], deque[float]] = OrderedDict()

    def record(self, change: Change, now: float) -> None:
        """Count one change of the cluster, if it is of a kind that can flap."""
        if (field := FLAPPING_FIELDS.get(type(change))) is None or not self._config.changes:
            return
        key, kept = (change.object_name, field), self._kept(change)
        times = kept.pop(key, None)
        if times is None:
            times = deque(maxlen=self._config.changes)
            if len(kept) >= MAX_OBJECTS:
                kept.popitem(last=False)
        times.append(now)
        kept[key] = times

    def is_flapping(self, change: Change, now: float) -> bool:
        """Say whether the object of this change has changed too often of late."""
        if (field := FLAPPING_FIELDS.get(type(change))) is None:
            return False
        times = self._kept(change).get((change.object_name, field))
        return times is not None and self._flaps(times, now)

    def flapping(self, now: float) -> Iterator[FlappingObject]:
        """Yield the objects that flap now, those that changed last at the end."""
        kept = chain(self._of_nodes.items(), self._of_pods.items())
        flapping = [each for each in kept if self._flaps(each[1], now)]
        for (name, field), times in sorted(flapping, key=lambda each: each[1][-1]):
            yield FlappingObject(name, field, len(times))

    def _kept(self, change: Change) -> OrderedDict[tuple[str, str], deque[float]]:
        return self._of_pods if isinstance(change, PodLabelsChanged) else self._of_nodes

    def _flaps(self, times: deque[float], now: float) -> bool:
        return len(times) == self._config.changes and times[0] > now - self._config.per_s


DIRTY_SUBJECTS = gauge("dirty_subjects", "Subjects waiting to be evaluated.")
SETTLING_SUBJECTS = gauge(
    "settling_subjects", "Subjects among them that wait until an object stops flapping."
)

MAX_IN_PORTIONS: Final = 100
"""So many changes wait until all that they concern is enqueued; with one more, the first is seen to
at once."""

_Queue: TypeAlias = DebounceQueue[SubjectKey, ChangeTrigger]

Portions: TypeAlias = Iterator[Collection[SubjectKey]]
"""What a change concerns, in portions between which the cluster may change."""


class _Waits(Struct, frozen=True, eq=False):
    """The queue of one plugin's subjects, and those of kinds of change with a wait of their own."""

    usual: _Queue
    by_kind: Mapping[str, _Queue]


class WorkQueue:
    """Dirty subjects of all plugin instances, each once, bounded by the subjects that exist.

    Of several subjects that are due, the one that came due first is next, whichever plugin it
    belongs to: a plugin with much to do does not hold up another. `settling` are the subjects that
    wait for an object that flaps.
    """

    def __init__(self, instances: Iterable[PluginInstance], flapping: FlappingConfig) -> None:
        self._queues: dict[DebounceConfig, _Queue] = {}
        self._waits = {
            instance: _Waits(
                self._queue(instance.debounce),
                {kind: self._queue(wait) for kind, wait in instance.debounce_by_change.items()},
            )
            for instance in instances
        }
        self._flaps = FlapDetector(flapping)
        self._settling: _Queue = DebounceQueue(flapping.wait)
        self.settling: Final = self._settling.keys
        self._all = (*self._queues.values(), self._settling)
        self._usual = self._all[0] if len(self._queues) == 1 else None
        self._portions: deque[tuple[Portions, ChangeTrigger]] = deque()
        self.enqueued = 0

    def __len__(self) -> int:
        return sum(map(len, self._queues.values())) + len(self._settling)

    def __contains__(self, key: SubjectKey) -> bool:
        return key in self._settling or any(key in queue for queue in self._queues.values())

    @property
    def flaps(self) -> FlapDetector:
        """Return what counts the changes of each object."""
        return self._flaps

    def collect(self) -> Iterator[Metric]:
        """Yield how many subjects wait."""
        yield DIRTY_SUBJECTS.value(len(self))
        yield SETTLING_SUBJECTS.value(len(self.settling))

    def enqueue(self, key: SubjectKey, now: float, trigger: ChangeTrigger) -> None:
        """Enqueue a subject that a change concerns."""
        self.enqueued += 1
        change = trigger.change
        if type(change) in FLAPPING_FIELDS and self._flaps.is_flapping(change, now):
            for queue in self._queues.values():
                queue.discard(key)
            self._settling.enqueue(key, now, trigger)
        elif key not in self.settling:
            waits = self._waits[key[0]]
            own = waits.by_kind.get(change.kind) if waits.by_kind else None
            queue = waits.usual if own is None else own
            queue.enqueue(key, now, trigger)

    @property
    def has_portions(self) -> bool:
        """Say whether a portion of subjects is still to be enqueued."""
        return bool(self._portions)

    def enqueue_in_portions(self, portions: Portions, now: float, trigger: ChangeTrigger) -> None:
        """Enqueue the first portion of what a change concerns, and keep the others for later."""
        self._portions.append((portions, trigger))
        self._enqueue_portion(-1, now)
        while len(self._portions) > MAX_IN_PORTIONS:
            self._enqueue_portion(0, now)

    def enqueue_portion(self, now: float) -> bool:
        """Enqueue one more portion, which is to be before an evaluation; say whether one was."""
        if not self._portions:
            return False
        self._enqueue_portion(0, now)
        return True

    def _enqueue_portion(self, at: int, now: float) -> None:
        portions, trigger = self._portions[at]
        if (portion := next(portions, None)) is None:
            del self._portions[at]
            return
        for key in portion:
            self.enqueue(key, now, trigger)

    def pop_due(self, by: float) -> tuple[SubjectKey, ChangeTrigger] | None:
        """Take out the subject that came due first, unless it comes due after `by`."""
        first: _Queue | None = self._usual
        if first is None or self.settling:
            due_at, first = self._next()
            if first is None or due_at > by:
                return None
        if (popped := first.pop_due(by)) is not None and first is not self._usual:
            for queue in self._queues.values():
                queue.discard(popped[0])
        return popped

    def next_due(self) -> float | None:
        """Return when the next subject comes due, if none is enqueued again meanwhile."""
        if self._usual is not None and not self.settling:
            return self._usual.next_due()
        due_at, first = self._next()
        return None if first is None else due_at

    def _next(self) -> tuple[float, _Queue | None]:
        """Return the queue whose next subject comes due first, and when that is."""
        due_at, first = float("inf"), None
        for queue in self._all:
            due = queue.next_due()
            if due is not None and due < due_at:
                due_at, first = due, queue
        return due_at, first

    def _queue(self, wait: DebounceConfig) -> _Queue:
        return self._queues.setdefault(wait, DebounceQueue(wait))


MAX_BACKOFF_ENTRIES = 20_000

BACKOFF_PODS = gauge(
    "backoff_pods", "Pods whose failed evictions are remembered: at most 20,000, then the latest."
)


class BackoffEntry(Struct, frozen=True, gc=False):
    """The result of the last try; the pod is left alone `until` then, in monotonic seconds."""

    failures: int
    until: float
    outcome: Outcome


class PodBackoff:
    """Doubling waits per pod, from the first to the longest, in seconds.

    Each wait is shorter by up to the share `retry.jitter` of it, by the pod's uid and the number
    of failures: pods that were refused together do not try again together.

    A pod that had rest for the longest wait starts over from the first. 20,000 pods are
    remembered; at the bound the one whose failure is oldest starts over, too.
    """

    def __init__(self, retry: RetrySettings) -> None:
        self._retry = retry
        self._entries: OrderedDict[PodKey, BackoffEntry] = OrderedDict()

    def collect(self) -> Iterator[Metric]:
        """Yield of how many pods failures are remembered."""
        yield BACKOFF_PODS.value(len(self._entries))

    def reconfigure(self, retry: RetrySettings) -> None:
        """Use other waits for later failures; a wait that has begun keeps its length."""
        self._retry = retry

    def record_failure(self, pod: PodKey, outcome: Outcome, now: float) -> float:
        """Count one more failure and return when to try again, never before the server said."""
        last = self._entries.pop(pod, None)
        failures = last.failures if last and now < last.until + self._retry.max_s else 0
        if len(self._entries) >= MAX_BACKOFF_ENTRIES:
            self._entries.popitem(last=False)
        wait_s = min(self._retry.max_s, self._retry.initial_s * 2.0 ** min(failures, 30))
        wait_s *= 1 - self._retry.jitter * _fraction(f"{pod}/{failures}")
        until = now + max(wait_s, outcome.retry_after_s or 0.0)
        counts = outcome.result != CANCELLED  # no request was sent
        self._entries[pod] = BackoffEntry(failures + counts, until, outcome)
        return until

    def backing_off(self, pod: PodKey, now: float) -> BackoffEntry | None:
        """Return why and how long to leave a pod alone, or None when it may be tried."""
        entry = self._entries.get(pod)
        return entry if entry is not None and now < entry.until else None

    def pdb_changed(self, pod: PodKey, now: float) -> None:
        """End the rest of a pod that only a disruption budget stopped."""
        entry = self.backing_off(pod, now)
        if entry is not None and entry.outcome.result == PDB_REFUSED:
            self._entries[pod] = BackoffEntry(entry.failures, now, entry.outcome)

    def reset(self, pod: PodKey) -> None:
        """Start over from the first wait."""
        self._entries.pop(pod, None)


def _fraction(text: str) -> float:
    """Return a number from 0 to 1, always the same for a text and spread evenly over texts."""
    return crc32(text.encode()) / 2**32
