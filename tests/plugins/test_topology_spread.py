"""RemovePodsViolatingTopologySpreadConstraint in a sweep: which pods leave, as upstream chooses."""

from collections.abc import Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from reactive_desched.fit.upstream import UPSTREAM
from reactive_desched.model.changes import Resynced
from reactive_desched.model.findings import LOOKS_PER_SLICE, Finding
from reactive_desched.model.labels import LabelSelector, Requirement
from reactive_desched.model.node_affinity import NodeAffinity
from reactive_desched.model.objects import HOSTNAME_LABEL, ClusterObject
from reactive_desched.model.spread_moves import moves_between
from reactive_desched.plan.snapshot import Snapshot
from reactive_desched.plan.sweep_run import run_sweeps
from reactive_desched.plugins.topology_spread import TopologySpreadArgs, TopologySpreadPlugin
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.state.cluster import ClusterState
from reactive_desched.testing.builders import node, pod, with_spec
from reactive_desched.testing.scenario import Scenario
from reactive_desched.testing.topology_spread import (
    WEB,
    spread_constraint,
    spread_pods,
    with_spread,
)
from tests.support.configurations import make_policy, make_profile_of

HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
SPREAD_PODS = 100
TIGHT = {"cpu": "200m", "memory": "3000", "pods": "10"}
REQUESTS = {"cpu": "100m"}


def zones(count: int, **more: Any) -> list[ClusterObject]:  # any part of a node
    """Return n1 in zone 1, n2 in zone 2 and so on."""
    return [node(f"n{number}", zone=f"{number}", **more) for number in range(1, count + 1)]


def decided(
    objects: Iterable[ClusterObject],
    evictor: Mapping[str, object] | None = None,
    limits: Mapping[str, int | None] | None = None,
    **args: Any,  # any argument of the plugin
) -> list[str]:
    """Run what `plan` runs on these objects."""
    state = ClusterState()
    for obj in objects:
        state.upsert(obj)
    plugin = TopologySpreadPlugin(TopologySpreadArgs.model_validate(args))
    profile = make_profile_of("p", (plugin,), DefaultEvictorArgs.model_validate(evictor or {}))
    snapshot = cast("Snapshot", SimpleNamespace(build_state=lambda _: state))
    result = run_sweeps(make_policy((profile,), limits=limits), snapshot, 0.0, UPSTREAM)
    return [f"{each.action} {each.pod.name}" for each in result.decisions]


def evicted(*args: Any, **more: Any) -> list[str]:
    """Name the pods that leave."""
    words = (line.split() for line in decided(*args, **more))
    return [name for action, name in words if action == "Evict"]


# --- the algorithm on sizes alone ---


@pytest.mark.parametrize(
    ("sizes", "max_skew", "moves"),
    [
        ([1, 2], 1, []),
        ([1, 3], 1, [(1, 1)]),
        ([2, 5], 1, [(1, 1)]),
        ([0, 4], 1, [(1, 2)]),
        ([2, 6], 2, [(1, 1)]),
        ([0, 1, 100], 1, [(2, 34), (2, 32)]),
        ([0, 1, 3, 5], 1, [(3, 2), (3, 1)]),
        ([0, 7, 8], 1, [(2, 3), (1, 2)]),
        ([5, 5, 5], 1, []),
        ([0, 2, 3, 3], 1, [(3, 1), (2, 1)]),
        ([1, 3, 4], 1, [(2, 1)]),
        ([7], 1, []),
        ([], 1, []),
    ],
)
def test_domains_above_the_average_give_to_those_below_it(
    sizes: list[int], max_skew: int, moves: list[tuple[int, int]]
) -> None:
    average = sum(sizes) / len(sizes) if sizes else 0.0

    assert list(moves_between(sizes, average, max_skew)) == moves


# --- whole sweeps: the rows that upstream's own tests pin ---


@pytest.mark.parametrize(
    ("sizes", "names"),
    [
        ((2, 1), []),
        ((3, 1), ["p02"]),
        ((5, 2), ["p04"]),
        ((4, 0), ["p02", "p03"]),
        ((8, 7, 0), ["p05", "p06", "p07", "p13", "p14"]),
        ((2, 0, 0, 9), ["p08", "p09", "p10", "p05", "p06", "p07"]),
    ],
)
def test_as_many_leave_as_bring_the_skew_back(sizes: tuple[int, ...], names: list[str]) -> None:
    assert evicted([*zones(len(sizes)), *spread_pods(*sizes)]) == names


def test_only_the_kinds_of_constraints_asked_for_are_restored() -> None:
    soft = (spread_constraint(when_unsatisfiable=SOFT),)
    objects = [*zones(2), *spread_pods(3, 1, constraints=soft)]

    assert evicted(objects) == []
    assert evicted(objects, constraints=(SOFT,)) == ["p02"]
    assert evicted(objects, constraints=(HARD, SOFT)) == ["p02"]


def test_pods_that_the_evictor_protects_neither_count_nor_declare() -> None:
    assert evicted([*zones(2), *spread_pods(3, 1, owner=None)]) == []
    agents = [replace(p, owners=pod("x", owner="DaemonSet/d").owners) for p in spread_pods(3)]
    one = with_spread(pod("web", on="n1", labels=WEB))
    assert evicted([*zones(2), *agents, one]) == []


def test_what_the_plugins_selector_or_namespaces_hide_neither_counts_nor_declares() -> None:
    def within(operator: str, *values: str) -> dict[str, object]:
        requirement = Requirement("app", operator, values)
        return {"label_selector": LabelSelector({}, (requirement,))}

    objects = [*zones(2), *spread_pods(3, 1)]

    assert evicted(objects, **within("In", "db")) == []
    assert evicted(objects, **within("In", "web")) == ["p02"]
    assert evicted(objects, **within("NotIn", "db")) == ["p02"]
    assert evicted(objects, namespaces={"exclude": ("default",)}) == []
    assert evicted(objects, namespaces={"exclude": ("kube-system",)}) == ["p02"]
    others = [replace(p, namespace="shop", uid=f"{p.uid}2") for p in spread_pods(0, 1)]
    assert evicted([*objects, *others]) == ["p02"], "a constraint stays within its namespace"


def test_pods_that_do_not_declare_the_constraint_count_and_leave() -> None:
    plain = [pod(f"q{number}", on="n1", labels=WEB) for number in range(4)]
    one = with_spread(pod("p00", on="n2", labels=WEB))

    assert evicted([*zones(2), *plain, one]) == ["q3"]


def test_a_pod_declares_for_others_that_it_does_not_count_itself() -> None:
    plain = [pod(f"q{number}", on="n1", labels=WEB) for number in range(3)]
    other = with_spread(pod("db", on="n1", labels={"app": "db"}))

    assert evicted([*zones(2), *plain, other]) == ["q2"]
    assert evicted([*zones(2), *plain, with_spec(other, priority=2_000_000_000)]) == []


def test_match_label_keys_count_only_pods_of_the_same_value() -> None:
    keyed = (spread_constraint(match_label_keys=("hash",)),)
    same = spread_pods(3, 1, constraints=keyed, labels={**WEB, "hash": "x"})
    assert evicted([*zones(2), *same]) == ["p02"]

    differs = [replace(p, labels={**WEB, "hash": p.name}) for p in same]
    assert evicted([*zones(2), *differs]) == []


@pytest.mark.parametrize(
    ("constraint", "names"),
    [
        (spread_constraint(label_selector=None), []),
        (spread_constraint(label_selector=LabelSelector({}, (Requirement("a", "Near"),))), []),
        (spread_constraint(label_selector=LabelSelector()), ["p02", "p03"]),
        (spread_constraint(min_domains=3), ["p02", "p03"]),
        (spread_constraint(key="rack"), []),
    ],
    ids=["no selector", "it does not parse", "an empty selector", "minDomains", "no such label"],
)
def test_selectors_and_min_domains_are_read_as_upstream_does(
    constraint: Any, names: list[str]
) -> None:
    assert evicted([*zones(2), *spread_pods(4, 0, constraints=(constraint,))]) == names


def test_terminating_pods_do_not_count() -> None:
    pods = spread_pods(4, 2)
    leaving = [replace(p, deletion_s=1) if p.name in ("p00", "p01") else p for p in pods]

    assert evicted([*zones(2), *leaving]) == []


# --- domains ---


def test_nodes_that_the_pods_affinity_excludes_are_no_domains() -> None:
    other = [node(f"w{number}", zone=f"w{number}", labels={"os": "win"}) for number in range(3)]
    linux = zones(3, labels={"os": "linux"})
    pods = [with_spec(p, node_selector={"os": "linux"}) for p in spread_pods(3, 3, 2)]
    assert evicted([*linux, *other, *pods]) == []

    empty = node("n4", zone="4", labels={"os": "linux"})
    assert len(evicted([*linux, *other, empty, *pods])) == 2


def test_pods_on_excluded_nodes_make_a_domain_all_the_same() -> None:
    linux = zones(2, labels={"os": "linux"})
    win = node("n3", zone="3", labels={"os": "win"})
    pods = spread_pods(2, 2, 6)
    bound = [with_spec(p, node_selector={"os": "linux"}) if p.node != "n3" else p for p in pods]
    bound = [p if p.node != "n3" else with_spec(p, topology_spread_constraints=()) for p in bound]

    assert evicted([*linux, win, *bound]) == ["p08", "p09", "p07"]


def test_taints_exclude_nodes_only_with_the_policy_to_honor_them() -> None:
    tainted: list[ClusterObject] = [node("n1", zone="1"), node("n2", "gpu:NoSchedule", zone="2")]
    honor = (spread_constraint(node_taints_policy="Honor"),)

    assert evicted([*tainted, *spread_pods(2, 0, constraints=honor)]) == []
    assert decided([*tainted, *spread_pods(2, 0)]) == []
    assert evicted([*tainted, *spread_pods(2, 0, tolerates=("gpu",))]) == ["p01"]
    soft = [tainted[0], node("n2", "gpu:PreferNoSchedule", zone="2")]
    assert evicted([*soft, *spread_pods(2, 0, constraints=honor)]) == ["p01"]


def test_a_cordoned_node_is_a_domain_that_takes_no_pods() -> None:
    objects = [zones(1)[0], node("n2", zone="2", unschedulable=True), *spread_pods(4, 0)]

    assert evicted(objects) == []
    assert evicted(objects, topology_balance_node_fit=False) == ["p02", "p03"]


def test_nodes_that_are_not_ready_are_no_domains() -> None:
    objects = [zones(1)[0], node("n2", zone="2", ready="False"), node("n3"), *spread_pods(4, 0)]

    assert evicted(objects) == []


def test_several_constraints_are_planned_from_the_same_placement() -> None:
    two = (spread_constraint(), spread_constraint(2))
    assert evicted([*zones(2), *spread_pods(4, 0, constraints=two)]) == ["p02", "p03"]

    hosts = [node(f"n{number}", zone="ab"[number > 3]) for number in range(1, 7)]
    both = (
        spread_constraint(when_unsatisfiable=SOFT),
        spread_constraint(key=HOSTNAME_LABEL),
    )
    found = evicted(
        [*hosts, *spread_pods(1, 1, 1, 1, 0, 0, constraints=both)], constraints=(HARD, SOFT)
    )
    assert len(found) == 1


# --- which pods of a domain ---


def test_pods_bound_to_nodes_stay_and_of_the_others_the_highest_priorities_leave() -> None:
    pods = spread_pods(4, 0)
    by_priority = [with_spec(p, priority=30 - 10 * n) for n, p in enumerate(pods)]
    assert evicted([*zones(2), *by_priority]) == ["p01", "p00"]

    some = [with_spec(p, priority=0) if p.name < "p02" else p for p in pods]
    assert evicted([*zones(2), *some]) == ["p00", "p01"]

    bound = with_spec(pods[3], node_affinity=NodeAffinity(), priority=9)
    assert evicted([*zones(2), *pods[:3], bound]) == ["p01", "p02"]


def test_pods_that_fit_where_they_are_needed_leave_before_all_others() -> None:
    ignore = (spread_constraint(node_affinity_policy="Ignore"),)
    pods = spread_pods(2, 1, 0, constraints=ignore)
    pinned = with_spec(pods[1], node_selector={HOSTNAME_LABEL: "n1"})
    assert evicted([*zones(3), pods[0], pinned, pods[2]]) == ["p00"]

    large = replace(pods[1], spec=pod("x", requests={"cpu": "64"}).spec)
    assert evicted([*zones(3), pods[0], with_spread(large, *ignore), pods[2]]) == ["p00"]


def test_a_pod_that_fits_nowhere_is_taken_for_moved_and_stays() -> None:
    """Of four, two are pinned and one can go nowhere: only the free one leaves."""
    pods = spread_pods(4, 0)
    here = {"node_selector": {"zone": "1"}}
    pinned = [with_spec(p, **here) for p in pods[:2]]
    lost = with_spec(pods[2], node_selector={"zone": "9"})
    nodes = [node(f"n{n}", zone=f"{n}", labels={"zone": f"{n}"}) for n in (1, 2)]

    assert evicted([*nodes, *pinned, lost, pods[3]], {"nodeFit": True}) == ["p03"]


def test_without_room_below_the_average_nothing_leaves_unless_the_argument_says_so() -> None:
    nodes: list[ClusterObject] = [
        node("n1", zone="1", allocatable={**TIGHT, "cpu": "250m"}),
        *(
            node(f"n{number}", zone=f"{number}", allocatable={**TIGHT, "cpu": "2"})
            for number in (2, 3)
        ),
    ]
    objects = [*nodes, *spread_pods(2, 3, 4, requests=REQUESTS)]

    assert decided(objects) == []
    assert evicted(objects, {"nodeFit": True}, topology_balance_node_fit=False) == ["p08"]


# --- limits ---


def test_the_limit_of_a_node_skips_its_other_pods_and_the_total_ends_the_plan() -> None:
    objects = [*zones(3), *spread_pods(8, 7, 0)]

    assert decided(objects, limits={"node": 1}) == [
        "Evict p05",
        "Refuse p06",
        "Evict p13",
        "Refuse p14",
    ]
    assert decided(objects, limits={"cluster": 1}) == ["Evict p05", "Refuse p06"]
    assert evicted(objects, limits={"namespace": 3}) == ["p05", "p06", "p07"]


def test_the_limit_of_a_namespace_leaves_the_others_their_turn() -> None:
    shop = [
        replace(p, namespace="shop", uid=f"shop{p.uid}", name=f"s{p.name}")
        for p in spread_pods(4, 0)
    ]
    objects = [*zones(2), *spread_pods(4, 0), *shop]

    assert evicted(objects, limits={"namespace": 1}) == ["p02", "sp02"]


def test_a_pod_that_two_constraints_choose_is_proposed_once() -> None:
    both = (spread_constraint(), spread_constraint(2))

    assert decided([*zones(2), *spread_pods(4, 0, constraints=both)], limits={"node": 1}) == [
        "Evict p02",
        "Refuse p03",
    ]


def test_a_plan_looks_at_the_nodes_of_a_large_cluster_in_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plugin = TopologySpreadPlugin(TopologySpreadArgs())
    cluster = Scenario(plugin, *zones(3 * LOOKS_PER_SLICE), *spread_pods(3))
    (group,) = plugin.subjects(Resynced(), cluster.view)
    view, looked = type(cluster.view), [0]

    def counted(nodes: Iterable[Any]) -> Iterator[Any]:
        for each in nodes:
            looked[-1] += 1
            yield each

    of_nodes, of_names = view.nodes, view.node_names
    monkeypatch.setattr(view, "nodes", lambda self: counted(of_nodes(self)))
    monkeypatch.setattr(view, "node_names", lambda self: counted(of_names(self)))

    for opinion in plugin.balance(group, cluster.view):
        if isinstance(opinion, Finding):
            break
        looked.append(0)

    assert isinstance(opinion, Finding)
    assert sum(looked) == 3 * LOOKS_PER_SLICE
    assert max(looked) <= LOOKS_PER_SLICE
