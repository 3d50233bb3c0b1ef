"""The real application, wired by its own composition root, running against the load server."""

import time
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import anyio

from bench.measure.director import Director, directing
from bench.measure.hold import watching
from bench.measure.machine import Stopwatch, peak_rss_bytes, rss_bytes
from bench.measure.sampling import sampling
from bench.measure.stamps import Stamps
from bench.measure.target import Target
from reactive_desched.app.controller import open_controller
from reactive_desched.app.options import Parts
from reactive_desched.controller.config import plan
from reactive_desched.controller.controller import Core
from reactive_desched.controller.subscriptions import AnyPlugin
from reactive_desched.kube.auth.kubeconfig import KubeConfig
from reactive_desched.primitives.listen_address import Listen
from reactive_desched.telemetry import logs
from reactive_desched.telemetry.deferred_log import LateLog
from reactive_desched.telemetry.metrics import Metrics

_LOOK_S = 0.002
_PATIENCE_S = 300
_ANY_PORT = Listen("127.0.0.1", 0)


@dataclass
class Live:
    """The running application and what is known of its start."""

    core: Core
    stamps: Stamps
    director: Director
    target: Target
    sync: dict[str, object] = field(default_factory=dict)

    @property
    def plugins(self) -> list[AnyPlugin]:
        """Every plugin of the policy, made as the application makes them."""
        read = self.target.configuration()
        profiles = plan(read.policy, read.settings).profiles
        return [plugin for profile in profiles for plugin in profile.plugins]

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Name a part of the measurement, so that it can be profiled alone."""
        return sampling(wanted=self.target.profile == name)

    async def settled(self) -> None:
        """Return when nothing waits to be judged."""
        while self._is_due():  # noqa: ASYNC110  # the engine has no event for this
            await anyio.sleep(_LOOK_S)

    def _is_due(self) -> bool:
        now = time.monotonic()
        due = self.core.engine.next_due(now)
        return due is not None and due <= now


@asynccontextmanager
async def live(target: Target) -> AsyncIterator[Live]:
    """Start everything, wait for the first whole picture, and keep running for the block."""
    async with AsyncExitStack() as running:
        log_file = running.enter_context((target.folder / "log.json").open("w", encoding="utf-8"))
        logs.configure("info", "json", log_file)
        director = await running.enter_async_context(directing(target.url, target.ca))
        stamps, parts = _parts(target)
        before, watch = rss_bytes(), Stopwatch()
        with watching() as holds, sampling(wanted=target.profile == "sync"):
            controller = await running.enter_async_context(open_controller(parts))
            await _synced(controller.core)
        found = Live(controller.core, stamps, director, target)
        found.sync = _numbers(watch, before, target.pods)
        found.sync |= {"pods": len(found.core.state.pods), "holds": holds.summary()}
        watch.restart()
        await found.settled()
        found.sync["first_sweep_cpu_s"] = round(watch.cpu_s, 3)
        yield found


def _parts(target: Target) -> tuple[Stamps, Parts]:
    log, metrics = LateLog(logs.logger("bench"), time.time), Metrics()
    stamps = Stamps(metrics, log)
    parts = Parts(
        configuration=target.configuration(),
        kube=KubeConfig(kubeconfig=target.kubeconfig()),
        journal_dir=target.journal,
        listen=_ANY_PORT,
        metrics=metrics,
        listener=stamps,
        log=log,
    )
    return stamps, parts


async def _synced(core: Core) -> None:
    with anyio.fail_after(_PATIENCE_S):
        while core.why_idle() is not None:  # noqa: ASYNC110  # the core has no event for this
            await anyio.sleep(_LOOK_S)


def _numbers(watch: Stopwatch, before: int, pods: int) -> dict[str, object]:
    after = rss_bytes()
    return {
        "cpu_s": round(watch.cpu_s, 2),
        "wall_s": round(watch.wall_s, 2),
        "us_per_pod": round(watch.cpu_s / pods * 1e6, 1),
        "rss_mb": round(after / 1e6, 1),
        "peak_rss_mb": round(peak_rss_bytes() / 1e6, 1),
        "bytes_per_pod": round((after - before) / pods),
    }
