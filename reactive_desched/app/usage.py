"""Polls the sources of measured use that the policy in force needs, into the controller."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from msgspec import Struct

from reactive_desched.api.usage_source import (
    SmoothingSettings,
    UsageSource,
    UsageSourceSettings,
)
from reactive_desched.app.config_reload import ActiveConfig
from reactive_desched.app.run_while import CHECK_INTERVAL_S, run_while
from reactive_desched.controller.pipeline import Pipeline
from reactive_desched.errors import UsageUnavailable
from reactive_desched.kube.client.clock import Clock
from reactive_desched.kube.client.session import Transport
from reactive_desched.kube.watch.reflector import Reflector
from reactive_desched.model.changes import Change
from reactive_desched.model.objects import Pod
from reactive_desched.model.usage import NodeUsage
from reactive_desched.model.utilization import capacity_of
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.policy import Policy
from reactive_desched.policy.settings.controller_settings import UsageSettings
from reactive_desched.telemetry.logs import Logger
from reactive_desched.telemetry.metrics import Metric, counter, gauge
from reactive_desched.text.causes import NO_ANSWER_YET
from reactive_desched.usage.poller import PollTimes, UsagePoller
from reactive_desched.usage.smoothing import Levels, Smoother, SmoothingRule
from reactive_desched.usage.sources import levels_by_source, open_sources, wanted_sources
from reactive_desched.web.health import CheckResult

POLLS = counter("usage_polls", "Polls of sources of measured use.", "source", "result")
SAMPLES = gauge("usage_samples", "Nodes with a sample that is not too old.", "source")


class MeasuredUse(Struct, frozen=True, rename="camel"):
    """A source of measured use: why it gives none, empty while it does."""

    source: str
    problem: str


class UsagePolling:
    """Polls every source that some plugin reads; begins again when a reload changes them."""

    def __init__(
        self,
        active: ActiveConfig,
        pipeline: Pipeline,
        session: Transport,
        clock: Clock,
        rng: Random,
        log: Logger,
    ) -> None:
        self._active = active
        self._pipeline = pipeline
        self._state = pipeline.controller.state
        self._session = session
        self._clock = clock
        self._rng = rng
        self._log = log
        self._levels_of: Policy | None = None
        self._levels: Mapping[str, Mapping[str, Levels]] = {}
        self._pollers: list[UsagePoller] = []
        self._opening_problem = ""
        self._ended: Counter[tuple[str, ...]] = Counter()

    def collect(self) -> Iterator[Metric]:
        """Yield how the polls went, and how many nodes have a sample."""
        counts = self._ended.copy()
        for poller in self._pollers:
            for result, count in poller.results.items():
                counts[poller.source.name, result] += count
        yield POLLS.by_labels(counts)
        by_source = Counter(
            sample.source for sample in self._state.store(NodeUsage) if self.is_node(sample.node)
        )
        yield SAMPLES.by_label({p.source.name: by_source[p.source.name] for p in self._pollers})

    def check(self) -> CheckResult:
        """Say what is wrong with each source that the policy in force needs."""
        return CheckResult.of_parts(self._problems(), "no plugin goes by it")

    def states(self) -> tuple[MeasuredUse, ...]:
        """Return the sources that the policy in force needs, each with what is wrong with it."""
        return tuple(MeasuredUse(*each) for each in self._problems().items())

    def _problems(self) -> dict[str, str]:
        polled = {each.source.name: each.problem for each in self._pollers}
        return {
            name: polled.get(name, self._opening_problem or NO_ANSWER_YET)
            for name in wanted_sources(self._active.configuration.policy)
        }

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            configuration = self._active.configuration
            self._drop_unwanted(wanted_sources(configuration.policy))
            try:
                await self._poll_until_reload(configuration)
            except UsageUnavailable as error:
                self._opening_problem = str(error)
                self._log.warning("usage cannot be measured", message=str(error))
                await self._clock.sleep(configuration.settings.usage.prometheus.interval_s)

    def make_poller(self, source: UsageSource, settings: UsageSettings) -> UsagePoller:
        """Return a poller that hands the samples of a source to the controller."""
        own = settings.of(source.name)
        return UsagePoller(
            source,
            self,
            Smoother(_rule(own.smoothing), self, measures_pods=source.measures_pods),
            _times(own),
            clock=self._clock,
            rng=self._rng,
            log=self._log,
        )

    # --- where samples go: a UsageState ---

    def samples(self, source: str) -> Sequence[NodeUsage]:
        """Return a snapshot of the samples of a source."""
        return [each for each in self._state.store(NodeUsage) if each.source == source]

    def upsert(self, sample: NodeUsage) -> None:
        """Store a sample in place of the last one."""
        with self._pipeline.controller.clocks.still():
            self._apply(self._state.upsert(sample))

    def remove(self, sample: NodeUsage) -> None:
        """Remove a sample: the use of its node is unknown."""
        with self._pipeline.controller.clocks.still():
            self._apply(self._state.remove(sample))

    def is_node(self, name: str) -> bool:
        """Say whether there is a node of this name."""
        return self._state.nodes.get(name) is not None

    def judged_nodes(self) -> Iterable[str]:
        """Name the eligible nodes; none before nodes are listed."""
        controller = self._pipeline.controller
        nodes = controller.view.nodes() if controller.readiness.synced.is_set() else ()
        return (node.name for node in nodes)

    # --- what smoothing asks: a MeasuredCluster ---

    def capacity(self, node: str, resource: str) -> int:
        """Return how much a node has of a resource; 0 if that is not known."""
        found = self._state.nodes.get(node)
        return 0 if found is None else capacity_of(found, resource) or 0

    def pods_on(self, node: str) -> Collection[Pod]:
        """Return the active pods of a node."""
        info = self._state.node_info(node)
        return () if info is None else info.active.values()

    def levels(self, source: str) -> Mapping[str, Levels]:
        """Return the thresholds of the policy in force for a source, by resource."""
        policy = self._active.configuration.policy
        if policy is not self._levels_of:
            self._levels_of, self._levels = policy, levels_by_source(policy)
        return self._levels.get(source, {})

    # --- inside ---

    async def _poll_until_reload(self, configuration: Configuration) -> None:
        policy, settings = configuration.policy, configuration.settings.usage
        async with open_sources(
            policy, settings, self._session, self._clock, self.pods_on
        ) as sources:
            self._opening_problem = ""
            self._pollers = [self.make_poller(source, settings) for source in sources]
            await run_while(
                lambda: _same_usage(configuration, self._active.configuration),
                self._clock,
                *(each.run for each in self._pollers),
            )
            self._count_ended()

    def _count_ended(self) -> None:
        for poller in self._pollers:
            for result, count in poller.results.items():
                self._ended[poller.source.name, result] += count
        self._pollers = []

    def _drop_unwanted(self, wanted: Sequence[str]) -> None:
        for sample in list(self._state.store(NodeUsage)):
            if sample.source not in wanted:
                self.remove(sample)

    def _apply(self, changes: list[Change]) -> None:
        if changes and self._pipeline.controller.apply(changes, 0):
            self._pipeline.worker.wake()


async def watch_while_followed(
    reflector: Reflector[Any], followed: Callable[[], bool], clock: Clock
) -> None:
    """Watch a kind while something reads it, and drop its objects after.

    Agents report use every minute for each node: without a plugin that is traffic for nothing. And
    few API servers serve the PodGroups of each system.
    """
    while True:
        await reflector.stop()
        while not followed():
            await clock.sleep(CHECK_INTERVAL_S)
        await run_while(followed, clock, reflector.run)


def _same_usage(old: Configuration, new: Configuration) -> bool:
    """Say whether a reload leaves the sources, and how they are asked, as they are."""
    if old is new:
        return True
    return (
        wanted_sources(old.policy) == wanted_sources(new.policy)
        and old.policy.metrics_providers == new.policy.metrics_providers
        and old.settings.usage == new.settings.usage
    )


def _rule(smoothing: SmoothingSettings) -> SmoothingRule:
    return SmoothingRule(
        agree=smoothing.agree,
        of=2 * smoothing.agree - 1 if smoothing.of is None else smoothing.of,
        window=smoothing.window,
        percentile=smoothing.percentile,
        weight=smoothing.weight,
        hysteresis=smoothing.hysteresis,
    )


def _times(settings: UsageSourceSettings) -> PollTimes:
    return PollTimes(settings.interval_s, settings.timeout_s, settings.max_age_s)
