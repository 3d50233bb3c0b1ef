"""LowNodeLoad: the table of koordinator's own tests, and what the recordings do not show."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from reactive_desched.draining.landing import explain_return
from reactive_desched.draining.load_args import LowNodeLoadArgs
from reactive_desched.model.decisions import TOTAL_LIMIT_REACHED, Defer, Evict
from reactive_desched.model.findings import Finding, RequeueAfter, YieldPoint
from reactive_desched.model.node_load import Level, LoadClass
from reactive_desched.model.objects import (
    BEST_EFFORT,
    BURSTABLE,
    ClusterObject,
    Node,
    Pod,
    PodStatus,
)
from reactive_desched.model.usage import NODE_METRIC, NodeMetric
from reactive_desched.plugins.low_node_load import LowNodeLoadPlugin
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.indexes.node_loads import NodeLoads
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import Scenario, build_view, plugin_from_policy
from tests.support.golden import verbatim

NOW_S = 1000.0
EXTENDED = "example.com/unit"
AT_ONCE = {"consecutiveAbnormalities": 1}
DAEMON = "DaemonSet/agent"


def host(name: str = "n1", slots: int = 10, extended: int | None = None, **more: Any) -> Node:
    has = {"cpu": "4", "memory": "3000", "pods": str(slots)}
    if extended is not None:
        has[EXTENDED] = str(extended)
    return node(name, allocatable=has, **more)


def small(name: str, on: str = "n1", **more: Any) -> Pod:
    requests = {"cpu": "400m", "memory": "0", **more.pop("requests", {})}
    status = PodStatus("Running", qos_class=more.pop("qos", BURSTABLE))
    return pod(name, on=on, requests=requests, status=status, **more)


def crowd(count: int = 5, on: str = "n1", **more: Any) -> list[Pod]:
    return [small(f"p{number}", on, **more) for number in range(1, count + 1)]


def kept(on: str = "n1", first: int = 6) -> list[Pod]:
    """Pods that the evictor protects."""
    return [small(f"p{number}", on, owner=DAEMON) for number in range(first, first + 3)]


def metric(name: str, pods: Iterable[Pod], at_s: float = NOW_S, **system: int) -> NodeMetric:
    """Measure a node whose pods use what they request."""
    by_pod = {str(pod): pod.spec.requests for pod in pods if pod.node == name}
    total = dict(system)
    for used in by_pod.values():
        for resource, amount in used.items():
            total[resource] = total.get(resource, 0) + amount
    return NodeMetric(NODE_METRIC, name, total, at_s, by_pod)


def measured(nodes: Sequence[Node], pods: Sequence[Pod]) -> list[ClusterObject]:
    return [*nodes, *pods, *(metric(each.name, pods) for each in nodes)]


def plugin(**args: Any) -> LowNodeLoadPlugin:
    given = {"anomalyCondition": AT_ONCE, **args}
    return plugin_from_policy(LowNodeLoadPlugin, LowNodeLoadArgs, **given)


def thresholds(low: Mapping[str, float], high: Mapping[str, float]) -> dict[str, Any]:
    return {"lowThresholds": dict(low), "highThresholds": dict(high)}


BASE = thresholds({"cpu": 30, "pods": 30}, {"cpu": 50, "pods": 50})
NODES = (host("n1", slots=9), host("n2"), host("n3", unschedulable=True))
FULL = (*crowd(), *kept(), small("p9", "n2"))


def evicted(judging: LowNodeLoadPlugin, objects: Iterable[ClusterObject]) -> list[str]:
    """Sweep once; each evicted pod is gone before the next decision."""
    state = ClusterState()
    for obj in objects:
        state.upsert(obj)
    view = build_view(state, wall_clock=lambda: NOW_S)
    plan, found = judging.sweep(view), []
    opinion = next(plan, None)
    while opinion is not None:
        assert isinstance(opinion, Finding | RequeueAfter | YieldPoint)
        if not isinstance(opinion, Finding):
            opinion = next(plan, None)
            continue
        found.append(opinion.pod.name)
        state.remove(opinion.pod)
        try:
            opinion = plan.send(Evict(opinion))
        except StopIteration:
            break
    return found


@pytest.mark.parametrize(
    ("args", "nodes", "pods", "count"),
    [
        pytest.param(BASE, NODES, (*kept(), *kept(first=1)), 0, id="only protected pods"),
        pytest.param(BASE, NODES, FULL, 4, id="until half of the slots are used"),
        pytest.param(
            {**BASE, "evictableNamespaces": {"exclude": ["shop"]}},
            NODES,
            (*crowd(namespace="shop"), *kept(), small("p9", "n2")),
            0,
            id="an excluded namespace",
        ),
        pytest.param(
            {**BASE, "evictableNamespaces": {"include": ["default"]}},
            NODES,
            (
                *crowd(2),
                *(small(f"p{n}", namespace="shop") for n in (3, 4, 5)),
                *kept(),
                small("p9", "n2"),
            ),
            2,
            id="an included namespace",
        ),
        pytest.param(
            BASE,
            NODES,
            (
                *crowd(requests={"memory": "300"}),
                *(replace(p, spec=small("x", requests={"memory": "300"}).spec) for p in kept()),
                small("p9", "n2", requests={"memory": "2100"}),
            ),
            3,
            id="memory counts though it has no threshold",
        ),
        pytest.param(
            thresholds({"pods": 30, EXTENDED: 30}, {"pods": 50, EXTENDED: 50}),
            (host("n1", extended=8), host("n2", extended=8)),
            (
                *crowd(6, requests={EXTENDED: "1"}),
                *(small(f"k{n}", owner=DAEMON, requests={EXTENDED: "1"}) for n in (1, 2)),
                small("p9", "n2", requests={EXTENDED: "1"}),
            ),
            3,
            id="an extended resource",
        ),
        pytest.param(BASE, (NODES[0], NODES[2]), FULL[:-1], 0, id="the only other is cordoned"),
        pytest.param(
            {**thresholds({"cpu": 5, "pods": 5}, {"cpu": 5, "pods": 5})}
            | {"useDeviationThresholds": True},
            NODES,
            FULL,
            2,
            id="distances from the mean",
        ),
        pytest.param(
            {
                **thresholds({"cpu": 0}, {"cpu": 100}),
                "prodLowThresholds": {"cpu": 30},
                "prodHighThresholds": {"cpu": 50},
            },
            NODES,
            FULL,
            3,
            id="production pods alone",
        ),
        pytest.param(
            {
                **thresholds({"cpu": 70, "pods": 80}, {"cpu": 70, "pods": 80}),
                "prodLowThresholds": {"cpu": 20},
                "prodHighThresholds": {"cpu": 40},
            },
            NODES,
            FULL,
            1,
            id="a node that is overloaded is not looked at for its production pods",
        ),
    ],
)
def test_as_many_pods_leave_as_koordinator_lets(
    args: dict[str, Any], nodes: Sequence[Node], pods: Sequence[Pod], count: int
) -> None:
    assert len(evicted(plugin(**args), measured(nodes, pods))) == count


def test_best_effort_pods_leave_first() -> None:
    pods = [
        small("p1", qos="BestEffort"),
        small("p2", qos="BestEffort"),
        small("p3"),
        small("p4", qos="BestEffort"),
        small("p5", qos="BestEffort"),
        *kept(),
        small("p9", "n2"),
    ]

    judging = plugin(**BASE, nodeFit=False)
    assert evicted(judging, measured(NODES, pods)) == ["p1", "p2", "p4", "p5"]


def test_in_a_sweep_those_fit_first_that_are_listed_first() -> None:
    """As koordinator: room is given to all that may leave before they are put in order."""
    own = {n: f"ReplicaSet/{n}" for n in range(1, 10)}
    best_effort = (small(f"p{n}", qos="BestEffort", owner=own[n]) for n in range(2, 6))
    pods = [small("p1", owner=own[1]), *best_effort, *kept()]
    objects = measured(NODES, [*pods, small("p9", "n2", owner=own[9])])

    assert evicted(plugin(**BASE), objects) == ["p2", "p3", "p4", "p1"]
    cluster = Scenario(plugin(**BASE), *objects, now_s=NOW_S)
    assert cluster.flagged() == {"p2", "p3", "p4", "p5"}


def test_of_equal_pods_the_one_that_relieves_the_node_best_leaves_first() -> None:
    pods = [small(f"p{m}", requests={"cpu": f"{m}m"}) for m in (100, 900, 700, 1200)]
    objects = measured((host("n1"), host("n2"), host("n3")), pods)

    # 900m above the threshold of 2000m are too much.
    args = thresholds({"cpu": 20}, {"cpu": 50})
    assert evicted(plugin(**args), objects) == ["p900"]


def test_a_plugin_that_is_paused_or_in_dry_run_evicts_nothing() -> None:
    objects = measured(NODES, FULL)

    assert evicted(plugin(**BASE, paused=True), objects) == []
    assert evicted(plugin(**BASE, dryRun=True), objects) == []


def test_the_message_has_every_resource_of_which_too_much_is_used() -> None:
    cluster = Scenario(plugin(**BASE), *measured(NODES, FULL), now_s=NOW_S)
    (finding, *_) = (f for f in cluster.evaluate("every pool") if isinstance(f, Finding))

    assert finding.message == verbatim(
        "node is overutilized, node cpu usage(80.00%)>threshold(50.00%),"
        " node pods usage(88.89%)>threshold(50.00%)"
    )
    assert finding.targets == frozenset({"n2"})
    assert finding.needs_fit


# --- what reacting adds ------------------------------------------------------------------------

TWO = (host("n1"), host("n2"))
CPU = thresholds({"cpu": 30}, {"cpu": 50})
PROD = {
    **thresholds({"cpu": 0}, {"cpu": 100}),
    "prodLowThresholds": {"cpu": 30},
    "prodHighThresholds": {"cpu": 50},
}
HOT = crowd(6)  # 2400m of 4000m: one pod more than allowed


def scenario(judging: LowNodeLoadPlugin, *more: ClusterObject) -> Scenario:
    return Scenario(judging, *measured(TWO, HOT), *more, now_s=NOW_S)


def test_a_measurement_makes_pods_leave_at_once() -> None:
    cluster = Scenario(plugin(**CPU), *TWO, *HOT, metric("n2", ()), now_s=NOW_S)
    assert cluster.flagged() == set()

    cluster.apply(metric("n1", HOT))

    assert len(cluster.flagged()) == 1


def test_a_pod_that_left_since_the_measurement_counts_no_longer() -> None:
    cluster = scenario(plugin(**CPU))
    (first,) = cluster.flagged()

    cluster.remove(next(p for p in HOT if p.name == first))

    assert cluster.flagged() == set()


def test_a_pod_that_leaves_is_not_made_up_for() -> None:
    cluster = scenario(plugin(**CPU))
    (first,) = cluster.flagged()

    leaving = next(p for p in HOT if p.name == first)
    cluster.apply(replace(leaving, deletion_s=int(NOW_S)))

    assert cluster.flagged() == set()


def test_a_pod_that_came_since_the_measurement_counts_as_it_requests() -> None:
    cluster = Scenario(plugin(**CPU), *measured(TWO, HOT[:5]), now_s=NOW_S)
    assert cluster.flagged() == set()

    cluster.apply(HOT[5])

    assert cluster.flagged() == {"p1"}


def test_while_no_node_gives_pods_away_one_that_comes_or_goes_wakes_no_one() -> None:
    judging = plugin(**CPU)
    cluster = Scenario(judging, *measured(TWO, HOT[:4]), now_s=NOW_S)

    assert cluster.subjects_evaluated(HOT[4]) == set()
    cluster.remove(HOT[0])
    assert cluster.subjects_evaluated(HOT[5]) == set()

    (rule,) = {rule for kind, rule in judging.required_indexes if kind is NodeLoads}
    n1, _ = cluster.view.index(NodeLoads, rule).classes(0.0).of(*LoadClass)
    assert n1.load.used(Level.NODE) == {"cpu": 5 * 400, "memory": 0, "pods": 5}
    assert cluster.subjects_evaluated(small("again")) == {"every pool"}


def test_a_plan_pauses_while_it_looks_at_nodes_whose_pods_changed() -> None:
    judging, many = plugin(**CPU), [host(f"n{number}") for number in range(1, 301)]
    samples = [metric(each.name, ()) for each in many]
    cluster = Scenario(judging, *many, *samples, now_s=NOW_S)
    cluster.apply(*(small("p", each.name, uid=f"on {each.name}") for each in many))

    opinions = judging.balance("every pool", cluster.view)

    pauses = [next(opinions) for _ in range(3)]
    assert pauses == [YieldPoint()] * 3
    assert set(map(type, opinions)) <= {YieldPoint}


def test_an_old_measurement_does_not_count() -> None:
    cluster = Scenario(plugin(**CPU), *TWO, *HOT, metric("n2", ()), now_s=NOW_S)
    cluster.apply(metric("n1", HOT, at_s=NOW_S - 180))
    assert cluster.flagged() == set()

    cluster.apply(metric("n1", HOT, at_s=NOW_S - 179))
    assert len(cluster.flagged()) == 1


@pytest.mark.parametrize(
    ("args", "measured_at_s", "qos", "found"),
    [
        pytest.param(CPU, NOW_S, BURSTABLE, True, id="an overloaded node"),
        pytest.param(CPU, NOW_S - 180, BURSTABLE, False, id="an old measurement"),
        pytest.param(PROD, NOW_S, BURSTABLE, True, id="production pods use too much"),
        pytest.param(PROD, NOW_S, BEST_EFFORT, False, id="and it is none"),
    ],
)
def test_a_replacement_on_an_overloaded_node_is_misplaced(
    args: dict[str, Any], measured_at_s: float, qos: str, *, found: bool
) -> None:
    judging, came = plugin(**args), small("came", qos=qos)
    state = ClusterState()
    samples = metric("n1", HOT, at_s=measured_at_s), metric("n2", ())
    objects: list[ClusterObject] = [*TWO, *HOT, *samples, came]
    for obj in objects:
        state.upsert(obj)
    view = build_view(state, wall_clock=lambda: NOW_S)

    assert judging.is_misplaced(came, view, NOW_S) is found
    assert not judging.is_misplaced(replace(came, node="n2"), view, NOW_S)


def test_a_node_without_measurement_takes_no_pods() -> None:
    cluster = Scenario(plugin(**CPU), *TWO, *HOT, metric("n1", HOT), now_s=NOW_S)
    assert cluster.flagged() == set()

    cluster.apply(metric("n2", ()))
    assert len(cluster.flagged()) == 1


def test_a_node_is_overloaded_after_enough_measurements() -> None:
    judging = plugin(**CPU, anomalyCondition={"consecutiveAbnormalities": 2})
    cluster = scenario(judging)
    cluster.wait(1)
    for _ in range(5):  # the same measurement again is none
        cluster.apply(metric("n1", HOT))
    assert cluster.flagged() == set()

    cluster.apply(metric("n1", HOT, at_s=NOW_S + 1))
    assert cluster.flagged() == set()

    cluster.apply(metric("n1", HOT, at_s=NOW_S + 2))
    assert len(cluster.flagged()) == 1
    assert cluster.flagged() == cluster.flagged_by_full_scan()


def test_once_relieved_a_node_must_be_found_overloaded_as_often_again() -> None:
    judging = plugin(**CPU, anomalyCondition={"consecutiveAbnormalities": 2})
    cluster = scenario(judging)
    for later in (1, 2):
        cluster.apply(metric("n1", HOT, at_s=NOW_S + later))
    assert len(cluster.flagged()) == 1

    for later in (3, 4):
        cluster.apply(metric("n1", HOT, at_s=NOW_S + later))
        assert cluster.flagged() == set()
    cluster.apply(metric("n1", HOT, at_s=NOW_S + 5))

    assert len(cluster.flagged()) == 1


def test_an_overload_that_was_confirmed_counts_until_it_is_relieved_however_slowly_pods_leave() -> (
    None
):
    judging = plugin(**CPU, anomalyCondition={"consecutiveAbnormalities": 2, "timeout": "60s"})

    def wait(finding: Finding) -> Any:
        return Defer(finding, "gate", "Paced", "later", 1e9)

    cluster = Scenario(judging, *TWO, *HOT, metric("n1", HOT), now_s=NOW_S, decide=wait)
    for later in range(1, 10):
        at_s = NOW_S + 60 * later
        cluster.wait(60)
        cluster.apply(metric("n2", (), at_s=at_s), metric("n1", HOT, at_s=at_s))
        assert bool(cluster.flagged()) is (later > 1), later

    cluster.remove(*HOT[2:])
    assert cluster.flagged() == set()


def test_a_detector_of_a_node_that_is_not_overloaded_for_long_is_forgotten() -> None:
    condition = {"consecutiveAbnormalities": 2}
    judging = plugin(**CPU, anomalyCondition=condition, detectorCacheTimeout="60s")
    cluster = scenario(judging)
    cluster.apply(metric("n1", HOT, at_s=NOW_S + 1))
    cluster.wait(61)

    at_s = NOW_S + 61
    cluster.apply(metric("n2", (), at_s=at_s), metric("n1", HOT, at_s=at_s))

    assert cluster.flagged() == set()


def test_a_plan_ends_where_the_limit_of_the_cluster_is_spent() -> None:
    cluster = Scenario(plugin(**BASE), *measured(NODES, FULL), now_s=NOW_S)

    def refuse(finding: Finding) -> Any:
        return TOTAL_LIMIT_REACHED.refuse(finding, "spent", scope_exhausted="cluster")

    found = cluster.evaluate("every pool", refuse)
    assert len([each for each in found if isinstance(each, Finding)]) == 1


def test_why_says_of_the_second_replica_that_it_would_come_back() -> None:
    judging, own = plugin(**CPU), "ReplicaSet/own"
    first, second = small("first", "n2", owner=own), small("second", owner=own)
    others = [small(f"o{n}", owner=f"ReplicaSet/o{n}") for n in range(5)]
    samples = metric("n1", [second, *others]), metric("n2", [first])
    cluster = Scenario(judging, *TWO, first, second, *others, *samples, now_s=NOW_S)
    assert len(cluster.flagged()) == 1
    assert "second" not in cluster.flagged()

    assert explain_return(second) in judging.describe(second, cluster.view)
    assert explain_return(others[0]) not in judging.describe(others[0], cluster.view)


def test_only_a_pod_on_an_overloaded_node_wakes_the_plugin_when_it_may_leave() -> None:
    judging = plugin(**CPU)
    cluster = scenario(judging, small("calm", "n2"))

    assert cluster.subjects_evaluated(small("calm", "n2", labels={"a": "b"})) == set()
    assert cluster.subjects_evaluated(small("p1", labels={"a": "b"})) == {"every pool"}


def test_with_distances_from_the_mean_nodes_are_judged_again_when_a_measurement_is_too_old() -> (
    None
):
    judging = plugin(**thresholds({"cpu": 5}, {"cpu": 5}), useDeviationThresholds=True)
    idle = Scenario(
        judging,
        *measured(TWO, HOT),
        host("n3"),
        metric("n3", (), at_s=NOW_S - 100, cpu=4000),
        now_s=NOW_S,
    )

    assert RequeueAfter(80.0) in idle.evaluate("every pool")


def test_room_that_is_reserved_for_replacements_is_not_promised_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Scenario(plugin(**CPU), *measured((host("n1"), host("n2")), crowd(8)), now_s=NOW_S)
    assert len(cluster.flagged()) == 3

    reserved = {"n2": {"cpu": 1600, "pods": 4}}
    monkeypatch.setattr(cluster.view, "reserved_by_node", lambda: reserved)

    found = cluster.evaluate("every pool")
    assert len([each for each in found if isinstance(each, Finding)]) == 1
    assert RequeueAfter(60.0) in found, "a reservation that expires is no change"


def test_without_node_fit_pods_leave_as_long_as_the_nodes_with_room_have_any_together() -> None:
    args = thresholds({"cpu": 45}, {"cpu": 50})
    pods = [*crowd(8), *(small(f"o{n}", "n2") for n in range(4))]  # 400m are left on n2

    objects = measured((host("n1"), host("n2")), pods)

    assert evicted(plugin(**args, nodeFit=False), objects) == ["p1"]
