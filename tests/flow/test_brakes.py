"""The brakes, from a change of the cluster to the eviction that they hold back, and its release."""

from collections.abc import Iterable, Mapping

import anyio
import msgspec
import pytest
import trio.testing

from reactive_desched.brakes.pending import TOO_MANY_PENDING
from reactive_desched.brakes.storm import FINDING_STORM, PLANNED
from reactive_desched.brakes.zones import ZONE_DISRUPTED, ZONE_SLOWED
from reactive_desched.controller.description import ControllerDescription
from reactive_desched.controller.readiness import BRAKE
from reactive_desched.controller.worker import check_for_suspend
from reactive_desched.gate.rate_limits import TokenRate
from reactive_desched.model.brakes import (
    BRAKES,
    CLUSTER,
    MANUAL,
    PENDING,
    STORM,
    ZONE,
    SavedBrakes,
    SavedPause,
)
from reactive_desched.model.objects import Node, OwnerReference, Pod
from reactive_desched.plugins.node_conditions import NodeConditionsArgs, NodeConditionsPlugin
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.settings.brakes import BrakeSettings
from reactive_desched.policy.settings.drains import DrainRule
from reactive_desched.policy.settings.guards import GuardName, GuardSettings
from reactive_desched.state.indexes.zone_health import EXCLUDE_DISRUPTION_LABEL
from reactive_desched.testing.builders import condition, node, pod, pod_status
from tests.support.configurations import NO_BRAKES, make_profile_of
from tests.support.flow import FakeEdgesController
from tests.support.golden import Golden

pytestmark = pytest.mark.anyio
MINUTE = 60.0


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def braked(
    rates: Mapping[str, TokenRate | None] | None = None, **brakes: object
) -> FakeEdgesController:
    """Return a controller with these brakes, and none else."""
    settings = BrakeSettings.model_validate(
        {**dict.fromkeys(("zones", "storm", "pending")), **brakes}
    )
    return FakeEdgesController(NodeTaintsPlugin(NodeTaintsArgs()), brakes=settings, rates=rates)


def reasons(flow: FakeEdgesController) -> dict[str, str]:
    """Return the reason of each pod's last decision; empty for an eviction."""
    return {
        each.finding.pod.name: getattr(each.decision, "reason", "")
        for each in flow.observer.evaluations
    }


def notices(flow: FakeEdgesController) -> list[tuple[str, str, bool]]:
    """Return brake, scope and whether it engaged of each notice."""
    return [(each.brake, each.scope, each.engaged) for each in flow.intent_store.brakes]


def engaged(flow: FakeEdgesController) -> set[str]:
    """Return the brakes that the gauge shows as engaged."""
    for metric in flow.pipeline.description.collect():
        if metric.family.name == "brake_engaged":
            assert {labels[0] for labels in metric.samples} == set(BRAKES)
            return {labels[0] for labels, value in metric.samples.items() if value}
    raise AssertionError("no gauge")


# --- zones ----------------------------------------------------------------------------------------


def zone_nodes(zone: str, ready: int, lost: int = 0) -> list[Node]:
    """Return the nodes of a zone: those that are Ready, and those that are not."""
    return [
        node(f"{zone}{i}", zone=zone, ready="True" if i < ready else "Unknown")
        for i in range(ready + lost)
    ]


def tainted(of: Node) -> Node:
    return msgspec.structs.replace(of, taints=node("x", "gpu:NoSchedule").taints)


async def test_a_small_zone_with_many_lost_nodes_is_left_alone_until_they_are_back() -> None:
    a, b = zone_nodes("a", 2, 3), zone_nodes("b", 5)
    async with braked(zones={}).running() as flow:
        flow.sync_and_resume(*a, *b, pod("wa", on="a0"), pod("wb", on="b0"))
        flow.deliver(tainted(a[0]), tainted(b[0]))
        await anyio.sleep(MINUTE)
        assert flow.evicted_names == ["wb"]
        assert reasons(flow)["wa"] == ZONE_DISRUPTED.code
        assert engaged(flow) == {ZONE}

        flow.deliver(node("a4", zone="a"))
        await anyio.sleep(1)

    assert flow.evicted_names == ["wb", "wa"]
    assert notices(flow) == [(ZONE, "zone a", True), (ZONE, "zone a", False)]
    assert engaged(flow) == set()


@pytest.mark.parametrize(
    ("ready", "lost", "held"),
    [
        pytest.param(1, 2, False, id="two lost nodes are tolerated however small the zone is"),
        pytest.param(2, 3, True, id="60 percent"),
        pytest.param(9, 11, True, id="55 percent"),
        pytest.param(10, 12, False, id="54 percent"),
    ],
)
async def test_the_zone_brake_goes_by_the_rule_of_the_node_lifecycle_controller(
    ready: int, lost: int, *, held: bool
) -> None:
    nodes = zone_nodes("a", ready, lost)
    async with braked(zones={}).running() as flow:
        flow.sync_and_resume(*nodes, *zone_nodes("b", 1), pod("web", on="a0"))
        flow.deliver(tainted(nodes[0]))
        await anyio.sleep(MINUTE)

    assert flow.evicted_names == ([] if held else ["web"])


def sick(of: Node, status: str = "True") -> Node:
    """Return a node with a condition, cordoned, so that its pods may leave."""
    conditions = (("KernelDeadlock", status),)
    return msgspec.structs.replace(of, conditions=conditions, unschedulable=True)


def plugin_for(*kinds: str) -> NodeConditionsPlugin:
    args = {"conditions": [{"type": kind, "for": "0s"} for kind in kinds]}
    return NodeConditionsPlugin(NodeConditionsArgs.model_validate(args, strict=False))


def braked_by_conditions(kind: str = "KernelDeadlock", *others: str) -> FakeEdgesController:
    zones = BrakeSettings.model_validate({"zones": {}, "storm": None, "pending": None})
    return FakeEdgesController(plugin_for(kind, *others), brakes=zones)


async def test_a_zone_where_many_nodes_are_sick_at_once_is_left_alone(golden: Golden) -> None:
    a, b = zone_nodes("a", 5), zone_nodes("b", 5)
    async with braked_by_conditions().running() as flow:
        pods = pod("wa", on="a0"), pod("wb", on="b0")
        flow.sync_and_resume(*map(sick, a[:3]), *a[3:], sick(b[0]), *b[1:], *pods)
        await anyio.sleep(MINUTE)
        assert flow.evicted_names == ["wb"]
        assert reasons(flow)["wa"] == ZONE_DISRUPTED.code
        messages = [getattr(e.decision, "message", "") for e in flow.observer.evaluations]
        assert next(filter(None, messages)) == golden()
        [brake] = flow.pipeline.description.brake_states()
        assert brake.release == golden("it ends once nodes are well")

        flow.deliver(sick(a[2], "False"))
        await anyio.sleep(1)

    assert flow.evicted_names == ["wb", "wa"]
    assert notices(flow) == [(ZONE, "zone a", True), (ZONE, "zone a", False)]


async def test_what_is_logged_of_a_sick_zone_and_of_a_sick_cluster_names_the_conditions(
    golden: Golden,
) -> None:
    """A rule of `drains` begins nothing then, so that no decision would name them."""
    a = zone_nodes("a", 3)
    async with braked_by_conditions("KernelDeadlock", *"VWXYZ").running() as flow:
        flow.sync_and_resume(*map(sick, a), *zone_nodes("b", 3))
        flow.deliver(*map(sick, zone_nodes("b", 3)))
        await anyio.sleep(1)

    said = [each.message for each in flow.intent_store.brakes]
    assert "\n".join(said) == golden()


async def test_another_policy_names_other_conditions_for_the_brake_too() -> None:
    a = zone_nodes("a", 5)
    async with braked_by_conditions("MemoryPressure").running() as flow:
        flow.sync_and_resume(*map(sick, a[:3]), *a[3:], *zone_nodes("b", 3), pod("web", on="a0"))
        await anyio.sleep(MINUTE)
        assert notices(flow) == []
        profiles = (make_profile_of("test", (plugin_for("KernelDeadlock"),)),)
        policy = msgspec.structs.replace(flow.config.policy, profiles=profiles)
        flow.reconfigure(msgspec.structs.replace(flow.config, policy=policy))
        await anyio.sleep(MINUTE)
        assert (flow.evicted_names, engaged(flow)) == ([], {ZONE})

        flow.reconfigure(flow.config)
        await anyio.sleep(MINUTE)

    assert engaged(flow) == set()
    assert flow.evicted_names == []


async def test_the_conditions_of_rules_for_drains_count_for_the_brake() -> None:
    a = zone_nodes("a", 5)
    flow = braked(zones={})
    assert flow.config.written is not None
    rule = DrainRule.model_validate({"name": "x", "conditions": [{"type": "KernelDeadlock"}]})
    written = flow.config.written.model_copy(update={"drains": (rule,)})
    async with flow.running():
        flow.sync_and_resume(*map(sick, a[:3]), *a[3:], *zone_nodes("b", 3), pod("web", on="a3"))
        flow.reconfigure(msgspec.structs.replace(flow.config, written=written))
        flow.deliver(tainted(a[3]))
        await anyio.sleep(MINUTE)

    assert flow.evicted_names == []
    assert reasons(flow)["web"] == ZONE_DISRUPTED.code


async def test_excluded_nodes_do_not_count() -> None:
    lost = [
        msgspec.structs.replace(each, labels={**each.labels, EXCLUDE_DISRUPTION_LABEL: ""})
        for each in zone_nodes("a", 0, 9)
    ]
    own = node("own", zone="a")
    async with braked(zones={}).running() as flow:
        flow.sync_and_resume(*lost, own, *zone_nodes("b", 1), pod("web", on="own"))
        flow.deliver(tainted(own))
        await anyio.sleep(1)

    assert flow.evicted_names == ["web"]


async def test_a_large_zone_with_many_lost_nodes_gives_pods_at_a_slower_rate() -> None:
    nodes = zone_nodes("a", 20, 40)
    pods = [pod(f"w{i}", on="a0") for i in range(8)]
    async with braked(zones={}).running() as flow:
        flow.sync_and_resume(*nodes, *pods)
        flow.deliver(tainted(nodes[0]))
        await anyio.sleep(MINUTE + 1)
        assert len(flow.evicted_names) == 4  # one at once, then three a minute
        assert ZONE_SLOWED.code in reasons(flow).values()

        flow.deliver(*zone_nodes("a", 40, 20)[1:])
        await anyio.sleep(1)

    assert sorted(flow.evicted_names) == sorted(each.name for each in pods)


async def test_a_zone_that_is_lost_as_a_whole_holds_up_no_other(golden: Golden) -> None:
    b = zone_nodes("b", 3)
    async with braked(zones={}).running() as flow:
        flow.sync_and_resume(*zone_nodes("a", 0, 5), *b, pod("web", on="b0"))
        flow.deliver(tainted(b[0]))
        await anyio.sleep(1)

        assert flow.controller.pauses.brake_messages()[ZONE] == golden()
        flow.deliver(node("a0", zone="a"))
        await anyio.sleep(1)

    assert flow.evicted_names == ["web"]
    assert notices(flow) == [(ZONE, "zone a", True), (ZONE, "zone a", True)]  # lost, and partly so


async def test_what_was_decided_of_a_zone_is_cancelled_when_all_of_the_zone_is_lost() -> None:
    a = zone_nodes("a", 2)
    async with braked(zones={}).running() as flow:
        flow.intent_store.slow_s = 1.0
        flow.sync_and_resume(*a, *zone_nodes("b", 1), pod("web", on="a0"))
        flow.deliver(tainted(a[0]))
        await anyio.sleep(0.5)
        flow.deliver(*zone_nodes("a", 0, 2))
        await anyio.sleep(5)

    assert flow.evicted_names == []
    assert {result for _, result in flow.observer.outcomes} == {"cancelled"}


async def test_when_no_node_is_ready_everything_stops_until_one_is(golden: Golden) -> None:
    a, b = zone_nodes("a", 3), zone_nodes("b", 3)
    async with braked(zones={}).running() as flow:
        flow.sync_and_resume(*a, *b, pod("web", on="b0"))
        flow.deliver(*zone_nodes("a", 0, 3), *zone_nodes("b", 0, 3))
        assert flow.controller.pauses.check().startswith(golden(brake=BRAKE))
        flow.deliver(tainted(b[0]))
        await anyio.sleep(1)

        assert flow.controller.pauses.check() == ""
        assert flow.evicted_names == []  # b0 alone is Ready: the pod has nowhere to go
        flow.deliver(*a)
        await anyio.sleep(1)

    assert flow.evicted_names == ["web"]
    assert notices(flow) == [
        (ZONE, "zone a", True),
        (ZONE, CLUSTER, True),
        (ZONE, CLUSTER, False),
        (ZONE, "zone a", False),
    ]


@pytest.mark.parametrize("is_listed", [False, True], ids=["by a watch", "by a new list"])
async def test_a_brake_that_holds_up_the_first_evaluation_is_released_by_what_comes(
    is_listed: bool,  # noqa: FBT001 -- a parameter of the test
) -> None:
    nodes, lost = zone_nodes("a", 3), zone_nodes("a", 0, 3)
    async with braked(zones={}).running() as flow:
        flow.controller.pauses.pause("ada", "", None)
        flow.sync_and_resume(*lost, pod("web", on="a0"))
        await anyio.sleep(5)
        flow.controller.pauses.resume("ada", "")
        assert flow.controller.pauses.check()
        assert flow.readiness.pauses[BRAKE].reason
        if is_listed:
            flow.handlers["nodes"].upsert_many(nodes)
        else:
            flow.deliver(*nodes)
        flow.pipeline.worker.wake()  # as the end of a list does
        await anyio.sleep(0.5)
        assert flow.controller.pauses.check() == ""
        assert flow.controller.evaluator.started


async def test_nodes_without_a_zone_are_one_zone() -> None:
    lost = [node(f"x{i}", ready="False") for i in range(3)]
    own = node("own")
    async with braked(zones={}).running() as flow:
        flow.sync_and_resume(*lost, own, *zone_nodes("b", 1), pod("web", on="own"))
        flow.deliver(tainted(own))
        await anyio.sleep(MINUTE)

    assert reasons(flow) == {"web": ZONE_DISRUPTED.code}


# --- storms ---------------------------------------------------------------------------------------

NODES = [node(f"n{i}") for i in range(12)]


def one_each(nodes: Iterable[Node], suffix: str = "") -> list[Pod]:
    return [pod(f"p-{each.name}{suffix}", on=each.name) for each in nodes]


async def test_a_storm_stops_and_asks_and_a_person_lets_it_continue(golden: Golden) -> None:
    pods = one_each(NODES[:10])
    slow = {"cluster": TokenRate(1 / 3600, 2)}
    async with braked(slow, storm={"pods": 5}).running() as flow:
        flow.sync_and_resume(*NODES, *pods)
        flow.deliver(*map(tainted, NODES[:10]))
        await anyio.sleep(MINUTE)

        assert flow.evicted_names == []  # what was decided before is cancelled
        assert list(reasons(flow).values()).count(FINDING_STORM.code) >= 5
        [(brake, scope, is_engaged)] = notices(flow)
        assert (brake, scope, is_engaged) == (STORM, CLUSTER, True)
        message = flow.intent_store.brakes[0].message
        assert golden("by plugin") in message
        assert message.endswith(golden("by change"))
        assert engaged(flow) == {STORM}

        flow.controller.pauses.resume("ann", "it was meant")
        await anyio.sleep(9 * 3600)

    assert sorted(flow.evicted_names) == sorted(each.name for each in pods)
    assert [(n.engaged, n.by, n.message) for n in flow.intent_store.brakes[1:]] == [
        (False, "ann", "it was meant")
    ]


async def test_a_storm_names_the_object_that_all_of_it_comes_from() -> None:
    async with braked(storm={"pods": 5}).running() as flow:
        flow.sync_and_resume(*NODES, *(pod(f"p{i}", on="n0") for i in range(9)))
        flow.deliver(tainted(NODES[0]))
        await anyio.sleep(1)

    message = flow.intent_store.brakes[0].message
    assert message.endswith("5 after NodeTaintsChanged of node n0")


async def test_what_a_start_finds_is_no_storm_and_what_comes_then_may_be() -> None:
    first, then = NODES[:8], NODES[8:11]
    async with braked(storm={"pods": 3}).running() as flow:
        flow.sync_and_resume(*map(tainted, first), *NODES[8:], *one_each(first), *one_each(then))
        await anyio.sleep(1)
        assert len(flow.evicted_names) == 8
        assert notices(flow) == []

        flow.deliver(*map(tainted, then))
        await anyio.sleep(1)

    assert notices(flow) == [(STORM, CLUSTER, True)]


async def test_what_another_policy_finds_at_first_is_no_storm() -> None:
    async with braked(storm={"pods": 3}).running() as flow:
        flow.sync_and_resume(*map(tainted, NODES[:8]), *NODES[8:], *one_each(NODES[:8]))
        flow.reconfigure(flow.config)
        await anyio.sleep(9)

    assert len(flow.evicted_names) == 8
    assert notices(flow) == []


async def test_findings_that_come_slowly_are_no_storm() -> None:
    async with braked(storm={"pods": 3}).running() as flow:
        flow.sync_and_resume(*NODES, *one_each(NODES))
        for each in NODES[:10]:
            flow.deliver(tainted(each))
            await anyio.sleep(31)

    assert len(flow.evicted_names) == 10
    assert notices(flow) == []


async def test_pods_that_something_protects_make_no_storm() -> None:
    bare = [msgspec.structs.replace(each, owners=()) for each in one_each(NODES[:8])]
    async with braked(storm={"pods": 3}).running() as flow:
        flow.sync_and_resume(*NODES, *bare)
        flow.deliver(*map(tainted, NODES[:8]))
        await anyio.sleep(1)

    assert flow.evicted_names == []
    assert notices(flow) == []


@pytest.mark.parametrize(
    ("labels", "is_storm"),
    [
        ({PLANNED: "true"}, False),
        ({PLANNED: "false"}, True),
        ({PLANNED: ""}, True),
        ({}, True),
    ],
)
async def test_pods_of_nodes_that_a_person_labels_as_planned_make_no_storm(
    labels: dict[str, str], *, is_storm: bool
) -> None:
    rack = [node(f"rack{i}", labels=labels) for i in range(8)]
    async with braked(storm={"pods": 3}).running() as flow:
        flow.sync_and_resume(*NODES, *rack, *one_each(rack), *one_each(NODES[:2]))
        flow.deliver(*map(tainted, rack), *map(tainted, NODES[:2]))
        await anyio.sleep(1)

    assert notices(flow) == ([(STORM, CLUSTER, True)] if is_storm else [])
    assert len(flow.evicted_names) == (0 if is_storm else 10)


async def test_pods_of_nodes_that_are_to_be_drained_make_no_storm() -> None:
    rack = [msgspec.structs.replace(node(f"rack{i}"), drain="ada: a new kernel") for i in range(8)]
    async with braked(storm={"pods": 3}).running() as flow:
        flow.sync_and_resume(*NODES, *rack, *one_each(rack))
        flow.deliver(*map(tainted, rack))
        await anyio.sleep(1)

    assert notices(flow) == []
    assert len(flow.evicted_names) == 8


async def test_a_storm_beside_a_planned_change_is_one() -> None:
    rack = [node(f"rack{i}", labels={PLANNED: "true"}) for i in range(8)]
    async with braked(storm={"pods": 3}).running() as flow:
        flow.sync_and_resume(*NODES, *rack, *one_each(rack), *one_each(NODES[:3]))
        flow.deliver(*map(tainted, rack), *map(tainted, NODES[:3]))
        await anyio.sleep(1)

    assert notices(flow) == [(STORM, CLUSTER, True)]


def only(*names: GuardName, **settings: object) -> GuardSettings:
    """Return settings with these guards alone."""
    disabled = tuple(set(GuardName) - set(names))
    return GuardSettings.model_validate({"disabled": disabled, **settings})


def storm_of_three(guards: GuardSettings) -> FakeEdgesController:
    """Return a controller with these guards, for which three pods are a storm."""
    brakes = BrakeSettings.model_validate({"zones": None, "pending": None, "storm": {"pods": 3}})
    return FakeEdgesController(NodeTaintsPlugin(NodeTaintsArgs()), brakes=brakes, guards=guards)


@pytest.mark.parametrize(
    ("guards", "held_s", "gate"),
    [
        pytest.param(only(GuardName.YOUNG_PODS), 10, "YoungPods", id="too young"),
        pytest.param(
            only(GuardName.YOUNG_PODS, min_pod_age_s=300), 300, "YoungPods", id="for minutes"
        ),
        pytest.param(
            only(GuardName.NEWLY_READY_PODS), 5, "NewlyReadyPods", id="Ready too recently"
        ),
        pytest.param(
            only(GuardName.YOUNG_PODS, GuardName.NEWLY_READY_PODS, min_ready_time_s=30),
            *(30, "NewlyReadyPods"),
            id="one after the other",
        ),
    ],
)
async def test_pods_that_time_alone_holds_make_a_storm_when_it_lets_them_go(
    guards: GuardSettings, held_s: float, gate: str
) -> None:
    async with storm_of_three(guards).running() as flow:
        flow.sync_and_resume(*NODES)
        await anyio.sleep(99)
        flow.deliver(
            *(
                pod(f"p{i}", on=f"n{i}", created=100, changed={"Ready": 100 if i else 101})
                for i in range(6)
            )
        )
        await anyio.sleep(1)
        flow.deliver(*map(tainted, NODES[:6]))
        await anyio.sleep(held_s - 3)
        gates = {getattr(each.decision, "gate", "") for each in flow.observer.evaluations}
        assert gate in gates
        assert notices(flow) == []
        await anyio.sleep(60)

    assert notices(flow) == [(STORM, CLUSTER, True)]
    assert flow.evicted_names == []
    message = flow.intent_store.brakes[0].message
    assert "3 after NodeTaintsChanged of 3 objects" in message


async def test_young_pods_that_a_start_finds_make_no_storm_when_they_are_let_go() -> None:
    async with storm_of_three(only(GuardName.YOUNG_PODS)).running() as flow:
        await anyio.sleep(99)
        young = [pod(f"p{i}", on=f"n{i}", created=99) for i in range(6)]
        flow.sync_and_resume(*map(tainted, NODES[:6]), *NODES[6:], *young)
        await anyio.sleep(60)

    assert notices(flow) == []
    assert len(flow.evicted_names) == 6


async def test_young_pods_of_a_tenant_keep_no_other_namespace_from_being_a_storm() -> None:
    async with storm_of_three(only(GuardName.YOUNG_PODS)).running() as flow:
        flow.sync_and_resume(*NODES, *others(2))
        await anyio.sleep(99)
        flow.deliver(*of_tenant(pod(f"t{i}", on="n0", created=100) for i in range(20)))
        flow.deliver(*(pod(f"p{i}", on=f"n{i}", created=100) for i in range(1, 7)))
        await anyio.sleep(1)
        flow.deliver(tainted(NODES[0]))
        await anyio.sleep(2)
        flow.deliver(*map(tainted, NODES[1:7]))
        await anyio.sleep(60)

    assert {scope for _, scope, _ in notices(flow)} == {"namespace tenant", CLUSTER}


async def test_young_pods_that_are_protected_when_they_are_let_go_make_no_storm() -> None:
    guards = only(GuardName.YOUNG_PODS, GuardName.DO_NOT_EVICT)
    async with storm_of_three(guards).running() as flow:
        flow.sync_and_resume(*NODES)
        await anyio.sleep(99)
        young = [pod(f"p{i}", on=f"n{i}", created=100) for i in range(6)]
        flow.deliver(*young)
        await anyio.sleep(1)
        flow.deliver(*map(tainted, NODES[:6]))
        await anyio.sleep(2)
        flow.deliver(
            *(pod(each.name, on=each.node, created=100, do_not_evict="true") for each in young)
        )
        await anyio.sleep(60)

    assert notices(flow) == []
    assert flow.evicted_names == []


async def test_what_waits_while_a_person_releases_a_storm_makes_no_other_one() -> None:
    async with storm_of_three(only(GuardName.YOUNG_PODS)).running() as flow:
        flow.sync_and_resume(*NODES, *one_each(NODES[6:10]))
        await anyio.sleep(99)
        flow.deliver(*(pod(f"p{i}", on=f"n{i}", created=100) for i in range(6)))
        await anyio.sleep(1)
        flow.deliver(*map(tainted, NODES[:10]))
        await anyio.sleep(3)
        assert notices(flow) == [(STORM, CLUSTER, True)]
        flow.controller.pauses.resume("ann", "it was meant")
        await anyio.sleep(60)

    assert [is_engaged for _, _, is_engaged in notices(flow)] == [True, False]
    assert len(flow.evicted_names) == 10


async def test_a_pod_counts_once_however_often_it_is_found() -> None:
    async with braked({"cluster": TokenRate(0.001, 1)}, storm={"pods": 3}).running() as flow:
        flow.sync_and_resume(*NODES, *one_each(NODES[:2]))
        for _ in range(20):
            flow.deliver(*map(tainted, NODES[:2]))
            await anyio.sleep(1)
            flow.deliver(*NODES[:2])
            await anyio.sleep(1)

    assert notices(flow) == []


async def test_the_threshold_grows_with_the_cluster() -> None:
    more = [pod(f"other{i}", on="n11") for i in range(90)]
    async with braked(storm={"pods": 3, "percent": 10}).running() as flow:
        flow.sync_and_resume(*NODES, *one_each(NODES[:9]), *more)
        flow.deliver(*map(tainted, NODES[:9]))
        await anyio.sleep(1)

    assert notices(flow) == []  # 9 of 99 pods


async def test_a_storm_ends_by_itself_after_a_quiet_time() -> None:
    storm = {"pods": 5, "releaseAfter": "10m"}
    async with braked({"cluster": TokenRate(1, 1)}, storm=storm).running() as flow:
        flow.sync_and_resume(*NODES, *one_each(NODES[:8]), *one_each(NODES[8:11], "-late"))
        flow.deliver(*map(tainted, NODES[:8]))
        await anyio.sleep(9 * MINUTE)
        held = len(flow.evicted_names)
        assert held < 8

        flow.deliver(*map(tainted, NODES[8:11]))  # more of it: the quiet time begins anew
        await anyio.sleep(9 * MINUTE)
        assert len(flow.evicted_names) == held
        await anyio.sleep(2 * MINUTE)

    assert len(flow.evicted_names) == 11
    assert notices(flow) == [(STORM, CLUSTER, True), (STORM, CLUSTER, False)]


async def test_without_a_quiet_time_only_a_person_ends_a_storm() -> None:
    storm = {"pods": 5, "releaseAfter": None}
    async with braked({"cluster": TokenRate(1, 1)}, storm=storm).running() as flow:
        flow.sync_and_resume(*NODES, *one_each(NODES[:8]))
        flow.deliver(*map(tainted, NODES[:8]))
        await anyio.sleep(24 * 3600)

    assert len(flow.evicted_names) < 8
    assert notices(flow) == [(STORM, CLUSTER, True)]


async def test_a_decided_eviction_that_was_not_requested_is_cancelled_by_a_brake() -> None:
    async with braked(storm={"pods": 5}).running() as flow:
        flow.intent_store.slow_s = 1.0
        flow.sync_and_resume(*NODES, *one_each(NODES[:10]))
        flow.deliver(*map(tainted, NODES[:10]))
        await anyio.sleep(5)

    assert flow.evicted_names == []
    assert {result for _, result in flow.observer.outcomes} == {"cancelled"}


async def test_switching_the_storm_brake_off_releases_it() -> None:
    async with braked({"cluster": TokenRate(1, 1)}, storm={"pods": 5}).running() as flow:
        flow.sync_and_resume(*NODES, *one_each(NODES[:8]))
        flow.deliver(*map(tainted, NODES[:8]))
        await anyio.sleep(1)
        off = flow.config.settings.model_copy(update={"brakes": NO_BRAKES})
        flow.reconfigure(msgspec.structs.replace(flow.config, written=off))
        await anyio.sleep(MINUTE)

    assert len(flow.evicted_names) == 8


def of_tenant(pods: Iterable[Pod], namespace: str = "tenant") -> list[Pod]:
    """Return the pods, in a namespace of their own."""
    return [
        msgspec.structs.replace(each, namespace=namespace, uid=f"{namespace}-{each.uid}")
        for each in pods
    ]


def others(count: int = 20) -> list[Pod]:
    """Return so many pods of the namespace default: that has nearly all, and a tenant few."""
    return [pod(f"other{i}", on="n11") for i in range(count)]


async def test_a_storm_of_one_tenants_pods_holds_that_namespace_alone(golden: Golden) -> None:
    tenants = of_tenant(pod(f"t{i}", on="n0") for i in range(9))
    storm = {"pods": 5, "releaseAfter": "10m"}
    async with braked(storm=storm).running() as flow:
        flow.sync_and_resume(*NODES, *tenants, *others(), pod("web", on="n1"))
        flow.deliver(tainted(NODES[0]))
        await anyio.sleep(1)
        flow.deliver(tainted(NODES[1]))
        await anyio.sleep(MINUTE)
        assert flow.evicted_names == ["web"]
        assert notices(flow) == [(STORM, "namespace tenant", True)]
        assert engaged(flow) == {STORM}
        [state] = flow.controller.gates.brakes.states(anyio.current_time())
        assert state.scope == "namespace tenant"
        assert flow.intent_store.brakes[0].message == golden()

        await anyio.sleep(10 * MINUTE)

    assert len(flow.evicted_names) == 10
    assert notices(flow)[1:] == [(STORM, "namespace tenant", False)]


async def test_a_storm_of_several_namespaces_holds_all() -> None:
    a, b = (of_tenant((pod(f"t{i}", on="n0") for i in range(3)), each) for each in "ab")
    async with braked(storm={"pods": 5}).running() as flow:
        flow.sync_and_resume(*NODES, *a, *b, *others(), pod("web", on="n1"))
        flow.deliver(tainted(NODES[0]))
        await anyio.sleep(1)
        flow.deliver(tainted(NODES[1]))
        await anyio.sleep(MINUTE)

    assert "web" not in flow.evicted_names
    assert notices(flow) == [(STORM, CLUSTER, True)]


async def test_a_person_releases_the_storm_of_a_namespace_and_a_restart_does_not() -> None:
    tenants = of_tenant(pod(f"t{i}", on="n0") for i in range(9))
    async with braked(storm={"pods": 5}).running() as flow:
        flow.sync_and_resume(*NODES, *tenants, *others())
        flow.deliver(tainted(NODES[0]))
        await anyio.sleep(1)
        saved = flow.controller.pauses.saved_brakes()
    assert saved.storm == ""

    async with braked(storm={"pods": 5}).running() as flow:
        flow.controller.pauses.restore(saved)
        flow.sync_and_resume(tainted(NODES[0]), *NODES[1:], *tenants, *others())
        await anyio.sleep(MINUTE)
        assert flow.evicted_names == []
        assert set(reasons(flow).values()) == {FINDING_STORM.code}

        flow.controller.pauses.resume("ann", "it was meant")
        await anyio.sleep(MINUTE)

    assert len(flow.evicted_names) == 9


# --- pods that no node takes ----------------------------------------------------------------------


def pending(name: str, reason: str = "Unschedulable", *, owner: str = "ReplicaSet") -> Pod:
    found = msgspec.structs.replace(
        pod(name),
        status=pod_status("Pending", conditions=[condition("PodScheduled=False", reason)]),
        owners=(OwnerReference(owner, "o", "o", controller=True),),
        condition_transitions=(0,),
    )
    return msgspec.structs.replace(found, created_s=1000)


async def arrive(flow: FakeEdgesController, *pods: Pod) -> None:
    """Deliver pods that became unschedulable now."""
    now = round(anyio.current_time())
    flow.deliver(*(msgspec.structs.replace(each, created_s=now) for each in pods))


async def test_nothing_is_evicted_while_the_cluster_cannot_place_what_it_has() -> None:
    async with braked(pending={"pods": 3}).running() as flow:
        flow.sync_and_resume(*NODES, pod("web", on="n1"))
        waiting = [pending(f"w{i}") for i in range(3)]
        await arrive(flow, *waiting)
        await anyio.sleep(2 * MINUTE)
        flow.deliver(tainted(NODES[1]))
        await anyio.sleep(MINUTE)
        assert flow.evicted_names == []
        assert reasons(flow) == {"web": TOO_MANY_PENDING.code}
        assert engaged(flow) == {PENDING}

        flow.deliver(msgspec.structs.replace(waiting[0], node="n3", resource_version=9))
        await anyio.sleep(MINUTE - 1)
        assert flow.evicted_names == []
        await anyio.sleep(2)

    assert flow.evicted_names == ["web"]
    assert notices(flow) == [(PENDING, CLUSTER, True), (PENDING, CLUSTER, False)]


@pytest.mark.parametrize(
    "waiting",
    [
        pytest.param([pending(f"w{i}") for i in range(2)], id="so few are tolerated"),
        pytest.param([pending(f"w{i}", "SchedulingGated") for i in range(9)], id="pods with gates"),
        pytest.param(
            [pending(f"w{i}", owner="DaemonSet") for i in range(9)], id="pods of a DaemonSet"
        ),
        pytest.param(
            [msgspec.structs.replace(pending(f"w{i}"), deletion_s=1) for i in range(9)],
            id="pods whose deletion has begun",
        ),
    ],
)
async def test_other_pods_without_a_node_do_not_count(waiting: list[Pod]) -> None:
    async with braked(pending={"pods": 3}).running() as flow:
        flow.sync_and_resume(*NODES, pod("web", on="n1"))
        await arrive(flow, *waiting)
        await anyio.sleep(10 * MINUTE)
        flow.deliver(tainted(NODES[1]))
        await anyio.sleep(1)

    assert flow.evicted_names == ["web"]


async def test_a_pod_counts_only_after_some_time() -> None:
    async with braked(pending={"pods": 3, "after": "5m"}).running() as flow:
        flow.sync_and_resume(*NODES, pod("web", on="n1"), pod("db", on="n2"))
        await arrive(flow, *(pending(f"w{i}") for i in range(3)))
        await anyio.sleep(4 * MINUTE)
        flow.deliver(tainted(NODES[1]))
        await anyio.sleep(2 * MINUTE)
        flow.deliver(tainted(NODES[2]))
        await anyio.sleep(1)

    assert flow.evicted_names == ["web"]


async def test_time_alone_engages_and_releases_the_brake() -> None:
    async with braked(pending={"pods": 3}).running() as flow:
        flow.sync_and_resume(*NODES)
        waiting = [pending(f"w{i}") for i in range(3)]
        await anyio.sleep(1)
        await arrive(flow, *waiting)
        await anyio.sleep(MINUTE + 1)
        assert notices(flow) == [(PENDING, CLUSTER, True)]

        flow.delete(waiting[0])
        await anyio.sleep(MINUTE + 1)

    assert notices(flow) == [(PENDING, CLUSTER, True), (PENDING, CLUSTER, False)]


async def test_a_tenants_pods_that_no_node_takes_hold_that_namespace_alone(
    golden: Golden,
) -> None:
    async with braked(pending={"pods": 4}).running() as flow:
        [own] = of_tenant([pod("own", on="n1")])
        flow.sync_and_resume(*NODES, *others(), pod("web", on="n1"), own)
        await anyio.sleep(1)
        waiting = of_tenant(pending(f"w{i}") for i in range(9))
        await arrive(flow, *waiting)
        await anyio.sleep(MINUTE)
        flow.deliver(tainted(NODES[1]))
        await anyio.sleep(MINUTE)
        assert flow.evicted_names == ["web"]
        assert reasons(flow)["own"] == TOO_MANY_PENDING.code
        [state] = flow.controller.gates.brakes.states(anyio.current_time())
        assert (state.scope, state.message) == ("namespace tenant", golden())

        for each in waiting[:6]:
            flow.delete(each)
        await anyio.sleep(MINUTE + 1)

    assert flow.evicted_names == ["web", "own"]
    scope = "namespace tenant"
    assert notices(flow) == [(PENDING, scope, True), (PENDING, scope, False)]


@pytest.mark.parametrize(
    ("counts", "holds_all"),
    [
        pytest.param({"a": 2, "b": 2}, True, id="half of it of two namespaces each"),
        pytest.param({"a": 3, "b": 1}, False, id="one namespace has most of it"),
        pytest.param({"a": 9, "b": 1, "c": 1}, True, id="the rest of several others"),
        pytest.param({"default": 4}, True, id="one that has nearly all pods"),
        pytest.param({"default": 3, "a": 1}, True, id="such a one and another"),
    ],
)
async def test_of_one_namespace_half_of_what_is_too_much_counts_for_all(
    counts: dict[str, int], *, holds_all: bool
) -> None:
    async with braked(pending={"pods": 4}).running() as flow:
        flow.sync_and_resume(*NODES, *others(), pod("web", on="n1"))
        await anyio.sleep(1)
        for namespace, count in counts.items():
            await arrive(flow, *of_tenant((pending(f"w{i}") for i in range(count)), namespace))
        await anyio.sleep(MINUTE)
        flow.deliver(tainted(NODES[1]))
        await anyio.sleep(1)

    assert flow.evicted_names == ([] if holds_all else ["web"])
    assert ((PENDING, CLUSTER, True) in notices(flow)) == holds_all


@pytest.mark.parametrize(
    ("namespaces", "counts", "holds_all"),
    [
        pytest.param(6, {"a": 9, "b": 9}, False, id="two of six"),
        pytest.param(6, {"a": 2, "b": 2, "c": 2}, True, id="half of six"),
        pytest.param(40, dict.fromkeys("abcd", 9), False, id="four of forty"),
        pytest.param(40, dict.fromkeys("abcde", 2), True, id="five of forty"),
        pytest.param(3, {"large": 9}, False, id="one of several that has most of the pods"),
        pytest.param(3, {"large": 9, "a": 3}, True, id="that one and another"),
    ],
)
async def test_half_of_the_namespaces_stop_all_and_five_do(
    namespaces: int, counts: dict[str, int], *, holds_all: bool
) -> None:
    names = ["large", *(f"n{number}" for number in range(1, namespaces))]
    placed = [each for name in names for each in of_tenant([pod("p", on="n11")], name)]
    placed += of_tenant((pod(f"more{i}", on="n11") for i in range(namespaces + 1)), "large")
    async with braked(pending={"pods": 6}).running() as flow:
        [web] = of_tenant([pod("web", on="n1")], "n1")
        flow.sync_and_resume(*NODES, *placed, web)
        await anyio.sleep(1)
        for namespace, count in counts.items():
            await arrive(flow, *of_tenant((pending(f"w{i}") for i in range(count)), namespace))
        await anyio.sleep(MINUTE)
        flow.deliver(tainted(NODES[1]))
        await anyio.sleep(1)

    assert flow.evicted_names == ([] if holds_all else ["web"])
    assert ((PENDING, CLUSTER, True) in notices(flow)) == holds_all


async def test_pods_that_name_a_node_that_is_not_there_make_no_namespace_larger() -> None:
    async with braked(pending={"pods": 4}).running() as flow:
        claimed = of_tenant(pod(f"c{i}", on="no-such-node") for i in range(900))
        flow.sync_and_resume(*NODES, *others(), pod("web", on="n1"), *claimed)
        await anyio.sleep(1)
        await arrive(flow, *of_tenant(pending(f"w{i}") for i in range(9)))
        await anyio.sleep(MINUTE)
        flow.deliver(tainted(NODES[1]))
        await anyio.sleep(1)

    assert flow.evicted_names == ["web"]
    assert notices(flow) == [(PENDING, "namespace tenant", True)]


async def test_pods_that_wait_since_before_the_start_count_at_once() -> None:
    async with braked(pending={"pods": 3}).running() as flow:
        await anyio.sleep(3600)
        old = [msgspec.structs.replace(pending(f"w{i}"), created_s=5) for i in range(3)]
        flow.sync_and_resume(*NODES, tainted(NODES[1]), pod("web", on="n1"), *old)
        await anyio.sleep(1)

    assert reasons(flow) == {"web": TOO_MANY_PENDING.code}


# --- a person -------------------------------------------------------------------------------------


async def test_nothing_is_evicted_while_a_person_pauses_and_all_is_made_up_for_afterwards(
    golden: Golden,
) -> None:
    async with braked().running() as flow:
        flow.sync_and_resume(*NODES, pod("web", on="n1"))
        flow.controller.pauses.pause("ann", "upgrade of the network", None)
        flow.deliver(tainted(NODES[1]))
        await anyio.sleep(24 * 3600)
        assert flow.evicted_names == []
        reason = golden(manual=MANUAL)
        assert flow.controller.pauses.check() == reason
        assert engaged(flow) == {MANUAL}

        flow.controller.pauses.resume("bob", "")
        await anyio.sleep(1)

    assert flow.evicted_names == ["web"]
    said = [(n.brake, n.engaged, n.by, n.message) for n in flow.intent_store.brakes]
    assert said == [
        (MANUAL, True, "ann", "upgrade of the network"),
        (MANUAL, False, "bob", "resumed by command"),
    ]


async def test_a_pause_for_some_time_ends_by_itself_also_when_the_clock_is_set() -> None:
    async with braked().running() as flow:
        flow.sync_and_resume(*NODES, pod("web", on="n1"))
        flow.controller.pauses.pause("ann", "", 3600)
        flow.deliver(tainted(NODES[1]))
        flow.wall_offset_s = 10 * 24 * 3600.0
        await anyio.sleep(3599)
        assert flow.evicted_names == []
        await anyio.sleep(2)

    assert flow.evicted_names == ["web"]
    assert notices(flow) == [(MANUAL, CLUSTER, True), (MANUAL, CLUSTER, False)]


async def test_a_pause_by_file_ends_a_moment_after_the_clock_is_set_beyond_its_end() -> None:
    async with braked().running() as flow, anyio.create_task_group() as group:
        group.start_soon(check_for_suspend, flow.controller)
        flow.sync_and_resume(*NODES)
        flow.controller.pauses.set_pause_file("1970-01-01T01:00:00Z")
        await anyio.sleep(60)
        assert flow.readiness.pauses[MANUAL].reason
        flow.wall_offset_s = 7200.0
        await anyio.sleep(1)
        assert not flow.readiness.pauses[MANUAL].reason
        group.cancel_scope.cancel()


async def test_a_decided_eviction_that_was_not_requested_is_cancelled_by_a_pause() -> None:
    async with braked().running() as flow:
        flow.intent_store.slow_s = 1.0
        flow.sync_and_resume(*NODES, pod("web", on="n1"))
        flow.deliver(tainted(NODES[1]))
        await anyio.sleep(0.5)
        flow.controller.pauses.pause("ann", "", None)
        await anyio.sleep(9)

    assert flow.evicted_names == []
    assert flow.observer.outcomes == [("web", "cancelled")]


@pytest.mark.parametrize(
    ("text", "held_s"),
    [
        pytest.param("true", None, id="true"),
        pytest.param(" True\n", None, id="as an editor leaves it"),
        pytest.param("upgrade of the network", None, id="a reason"),
        pytest.param("1970-01-01T01:00:00Z", 3600, id="a time"),
        pytest.param("1970-01-01T02:00:00+01:00", 3600, id="a time of another zone"),
        pytest.param("false", 0, id="false"),
        pytest.param("", 0, id="nothing"),
        pytest.param("1969-12-31T23:00:00Z", 0, id="a time that is over"),
    ],
)
async def test_a_file_pauses_by_what_it_says(text: str, held_s: float | None) -> None:
    async with braked().running() as flow:
        flow.controller.pauses.set_pause_file(text)
        flow.sync_and_resume(*NODES, pod("web", on="n1"))
        flow.deliver(tainted(NODES[1]))
        await anyio.sleep(max((held_s or 0) - 1, 0))
        if held_s != 0:
            assert flow.evicted_names == []
        await anyio.sleep(2)
        assert flow.evicted_names == ([] if held_s is None else ["web"])
        if held_s is None:
            flow.controller.pauses.resume("ann", "")  # ends a pause by command alone
            await anyio.sleep(1)
            assert flow.evicted_names == []
            flow.controller.pauses.set_pause_file("false")
            await anyio.sleep(1)

    assert flow.evicted_names == ["web"]


async def test_a_pause_and_a_storm_outlive_a_restart() -> None:
    async with braked(storm={"pods": 3}).running() as before:
        before.sync_and_resume(*NODES, *one_each(NODES[:5]))
        before.deliver(*map(tainted, NODES[:5]))
        await anyio.sleep(1)
        before.controller.pauses.pause("ann", "", 3600)
        saved = before.controller.pauses.saved_brakes()
    await anyio.sleep(1000)
    async with braked(storm={"pods": 3, "releaseAfter": None}).running() as flow:
        flow.controller.pauses.restore(saved)
        flow.sync_and_resume(*map(tainted, NODES[:5]), *NODES[5:], *one_each(NODES[:5]))
        await anyio.sleep(2590)
        assert flow.observer.evaluations == []
        await anyio.sleep(20)
        assert set(reasons(flow).values()) == {FINDING_STORM.code}

        flow.controller.pauses.resume("ann", "")
        await anyio.sleep(1)

    assert len(flow.evicted_names) == 5


async def test_a_clock_that_was_set_back_does_not_prolong_a_pause_beyond_its_length() -> None:
    async with braked().running() as flow:
        await anyio.sleep(1000)
        flow.controller.pauses.restore(SavedBrakes(SavedPause("ann", "", 9000.0, 9060.0)))
        flow.sync_and_resume(tainted(NODES[0]), *NODES[1:], pod("web", on="n0"))
        await anyio.sleep(59)
        assert flow.evicted_names == []
        await anyio.sleep(2)

    assert flow.evicted_names == ["web"]


async def test_who_asks_ends_no_pause_that_the_worker_has_not_ended() -> None:
    async with braked().running() as flow:
        flow.sync_and_resume(*NODES)
        await anyio.sleep(1)
        flow.controller.pauses.pause("ann", "upgrade", 10.0)
        await anyio.sleep(1)
    await anyio.sleep(60)  # the worker does not run any more
    controller, now = flow.controller, anyio.current_time()
    description = ControllerDescription(controller, anyio.current_time, lambda: now)

    list(description.collect())
    await description.pending_summary()
    assert description.is_busy()
    controller.pauses.check()
    assert flow.readiness.pauses[MANUAL].reason
    assert notices(flow) == [(MANUAL, CLUSTER, True)]

    controller.next_due(now)
    assert not flow.readiness.pauses[MANUAL].reason
    assert notices(flow) == [(MANUAL, CLUSTER, True), (MANUAL, CLUSTER, False)]


async def test_a_pause_while_nothing_can_be_recorded_is_recorded_as_soon_as_it_can() -> None:
    async with braked().running() as flow:
        flow.sync_and_resume(*NODES)
        await anyio.sleep(1)
        flow.intent_store.fault = "the journal is not open"
        flow.controller.pauses.pause("ann", "upgrade", None)
        await anyio.sleep(0.1)
        assert notices(flow) == []

        flow.intent_store.fault = ""
        flow.controller.pauses.check()

        assert notices(flow) == [(MANUAL, CLUSTER, True)]


async def test_the_brake_on_pending_pods_is_released_at_the_moment_that_it_foresees() -> None:
    """A moment of the clock is chosen at which `since + 30 - since` is less than 30."""
    async with braked(pending={"pods": 3, "after": "30s"}).running() as flow:
        waiting = [pending(f"w{i}") for i in range(3)]
        flow.sync_and_resume(*NODES, *waiting)
        await anyio.sleep_until(254.82700000000014)
        assert flow.controller.pauses.brake_messages()["pending"]
        flow.delete(*waiting)

        await anyio.sleep(31)
        assert not flow.controller.pauses.brake_messages()["pending"]
