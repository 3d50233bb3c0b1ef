"""The whole simulated cluster in one call: a populated store, its world, and its API server."""

import random
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
from msgspec import Struct

from reactive_desched.errors import ConfigError
from reactive_desched.sim.clock import HistoryClock, RealClock
from reactive_desched.sim.cluster import MOST_ENDED_PODS, ClusterOptions, SimCluster
from reactive_desched.sim.profiles import Pace
from reactive_desched.sim.scenarios import FRESH, LEAST_NODES, SCENARIOS, live_through
from reactive_desched.sim.scheduling.scores import LEAST_ALLOCATED
from reactive_desched.sim.seed import seed as seed_store
from reactive_desched.sim.seed import seed_api_service, seed_storage
from reactive_desched.sim.server import FaultPlan, kubeconfig, listening_socket, serve_on, url_of
from reactive_desched.sim.store import Store
from reactive_desched.sim.usage import SimulatedUsage
from reactive_desched.sim.workloads import populate

__all__ = ["Landscape", "Simulation", "serve_simulation", "simulation"]

_MOST_STARTED = 5_000


class Landscape(Struct, frozen=True, kw_only=True):
    """The contents of the simulated cluster when it opens; no nodes means an empty cluster."""

    nodes: int = 50
    pods: int = 1000
    zones: int = 3
    seed: int = 1
    pace: Pace = Pace(jitter_s=2.0)
    heartbeats: bool = True
    node_agents: bool = True
    scenario: str = FRESH
    """A name of `SCENARIOS`, or FRESH: then pods start while one watches."""
    scoring: str = LEAST_ALLOCATED
    """The scoring strategy of the scheduler."""
    most_ended_pods: int = MOST_ENDED_PODS
    """How many pods that ended are left."""
    uid_salt: int = 0
    """128 bits by which the uids of two clusters of one seed differ."""

    @property
    def is_prescheduled(self) -> bool:
        """Say whether pods are written as running: starting more than 5,000 would take long."""
        return self.pods > _MOST_STARTED


class Simulation(Struct, frozen=True, eq=False):
    """A running simulated cluster."""

    url: str
    kubeconfig: str
    store: Store
    cluster: SimCluster
    faults: FaultPlan


@asynccontextmanager
async def simulation(
    landscape: Landscape | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    on_listening: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[Simulation]:
    """Run a simulated cluster in real time; port 0 takes a free one.

    `on_listening` is called with the URL before the cluster is made: clients may connect then,
    and wait. Raises OSError when the address is taken, ConfigError for numbers without sense.
    """
    landscape = landscape or Landscape()
    if landscape.scenario != FRESH and landscape.nodes < LEAST_NODES:
        raise ConfigError(
            f"the scenario {landscape.scenario} needs {LEAST_NODES} nodes or more,"
            f" and {landscape.nodes} are asked for"
        )
    with listening_socket(host, port) as listener:
        url = url_of(listener)
        on_listening(url)
        async with _populated(landscape, url, listener) as running:
            yield running


@asynccontextmanager
async def _populated(
    landscape: Landscape, url: str, listener: socket.socket
) -> AsyncIterator[Simulation]:
    rng = random.Random(landscape.seed)  # noqa: S311 -- reproducible names, not secrets
    wall = RealClock()
    scenario = SCENARIOS.get(landscape.scenario)
    clock = HistoryClock(scenario.age_s, wall) if scenario else wall
    now = wall.now()
    store = Store(clock, rng, uid_salt=landscape.uid_salt)
    seed_store(store)
    if landscape.nodes:
        populate(
            store,
            nodes=landscape.nodes,
            pods=landscape.pods,
            zones=landscape.zones,
            seed=landscape.seed,
            prescheduled=landscape.is_prescheduled,
        )
    if scenario and isinstance(clock, HistoryClock):
        live_through(scenario, store, clock, rng, now, landscape.scoring)
        clock.go_live()
    options = ClusterOptions(
        pace=landscape.pace,
        heartbeats=landscape.heartbeats,
        node_agents=landscape.node_agents,
        records_starts=True,
        scoring=landscape.scoring,
        most_ended_pods=landscape.most_ended_pods,
        tolerant=True,
    )
    cluster = SimCluster(store, rng, options)
    cluster.settle()
    seed_api_service(store, *listener.getsockname()[:2])
    seed_storage(store)  # last: what was drawn for the names of pods stays the same
    faults, usage = FaultPlan(), SimulatedUsage(store, cluster.index)
    async with (
        serve_on(store, listener, faults=faults, usage=usage),
        anyio.create_task_group() as world,
    ):
        world.start_soon(cluster.run)
        if scenario and scenario.then:
            world.start_soon(scenario.then, store)
        yield Simulation(url, kubeconfig(url), store, cluster, faults)
        world.cancel_scope.cancel()
    cluster.close()


async def serve_simulation(
    landscape: Landscape | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    on_ready: Callable[[Simulation], None],
) -> None:
    """Run a simulated cluster until cancelled; `on_ready` is called once it answers requests."""
    async with simulation(landscape, host=host, port=port) as running:
        on_ready(running)
        await anyio.sleep_forever()
