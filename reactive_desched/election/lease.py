"""Reads and writes a Lease: its record of the holder, and a candidate's requests."""

import time
from typing import Any, Protocol

from msgspec import Struct


class LeaseRecord(Struct, frozen=True, gc=False):
    """The part of a Lease that an election reads and writes.

    Times are as the Lease has them, RFC 3339 with microseconds: they are compared for equality
    alone, so that no clock of another machine counts.
    """

    holder: str = ""
    duration_s: int = 0
    acquire_time: str = ""
    renew_time: str = ""
    transitions: int = 0


class Lease(Struct, frozen=True):
    """A Lease as it was read: `metadata` holds the resourceVersion that an update must name.

    Its members are kept as they came, for an update must not take labels and annotations away.
    """

    record: LeaseRecord
    metadata: dict[str, Any]  # whatever the API server keeps of an object
    spec: dict[str, Any]  # as above


class LeaseClient(Protocol):
    """Reads and writes one Lease; every method raises ClusterError where the server refuses."""

    async def get(self) -> Lease | None:
        """Return the Lease, or None where there is none."""
        ...

    async def create(self, record: LeaseRecord) -> Lease:
        """Create the Lease; fails where another candidate created it first."""
        ...

    async def update(self, lease: Lease, record: LeaseRecord) -> Lease:
        """Put another record into the Lease; fails unless it is still as it was read."""
        ...


def micro_time(wall_s: float) -> str:
    """Write a time of day in UTC as Kubernetes' MicroTime."""
    whole, micros = divmod(round(wall_s * 1_000_000), 1_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{micros:06d}Z"
