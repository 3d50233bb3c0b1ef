"""The real application, wired by its own composition root, running against the load server."""

import time
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import anyio

from bench.measure.director import Director, open_director
from bench.measure.hold import watch_loop_turns
from bench.measure.machine import Stopwatch, peak_rss_bytes, rss_bytes
from bench.measure.sampling import sampling
from bench.measure.stamps import StampingObserver
from bench.measure.target import Target
from reactive_desched.app.controller import open_controller
from reactive_desched.app.options import Dependencies
from reactive_desched.controller.controller import Controller
from reactive_desched.controller.subscriptions import AnyPlugin
from reactive_desched.controller.worker import Worker
from reactive_desched.kube.auth.kubeconfig import KubeConfigOptions
from reactive_desched.primitives.listen_address import ListenAddress
from reactive_desched.telemetry import logs
from reactive_desched.telemetry.deferred_log import DeferredLogger
from reactive_desched.telemetry.registry import MetricsRegistry

_POLL_INTERVAL_S = 0.002
_SYNC_TIMEOUT_S = 300
_ANY_PORT = ListenAddress("127.0.0.1", 0)


@dataclass
class RunningController:
    """The running application and what is known of its start."""

    controller: Controller
    worker: Worker
    stamps: StampingObserver
    director: Director
    target: Target
    sync: dict[str, object] = field(default_factory=dict)

    @property
    def plugins(self) -> list[AnyPlugin]:
        """Every plugin of the policy, made as the application makes them."""
        profiles = self.target.configuration().policy.profiles
        return [plugin for profile in profiles for plugin in profile.plugins]

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Name a part of the measurement, so that it can be profiled alone."""
        return sampling(phase=self.target.profile == name)

    async def wait_until_idle(self) -> None:
        """Return when nothing waits to be judged."""
        while self._is_due():  # noqa: ASYNC110  # the engine has no event for this
            await anyio.sleep(_POLL_INTERVAL_S)

    def _is_due(self) -> bool:
        now = time.monotonic()
        due = self.controller.evaluator.next_due(now)
        return due is not None and due <= now


@asynccontextmanager
async def run_controller(target: Target) -> AsyncIterator[RunningController]:
    """Start everything, wait for the first whole picture, and keep running for the block."""
    async with AsyncExitStack() as running:
        log_file = running.enter_context((target.folder / "log.json").open("w", encoding="utf-8"))
        logs.configure("info", "json", log_file)
        director = await running.enter_async_context(open_director(target.url, target.ca))
        stamps, parts = _dependencies(target)
        before, watch = rss_bytes(), Stopwatch()
        with watch_loop_turns() as loop_turns, sampling(phase=target.profile == "sync"):
            controller = await running.enter_async_context(open_controller(parts))
            await _wait_until_synced(controller.controller)
        results = RunningController(
            controller.controller, controller.pipeline.worker, stamps, director, target
        )
        results.sync = _sync_numbers(watch, before, target.pods)
        results.sync |= {"pods": len(results.controller.state.pods), "holds": loop_turns.summary()}
        watch.restart()
        await results.wait_until_idle()
        results.sync["first_sweep_cpu_s"] = round(watch.cpu_s, 3)
        yield results


def _dependencies(target: Target) -> tuple[StampingObserver, Dependencies]:
    log, metrics = DeferredLogger(logs.logger("bench"), time.time), MetricsRegistry()
    stamps = StampingObserver(metrics, log)
    parts = Dependencies(
        configuration=target.configuration(),
        kube=KubeConfigOptions(kubeconfig=target.kubeconfig()),
        journal_dir=target.journal,
        listen=_ANY_PORT,
        metrics=metrics,
        observer=stamps,
        log=log,
    )
    return stamps, parts


async def _wait_until_synced(core: Controller) -> None:
    with anyio.fail_after(_SYNC_TIMEOUT_S):
        await core.initial_sync_done.wait()


def _sync_numbers(watch: Stopwatch, before: int, pods: int) -> dict[str, object]:
    after = rss_bytes()
    return {
        "cpu_s": round(watch.cpu_s, 2),
        "wall_s": round(watch.wall_s, 2),
        "us_per_pod": round(watch.cpu_s / pods * 1e6, 1),
        "rss_mb": round(after / 1e6, 1),
        "peak_rss_mb": round(peak_rss_bytes() / 1e6, 1),
        "bytes_per_pod": round((after - before) / pods),
    }
