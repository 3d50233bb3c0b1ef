"""How much memory a controller takes: requests and limits of the manifests are written from it.

`python -m bench --part soak` measures what the constants say; docs/explain/memory.md shows it.
"""

from math import ceil
from typing import Final

from msgspec import Struct

BASE_MB: Final = 80
"""The process before it has listed anything: the interpreter, libraries, connections at rest."""

BYTES_PER_POD: Final = 1_400
"""1.1 kB after the first list; updates add an eighth, further lists a fifteenth."""

BYTES_PER_NODE: Final = 6_000
"""The node, and what indexes keep for it."""

CACHES_MB: Final = 120
"""Everything that is bounded by itself, under evictions without end: 40,000 moves, cases and
outcomes that wait for their pods' replacements, the index, the newest records, connections."""

MARGIN: Final = 1.15
"""So much more than that the limit allows: a list of which every object changed, large objects."""

_MB, _MIB, _STEP_MIB = 1_000_000, 1 << 20, 64


class ClusterSize(Struct, frozen=True):
    """A cluster's nodes and pods."""

    nodes: int
    pods: int


ADVERTISED: Final = ClusterSize(5_000, 150_000)
"""What the manifests and the chart are for as they are shipped."""

SIZES: Final = (
    ClusterSize(200, 6_000),
    ClusterSize(1_000, 30_000),
    ADVERTISED,
    ClusterSize(15_000, 500_000),
)


def needed_mb(size: ClusterSize) -> float:
    """Return what a controller takes at most in a cluster of this size."""
    per_object = size.pods * BYTES_PER_POD + size.nodes * BYTES_PER_NODE
    return BASE_MB + CACHES_MB + per_object / _MB


def request_mib(size: ClusterSize) -> int:
    """Return what is requested for a cluster of this size: as the limit, but without the caches."""
    return _step_up(needed_mb(size) - CACHES_MB)


def limit_mib(size: ClusterSize) -> int:
    """Return the memory limit for a cluster of this size: with a margin, in steps of 64 MiB."""
    return _step_up(needed_mb(size))


def _step_up(needed: float) -> int:
    return ceil(needed * MARGIN * _MB / _MIB / _STEP_MIB) * _STEP_MIB
