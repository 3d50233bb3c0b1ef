"""How the samples of a node become the use that plugins go by: smoothed, confirmed, and steady.

One spike should move nothing. Each step keeps a little of every node and resource; pods are passed
on as they were measured, since they only say which pod leaves.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.model.usage import NodeUsage

__all__ = ["Confirmation", "Ewma", "Percentile", "Smoother", "SmoothingRule"]

_HALF: Final = 0.5


class SmoothingRule(Struct, frozen=True):
    """The steps a value goes through, in this order.

    `weight` of the new sample in a moving average, 1 for none; `percentile` of the last `window`
    samples, a window of 1 for none; `agree` of the last `of` samples must be at least as high;
    a change of less than `dead_band` per cent of what the node has is not taken in.
    """

    weight: float = 1.0
    window: int = 1
    percentile: float = 100.0
    agree: int = 1
    of: int = 1
    dead_band: float = 0.0


class Step(Protocol):
    """Turns one value after the other into what is believed."""

    def take(self, value: int) -> int:
        """Take the next value in and return what is believed now."""
        ...


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


class Percentile:
    """A percentile of the last values: the smallest that so many per cent do not exceed."""

    def __init__(self, window: int, percent: float) -> None:
        self._values: deque[int] = deque(maxlen=window)
        self._percent = percent

    def take(self, value: int) -> int:
        """Take the next value in and return the percentile of those there are."""
        self._values.append(value)
        ranked = sorted(self._values)
        rank = -(-len(ranked) * self._percent // 100)
        return ranked[max(0, int(rank) - 1)]


class Confirmation:
    """The highest value that `agree` of the last `of` values reach.

    So a node rises above any threshold when so many samples did, and falls to it when no more than
    the others are above. Until there are as many, all there are must agree.
    """

    def __init__(self, agree: int, of: int) -> None:
        self._values: deque[int] = deque(maxlen=of)
        self._agree = agree

    def take(self, value: int) -> int:
        """Take the next value in and return what is confirmed."""
        self._values.append(value)
        ranked = sorted(self._values, reverse=True)
        return ranked[min(self._agree, len(ranked)) - 1]


def _steps(rule: SmoothingRule) -> list[Step]:
    steps: list[Step] = []
    if rule.weight < 1.0:
        steps.append(Ewma(rule.weight))
    if rule.window > 1:
        steps.append(Percentile(rule.window, rule.percentile))
    if rule.of > 1:
        steps.append(Confirmation(rule.agree, rule.of))
    return steps


class _Node:
    """What is kept of one node."""

    __slots__ = ("believed", "sampled_s", "steps")

    def __init__(self) -> None:
        self.steps: dict[str, list[Step]] = {}
        self.believed: dict[str, int] = {}
        self.sampled_s = float("-inf")


class Smoother:
    """Smooths the samples of one source by one rule.

    A sample that was seen before, by its time, is not counted again. `capacity` returns how much a
    node has of a resource, for the dead band.
    """

    def __init__(self, rule: SmoothingRule, capacity: Callable[[str, str], int]) -> None:
        self.rule: Final = rule
        self._capacity = capacity
        self._nodes: dict[str, _Node] = {}

    def take(self, sample: NodeUsage) -> NodeUsage | None:
        """Return the sample with the use that is believed now; None if it is not newer."""
        node = self._nodes.setdefault(sample.node, _Node())
        if sample.sampled_s <= node.sampled_s:
            return None
        node.sampled_s = sample.sampled_s
        believed = {r: self._believe(node, r, amount) for r, amount in sample.usage.items()}
        node.believed = {
            r: self._outside_band(sample.node, r, node.believed.get(r), amount)
            for r, amount in believed.items()
        }
        return replace(sample, usage=node.believed)

    def forget(self, node: str) -> None:
        """Forget a node that is not measured any more."""
        self._nodes.pop(node, None)

    def _believe(self, node: _Node, resource: str, amount: int) -> int:
        if (steps := node.steps.get(resource)) is None:
            steps = node.steps[resource] = _steps(self.rule)
        for step in steps:
            amount = step.take(amount)
        return amount

    def _outside_band(self, node: str, resource: str, old: int | None, new: int) -> int:
        """Return the new value, or the old one where it is close to it."""
        if old is None or not self.rule.dead_band:
            return new
        band = self.rule.dead_band * self._capacity(node, resource)
        return old if abs(new - old) * 100 < band else new
