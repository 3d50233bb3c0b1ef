"""Polls sources of measured use, and keeps the cluster state's samples smoothed and young."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from random import Random
from typing import Final, Protocol

import anyio
from msgspec import Struct

from reactive_desched.api.usage_source import UsageSource
from reactive_desched.errors import UsageUnavailable
from reactive_desched.kube.client.clock import Clock
from reactive_desched.kube.watch.yielding import Yielder
from reactive_desched.model.usage import NodeUsage
from reactive_desched.telemetry.logs import Logger
from reactive_desched.text.counts import format_count
from reactive_desched.usage.repeated_poll import RepeatedPoll
from reactive_desched.usage.smoothing import Smoother

__all__ = ["PollTimes", "UsagePoller", "UsageState"]

_STEPS_PER_SLICE: Final = 20


class UsageState(Protocol):
    """Takes samples into the cluster state, and the changes by them into the controller."""

    def samples(self, source: str) -> Sequence[NodeUsage]:
        """Return a snapshot of the samples of a source."""
        ...

    def upsert(self, sample: NodeUsage) -> None:
        """Store a sample in place of the last one."""
        ...

    def remove(self, sample: NodeUsage) -> None:
        """Remove a sample: the use of its node is unknown."""
        ...

    def is_node(self, name: str) -> bool:
        """Say whether there is a node of this name."""
        ...

    def judged_nodes(self) -> Iterable[str]:
        """Name the nodes that plugins look at; none while the nodes are not listed."""
        ...


class PollTimes(Struct, frozen=True):
    """The interval, timeout and greatest age of samples of a source, in seconds."""

    interval_s: float
    timeout_s: float
    max_age_s: float


class UsagePoller(RepeatedPoll):
    """Polls one source until cancelled.

    A failed poll keeps the samples that are not too old; it is logged when its reason changes. So
    is an answer that does not say what some nodes use, and the use of these is unknown: several
    samples for one node, or samples of no node while nodes have none.
    """

    def __init__(
        self,
        source: UsageSource,
        state: UsageState,
        smoother: Smoother,
        times: PollTimes,
        *,
        clock: Clock,
        rng: Random,
        log: Logger,
    ) -> None:
        results = {"ok": 0, "incomplete": 0, "failed": 0}
        super().__init__(results, times.interval_s, clock, rng)
        self.source: Final = source
        self._state = state
        self._smoother = smoother
        self._times = times
        self._log = log

    async def poll(self) -> None:
        """Ask once, store what is new, and remove what is too old."""
        try:
            with anyio.fail_after(self._times.timeout_s):
                samples = await self.source.measure()
        except (UsageUnavailable, TimeoutError) as error:
            self._report(str(error) or f"no answer within {self._times.timeout_s:g}s", "failed")
            self._expire()
            return
        problem = await self._take_in(samples)
        self._expire()
        self._report(problem, "incomplete" if problem else "ok")

    async def _take_in(self, samples: Iterable[NodeUsage]) -> str:
        """Store samples; say what is wrong with the answer, if something is."""
        several = _measured_twice(samples)
        answered: set[str] = set()
        yielder = Yielder(self._clock, _STEPS_PER_SLICE)
        for sample in samples:
            answered.add(sample.node)
            if sample.node in several:
                continue
            smoothed = self._smoother.take(sample, self._clock.wall())
            if smoothed is not None and not self._is_old(smoothed):
                self._state.upsert(smoothed)
            if yielder.slice_over():
                await yielder.yield_now()
        if not several:
            return self._strangers_problem(answered)
        for sample in self._state.samples(self.source.name):
            if sample.node in several:
                self._state.remove(sample)
        nodes = format_count(len(several), "node", "has", "have")
        return (
            f"{nodes} several samples, such as {min(several)}: their use is unknown until there is"
            " one for each node"
        )

    def _strangers_problem(self, answered: Collection[str]) -> str:
        """Say that samples are of no node, where nodes have none.

        Samples of a node that is gone come for a while: they alone are no problem.
        """
        strangers = sorted(name for name in answered if not self._state.is_node(name))
        if not strangers:
            return ""
        unmeasured = sorted(name for name in self._state.judged_nodes() if name not in answered)
        if not unmeasured:
            return ""
        samples = format_count(len(strangers), "sample", "is", "are")
        nodes = format_count(len(unmeasured), "node", "has", "have")
        return (
            f'{samples} of no node, such as "{strangers[0]}", and {nodes} none, such as'
            f" {unmeasured[0]}: a sample must have the name of its node"
        )

    def _expire(self) -> None:
        self._smoother.forget_before(self._clock.wall() - self._times.max_age_s)
        for sample in self._state.samples(self.source.name):
            if self._is_old(sample):
                self._state.remove(sample)

    def _is_old(self, sample: NodeUsage) -> bool:
        return sample.is_older(self._times.max_age_s, self._clock.wall())

    def _report(self, problem: str, result: str) -> None:
        self._results[result] += 1
        if problem == self._problem:
            return
        self._problem = problem
        if problem:
            self._log.warning("usage cannot be measured", source=self.source.name, message=problem)
        else:
            self._log.info("usage is measured again", source=self.source.name)


def _measured_twice(samples: Iterable[NodeUsage]) -> Collection[str]:
    """Name the nodes with several samples; a source that makes them one by one has one of each."""
    if not isinstance(samples, Collection):
        return ()
    counted = Counter(sample.node for sample in samples)
    return {node for node, count in counted.items() if count > 1}
