"""The real application, wired by its own composition root, running against the load server."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import anyio

from bench.measure.director import Director, open_director
from bench.measure.loop import watch_loop_turns
from bench.measure.machine import Stopwatch, peak_rss_bytes, rss_bytes
from bench.measure.sampling import sampling
from bench.measure.stamps import StampingObserver
from bench.measure.target import Target
from reactive_desched.app.controller import open_controller
from reactive_desched.app.options import Dependencies
from reactive_desched.controller.controller import Controller
from reactive_desched.controller.pipeline import Pipeline
from reactive_desched.journal.journal import Journal
from reactive_desched.kube.auth.kubeconfig import KubeConfigOptions
from reactive_desched.kube.watch.reflector import Reflector
from reactive_desched.policy.policy import AnyPlugin
from reactive_desched.primitives.listen_address import ListenAddress
from reactive_desched.telemetry import logs
from reactive_desched.telemetry.deferred_log import DeferredLogger
from reactive_desched.telemetry.metrics import Collector
from reactive_desched.telemetry.registry import MetricsRegistry

_POLL_INTERVAL_S = 0.01
_SYNC_TIMEOUT_S = 580
_QUIET_S, _QUIET_SHARE = 0.1, 0.1
"""The process is idle when it takes less than this share of a core for so long."""
_ANY_PORT = ListenAddress("127.0.0.1", 0)


class KeepingRegistry(MetricsRegistry):
    """The application's registry, which also keeps the parts whose counts the benchmark reads.

    `since_built` runs from when the reflectors are built: what the process does before, such as
    importing and reading credentials, belongs to its start. Evictions have both names of theirs.
    """

    def __init__(self) -> None:
        super().__init__(old_names=True)
        self.since_built = Stopwatch()
        self.reflectors: list[Reflector[Any]] = []
        self.journals: list[Journal] = []

    def register(self, *collectors: Collector) -> None:
        """Keep the reflectors and the journal besides."""
        super().register(*collectors)
        if built := [each for each in collectors if isinstance(each, Reflector)]:
            self.reflectors += built
            self.since_built.restart()
        self.journals += [each for each in collectors if isinstance(each, Journal)]


@dataclass
class RunningController:
    """The running application, and what its start cost."""

    pipeline: Pipeline
    stamps: StampingObserver
    metrics: KeepingRegistry
    director: Director
    target: Target
    url: str
    sync: dict[str, object] = field(default_factory=dict)

    @property
    def controller(self) -> Controller:
        """The controller itself."""
        return self.pipeline.controller

    @property
    def plugins(self) -> list[AnyPlugin]:
        """Every plugin of the policy, made as the application makes them."""
        profiles = self.target.configuration().policy.profiles
        return [plugin for profile in profiles for plugin in profile.plugins]

    @property
    def events_applied(self) -> int:
        """How many watch events of all kinds the reflectors have applied."""
        return sum(each.status.events for each in self.metrics.reflectors)

    @property
    def _records_written(self) -> int:
        return sum(each.records_written for each in self.metrics.journals)

    def profiled(self, part: str) -> AbstractContextManager[None]:
        """Name a part of the measurement, so that it can be profiled alone."""
        return sampling(phase=self.target.profile == part)

    async def wait_for_events(self, count: int) -> None:
        """Return when the reflectors have applied so many events since the start."""
        while self.events_applied < count:  # noqa: ASYNC110  # a reflector has no event for this
            await anyio.sleep(_POLL_INTERVAL_S)

    async def wait_until_idle(self) -> None:
        """Return when nothing waits to be judged."""
        while self._is_due():  # noqa: ASYNC110  # the engine has no event for this
            await anyio.sleep(_POLL_INTERVAL_S)

    async def settle(self, timeout_s: float, *, without: Sequence[str] = ()) -> str:
        """Wait until nothing is under way any more; return what still is after `timeout_s`.

        Every eviction has its outcome then, and the journal its records, as an outcome is on disk
        before it is settled; nothing is due, the process computes next to nothing, and the pods
        `without`, by uid, are gone.
        """
        until = time.monotonic() + timeout_s
        while reason := await self._work_left(without):
            if time.monotonic() > until:
                return f"{reason} after {timeout_s:g} s"
        return ""

    async def _work_left(self, without: Sequence[str]) -> str:
        """Look for work for a moment; say what was found."""
        watch, written = Stopwatch(), self._records_written
        await anyio.sleep(_QUIET_S)
        if self.stamps.evicting:
            return f"{self.stamps.evicting} evictions had no outcome"
        pods = self.controller.state.pods
        if left := sum(pods.get(uid) is not None for uid in without):
            return f"{left} evicted pods were not gone"
        if self._is_due():
            return "subjects were due"
        if self._records_written != written:
            return "the journal was still written"
        return "the process was busy" if watch.cpu_s > _QUIET_S * _QUIET_SHARE else ""

    def _is_due(self) -> bool:
        now = time.monotonic()
        due = self.controller.evaluator.next_due(now)
        return due is not None and due <= now


@asynccontextmanager
async def run_controller(target: Target) -> AsyncIterator[RunningController]:
    """Start everything, wait for the initial sync, and keep running for the block."""
    async with AsyncExitStack() as running:
        log_file = running.enter_context((target.folder / "log.json").open("w", encoding="utf-8"))
        logs.configure("info", "json", log_file)
        director = await running.enter_async_context(open_director(target.url, target.ca))
        metrics = KeepingRegistry()
        log = DeferredLogger(logs.logger("bench"), time.time)
        stamps = StampingObserver(metrics, log)
        dependencies = Dependencies(
            configuration=target.configuration(),
            kube=KubeConfigOptions(kubeconfig=target.kubeconfig()),
            journal_dir=target.journal,
            listen=_ANY_PORT,
            metrics=metrics,
            observer=stamps,
            log=log,
            recent=stamps.recent,
        )
        before, watch = rss_bytes(), metrics.since_built
        with (
            watch_loop_turns(same_work=True) if target.holds else nullcontext() as turns,
            sampling(phase=target.profile == "sync"),
        ):
            opened = await running.enter_async_context(open_controller(dependencies))
            await _wait_until_synced(opened.controller)
            sync = _sync_numbers(watch, before, target.pods)
        controller = RunningController(
            opened.pipeline, stamps, metrics, director, target, opened.url, sync
        )
        sync["pods"] = len(controller.controller.state.pods)
        if turns is not None:
            sync["holds"] = turns.summary()
        watch.restart()
        await controller.wait_until_idle()
        sync["first_sweep_cpu_s"] = round(watch.cpu_s, 3)
        yield controller


async def _wait_until_synced(core: Controller) -> None:
    with anyio.fail_after(_SYNC_TIMEOUT_S):
        await core.initial_sync_done.wait()


def _sync_numbers(watch: Stopwatch, before: int, pods: int) -> dict[str, object]:
    cpu_s, wall_s, after = watch.cpu_s, watch.wall_s, rss_bytes()
    return {
        "cpu_s": round(cpu_s, 3),
        "wall_s": round(wall_s, 3),
        "us_per_pod": round(cpu_s / pods * 1e6, 1),
        "rss_mb": round(after / 1e6, 1),
        "peak_rss_mb": round(peak_rss_bytes() / 1e6, 1),
        "bytes_per_pod": round((after - before) / pods),
    }
