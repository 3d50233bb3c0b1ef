"""Node fit goes by the profile of the scheduler that a pod names."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.model.labels import EVERYTHING, Requirement
from reactive_desched.model.node_affinity import (
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PreferredTerm,
)
from reactive_desched.model.node_scores import MOST_ALLOCATED, Allocation, ScoreRules
from reactive_desched.model.objects import (
    HOSTNAME_LABEL,
    ZONE_LABEL,
    ClusterObject,
    CSINode,
    HostPort,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from reactive_desched.model.scheduler_profile import (
    FILTERS,
    INTER_POD_AFFINITY,
    NODE_AFFINITY,
    NODE_PORTS,
    NODE_RESOURCES_FIT,
    NODE_UNSCHEDULABLE,
    NODE_VOLUME_LIMITS,
    POD_TOPOLOGY_SPREAD,
    TAINT_TOLERATION,
    VOLUME_BINDING,
    VOLUME_RESTRICTIONS,
    VOLUME_ZONE,
    SchedulerProfile,
    SchedulerProfiles,
)
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.testing.anti_affinity import anti_affinity_term, selector, with_anti_affinity
from reactive_desched.testing.builders import node, pod
from tests.support.all_nodes import fitting_nodes
from tests.support.golden import Golden

MINE = "mine"
ROOM = {"cpu": "1", "memory": "8Gi", "pods": "9"}


def of(scheduler: str, a_pod: Pod) -> Pod:
    return replace(a_pod, spec=replace(a_pod.spec, scheduler_name=scheduler))


def fit_by(profiles: SchedulerProfiles, *things: ClusterObject) -> SchedulerNodeFit:
    state = ClusterState()
    for each in things:
        state.upsert(each)
    return SchedulerNodeFit(ClusterView(state, lambda: 0), lambda: 0, profiles)


def without(*filters: str) -> SchedulerProfiles:
    return SchedulerProfiles({MINE: SchedulerProfile(MINE, FILTERS - set(filters))})


def diagnosis(fit: SchedulerNodeFit, a_pod: Pod) -> str:
    assert fit.find_other_node(a_pod, EVERYTHING) is None
    return str(fit.diagnose_other_nodes(a_pod, EVERYTHING).diagnosis)


@pytest.mark.parametrize(
    ("switched_off", "closed"),
    [
        pytest.param(TAINT_TOLERATION, node("n2", "gpu:NoSchedule"), id="taints"),
        pytest.param(NODE_UNSCHEDULABLE, node("n2", unschedulable=True), id="a cordon"),
        pytest.param(NODE_RESOURCES_FIT, node("n2", allocatable=ROOM), id="resources"),
    ],
)
def test_a_filter_that_is_switched_off_rejects_no_node(
    switched_off: str, closed: ClusterObject
) -> None:
    web = pod("web", on="n1", requests={"cpu": "2"})
    fit = fit_by(without(switched_off), node("n1"), closed, web)

    assert fitting_nodes(fit, of(MINE, web)) - {"n1"} == {"n2"}
    assert fitting_nodes(fit, web) - {"n1"} == set()


def with_spec(a_pod: Pod, **fields: Any) -> Pod:  # any field of a spec
    return replace(a_pod, spec=replace(a_pod.spec, **fields))


EVEN = TopologySpreadConstraint(1, HOSTNAME_LABEL, label_selector=selector("app=web"))
WEB = pod("web", on="n1", labels={"app": "web"})
RIVALS = tuple(pod(f"rival-{i}", on="n2", labels={"app": "web"}) for i in range(2))
CLAIMING = replace(WEB, pvc_names=("data",))
CLAIM = PersistentVolumeClaim("default", "data", volume_name="v")
VOLUME = PersistentVolume("v", driver="disks", volume_handle="h", claim_ref="default/data")
LISTENING = {"host_ports": (HostPort(80),)}


@pytest.mark.parametrize(
    ("switched_off", "mover", "others"),
    [
        pytest.param(
            NODE_PORTS,
            with_spec(WEB, **LISTENING),
            [with_spec(RIVALS[0], **LISTENING)],
            id="ports",
        ),
        pytest.param(
            POD_TOPOLOGY_SPREAD,
            with_spec(WEB, topology_spread_constraints=(EVEN,)),
            RIVALS,
            id="spread",
        ),
        pytest.param(
            INTER_POD_AFFINITY,
            with_anti_affinity(WEB, anti_affinity_term("app=web")),
            RIVALS,
            id="anti-affinity",
        ),
        pytest.param(VOLUME_BINDING, CLAIMING, [], id="no claim"),
        pytest.param(VOLUME_BINDING, CLAIMING, [CLAIM], id="no volume"),
        pytest.param(
            VOLUME_RESTRICTIONS,
            CLAIMING,
            [
                replace(CLAIM, read_write_once_pod=True),
                VOLUME,
                replace(RIVALS[0], pvc_names=("data",)),
            ],
            id="a claim for one pod",
        ),
        pytest.param(
            VOLUME_ZONE,
            CLAIMING,
            [CLAIM, replace(VOLUME, topology_labels={ZONE_LABEL: "b"})],
            id="a zone",
        ),
        pytest.param(
            NODE_VOLUME_LIMITS,
            CLAIMING,
            [CLAIM, VOLUME, CSINode("n2", attach_limits={"disks": 0})],
            id="volume limits",
        ),
    ],
)
def test_a_filter_of_pods_or_volumes_that_is_switched_off_rejects_no_node(
    switched_off: str, mover: Pod, others: Sequence[ClusterObject]
) -> None:
    nodes = node("n1", zone="a"), node("n2", zone="a")
    mine = of(MINE, mover)

    assert fitting_nodes(fit_by(without(), *nodes, *others, mine), mine) - {"n1"} == set()
    fit = fit_by(without(switched_off), *nodes, *others, mine)
    found, diagnosed = fit.explain_other_nodes(mine, EVERYTHING)
    assert (found, diagnosed.available) == (["n2"], 1)


def test_added_affinity_is_beside_the_pods_own() -> None:
    added = NodeSelector((NodeSelectorTerm((Requirement("pool", "In", ("batch",)),)),))
    profiles = SchedulerProfiles({MINE: SchedulerProfile(MINE, added_affinity=added)})
    web = pod("web", on="n1")
    fit = fit_by(
        profiles,
        node("n1"),
        node("n2", labels={"pool": "batch"}),
        node("n3", labels={"pool": "web"}),
        web,
    )

    assert fitting_nodes(fit, of(MINE, web)) - {"n1"} == {"n2"}
    assert fitting_nodes(fit, web) - {"n1"} == {"n2", "n3"}


@pytest.mark.parametrize(
    "profile",
    [
        SchedulerProfile(MINE, ignored_resources=frozenset({"example.com/foo"})),
        SchedulerProfile(MINE, ignored_groups=frozenset({"example.com"})),
    ],
)
def test_ignored_resources_may_be_lacking(profile: SchedulerProfile) -> None:
    requests = {"example.com/foo": 1}
    web = pod("web", on="n1")
    web = of(MINE, replace(web, spec=replace(web.spec, requests=requests)))

    assert fitting_nodes(fit_by(SchedulerProfiles(), node("n2"), web), web) == set()
    assert fitting_nodes(fit_by(SchedulerProfiles({MINE: profile}), node("n2"), web), web) == {"n2"}


@pytest.mark.parametrize("resource", ["cpu", "hugepages-2Mi", "kubernetes.io/batch-cpu"])
def test_resources_of_kubernetes_cannot_be_ignored(resource: str) -> None:
    profile = SchedulerProfile(
        MINE,
        ignored_resources=frozenset({resource}),
        ignored_groups=frozenset({"kubernetes.io"}),
    )
    web = pod("web", on="n1")
    spec = replace(web.spec, requests={resource: 1})

    assert profile.requests(spec) == {resource: 1}


def test_pods_of_an_unknown_scheduler_are_held_where_the_settings_say_so(
    golden: Golden,
) -> None:
    web = pod("web", on="n1")
    mine = {MINE: SchedulerProfile(MINE)}
    cluster = (node("n1"), node("n2"), web)

    held = fit_by(SchedulerProfiles(mine, holds_unknown=True), *cluster)
    assert fitting_nodes(held, of("other", web)) == set()
    assert diagnosis(held, of("other", web)) == golden()
    assert fitting_nodes(held, of(MINE, web)) - {"n1"} == {"n2"}
    assumed = fit_by(SchedulerProfiles(mine), *cluster)
    assert fitting_nodes(assumed, of("other", web)) - {"n1"} == {"n2"}


def test_without_a_configuration_the_default_scheduler_is_known() -> None:
    web = pod("web", on="n1")
    held = fit_by(SchedulerProfiles(holds_unknown=True), node("n1"), node("n2"), web)

    assert fitting_nodes(held, web) - {"n1"} == {"n2"}
    assert fitting_nodes(held, of("other", web)) == set()


def test_a_diagnosis_names_the_profile_and_what_is_not_known_of_it(golden: Golden) -> None:
    profile = SchedulerProfile(MINE, not_known=("extenders",))
    profiles = SchedulerProfiles({MINE: profile})
    web = pod("web", on="n1")
    fit = fit_by(profiles, node("n1"), node("n2", "gpu:NoSchedule"), web)

    assert diagnosis(fit, of(MINE, web)) == golden("configured")
    assert diagnosis(fit, of("other", web)) == golden("not configured")


nodes = st.builds(
    lambda name, taints, pool, closed, cpu: node(
        name,
        *taints,
        labels={"pool": pool},
        unschedulable=closed,
        allocatable={"cpu": cpu, "memory": "8Gi", "pods": "9"},
    ),
    st.sampled_from(["n1", "n2", "n3"]),
    st.lists(st.sampled_from(["a:NoSchedule", "b:NoExecute"]), max_size=1),
    st.sampled_from(["x", "y"]),
    st.booleans(),
    st.sampled_from(["1", "3"]),
)
pods = st.builds(
    lambda name, on, cpu, scheduler: of(scheduler, pod(name, on=on, requests={"cpu": cpu})),
    st.sampled_from(["p1", "p2", "p3"]),
    st.sampled_from(["n1", "n2"]),
    st.sampled_from(["1", "2"]),
    st.sampled_from([MINE, "default-scheduler", "other"]),
)
added_affinities = st.sampled_from(
    [None, NodeSelector((NodeSelectorTerm((Requirement("pool", "In", ("x",)),)),))]
)
all_profiles = st.builds(
    lambda filters, added, held, scores: SchedulerProfiles(
        {MINE: SchedulerProfile(MINE, filters, added, scores=scores)}, holds_unknown=held
    ),
    st.frozensets(
        st.sampled_from([NODE_AFFINITY, NODE_RESOURCES_FIT, NODE_UNSCHEDULABLE, TAINT_TOLERATION])
    ),
    added_affinities,
    st.booleans(),
    st.sampled_from([ScoreRules(), ScoreRules(Allocation(MOST_ALLOCATED))]),
)


@given(all_profiles, st.lists(nodes | pods | all_profiles, min_size=3, max_size=20))
def test_following_answers_as_looking_anew(
    profiles: SchedulerProfiles, changes: list[ClusterObject | SchedulerProfiles]
) -> None:
    state = ClusterState()
    view = ClusterView(state, lambda: 0)
    fit = SchedulerNodeFit(view, lambda: 0, profiles)
    parked: dict[str, Pod] = {}
    for each in changes:
        if isinstance(each, SchedulerProfiles):
            profiles = each
            fit.reconfigure(profiles)
            parked.clear()
        else:
            fit.apply_changes(state.upsert(each), 0)
        anew = SchedulerNodeFit(view, lambda: 0, profiles)
        woken = set()
        for _ in range(4):
            woken |= {hint.wake for hint in fit.take_capacity_hints()}
        for placed in map(view.pod, view.pods()):
            assert placed is not None
            answer = fitting_nodes(fit, placed)
            assert answer == fitting_nodes(anew, placed)
            asked = placed, EVERYTHING
            assert fit.explain_other_nodes(*asked) == anew.explain_other_nodes(*asked)
            before = parked.pop(placed.uid, None)
            if before is placed and answer - {placed.node}:
                assert woken, "a pod that fits a node now was woken"
        for placed in map(view.pod, view.pods()):
            assert placed is not None
            if fit.find_other_node(placed, EVERYTHING) is None:
                fit.diagnose_other_nodes(placed, EVERYTHING)
                parked[placed.uid] = placed


HARD = (TopologySpreadConstraint(1, HOSTNAME_LABEL),)
REPLICAS = tuple(
    pod(f"web-{i}", on=on, owner="ReplicaSet/web") for i, on in enumerate(("n1", "n2", "n2"))
)
SPREADING = SchedulerProfiles({MINE: SchedulerProfile(MINE, default_constraints=HARD)})


def hosts(*names: str) -> list[ClusterObject]:
    return [node(name, labels={HOSTNAME_LABEL: name}) for name in names]


def test_hard_default_constraints_reject_nodes_with_more_pods_of_the_same_controller() -> None:
    fit = fit_by(SPREADING, *hosts("n1", "n2", "n3"), *REPLICAS)
    first = REPLICAS[0]

    assert fitting_nodes(fit, of(MINE, first)) == {"n1", "n3"}
    assert fitting_nodes(fit, first) == {"n1", "n2", "n3"}


@pytest.mark.parametrize(
    "a_pod",
    [
        pytest.param(pod("alone", on="n2", owner=None), id="no controller"),
        pytest.param(pod("j", on="n2", owner="Job/web"), id="a Job"),
        pytest.param(pod("x", on="n2", owner="ReplicaSet/other"), id="another controller"),
        pytest.param(
            with_spec(
                REPLICAS[1],
                topology_spread_constraints=(
                    replace(HARD[0], when_unsatisfiable="ScheduleAnyway"),
                ),
            ),
            id="a constraint of its own",
        ),
    ],
)
def test_hard_default_constraints_hold_for_replicas_without_a_constraint_alone(a_pod: Pod) -> None:
    fit = fit_by(SPREADING, *hosts("n1", "n2", "n3"), *REPLICAS, a_pod)

    assert fitting_nodes(fit, of(MINE, a_pod)) == {"n1", "n2", "n3"}


def test_replicas_that_terminate_do_not_count_for_default_constraints() -> None:
    leaving = replace(REPLICAS[2], deletion_s=1)
    fit = fit_by(SPREADING, *hosts("n1", "n2", "n3"), REPLICAS[0], leaving)

    assert fitting_nodes(fit, of(MINE, pod("new", owner="ReplicaSet/web"))) == {"n2", "n3"}


def test_a_replica_that_goes_wakes_one_that_default_constraints_kept_where_it_is() -> None:
    state = ClusterState()
    first, second = (of(MINE, each) for each in REPLICAS[:2])
    for each in (*hosts("n1", "n2"), first, second):
        state.upsert(each)
    other = replace(first, uid="db", name="db", owners=pod("db", owner="ReplicaSet/db").owners)
    for each in (other, *(replace(other, uid=f"db-{i}", node="n2") for i in range(2))):
        state.upsert(each)
    fit = SchedulerNodeFit(ClusterView(state, lambda: 0), lambda: 0, SPREADING)
    third = of(MINE, pod("web-3", on="n2", owner="ReplicaSet/web"))
    fit.apply_changes(state.upsert(third), 0.0)
    assert fit.find_other_node(other, EVERYTHING) is None
    fit.diagnose_other_nodes(other, EVERYTHING)
    assert fit.find_other_node(first, EVERYTHING) is None
    waits = fit.diagnose_other_nodes(first, EVERYTHING).wake_on
    fit.take_capacity_hints()

    fit.apply_changes(state.remove(third), 0.0)

    assert {hint.wake for hint in fit.take_capacity_hints()} & set(waits)


def taken_first(rules: ScoreRules, mine: Pod, *things: ClusterObject) -> set[str]:
    """Name the nodes with the highest score for a pod."""
    fit = fit_by(SchedulerProfiles({MINE: SchedulerProfile(MINE, scores=rules)}), *things)
    return set(fit.explain_other_nodes(of(MINE, mine), EVERYTHING)[0])


NOTHING = ScoreRules(
    resources_fit=0,
    balanced_allocation=0,
    taint_toleration=0,
    node_affinity=0,
    inter_pod_affinity=0,
    topology_spread=0,
)


def test_other_profiles_count_at_once_in_filters_and_in_scores() -> None:
    mine = of(MINE, pod("web", on="n1", requests={"cpu": "1"}))
    room = {"cpu": "4", "memory": "8Gi", "pods": "9"}
    there = (
        node("n1", allocatable=ROOM),
        node("busy", "gpu:NoSchedule", allocatable=room),
        node("idle", allocatable=room),
        pod("old", on="busy", requests={"cpu": "2", "memory": "1Gi"}),
    )
    spreading = replace(NOTHING, resources_fit=1)
    packing = replace(spreading, allocation=Allocation(MOST_ALLOCATED))
    fit = fit_by(SchedulerProfiles({MINE: SchedulerProfile(MINE, scores=spreading)}), *there)
    assert fit.explain_other_nodes(mine, EVERYTHING)[0] == ["idle"]

    for scores, first in ((spreading, "idle"), (packing, "busy")):
        profile = SchedulerProfile(MINE, FILTERS - {TAINT_TOLERATION}, scores=scores)
        fit.reconfigure(SchedulerProfiles({MINE: profile}))
        assert fit.explain_other_nodes(mine, EVERYTHING)[0] == [first]
        assert fitting_nodes(fit, mine) >= {"busy", "idle"}


LIKES_WEB = anti_affinity_term("app=web")
BESIDE_WEB = with_spec(pod("db", on="n1"), pod_affinity=(LIKES_WEB,))
NEAR_WEB = with_spec(
    pod("log", on="n2"), preferred_pod_affinity=(WeightedPodAffinityTerm(10, LIKES_WEB),)
)


@pytest.mark.parametrize(
    ("rules", "best"),
    [
        ({}, {"n2"}),
        ({"hard_pod_affinity": 20}, {"n1"}),
        ({"hard_pod_affinity": 10}, {"n1", "n2"}),
        ({"hard_pod_affinity": 20, "ignore_others_affinity": True}, {"n1", "n2", "n3"}),
    ],
)
def test_the_affinity_of_others_draws_a_pod_by_its_weight(
    rules: dict[str, Any], best: set[str]
) -> None:
    scores = replace(NOTHING, inter_pod_affinity=1, **rules)
    web = pod("web", labels={"app": "web"}, on="")

    assert taken_first(scores, web, *hosts("n1", "n2", "n3"), BESIDE_WEB, NEAR_WEB) == best


def test_others_affinity_counts_for_a_pod_that_has_a_preference_of_its_own() -> None:
    scores = replace(NOTHING, inter_pod_affinity=1, ignore_others_affinity=True)
    term = anti_affinity_term("app=nothing")
    web = with_spec(
        pod("web", labels={"app": "web"}, on=""),
        preferred_pod_affinity=(WeightedPodAffinityTerm(1, term),),
    )

    assert taken_first(scores, web, *hosts("n1", "n2", "n3"), NEAR_WEB) == {"n2"}


@pytest.mark.parametrize(
    ("own", "best"), [((), {"n1"}), ((("disk", 5),), {"n2"}), ((("disk", 3),), {"n1", "n2"})]
)
def test_added_preferences_count_beside_the_pods_own(
    own: Sequence[tuple[str, int]], best: set[str]
) -> None:
    scores = replace(NOTHING, node_affinity=1, added_preferred=(liked("ssd", 3),))
    preferred = tuple(liked(key, weight) for key, weight in own)
    mine = with_spec(pod("web", on=""), node_affinity=NodeAffinity(preferred=preferred))
    nodes = node("n1", labels={"ssd": ""}), node("n2", labels={"disk": ""}), node("n3")

    assert taken_first(scores, mine, *nodes) == best


def liked(label: str, weight: int) -> PreferredTerm:
    return PreferredTerm(weight, NodeSelectorTerm((Requirement(label, "Exists"),)))


UNLIKE = {"cpu": "2250m", "memory": "3Gi", "gpu.io/x": "2"}


@pytest.mark.parametrize(
    ("balanced", "requests", "best"),
    [
        pytest.param(("cpu", "memory"), {"cpu": "1", "gpu.io/x": "2"}, {"n2"}, id="the default"),
        pytest.param(("cpu", "gpu.io/x"), {"cpu": "1", "gpu.io/x": "2"}, {"n1"}, id="others"),
        pytest.param(("cpu", "gpu.io/x"), {"cpu": "1"}, {"n1", "n2"}, id="not asked for"),
        pytest.param(("cpu", "memory", "gpu.io/x"), UNLIKE, {"n1"}, id="three"),
        pytest.param(("gpu.io/x",), {"cpu": "1"}, {"n1", "n2"}, id="asks for none of them"),
    ],
)
def test_the_resources_that_are_balanced(
    balanced: tuple[str, ...], requests: dict[str, str], best: set[str]
) -> None:
    scores = replace(NOTHING, balanced_allocation=1, balanced=balanced)
    rooms = {"cpu": "4", "memory": "4Gi", "pods": "9", "gpu.io/x": "8"}
    first = node("n1", allocatable=rooms)
    second = node("n2", allocatable=rooms | {"cpu": "9"})

    assert taken_first(scores, pod("web", on="", requests=requests), first, second) == best


def test_listed_default_constraints_give_no_points_to_nodes_without_their_labels() -> None:
    soft = TopologySpreadConstraint(1, ZONE_LABEL, "ScheduleAnyway")
    scores = replace(NOTHING, topology_spread=1, default_spread=(soft,))
    web = pod("web", on="", owner="ReplicaSet/web")
    zoned = node("n1", labels={ZONE_LABEL: "a"})
    there = zoned, node("n2"), pod("web-0", on="n1", owner="ReplicaSet/web")

    assert taken_first(scores, web, *there) == {"n2"}
    assert taken_first(replace(scores, spread_needs_labels=True), web, *there) == {"n1"}


REPLICA_SET = "ReplicaSet/web"


def test_default_constraints_count_pods_by_their_node_policies() -> None:
    counting = TopologySpreadConstraint(1, ZONE_LABEL, "ScheduleAnyway")
    scores = replace(NOTHING, topology_spread=1)
    nodes: list[ClusterObject] = [
        node("a1", labels={ZONE_LABEL: "a"}),
        node("a2", "gpu:NoSchedule", labels={ZONE_LABEL: "a"}),
        node("b1", labels={ZONE_LABEL: "b"}),
        *(
            pod(f"web-{n}", on=on, owner="ReplicaSet/web")
            for n, on in enumerate(("a2", "a2", "b1"))
        ),
    ]
    web = pod("web", on="", owner=REPLICA_SET)

    def first(**policy: str) -> set[str]:
        spread = (replace(counting, **policy),)
        return taken_first(replace(scores, default_spread=spread), web, *nodes)

    assert first() == {"b1"}
    assert first(node_taints_policy="Honor") == {"a1"}


def test_the_pods_of_each_host_count_whatever_the_node_policies_say() -> None:
    """A node that the filter would reject is a candidate where the filter is switched off."""
    spread = (TopologySpreadConstraint(1, HOSTNAME_LABEL, "ScheduleAnyway"),)
    scores = replace(NOTHING, topology_spread=1, default_spread=spread)
    profile = SchedulerProfile(MINE, FILTERS - {NODE_AFFINITY}, scores=scores)
    web = with_spec(pod("web", on="", owner=REPLICA_SET), node_selector={"disk": "ssd"})
    ssd = node("n2", labels={"disk": "ssd", HOSTNAME_LABEL: "n2"})
    there = [pod(f"web-{i}", on=on, owner=REPLICA_SET) for i, on in enumerate(("n1", "n1", "n2"))]

    fit = fit_by(SchedulerProfiles({MINE: profile}), *hosts("n1"), ssd, *there)

    assert fit.explain_other_nodes(of(MINE, web), EVERYTHING)[0] == ["n2"]
