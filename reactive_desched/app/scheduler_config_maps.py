"""Reads the ConfigMaps in which the configurations of schedulers stand, again and again.

What they say goes into force as a changed file does, by the reload of the configuration: a text
that is refused keeps what is in force, and says so.
"""

from collections.abc import Awaitable, Callable, Collection
from typing import Final

from reactive_desched.app.config_reload import ConfigFiles
from reactive_desched.errors import ClusterError
from reactive_desched.kube.client.clock import Clock
from reactive_desched.policy.settings.scheduler import ConfigMapKey
from reactive_desched.telemetry.logs import Logger
from reactive_desched.text.causes import NO_ANSWER_YET
from reactive_desched.web.health import CheckResult

ReadKey = Callable[[ConfigMapKey], Awaitable[str]]
"""Returns what a ConfigMap says; raises ClusterError where it cannot be read."""

CHECK_S: Final = 1.0
"""How often it is looked which of them are due."""

REFRESH_S: Final = 10.0
"""Each is read so often, whether it could be read or not."""


class SchedulerConfigMaps:
    """Reads those that the settings name until cancelled, one after the other.

    Of one that cannot be read counts what was read last, and a warning says why, once for each
    reason; until one was read no node fits the pods that it may be about.
    """

    def __init__(self, files: ConfigFiles, read: ReadKey, clock: Clock, log: Logger) -> None:
        self._files = files
        self._read = read
        self._clock = clock
        self._log = log
        self._due: dict[ConfigMapKey, float] = {}
        self._problems: dict[ConfigMapKey, str] = {}
        self._were_read: Collection[ConfigMapKey] = frozenset()

    def check(self) -> CheckResult:
        """Say what is wrong with each."""
        problems = {
            str(key): self._problems.get(key, "" if key in self._were_read else NO_ANSWER_YET)
            for key in self._files.wanted
        }
        found = CheckResult.of_parts(problems, "no scheduler has one")
        return found._replace(is_well=found.ok)

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            await self.poll()
            await self._clock.sleep(CHECK_S)

    async def poll(self) -> None:
        """Read those that are due."""
        wanted = self._files.wanted
        self._due = {key: self._due.get(key, 0.0) for key in wanted}
        self._problems = {key: self._problems[key] for key in wanted if key in self._problems}
        for key in wanted:
            if self._clock.now() >= self._due[key]:
                await self._read_one(key)
                self._due[key] = self._clock.now() + REFRESH_S

    async def _read_one(self, key: ConfigMapKey) -> None:
        before = self._problems.pop(key, "")
        try:
            text = await self._read(key)
        except ClusterError as error:
            problem = self._problems[key] = str(error)
            if problem != before:
                counts = (
                    "what was read last counts"
                    if key in self._were_read
                    else "no node fits the pods that it may be about until it is read"
                )
                self._log.warning(
                    "the configuration of a scheduler cannot be read",
                    message=f"{problem}; {counts}",
                )
            return
        if before:
            self._log.info("the configuration of a scheduler can be read again", message=str(key))
        self._were_read = {*self._were_read, key}.intersection(self._files.wanted)
        self._files.put(key, text)
