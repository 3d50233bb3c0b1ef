"""What keeps pods on a node that gives pods away: each reason is named, pod by pod and in all."""

from typing import Any

import pytest

from reactive_desched.api.balance_plugin import BalancePlugin
from reactive_desched.draining.load_args import LowNodeLoadArgs
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import ClusterObject, Node, Pod
from reactive_desched.model.usage import NODE_METRIC, NodeMetric
from reactive_desched.plugins.duplicates import DuplicatesArgs, DuplicatesPlugin
from reactive_desched.plugins.high_node_utilization import (
    HighNodeUtilizationArgs,
    HighNodeUtilizationPlugin,
)
from reactive_desched.plugins.low_node_load import LowNodeLoadPlugin
from reactive_desched.plugins.low_node_utilization import (
    LowNodeUtilizationArgs,
    LowNodeUtilizationPlugin,
)
from reactive_desched.plugins.topology_spread import TopologySpreadArgs, TopologySpreadPlugin
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.testing.builders import affinity, node, pod, with_spec
from reactive_desched.testing.scenario import Scenario, plugin_from_policy
from reactive_desched.testing.topology_spread import spread_constraint, with_spread
from tests.support.golden import Golden

ZONE = "topology.kubernetes.io/zone"
LIMITS = {"thresholds": {"cpu": 30}, "targetThresholds": {"cpu": 60}}
LOAD_LIMITS = {
    "lowThresholds": {"cpu": 30},
    "highThresholds": {"cpu": 60},
    "anomalyCondition": {"consecutiveAbnormalities": 1},
}
DAEMON = "DaemonSet/agent"


def low(**args: Any) -> LowNodeUtilizationPlugin:
    return plugin_from_policy(LowNodeUtilizationPlugin, LowNodeUtilizationArgs, **LIMITS, **args)


def high(**args: Any) -> HighNodeUtilizationPlugin:
    args = {"thresholds": {"cpu": 30}, **args}
    return plugin_from_policy(HighNodeUtilizationPlugin, HighNodeUtilizationArgs, **args)


def load(**args: Any) -> LowNodeLoadPlugin:
    return plugin_from_policy(LowNodeLoadPlugin, LowNodeLoadArgs, **{**LOAD_LIMITS, **args})


def host(name: str, *taints: str, **more: Any) -> Node:
    return node(name, *taints, allocatable={"cpu": "4", "memory": "16Gi", "pods": "110"}, **more)


def crowd(count: int = 7, on: str = "hot", cpu: str = "500m", **more: Any) -> list[Pod]:
    return [pod(f"w{number}", on=on, requests={"cpu": cpu}, **more) for number in range(count)]


def bound(selector: dict[str, str]) -> list[Pod]:
    return [with_spec(each, node_selector=selector) for each in crowd()]


def requiring(term: str) -> list[Pod]:
    return [with_spec(each, node_affinity=affinity(requires=term)) for each in crowd()]


HOT, COOL, MID = host("hot"), host("cool"), host("mid")
MIDDLING = [pod(f"m{number}", on="mid", requests={"cpu": "500m"}) for number in range(4)]

STAYING = [
    pytest.param(low(), [HOT, host("cool", "dedicated=ml:NoSchedule"), *crowd()], id="a taint"),
    pytest.param(low(), [HOT, host("cool", "spare:PreferNoSchedule"), *crowd()], id="a soft taint"),
    pytest.param(
        low(),
        [HOT, *(host(f"n{number}", "a:NoSchedule") for number in range(5)), *crowd()],
        id="a taint of many nodes",
    ),
    pytest.param(low(), [HOT, COOL, *bound({"disk": "ssd"})], id="a node selector"),
    pytest.param(low(), [HOT, COOL, *requiring("disk=ssd")], id="required node affinity"),
    pytest.param(low(), [HOT, COOL, *crowd(1, cpu="3")], id="no room for it"),
    pytest.param(low(), [HOT, COOL, *crowd(owner=DAEMON)], id="protected pods"),
    pytest.param(
        low(),
        [HOT, COOL, pod("w0", on="hot"), *crowd(owner=DAEMON)[1:]],
        id="no use of what is used too much",
    ),
    pytest.param(
        low(evictableNamespaces={"exclude": ["default"]}), [HOT, COOL, *crowd()], id="arguments"
    ),
    pytest.param(low(), [HOT, MID, *MIDDLING, *crowd()], id="no node has room"),
    pytest.param(low(), [HOT, host("cool", unschedulable=True), *crowd()], id="a cordon"),
    pytest.param(low(), [HOT, host("cool", ready="False"), *crowd()], id="a node that is down"),
    pytest.param(low(numberOfNodes=1), [HOT, COOL, MID, *MIDDLING, *crowd()], id="too few nodes"),
    pytest.param(
        high(), [HOT, host("mid", "a:NoSchedule"), *MIDDLING, *crowd(1)], id="high, a taint"
    ),
    pytest.param(high(), [HOT, COOL, *crowd(1)], id="high, no node is used more"),
    pytest.param(
        high(evictionModes=["OnlyThresholdingResources"], thresholds={"cpu": 30, "memory": 30}),
        [HOT, MID, *MIDDLING, pod("w0", on="hot", requests={"example.com/gpu": "0"})],
        id="high, other resources",
    ),
]


def asked(plugin: BalancePlugin[Any, Any], objects: list[ClusterObject]) -> tuple[str, list[str]]:
    """Return what is said of pod w0, and the obstacles of all tables."""
    scenario = Scenario(plugin, *objects)
    found = scenario.state.store(Pod).get("w0")
    assert found is not None
    tables = plugin.node_tables(scenario.view)
    return plugin.obstacles(scenario.view)(found), [o for t in tables for o in t.obstacles]


@pytest.mark.parametrize(("plugin", "objects"), STAYING)
def test_what_keeps_a_pod_on_a_node_that_gives_pods_is_named(
    plugin: BalancePlugin[Any, Any], objects: list[ClusterObject], golden: Golden
) -> None:
    of_pod, of_all = asked(plugin, objects)

    assert of_pod == golden("the pod")
    assert "\n".join(of_all) == golden("all")


def test_what_a_pod_says_is_in_its_description_as_well() -> None:
    plugin = low()
    scenario = Scenario(plugin, HOT, host("cool", "dedicated=ml:NoSchedule"), *crowd())
    reason = plugin.obstacles(scenario.view)(crowd()[0]).partition(", and ")[2]

    assert "dedicated=ml:NoSchedule" in reason
    assert reason in plugin.describe(crowd()[0], scenario.view)


def test_pods_that_no_node_takes_are_counted_where_others_move(golden: Golden) -> None:
    tolerating = [pod(f"t{n}", on="hot", requests={"cpu": "500m"}, tolerates="a") for n in range(3)]
    plugin = low()
    scenario = Scenario(plugin, HOT, host("cool", "a:NoSchedule"), *crowd(4), *tolerating)
    (table,) = plugin.node_tables(scenario.view)

    assert scenario.flagged() == {"t0", "t1", "t2"}
    assert table.obstacles == (golden(),)


def test_nothing_is_said_where_pods_move_and_of_pods_elsewhere() -> None:
    plugin = low()
    scenario = Scenario(plugin, HOT, COOL, MID, *MIDDLING, *crowd())
    (table,) = plugin.node_tables(scenario.view)

    assert table.obstacles == ()
    assert plugin.obstacles(scenario.view)(MIDDLING[0]) == ""


def test_a_node_that_is_empty_but_for_daemons_is_no_obstacle() -> None:
    plugin = high()
    scenario = Scenario(plugin, HOT, MID, *MIDDLING, *crowd(1, owner=DAEMON))
    (table,) = plugin.node_tables(scenario.view)

    assert table.obstacles == ()


def test_a_sweep_names_taints_and_asks_no_node_for_room() -> None:
    plugin = low()
    tainted = Scenario(plugin, HOT, host("cool", "dedicated=ml:NoSchedule"), *crowd())
    large = Scenario(plugin, HOT, COOL, *crowd(1, cpu="3"))

    assert "dedicated=ml" in plugin.sweep_obstacles(tainted.view)(crowd()[0])
    assert "too little" not in plugin.sweep_obstacles(large.view)(crowd(1, cpu="3")[0])


# --- LowNodeLoad ---


def measured(*pods: Pod, cool: int = 100) -> list[ClusterObject]:
    uses = {f"default/{each.name}": {"cpu": 500, "memory": 10} for each in pods}
    return [
        NodeMetric(NODE_METRIC, "hot", {"cpu": 3500, "memory": 10}, 0.0, uses),
        NodeMetric(NODE_METRIC, "cool", {"cpu": cool, "memory": 10}, 0.0, {}),
        *pods,
    ]


LOADED = [
    pytest.param(load(), [HOT, host("cool", "a:NoSchedule"), *measured(*crowd())], id="a taint"),
    pytest.param(load(), [HOT, COOL, *measured(*bound({"disk": "ssd"}))], id="a node selector"),
    pytest.param(load(), [HOT, COOL, *measured(*crowd(owner=DAEMON))], id="protected pods"),
    pytest.param(
        load(evictableNamespaces={"exclude": ["default"]}),
        [HOT, COOL, *measured(*crowd())],
        id="arguments",
    ),
    pytest.param(load(dryRun=True), [HOT, COOL, *measured(*crowd())], id="a dry run"),
    pytest.param(
        load(anomalyCondition={"consecutiveAbnormalities": 5}),
        [HOT, COOL, *measured(*crowd())],
        id="not often enough",
    ),
    pytest.param(
        load(), [HOT, host("cool", unschedulable=True), *measured(*crowd())], id="a cordon"
    ),
]


@pytest.mark.parametrize(("plugin", "objects"), LOADED)
def test_what_keeps_a_pod_on_an_overloaded_node_is_named(
    plugin: BalancePlugin[Any, Any], objects: list[ClusterObject], golden: Golden
) -> None:
    of_pod, of_all = asked(plugin, objects)

    assert of_pod == golden("the pod")
    assert "\n".join(of_all) == golden("all")


# --- duplicates, and topology spread ---


def replicas(count: int, *, on: str = "hot", **more: Any) -> list[Pod]:
    return [pod(f"w{number}", on=on, owner="ReplicaSet/web", **more) for number in range(count)]


DUPLICATES = [
    pytest.param([HOT, host("cool", "a:NoSchedule"), *replicas(2)], id="a taint"),
    pytest.param(
        [HOT, COOL, *(with_spec(each, has_local_storage=True) for each in replicas(2))],
        id="protected pods",
    ),
]


@pytest.mark.parametrize("objects", DUPLICATES)
def test_what_keeps_a_duplicate_is_named(objects: list[ClusterObject], golden: Golden) -> None:
    plugin = plugin_from_policy(DuplicatesPlugin, DuplicatesArgs)

    assert asked(plugin, objects) == (golden(), [])


def test_replicas_that_are_spread_evenly_have_no_obstacle() -> None:
    plugin = plugin_from_policy(DuplicatesPlugin, DuplicatesArgs)
    pods = replicas(4)
    scenario = Scenario(plugin, HOT, COOL, *pods[:2], *replicas(4, on="cool")[2:])

    assert plugin.obstacles(scenario.view)(pods[0]) == ""


def test_protected_pods_that_make_a_domain_too_large_are_named(golden: Golden) -> None:
    plugin = plugin_from_policy(TopologySpreadPlugin, TopologySpreadArgs)
    hosts = [host("hot", labels={ZONE: "a"}), host("cool", labels={ZONE: "b"})]
    constraint = spread_constraint(key=ZONE, label_selector=LabelSelector({"app": "web"}))
    crowded = [
        with_spec(with_spread(each, constraint), has_local_storage=True)
        for each in replicas(4, labels={"app": "web"})
    ]

    assert asked(plugin, [*hosts, *crowded]) == (golden(), [])


def test_the_evictor_s_node_selector_is_named() -> None:
    plugin, evictor = low(), {"node_fit": True, "node_selector": "pool=a"}
    scenario = Scenario(
        plugin,
        *(host("hot", labels={"pool": "a"}), host("cool", labels={"pool": "b"})),
        *crowd(),
        evictor=DefaultEvictorArgs.model_validate(evictor),
    )
    (table,) = plugin.node_tables(scenario.view)

    assert ["cool" in each and "nodeSelector" in each for each in table.obstacles] == [True]
