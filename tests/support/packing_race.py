"""Packs the same drawn clusters by ConsolidateNodes and by the SIG descheduler's own binary.

`python -m tests.support.packing_race BINARY --clusters 10` prints the table of the page on
ConsolidateNodes. Both act on the simulated cluster on virtual time: the binary over HTTP, once in
five minutes, until a round evicts nothing. A referee follows where each pod is by its name, which a
StatefulSet keeps.
"""

import argparse
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import anyio
from msgspec import Struct

from reactive_desched.plugins.consolidate_nodes import ConsolidateNodesArgs, ConsolidateNodesPlugin
from reactive_desched.policy.settings.moves import MoveSettings
from reactive_desched.sim.history import Event
from reactive_desched.sim.pods import node_of
from reactive_desched.sim.scheduling.scores import LEAST_ALLOCATED, MOST_ALLOCATED
from reactive_desched.sim.server import kubeconfig, serve
from reactive_desched.testing.scenario import plugin_from_policy
from tests.support.descheduled import DescheduledCluster
from tests.support.sim_world import ZONE, SimulatedCluster
from tests.support.tainting import TaintedCluster

ROUND_S: Final = 300.0
MAX_ROUNDS: Final = 12
"""An hour; a contender that still moves pods then goes in circles."""

NODES: Final = 8
HIGH: Final = "HighNodeUtilization"
CONSOLIDATE: Final = "ConsolidateNodes"
SPREADS, PACKS = "spreads", "packs"
SCORINGS: Final = {SPREADS: LEAST_ALLOCATED, PACKS: MOST_ALLOCATED}


class Result(Struct, frozen=True):
    """What a contender made of a cluster.

    `returned` counts moves after which a pod was on a node that it had left before, `again` pods
    that moved more than once. `rests` says that nothing changed any more at the end.
    """

    freed: int
    moved: int
    returned: int
    again: int
    pending: int
    rests: bool


class Referee:
    """Follows on which nodes pods have been, by their names, and how often they were evicted."""

    def __init__(self, world: SimulatedCluster) -> None:
        self._world = world
        self._been = {name: [node] for name, node in world.nodes_of_pods().items() if node}
        self._used_before = len(self._used())
        self._uids = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in world.pods()}
        self.moves: Counter[str] = Counter()
        self._returned = 0
        world.store.subscribe(self._follow)

    def result(self, *, rests: bool) -> Result:
        """Return what became of the cluster so far."""
        nodes = self._world.nodes_of_pods().values()
        return Result(
            self._used_before - len(self._used()),
            self.moves.total(),
            self._returned,
            sum(times > 1 for times in self.moves.values()),
            sum(not node for node in nodes),
            rests,
        )

    def _used(self) -> set[str]:
        return {node for node in self._world.nodes_of_pods().values() if node}

    def _follow(self, event: Event) -> None:
        if event.resource != "pods" or event.type == "DELETED":
            return
        meta, node = event.object["metadata"], node_of(event.object)
        name, uid = meta["name"], meta["uid"]
        if not node or uid == self._uids.get(name):
            return
        self._uids[name] = uid
        self.moves[name] += 1
        been = self._been.setdefault(name, [])
        self._returned += node in been
        been.append(node)


# --- the clusters ---

Draw = Callable[[SimulatedCluster, random.Random], None]


def used_little(world: SimulatedCluster, dice: random.Random) -> None:
    """Spread a few pods over all nodes: each uses less than any threshold."""
    for name in "abcd":
        add(world, name, dice.randint(2, 3), dice.choice(["250m", "500m"]))


def scaled_down(world: SimulatedCluster, dice: random.Random) -> None:
    """Fill the nodes, and remove most pods of some workloads: holes of every size are left."""
    for name in "abcdef":
        add(world, name, dice.randint(3, 6), dice.choice(["250m", "500m", "1"]))
    world.advance(60)
    for name in dice.sample("abcdef", 4):
        world.edit("statefulsets", name, replicas=dice.randint(1, 2))


def two_full_nodes(world: SimulatedCluster, dice: random.Random) -> None:
    """Have nodes that are full beside nodes that are used little."""
    world.pod("full-1", cpu="3500m", memory="1Gi", nodeName="n0")
    world.pod("full-2", cpu="3", memory="1Gi", nodeName="n1")
    for name in "abcd":
        add(world, name, dice.randint(2, 4), dice.choice(["250m", "500m", "1"]))


def with_obstacles(world: SimulatedCluster, dice: random.Random) -> None:
    """Have pods that stay: a budget allows none to leave, or nothing would make them anew."""
    for name in "abcd":
        add(world, name, dice.randint(2, 4), dice.choice(["250m", "500m", "1"]))
    world.pdb("a", minAvailable="100%")
    world.pod("alone", cpu="500m", memory="256Mi")


def over_zones(world: SimulatedCluster, dice: random.Random) -> None:
    """Have workloads that are spread over zones, which moves have to keep."""
    for name in "abcd":
        even = {
            "maxSkew": 1,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": name}},
        }
        spread = {"topologySpreadConstraints": [even]} if dice.random() < 0.6 else {}
        add(world, name, dice.randint(2, 6), dice.choice(["250m", "500m", "1"]), **spread)


CLUSTERS: Final[dict[str, Draw]] = {
    "all used little": used_little,
    "scaled down": scaled_down,
    "two full nodes": two_full_nodes,
    "pods that stay": with_obstacles,
    "even over zones": over_zones,
}


def add(world: SimulatedCluster, name: str, replicas: int, cpu: str, **spec: Any) -> None:
    parallel = {"podManagementPolicy": "Parallel"}
    world.stateful_set(name, replicas, parallel, cpu=cpu, memory="256Mi", **spec)


def drawn(kind: str, scoring: str, seed: int) -> SimulatedCluster:
    """Return a cluster of a kind; it is the same for the same seed."""
    world = SimulatedCluster(scoring=SCORINGS[scoring], chance=seed)
    world.nodes(*(f"n{number}/{'abc'[number % 3]}" for number in range(NODES)))
    CLUSTERS[kind](world, random.Random(seed))
    return world.advance(60)


# --- the contenders ---


def consolidate(world: SimulatedCluster) -> Result:
    """Pack a cluster by ConsolidateNodes; no guard holds a pod, as the other has none."""
    referee = Referee(world)
    plugin = plugin_from_policy(ConsolidateNodesPlugin, ConsolidateNodesArgs)
    cluster = TaintedCluster(DescheduledCluster(world, plugin, nodeFit=True, moves=MoveSettings()))
    for _ in range(MAX_ROUNDS):
        before = referee.moves.total()
        cluster.run(ROUND_S)
        if referee.moves.total() == before:
            return referee.result(rests=True)
    return referee.result(rests=False)


async def high_node_utilization(
    world: SimulatedCluster, binary: Path, folder: Path, percent: int
) -> Result:
    """Pack a cluster by the SIG descheduler, one round in five minutes."""
    args = {"thresholds": {"cpu": percent, "memory": percent}}
    configured = [
        {"name": "DefaultEvictor", "args": {"nodeFit": True}},
        {"name": HIGH, "args": args},
    ]
    profile = {
        "name": "pack",
        "pluginConfig": configured,
        "plugins": {"balance": {"enabled": [HIGH]}},
    }
    policy = {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "profiles": [profile],
    }
    (folder / "policy.json").write_text(json.dumps(policy))
    referee = Referee(world)
    async with serve(world.store) as url:
        (folder / "kubeconfig").write_text(kubeconfig(url))
        for _ in range(MAX_ROUNDS):
            argv = (
                str(binary),
                *("--kubeconfig", str(folder / "kubeconfig"), "--secure-port", "0", "--v", "1"),
                *("--policy-config-file", str(folder / "policy.json")),
            )
            done = await anyio.run_process(argv, check=False)
            said = done.stderr.decode()
            assert done.returncode == 0, said[-2000:]
            world.cluster.settle()
            world.advance(ROUND_S)
            if not re.search(r'"Evicted pod"', said):
                return referee.result(rests=True)
    return referee.result(rests=False)


def race(
    kind: str, scoring: str, seed: int, binary: Path, percents: Sequence[int]
) -> dict[str, Result]:
    """Let each contender pack the same cluster; the other one with each of these thresholds."""
    results = {CONSOLIDATE: consolidate(drawn(kind, scoring, seed))}
    for percent in percents:
        world = drawn(kind, scoring, seed)
        with TemporaryDirectory() as folder:
            run = partial(high_node_utilization, world, binary, Path(folder), percent)
            results[f"{HIGH}, {percent} %"] = anyio.run(run)
    return results


def main(argv: Sequence[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", type=Path)
    parser.add_argument("--clusters", type=int, default=10, help="of each kind")
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args(argv)
    for kind in CLUSTERS:
        for scoring in SCORINGS:
            sums: dict[str, Counter[str]] = {}
            for seed in range(given.first, given.first + given.clusters):
                found = race(kind, scoring, seed, given.binary, (30, 50))
                for name, each in found.items():
                    total = sums.setdefault(name, Counter())
                    total["frees more"] += each.freed > found[CONSOLIDATE].freed
                    for field in ("freed", "moved", "returned", "again", "pending"):
                        total[field] += getattr(each, field)
                    total["goes on"] += not each.rests
            for name, total in sums.items():
                sys.stdout.write(f"| {kind} | {scoring} | {name} | {dict(total)} |\n")
                sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
