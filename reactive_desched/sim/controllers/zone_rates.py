"""Limits how fast lost nodes get the taint that evicts their pods, zone by zone.

The rules and defaults of the node lifecycle controller of Kubernetes: `--node-eviction-rate`,
`--secondary-node-eviction-rate`, `--unhealthy-zone-threshold`, `--large-cluster-size-threshold`.
"""

from collections import Counter
from collections.abc import Iterable
from enum import Enum
from math import inf
from typing import Final

from msgspec import Struct

from reactive_desched.model.objects import ZONE_LABEL
from reactive_desched.model.volumes import REGION_LABEL
from reactive_desched.sim.conditions import condition_status
from reactive_desched.sim.objects import Obj, labels_of

__all__ = ["DEFAULT_RATES", "EvictionRates", "ZoneRates", "zone_of"]

_FEW = 2
"""So many lost nodes never make a zone unhealthy."""


class EvictionRates(Struct, frozen=True):
    """Nodes per second, and what makes a zone unhealthy: a share of lost nodes."""

    normal: float = 0.1
    secondary: float = 0.01
    unhealthy_share: float = 0.55
    large_zone_nodes: int = 50
    """Of an unhealthy zone of no more nodes than this none is emptied at all."""


DEFAULT_RATES: Final = EvictionRates()


class _State(Enum):
    NORMAL = "normal"
    PARTIAL = "partial"
    FULL = "full"


class ZoneRates:
    """Holds one moment for each zone: when the next of its nodes may be emptied."""

    def __init__(self, rates: EvictionRates) -> None:
        self._rates = rates
        self._states: dict[str, _State] = {}
        self._sizes: Counter[str] = Counter()
        self._free_at: dict[str, float] = {}

    @property
    def all_are_lost(self) -> bool:
        """Say whether no zone has a Ready node: then the network is at fault, not the nodes."""
        return bool(self._states) and set(self._states.values()) == {_State.FULL}

    def count(self, nodes: Iterable[Obj], now: float) -> bool:
        """Read which nodes are Ready; return whether the state of a zone has changed."""
        sizes, ready = Counter[str](), Counter[str]()
        for node in nodes:
            sizes[zone_of(node)] += 1
            ready[zone_of(node)] += condition_status(node, "Ready") == "True"
        states = {zone: self._state(size, size - ready[zone]) for zone, size in sizes.items()}
        rates = {zone: self._rate(zone) for zone in self._states}
        before, self._states, self._sizes = self._states, states, sizes
        for zone in before.keys() & states.keys():
            self._change_rate(zone, rates[zone], now)
        return states != before

    def take(self, node: Obj, now: float) -> float:
        """Return `now` if the node may be emptied, which counts; else when to ask again."""
        zone = zone_of(node)
        rate = self._rate(zone)
        if not rate:
            return inf
        if (free_at := self._free_at.get(zone, now)) > now:
            return free_at
        self._free_at[zone] = now + 1 / rate
        return now

    def _change_rate(self, zone: str, before: float, now: float) -> None:
        """Wait for a whole turn at a new rate if a node had to wait at the old one."""
        if (rate := self._rate(zone)) and rate != before:
            had_to_wait = not before or self._free_at.get(zone, now) > now
            self._free_at[zone] = now + 1 / rate if had_to_wait else now

    def _rate(self, zone: str) -> float:
        if self.all_are_lost:
            return 0.0
        if self._states.get(zone) is not _State.PARTIAL:
            return self._rates.normal
        return self._rates.secondary if self._sizes[zone] > self._rates.large_zone_nodes else 0.0

    def _state(self, size: int, lost: int) -> _State:
        if lost == size:
            return _State.FULL
        is_partial = lost > _FEW and lost / size >= self._rates.unhealthy_share
        return _State.PARTIAL if is_partial else _State.NORMAL


def zone_of(node: Obj) -> str:
    """Return what names the zone of a node: region and zone, or nothing for a node without."""
    labels = labels_of(node)
    return f"{labels.get(REGION_LABEL, '')}/{labels.get(ZONE_LABEL, '')}"
