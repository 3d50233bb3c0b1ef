"""LowNodeUtilization by metrics-server, in the virtual time of a simulated cluster."""

from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any, Final, cast

import anyio
import anyio.lowlevel
import msgspec
import pytest

from reactive_desched.app.config_reload import ActiveConfig
from reactive_desched.app.usage import UsagePolling
from reactive_desched.kube.client.responses import ApiResponse
from reactive_desched.model.changes import Change
from reactive_desched.plugins.low_node_utilization import (
    LowNodeUtilizationArgs,
    LowNodeUtilizationPlugin,
)
from reactive_desched.policy.settings import UsageSettings
from reactive_desched.sim.http.usage import metrics_answer
from reactive_desched.sim.objects import Obj, name_of
from reactive_desched.sim.profiles import PREFIX
from reactive_desched.sim.usage import SimulatedUsage
from reactive_desched.testing.scenario import plugin_from_policy
from reactive_desched.usage.metrics_server import MetricsServer
from tests.support.descheduled import STEP_S, DescheduledCluster
from tests.support.log_book import RecordingLogger
from tests.support.sim_world import SimulatedCluster

INTERVAL_S: Final = 15
TEN_MINUTES_S: Final = 600
USE_CPU: Final = f"{PREFIX}usage-cpu"
NOTHING: Final = {USE_CPU: "0", f"{PREFIX}usage-memory": "0"}


class WorldClock:
    """The simulated cluster's clock."""

    def __init__(self, world: SimulatedCluster) -> None:
        self.now = self.wall = world.clock.now

    async def sleep(self, seconds: float) -> None:
        assert seconds == 0, "what polls once waits for nothing"
        await anyio.lowlevel.checkpoint()


class SimulatedMetricsServer:
    """Answers as the simulator does over HTTP; nodes in `unmeasured` are left out."""

    def __init__(self, world: SimulatedCluster) -> None:
        usage = SimulatedUsage(world.store, world.cluster.index)
        parts = SimpleNamespace(usage=usage, store=world.store)
        self._answer = partial(metrics_answer, cast("Any", parts))  # of the parts it uses these
        self.unmeasured: set[str] = set()

    async def request(self, method: str, path: str, **_: object) -> ApiResponse:
        assert method == "GET"
        found = self._answer(path, "")
        assert found is not None
        kept = [each for each in found["items"] if name_of(each) not in self.unmeasured]
        return ApiResponse(200, {}, msgspec.json.encode({**found, "items": kept}))


class MeasuredCluster(DescheduledCluster):
    """Moves pods by what metrics-server measures, which is polled every 15 seconds."""

    def __init__(self, world: SimulatedCluster, **smoothing: float) -> None:
        plugin = plugin_from_policy(
            LowNodeUtilizationPlugin,
            LowNodeUtilizationArgs,
            thresholds={"cpu": 30},
            targetThresholds={"cpu": 60},
            metricsUtilization={"source": "KubernetesMetrics"},
        )
        super().__init__(world, plugin)
        self.server = SimulatedMetricsServer(world)
        clock = WorldClock(world)
        controller = SimpleNamespace(state=self.state, apply=self._take)
        pipeline = SimpleNamespace(controller=controller, worker=SimpleNamespace(wake=lambda: None))
        session = cast("Any", self.server)  # of a session it sends requests
        settings = UsageSettings.model_validate(
            {"kubernetesMetrics": {"interval": f"{INTERVAL_S}s", "smoothing": smoothing}}
        )
        polling = UsagePolling(
            ActiveConfig(self.config),
            cast("Any", pipeline),  # of a pipeline it uses the controller and the worker
            session,
            clock,
            Random(1),
            RecordingLogger(),
        )
        source = MetricsServer(session, clock, polling.pods_on, pod_interval_s=60)
        self._poller = polling.make_poller(source, settings)
        self._next_poll_s = 0.0

    def run(self, seconds: float) -> "MeasuredCluster":
        """Let time pass; poll at the interval."""
        for _ in range(round(seconds / STEP_S)):
            if self.world.clock.now() >= self._next_poll_s:
                self._next_poll_s = self.world.clock.now() + INTERVAL_S
                anyio.run(self._poller.poll)
            super().run(STEP_S)
        return self

    def use(self, app: str, cpu: str) -> None:
        """Let each pod of a workload use so much, and its replacements as well."""

        def annotate(pod: Obj) -> Obj:
            pod["metadata"]["annotations"][USE_CPU] = cpu
            return pod

        for name in self.world.names(app):
            self.world.store.modify("pods", "default", name, annotate)

    def _take(self, changes: list[Change], _version: int) -> bool:
        self.apply(changes)
        return True


def hot_node(cpu: str = "400m", pods: int = 8) -> SimulatedCluster:
    """Return a world of three nodes with 4 cores, of which n1 has all pods."""
    world = SimulatedCluster().nodes("n1")
    annotations = {**NOTHING, USE_CPU: cpu}
    world.deployment("web", pods, cpu="100m", annotations=annotations)
    return world.advance(30).nodes("n2", "n3").advance(30)


@pytest.mark.parametrize("weight", [1, 0.27, 0.05])
def test_as_many_pods_leave_as_bring_the_node_to_its_target_however_slow_the_average(
    weight: float,
) -> None:
    """n1 uses 3.3 of 4 cores with its own 0.1; without three pods 2.1, below the target of 2.4."""
    cluster = MeasuredCluster(hot_node(), weight=weight).run(TEN_MINUTES_S)

    assert len(cluster.evicted) == 3
    assert cluster.pods_by_node("web")["n1"] == 5


def test_one_spike_moves_nothing_and_a_load_that_lasts_does() -> None:
    """The pods request a tenth of what they use in the spike."""
    cluster = MeasuredCluster(hot_node(cpu="100m")).run(TEN_MINUTES_S)
    cluster.use("web", "480m")
    cluster.run(INTERVAL_S)
    cluster.use("web", "100m")
    assert cluster.run(TEN_MINUTES_S).evicted == []

    cluster.use("web", "480m")
    assert len(cluster.run(TEN_MINUTES_S).evicted) >= 4


def test_a_spike_in_the_first_sample_moves_nothing() -> None:
    cluster = MeasuredCluster(hot_node(cpu="480m")).run(1)
    cluster.use("web", "100m")

    assert cluster.run(TEN_MINUTES_S).evicted == []


@pytest.mark.parametrize(("hysteresis", "moved"), [(0, 1), (5, 0)])
def test_with_hysteresis_a_node_that_hovers_at_its_threshold_moves_nothing(
    hysteresis: float, moved: int
) -> None:
    """n1 uses 59 % and 61 % in turn, each for a minute."""
    cluster = MeasuredCluster(hot_node(cpu="283m"), hysteresis=hysteresis, weight=1)
    for _ in range(10):
        for cpu in ("292m", "283m"):
            cluster.use("web", cpu)
            cluster.run(60)

    assert len(cluster.evicted) == moved


@pytest.mark.parametrize(
    "unmeasured", [{"n1"}, {"n2", "n3"}], ids=["the source", "the destinations"]
)
def test_a_node_that_is_not_measured_any_more_neither_gives_nor_takes(unmeasured: set[str]) -> None:
    cluster = MeasuredCluster(hot_node(cpu="100m")).run(TEN_MINUTES_S)
    cluster.server.unmeasured = unmeasured
    cluster.run(130)  # older than maxAge
    cluster.use("web", "400m")
    assert cluster.run(TEN_MINUTES_S).evicted == []

    cluster.server.unmeasured = set()
    assert len(cluster.run(TEN_MINUTES_S).evicted) == 3
