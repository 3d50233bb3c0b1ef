"""Reads and writes a Lease: its record of the holder, and a candidate's requests."""

import re
import time
from typing import Any, Final, Protocol

from msgspec import Struct

MAX_TRANSITIONS: Final = 2**31 - 1
"""The API server keeps leaseTransitions in 32 bits: it refuses a larger one."""

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)


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


def is_time(text: str) -> bool:
    """Say whether the API server takes this for a MicroTime; a Lease may have none."""
    return _TIME.fullmatch(text) is not None
