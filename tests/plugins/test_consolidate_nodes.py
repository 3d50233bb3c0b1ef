"""ConsolidateNodes finds the pods of nodes that can be emptied as a whole, and of no others."""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reactive_desched.model.changes import Resynced
from reactive_desched.model.consolidation import EMPTY, EMPTYING, PLANNED, consolidating_taint
from reactive_desched.model.findings import Finding
from reactive_desched.model.move_cost import seconds_until_ready
from reactive_desched.model.moves import MovedPods
from reactive_desched.model.objects import Annotations, ClusterObject, Node, OwnerReference, Pod
from reactive_desched.plugins.consolidate_nodes import (
    ConsolidateNodesArgs,
    ConsolidateNodesPlugin,
)
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import Scenario, plugin_from_policy
from tests.support.golden import Golden
from tests.support.quick_plans import seek_plans_briefly
from tests.support.random_steps import in_one_field

NAMES = ("n1", "n2", "n3")


def consolidate(**args: Any) -> ConsolidateNodesPlugin:
    return plugin_from_policy(
        ConsolidateNodesPlugin, ConsolidateNodesArgs, **{"headroom": {}, **args}
    )


def small(name: str, *taints: str, cpu: str = "4", **more: Any) -> Node:
    return node(name, *taints, allocatable={"cpu": cpu, "memory": "8Gi", "pods": "10"}, **more)


def web(name: str, on: str, cpu: str = "1", **more: Any) -> Pod:
    return pod(name, on=on, requests={"cpu": cpu, "memory": "1Gi"}, **more)


def of_daemon_set(name: str, on: str) -> Pod:
    owner = OwnerReference("DaemonSet", "agent", "uid-agent", controller=True)
    return replace(web(name, on, "100m"), owners=(owner,))


def ready_after(name: str, on: str, seconds: int) -> Pod:
    made = web(name, on, created=1000, changed={"Ready": 1000 + seconds})
    return replace(made, start_delay_s=0)


def found(plugin: ConsolidateNodesPlugin, *objects: ClusterObject, **more: Any) -> list[str]:
    """Name the pods that are found, in their order."""
    return [each.pod.name for each in findings(plugin, *objects, **more)]


def findings(plugin: ConsolidateNodesPlugin, *objects: ClusterObject, **more: Any) -> list[Finding]:
    cluster = Scenario(plugin, *objects, **more)
    [subject] = plugin.subjects(Resynced(), cluster.view)
    return [each for each in cluster.evaluate(subject) if isinstance(each, Finding)]


def tainted(name: str, value: str) -> Node:
    return replace(small(name), taints=(consolidating_taint(value),))


THREE = tuple(map(small, NAMES))


def test_where_every_node_is_hardly_used_all_but_one_are_emptied() -> None:
    pods = [web("a", "n1"), web("b", "n2"), web("c", "n3"), web("d", "n3")]

    each = findings(consolidate(), *THREE, *pods)

    assert {of.pod.name: of.move_set.node for of in each if of.move_set} == {"a": "n1", "b": "n2"}


def test_a_node_is_emptied_as_a_whole_or_not_at_all() -> None:
    pods = [web("a", "n1"), web("bare", "n1", owner=None), web("b", "n2"), web("c", "n2")]

    assert found(consolidate(), *THREE[:2], *pods) == ["b", "c"]


def test_a_set_names_all_pods_that_have_to_leave_and_no_others() -> None:
    pods = [web("a", "n1"), web("b", "n1", "2"), of_daemon_set("agent", "n1"), web("c", "n2", "2")]
    tight = small("n1", cpu="4"), small("n2", cpu="6")

    [first, second] = findings(consolidate(minSaving=0), *tight, *pods, small("n3"))

    assert first.move_set == second.move_set
    assert first.move_set is not None
    assert first.move_set.pods == (pods[1].uid, pods[0].uid)


def test_pods_that_fit_nowhere_else_keep_their_node() -> None:
    pods = [web("a", "n1", "3"), web("b", "n2", "2")]

    assert found(consolidate(), *THREE[:2], *pods) == []


def test_an_empty_node_takes_no_pod() -> None:
    assert found(consolidate(), *THREE, web("a", "n1", "3"), web("b", "n2", "3")) == []


@pytest.mark.parametrize(
    "left",
    [
        pytest.param(small("n1", unschedulable=True), id="cordoned"),
        pytest.param(replace(small("n1"), drain="ada"), id="to be drained"),
        pytest.param(replace(small("n1"), is_terminating=True), id="being deleted"),
        pytest.param(small("n1", "karpenter.sh/disrupted:NoSchedule"), id="removed by Karpenter"),
    ],
)
def test_nodes_that_others_care_for_are_left_alone_and_take_no_pods(left: Node) -> None:
    pods = [web("a", "n1"), web("b", "n2")]

    assert found(consolidate(), left, small("n2"), *pods) == []


@pytest.mark.parametrize("annotation", ["do_not_disrupt", "scale_down_disabled"])
def test_a_node_that_is_to_stay_is_not_emptied_and_takes_pods(annotation: str) -> None:
    left = replace(small("n1"), **{annotation: "true"})

    assert found(consolidate(), left, small("n2"), web("a", "n1"), web("b", "n2", "2")) == ["b"]


def test_an_annotation_with_a_word_for_no_lets_a_node_be_emptied() -> None:
    node = replace(small("n1"), scale_down_disabled="no")

    assert found(consolidate(), node, small("n2"), web("a", "n1"), web("b", "n2", "2")) == ["a"]


def test_only_selected_nodes_are_emptied() -> None:
    selected = small("n2", labels={"pool": "batch"})
    plugin = consolidate(nodeSelector={"matchLabels": {"pool": "batch"}})

    assert found(plugin, small("n1"), selected, web("a", "n1"), web("b", "n2")) == ["b"]


def test_headroom_stays_free_of_the_nodes_that_are_left() -> None:
    pods = [web("a", "n1"), web("b", "n2", "2")]

    assert found(consolidate(headroom={"cpu": 25}), *THREE[:2], *pods) == ["a"]
    assert found(consolidate(headroom={"cpu": 26}), *THREE[:2], *pods) == []


def test_so_many_nodes_of_each_zone_stay() -> None:
    zones = [small(name, zone=zone) for name, zone in zip(NAMES, "aab", strict=True)]
    pods = [web("a", "n1"), web("b", "n2"), web("c", "n3")]
    two = [{"label": "topology.kubernetes.io/zone", "nodes": 2}]

    assert found(consolidate(), *zones, *pods) in (["a"], ["b"])
    assert found(consolidate(minNodes=two), *zones, *pods) == []
    assert len(found(consolidate(minNodes=[]), *zones, *pods)) == 2


def test_the_node_whose_pods_cost_least_to_move_is_emptied_first() -> None:
    important = web("a", "n1", priority=100_000_000)

    assert found(consolidate(), *THREE[:2], important, web("b", "n2")) == ["b"]
    cheap = replace(web("b", "n2"), annotations=Annotations(deletion_cost="-100000000"))
    dear = replace(web("a", "n1"), annotations=Annotations(deletion_cost="100000000"))
    assert found(consolidate(), *THREE[:2], dear, cheap) == ["b"]


def test_pods_that_are_slow_to_be_ready_cost_more_to_move() -> None:
    slow, again = ready_after("a", "n1", 300), ready_after("a", "n1", 9000)
    quick = [ready_after(name, "n2", 5) for name in "bc"]

    assert seconds_until_ready(slow) == 300
    assert seconds_until_ready(again) == seconds_until_ready(web("d", "n1")) == 0
    assert found(consolidate(minSaving=0), *THREE[:2], slow, *quick) == ["b", "c"]
    assert found(consolidate(minSaving=0), *THREE[:2], again, *quick) == ["a"]


def test_a_dearer_node_is_emptied_before_a_cheaper_one() -> None:
    nodes = [small("n1", labels={"price": "1"}), small("n2", labels={"price": "3"})]
    pods = [web("a", "n1"), web("b", "n2")]

    assert found(consolidate(priceLabel="price"), *nodes, *pods) == ["b"]
    assert found(consolidate(), *nodes, *pods) == ["a"]


def test_a_price_is_looked_up_by_the_instance_type_or_another_label() -> None:
    nodes = [
        small("n1", labels={"node.kubernetes.io/instance-type": "cheap", "pool": "dear"}),
        small("n2", labels={"node.kubernetes.io/instance-type": "dear", "pool": "cheap"}),
    ]
    pods = [web("a", "n1"), web("b", "n2")]
    prices = {"cheap": 0.096, "dear": 0.192}

    assert found(consolidate(prices=prices), *nodes, *pods) == ["b"]
    assert found(consolidate(prices=prices, priceLabel="pool"), *nodes, *pods) == ["a"]


def test_a_node_whose_price_is_not_known_costs_as_much_as_the_others_on_average() -> None:
    """One of three nodes may be emptied: n1, of which no price is known, is worth 0.2."""
    nodes = [
        small("n1"),
        small("n2", labels={"price": "0.3"}),
        small("n3", labels={"price": "0.1"}),
    ]
    one_each = [web("a", "n1"), web("b", "n2"), web("c", "n3")]
    two_stay = {"priceLabel": "price", "minNodes": [{"label": "pool", "nodes": 2}]}
    no_dear = {"matchExpressions": [{"key": "price", "operator": "NotIn", "values": ["0.3"]}]}

    assert found(consolidate(**two_stay), *nodes, *one_each) == ["b"]
    assert found(consolidate(**two_stay, nodeSelector=no_dear), *nodes, *one_each) == ["a"]


def test_moves_that_cost_more_than_the_node_saves_are_left() -> None:
    many = [web(f"a{i}", "n1", "100m") for i in range(9)]
    nodes = [small("n1", labels={"price": "1"}), small("n2", labels={"price": "100"})]
    others = web("b", "n2", "3900m")

    assert found(consolidate(priceLabel="price", minSaving=0.5), *nodes, *many, others) == []
    left = found(consolidate(priceLabel="price", minSaving=0), *nodes, *many[:1], web("b", "n2"))
    assert left == ["b"]


def test_a_set_that_has_begun_goes_on_and_no_other_begins() -> None:
    pods = [web("a", "n1"), web("b", "n2"), web("c", "n2"), web("d", "n3")]

    assert found(consolidate(), small("n1"), tainted("n2", EMPTYING), small("n3"), *pods) == [
        "b",
        "c",
    ]


def test_nodes_with_the_taint_take_no_pods() -> None:
    pods = [web("a", "n1", "3"), web("b", "n2")]

    assert found(consolidate(), small("n1"), tainted("n2", EMPTY), *pods) == []


def test_a_node_that_is_planned_takes_no_pods_and_is_emptied() -> None:
    """Else the cheaper n1 would be, onto n2."""
    pods = [web("a", "n1"), web("b", "n2"), web("c", "n2")]

    assert found(consolidate(), small("n1"), tainted("n2", PLANNED), *pods) == ["b", "c"]


def test_a_node_that_took_pods_of_an_emptied_one_is_left_alone_for_a_time(
    golden: Golden,
) -> None:
    pods = [web("a", "n1"), web("b", "n2", "2")]
    came = MovedPods("ConsolidateNodes", "n1", {pods[0].uid: 1000.0})
    by_another = MovedPods("LowNodeUtilization", "n2", {pods[1].uid: 1000.0})
    plugin = consolidate(minSaving=0)

    assert found(plugin, *THREE[:2], *pods, now_s=1001) == ["a"]
    assert found(plugin, *THREE[:2], *pods, came, by_another, now_s=1001) == ["b"]
    cluster = Scenario(plugin, *THREE[:2], *pods, came, by_another, now_s=1001)
    assert cluster.flagged() == {"b"}
    assert plugin.describe(pods[0], cluster.view) == golden()
    cluster.wait(90)
    assert cluster.flagged() == {"a"}
    begun = tainted("n1", EMPTYING)
    assert found(plugin, begun, small("n2"), *pods, came, now_s=1001) == ["a"]


def test_pods_that_leave_already_are_no_part_of_the_set() -> None:
    leaving = replace(web("a", "n1"), deletion_s=1)

    others = [web("c", "n2", "500m"), web("d", "n2", "500m")]

    assert found(consolidate(), *THREE[:2], leaving, web("b", "n1"), *others) == ["b"]


def test_pods_that_the_evictor_or_the_arguments_leave_keep_their_node() -> None:
    pods = [web("a", "n1", namespace="db"), web("b", "n2", "2")]
    plugin = consolidate(namespaces={"exclude": ["db"]}, minSaving=0)

    assert found(plugin, *THREE[:2], *pods) == ["b"]
    two = DefaultEvictorArgs(min_replicas=2)
    assert found(consolidate(), *THREE[:2], web("b", "n2"), evictor=two) == []


nodes = st.builds(
    lambda name, taints, cpu, ready, cordoned, value: replace(
        (made := small(name, *taints, cpu=cpu, ready=ready, unschedulable=cordoned)),
        taints=(*made.taints, *((consolidating_taint(value),) if value else ())),
    ),
    st.sampled_from(NAMES),
    st.sampled_from([(), (), (), ("a:NoSchedule",)]),
    st.sampled_from(["1", "2", "2"]),
    st.sampled_from(["True", "True", "True", "False"]),
    st.sampled_from([False, False, False, True]),
    st.sampled_from(["", "", "", EMPTY, EMPTYING]),
)
pods = st.builds(
    lambda name, on, cpu, tolerates, gone, cost, priority, ready: replace(
        web(name, on, cpu, tolerates=tolerates, priority=priority, **ready),
        deletion_s=gone,
        start_delay_s=0,
        annotations=Annotations(deletion_cost=cost),
    ),
    st.sampled_from([f"p{i}" for i in range(6)]),
    st.sampled_from([*NAMES, None]),
    st.sampled_from(["200m", "900m"]),
    st.sampled_from(["", "a"]),
    st.sampled_from([None, None, None, 1]),
    st.sampled_from([None, None, "500000000"]),
    st.sampled_from([None, None, 2_000_000_000]),
    st.sampled_from([{}, {}, {"created": 10, "changed": {"Ready": 250}}]),
)
FIELDS: dict[Any, tuple[str, ...]] = {
    Node: ("taints", "allocatable", "ready_status", "unschedulable"),
    Pod: ("spec", "deletion_s", "annotations", "node", "condition_transitions"),
}
APPLIED = st.tuples(st.just("apply"), nodes | pods, st.integers(0, 19))
CAME = st.tuples(
    st.just("came"),
    st.builds(
        lambda plugin, name, at_s: MovedPods(plugin, name, {"default/p1": at_s} if at_s else {}),
        st.sampled_from(["ConsolidateNodes", "ConsolidateNodes", "LowNodeUtilization"]),
        st.sampled_from(NAMES),
        st.sampled_from([0.0, 940.0, 1000.0]),
    ),
    st.just(0),
)
WAITED = st.tuples(st.just("wait"), st.sampled_from([1, 29, 90]), st.just(0))
REMOVED = st.tuples(st.just("remove"), nodes | pods, st.just(0))
steps = st.lists(
    st.one_of(APPLIED, APPLIED, APPLIED, APPLIED, APPLIED, REMOVED, CAME, WAITED),
    min_size=8,
    max_size=20,
)
START: tuple[ClusterObject, ...] = (
    *map(small, NAMES),
    *(web(f"p{i}", NAMES[i % 3], "200m") for i in range(4)),
)


def changed(cluster: Scenario, drawn: Any, number: int) -> Any:
    """Return an object as it is but for one field; a pod that is bound stays on its node."""
    fields = FIELDS[type(drawn)]
    one: Any = in_one_field(cluster, drawn, fields[number % len(fields)])
    known = cluster.state.store(type(drawn)).get(drawn.key)
    if isinstance(known, Pod) and known.node:
        return replace(one, node=known.node)
    return one


@pytest.fixture(scope="module")
def brief_plans() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patches:
        seek_plans_briefly(patches)
        yield


@pytest.mark.usefixtures("brief_plans")
@pytest.mark.hypothesis
@given(steps)
def test_it_finds_at_once_what_a_full_pass_finds(drawn: Iterable[tuple[Any, ...]]) -> None:
    cluster = Scenario(consolidate(minSaving=0), *START, now_s=1000, evictor=DefaultEvictorArgs())
    for what, of, number in drawn:
        done = {"came": cluster.apply}.get(what) or getattr(cluster, what)
        done(changed(cluster, of, number) if what == "apply" else of)
        assert cluster.flagged() == cluster.flagged_by_full_scan()
        assert cluster.flagged() == cluster.flagged_after_restart()


TWO: tuple[ClusterObject, ...] = (
    *map(small, NAMES[:2]),
    web("a", "n1"),
    web("b", "n2"),
    web("c", "n2"),
)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        pytest.param(small("n1", unschedulable=True), small("n1"), id="uncordoned"),
        pytest.param(small("n2", cpu="2"), small("n2"), id="more room"),
        pytest.param(small("n2"), small("n2", cpu="2"), id="less room"),
        pytest.param(
            replace(small("n1"), scale_down_disabled="true"), small("n1"), id="may be scaled down"
        ),
        pytest.param(small("n2", "a:NoSchedule"), small("n2"), id="a taint less"),
        pytest.param(
            ready_after("a", "n1", 5), ready_after("a", "n1", 300), id="Ready at another time"
        ),
        pytest.param(web("a", "n1"), replace(web("a", "n1"), deletion_s=1), id="terminating"),
        pytest.param(web("a", "n1"), web("a", "n1", priority=2_000_000_000), id="critical"),
        pytest.param(web("c", "n2"), web("c", "n2", "3"), id="a larger pod"),
        pytest.param(
            MovedPods("ConsolidateNodes", "n1", {}),
            MovedPods("ConsolidateNodes", "n1", {"b": 1000.0}),
            id="a pod that came from a node that was emptied",
        ),
        pytest.param(
            web("a", "n1"),
            replace(web("a", "n1"), annotations=Annotations(deletion_cost="500000000")),
            id="another deletion cost",
        ),
    ],
)
def test_a_change_of_a_single_field_is_followed(first: Any, then: Any) -> None:
    cluster = Scenario(consolidate(minSaving=0), *TWO, now_s=1000, evictor=DefaultEvictorArgs())
    cluster.apply(first)
    before = cluster.flagged()

    cluster.apply(then)

    assert cluster.flagged_by_full_scan() != before, "the case shows nothing"
    assert cluster.flagged() == cluster.flagged_by_full_scan()
