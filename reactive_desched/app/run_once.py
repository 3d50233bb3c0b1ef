"""`run --once`: one sweep over a live cluster by upstream's rules of a cycle, and then the end.

The exit status tells: 0 when the sweep was completed, whatever it decided and whatever disruption
budgets said; 1 when it was stopped, or an eviction failed for another reason.
"""

import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime

import anyio
import msgspec

from reactive_desched.app.config_reload import InForce
from reactive_desched.app.controller import open_cluster, open_records, run_events
from reactive_desched.app.gc import settle_open_intents
from reactive_desched.app.options import Options, Parts, make_parts, make_plan
from reactive_desched.app.telemetry_observer import Reporter
from reactive_desched.controller.controller import Ledger, Listener, Plan, account_of
from reactive_desched.controller.evaluation import Cause, Judgement
from reactive_desched.controller.subscriptions import AnyPlugin, Instance
from reactive_desched.errors import ConfigError
from reactive_desched.eviction.dry_run import Rehearsal
from reactive_desched.eviction.executor import Means
from reactive_desched.fit.scheduler import SchedulerFit
from reactive_desched.fit.upstream import SCHEDULER, UPSTREAM
from reactive_desched.kube.client.evictor import ApiEvictor
from reactive_desched.model.changes import Resynced
from reactive_desched.model.decisions import Decision, Evict
from reactive_desched.model.findings import Finding
from reactive_desched.model.intents import Intent
from reactive_desched.model.objects import Pod
from reactive_desched.model.outcomes import BUDGET_REFUSED, LEFT, REHEARSED, REPLACED, Outcome
from reactive_desched.model.subjects import OnePod
from reactive_desched.model.triggers import Trigger
from reactive_desched.plan.live import list_everything
from reactive_desched.plan.progress import Progress
from reactive_desched.plan.snapshot import Picture
from reactive_desched.state.cluster import OWNERS, RESOURCES, STORAGE, going_without
from reactive_desched.state.view import ClusterView
from reactive_desched.sweep.cycle import Cycle, Decided
from reactive_desched.sweep.thresholds import check_thresholds
from reactive_desched.telemetry import logs
from reactive_desched.telemetry.logs import Log
from reactive_desched.telemetry.sig_compat import UpstreamMetrics
from reactive_desched.web.health import Health
from reactive_desched.web.server import serve

COMPLETED, NOT_COMPLETED = 0, 1
TOLD_WITHIN_S = 10.0
"""How long the Events of what was done may take to be written at the end."""

_FINE = LEFT | {BUDGET_REFUSED, REPLACED}
"""Outcomes that are nobody's failure: it left, may not leave yet, or was another pod by then."""

_SAID = {REHEARSED: "would_evict"}
"""What the last line calls them, if not by their own name."""

WhyStop = Callable[[], str | None]


def run(options: Options) -> int:
    """Sweep once and return the exit status.

    Raises ConfigError where something a person wrote is wrong, and CannotLook when the cluster
    cannot be looked at whole; then nothing was evicted.
    """
    return anyio.run(_until_done, make_parts(options))


async def _until_done(parts: Parts) -> int:
    log, stop = logs.logger("sweep"), _Stop()
    async with (
        _served(parts, log),
        open_cluster(parts) as session,
        run_events(session, log, TOLD_WITHIN_S) as events,
        open_records(parts, events, InForce(parts.configuration), log) as books,
        anyio.create_task_group() as beside,
    ):
        beside.start_soon(stop.when_told)
        journal, ledger, asker = books.journal, books.ledger, ApiEvictor(session)
        await settle_open_intents(lambda _: None, ledger, asker, log)
        node_fit = parts.node_fit or UPSTREAM
        needed = [r for r in RESOURCES if node_fit == SCHEDULER or r not in STORAGE]
        picture = await list_everything(session, needed, Progress(), dispensable=OWNERS)
        sweep = Sweep(
            make_plan(parts.configuration),
            Means(ledger, Rehearsal() if parts.dry_run else asker, time.monotonic),
            ledger,
            Reporter(parts.metrics, log),
            lambda: stop.reason or journal.reason or None,
            parts.metrics.upstream,
            node_fit,
        )
        _tell_of(picture, parts, log)
        status = await sweep.over(picture, log)
        beside.cancel_scope.cancel()
    return status


class Sweep:
    """Drives a cycle: tells what it decides, and carries out its evictions one after the other.

    Nothing more is begun once `why_stop` gives a reason.
    """

    def __init__(
        self,
        plan: Plan,
        means: Means,
        ledger: Ledger,
        listener: Listener,
        why_stop: WhyStop,
        timings: UpstreamMetrics,
        node_fit: str = UPSTREAM,
    ) -> None:
        self._node_fit = node_fit
        self._plan = plan
        self._means = means
        self._ledger = ledger
        self._listener = listener
        self._why_stop = why_stop
        self._timings = timings
        self._instances = {
            (profile.name, plugin.name): Instance(profile.name, plugin, _DecidedAlready())
            for profile in plan.profiles
            for plugin in profile.plugins
        }
        self._results: Counter[str] = Counter()

    async def over(self, picture: Picture, log: Log) -> int:
        """Sweep a picture of the cluster once and return the exit status.

        Raises ConfigError when the policy names a PriorityClass that the cluster does not have.
        """
        begun, state = time.monotonic(), picture.state(self._plan.selects)
        view = ClusterView(state, time.time)
        check_thresholds(self._plan.profiles, view)
        fit = SchedulerFit(view, time.monotonic) if self._node_fit == SCHEDULER else None
        cycle = Cycle(self._plan, state, view, fit, around=self._timed)
        if (skipped := cycle.why_not()) is not None:
            log.warning("nothing to do", because=skipped)
        await self._drive(cycle, view)
        self._timings.cycle_took(time.monotonic() - begun)
        stopped = self._why_stop()
        counts = {_SAID.get(result, result): n for result, n in sorted(self._results.items())}
        log.info("swept", stopped=stopped, **counts)
        return NOT_COMPLETED if stopped or self._results.keys() - _FINE - {"refused"} else COMPLETED

    async def _drive(self, cycle: Cycle, view: ClusterView) -> None:
        """Go from decision to decision; the cycle hears what became of each."""
        steps = cycle.run()
        decided = next(steps, None)
        while decided is not None and self._why_stop() is None:
            left = await self._act(decided, view)
            try:
                decided = steps.send(left)
            except StopIteration:
                return

    async def _act(self, decided: Decided, view: ClusterView) -> bool:
        """Write down and carry out one decision; returns whether its pod left."""
        judgement = self._judgement(decided)
        account = msgspec.structs.replace(account_of(judgement, view), trigger=Trigger("Sweep"))
        self._ledger.decided(account, decided.decision)
        self._listener.judged(judgement)
        if not isinstance(decided.decision, Evict):
            self._results["refused"] += 1
            return False
        intent = Intent(account, self._plan.grace_period_s)
        outcome, asked_at = await self._means.carry_out(intent, self._why_stop)
        self._listener.ended(judgement, outcome, asked_at)
        self._results[outcome.result] += 1
        return outcome.result in LEFT

    def _judgement(self, decided: Decided) -> Judgement:
        now, finding = time.monotonic(), decided.finding
        key = self._instances[decided.profile, finding.plugin], OnePod(finding.pod.key)
        return Judgement(key, decided.decision, Cause(Resynced(), now), now)

    @contextmanager
    def _timed(self, profile: str, plugin: AnyPlugin) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        finally:
            self._timings.plugin_took(profile, plugin.name, time.monotonic() - begun)


class _DecidedAlready:
    """Stands where a gate would: in a sweep the cycle has decided."""

    def decide(self, finding: Finding, _: float) -> Decision:
        raise AssertionError(f"nobody asks a second time about {finding.pod}")

    def settled(self, pod: Pod, outcome: Outcome, now: float) -> None:
        """Remember nothing: the cycle counts."""


class _Stop:
    """Why to stop before the end: somebody asked for it."""

    def __init__(self) -> None:
        self.reason: str | None = None

    async def when_told(self) -> None:
        """Wait for a signal and remember it."""
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for number in signals:
                self.reason = f"asked to stop by {signal.Signals(number).name}"


def _tell_of(picture: Picture, parts: Parts, log: Log) -> None:
    """Say what is looked at: a sweep is worth no more than its picture."""
    policy = parts.configuration.policy
    for unread in picture.unread:
        log.warning("skipped an object", kind=unread.kind, name=unread.name, reason=unread.reason)
    for resource, reason in picture.refused.items():
        log.warning(going_without(resource), resource=resource, because=reason)
    log.info(
        "looking at",
        nodes=len(picture.nodes),
        pods=len(picture.pods),
        policy=policy.source,
        revision=policy.revision,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        dry_run=parts.dry_run,
    )


@asynccontextmanager
async def _served(parts: Parts, log: Log) -> AsyncIterator[None]:
    """Serve health and metrics meanwhile, as probes expect; whoever has the address may keep it."""
    served = serve(
        parts.listen, Health(time.monotonic), parts.metrics if parts.serve_metrics else None
    )
    try:
        await served.__aenter__()
    except ConfigError as error:
        log.warning("health and metrics are not served", because=str(error))
        yield
        return
    try:
        yield
    finally:
        await served.__aexit__(None, None, None)
