"""MakeRoomForPending finds the pods that move for one that waits, and none where that is no use."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reactive_desched.model.changes import Resynced
from reactive_desched.model.findings import Finding, MoveSet, RequeueAfter, RoomFor
from reactive_desched.model.gangs import Gang
from reactive_desched.model.objects import (
    Annotations,
    ClusterObject,
    HostPort,
    Node,
    OwnerReference,
    Pod,
    PodCondition,
    PodStatus,
)
from reactive_desched.model.pod_groups import (
    CoschedulingPodGroup,
    GroupRule,
    KoordinatorPodGroup,
    KubernetesPodGroup,
)
from reactive_desched.plugins.make_room_for_pending import (
    MAX_ROOMS,
    MAX_WAITING,
    MakeRoomForPendingArgs,
    MakeRoomForPendingPlugin,
)
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.testing.builders import node, pod, with_spec
from reactive_desched.testing.scenario import Scenario, plugin_from_policy
from tests.support.random_steps import in_one_field

NAMES = ("n1", "n2", "n3")
NOWHERE = PodStatus("Pending", conditions=(PodCondition("PodScheduled", "False", "Unschedulable"),))
GATED = PodStatus("Pending", conditions=(PodCondition("PodScheduled", "False", "SchedulingGated"),))
NOW = 1000
GROUP = "scheduling.x-k8s.io/pod-group"
OLD_GROUP = "pod-group.scheduling.sigs.k8s.io/name"
OLD_MINIMUM = "pod-group.scheduling.sigs.k8s.io/min-available"


def make_room(**args: Any) -> MakeRoomForPendingPlugin:
    return plugin_from_policy(MakeRoomForPendingPlugin, MakeRoomForPendingArgs, **args)


def small(name: str, *taints: str, cpu: str = "4", **more: Any) -> Node:
    return node(name, *taints, allocatable={"cpu": cpu, "memory": "8Gi", "pods": "10"}, **more)


def web(name: str, on: str | None, cpu: str = "1", **more: Any) -> Pod:
    return pod(name, on=on, requests={"cpu": cpu, "memory": "1Gi"}, **more)


def waits(name: str = "big", cpu: str = "3", status: PodStatus = NOWHERE, **more: Any) -> Pod:
    """Build a pod that is unschedulable since its creation at 0 s."""
    made = web(name, None, cpu, **{"owner": "ReplicaSet/big", **more})
    return replace(made, status=status, condition_transitions=(0,))


def found(plugin: MakeRoomForPendingPlugin, *objects: ClusterObject, **more: Any) -> list[str]:
    """Name the pods that are found, in their order."""
    return sorted(each.pod.name for each in findings(plugin, *objects, **more))


def findings(
    plugin: MakeRoomForPendingPlugin, *objects: ClusterObject, **more: Any
) -> list[Finding]:
    cluster = Scenario(plugin, *objects, **{"now_s": NOW, **more})
    [subject] = plugin.subjects(Resynced(), cluster.view)
    return [each for each in cluster.evaluate(subject) if isinstance(each, Finding)]


TWO = tuple(map(small, NAMES[:2]))
HALVES = [web(f"{name}{i}", name) for name in NAMES[:2] for i in "ab"]
"""Two nodes of 4 CPUs, each with 2 free."""


def test_one_pod_moves_where_one_is_enough_and_the_set_names_the_pod_that_waits() -> None:
    [each] = findings(make_room(), *TWO, *HALVES, waits())

    assert each.pod.name in {"n1a", "n1b", "n2a", "n2b"}
    assert each.move_set is not None
    assert each.move_set.rooms == (RoomFor("big", each.pod.node),)
    assert each.move_set.pods == (each.pod.uid,)
    assert each.details["roomFor"] == "default/big"
    assert each.details["place"] in {"n1", "n2"} - {each.pod.node}


def test_a_pod_that_fits_on_a_node_needs_no_move() -> None:
    assert found(make_room(), *TWO, *HALVES, waits(cpu="2")) == []


def test_nothing_moves_before_the_pod_has_waited_for_long_enough() -> None:
    cluster = Scenario(make_room(wait="30m"), *TWO, *HALVES, waits(), now_s=NOW)

    assert list(cluster.evaluate("pending pods")) == [RequeueAfter(800.0)]


def test_pods_that_cost_less_to_move_are_taken() -> None:
    dear = [replace(each, annotations=Annotations(deletion_cost="100000000")) for each in HALVES]
    dear[2] = HALVES[2]

    assert found(make_room(), *TWO, *dear, waits()) == ["n2a"]


def of(namespace: str, waiting: Iterable[Pod]) -> list[Pod]:
    """Return the pods in a namespace, each with a spec and labels of its own."""
    return [
        replace(each, namespace=namespace, uid=f"{namespace}-{each.uid}", labels={"n": each.uid})
        for each in waiting
    ]


def test_one_namespaces_pods_without_room_keep_no_other_namespaces_out() -> None:
    tenants = of("a-tenant", (waits(f"huge{n}", cpu="99") for n in range(2 * MAX_WAITING)))

    [each] = findings(make_room(), *TWO, *HALVES, *tenants, *of("shop", [waits()]))

    assert each.details["roomFor"] == "shop/big"


def test_of_pods_of_the_same_priority_each_namespace_has_its_turn() -> None:
    nodes = [small(f"n{n}") for n in range(3 * MAX_ROOMS)]
    fillers = [web(f"{each.name}{i}", each.name) for each in nodes for i in "ab"]
    tenants = of("a-tenant", (waits(f"big{n}") for n in range(3 * MAX_ROOMS)))

    rooms = {
        each.details["roomFor"]
        for each in findings(make_room(), *nodes, *fillers, *tenants, *of("shop", [waits()]))
    }

    assert len(rooms) == MAX_ROOMS
    assert "shop/big" in rooms


def test_a_pod_of_a_higher_priority_comes_before_those_of_other_namespaces() -> None:
    nodes = [small(f"n{n}") for n in range(3 * MAX_ROOMS)]
    fillers = [
        with_spec(web(f"{each.name}{i}", each.name), priority=-5) for each in nodes for i in "ab"
    ]
    important = (with_spec(waits(f"big{n}", priority=5), never_preempts=True) for n in range(40))
    others = [pod for n in range(40) for pod in of(f"shop{n}", [waits(priority=-5)])]

    rooms = findings(make_room(), *nodes, *fillers, *of("vital", important), *others)

    assert {str(each.details["roomFor"]).partition("/")[0] for each in rooms} == {"vital"}


def test_equal_pods_without_room_count_once() -> None:
    first = waits("same", cpu="99")
    same = [
        replace(first, name=f"same{n}", uid=f"same{n}", namespace="shop")
        for n in range(2 * MAX_WAITING)
    ]

    [each] = findings(make_room(), *TWO, *HALVES, *same, *of("shop", [waits()]))

    assert each.details["roomFor"] == "shop/big"


def test_no_more_pods_move_than_allowed() -> None:
    halves = [web(f"{name}{i}", name, "500m") for name in NAMES[:2] for i in "abcd"]

    assert len(found(make_room(maxMoves=2), *TWO, *halves, waits())) == 2
    assert found(make_room(maxMoves=1), *TWO, *halves, waits()) == []


def test_a_pod_that_fits_nowhere_else_stays() -> None:
    kept = [with_spec(each, node_selector={"at": each.node}) for each in HALVES]
    nodes = [small(name, labels={"at": name}) for name in NAMES[:2]]

    assert found(make_room(), *nodes, *kept, waits()) == []
    assert found(make_room(), *nodes, *kept[:3], HALVES[3], waits()) == ["n2b"]


def test_pods_of_a_higher_priority_stay() -> None:
    assert found(make_room(), *TWO, *HALVES, waits(priority=-5)) == []
    low = [with_spec(each, priority=-5) for each in HALVES]
    assert len(found(make_room(), *TWO, *low, waits(priority=-5))) == 1


def test_preemption_serves_a_pod_that_may_preempt() -> None:
    important = waits(priority=100)
    gentle = with_spec(important, never_preempts=True)

    assert found(make_room(), *TWO, *HALVES, important) == []
    assert len(found(make_room(), *TWO, *HALVES, gentle)) == 1


def test_preemption_that_would_not_be_enough_does_not_count() -> None:
    low = [with_spec(web(f"low{n}", n, "500m"), priority=-5) for n in NAMES[:2]]
    same = [web(f"same{name}", name, "1500m") for name in NAMES[:2]]

    assert len(found(make_room(), *TWO, *low, *same, waits())) == 1
    assert found(make_room(), *TWO, *low, *same, waits(cpu="2500m")) == []


@pytest.mark.parametrize(
    "left",
    [
        pytest.param(waits(status=GATED), id="gated"),
        pytest.param(replace(waits(), deletion_s=5), id="being deleted"),
        pytest.param(
            replace(waits(), owners=(OwnerReference("DaemonSet", "d", "d", controller=True),)),
            id="of a DaemonSet",
        ),
        pytest.param(waits(status=PodStatus("Pending")), id="not tried yet"),
        pytest.param(with_spec(waits(), has_resource_claims=True), id="claims devices"),
        pytest.param(
            waits(labels={OLD_GROUP: "g", OLD_MINIMUM: "2"}),
            id="the others of its gang are not there",
        ),
        pytest.param(with_spec(waits(), node_selector={"no": "where"}), id="fits no node"),
        pytest.param(replace(waits(), pvc_names=("gone",)), id="its claim is gone"),
    ],
)
def test_nothing_moves_for_pods_that_wait_for_something_else(left: Pod) -> None:
    assert found(make_room(), *TWO, *HALVES, left) == []


def test_pods_that_the_evictor_or_the_arguments_leave_do_not_move() -> None:
    bare = [replace(each, owners=()) for each in HALVES]
    other = make_room(namespaces={"exclude": ["default"]})

    assert found(make_room(), *TWO, *bare, waits()) == []
    assert found(other, *TWO, *HALVES, waits()) == []
    four = DefaultEvictorArgs(min_replicas=5)
    assert found(make_room(), *TWO, *HALVES, waits(), evictor=four) == []


@pytest.mark.parametrize(
    "closed",
    [
        pytest.param(small("n2", unschedulable=True), id="cordoned"),
        pytest.param(replace(small("n2"), drain="ada"), id="to be drained"),
        pytest.param(replace(small("n2"), is_terminating=True), id="being deleted"),
    ],
)
def test_nodes_that_take_no_pods_are_no_places(closed: Node) -> None:
    assert found(make_room(), TWO[0], closed, *HALVES, waits()) == []


def test_a_pod_with_a_host_port_moves_for_one_that_needs_it() -> None:
    port = (HostPort(80, "TCP", ""),)
    holds = with_spec(web("a", "n1", "100m", tolerates=("keep",)), host_ports=port)
    other = with_spec(web("b", "n2", "100m"), host_ports=port)
    beside = web("c", "n1", "100m")
    wants = with_spec(waits(cpu="100m"), host_ports=port)

    assert found(make_room(), *TWO, other, beside, holds, wants) == []
    third = small("n3", "keep:NoSchedule")
    assert found(make_room(), *TWO, third, other, beside, holds, wants) == ["a"]


def test_the_pods_of_a_room_that_is_being_made_are_not_found_again() -> None:
    leaving = [replace(HALVES[0], deletion_s=5), *HALVES[1:]]

    assert found(make_room(), *TWO, *leaving, waits()) == []


def test_room_is_made_for_several_pods_beside_each_other() -> None:
    nodes = [small(name) for name in (*NAMES, "n4")]
    halves = [web(f"{name}{i}", name) for name in (*NAMES, "n4") for i in "ab"]
    two = [waits("big1"), waits("big2")]

    sets = {each.move_set for each in findings(make_room(), *nodes, *halves, *two)}

    assert {each.rooms[0].pod for each in sets if each} == {"big1", "big2"}
    assert len({each.node for each in sets if each}) == 2


def test_the_pod_of_the_higher_priority_comes_first() -> None:
    third = small("n3", "no:NoSchedule")
    halves = [web("a", "n1"), web("b", "n1"), web("c", "n2", "3")]
    two = [waits("low"), with_spec(waits("high"), priority=7, never_preempts=True)]

    sets = [each.move_set for each in findings(make_room(), *TWO, third, *halves, *two)]

    assert [each.rooms[0].pod for each in sets if each] == ["high"]


FOUR = tuple(small(f"n{n}") for n in range(1, 5))
FOUR_HALVES = [web(f"{each.name}{i}", each.name) for each in FOUR for i in "ab"]
"""Four nodes of 4 CPUs, each with 2 free."""


def gang(count: int, cpu: str = "3", *, quorum: int | None = None, **more: Any) -> list[Pod]:
    """Return pods of a gang that wait: so many have to run together, or all of them."""
    key, least = (GROUP, {}) if quorum is None else (OLD_GROUP, {OLD_MINIMUM: str(quorum)})
    return [waits(f"g{n}", cpu, labels={key: "train", **least}, **more) for n in range(count)]


def sets_of(*objects: ClusterObject, **args: Any) -> set[MoveSet | None]:
    return {each.move_set for each in findings(make_room(**args), *objects)}


def test_room_for_a_gang_is_one_set_of_moves_on_several_nodes() -> None:
    [moved] = sets_of(*FOUR, *FOUR_HALVES, *gang(2))

    assert moved is not None
    assert moved.gang == Gang("default", "the coscheduling plugin", "train")
    assert {each.pod for each in moved.rooms} == {"g0", "g1"}
    nodes = {each.node for each in moved.rooms}
    assert len(nodes) == len(moved.pods) == 2
    assert {uid[:2] for uid in moved.pods} == nodes


def test_nothing_moves_where_not_all_of_a_gang_get_room() -> None:
    """Two of three would."""
    assert sets_of(*FOUR, *FOUR_HALVES, *gang(3)) == set()
    assert sets_of(*FOUR, *FOUR_HALVES, *gang(3, quorum=3)) == set()


def test_so_many_get_room_as_have_to_run_together() -> None:
    [moved] = sets_of(*FOUR, *FOUR_HALVES, *gang(3, quorum=2))

    assert moved is not None
    assert len(moved.rooms) == 2


def test_what_the_object_of_a_gang_says_counts_before_what_stands_on_its_pods() -> None:
    said = CoschedulingPodGroup("default", "train", rule=GroupRule(2))
    old = KoordinatorPodGroup("default", "train", rule=GroupRule(2))
    labels = {"pod-group.scheduling.sigs.k8s.io": "train", OLD_MINIMUM: "3"}
    more_by_pods = [waits(f"g{n}", labels=labels) for n in range(3)]
    for group, pods in ((said, gang(3)), (old, more_by_pods)):
        [moved] = sets_of(*FOUR, *FOUR_HALVES, *pods, group)
        assert moved is not None
        assert len(moved.rooms) == 2

    assert sets_of(*FOUR, *FOUR_HALVES, *gang(2), replace(said, rule=GroupRule(3))) == set()


def test_pods_of_a_basic_group_wait_each_by_itself() -> None:
    pods = [with_spec(waits(f"g{n}", "3"), scheduling_group="train") for n in range(3)]
    basic = KubernetesPodGroup("default", "train", rule=GroupRule(is_basic=True))

    assert sets_of(*FOUR, *FOUR_HALVES, *pods) == set()
    sets = sets_of(*FOUR, *FOUR_HALVES, *pods, basic)
    assert len(sets) == 2
    assert all(each is not None and each.gang is None for each in sets)


def test_pods_of_a_gang_that_run_count_for_its_quorum() -> None:
    [leader, *waiting] = gang(3, quorum=3)
    runs = replace(leader, node="n5", status=PodStatus("Running"))
    full = web("k", "n5", owner=None)
    [moved] = sets_of(*FOUR, small("n5"), *FOUR_HALVES, runs, full, *waiting)

    assert moved is not None
    assert {each.pod for each in moved.rooms} == {"g1", "g2"}


def test_each_pod_beyond_the_quorum_waits_by_itself() -> None:
    [leader, *waiting] = gang(4, quorum=1)
    runs = replace(leader, node="n5", status=PodStatus("Running"))
    full = web("k", "n5", owner=None)
    sets = sets_of(*FOUR, small("n5"), *FOUR_HALVES, runs, full, *waiting)

    assert len(sets) == 2
    assert all(each is not None and each.gang is None for each in sets)


def test_a_pod_of_the_gang_that_fits_has_its_place_kept_too() -> None:
    [moved] = sets_of(*TWO, *HALVES, small("n5", cpu="3"), *gang(2))

    assert moved is not None
    assert {each.node for each in moved.rooms} > {"n5"}
    assert len(moved.rooms) == 2
    assert len(moved.pods) == 1


def test_a_gang_of_which_all_fit_needs_no_move() -> None:
    assert sets_of(*FOUR, *FOUR_HALVES, *gang(2, "2")) == set()


def test_the_pods_of_a_gang_that_is_nominated_keep_their_nodes() -> None:
    [first, second] = gang(2)
    nominated = [
        replace(each, status=replace(NOWHERE, nominated_node=name))
        for each, name in ((first, "n4"), (second, "n3"))
    ]
    [moved] = sets_of(*FOUR, *FOUR_HALVES, *nominated)

    assert moved is not None
    assert moved.rooms == (RoomFor("g0", "n4"), RoomFor("g1", "n3"))


def test_a_nominated_pod_without_a_controller_counts_once() -> None:
    """It is nominated for the node, and its binding there is tried: that is the same room."""
    [first, second] = gang(2, "1500m", owner=None)
    nodes = [small("n1"), small("n2")]
    filled = [web("a", "n1"), web("j", "n1", owner=None), web("k", "n2", "2600m", owner=None)]
    nominated = [
        replace(each, status=replace(NOWHERE, nominated_node="n1")) for each in (first, second)
    ]
    [moved] = sets_of(*nodes, *filled, *nominated)

    assert moved is not None
    assert [each.node for each in moved.rooms] == ["n1", "n1"]


def test_the_node_for_which_the_pod_is_nominated_comes_first() -> None:
    for name in NAMES[:2]:
        nominated = waits(status=replace(NOWHERE, nominated_node=name))
        [each] = findings(make_room(), *TWO, *HALVES, nominated)
        assert each.pod.node == name


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param((*TWO, *reversed(HALVES)), id="pods"),
        pytest.param((*reversed(TWO), *HALVES), id="nodes"),
    ],
)
def test_of_moves_that_cost_the_same_those_are_found_that_a_restart_finds(
    objects: tuple[ClusterObject, ...],
) -> None:
    assert found(make_room(), *objects, waits()) == ["n1a"]


nodes = st.builds(
    lambda name, taints, cpu, ready, cordoned: small(
        name, *taints, cpu=cpu, ready=ready, unschedulable=cordoned
    ),
    st.sampled_from(NAMES),
    st.sampled_from([(), (), (), ("a:NoSchedule",)]),
    st.sampled_from(["2", "3", "3"]),
    st.sampled_from(["True", "True", "True", "False"]),
    st.sampled_from([False, False, False, True]),
)
bound = st.builds(
    lambda name, on, cpu, tolerates, gone, cost, priority: replace(
        web(name, on, cpu, tolerates=tolerates, priority=priority),
        deletion_s=gone,
        annotations=Annotations(deletion_cost=cost),
    ),
    st.sampled_from([f"p{i}" for i in range(5)]),
    st.sampled_from(NAMES),
    st.sampled_from(["600m", "900m"]),
    st.sampled_from(["", "a"]),
    st.sampled_from([None, None, None, 1]),
    st.sampled_from([None, None, "500000000"]),
    st.sampled_from([None, None, 5]),
)
pending = st.builds(
    lambda name, cpu, status, nominated, priority, never, group: with_spec(
        waits(name, cpu, replace(status, nominated_node=nominated), priority=priority),
        never_preempts=never,
        scheduling_group=group,
    ),
    st.sampled_from(["w1", "w2"]),
    st.sampled_from(["1500m", "2"]),
    st.sampled_from([NOWHERE, NOWHERE, NOWHERE, GATED]),
    st.sampled_from(["", "", "n1", "n2"]),
    st.sampled_from([None, None, 5, -5]),
    st.booleans(),
    st.sampled_from(["", "", "", "g"]),
)
FIELDS: dict[Any, tuple[str, ...]] = {
    Node: ("taints", "allocatable", "ready_status", "unschedulable"),
    Pod: ("spec", "deletion_s", "annotations", "node", "status"),
}
drawn_objects = nodes | bound | pending | pending
APPLIED = st.tuples(st.just("apply"), drawn_objects, st.integers(0, 19))
REMOVED = st.tuples(st.just("remove"), drawn_objects, st.just(0))
steps = st.lists(
    st.one_of(APPLIED, APPLIED, APPLIED, APPLIED, APPLIED, REMOVED), min_size=8, max_size=20
)
START: tuple[ClusterObject, ...] = (
    *(small(name, cpu="3") for name in NAMES),
    *(web(f"p{i}", NAMES[i % 3], "900m") for i in range(5)),
    waits("w1", "1500m"),
    waits("w2", "2"),
)


def changed(cluster: Scenario, drawn: Any, number: int) -> Any:
    """Return an object as it is but for one field; a pod that is bound stays on its node."""
    fields = FIELDS[type(drawn)]
    one: Any = in_one_field(cluster, drawn, fields[number % len(fields)])
    known = cluster.state.store(type(drawn)).get(drawn.key)
    if isinstance(known, Pod) and known.node:
        return replace(one, node=known.node)
    return one


@pytest.mark.hypothesis
@given(steps)
def test_it_finds_at_once_what_a_full_pass_finds(drawn: Iterable[tuple[Any, ...]]) -> None:
    cluster = Scenario(make_room(), *START, evictor=DefaultEvictorArgs(), now_s=NOW)
    for what, of, number in drawn:
        getattr(cluster, what)(changed(cluster, of, number) if what == "apply" else of)
        assert cluster.flagged() == cluster.flagged_by_full_scan()
        assert cluster.flagged() == cluster.flagged_after_restart()
