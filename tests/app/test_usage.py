"""What the policy's plugins go by is polled into the controller, and follows a reload."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import anyio
import anyio.lowlevel
import msgspec
import pytest

from reactive_desched.api.usage_source import UsageSource
from reactive_desched.app import usage
from reactive_desched.app.config_reload import ActiveConfig
from reactive_desched.app.run_while import CHECK_INTERVAL_S
from reactive_desched.app.usage import UsagePolling, watch_while_followed
from reactive_desched.controller.turn_clocks import TurnClocks
from reactive_desched.errors import UsageUnavailable
from reactive_desched.kube.client.responses import ApiResponse
from reactive_desched.kube.watch.reflector import Reflector
from reactive_desched.model.changes import Change
from reactive_desched.model.usage import NodeUsage
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import load_sources
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.testing.builders import node, pod
from reactive_desched.web.health import CheckResult
from tests.support.manual_clock import ManualClock, wait_until
from tests.support.recording_logger import RecordingLogger
from tests.support.sample_changes import NodeUsageChanged, SampleChanges

pytestmark = pytest.mark.anyio

POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
%s
profiles:
- name: p
  plugins: {balance: {enabled: [LowNodeUtilization]}}
  pluginConfig:
  - name: LowNodeUtilization
    args:
      thresholds: {cpu: 20}
      targetThresholds: {cpu: 50}
%s
---
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
usage: {kubernetesMetrics: {interval: 10s, podInterval: 10s, smoothing: {agree: 1, weight: %s}}}
"""
PROVIDER = "metricsProviders: [{source: KubernetesMetrics}]"
BY_METRICS = "      metricsUtilization: {source: KubernetesMetrics}"


def configuration(
    provider: str = PROVIDER, args: str = BY_METRICS, weight: float = 1
) -> Configuration:
    return load_sources(
        [SourceText(POLICY % (provider, args, weight), "policy")], plugin_registry()
    )


class Session:
    """A metrics-server: every node uses as much."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.cpu = "100m"
        self.asked = 0
        self.answers = anyio.Event()
        self.answers.set()

    async def request(self, _method: str, path: str, **_: object) -> ApiResponse:
        self.asked += 1
        await self.answers.wait()
        moment = msgspec.json.encode(_time(self._clock.wall())).decode()
        head = '{"metadata":{},"items":[{"metadata":{"name":"%s","namespace":"default"},'
        if path.endswith("/nodes"):
            body = f'{head % "n1"}"timestamp":{moment},"usage":{{"cpu":"{self.cpu}"}}}}]}}'
        else:
            containers = '[{"name":"a","usage":{"cpu":"7m"}}]'
            body = f'{head % "a"}"timestamp":{moment},"containers":{containers}}}]}}'
        return ApiResponse(200, {}, body.encode())


def _time(wall_s: float) -> Any:  # a datetime
    from datetime import UTC, datetime

    return datetime.fromtimestamp(int(wall_s), UTC)


class Bench:
    """Polling into a cluster state; the controller keeps the changes it is given."""

    def __init__(self, config: Configuration) -> None:
        self.clock = ManualClock()
        self.state = ClusterState()
        self.state.keep_indexes([(SampleChanges, None)])
        self.state.upsert(node("n1"))
        self.state.upsert(pod("a", on="n1"))
        self.changes: list[Change] = []
        self.session = Session(self.clock)
        self.log = RecordingLogger()
        self.active = ActiveConfig(config)
        view = ClusterView(self.state, self.clock.wall)
        readiness = SimpleNamespace(synced=SimpleNamespace(is_set=lambda: True))
        controller = SimpleNamespace(
            state=self.state,
            apply=self._apply,
            view=view,
            readiness=readiness,
            clocks=TurnClocks(self.clock.now, self.clock.wall),
        )
        pipeline = SimpleNamespace(controller=controller, worker=SimpleNamespace(wake=lambda: None))
        self.polling = UsagePolling(
            self.active,
            cast("Any", pipeline),  # of a pipeline it uses the controller and the worker
            cast("Any", self.session),  # of a session it sends requests
            self.clock,
            Random(1),
            self.log,
        )

    def _apply(self, changes: Iterable[Change], _version: int) -> bool:
        self.changes += changes
        return True

    def samples(self) -> list[NodeUsage]:
        return list(self.state.store(NodeUsage))

    def cpu(self) -> list[int]:
        return [sample.usage["cpu"] for sample in self.samples()]

    async def run(self, steps: Callable[[], Any]) -> None:  # a coroutine
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.polling.run)
            await steps()
            tasks.cancel_scope.cancel()

    async def advance(self, seconds: float, until: Callable[[], bool]) -> None:
        with suppress(StopIteration):
            await wait_until(lambda: bool(self.clock.pending_waits_s))
        for _ in range(int(seconds)):
            self.clock.advance(1)
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
        await wait_until(until)


async def test_samples_reach_the_controller_with_the_pods_of_their_node() -> None:
    bench = Bench(configuration())

    async def steps() -> None:
        await wait_until(lambda: bool(bench.samples()))

    await bench.run(steps)
    (sample,) = bench.samples()
    assert (sample.usage, sample.pods) == ({"cpu": 100}, {"default/a": {"cpu": 7}})
    assert bench.changes == [NodeUsageChanged("n1", "KubernetesMetrics")]


async def test_metrics_say_how_polls_went_and_how_many_nodes_are_known() -> None:
    bench = Bench(configuration())
    found: dict[str, Any] = {}

    async def steps() -> None:
        await wait_until(lambda: bool(bench.samples()))
        await anyio.sleep(0.01)
        found.update({metric.family.name: metric.samples for metric in bench.polling.collect()})

    await bench.run(steps)
    assert found["usage_polls"] == {
        ("KubernetesMetrics", "ok"): 1,
        ("KubernetesMetrics", "incomplete"): 0,
        ("KubernetesMetrics", "failed"): 0,
    }
    assert found["usage_samples"] == {("KubernetesMetrics",): 1}


async def test_the_check_names_what_is_wrong_with_a_source() -> None:
    bench = Bench(configuration())
    bench.state.remove(node("n1"))
    bench.state.upsert(node("n2"))
    found: list[CheckResult] = []

    async def steps() -> None:
        await wait_until(lambda: bool(bench.samples()))
        await anyio.sleep(0.01)
        found.append(bench.polling.check())

    await bench.run(steps)
    assert not found[0].ok
    assert 'such as "n1"' in found[0].message
    assert bench.log.values_of("usage cannot be measured")[0]["source"] == "KubernetesMetrics"


async def test_a_source_is_not_well_before_it_has_answered() -> None:
    bench = Bench(configuration())
    bench.session.answers = anyio.Event()
    unanswered = CheckResult(ok=False, message="KubernetesMetrics: no answer yet")
    assert bench.polling.check() == unanswered

    async def steps() -> None:
        await wait_until(lambda: bool(bench.session.asked))
        assert bench.polling.check() == unanswered
        bench.session.answers.set()
        await wait_until(lambda: bench.polling.check().ok)
        assert bench.polling.check().message == "KubernetesMetrics: ok"

    await bench.run(steps)


def test_without_a_source_nothing_is_waited_for() -> None:
    check = Bench(configuration(provider="", args="")).polling.check()
    assert check == CheckResult(ok=True, message="no plugin goes by it")


@pytest.mark.parametrize(("problem", "fault"), [("no file", UsageUnavailable("no file"))])
async def test_a_source_that_cannot_be_opened_says_why(
    problem: str, fault: UsageUnavailable, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(configuration())

    @asynccontextmanager
    async def unopened(*_: object) -> AsyncIterator[list[UsageSource]]:
        raise fault
        yield []

    monkeypatch.setattr(usage, "open_sources", unopened)

    async def steps() -> None:
        await wait_until(lambda: bool(bench.log.values_of("usage cannot be measured")))
        assert bench.polling.check().message == f"KubernetesMetrics: {problem}"

    await bench.run(steps)


async def test_a_reload_that_changes_how_is_followed() -> None:
    bench = Bench(configuration())

    async def steps() -> None:
        await wait_until(lambda: bench.cpu() == [100])
        bench.active.replace(configuration(weight=0.5))
        bench.session.cpu = "200m"
        await bench.advance(30, lambda: bench.cpu() == [200])
        bench.session.cpu = "400m"
        await bench.advance(12, lambda: bench.cpu() == [300])

    await bench.run(steps)


@pytest.mark.parametrize(("provider", "args"), [(PROVIDER, ""), ("", BY_METRICS)])
async def test_a_reload_without_plugin_or_provider_ends_polling_and_drops_its_samples(
    provider: str, args: str
) -> None:
    bench = Bench(configuration())

    async def steps() -> None:
        await wait_until(lambda: bool(bench.samples()))
        bench.active.replace(configuration(provider, args))
        await bench.advance(2, lambda: bench.samples() == [])
        asked = bench.session.asked
        await bench.advance(30, lambda: True)
        assert bench.session.asked == asked

    await bench.run(steps)
    assert bench.changes == [
        NodeUsageChanged("n1", "KubernetesMetrics"),
        NodeUsageChanged("n1", "KubernetesMetrics"),
    ]


async def test_a_reload_of_something_else_polls_on() -> None:
    bench = Bench(configuration(weight=0.5))

    async def steps() -> None:
        await wait_until(lambda: bool(bench.samples()))
        bench.active.replace(configuration(weight=0.5))
        bench.session.cpu = "200m"
        await bench.advance(12, lambda: bench.cpu() == [150])

    await bench.run(steps)


@pytest.mark.parametrize(("provider", "args"), [(PROVIDER, ""), ("", BY_METRICS)])
async def test_what_no_plugin_reads_or_no_provider_gives_is_not_asked_for(
    provider: str, args: str
) -> None:
    bench = Bench(configuration(provider, args))

    async def steps() -> None:
        await bench.advance(20, lambda: True)

    await bench.run(steps)
    assert bench.session.asked == 0


class CountedReflector:
    """A reflector that only says whether it runs."""

    def __init__(self) -> None:
        self.runs = 0
        self.is_running = False

    async def run(self) -> None:
        self.runs, self.is_running = self.runs + 1, True
        try:
            await anyio.sleep_forever()
        finally:
            self.is_running = False

    async def stop(self) -> None:
        assert not self.is_running


async def test_measured_use_is_watched_while_a_plugin_goes_by_it() -> None:
    reflector, clock, is_followed = CountedReflector(), ManualClock(), [False]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(
            watch_while_followed, cast(Reflector[Any], reflector), lambda: is_followed[0], clock
        )
        seen = []
        for is_followed[0] in (False, True, True, False, True):
            await wait_until(lambda: bool(clock.pending_waits_s))
            clock.advance(CHECK_INTERVAL_S)
            await wait_until(lambda: bool(clock.pending_waits_s))
            await anyio.lowlevel.checkpoint()
            seen.append((reflector.is_running, reflector.runs))
        tasks.cancel_scope.cancel()

    assert seen == [(False, 0), (True, 1), (True, 1), (False, 1), (True, 2)]
