"""A source is polled, its samples are smoothed and stored, and removed when they are too old."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from random import Random

import anyio
import pytest

from reactive_desched.errors import UsageUnavailable
from reactive_desched.model.objects import Pod
from reactive_desched.model.usage import NodeUsage
from reactive_desched.usage.poller import PollTimes, UsagePoller
from reactive_desched.usage.smoothing import Levels, Smoother, SmoothingRule
from tests.support.golden import Golden
from tests.support.manual_clock import ManualClock, wait_until
from tests.support.recording_logger import RecordingLogger

pytestmark = pytest.mark.anyio


Answer = dict[str, int] | list[tuple[str, int]] | Exception


class Source:
    """Answers as scripted, at last that nothing was measured."""

    name = "x"
    measures_pods = False

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.answers: list[Answer] = []
        self.asked_at: list[float] = []

    async def measure(self) -> Iterable[NodeUsage]:
        self.asked_at.append(self._clock.now())
        answer = self.answers.pop(0) if self.answers else {}
        if isinstance(answer, Exception):
            raise answer
        now_s = self._clock.wall()
        pairs = answer.items() if isinstance(answer, dict) else answer
        return [NodeUsage("x", node, {"cpu": cpu}, now_s) for node, cpu in pairs]


class State:
    """Keeps samples."""

    def __init__(self) -> None:
        self.stored: dict[str, NodeUsage] = {}
        self.nodes = {"n1", "n2"}

    def samples(self, source: str) -> Sequence[NodeUsage]:
        assert source == "x"
        return list(self.stored.values())

    def upsert(self, sample: NodeUsage) -> None:
        self.stored[sample.node] = sample

    def remove(self, sample: NodeUsage) -> None:
        del self.stored[sample.node]

    def is_node(self, name: str) -> bool:
        return name in self.nodes

    def judged_nodes(self) -> Iterable[str]:
        return self.nodes

    def capacity(self, _node: str, _resource: str) -> int:
        return 1000

    def pods_on(self, _node: str) -> Collection[Pod]:
        return ()

    def levels(self, _source: str) -> Mapping[str, Levels]:
        return {}

    def cpu(self) -> dict[str, int]:
        return {node: sample.usage["cpu"] for node, sample in self.stored.items()}


class Bench:
    """A poller with all that it needs."""

    def __init__(self, **rule: float) -> None:
        self.clock = ManualClock()
        self.source = Source(self.clock)
        self.state = State()
        self.log = RecordingLogger()
        self.poller = UsagePoller(
            self.source,
            self.state,
            Smoother(SmoothingRule(**rule), self.state, measures_pods=False),  # type: ignore[arg-type]  # as a test writes them
            PollTimes(interval_s=10, timeout_s=5, max_age_s=60),
            clock=self.clock,
            rng=Random(1),
            log=self.log,
        )

    async def poll(self, answer: Answer, later_s: float = 0) -> dict[str, int]:
        self.clock.advance(later_s)
        self.source.answers.append(answer)
        await self.poller.poll()
        return self.state.cpu()


async def test_samples_are_smoothed_and_stored() -> None:
    bench = Bench(weight=0.5)
    assert await bench.poll({"n1": 100, "n2": 7}) == {"n1": 100, "n2": 7}

    assert await bench.poll({"n1": 200}, later_s=10) == {"n1": 150, "n2": 7}


async def test_a_sample_that_is_too_old_is_removed_and_its_history_forgotten() -> None:
    bench = Bench(weight=0.5)
    await bench.poll({"n1": 100, "n2": 100})

    assert await bench.poll({"n2": 100}, later_s=60) == {"n1": 100, "n2": 100}
    assert await bench.poll({"n2": 100}, later_s=1) == {"n2": 100}
    assert await bench.poll({"n1": 300}, later_s=1) == {"n1": 300, "n2": 100}


async def test_a_failed_poll_keeps_what_is_young_and_is_logged_once() -> None:
    bench = Bench()
    await bench.poll({"n1": 100})
    for later_s in (10, 10, 10):
        assert await bench.poll(UsageUnavailable("down"), later_s) == {"n1": 100}

    assert await bench.poll(UsageUnavailable("down"), later_s=31) == {}
    assert bench.log.values_of("usage cannot be measured") == [{"source": "x", "message": "down"}]

    await bench.poll({"n1": 1})
    assert bench.log.values_of("usage is measured again") == [{"source": "x"}]
    assert bench.poller.results == {"ok": 2, "incomplete": 0, "failed": 4}


async def test_what_is_too_old_when_it_comes_is_not_stored() -> None:
    bench = Bench()

    class Late(Source):
        async def measure(self) -> Iterable[NodeUsage]:
            return [NodeUsage("x", "n1", {"cpu": 1}, self._clock.wall() - 61)]

    bench.poller.source.measure = Late(bench.clock).measure  # type: ignore[method-assign]  # the source answers late
    await bench.poller.poll()

    assert bench.state.stored == {}


async def test_a_source_that_does_not_answer_is_given_up() -> None:
    bench = Bench()

    async def hang() -> Iterable[NodeUsage]:
        await anyio.sleep_forever()
        return ()

    bench.source.measure = hang  # type: ignore[method-assign]  # it never answers
    bench.poller._times = PollTimes(10, 0.01, 60)
    await bench.poller.poll()

    assert bench.log.values_of("usage cannot be measured") == [
        {"source": "x", "message": "no answer within 0.01s"}
    ]


async def test_polls_come_at_the_interval_give_or_take_a_tenth() -> None:
    bench = Bench()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.poller.run)
        for polls in range(1, 6):
            await wait_until(lambda: bool(bench.clock.pending_waits_s))
            assert len(bench.source.asked_at) == polls
            bench.clock.advance(bench.clock.pending_waits_s[0])
            await wait_until(lambda polls=polls: len(bench.source.asked_at) > polls)  # type: ignore[misc]  # mypy cannot infer it
        tasks.cancel_scope.cancel()
    waits = [
        later - sooner
        for sooner, later in zip(bench.source.asked_at, bench.source.asked_at[1:], strict=False)
    ]

    assert all(9 <= wait <= 11 for wait in waits)
    assert len(set(waits)) > 1, "two replicas do not ask in step"


async def test_a_node_with_several_samples_is_unknown_and_named(golden: Golden) -> None:
    bench = Bench()
    await bench.poll({"n1": 100, "n2": 100})

    assert await bench.poll([("n1", 100), ("n1", 900), ("n2", 200)], later_s=10) == {"n2": 200}
    assert bench.poller.problem == golden()
    assert bench.log.values_of("usage cannot be measured") == [{"source": "x", "message": golden()}]
    assert bench.poller.results == {"ok": 1, "incomplete": 1, "failed": 0}

    assert await bench.poll({"n1": 100, "n2": 100}, later_s=10) == {"n1": 100, "n2": 100}
    assert bench.poller.problem == ""


async def test_samples_of_no_node_are_named_where_nodes_have_none(golden: Golden) -> None:
    bench = Bench()
    await bench.poll({"10.0.0.1:9100": 100, "10.0.0.2:9100": 100})

    assert bench.poller.problem == golden()


async def test_samples_of_a_node_that_is_gone_or_of_another_machine_are_no_problem() -> None:
    bench = Bench(agree=2, of=3)
    await bench.poll({"n1": 100, "n2": 100, "gone": 100})

    assert bench.poller.problem == ""
    assert bench.log.values_of("usage cannot be measured") == []


async def test_while_nodes_are_not_listed_no_sample_is_a_stranger_s() -> None:
    bench = Bench()
    bench.state.nodes = set()
    await bench.poll({"n1": 100})

    assert bench.poller.problem == ""
