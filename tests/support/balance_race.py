"""Races the controller against repeated sweeps, from the same random cluster to the same target.

`python -m tests.support.balance_race --clusters 300` prints where the sweeps are better in
something and the controller in nothing. The simulated scheduler places what either evicts; sweeps
come every five minutes.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from random import Random
from statistics import fmean, pstdev
from typing import Final

from msgspec import Struct

from reactive_desched.model.decisions import Evict
from reactive_desched.plugins.low_node_utilization import (
    LowNodeUtilizationArgs,
    LowNodeUtilizationPlugin,
)
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.policy import AnyPlugin
from reactive_desched.policy.settings.guards import GuardSettings
from reactive_desched.policy.settings.limits import EvictionRateLimits
from reactive_desched.policy.settings.moves import MoveSettings
from reactive_desched.primitives.timers import DebounceConfig
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.sweep.cycle import Cycle
from reactive_desched.testing.scenario import plugin_from_policy
from tests.support.configurations import make_configuration, make_policy, make_profile_of
from tests.support.descheduled import DescheduledCluster
from tests.support.rounds import state_of
from tests.support.sim_world import SimulatedCluster

SWEEP_EVERY_S: Final = 300.0
SWEEPS: Final = 24
NODE_M: Final = 4000
"""The simulated nodes have four cores."""


class Result(Struct, frozen=True):
    """Where a race ended: what is used of each node, in per cent, and at what price.

    `target` is how much of a node may be used by the policy.
    """

    used: dict[str, float]
    evictions: int
    target: float

    @property
    def spread(self) -> float:
        """The standard deviation of the nodes' use."""
        return pstdev(self.used.values())

    @property
    def excess(self) -> float:
        """By how many points nodes are above the target, all together."""
        return sum(max(0.0, percent - self.target) for percent in self.used.values())

    @property
    def measures(self) -> tuple[float, float, int]:
        """What counts, less being better: how uneven, how far above the target, at what price.

        What differs by a rounding error is the same.
        """
        return round(self.spread, 6), round(self.excess, 6), self.evictions

    def __str__(self) -> str:
        used = " ".join(f"{name}={percent:.0f}" for name, percent in sorted(self.used.items()))
        return f"{used} after {self.evictions} evictions"


class Race(Struct, frozen=True):
    """One cluster: as it began, and what became of it by sweeps and by the controller."""

    seed: int
    began: Result
    by_sweeps: Result
    by_controller: Result

    @property
    def is_dominated(self) -> bool:
        """Say whether the sweeps are better in something, and the controller in nothing."""
        ours, theirs = self.by_controller, self.by_sweeps
        no_better = [
            mine >= their for mine, their in zip(ours.measures, theirs.measures, strict=True)
        ]
        return all(no_better) and ours.measures != theirs.measures

    @property
    def is_overfilled(self) -> bool:
        """Say whether the sweeps brought a node above the target that was within it."""
        began, target = self.began, self.began.target
        return any(began.used[n] <= target < used for n, used in self.by_sweeps.used.items())

    @property
    def is_won(self) -> bool:
        """Say whether the controller is as near to the target as the sweeps, and at what price.

        More evictions are worth it only where it came nearer.
        """
        ours, theirs = self.by_controller, self.by_sweeps
        if ours.excess < theirs.excess:
            return True
        return ours.excess == theirs.excess and ours.evictions <= theirs.evictions

    def __str__(self) -> str:
        return (
            f"cluster {self.seed}, target {self.began.target:.0f}: {self.began};"
            f" by sweeps {self.by_sweeps}; by the controller {self.by_controller}"
        )


def run_race(seed: int) -> Race:
    """Run one race; the seed makes the cluster and the policy."""
    sweeping, controlled = (_policy(Random(seed)) for _ in range(2))
    world = _cluster(seed)
    used, rule = _used(world), controlled.rule
    ((_, high),) = rule.high
    target = min(100.0, fmean(used.values()) + high) if rule.deviation else high
    return Race(
        seed,
        Result(used, 0, target),
        Result(*_sweep(world, sweeping), target),
        Result(*_control(_cluster(seed), controlled), target),
    )


def _policy(rng: Random) -> LowNodeUtilizationPlugin:
    low, high = rng.choice([(20, 50), (30, 60), (20, 40), (40, 60), (10, 70)])
    around_the_mean = rng.random() < 0.2
    if around_the_mean:
        low, high = rng.choice([(10, 10), (20, 10), (10, 5)])
    return plugin_from_policy(
        LowNodeUtilizationPlugin,
        LowNodeUtilizationArgs,
        useDeviationThresholds=around_the_mean,
        thresholds={"cpu": low},
        targetThresholds={"cpu": high},
    )


def _cluster(seed: int) -> SimulatedCluster:
    """Fill some nodes, and let others join that are empty."""
    rng = Random(f"cluster {seed}")
    world = SimulatedCluster(chance=seed)
    zones = rng.choice(["", "", "abc"])
    names = [f"n{number}" for number in range(1, rng.randint(2, 6) + 1)]
    placed = {name: f"{name}/{rng.choice(zones)}" if zones else name for name in names}
    full = rng.randint(1, len(names) - 1)
    world.nodes(*(placed[name] for name in names[:full]))
    left, number = int(full * NODE_M * rng.uniform(0.6, 1.0)), 0
    while left > 0:
        size, replicas = (
            rng.choice([100, 200, 200, 400, 500, 800]),
            rng.choice([1, 1, 1, 2, 2, 3, 4]),
        )
        memory = rng.choice(["64Mi", f"{size}Mi", f"{2 * size}Mi"])
        make = world.stateful_set if rng.random() < 0.2 else world.deployment
        make(f"app{number}", replicas, cpu=f"{size}m", memory=memory)
        left, number = left - size * replicas, number + 1
    world.advance(60)
    world.nodes(*(placed[name] for name in names[full:]))
    return world.advance(30)


def _used(world: SimulatedCluster) -> dict[str, float]:
    """Return how much of each node's cpu its pods request, in per cent."""
    total = Counter({node["metadata"]["name"]: 0 for node in world.store.list("nodes")})
    for pod in world.pods():
        [container] = pod["spec"]["containers"]
        if node := pod["spec"].get("nodeName"):
            total[node] += int(container["resources"]["requests"]["cpu"][:-1])
    return {name: 100 * used_m / NODE_M for name, used_m in total.items()}


def _sweep(world: SimulatedCluster, plugin: AnyPlugin) -> tuple[dict[str, float], int]:
    """Sweep every five minutes, until a sweep finds nothing."""
    evictor = DefaultEvictorArgs.model_validate({"nodeFit": True})
    policy, evictions = make_policy((make_profile_of("p", (plugin,), evictor),)), 0
    for _ in range(SWEEPS):
        state = state_of(world)
        cycle, evicted = Cycle(policy, state, _view(state, world)), list[str]()
        for decided in cycle.run():
            if isinstance(decided.decision, Evict):
                evicted.append(decided.finding.pod.name)
                cycle.confirm(decided)
        for name in evicted:
            world.evict(name)
        world.advance(SWEEP_EVERY_S)
        evictions += len(evicted)
        if not evicted:
            break
    return _used(world), evictions


def _view(state: ClusterState, world: SimulatedCluster) -> ClusterView:
    return ClusterView(state, world.clock.now)


def _control(world: SimulatedCluster, plugin: AnyPlugin) -> tuple[dict[str, float], int]:
    """Let the controller run as long as the sweeps, with its default rates, guards and memory."""
    evictor = DefaultEvictorArgs.model_validate({"nodeFit": True})
    config = make_configuration(
        (make_profile_of("p", (plugin,), evictor),),
        budgets=EvictionRateLimits(),
        guards=GuardSettings(),
        moves=MoveSettings(),
        debounce=DebounceConfig(1.0, 10.0),
    )
    cluster = DescheduledCluster(world, plugin, config=config).run(SWEEPS * SWEEP_EVERY_S)
    return _used(world), len(cluster.evicted)


def summary_of(results: Sequence[Result]) -> str:
    """Say how even some clusters are on average, how far above their targets, and at what price."""
    return (
        f"standard deviation {fmean(each.spread for each in results):.2f} points, above the target"
        f" {fmean(each.excess for each in results):.2f} points, in all"
        f" {sum(each.evictions for each in results)} evictions"
    )


NO_WORSE: Final = "no less even, and no more evictions"
OUTCOMES: Final = {
    (False, -1): NO_WORSE,
    (False, 0): NO_WORSE,
    (False, 1): "no less even, with more evictions",
    (True, -1): "less even, with fewer evictions",
    (True, 0): "less even, with as many evictions",
    (True, 1): "less even, with more evictions",
}
"""How the controller ended beside the sweeps: whether less even, and the sign of its evictions."""


def count_outcomes(races: Sequence[Race]) -> Counter[str]:
    """Count the clusters in which the controller is as good as the sweeps, better, or worse.

    Less even with fewer evictions is a trade: who moves more gets further below the target.
    """
    counts = Counter(dict.fromkeys(OUTCOMES.values(), 0))
    for race in races:
        ours, theirs = race.by_controller, race.by_sweeps
        more = ours.evictions - theirs.evictions
        counts[OUTCOMES[ours.measures[0] > theirs.measures[0], (more > 0) - (more < 0)]] += 1
    return counts


def main() -> int:
    """Run the races of the command line; return 1 where the controller lost one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--clusters", type=int, default=300)
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.clusters)
    with ProcessPoolExecutor(2) as pool:
        races = list(pool.map(run_race, seeds))
    lost = [race for race in races if race.is_dominated]
    for race in lost:
        sys.stdout.write(f"{race}{', a node overfilled' if race.is_overfilled else ''}\n")
    sys.stdout.write(f"at first: {summary_of([race.began for race in races])}\n")
    sys.stdout.write(f"by sweeps: {summary_of([race.by_sweeps for race in races])}\n")
    sys.stdout.write(f"by the controller: {summary_of([race.by_controller for race in races])}\n")
    sys.stdout.writelines(f"{n:4} {words}\n" for words, n in count_outcomes(races).items())
    overfilled = sum(race.is_overfilled for race in lost)
    sys.stdout.write(
        f"{len(lost):4} worse in something and better in nothing, {overfilled} of these where the"
        " sweeps brought a node above its target\n"
    )
    return bool(lost)


if __name__ == "__main__":
    sys.exit(main())
