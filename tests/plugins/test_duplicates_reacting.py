"""RemoveDuplicates as the cluster changes: which changes wake it, and what it counts."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reactive_desched.model.decisions import Decision, Evict, Refuse
from reactive_desched.model.findings import AllNodesBut, Finding
from reactive_desched.model.objects import (
    Deployment,
    Node,
    OwnerReference,
    Pod,
    PodStatus,
    ReplicaSet,
)
from reactive_desched.plugins.duplicates import DuplicatesArgs, DuplicatesPlugin
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.state.indexes.replica_spread import ReplicaGroup
from reactive_desched.testing.builders import affinity, node, pod, tolerations, with_spec
from reactive_desched.testing.scenario import Scenario, plugin_from_policy

N1, N2, N3 = node("n1"), node("n2"), node("n3")
WEB = ReplicaGroup("default", "ReplicaSet", "web", ())


def scenario(*objects: Node | Pod, evictor: dict[str, Any] | None = None, **args: Any) -> Scenario:
    plugin = plugin_from_policy(DuplicatesPlugin, DuplicatesArgs, **args)
    return Scenario(plugin, *objects, evictor=DefaultEvictorArgs.model_validate(evictor or {}))


def replica(name: str, on: str | None = "n1", created: int = 0, **more: Any) -> Pod:
    return pod(name, on=on, created=created, **more)


OLD, YOUNG, YOUNGEST = (replica(name, created=at) for at, name in enumerate(("old", "mid", "new")))


def test_a_second_replica_on_a_node_is_found_when_it_is_bound() -> None:
    cluster = scenario(N1, N2, OLD)
    assert cluster.flagged() == set()

    cluster.apply(YOUNG)

    assert cluster.flagged() == {"mid"}


def test_a_new_node_can_take_duplicates() -> None:
    cluster = scenario(N1, OLD, YOUNG)
    assert cluster.flagged() == set()

    cluster.apply(N2)

    assert cluster.flagged() == {"mid"}


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(node("n2", "a:NoSchedule"), id="its taint is removed"),
        pytest.param(node("n2", ready="False"), id="it becomes ready"),
    ],
)
def test_a_node_that_changes_can_take_duplicates(before: Node) -> None:
    cluster = scenario(N1, before, OLD, YOUNG)
    assert cluster.flagged() == set()

    cluster.apply(N2)

    assert cluster.flagged() == {"mid"}


def test_a_label_that_the_pods_require_makes_room() -> None:
    ssd = affinity("disk=ssd")
    cluster = scenario(
        node("n1", labels={"disk": "ssd"}),
        N2,
        *(with_spec(each, node_affinity=ssd) for each in (OLD, YOUNG)),
    )
    assert cluster.flagged() == set()

    cluster.apply(node("n2", labels={"disk": "ssd"}))

    assert cluster.flagged() == {"mid"}


def test_a_toleration_that_is_added_makes_room() -> None:
    cluster = scenario(N1, node("n2", "a:NoSchedule"), OLD, YOUNG)
    assert cluster.flagged() == set()

    cluster.apply(with_spec(YOUNG, tolerations=tolerations("a")))

    assert cluster.flagged() == {"mid"}


def test_a_replica_gone_elsewhere_lowers_the_share() -> None:
    there = replica("there", on="n2")
    cluster = scenario(N1, N2, OLD, YOUNG, there)  # 3 on 2 nodes: a share of 2
    assert cluster.flagged() == set()

    cluster.remove(there)

    assert cluster.flagged() == {"mid"}


def test_a_pod_that_is_no_longer_protected_is_found() -> None:
    old, young = (replace(each, start_delay_s=-each.created_s) for each in (OLD, YOUNG))
    cluster = scenario(N1, N2, old, young, evictor={"minPodAge": "60s"})
    assert cluster.flagged() == set()

    cluster.wait(61)

    assert cluster.flagged() == {"mid"}


def test_protected_pods_count_and_stay() -> None:
    critical = with_spec(YOUNGEST, priority=2_000_000_000)
    cluster = scenario(N1, N2, OLD, YOUNG, critical)

    assert cluster.flagged() == {"mid"}  # 3 on 2 nodes: a share of 2


def test_of_two_the_protected_one_stays() -> None:
    critical = with_spec(YOUNG, priority=2_000_000_000)

    assert scenario(N1, N2, OLD, critical).flagged() == {"old"}


def test_a_pod_that_leaves_already_is_the_first_of_the_surplus() -> None:
    cluster = scenario(N1, N2, N3, OLD, YOUNG, YOUNGEST, replica("late", created=9))
    cluster.view._in_flight._ledger.decide(Finding(OLD, "Test", "why"), "test", 0.0)

    findings = cluster.evaluate(WEB)

    assert [each.pod.name for each in findings if isinstance(each, Finding)] == ["old", "late"]


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(replica("pending", on=None), id="has no node yet"),
        pytest.param(replace(replica("leaving", on="n2"), deletion_s=1), id="is leaving"),
    ],
)
def test_a_pod_on_its_way_counts_so_that_no_other_is_evicted_for_its_place(more: Pod) -> None:
    cluster = scenario(N1, N2, OLD, YOUNG, more)  # 3 on 2 nodes: a share of 2
    assert cluster.flagged() == set()

    cluster.remove(more)

    assert cluster.flagged() == {"mid"}


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        pytest.param(2, ["mid"], id="its replacement is there, or it is one too many"),
        pytest.param(3, [], id="its replacement is yet to come"),
    ],
)
def test_a_pod_that_is_leaving_counts_only_as_one_of_those_that_are_wanted(
    wanted: int, names: list[str]
) -> None:
    deployment = OwnerReference("Deployment", "web", "d-web", controller=True)
    leaving = replace(replica("leaving", on="n2"), deletion_s=1)
    cluster = scenario(N1, N2, OLD, YOUNG, leaving)  # 3 on 2 nodes: a share of 2
    cluster.state.upsert(ReplicaSet("owner-web", controller=deployment))
    cluster.state.upsert(Deployment("default", "web", "d-web", replicas=wanted))

    found = [each.pod.name for each in cluster.evaluate(WEB) if isinstance(each, Finding)]

    assert found == names


def test_a_terminating_pod_is_no_duplicate() -> None:
    cluster = scenario(N1, N2, OLD, YOUNG)
    assert cluster.flagged() == {"mid"}

    cluster.apply(replace(OLD, deletion_s=1))

    assert cluster.flagged() == set()


def test_a_replacement_that_is_awaited_counts_until_it_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    evicted = [replica("gone-1"), replica("gone-2")]
    others = [replica("gone-3", owner="ReplicaSet/db"), OLD]  # of another owner, and still there
    cluster = scenario(N1, N2, OLD)
    monkeypatch.setattr(cluster.view, "awaiting_replacement", lambda _: [*evicted, *others])

    cluster.apply(YOUNG)
    assert cluster.flagged() == set()  # 2 and 2 to come on 2 nodes: a share of 2

    evicted.clear()
    cluster.wait(60)
    assert cluster.flagged() == {"mid"}


def test_a_replacement_without_a_node_is_not_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = scenario(N1, N2, OLD, replica("pending", on=None))
    monkeypatch.setattr(cluster.view, "awaiting_replacement", lambda _: [replica("gone")])

    cluster.apply(YOUNG, YOUNGEST)

    # 4 on 2 nodes: a share of 2; with 5 it would be 3
    assert cluster.flagged() == {"new"}


def test_the_targets_are_the_nodes_below_the_share() -> None:
    cluster = scenario(
        *(N1, N2, N3, node("n4", "a:NoSchedule")),
        *(replica(f"a{number}") for number in range(4)),
        *(replica(f"b{number}", on="n2") for number in range(2)),
    )

    [first, _] = cluster.evaluate(WEB)

    assert isinstance(first, Finding)
    assert (first.targets, first.needs_fit) == (AllNodesBut(frozenset({"n1", "n2"})), True)


def test_a_plan_counts_only_the_pods_that_leave() -> None:
    cluster = scenario(N1, N2, N3, OLD, YOUNG, YOUNGEST, replica("late", created=9))

    def decide(finding: Finding) -> Decision:
        if finding.pod.name == "late":
            return Refuse(finding, "Gate", "No", "not this one")
        return Evict(finding)

    findings = cluster.evaluate(WEB, decide)

    # 4 on 3 nodes: a share of 2, and 2 too many
    assert [each.pod.name for each in findings if isinstance(each, Finding)] == [
        "late",
        "new",
        "mid",
    ]


def test_a_plan_ends_with_the_limit_of_its_namespace() -> None:
    cluster = scenario(N1, N2, N3, OLD, YOUNG, YOUNGEST, replica("late", created=9))

    def decide(finding: Finding) -> Decision:
        return Refuse(finding, "Gate", "No", "no more here", scope_exhausted="namespace")

    assert len(cluster.evaluate(WEB, decide)) == 1


def test_changes_of_pods_that_share_no_node_wake_nothing() -> None:
    cluster = scenario(N1, N2, N3, OLD)

    assert cluster.subjects_evaluated(replica("b", on="n2"), replica("c", on="n3")) == set()
    assert cluster.subjects_evaluated(node("n2", "a:NoSchedule")) == set()


def test_a_node_wakes_only_the_groups_whose_pods_may_be_on_it_now_or_no_longer() -> None:
    tolerant = [
        with_spec(replica(name, owner="ReplicaSet/db"), tolerations=tolerations("a"))
        for name in ("d1", "d2")
    ]
    cluster = scenario(N1, N2, OLD, YOUNG, *tolerant)

    assert cluster.subjects_evaluated(node("n2", "a:NoSchedule")) == {WEB}
    assert cluster.subjects_evaluated(node("n2", "a:NoSchedule", labels={"x": "y"})) == set()


# --- whatever happens ---------------------------------------------------------------------------

OWNERS = (
    (OwnerReference("ReplicaSet", "web", "u1"),),
    (OwnerReference("StatefulSet", "db", "u2"),),
    (OwnerReference("ReplicaSet", "web", "u1"), OwnerReference("StatefulSet", "db", "u2")),
    (),
)
SPECS = tuple(
    with_spec(pod("x"), **fields).spec
    for fields in (
        {},
        {},
        {"tolerations": tolerations("a")},
        {"node_affinity": affinity("disk=ssd")},
        {"node_selector": {"disk": "ssd"}},
        {"images": ("v2",)},
        {"priority": 2_000_000_000},
    )
)
pods = st.builds(
    lambda name, on, owners, spec, phase, deletion_s, created: replace(
        pod(name, on=on, status=PodStatus(phase), created=created),
        owners=owners,
        spec=spec,
        deletion_s=deletion_s,
        start_delay_s=0,
    ),
    st.sampled_from(["p1", "p2", "p3", "p4", "p5"]),
    st.sampled_from(["n1", "n1", "n1", "n2", None]),
    st.sampled_from([OWNERS[0], OWNERS[0], *OWNERS]),
    st.sampled_from(SPECS),
    st.sampled_from(["Running", "Running", "Running", "Failed"]),
    st.sampled_from([None, None, None, 1]),
    st.sampled_from([0, 0, 5]),
)
nodes = st.builds(
    lambda name, taints, disk, ready: node(name, *taints, labels={"disk": disk}, ready=ready),
    st.sampled_from(["n1", "n2", "n3"]),
    st.sampled_from([(), (), ("a:NoSchedule",), ("a:PreferNoSchedule",)]),
    st.sampled_from(["ssd", "hdd"]),
    st.sampled_from(["True", "True", "True", "False"]),
)
steps = st.lists(
    st.tuples(st.just("apply"), pods)
    | st.tuples(st.just("apply"), pods)
    | st.tuples(st.just("apply"), nodes)
    | st.tuples(st.just("remove"), nodes | pods)
    | st.tuples(st.just("wait"), st.sampled_from([1, 5])),
    min_size=6,
    max_size=30,
)


@given(
    steps,
    st.sampled_from([{}, {"excludeOwnerKinds": ["StatefulSet"]}]),
    st.sampled_from([{}, {}, {"minReplicas": 2}, {"minPodAge": "4s"}]),
)
def test_reacting_finds_exactly_what_a_full_scan_finds(
    steps: list[tuple[str, Any]], args: dict[str, Any], evictor: dict[str, Any]
) -> None:
    start = (N1, N2, N3, replace(OLD, name="p1", uid="p1"), replace(YOUNG, name="p2", uid="p2"))
    cluster = scenario(*start, evictor=evictor, **args)
    lives: Counter[str] = Counter()
    for step, given_thing in steps:
        thing = given_thing
        if isinstance(thing, Pod):  # a pod never moves, and no other comes back under its uid
            uid = f"{thing.uid}#{lives[thing.uid]}"
            lives[thing.uid] += step == "remove"
            known = cluster.state.pods.get(uid)
            on = known.node if known is not None and known.node else thing.node
            thing = replace(thing, uid=uid, node=on)
        getattr(cluster, step)(thing)

        assert cluster.flagged() == cluster.flagged_by_full_scan()
        assert cluster.flagged() == cluster.flagged_after_restart()
