"""Smooths the samples of a node into the use that plugins read: confirmed, and steady.

One spike should move nothing, and no pod should be evicted for use that an earlier eviction has
ended. So what is kept of a node is lowered by what a pod used once samples do not count the pod any
more, and raised by what a pod uses that came.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.model.objects import Pod
from reactive_desched.model.resources import ResourceList
from reactive_desched.model.usage import NodeUsage

__all__ = [
    "Confirmation",
    "Ewma",
    "Levels",
    "MeasuredCluster",
    "Percentile",
    "Smoother",
    "SmoothingRule",
]

_HALF: Final = 0.5
_ALL: Final = 100.0


class SmoothingRule(Struct, frozen=True):
    """The steps a value goes through, in this order.

    `agree` of the last `of` samples must be at least as high; `percentile` of the last `window`
    such values, a window of 1 for none; `weight` of the new value in a moving average, 1 for none;
    `hysteresis` is by how many per cent of what the node has a threshold must be passed before the
    node counts as over- or underutilized.
    """

    agree: int = 1
    of: int = 1
    window: int = 1
    percentile: float = 100.0
    weight: float = 1.0
    hysteresis: float = 0.0


class Levels(Struct, frozen=True):
    """The thresholds that plugins compare a resource with, in per cent.

    A node becomes underutilized by falling to one of `low`, overutilized by rising above one of
    `high`. Empty where thresholds are distances from the mean.
    """

    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


class MeasuredCluster(Protocol):
    """The parts of the cluster state and of the policy in force that a smoother reads."""

    def capacity(self, node: str, resource: str) -> int:
        """Return how much a node has of a resource; 0 if that is not known."""
        ...

    def pods_on(self, node: str) -> Collection[Pod]:
        """Return the active pods of a node."""
        ...

    def levels(self, source: str) -> Mapping[str, Levels]:
        """Return the thresholds that plugins compare the use by a source with, by resource."""
        ...


class Step(Protocol):
    """One step of smoothing: takes measured values in turn, returns the value to go by."""

    def take(self, value: int) -> int | None:
        """Take the next value and return the smoothed one; None after too few values."""
        ...

    def shift(self, amount: int, newer: int) -> None:
        """Change what is kept as if every value but the `newer` last had been so much higher.

        Nothing falls below 0.
        """
        ...


class _LastValues:
    """The last values, as a step keeps them."""

    def __init__(self, count: int) -> None:
        self._values: deque[int] = deque(maxlen=count)

    def shift(self, amount: int, newer: int) -> None:
        """Change the older ones of the values."""
        for index in range(len(self._values) - newer):
            self._values[index] = max(0, self._values[index] + amount)


class Confirmation(_LastValues):
    """The highest value that `agree` of the last `of` values reach.

    So a node rises above any threshold when so many samples did, and falls to it when no more than
    the others are above.
    """

    def __init__(self, agree: int, of: int) -> None:
        super().__init__(of)
        self._agree = agree

    def take(self, value: int) -> int | None:
        """Take the next value and return the confirmed one; None while there are too few."""
        self._values.append(value)
        if len(self._values) < self._agree:
            return None
        return sorted(self._values, reverse=True)[self._agree - 1]


class Percentile(_LastValues):
    """A percentile of the last values: the smallest that so many per cent do not exceed."""

    def __init__(self, window: int, percent: float) -> None:
        super().__init__(window)
        self._percent = percent

    def take(self, value: int) -> int:
        """Take the next value in and return the percentile of those there are."""
        self._values.append(value)
        ranked = sorted(self._values)
        rank = -(-len(ranked) * self._percent // 100)
        return ranked[max(0, int(rank) - 1)]


class Ewma:
    """An exponentially weighted moving average that begins with its first value.

    As the SIG descheduler's, it is kept as a whole number, halves rounded away from zero, and so
    may stop a few units short of a value that stays.
    """

    def __init__(self, weight: float) -> None:
        self._weight = weight
        self._mean: int | None = None

    def take(self, value: int) -> int:
        """Take the next value in and return the average."""
        mean = self._mean
        if mean is None:
            self._mean = value
        else:
            self._mean = int((1.0 - self._weight) * mean + self._weight * value + _HALF)
        return self._mean

    def shift(self, amount: int, newer: int) -> None:
        """Change the average by the share that older values have in it."""
        if self._mean is not None:
            share = (1.0 - self._weight) ** newer
            self._mean = max(0, round(self._mean + share * amount))


def _steps(rule: SmoothingRule) -> list[Step]:
    steps: list[Step] = []
    if rule.of > 1:
        steps.append(Confirmation(rule.agree, rule.of))
    if rule.window > 1:
        steps.append(Percentile(rule.window, rule.percentile))
    if rule.weight < 1.0:
        steps.append(Ewma(rule.weight))
    return steps


class _Arrival(Struct):
    """A pod that came and was not measured yet.

    `samples` counts those that were measured after `seen_s`, when the pod was first seen.
    """

    seen_s: float
    samples: int = 0


class _PodShift(Struct, frozen=True):
    """By how much to correct all samples but the `newer` last, for pods that came or left."""

    amounts: Mapping[str, int]
    newer: int


class _PodLedger:
    """The pods that the samples of a node count, and the last use of each.

    A pod that has left counts until a sample covers only time in which it was gone.
    """

    __slots__ = ("_arrivals", "_counted", "_gone_s", "_is_new")

    def __init__(self) -> None:
        self._counted: Mapping[str, ResourceList] = {}
        self._is_new = True
        self._arrivals: dict[str, _Arrival] = {}
        self._gone_s: dict[str, float] = {}

    def departed(self) -> Mapping[str, ResourceList]:
        """Return the pods that have left and are counted still, with what they used."""
        return {name: self._counted[name] for name in self._gone_s}

    def take(self, sample: NodeUsage, pods: Collection[Pod], now_s: float) -> list[_PodShift]:
        """Follow which pods came and left; return what follows for the samples before this.

        `pods` are those of the node; the sample has no others.
        """
        measured, before = sample.pods, self._counted
        if len(pods) == len(measured) and before.keys() == measured.keys():
            self._is_new = False
            self._counted = measured
            self._gone_s.clear()
            return []
        present = {str(pod): pod for pod in pods}
        if self._is_new:
            self._is_new = False
            # What came before the first sample is in it, measured or not.
            self._counted = {name: measured.get(name, {}) for name in present}
            return []
        shifts: list[_PodShift] = []
        counted: dict[str, ResourceList] = {}
        for name, used in before.items():
            if name in present:
                counted[name] = measured.get(name, used)
                self._gone_s.pop(name, None)
            elif sample.sampled_s - sample.window_s < self._gone_s.setdefault(name, now_s):
                counted[name] = used
            else:
                del self._gone_s[name]
                shifts.append(_PodShift({r: -amount for r, amount in used.items()}, 0))
        for name, pod in present.items():
            if name not in counted:
                shifts += self._arrive(name, pod, sample, now_s)
                if name in measured:
                    counted[name] = measured[name]
        self._arrivals = {name: each for name, each in self._arrivals.items() if name in present}
        self._counted = counted
        return shifts

    def _arrive(self, name: str, pod: Pod, sample: NodeUsage, now_s: float) -> Iterable[_PodShift]:
        """Wait for a pod's first measurement; it counts up to what the pod requests.

        What a pod uses beyond that, as many do while they start, is smoothed like any spike.
        """
        arrival = self._arrivals.setdefault(name, _Arrival(now_s))
        if (used := sample.pods.get(name)) is None:
            arrival.samples += sample.sampled_s >= arrival.seen_s
            return ()
        del self._arrivals[name]
        requests = pod.held
        expected = {r: min(amount, requests.get(r, 0)) for r, amount in used.items()}
        return (_PodShift(expected, arrival.samples),)


class _Node:
    """The smoothed use of one node."""

    __slots__ = ("believed", "pods", "sampled_s", "steps")

    def __init__(self) -> None:
        self.steps: dict[str, list[Step]] = {}
        self.believed: dict[str, int] = {}
        self.pods = _PodLedger()
        self.sampled_s = float("-inf")


class Smoother:
    """Smooths the samples of one source by one rule.

    A sample that was seen before, by its time, is not counted again. A resource without levels
    follows only a change that is as large as the hysteresis. Pods are followed if the source
    measures them.
    """

    def __init__(
        self, rule: SmoothingRule, cluster: MeasuredCluster, *, measures_pods: bool
    ) -> None:
        self.rule: Final = rule
        self._cluster = cluster
        self._measures_pods = measures_pods
        self._nodes: dict[str, _Node] = {}

    def take(self, sample: NodeUsage, now_s: float) -> NodeUsage | None:
        """Return the sample with its smoothed use.

        Return None if it is not newer, or while a node has fewer samples than must agree: then its
        use is unknown. Of pods it has all that it counts: those that left since, too. `now_s` is
        the time in seconds since the epoch.
        """
        if (node := self._nodes.get(sample.node)) is None:
            node = self._nodes[sample.node] = _Node()
        if sample.sampled_s <= node.sampled_s:
            return None
        node.sampled_s = sample.sampled_s
        moved = self._follow_pods(node, sample, now_s)
        node.believed = {
            resource: amount
            for resource in sample.usage
            if (amount := self._believe(node, sample, resource, moved)) is not None
        }
        if not node.believed:
            return None
        departed = node.pods.departed()
        return replace(
            sample,
            usage=node.believed,
            pods={**sample.pods, **departed} if departed else sample.pods,
        )

    def forget_before(self, moment_s: float) -> None:
        """Forget the nodes whose last sample is older."""
        for name, node in list(self._nodes.items()):
            if node.sampled_s < moment_s:
                del self._nodes[name]

    def _follow_pods(self, node: _Node, sample: NodeUsage, now_s: float) -> Mapping[str, int]:
        """Shift what is kept by the pods that came and left; return by how much in all."""
        if not self._measures_pods:
            return {}
        total: dict[str, int] = {}
        for shift in node.pods.take(sample, self._cluster.pods_on(sample.node), now_s):
            for resource, amount in shift.amounts.items():
                total[resource] = total.get(resource, 0) + amount
                for step in node.steps.get(resource, ()):
                    step.shift(amount, shift.newer)
        return total

    def _believe(
        self, node: _Node, sample: NodeUsage, resource: str, moved: Mapping[str, int]
    ) -> int | None:
        """Put a value through the steps; `moved` is what came with pods, less what left.

        Return None while a step has too few.
        """
        if (steps := node.steps.get(resource)) is None:
            steps = node.steps[resource] = _steps(self.rule)
        amount = sample.usage[resource]
        for step in steps:
            if (taken := step.take(amount)) is None:
                return None
            amount = taken
        if not self.rule.hysteresis:
            return amount
        old, capacity = node.believed.get(resource), self._cluster.capacity(sample.node, resource)
        levels = self._cluster.levels(sample.source).get(resource)
        if levels is not None:
            return _within_levels(old, amount, capacity, levels, self.rule.hysteresis)
        if old is None:
            return amount
        old = max(0, old + moved.get(resource, 0))
        return old if abs(amount - old) * _ALL < self.rule.hysteresis * capacity else amount


def _within_levels(
    old: int | None, new: int, capacity: int, levels: Levels, hysteresis: float
) -> int:
    """Return the new value, or the one next to it that does not cross a level too soon.

    A value on the far side of a level already, or one far enough beyond it, is taken as it is; so
    is one that comes back. The way to 0 and to 100 per cent is at most halved.
    """
    for high in sorted(levels.high, reverse=True):
        enter = min(high + hysteresis, (high + _ALL) / 2)
        was_above = old is not None and _percent(old, capacity) > high
        if not was_above and high < _percent(new, capacity) <= enter:
            new = _unless_crossing(levels.low, new, _most(high, capacity), capacity)
    for low in sorted(levels.low):
        enter = max(low - hysteresis, low / 2)
        was_below = old is not None and _percent(old, capacity) <= low
        if not was_below and enter < _percent(new, capacity) <= low:
            new = _unless_crossing(levels.high, new, _most(low, capacity) + 1, capacity)
    return new


def _unless_crossing(levels: Iterable[float], new: int, held: int, capacity: int) -> int:
    """Return the value to hold, or the new one if a level lies between them."""
    lower, upper = sorted((_percent(new, capacity), _percent(held, capacity)))
    return new if any(lower <= level < upper for level in levels) else held


def _percent(amount: int, capacity: int) -> float:
    return float(amount) / float(capacity) * _ALL if capacity else 0.0


def _most(percent: float, capacity: int) -> int:
    """Return the largest amount that is not above so many per cent."""
    amount = int(percent * capacity / _ALL) + 1
    while _percent(amount, capacity) > percent:
        amount -= 1
    return amount
