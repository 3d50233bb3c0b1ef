"""Finds what a claim takes of a device's capacities, by the policies of the device.

Several claims have shares of one device, each an amount of its capacities (consumable capacity).
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import NamedTuple

from reactive_desched.model.devices import Amounts, CapacityPolicy, Device, DeviceId
from reactive_desched.model.quantities import parse_quantity

Taken = Mapping[str, Fraction]
"""What is taken of capacities, by their names."""


class TakenDevice(NamedTuple):
    """A device that a claim gets: as a whole, or with `share` so much of its capacities."""

    device: DeviceId
    share: Taken | None = None


@lru_cache(maxsize=4096)
def amount(text: str) -> Fraction:
    """Return a quantity as a number."""
    return parse_quantity(text)


def amounts(shares: Iterable[Amounts]) -> list[Taken]:
    """Return what shares take, as numbers, without those that take nothing."""
    return [{name: amount(text) for name, text in share} for share in shares if share]


def taken_of(device: Device, wanted: Amounts) -> Taken | None:
    """Return what a request takes of each capacity of a device.

    None where the device lacks a capacity that is asked for, or its policy has no such amount.
    """
    asked = dict(wanted)
    if not asked.keys() <= device.capacity.keys():
        return None
    found: dict[str, Fraction] = {}
    for name, whole in device.capacity.items():
        policy = device.policies.get(name, _ANY_AMOUNT)
        text = asked.get(name) or policy.default or whole
        taken = _allowed(policy, amount(text)) if name in asked else amount(text)
        if taken is None:
            return None
        found[name] = taken
    return found


def leaves_enough(device: Device, wanted: Taken, taken: Iterable[Taken]) -> bool:
    """Say whether a device has so much of its capacities beside what is taken of them."""
    others = list(taken)
    return all(
        wanted[name] + sum(each.get(name, 0) for each in others) <= amount(whole)
        for name, whole in device.capacity.items()
    )


_ANY_AMOUNT = CapacityPolicy()


def _allowed(policy: CapacityPolicy, wanted: Fraction) -> Fraction | None:
    """Return the next amount that a policy has; None where that is more than it allows."""
    if policy.values:
        return next((each for each in map(amount, policy.values) if wanted <= each), None)
    least = amount(policy.minimum or "0")
    wanted = max(wanted, least)
    if policy.step and wanted > least:
        # As the kube-scheduler has it in whole numbers, each rounded up.
        first, step = ceil(least), ceil(amount(policy.step))
        wanted = Fraction(first + step * ceil(Fraction(ceil(wanted) - first, step)))
    return None if policy.maximum and wanted > amount(policy.maximum) else wanted
