"""LowNodeUtilization by metrics-server, in the virtual time of a simulated cluster."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from random import Random
from types import SimpleNamespace
from typing import Any, Final, cast

import anyio
import anyio.lowlevel
import msgspec
import pytest

from reactive_desched.app.config_reload import ActiveConfig
from reactive_desched.app.usage import UsagePolling
from reactive_desched.controller.turn_clocks import TurnClocks
from reactive_desched.kube.client.responses import ApiResponse
from reactive_desched.model.changes import Change
from reactive_desched.model.decisions import Evict
from reactive_desched.model.quantities import milli_value
from reactive_desched.plugins.low_node_utilization import (
    LowNodeUtilizationArgs,
    LowNodeUtilizationPlugin,
)
from reactive_desched.policy.settings.controller_settings import UsageSettings
from reactive_desched.policy.settings.moves import MoveSettings
from reactive_desched.sim.http.usage import metrics_answer
from reactive_desched.sim.objects import Obj, labels_of, name_of
from reactive_desched.sim.pods import phase_of
from reactive_desched.testing.scenario import plugin_from_policy
from reactive_desched.usage.metrics_server import MetricsServer
from tests.support.configurations import UNLIMITED_MOVES
from tests.support.descheduled import DescheduledCluster
from tests.support.recording_logger import RecordingLogger
from tests.support.sim_world import HOSTNAME, SimulatedCluster

INTERVAL_S: Final = 15
# A pod with a constraint of its own has none of the scheduler's default ones. This one never binds:
INDIFFERENT = {"maxSkew": 100, "topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule"}
TEN_MINUTES_S: Final = 600
TARGET_M: Final = 2400  # of the 4 cores of a node
OWN_CPU_M: Final = 100  # used by a node without any pod


class WorldClock:
    """The simulated cluster's clock."""

    def __init__(self, world: SimulatedCluster) -> None:
        self.now = self.wall = world.clock.now

    async def sleep(self, seconds: float) -> None:
        assert seconds == 0, "what polls once waits for nothing"
        await anyio.lowlevel.checkpoint()


class UseByApp:
    """What pods use of cpu, by their label app, in milli-cores; they use nothing else.

    `own_m` is what nodes use beside their pods.
    """

    def __init__(self, world: SimulatedCluster, **cpu_m: int) -> None:
        self._world = world
        self.cpu_m = cpu_m
        self.own_m: dict[str, int] = {}

    def node(self, name: str) -> Mapping[str, str]:
        pods = self._world.cluster.index.on_node(name)
        return _quantities(self.own_m.get(name, OWN_CPU_M) + sum(map(self._used, pods)))

    def pod(self, namespace: str, name: str) -> Sequence[tuple[str, Mapping[str, str]]] | None:
        assert namespace == "default"
        pod = self._world.get("pods", name)
        return [("main", _quantities(self._used(pod)))] if phase_of(pod) == "Running" else None

    def _used(self, pod: Obj) -> int:
        return self.cpu_m[labels_of(pod)["app"]] if phase_of(pod) == "Running" else 0


def _quantities(cpu_m: int) -> Mapping[str, str]:
    return {"cpu": f"{cpu_m}m", "memory": "0"}


class SimulatedMetricsServer:
    """Answers as the simulator does over HTTP; nodes in `unmeasured` are left out."""

    def __init__(self, world: SimulatedCluster, use: UseByApp) -> None:
        parts = SimpleNamespace(usage=use, store=world.store)
        self._answer = partial(metrics_answer, cast("Any", parts))  # of the parts it uses these
        self.unmeasured: set[str] = set()

    async def request(self, method: str, path: str, **_: object) -> ApiResponse:
        assert method == "GET"
        found = self._answer(path, "")
        assert found is not None
        kept = [each for each in found["items"] if name_of(each) not in self.unmeasured]
        return ApiResponse(200, {}, msgspec.json.encode({**found, "items": kept}))


class MeasuredCluster(DescheduledCluster):
    """Moves pods by what metrics-server measures, which is polled at the interval."""

    def __init__(
        self,
        world: SimulatedCluster,
        use: Mapping[str, int],
        *,
        moves: MoveSettings = UNLIMITED_MOVES,
        interval_s: int = INTERVAL_S,
        **smoothing: float,
    ) -> None:
        plugin = plugin_from_policy(
            LowNodeUtilizationPlugin,
            LowNodeUtilizationArgs,
            thresholds={"cpu": 30},
            targetThresholds={"cpu": 60},
            metricsUtilization={"source": "KubernetesMetrics"},
        )
        super().__init__(world, plugin, moves=moves)
        self.use = UseByApp(world, **use)
        self.server = SimulatedMetricsServer(world, self.use)
        clock = WorldClock(world)
        clocks = TurnClocks(clock.now, clock.wall)
        controller = SimpleNamespace(state=self.state, apply=self._take, clocks=clocks)
        pipeline = SimpleNamespace(controller=controller, worker=SimpleNamespace(wake=lambda: None))
        session = cast("Any", self.server)  # of a session it sends requests
        settings = UsageSettings.model_validate(
            {"kubernetesMetrics": {"interval": f"{interval_s}s", "smoothing": smoothing}}
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
        self._interval_s = interval_s
        self._next_poll_s = 0.0

    def run(self, seconds: float) -> "MeasuredCluster":
        """Let time pass; poll at the interval."""
        until = self.world.clock.now() + seconds
        while (now := self.world.clock.now()) < until:
            if now >= self._next_poll_s:
                self._next_poll_s = now + self._interval_s
                anyio.run(self._poller.poll)
            super().run(min(self._next_poll_s, until) - now)
        return self

    def _take(self, changes: list[Change], _version: int) -> bool:
        self.apply(changes)
        return True


def hot_node(cpu_m: int, **smoothing: Any) -> MeasuredCluster:
    """Return three nodes with 4 cores, of which n1 has all eight pods; each uses so much."""
    world = SimulatedCluster().nodes("n1")
    world.deployment("web", 8, cpu="100m")
    world.advance(30).nodes("n2", "n3").advance(30)
    return MeasuredCluster(world, {"web": cpu_m}, **smoothing)


@pytest.mark.parametrize("weight", [1, 0.27, 0.05])
def test_as_many_pods_leave_as_bring_the_node_to_its_target_however_slow_the_average(
    weight: float,
) -> None:
    """n1 uses 3.3 of 4 cores with its own 0.1; without three pods 2.1, below the target of 2.4."""
    cluster = hot_node(400, weight=weight).run(TEN_MINUTES_S)

    assert len(cluster.evicted) == 3
    assert cluster.pods_by_node("web")["n1"] == 5


def test_one_spike_moves_nothing_and_a_load_that_lasts_does() -> None:
    """The pods request a tenth of what they use in the spike."""
    cluster = hot_node(100).run(TEN_MINUTES_S)
    cluster.use.cpu_m["web"] = 480
    cluster.run(INTERVAL_S)
    cluster.use.cpu_m["web"] = 100
    assert cluster.run(TEN_MINUTES_S).evicted == []

    cluster.use.cpu_m["web"] = 480
    assert len(cluster.run(TEN_MINUTES_S).evicted) >= 4


def test_a_spike_in_the_first_sample_moves_nothing() -> None:
    cluster = hot_node(480).run(1)
    cluster.use.cpu_m["web"] = 100

    assert cluster.run(TEN_MINUTES_S).evicted == []


@pytest.mark.parametrize(("hysteresis", "moved"), [(0, 1), (5, 0)])
def test_with_hysteresis_a_node_that_hovers_at_its_threshold_moves_nothing(
    hysteresis: float, moved: int
) -> None:
    """n1 uses 59 % and 61 % in turn, each for a minute."""
    cluster = hot_node(283, hysteresis=hysteresis, weight=1)
    for _ in range(10):
        for cpu_m in (292, 283):
            cluster.use.cpu_m["web"] = cpu_m
            cluster.run(60)

    assert len(cluster.evicted) == moved


@pytest.mark.parametrize(
    "unmeasured", [{"n1"}, {"n2", "n3"}], ids=["the source", "the destinations"]
)
def test_a_node_that_is_not_measured_any_more_neither_gives_nor_takes(unmeasured: set[str]) -> None:
    cluster = hot_node(100).run(TEN_MINUTES_S)
    cluster.server.unmeasured = unmeasured
    cluster.run(130)  # older than maxAge
    cluster.use.cpu_m["web"] = 400
    assert cluster.run(TEN_MINUTES_S).evicted == []

    cluster.server.unmeasured = set()
    assert len(cluster.run(TEN_MINUTES_S).evicted) == 3


def test_a_pod_that_comes_back_with_its_name_is_not_moved_before_it_is_measured() -> None:
    """The scheduler spreads a workload, and puts its pods back."""
    world = SimulatedCluster().nodes("n1/a", "n2/b", "n3/b")
    world.pod("filler", cpu="100m", nodeName="n1")
    world.stateful_set("web", 3, {"podManagementPolicy": "Parallel"}, cpu="500m", memory="1Gi")
    cluster = MeasuredCluster(world.advance(30), {"filler": 2200, "web": 400}).run(TEN_MINUTES_S)

    assert 0 < len(cluster.evicted) <= TEN_MINUTES_S / 60 + 1


@pytest.mark.parametrize("chance", range(5))
def test_after_a_load_that_lasts_no_node_is_above_its_target_and_no_pod_moves_again(
    chance: int,
) -> None:
    """Pods of StatefulSets, whose names tell how often they moved, use what chance gives them."""
    rng = Random(chance)
    world = SimulatedCluster(chance=chance).nodes("n1", "n2")
    apps, parallel = ("web", "db", "queue", "cache"), {"podManagementPolicy": "Parallel"}
    for app in apps:
        own = {**INDIFFERENT, "labelSelector": {"matchLabels": {"app": app}}}
        spread = {"topologySpreadConstraints": [own]}
        world.stateful_set(app, rng.randint(4, 8), parallel, cpu="200m", **spread)
    world.advance(30).nodes("n3", "n4", "n5").advance(30)
    cluster = MeasuredCluster(world, dict.fromkeys(apps, 10)).run(120)

    cluster.use.cpu_m |= {app: rng.randrange(200, 350, 50) for app in apps}
    calm = cluster.run(TEN_MINUTES_S).evicted.copy()

    assert calm, "the load gave the plugin nothing to do"
    for node in world.store.list("nodes"):
        assert milli_value(cluster.use.node(name_of(node))["cpu"]) <= TARGET_M
    assert cluster.run(2 * TEN_MINUTES_S).evicted == calm
    assert max(Counter(calm).values(), default=0) <= 1, "a replacement moved"


HOT = ("n1", "n2")
HOUR_S: Final = 3600


def two_hot_nodes(moves: MoveSettings, interval_s: int = INTERVAL_S) -> MeasuredCluster:
    """Return six nodes of which two use much by themselves, whichever pods they have.

    The pods request alike and are spread evenly, so the scheduler puts a replacement onto a node
    that lost one: a hot one.
    """
    world = SimulatedCluster().nodes(*(f"n{number}" for number in range(1, 7)))
    apps = [f"app{number}" for number in range(8)]
    for app in apps:
        world.deployment(app, 6, cpu="200m")
    use = dict.fromkeys(apps, 30)
    cluster = MeasuredCluster(world.advance(60), use, moves=moves, interval_s=interval_s)
    cluster.use.own_m = dict.fromkeys(HOT, 3300)
    return cluster


def test_a_replacement_on_an_overloaded_node_does_not_count_as_a_move_that_helped() -> None:
    cluster = two_hot_nodes(MoveSettings()).run(TEN_MINUTES_S)

    assert {ended.end.node in HOT for ended in cluster.ended} == {True}
    assert not any(ended.end.helped for ended in cluster.ended)


def test_from_nodes_that_no_move_relieves_one_pod_leaves_at_a_time_and_ever_later() -> None:
    """The plugin expects them back, and tries one of them now and then all the same."""
    cluster = two_hot_nodes(MoveSettings(), interval_s=60).run(8 * HOUR_S)

    times = [at_s for at_s, _ in departures(cluster)]
    rests = [after - before for before, after in pairwise(times)]
    assert len(rests) >= 2, rests
    assert rests[0] >= HOUR_S
    for rest, next_rest in pairwise(rests):
        assert next_rest > 1.9 * rest, rests
    assert max(Counter(map(app_of, cluster.evicted)).values()) <= 4


def app_of(pod: str) -> str:
    return pod.partition("-")[0]


def departures(cluster: MeasuredCluster) -> list[tuple[float, str]]:
    """Return when each pod was evicted, and from which node."""
    evicting = [e for e in cluster.evaluations if isinstance(e.decision, Evict)]
    return [(e.decided_at, e.finding.pod.node) for e in evicting]
