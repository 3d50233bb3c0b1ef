"""A check is asked now and then; an error keeps its last answer for a while."""

from random import Random

import anyio
import pytest

from reactive_desched.errors import UsageUnavailable
from reactive_desched.model.health import HealthAnswer, Symptom
from reactive_desched.text.causes import NO_ANSWER_YET
from reactive_desched.usage.health_poller import HealthPoller, HealthTimes
from tests.support.manual_clock import ManualClock
from tests.support.recording_logger import RecordingLogger

pytestmark = pytest.mark.anyio

WELL, SICK = HealthAnswer("x"), HealthAnswer("x", (Symptom({}, "7"),))
DOWN = UsageUnavailable("connection refused")
UNKNOWN = HealthAnswer("x", problem="connection refused")


class Source:
    """Answers as scripted; the last answer is given again and again."""

    def __init__(self, *answers: HealthAnswer | Exception) -> None:
        self.answers = list(answers)

    async def ask(self) -> HealthAnswer:
        await anyio.lowlevel.checkpoint()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class Polled:
    """A poller with its clock, and the answers that it handed on."""

    def __init__(self, source: Source, known: HealthAnswer | None = None) -> None:
        self.clock = ManualClock()
        self.taken: list[HealthAnswer] = []
        self.log = RecordingLogger()
        self.poller = HealthPoller(
            known or HealthAnswer("x", problem=NO_ANSWER_YET),
            source,
            self.taken.append,
            HealthTimes(interval_s=30.0, timeout_s=10.0, keep_answer_s=120.0),
            clock=self.clock,
            rng=Random(1),
            log=self.log,
        )

    async def poll(self, *after_s: float) -> None:
        for each in after_s or (0.0,):
            self.clock.advance(each)
            await self.poller.poll()


async def test_an_answer_is_handed_on_once_until_it_differs() -> None:
    polled = Polled(Source(WELL, WELL, SICK, SICK, WELL))

    await polled.poll(0, 30, 30, 30, 30)

    assert polled.taken == [WELL, SICK, WELL]
    assert polled.poller.results == {"ok": 5, "failed": 0}


async def test_errors_keep_the_last_answer_for_a_while_only() -> None:
    polled = Polled(Source(SICK, DOWN))

    await polled.poll(0, 30, 30, 30)
    assert (polled.taken, polled.poller.problem) == ([SICK], "connection refused")
    await polled.poll(31)

    assert polled.taken == [SICK, UNKNOWN]
    assert polled.poller.results == {"ok": 1, "failed": 4}


async def test_an_answer_between_errors_begins_that_time_again() -> None:
    polled = Polled(Source(WELL, DOWN, DOWN, WELL, DOWN, DOWN, DOWN))

    await polled.poll(0, 50, 50, 50, 50, 50)

    assert polled.taken == [WELL]


async def test_the_first_error_says_at_once_why_it_is_unknown() -> None:
    polled = Polled(Source(DOWN))

    await polled.poll()

    assert polled.taken == [UNKNOWN]


async def test_a_new_poller_goes_on_with_the_answer_that_counts() -> None:
    polled = Polled(Source(DOWN), known=SICK)

    await polled.poll(0, 100)
    assert polled.taken == []
    await polled.poll(30)

    assert polled.taken == [UNKNOWN]
