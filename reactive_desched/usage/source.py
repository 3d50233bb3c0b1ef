"""The contract of a source of measured use: a query returns samples of nodes."""

from collections.abc import Iterable
from typing import Protocol

from reactive_desched.model.usage import NodeUsage

__all__ = ["UsageSource"]


class UsageSource(Protocol):
    """One source, as policies name it: metrics-server, or one query to Prometheus."""

    @property
    def name(self) -> str:
        """The `NodeUsage.source` of its samples."""
        ...

    @property
    def measures_pods(self) -> bool:
        """Whether its samples say what each pod of the node uses."""
        ...

    async def measure(self) -> Iterable[NodeUsage]:
        """Ask once and return a sample of each node that was measured.

        The samples may be made while they are iterated over. Raises UsageUnavailable.
        """
        ...
