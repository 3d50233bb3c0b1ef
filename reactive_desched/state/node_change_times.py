"""Keeps since when a node has its taints and labels, and since when it is Ready.

The API says of some taints when they were set, and of labels nothing; so the cluster state notes
when it saw the change. Times are monotonic seconds: a step of the time of day neither shortens nor
lengthens what is seen to stand.
"""

from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import Final

from reactive_desched.model.objects import Node
from reactive_desched.model.taints import Taint

LONGEST_S: Final = 3600.0
"""A label that changed longer ago than this counts as standing since the node is known."""

MAX_LABELS: Final = 1000
"""So many changed labels of a node are remembered; beyond that the oldest is forgotten."""

Clock = Callable[[], float]


class NodeTimes:
    """The times of one node; of labels only those that changed since it is known, with what was."""

    __slots__ = ("created", "known_since", "labels", "ready_since", "taints")

    def __init__(
        self,
        known_since: float,
        created: float,
        ready_since: float,
        taints: dict[Taint, float],
        labels: dict[str, tuple[float, str | None]],
    ) -> None:
        self.known_since = known_since
        self.created = created
        self.ready_since = ready_since
        self.taints = taints
        self.labels = labels


class NodeChangeTimes:
    """Follows the nodes one by one; what is asked of a node that is not known stands for ever.

    `clock` gives monotonic seconds and `wall_clock` the time of day, by which the times that the
    API server gives are read when a node is seen for the first time: when it was created, when a
    taint was added, and when its Ready condition changed.
    """

    def __init__(self, clock: Clock, wall_clock: Clock) -> None:
        self._clock = clock
        self._wall_clock = wall_clock
        self._nodes: dict[str, NodeTimes] = {}
        self._unready: dict[str, None] = {}
        self._without: dict[str, dict[str, None]] = {}

    def follow(self, old: Node | None, new: Node) -> None:
        """Follow a node that appeared, or differs from what it was."""
        now = self._clock()
        times = self._nodes.get(new.name)
        if new.is_ready:
            self._unready.pop(new.name, None)
        else:
            self._unready[new.name] = None
        if old is None or times is None or old.uid != new.uid:
            times = self._nodes[new.name] = NodeTimes(now, now, now, {}, {})
            since = now - self._wall_clock()  # of the epoch, on the monotonic clock
            if new.created_s is not None:
                times.created = min(now, since + new.created_s)
            if new.ready_since_s is not None:
                times.ready_since = min(now, since + new.ready_since_s)
            times.taints = {
                taint: now if added_s is None else min(now, since + added_s)
                for taint, added_s in _with_times(new)
            }
            return
        if old.is_ready != new.is_ready:
            times.ready_since = now
        if old.taints != new.taints or old.taints_added_s != new.taints_added_s:
            before = dict(_with_times(old))
            times.taints = {
                taint: times.taints.get(taint, now)
                if taint in before and before[taint] == added_s
                else now
                for taint, added_s in _with_times(new)
            }
        if old.labels is not new.labels and old.labels != new.labels:
            self._note_labels(times, old, new, now)

    def forget(self, name: str) -> None:
        """Record that a node is gone."""
        if (times := self._nodes.pop(name, None)) is not None:
            self._unready.pop(name, None)
            for key in times.labels:
                self._found_again(key, name)

    def seen(self, name: str) -> NodeTimes | None:
        """Return the times of a node; None of one that is not known."""
        return self._nodes.get(name)

    def restore(self, node: Node, seen: NodeTimes) -> None:
        """Let a node that is known have the times at which another process saw it.

        What that saw later than now counts from now.
        """
        times, now = self._nodes[node.name], self._clock()
        times.known_since = min(now, seen.known_since)
        times.created, times.ready_since = min(now, seen.created), min(now, seen.ready_since)
        for taint, since in seen.taints.items():
            if taint in times.taints:
                times.taints[taint] = min(now, since)
        for key, (since, value) in seen.labels.items():
            if since <= now:
                times.labels[key] = since, value
                if key not in node.labels:
                    self._without.setdefault(key, {})[node.name] = None

    def taint_s(self, node: str, taint: Taint) -> float:
        """Return for how long a node has had a taint."""
        times = self._nodes.get(node)
        return inf if times is None else self._clock() - times.taints.get(taint, -inf)

    def label_s(self, node: str, key: str) -> float:
        """Return for how long a label of a node has been as it is, or has been absent.

        What was so when the node was seen for the first time counts since its creation.
        """
        if (times := self._nodes.get(node)) is None:
            return inf
        return self._clock() - times.labels.get(key, (times.created,))[0]

    def gone_s(self, node: str, key: str) -> float:
        """Return for how long a label of a node is seen to be absent."""
        if (times := self._nodes.get(node)) is None:
            return inf
        return self._clock() - times.labels.get(key, (times.known_since,))[0]

    def ready_s(self, node: str) -> float:
        """Return for how long a node has been Ready, or not Ready."""
        times = self._nodes.get(node)
        return inf if times is None else self._clock() - times.ready_since

    def unready(self) -> Iterator[tuple[str, float]]:
        """Yield the nodes that are not Ready, with for how long."""
        for name in self._unready:
            yield name, self.ready_s(name)

    def without(self, key: str) -> Iterator[tuple[str, str, float]]:
        """Yield the nodes that have lost a label, with its last value and for how long."""
        now = self._clock()
        for name in self._without.get(key, ()):
            since, value = self._nodes[name].labels[key]
            if value is not None:
                yield name, value, now - since

    def _note_labels(self, times: NodeTimes, old: Node, new: Node, now: float) -> None:
        for key in old.labels.keys() | new.labels.keys():
            if (value := old.labels.get(key)) != new.labels.get(key):
                times.labels.pop(key, None)
                times.labels[key] = now, value
                if key in new.labels:
                    self._found_again(key, new.name)
                else:
                    self._without.setdefault(key, {})[new.name] = None
        while times.labels and (
            len(times.labels) > MAX_LABELS or next(iter(times.labels.values()))[0] < now - LONGEST_S
        ):
            oldest = next(iter(times.labels))
            del times.labels[oldest]
            self._found_again(oldest, new.name)

    def _found_again(self, key: str, name: str) -> None:
        names = self._without.get(key, {})
        names.pop(name, None)
        if not names:
            self._without.pop(key, None)


def _with_times(node: Node) -> Iterable[tuple[Taint, int | None]]:
    """Pair each taint with the time at which it was added, where the API server says it."""
    if not node.taints_added_s:
        return ((taint, None) for taint in node.taints)
    return zip(node.taints, node.taints_added_s, strict=True)
