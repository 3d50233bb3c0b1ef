"""A reloader over the files of a test, and all it said and did: `Bench(path).running()`."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Self

import anyio
import anyio.lowlevel

from reactive_desched.api.event import PolicyFile
from reactive_desched.app.config_reload import (
    ActiveConfig,
    ConfigReloader,
    Fingerprint,
    fingerprint,
)
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.load import load_files
from reactive_desched.telemetry.registry import MetricsRegistry
from tests.support.recording_logger import RecordingLogger

__all__ = ["HEAD", "SETTINGS", "ReloaderBench", "policy_text"]

HEAD: Final = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n"
SETTINGS: Final = "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"


def policy_text(name: str, more: str = "") -> str:
    """Write a policy whose only profile has this name; `more` comes before it."""
    return (
        f"{HEAD}{more}profiles:\n- name: {name}\n"
        "  plugins: {deschedule: {enabled: [RemovePodsViolatingNodeTaints]}}\n"
    )


class ReloaderBench:
    """A reloader that reads without threads, as those know no virtual time.

    It is its own source, controller and listener; `before_read` and `while_read` are called then.
    """

    def __init__(self, *paths: Path) -> None:
        self.paths = tuple(map(str, paths))
        self.before_read: Callable[[], None] = lambda: None
        self.while_read: Callable[[], None] = lambda: None
        self.configs: list[Configuration] = []
        self.notifications: list[tuple[str, Any]] = []
        self.logger = RecordingLogger()
        begun_with = fingerprint(self.paths)
        self.active = ActiveConfig(self._prepare())
        self.metrics = MetricsRegistry()
        self.metrics.register(self.active)
        self.reloader = ConfigReloader(self, begun_with, self.active, self, self, self.logger)
        self.reads = 0
        self.reading_s = 0.0

    def write(self, text: str) -> None:
        """Have the first of the files hold this."""
        Path(self.paths[0]).write_text(text, encoding="utf-8")

    def remove(self) -> None:
        """Remove the first of the files."""
        Path(self.paths[0]).unlink()

    def _prepare(self) -> Configuration:
        self.before_read()
        configuration = load_files(self.paths, plugin_registry())
        self.while_read()
        return configuration

    async def fingerprint(self) -> Fingerprint:
        """Identify what the files hold, as a source does."""
        await anyio.lowlevel.checkpoint()
        return fingerprint(self.paths)

    async def read(self) -> Configuration:
        """Read and count it, as a source does."""
        await anyio.lowlevel.checkpoint()
        self.reads += 1
        await anyio.sleep(self.reading_s)
        return self._prepare()

    def place(self) -> str:
        """Name a place, as a source does."""
        return "endless of slow_plugin.py"

    def reconfigure(self, config: Configuration) -> None:
        """Keep it, as a controller does."""
        self.configs.append(config)

    def policy_loaded(self, source: str, revision: str, files: Sequence[PolicyFile] = ()) -> None:
        """Hear of it, as an audience does."""
        self.notifications.append(("reloaded", (source, revision)))

    def policy_rejected(self, source: str, problems: tuple[str, ...]) -> None:
        """Hear of it, as an audience does."""
        self.notifications.append(("rejected", (source, problems)))

    @property
    def names(self) -> list[str]:
        """The name of the profile of every plan that was adopted."""
        return [plan.policy.profiles[0].name for plan in self.configs]

    @property
    def warnings(self) -> list[str]:
        """The lines that should be looked at."""
        return [line.event for line in self.logger.lines if line.level == "warning"]

    @property
    def exposition(self) -> str:
        """The metrics as they are served."""
        return self.metrics.exposition("")[0].decode()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Reload while the block lasts."""
        async with anyio.create_task_group() as group:
            group.start_soon(self.reloader.run)
            yield self
            group.cancel_scope.cancel()
