"""Asks the health checks of the settings in force, and gives the controller their answers."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from random import Random

from reactive_desched.app.config_reload import ActiveConfig
from reactive_desched.app.input_notes import InputNotes
from reactive_desched.app.run_while import run_while
from reactive_desched.controller.controller import Controller
from reactive_desched.errors import UsageUnavailable
from reactive_desched.kube.client.clock import Clock
from reactive_desched.model.health import HealthAnswer
from reactive_desched.policy.settings.health import HealthCheckSettings
from reactive_desched.recording.items import NO_TIME, HealthAnswered
from reactive_desched.telemetry.logs import Logger
from reactive_desched.telemetry.metrics import Metric, counter
from reactive_desched.text.causes import NO_ANSWER_YET
from reactive_desched.usage.health_poller import HealthPoller, HealthTimes
from reactive_desched.usage.health_sources import open_health_source
from reactive_desched.web.health import CheckResult

ASKED = counter(
    "health_check_polls",
    "Questions of health checks, by whether they were answered.",
    "check",
    "result",
)


class HealthChecks:
    """Asks every check of the settings; begins again when a reload changes them."""

    def __init__(
        self,
        active: ActiveConfig,
        controller: Controller,
        notes: InputNotes,
        clock: Clock,
        rng: Random,
        log: Logger,
    ) -> None:
        self._active = active
        self._controller = controller
        self._notes = notes
        self._clock = clock
        self._rng = rng
        self._log = log
        self._pollers: dict[str, HealthPoller] = {}
        self._ended: Counter[tuple[str, ...]] = Counter()

    def collect(self) -> Iterator[Metric]:
        """Yield how the questions went."""
        counts = self._ended.copy()
        counts.update(self._counts())
        yield ASKED.by_labels(counts)

    def check(self) -> CheckResult:
        """Say what is wrong with the last answer to each check."""
        asked = {name: each.problem for name, each in self._pollers.items()}
        problems = {each.name: asked.get(each.name, NO_ANSWER_YET) for each in self._checks}
        return CheckResult.of_parts(problems, "none asks a server")

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            checks = self._checks
            await run_while(
                partial(self._asks_as, checks),
                self._clock,
                *(partial(self._ask, each) for each in checks),
            )
            self._ended.update(self._counts())
            self._pollers = {}

    @property
    def _checks(self) -> tuple[HealthCheckSettings, ...]:
        checks = self._active.configuration.settings.brakes.health
        return tuple(each for each in checks if each.asks_a_server)

    def _asks_as(self, checks: Sequence[HealthCheckSettings]) -> bool:
        """Say whether the settings in force ask what these checks do."""
        return [each.asks for each in self._checks] == [each.asks for each in checks]

    def _counts(self) -> Counter[tuple[str, ...]]:
        return Counter(
            {
                (name, result): count
                for name, each in self._pollers.items()
                for result, count in each.results.items()
            }
        )

    async def _ask(self, check: HealthCheckSettings) -> None:
        """Ask one check until cancelled."""
        while True:
            try:
                async with open_health_source(check, self._clock.wall) as source:
                    known = self._controller.pauses.health_answer(check.name)
                    poller = HealthPoller(
                        known,
                        source,
                        self._take,
                        HealthTimes(check.interval_s, check.timeout_s, check.keep_answer_s),
                        clock=self._clock,
                        rng=self._rng,
                        log=self._log,
                    )
                    self._pollers[check.name] = poller
                    await poller.run()
            except UsageUnavailable as error:
                self._take(HealthAnswer(check.name, problem=str(error)))
                await self._clock.sleep(check.interval_s)

    def _take(self, answer: HealthAnswer) -> None:
        with self._controller.clocks.still():
            self._notes.note(HealthAnswered(NO_TIME, answer.check, answer))
            self._controller.pauses.take_answer(answer)
