"""What wakes LowNodeUtilization and HighNodeUtilization, and what they plan when they are woken."""

from typing import Any

import pytest
from msgspec.structs import replace

from reactive_desched.api.plugin import next_opinion
from reactive_desched.draining.plugin import POOL
from reactive_desched.model.decisions import Evict, Refuse
from reactive_desched.model.findings import Finding, YieldPoint
from reactive_desched.model.moves import MovedPods
from reactive_desched.model.node_table import NodeRole
from reactive_desched.model.objects import Annotations, ClusterObject, Node, Pod
from reactive_desched.model.usage import NodeUsage
from reactive_desched.plugins.high_node_utilization import (
    HighNodeUtilizationArgs,
    HighNodeUtilizationPlugin,
)
from reactive_desched.plugins.low_node_utilization import (
    LowNodeUtilizationArgs,
    LowNodeUtilizationPlugin,
)
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import Scenario, plugin_from_policy
from tests.support.golden import Golden


def low(**args: Any) -> LowNodeUtilizationPlugin:
    args = {"thresholds": {"cpu": 30}, "targetThresholds": {"cpu": 50}, **args}
    return plugin_from_policy(LowNodeUtilizationPlugin, LowNodeUtilizationArgs, **args)


def high(**args: Any) -> HighNodeUtilizationPlugin:
    args = {"thresholds": {"cpu": 30}, **args}
    return plugin_from_policy(HighNodeUtilizationPlugin, HighNodeUtilizationArgs, **args)


def small(name: str, *taints: str, cpu: str = "1", **more: Any) -> Node:
    return node(name, *taints, allocatable={"cpu": cpu, "memory": "1Gi", "pods": "99"}, **more)


def tenths(count: int, on: str, first: int = 0, cpu: str = "100m") -> list[Pod]:
    return [pod(f"{on}-{i}", on=on, requests={"cpu": cpu}) for i in range(first, first + count)]


def use(name: str, cpu: int, *pods: Pod, source: str = "KubernetesMetrics") -> NodeUsage:
    usage = {"cpu": cpu, "memory": 0, "MetricResource": cpu // 10}
    return NodeUsage(
        source, name, usage, 1.0, {str(pod): {"cpu": 100, "memory": 0} for pod in pods}
    )


N1, N2, N3 = small("n1"), small("n2"), small("n3")


# --- what wakes a plugin ---


def moved(node: str, *pods: Pod, plugin: str = "LowNodeUtilization") -> MovedPods:
    return MovedPods(plugin, node, {each.uid: 1.0 for each in pods})


def single(count: int, on: str, first: int = 0) -> list[Pod]:
    """Return pods of a tenth of a node, each of a workload of its own."""
    return [
        pod(f"{on}-{i}", on=on, requests={"cpu": "100m"}, owner=f"ReplicaSet/{on}-{i}")
        for i in range(first, first + count)
    ]


def test_a_node_goes_on_taking_pods_until_the_target_while_those_moved_to_it_fill_it() -> None:
    came = single(4, "n2")
    cluster = Scenario(low(), N1, N2, *single(6, "n1"), *came)
    assert cluster.flagged() == set()  # at 40 % it hardly has room

    cluster.apply(moved("n2", *came))
    assert cluster.flagged() == {"n1-0"}

    cluster.apply(*single(1, "n2", first=4))
    assert cluster.flagged() == set()  # at its target


def test_a_node_takes_no_more_pods_when_others_fill_it_than_those_that_were_moved_to_it() -> None:
    came = single(2, "n2")
    cluster = Scenario(low(), N1, N2, *single(6, "n1"), *came, moved("n2", *came))
    assert cluster.flagged() == {"n1-0"}

    cluster.apply(*single(4, "n2", first=2))
    assert cluster.flagged() == set()

    cluster.remove(*single(2, "n2", first=4))
    assert cluster.flagged() == {"n1-0"}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(small("n2", unschedulable=True), id="it is cordoned"),
        pytest.param(small("n2", "a:NoSchedule"), id="it is tainted"),
        pytest.param(small("n2", cpu="700m"), id="it has less"),
        pytest.param(small("n2", ready="False"), id="it is not ready"),
        pytest.param(moved("n2"), id="what was moved is forgotten"),
        pytest.param(moved("n2", pod("gone")), id="those that were moved are gone"),
    ],
)
def test_a_node_takes_no_more_pods_when_the_facts_change(change: ClusterObject) -> None:
    came = single(4, "n2")
    cluster = Scenario(low(), N1, N2, *single(6, "n1"), *came, moved("n2", *came))
    assert cluster.flagged() == {"n1-0"}

    cluster.apply(change)

    assert cluster.flagged() == set()
    assert cluster.flagged_after_restart() == set()


def test_the_table_and_the_description_say_since_when_a_node_is_filled(golden: Golden) -> None:
    plugin, came = low(), single(4, "n2")
    cluster = Scenario(plugin, N1, N2, *single(6, "n1"), *came, moved("n2", *came))

    [table] = plugin.node_tables(cluster.view)

    assert {row.name: (row.role, row.filled_since_s) for row in table.nodes} == {
        "n1": (NodeRole.GIVES, None),
        "n2": (NodeRole.TAKES, 1.0),
    }
    assert table.describe("n2") == golden()
    assert "filled until" not in table.describe("n1")


def test_what_another_plugin_moved_fills_no_node() -> None:
    came = single(4, "n2")
    cluster = Scenario(low(), N1, N2, *single(6, "n1"), *came, moved("n2", *came, plugin="X"))

    assert cluster.flagged() == set()


def test_a_node_that_is_filled_counts_among_the_nodes_that_must_have_room() -> None:
    came = single(4, "n2")
    more = low(numberOfNodes=1)
    cluster = Scenario(more, N1, N2, N3, *single(6, "n1"), *came)
    assert cluster.flagged() == set()

    cluster.apply(moved("n2", *came))

    assert cluster.flagged() == {"n1-0"}


def test_a_measured_node_is_filled_by_what_the_pods_moved_to_it_use() -> None:
    plugin = low(metricsUtilization={"source": "KubernetesMetrics"})
    stayed, came = single(6, "n1"), single(4, "n2")
    samples = use("n1", 600, *stayed), use("n2", 400, *came)
    later = [replace(each, sampled_s=2.0) for each in samples]
    cluster = Scenario(plugin, N1, N2, *stayed, *came, *later)
    assert cluster.flagged() == set()

    cluster.apply(moved("n2", *came))
    assert cluster.flagged() == {"n1-0"}

    cluster.apply(replace(use("n2", 450, *came), sampled_s=3.0))  # the node itself uses 50 more
    assert cluster.flagged() == set()  # no pod fits below the target

    cluster.apply(replace(use("n2", 750, *came), sampled_s=4.0))
    assert cluster.flagged() == set()


def test_where_a_query_measures_nodes_alone_one_is_filled_until_its_target() -> None:
    metric = {"MetricResource": 30}, {"MetricResource": 50}
    plugin = low(
        thresholds=metric[0],
        targetThresholds=metric[1],
        metricsUtilization={"source": "Prometheus", "prometheus": {"query": "up"}},
    )
    came = single(2, "n2")
    up = "Prometheus/up"
    samples = use("n1", 600, source=up), use("n2", 400, source=up)
    cluster = Scenario(plugin, N1, N2, *single(6, "n1"), *came, *samples)
    assert cluster.flagged() == set()

    cluster.apply(moved("n2", *came))
    assert cluster.flagged()

    cluster.apply(use("n2", 510, source=up))
    assert cluster.flagged() == set()


# --- whose pods leave ---


def of(app: str, number: int, on: str) -> Pod:
    owner = f"ReplicaSet/{app}"
    return pod(f"{app}-{number}", on=on, requests={"cpu": "100m"}, owner=owner)


def test_pods_of_different_workloads_leave_in_turn() -> None:
    pods = [of(app, number, "n1") for app in "ab" for number in range(4)]
    cluster = Scenario(low(), N1, N2, *pods)

    found = [each.pod.name for each in cluster.evaluate(POOL) if isinstance(each, Finding)]

    assert found == ["a-0", "b-0", "a-1"]


def test_a_workload_with_pods_on_the_other_node_comes_after_those_without() -> None:
    pods = [of(app, number, "n1") for app in "abc" for number in range(2)]
    cluster = Scenario(low(), N1, N2, *pods, of("a", 2, "n2"))

    found = [each.pod.name for each in cluster.evaluate(POOL) if isinstance(each, Finding)]

    assert found == ["b-0"]


def test_the_second_replica_is_tried_only_where_no_other_pod_is_left() -> None:
    """Its replacement would come back: the kube-scheduler spreads the pods of a workload."""
    pods = [of("a", 0, "n2"), of("a", 1, "n1")]
    others = [of(f"o{number}", 0, "n1") for number in range(5)]
    cluster = Scenario(low(), N1, N2, *pods, *others)
    [found] = [each for each in cluster.evaluate(POOL) if isinstance(each, Finding)]
    assert (found.pod.name, found.is_trial) == ("o0-0", False)

    cluster.apply(
        *(pod(each.name, on="n1", requests={"cpu": "100m"}, owner="DaemonSet/d") for each in others)
    )

    [found] = [each for each in cluster.evaluate(POOL) if isinstance(each, Finding)]
    assert (found.pod.name, found.is_trial) == ("a-1", True)


def test_a_pod_bound_where_no_node_gives_pods_wakes_nothing() -> None:
    cluster = Scenario(low(), N1, N2, *tenths(4, "n1"))

    assert cluster.subjects_evaluated(*tenths(1, "n1", first=4)) == set()
    assert cluster.subjects_evaluated(*tenths(1, "n1", first=5)) == {POOL}
    assert cluster.flagged() == {"n1-0"}


def test_a_node_that_joins_a_full_cluster_gets_pods() -> None:
    cluster = Scenario(low(), N1, *tenths(9, "n1"))
    assert cluster.flagged() == set()

    cluster.apply(N2)

    assert len(cluster.flagged()) == 4


def test_a_pod_bound_to_a_node_that_neither_gives_nor_takes_wakes_nothing() -> None:
    cluster = Scenario(low(), N1, N2, N3, *tenths(9, "n1"), *tenths(4, "n2"))
    other = pod("other", on="n2", requests={"cpu": "100m"}, owner="ReplicaSet/other")

    assert cluster.subjects_evaluated(other) == set()
    assert cluster.subjects_evaluated(*tenths(1, "n3")) == {POOL}


def test_a_pod_of_a_workload_of_a_full_node_wakes_it_wherever_that_is_bound() -> None:
    """Where the other pods of a workload are decides where the replacement of one goes."""
    cluster = Scenario(low(), N1, N2, N3, *tenths(9, "n1"), *tenths(4, "n2"))

    assert cluster.subjects_evaluated(*tenths(1, "n2", first=4)) == {POOL}
    assert cluster.subjects_evaluated(small("n2", labels={"zone": "a"})) == {POOL}


def test_a_node_that_has_less_than_before_gives_pods_from_fewer_on() -> None:
    cluster = Scenario(low(), small("n1", cpu="2"), N2, *tenths(7, "n1"))
    assert cluster.subjects_evaluated(*tenths(1, "n1", first=7)) == set()
    assert cluster.subjects_evaluated(small("n1", cpu="1700m")) == set()

    assert cluster.subjects_evaluated(*tenths(1, "n1", first=8)) == {POOL}
    assert len(cluster.flagged()) == 1


def test_a_plan_pauses_while_it_measures_nodes_whose_pods_changed() -> None:
    plugin, calm = low(), [small(f"calm{number}") for number in range(300)]
    pods = [each for one in calm for each in tenths(4, one.name)]
    cluster = Scenario(plugin, N1, N2, *calm, *pods, *tenths(5, "n1"))
    cluster.apply(*(each for one in calm for each in tenths(1, one.name, first=4)))
    cluster.state.upsert(tenths(1, "n1", first=5)[0])

    opinions = plugin.balance(POOL, cluster.view)

    assert [next(opinions) for _ in range(3)] == [YieldPoint()] * 3
    found = next(each for each in opinions if not isinstance(each, YieldPoint))
    assert isinstance(found, Finding)


def test_every_change_of_use_matters_where_thresholds_follow_the_mean() -> None:
    plugin = low(useDeviationThresholds=True, thresholds={"cpu": 20}, targetThresholds={"cpu": 20})
    cluster = Scenario(plugin, N1, N2, N3, *tenths(9, "n1"), *tenths(4, "n2"))
    assert len(cluster.flagged()) == 3  # the mean is 43.3, so n1 may use 63.3

    assert cluster.subjects_evaluated(*tenths(2, "n2", first=4)) == {POOL}
    assert len(cluster.flagged()) == 2  # the mean is 50; n2 neither gives nor takes, as before


def test_a_pod_that_becomes_evictable_is_found_by_a_change_elsewhere() -> None:
    cluster = Scenario(
        low(),
        *(N1, N2, N3),
        *tenths(6, "n1"),
        *tenths(4, "n3"),
        evictor=DefaultEvictorArgs(min_replicas=11),
    )
    assert cluster.flagged() == set()

    cluster.apply(*tenths(1, "n3", first=4))

    assert cluster.flagged() == {"n1-0"}


def test_a_pod_that_prefers_to_stay_lets_another_go() -> None:
    first, *others = tenths(6, "n1")
    cluster = Scenario(low(), N1, N2, first, *others)

    cluster.apply(replace(first, annotations=Annotations(prefer_no_eviction="")))

    assert cluster.flagged() == {"n1-1"}


def test_a_taint_on_the_only_destination_keeps_pods_where_they_are() -> None:
    cluster = Scenario(low(), N1, N2, *tenths(6, "n1"))

    cluster.apply(small("n2", "a:NoSchedule"))
    assert cluster.flagged() == set()

    cluster.apply(N2)
    assert cluster.flagged() == {"n1-0"}


# --- what a plan counts ---


def test_a_pod_that_is_leaving_counts_as_gone() -> None:
    leaving, *others = tenths(6, "n1")
    cluster = Scenario(low(), N1, N2, leaving, *others)
    assert cluster.flagged() == {"n1-0"}

    cluster.apply(replace(leaving, deletion_s=1))

    assert cluster.flagged() == set()


def test_a_pod_moves_only_where_one_node_takes_it_and_stays_below_its_target() -> None:
    """Both destinations together have 400 left, each of them 200; upstream would evict."""
    large = tenths(3, "n1", cpu="300m")
    cluster = Scenario(low(), N1, N2, N3, *large, *tenths(3, "n2"), *tenths(3, "n3"))
    assert cluster.flagged() == set()

    cluster.remove(*tenths(1, "n3"))

    assert cluster.flagged() == {"n1-0"}


def test_each_destination_takes_as_many_as_it_has_room_for() -> None:
    """n2 and n3 take one pod of 200 each; a third would fit their sum alone."""
    pods = tenths(5, "n1", cpu="200m")
    cluster = Scenario(low(), N1, N2, N3, *pods, *tenths(2, "n2"), *tenths(2, "n3"))

    assert len(cluster.flagged()) == 2


def test_a_node_is_emptied_only_onto_nodes_that_hold_its_pods() -> None:
    cluster = Scenario(high(), N1, N2, N3, *tenths(1, "n1", cpu="300m"))
    cluster.apply(*tenths(8, "n2"), *tenths(8, "n3"))
    assert cluster.flagged() == set()

    cluster.remove(*tenths(1, "n2"))

    assert cluster.flagged() == {"n1-0"}


def test_a_finding_names_the_destinations_asks_for_fit_and_says_why(golden: Golden) -> None:
    cluster = Scenario(low(evictionLimits={"node": 7}), N1, N2, N3, *tenths(6, "n1"))

    [finding] = cluster.evaluate(POOL)

    assert isinstance(finding, Finding)
    assert (finding.targets, finding.needs_fit, finding.node_limit) == (
        frozenset({"n2", "n3"}),
        True,
        7,
    )
    assert finding.message == golden()
    assert finding.details == {"resource": "cpu", "usedPercent": 60, "targetPercent": 50}


def test_the_message_for_an_underutilized_node(golden: Golden) -> None:
    cluster = Scenario(high(), N1, N2, *tenths(1, "n1"), *tenths(6, "n2"))

    [finding] = cluster.evaluate(POOL)

    assert isinstance(finding, Finding)
    assert finding.message == golden()


@pytest.mark.parametrize(
    ("scope", "proposed"), [("", 9), ("namespace", 1), ("node", 1), ("cluster", 1)]
)
def test_a_refused_pod_is_not_counted_and_an_exhausted_scope_is_left(
    scope: str, proposed: int
) -> None:
    cluster = Scenario(low(), N1, N2, *tenths(9, "n1"))

    def refuse(finding: Finding) -> Refuse:
        return Refuse(finding, "g", "No", "no", scope_exhausted=scope)

    assert len(cluster.evaluate(POOL, refuse)) == proposed


def test_an_eviction_under_way_counts_as_done() -> None:
    cluster = Scenario(low(), N1, N2, *tenths(6, "n1"))

    def leaves(finding: Finding) -> Refuse:
        return Refuse(finding, "g", "No", "no", pod_leaves=True)

    assert len(cluster.evaluate(POOL, leaves)) == 1


@pytest.mark.parametrize("name", ["n1", "n2", "n3"])
def test_a_plan_continues_after_a_node_has_gone_that_it_counted(name: str) -> None:
    cluster = Scenario(low(), N1, N2, N3, *tenths(9, "n1"), *tenths(8, "n3"))
    plan, decision = low().evaluate(POOL, cluster.view), None
    found: list[Finding] = []
    while (opinion := next_opinion(plan, decision)) is not None:
        decision = None
        if isinstance(opinion, Finding):
            if not found:
                cluster.remove(small(name))
            found.append(opinion)
            decision = Evict(opinion)

    assert [each.pod.name for each in found][:2] == ["n1-0", "n1-1"]


# --- measured use ---

REAL = {"source": "KubernetesMetrics"}
QUERY = {"source": "Prometheus", "prometheus": {"query": "up"}}


def measured(cluster: list[ClusterObject], *samples: NodeUsage, **args: Any) -> Scenario:
    return Scenario(low(metricsUtilization=REAL, **args), *cluster, *samples)


def test_a_node_without_a_sample_neither_gives_nor_takes_pods() -> None:
    pods = tenths(6, "n1")
    cluster = measured([N1, N2, N3, *pods], use("n1", 600, *pods), use("n2", 0))
    assert cluster.flagged() == {"n1-0"}

    cluster.remove(use("n2", 0))
    assert cluster.flagged() == set()

    cluster.apply(use("n3", 0))
    assert cluster.flagged() == {"n1-0"}


def test_a_pod_that_left_after_the_sample_is_not_paid_for_twice() -> None:
    gone, *pods = tenths(6, "n1")
    cluster = measured([N1, N2, gone, *pods], use("n1", 600, gone, *pods), use("n2", 0))

    cluster.remove(gone)

    assert cluster.flagged() == set()
    cluster.apply(use("n1", 600, *pods))
    assert cluster.flagged() == {"n1-1"}


def test_a_replacement_of_the_same_name_on_the_same_node_stays_until_it_is_measured() -> None:
    """So it is with pods of a StatefulSet; the sample has what the one before used."""
    gone, *pods = tenths(6, "n1")
    cluster = measured([N1, N2, gone, *pods], use("n1", 600, gone, *pods), use("n2", 0))
    assert cluster.flagged() == {"n1-0"}

    cluster.remove(gone)
    cluster.apply(pod("n1-0", on="n1", uid="another", requests={"cpu": "100m"}, created=1))
    assert cluster.flagged() == set(), "the node uses 500 without it"

    cluster.apply(use("n1", 700, gone, *pods))
    assert cluster.flagged() == {"n1-1"}


def test_a_replacement_of_the_same_name_fills_a_destination_by_its_requests() -> None:
    pods, there = tenths(6, "n1"), tenths(2, "n2")
    cluster = measured([N1, N2, *pods, *there], use("n1", 600, *pods), use("n2", 300, *there))
    assert cluster.flagged() == {"n1-0"}

    for each in there:
        cluster.remove(each)
        cluster.apply(replace(each, uid=f"{each.uid}-new", created_s=1))

    assert cluster.flagged() == set()


def test_pods_that_came_after_the_sample_fill_a_destination_by_their_requests() -> None:
    pods = tenths(6, "n1")
    cluster = measured([N1, N2, *pods], use("n1", 600, *pods), use("n2", 300))
    assert cluster.flagged() == {"n1-0"}

    cluster.apply(*tenths(2, "n2"))

    assert cluster.flagged() == set()


def test_where_pods_cannot_be_measured_one_at_a_time_leaves() -> None:
    plugin = low(
        metricsUtilization=QUERY,
        thresholds={"MetricResource": 30},
        targetThresholds={"MetricResource": 50},
    )
    samples = [use(name, cpu, source="Prometheus/up") for name, cpu in (("n1", 900), ("n2", 0))]
    cluster = Scenario(plugin, N1, N2, *tenths(6, "n1"), *samples)

    [finding] = cluster.evaluate(POOL)

    assert isinstance(finding, Finding)
    assert finding.node_limit == 1
