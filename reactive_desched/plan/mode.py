"""Defines the modes of a preview: the decisions of the controller, or of a single sweep."""

from enum import StrEnum

from msgspec import Struct

from reactive_desched.fit.upstream import SCHEDULER, UPSTREAM
from reactive_desched.policy.configuration import Configuration

__all__ = ["PlanMode", "RunBounds"]


class PlanMode(StrEnum):
    """The values of `--as`: the controller, `run --once`, or a dry run of the SIG descheduler."""

    RUN = "run"
    ONCE = "once"
    UPSTREAM = "upstream"

    @property
    def asks_budgets(self) -> bool:
        """Say whether PodDisruptionBudgets count: in upstream's dry run they do not."""
        return self is not PlanMode.UPSTREAM

    @property
    def actor(self) -> str:
        """Return the name of the program that would evict, for a heading."""
        return _ACTORS[self]

    def node_fit(self, configuration: Configuration) -> str:
        """Return whose rules `nodeFit` checks nodes by."""
        match self:
            case PlanMode.RUN:
                return SCHEDULER
            case PlanMode.ONCE:
                return configuration.sweep_node_fit
            case _:
                return UPSTREAM


class RunBounds(Struct, frozen=True):
    """The horizon of a preview of the controller, and the time until a replacement is Ready."""

    horizon_s: float = 3600.0
    max_evictions: int = 1000
    ready_after_s: float = 10.0


_ACTORS = {
    PlanMode.RUN: "`run`",
    PlanMode.ONCE: "`run --once`",
    PlanMode.UPSTREAM: "a dry run of the SIG descheduler",
}
