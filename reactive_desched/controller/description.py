"""Describes a controller for pages, logs, metrics and probes."""

from collections.abc import Callable, Iterator, Sequence

from reactive_desched.controller.controller import Controller
from reactive_desched.controller.job_listing import MAX_LISTED, JobList, list_jobs
from reactive_desched.controller.observing import collect_modes
from reactive_desched.controller.pending import (
    PendingContext,
    PendingFinding,
    PendingList,
    PendingQuery,
    PendingSummary,
    list_pending,
    summarize_pending,
)
from reactive_desched.controller.proposals import ProposalList, list_proposals
from reactive_desched.controller.public_state import PublicState, collect_state
from reactive_desched.controller.slices import in_slices
from reactive_desched.controller.turn_forecast import TurnForecast
from reactive_desched.gate.limit_status import LimitStatus
from reactive_desched.model.brakes import BrakeState
from reactive_desched.model.clock_pair import ClockPair
from reactive_desched.telemetry.metrics import Metric


class ControllerDescription:
    """Describes a controller as it is at the moment of each question; it decides nothing.

    `clock` is the controller's monotonic clock, `wall_clock` the time of day, both in seconds.
    """

    def __init__(
        self,
        controller: Controller,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
    ) -> None:
        self._controller = controller
        self._clock = clock
        self._wall_clock = wall_clock
        self._forecast = TurnForecast(controller, clock)

    async def pending(self, query: PendingQuery) -> PendingList:
        """List the findings that wait, and what each waits for."""
        found = await self._forecast.findings()
        return await in_slices(list_pending(found, query, self._waiting(), self.moment()))

    async def findings(self) -> Sequence[PendingFinding]:
        """Return the findings that wait, those in the queue of a rate limit with their turns."""
        return await self._forecast.findings()

    async def proposals(self) -> ProposalList:
        """List what plugins propose and no person has approved yet."""
        found, hold = await self._forecast.findings(), self._controller.pauses.state().hold
        return await in_slices(list_proposals(found, hold, self.moment()))

    def moment(self) -> ClockPair:
        """Return now, by both clocks."""
        return ClockPair(self._clock(), self._wall_clock())

    def _waiting(self) -> PendingContext:
        evaluator, pauses = self._controller.evaluator, self._controller.pauses
        flapping = tuple(evaluator.queue.flaps.flapping(self._clock()))
        return PendingContext(len(evaluator.queue), flapping, pauses.check(), pauses.state().hold)

    async def migrations(self, limit: int = MAX_LISTED) -> JobList:
        """List at most `limit` migration jobs, and what each waits for."""
        pending = await self._forecast.findings()
        return list_jobs(self._controller.migrations, pending, self._clock(), limit)

    async def pending_summary(self) -> PendingSummary:
        """Count the findings that wait, by what blocks them."""
        found = await self._forecast.findings()
        return await in_slices(summarize_pending(found, self._waiting(), self.moment()))

    def collect(self) -> Iterator[Metric]:
        """Yield how many subjects and findings wait, and how many tokens are left."""
        yield from collect_state(self.state())
        yield from self._controller.evaluator.collect()
        yield from self._controller.gates.collect(self._clock())
        yield collect_modes(self._controller.config)
        if self._controller.migrations is not None:
            yield from self._controller.migrations.collect()

    def state(self) -> PublicState:
        """Say in one word, and in a sentence, what the controller does now."""
        return self._controller.pauses.state()

    def brake_states(self) -> tuple[BrakeState, ...]:
        """Return every brake that holds evictions now."""
        return tuple(self._controller.gates.brakes.states(self._clock()))

    def describe_brakes(self) -> dict[str, str]:
        """Say each brake in force to a person, as it is for the cluster of now."""
        settings = self._controller.config.controller.brakes
        return self._controller.gates.brakes.describe(settings)

    def limit_status(self) -> LimitStatus:
        """Return what every limit allows now."""
        return self._controller.gates.limit_status(self._clock())

    def warm_up_ratio(self) -> float:
        """Return the share of the rates that counts now: 1 when warmed up."""
        return self._controller.gates.rate_limiter.warm_up_ratio_at(self._clock())

    def describe_moves(self) -> dict[str, str]:
        """Say to a person how many pods may be moving, and how long they are left alone."""
        return self._controller.config.controller.moves.describe()

    def describe_limits(self) -> dict[str, str]:
        """Say each limit in force to a person, as it is for the cluster of now."""
        config, nodes = self._controller.config, self._controller.view.eligible_node_count
        return config.controller.budgets.describe(config.policy.limits, nodes)

    def is_busy(self) -> bool:
        """Say whether subjects wait for their evaluation now."""
        due = self._controller.foreseen_due(now := self._clock())
        return due is not None and due <= now

    def count_findings(self) -> dict[str, int | dict[str, int]]:
        """Count the findings since the start: of pods that left, or are leaving, others by gate."""
        blocked = self._controller.evaluator.queue.blocked_by_gate
        evicting = self._controller.ledger.count_decided_here()
        return {
            "findings": self._controller.evicted + evicting + sum(blocked.values()),
            "evicted": self._controller.evicted,
            "evicting": evicting,
            "blocked": blocked,
        }
