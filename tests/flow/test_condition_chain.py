"""A chain of programs: the node-problem-detector reports, another one taints, and pods leave.

Here the condition has to stand as well, and the brake of a zone counts it.
"""

import anyio
import msgspec
import pytest
import trio.testing

from reactive_desched.model.objects import Node
from reactive_desched.model.taints import Taint
from reactive_desched.plugins.node_conditions import NodeConditionsArgs, NodeConditionsPlugin
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.policy import AnyPlugin
from reactive_desched.policy.settings.brakes import BrakeSettings
from reactive_desched.sim.clock import rfc3339
from reactive_desched.sim.conditions import with_conditions
from reactive_desched.sim.objects import Obj
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import plugin_from_policy
from tests.support.descheduled import DescheduledCluster
from tests.support.flow import FakeEdgesController
from tests.support.sim_world import SimulatedCluster

pytestmark = pytest.mark.anyio

SICK = "ReadonlyFilesystem"
KEY = "node.example.com/sick"
FOR_S = 60
TAINTS_AFTER_S = 1.0


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def by_condition() -> AnyPlugin:
    named = {"type": SICK, "for": f"{FOR_S}s", "lapse": "5s"}
    return plugin_from_policy(NodeConditionsPlugin, NodeConditionsArgs, conditions=[named])


def by_taint() -> AnyPlugin:
    return plugin_from_policy(NodeTaintsPlugin, NodeTaintsArgs)


class Chain:
    """A cluster with the detector and the program that taints."""

    def __init__(self, plugin: AnyPlugin) -> None:
        self.world = SimulatedCluster().nodes("n1", "n2", "n3")
        self.world.deployment("web", 6, cpu="500m")
        self.cluster = DescheduledCluster(self.world.advance(60), plugin, nodeFit=True).run(10)

    def report(self, name: str, status: str) -> None:
        """Report the condition; the other program follows."""
        found = [{"type": SICK, "status": status}]
        at = rfc3339(self.world.clock.now())

        def change(current: Obj) -> Obj:
            was = current["status"]
            now = with_conditions(was.get("conditions") or (), found, at)
            return {**current, "status": {**was, "conditions": now}}

        self.world.store.modify("nodes", "", name, change, subresource="status")
        self.cluster.run(TAINTS_AFTER_S)
        taints = [{"key": KEY, "effect": "NoSchedule"}] if status == "True" else []
        self.world.edit("nodes", name, taints=taints)

    def flap(self, name: str) -> list[str]:
        """Let the condition come and go ten times; return what was evicted."""
        for _ in range(10):
            self.report(name, "True")
            self.cluster.run(8)
            self.report(name, "False")
            self.cluster.run(30)
        return self.cluster.evicted


def test_a_condition_that_flaps_makes_the_taint_flap_and_moves_nothing() -> None:
    assert Chain(by_taint()).flap("n1"), "the taint alone, without guards, moves pods"
    assert Chain(by_condition()).flap("n1") == []


def test_one_that_stands_moves_each_pod_once_and_its_end_moves_none() -> None:
    chain = Chain(by_condition())
    leaving = {name for name, at in chain.world.nodes_of_pods().items() if at == "n1"}
    chain.report("n1", "True")
    assert chain.cluster.run(FOR_S - 5).evicted == []

    assert set(chain.cluster.run(60).evicted) == leaving
    chain.report("n1", "False")
    assert len(chain.cluster.run(600).evicted) == len(leaving)


def sick(of: Node) -> Node:
    taint = Taint(KEY, "NoSchedule")
    return msgspec.structs.replace(of, conditions=((SICK, "True"),), taints=(taint,))


@pytest.mark.parametrize(("plugin", "evicted"), [(by_taint(), ["web"]), (by_condition(), [])])
async def test_a_rule_that_misfires_on_most_nodes_of_a_zone_is_held_by_its_brake(
    plugin: AnyPlugin, evicted: list[str]
) -> None:
    """The taint alone says nothing of why it is there."""
    brakes = BrakeSettings.model_validate({"zones": {}, "storm": None, "pending": None})
    nodes = [node(f"a{number}", zone="a") for number in range(5)]
    others = [node(f"b{number}", zone="b") for number in range(5)]
    async with FakeEdgesController(plugin, brakes=brakes).running() as flow:
        flow.sync_and_resume(*map(sick, nodes[:3]), *nodes[3:], *others, pod("web", on="a0"))
        await anyio.sleep(600)

    assert flow.evicted_names == evicted
