"""Counts the pods that a rolling update may create and delete now, by surge and limits."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from reactive_desched.sim.objects import Obj

__all__ = [
    "Limits",
    "Share",
    "Size",
    "limits_of",
    "next_new_size",
    "next_old_sizes",
    "proportional_sizes",
    "share_of",
]


def share_of(value: Any, total: int, *, round_up: bool) -> int:
    """Return an int as it is, and a percentage of the total, rounded as asked.

    Raises ValueError for anything else, with the words of the real API machinery.
    """
    if isinstance(value, int):
        return value
    text = str(value)
    number = text.removesuffix("%")
    if not text.endswith("%") or not number.isdecimal():
        raise ValueError(f'invalid value for IntOrString: invalid type: "{text}" is no percentage')
    scaled = int(number) * total
    return -(-scaled // 100) if round_up else scaled // 100


class Limits(Struct, frozen=True):
    """The most pods above, and the most available pods below, the number asked for."""

    surge: int
    unavailable: int


class Size(Struct, frozen=True):
    """One ReplicaSet: how many pods it wants, and how many are available."""

    wanted: int
    available: int


class Share(Struct, frozen=True):
    """A set in a rollout that is scaled: its pods, and the most that all sets might have before."""

    wanted: int
    most_before: int


def limits_of(deployment: Obj) -> Limits:
    """Read maxSurge (rounded up) and maxUnavailable (rounded down); both zero means one down."""
    spec = deployment["spec"]
    replicas, strategy = int(spec["replicas"]), spec.get("strategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return Limits(0, 0)
    rolling = strategy.get("rollingUpdate") or {}
    surge = share_of(rolling.get("maxSurge", "25%"), replicas, round_up=True)
    unavailable = share_of(rolling.get("maxUnavailable", "25%"), replicas, round_up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return Limits(surge, min(unavailable, replicas))


def next_new_size(replicas: int, limits: Limits, new: int, old_total: int) -> int:
    """Return how large the new set may be, given what all sets together may hold."""
    if new >= replicas:
        return replicas
    room = replicas + limits.surge - new - old_total
    return min(replicas, new + max(0, room))


def next_old_sizes(replicas: int, limits: Limits, new: Size, old: Sequence[Size]) -> list[int]:
    """Return the sizes the old sets may shrink to, oldest first, unhealthy pods before healthy."""
    least_available = replicas - limits.unavailable
    missing_new = max(0, new.wanted - new.available)
    total = new.wanted + sum(size.wanted for size in old)
    spare = total - least_available - missing_new
    sizes = [size.wanted for size in old]
    for index, size in enumerate(old):
        useless = min(max(0, spare), size.wanted - min(size.available, size.wanted))
        sizes[index] -= useless
        spare -= useless
    spare = min(spare, new.available + sum(size.available for size in old) - least_available)
    for index, left in enumerate(sizes):
        fewer = min(max(0, spare), left)
        sizes[index] -= fewer
        spare -= fewer
    return sizes


def proportional_sizes(replicas: int, limits: Limits, sets: Sequence[Share]) -> list[int]:
    """Return the sizes of the sets of a rollout whose Deployment is scaled, each by its share.

    The sets are in the order of their age, the oldest first. What rounding leaves goes to the
    largest: of equal ones to the newest where pods are added, to the oldest where some go.
    """
    most = replicas + limits.surge if replicas else 0
    to_add = most - sum(each.wanted for each in sets)
    newer_first = -1 if to_add > 0 else 1
    order = sorted(range(len(sets)), key=lambda index: (-sets[index].wanted, newer_first * index))
    sizes, added = [each.wanted for each in sets], 0
    for index in order:
        share = _share(sets[index], most) if replicas else -sets[index].wanted
        allowed = to_add - added
        share = min(share, allowed) if to_add > 0 else max(share, allowed)
        sizes[index] += share
        added += share
    if order:
        sizes[order[0]] = max(0, sizes[order[0]] + to_add - added)
    return sizes


def _share(of: Share, most: int) -> int:
    """Return by how many pods a set changes that keeps its share of the most there may be."""
    if not of.most_before:
        return 0
    change = of.wanted * most / of.most_before - of.wanted
    return int(change + 0.5) if change > 0 else int(change - 0.5)
