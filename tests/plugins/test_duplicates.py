"""RemoveDuplicates in a sweep: what upstream's own tests pin, and the steps of its algorithm."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from reactive_desched.model.decisions import Evict, Refuse
from reactive_desched.model.findings import AllNodesBut
from reactive_desched.model.labels import Requirement
from reactive_desched.model.node_affinity import NodeAffinity, NodeSelector, NodeSelectorTerm
from reactive_desched.model.objects import ClusterObject, Node, OwnerReference, Pod, PodStatus
from reactive_desched.plugins.duplicates import DuplicatesArgs, DuplicatesPlugin
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.sweep.cycle import Cycle, CycleDecision
from reactive_desched.testing.builders import affinity, node, pod, tolerations, with_spec
from reactive_desched.testing.scenario import plugin_from_policy
from tests.support.configurations import make_policy, make_profile_of
from tests.support.golden import Golden

NODES = (node("n1"), node("n2"), node("n3"))
MASTER = "node-role.kubernetes.io/control-plane"


def owned(name: str, *owners: str) -> tuple[OwnerReference, ...]:
    kinds = [owner.split("/") for owner in owners or (name,)]
    return tuple(OwnerReference(kind, own, f"uid-{kind}-{own}") for kind, own in kinds)


def replicas(
    count: int,
    on: str,
    *owners: str,
    app: str = "web",
    namespace: str = "default",
    images: tuple[str, ...] = ("web:1",),
    **spec: Any,  # any field of a spec
) -> list[Pod]:
    """Build so many pods of one owner on a node; the first is the oldest."""
    made = (
        pod(f"{app}-{on}-{number}", on=on, namespace=namespace, created=number, uid=None)
        for number in range(count)
    )
    return [
        replace(
            with_spec(each, images=images, **spec),
            uid=f"{namespace}/{each.name}",
            owners=owned(f"ReplicaSet/{app}", *owners),
        )
        for each in made
    ]


def sweep(
    objects: Iterable[ClusterObject | list[Pod]],
    limits: dict[str, int | None] | None = None,
    evictor: dict[str, Any] | None = None,
    **args: Any,
) -> list[CycleDecision]:
    """Run a sweep in which every eviction succeeds."""
    plugin = plugin_from_policy(DuplicatesPlugin, DuplicatesArgs, **args)
    kept = DefaultEvictorArgs.model_validate(evictor or {})
    state = ClusterState()
    for given in objects:
        for obj in given if isinstance(given, list) else [given]:
            state.upsert(obj)
    view = ClusterView(state, lambda: 100.0)
    policy = make_policy((make_profile_of("p", (plugin,), kept),), limits=limits)
    cycle = Cycle(policy, state, view)
    decided: list[CycleDecision] = []
    for each in cycle.run():
        decided.append(each)
        if isinstance(each.decision, Evict):
            cycle.confirm(each)
    return decided


def evicted(*objects: ClusterObject | list[Pod], **more: Any) -> list[str]:
    decided = sweep(objects, **more)
    return [each.finding.pod.name for each in decided if isinstance(each.decision, Evict)]


def evicted_by_node(*objects: ClusterObject | list[Pod], **more: Any) -> dict[str, int]:
    decided = sweep(objects, **more)
    return Counter(each.finding.pod.node for each in decided if isinstance(each.decision, Evict))


# --- what upstream's tests pin -----------------------------------------------------------------


def test_of_three_replicas_on_one_of_two_nodes_the_youngest_goes() -> None:
    assert evicted(*NODES[:2], replicas(3, "n1", namespace="dev")) == ["web-n1-2"]


def test_namespaces_are_separate_groups() -> None:
    dev, test = (replicas(3, "n1", namespace=space) for space in ("dev", "test"))

    assert evicted_by_node(*NODES[:2], dev, test) == {"n1": 2}


@pytest.mark.parametrize(
    ("args", "names"),
    [
        pytest.param({"excludeOwnerKinds": ["ReplicaSet"]}, [], id="its owner's kind"),
        pytest.param({"excludeOwnerKinds": ["replicaset"]}, ["web-n1-2"], id="by another case"),
        pytest.param({"namespaces": {"exclude": ["default"]}}, [], id="its namespace"),
        pytest.param({"namespaces": {"include": ["shop"]}}, [], id="all other namespaces"),
    ],
)
def test_pods_that_the_arguments_exclude_stay(args: dict[str, Any], names: list[str]) -> None:
    assert evicted(*NODES[:2], replicas(3, "n1"), **args) == names


def test_a_pod_is_left_alone_if_any_of_its_owners_is_of_an_excluded_kind() -> None:
    both = replicas(3, "n1", "ReplicaSet/web", "Rollout/web")

    assert evicted(*NODES[:2], both, excludeOwnerKinds=["Rollout"]) == []


def test_protected_pods_are_not_evicted() -> None:
    critical = replicas(3, "n1", priority=2_000_000_000)
    local = replicas(3, "n1", app="db", has_local_storage=True)
    agents = replicas(3, "n1", "DaemonSet/agent", app="agent")

    assert evicted(*NODES[:2], critical, local, agents) == []


def test_pods_with_other_images_are_no_duplicates() -> None:
    foo, bar = replicas(1, "n1", images=("foo",)), replicas(1, "n1", app="x", images=("bar",))
    pair = [replace(bar[0], owners=foo[0].owners)]

    assert evicted(*NODES[:2], foo, pair) == []


def test_of_pods_with_several_images_only_those_with_the_same_are_duplicates() -> None:
    images = (("", "foo"), ("", "bar"), ("", "baz"), ("", "foo"))
    pods = [
        with_spec(each, images=own) for each, own in zip(replicas(4, "n1"), images, strict=True)
    ]

    assert evicted(*NODES, pods) == ["web-n1-3"]


@pytest.mark.parametrize(
    ("on_nodes", "gone"),
    [
        pytest.param({"n1": 5, "n2": 3, "n3": 1}, {"n1": 2}, id="the surplus of the fullest"),
        pytest.param({"n1": 2}, {"n1": 1}, id="two on one of three"),
        pytest.param({"n1": 1}, {}, id="a single one"),
        pytest.param({"n1": 2, "n2": 2, "n3": 2}, {}, id="evenly spread"),
        pytest.param({"n1": 2, "n2": 2, "n3": 1}, {}, id="as even as can be"),
        pytest.param({"n1": 3, "n2": 3}, {"n1": 1, "n2": 1}, id="from two nodes"),
    ],
)
def test_each_node_keeps_its_even_share(on_nodes: dict[str, int], gone: dict[str, int]) -> None:
    pods = [replicas(count, on) for on, count in on_nodes.items()]

    assert evicted_by_node(*NODES, *pods) == gone


def test_pods_on_nodes_that_do_not_count_do_not_count() -> None:
    pods = [replicas(5, "n1"), replicas(3, "n2"), replicas(1, "n3")]

    assert evicted_by_node(*NODES[:2], node("n3", ready="False"), *pods) == {"n1": 1}


def test_two_groups_are_evened_out_each_for_itself() -> None:
    one = [replicas(5, "n1"), replicas(3, "n2"), replicas(1, "n3")]
    other = [replicas(1, "n1", app="b"), replicas(3, "n2", app="b"), replicas(5, "n3", app="b")]

    assert evicted_by_node(*NODES, *one, *other) == {"n1": 2, "n3": 2}


def test_a_pod_of_two_owners_is_evicted_once() -> None:
    owners = ("ReplicaSet/a", "ReplicaSet/b")
    pods = [replicas(count, on, *owners) for on, count in {"n1": 5, "n2": 3, "n3": 1}.items()]

    assert evicted(*NODES, *pods) == ["web-n1-4", "web-n1-3"]


def test_pods_with_the_same_owner_and_another_count_together_but_are_no_duplicates() -> None:
    single = replicas(2, "n1", "ReplicaSet/a", app="x")
    double = replicas(2, "n1", "ReplicaSet/a", "ReplicaSet/b", app="y")

    assert evicted(*NODES, single[:1], double[:1]) == []
    # 4 pods of ReplicaSet/a on 3 nodes: a share of 2; 2 duplicates and one that stays are 3.
    # The one that goes is the surplus of ReplicaSet/b as well.
    assert evicted(*NODES, single, double) == ["y-n1-1"]


def test_tainted_nodes_take_no_part() -> None:
    workers = [replicas(5, "n1"), replicas(3, "n2"), replicas(1, "n3")]
    masters = [node(f"m{number}", f"{MASTER}:NoSchedule") for number in range(3)]
    unrelated = tolerations(["gpu"])
    pods = [[with_spec(each, tolerations=unrelated) for each in some] for some in workers]

    assert evicted_by_node(*NODES, *masters, *pods) == {"n1": 2}


def test_a_tolerated_taint_makes_no_difference() -> None:
    tainted = node("n2", f"{MASTER}:NoSchedule")
    pods = replicas(3, "n1", tolerations=tolerations([MASTER]))

    assert evicted_by_node(NODES[0], tainted, pods) == {"n1": 1}


@pytest.mark.parametrize(
    ("taint", "gone"),
    [("a:NoExecute", {}), ("a:NoSchedule", {}), ("a:PreferNoSchedule", {"n1": 1})],
)
def test_only_hard_taints_keep_pods_away(taint: str, gone: dict[str, int]) -> None:
    assert evicted_by_node(NODES[0], node("n2", taint), replicas(3, "n1")) == gone


def test_a_cordon_without_its_taint_does_not_keep_pods_away() -> None:
    cordoned = node("n2", unschedulable=True)

    assert evicted_by_node(NODES[0], cordoned, replicas(3, "n1")) == {"n1": 1}


def test_nodes_that_required_affinity_excludes_take_no_part() -> None:
    masters = [node(f"m{number}", labels={MASTER: ""}) for number in range(3)]
    spread = {"n1": 5, "n2": 3, "n3": 1}
    pods = [replicas(n, on, node_affinity=affinity(f"!{MASTER}")) for on, n in spread.items()]

    assert evicted_by_node(*NODES, *masters, *pods) == {"n1": 2}


def test_selectors_that_differ_add_their_nodes_but_for_those_with_no_choice() -> None:
    workers = [node(name, labels={"k2": "v2"}) for name in ("n1", "n2", "n3")]
    masters = [node(f"m{number}") for number in range(3)]
    selectors: tuple[dict[str, str], ...] = ({"k1": "v1"}, {"k2": "v2"})
    pods = [
        [with_spec(each, node_selector=selectors[i % 2]) for i, each in enumerate(replicas(n, on))]
        for on, n in {"n1": 5, "n2": 3, "n3": 1}.items()
    ]

    assert evicted_by_node(*workers, *masters, *pods) == {"n1": 2}


def test_a_selector_that_matches_one_node_or_none_evicts_nothing() -> None:
    labelled = node("n1", labels={"a": "b"})
    nowhere = replicas(4, "n1", node_selector={"x": "y"})
    here = replicas(4, "n1", app="here", node_selector={"a": "b"})

    assert evicted(labelled, *NODES[1:], nowhere, here) == []


def test_a_selector_with_no_choice_adds_no_node_to_those_of_others() -> None:
    stuck, free = node("n1", labels={"a": "b"}), {"pool": "x"}
    nodes = [stuck, *(node(name, labels=free) for name in ("n2", "n3"))]
    selectors: tuple[dict[str, str], ...] = ({"a": "b"}, free)
    six = [with_spec(p, node_selector=selectors[i % 2]) for i, p in enumerate(replicas(6, "n1"))]

    # on 2 nodes the share is 3; on 3 it would be 2
    assert evicted_by_node(*nodes, six) == {"n1": 3}


def test_an_affinity_that_does_not_parse_matches_every_node() -> None:
    malformed = NodeSelectorTerm((Requirement("zone", "In", ()),))
    wishes = NodeAffinity(NodeSelector((malformed,)))

    assert evicted_by_node(*NODES[:2], replicas(3, "n1", node_affinity=wishes)) == {"n1": 1}


@pytest.mark.parametrize(
    ("other", "gone"),
    [
        pytest.param(node("n2", "a:NoSchedule"), 0, id="tainted"),
        pytest.param(node("n2", unschedulable=True), 0, id="cordoned"),
        pytest.param(
            node("n2", allocatable={"cpu": "50m", "memory": "1Gi", "pods": "9"}), 0, id="too small"
        ),
        pytest.param(
            node("n2", allocatable={"cpu": "100m", "memory": "1Gi", "pods": "9"}), 1, id="roomy"
        ),
    ],
)
def test_with_node_fit_pods_that_fit_nowhere_else_are_not_counted(other: Node, gone: int) -> None:
    pods = replicas(3, "n1", requests={"cpu": 100})

    assert len(evicted(NODES[0], other, pods, evictor={"nodeFit": True})) == gone


def test_terminating_and_completed_pods_are_invisible() -> None:
    first, *rest = replicas(5, "n1")
    leaving, over = replace(first, deletion_s=1), replace(rest[0], status=PodStatus("Succeeded"))

    # 3 pods on 3 nodes: a share of 1
    assert evicted(*NODES, [leaving, over, *rest[1:]]) == ["web-n1-4", "web-n1-3"]


def test_min_replicas_above_the_number_of_pods_protects_them_all() -> None:
    assert evicted(*NODES, replicas(3, "n1"), evictor={"minReplicas": 4}) == []


def test_the_filters_are_asked_before_the_first_eviction_alone() -> None:
    gone = evicted(*NODES, replicas(3, "n1"), evictor={"minReplicas": 3})

    assert gone == ["web-n1-2", "web-n1-1"]


# --- limits -------------------------------------------------------------------------------------


def test_where_the_limit_of_a_node_is_reached_the_plan_continues_at_the_next() -> None:
    objects = (*NODES, replicas(5, "n1"), replicas(4, "n2"))

    decided = sweep(objects, limits={"node": 1})

    assert [f"{type(each.decision).__name__} {each.finding.pod.name}" for each in decided] == [
        "Evict web-n1-4",
        "Refuse web-n1-3",
        "Evict web-n2-3",
    ]


def test_where_the_limit_of_the_cluster_is_reached_the_sweep_ends() -> None:
    objects = (*NODES, replicas(5, "n1", app="a"), replicas(5, "n1", app="b"))

    decided = sweep(objects, limits={"cluster": 1})

    assert [type(each.decision) for each in decided] == [Evict, Refuse]


def test_where_the_limit_of_a_namespace_is_reached_another_namespace_is_evened_out() -> None:
    objects = (
        *NODES,
        replicas(5, "n1", namespace="a"),
        replicas(5, "n1", namespace="b"),
    )

    decided = sweep(objects, limits={"namespace": 1})

    assert [(type(each.decision), each.finding.pod.namespace) for each in decided] == [
        (Evict, "a"),
        (Refuse, "a"),
        (Evict, "b"),
        (Refuse, "b"),
    ]


def test_a_finding_says_the_figures(golden: Golden) -> None:
    [first, *_] = sweep((*NODES, replicas(5, "n1"), replicas(1, "n2")))

    assert first.finding.message == golden()
    assert first.finding.details == {
        "owner": "ReplicaSet/web",
        "podsOnNode": 5,
        "pods": 6,
        "possibleNodes": 3,
        "evenShare": 2,
    }
    assert first.finding.targets == AllNodesBut(frozenset({"n1"}))
