"""Policies are run over small recordings that are written here item by item."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pytest
from msgspec.structs import replace

from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import (
    OwnerReference,
    Pod,
    PodCondition,
    PodDisruptionBudget,
    PodStatus,
    StatefulSet,
)
from reactive_desched.model.outcomes import Accepted
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import load_sources
from reactive_desched.policy_diff.policy_run import PolicyRun
from reactive_desched.policy_diff.recorded_facts import FactsReader
from reactive_desched.policy_diff.trying import run_policies
from reactive_desched.recording.items import (
    EvictionAnswered,
    EvictionSettled,
    Instant,
    Item,
    NothingChanged,
    ObjectChanged,
    ObjectFound,
    OrderGiven,
    PictureBegun,
    PictureEnded,
    ProcessBegan,
    RecordingInterrupted,
    Verb,
)
from reactive_desched.recording.recorded_state import RecordedState
from reactive_desched.state.resources import NODES, PDBS, PODS
from reactive_desched.testing.builders import container, node, pod

START_S: Final = 1_800_000_000
STATEFUL_SETS: Final = "statefulsets"
TAINTS: Final = "RemovePodsViolatingNodeTaints"
RESTARTS: Final = "RemovePodsHavingTooManyRestarts"
ARGS: Final = {TAINTS: "{}", RESTARTS: "{podRestartThreshold: 20}"}
BALANCE: Final = {
    "ConsolidateNodes": "{headroom: {}}",
    "KeepNodesFree": "{nodes: 1}",
    "MakeRoomForPending": "{}",
}
QUIET: Final = """\
---
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
debounce: {quiet: 0s, maxWait: 1s}
guards: {disabled: [SingleReplicas, UnreadyWorkloads, Rollouts], minPodAge: 0s, minReadyTime: 0s,
  standingTimes: {otherTaints: 0s, nodeLabels: 0s}}
budgets: {cluster: null, zone: null, node: null, namespace: null, owner: null, plugin: null,
  warmUp: null}
moves: {maxMoving: {owner: null, namespace: null, node: null, zone: null, cluster: null},
  cooldown: 0s, nodeCooldown: 0s, futileBackoff: 0s}
"""


def policy(*plugins: str, settings: str = QUIET) -> Configuration:
    args = {**ARGS, **BALANCE}
    balance = [name for name in plugins if name in BALANCE]
    deschedule = [name for name in plugins if name not in BALANCE]
    text = f"""\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: p
  pluginConfig: [{", ".join(f"{{name: {name}, args: {args[name]}}}" for name in plugins)}]
  plugins:
    deschedule: {{enabled: [{", ".join(deschedule)}]}}
    balance: {{enabled: [{", ".join(balance)}]}}
{settings}"""
    return load_sources([SourceText(text, "policy")], plugin_registry())


def at(seconds: float) -> Instant:
    return Instant(START_S + seconds, 1000 + seconds)


def picture(*objects: Any, seconds: float = 0.0) -> Iterator[Item]:
    yield PictureBegun(at(seconds))
    for obj in objects:
        yield ObjectFound(at(seconds), resource_of(obj), obj)
    yield PictureEnded(at(seconds))


def resource_of(obj: Any) -> str:
    if isinstance(obj, Pod):
        return PODS
    if isinstance(obj, StatefulSet):
        return STATEFUL_SETS
    return PDBS if isinstance(obj, PodDisruptionBudget) else NODES


def changed(seconds: float, obj: Any, verb: Verb = Verb.MODIFIED) -> Item:
    return ObjectChanged(at(seconds), resource_of(obj), verb, obj)


def evicted(seconds: float, leaving: Pod, replacement: Pod) -> Iterator[Item]:
    """Yield what a recording has of an eviction: 10 s later the replacement is Ready."""
    yield EvictionAnswered(at(seconds), leaving.namespace, leaving.name, leaving.uid, Accepted())
    yield changed(seconds, replace(leaving, deletion_s=START_S + int(seconds)))
    pending = replace(replacement, status=PodStatus("Pending"))
    yield changed(seconds, replace(pending, node=""), Verb.ADDED)
    yield changed(seconds, pending)
    yield changed(seconds + 5, leaving, Verb.DELETED)
    yield changed(seconds + 10, replacement)


def run(config: Configuration, *items: Iterable[Item] | Item) -> PolicyRun:
    every: list[Item] = []
    for each in items:
        every += [each] if isinstance(each, Item) else each
    every.sort(key=lambda item: item.at.wall_s)
    recorded = RecordedState()
    made = PolicyRun(config, FactsReader().read(every), recorded)
    run_policies(every, [made], recorded)
    return made


def moved(made: PolicyRun) -> list[tuple[str, int]]:
    """Return the lines of the pods that were evicted, and when."""
    return [(each.pod.line, round(each.time_s - START_S)) for each in made.evictions]


WEB: Final = pod("web", on="n1", created=START_S - 3600)
NEW: Final = pod("web-new", on="n2", created=START_S + 100)
CLUSTER: Final = (node("n1"), node("n2"), WEB)
TAINTED: Final = node("n1", "gpu:NoSchedule")


def test_the_eviction_that_was_recorded_is_made_once_and_its_replacement_is_the_recorded_one() -> (
    None
):
    made = run(
        policy(TAINTS),
        picture(*CLUSTER),
        changed(100, TAINTED),
        evicted(100.01, WEB, NEW),
        NothingChanged(at(300)),
    )

    assert moved(made) == [("web", 100)]
    assert [each.replacement for each in made.evictions] == ["web-new"]
    assert made.evictions[0].end == "moved"


@pytest.mark.parametrize(
    ("recorded_s", "ready_s"),
    [
        pytest.param(101.5, 111.5, id="a process that was late made the same eviction"),
        pytest.param(104.0, 110.0, id="a later one says nothing of now"),
        pytest.param(99.5, 110.0, id="no replacement is Ready sooner than it can be"),
    ],
)
def test_a_replacement_is_ready_as_if_it_came_now_unless_the_recorded_process_was_late(
    recorded_s: float, ready_s: float
) -> None:
    made = run(
        policy(TAINTS),
        picture(*CLUSTER),
        changed(100, TAINTED),
        evicted(recorded_s, WEB, NEW),
        NothingChanged(at(300)),
    )

    (only,) = made.evictions
    assert only.ready_s is not None
    assert only.time_s + only.ready_s - START_S == pytest.approx(ready_s, abs=0.1)


def test_a_pod_that_only_the_recorded_controller_moved_stays_where_it_was() -> None:
    """It is evicted only when this policy has a reason to: its node is tainted later."""
    made = run(
        policy(TAINTS),
        picture(*CLUSTER),
        evicted(100, WEB, NEW),
        changed(400, TAINTED),
        NothingChanged(at(600)),
    )

    assert moved(made) == [("web", 400)]


def test_the_recorded_replacement_is_not_there_while_the_pod_stays() -> None:
    """The node of the recorded replacement is tainted, and nothing of this world is on it."""
    made = run(
        policy(TAINTS),
        picture(*CLUSTER),
        evicted(100, WEB, NEW),
        changed(400, node("n2", "gpu:NoSchedule")),
        NothingChanged(at(600)),
    )

    assert moved(made) == []


def test_a_pod_that_only_this_policy_moves_is_replaced_where_it_fits() -> None:
    made = run(policy(TAINTS), picture(*CLUSTER), changed(100, TAINTED), NothingChanged(at(600)))

    assert moved(made) == [("web", 100)]
    assert made.evictions[0].replacement_node == "n2"
    assert made.evictions[0].ready_s is not None


def test_the_later_life_of_a_moved_pod_is_laid_on_its_replacement() -> None:
    """The recorded pod crash-loops later; so does its replacement, which is found for that."""
    made = run(
        policy(TAINTS, RESTARTS),
        picture(*CLUSTER, node("n3")),
        changed(100, TAINTED),
        changed(300, restarted(WEB, 30)),
        NothingChanged(at(600)),
    )

    assert [(each.pod.line, each.pod.plugin) for each in made.evictions] == [
        ("web", TAINTS),
        ("web", RESTARTS),
    ]


def test_a_replacement_has_not_the_restarts_of_the_pod_that_it_replaces() -> None:
    old = restarted(WEB, 30)
    made = run(
        policy(RESTARTS),
        picture(node("n1"), node("n2"), old),
        changed(300, restarted(WEB, 31)),
        NothingChanged(at(600)),
    )

    assert [line for line, _ in moved(made)] == ["web"]


def test_the_end_of_a_recorded_pod_ends_the_one_in_its_place() -> None:
    """A person deletes the pod; its recorded replacement is the same in both worlds."""
    other = replace(NEW, node="n1")
    made = run(
        policy(TAINTS),
        picture(*CLUSTER),
        changed(100, TAINTED),
        changed(200, replace(WEB, deletion_s=START_S + 200)),
        changed(200, other, Verb.ADDED),
        changed(205, WEB, Verb.DELETED),
        NothingChanged(at(600)),
    )

    assert moved(made) == [("web", 100), ("web-new", 200)]


@pytest.mark.parametrize(
    ("reason", "left"),
    [("DeletionByPodGC", [("web", 400)]), ("PreemptionByScheduler", [])],
    ids=["its node went", "of itself"],
)
def test_what_ended_a_recorded_pod_with_its_node_ends_none_elsewhere(
    reason: str, left: list[tuple[str, int]]
) -> None:
    """Pod GC sets the phase before it deletes; the pod in its place stays on a node that is there.

    It is found there when that node is tainted, unless it ended with the recorded pod.
    """
    mark = PodCondition("DisruptionTarget", "True", reason)
    failed = replace(NEW, status=PodStatus("Failed", conditions=(mark,)))
    next_one = pod("web-next", on="n3", created=START_S + 300)
    made = run(
        policy(TAINTS),
        picture(*CLUSTER, node("n3")),
        evicted(100, WEB, NEW),
        changed(300, node("n2"), Verb.DELETED),
        changed(300, failed),
        changed(301, failed, Verb.DELETED),
        changed(301, next_one, Verb.ADDED),
        changed(400, TAINTED),
        NothingChanged(at(600)),
    )

    assert moved(made) == left


def test_a_pod_leaves_when_the_one_whose_life_it_has_begins_to_end() -> None:
    """Its ReplicaSet has too many: what comes while the recorded pod terminates moves it no more.

    A node is tainted in the 30 s that the recorded replacement takes to end.
    """
    made = run(
        policy(TAINTS),
        picture(*CLUSTER),
        evicted(100, WEB, NEW),
        changed(205, replace(NEW, deletion_s=START_S + 205)),
        changed(210, TAINTED),
        changed(235, NEW, Verb.DELETED),
        NothingChanged(at(600)),
    )

    assert moved(made) == []


@pytest.mark.parametrize(("takes_s", "evicted_s"), [(None, [100, 100]), (3.0, [103, 106])])
def test_requests_take_as_long_as_the_recorded_ones(
    takes_s: float | None, evicted_s: list[int]
) -> None:
    """One is sent after the other; a third pod was evicted before."""
    settings = QUIET + "evictions: {maxInFlight: 1}\n"
    pods = [pod(f"web-{n}", on="n1", created=START_S - 3600) for n in (1, 2)]
    sent_s = at(50 - (takes_s or 0)).monotonic_s
    settled = [
        EvictionSettled(at(50), WEB.uid, "evicted", sent_s=sent_s),
        *(EvictionSettled(at(51), "web-x", "cancelled", sent_s=at(51).monotonic_s) for _ in "ab"),
    ]

    made = run(
        policy(TAINTS, settings=settings),
        picture(node("n1"), node("n2"), node("n3"), replace(WEB, node="n3"), *pods),
        evicted(50, replace(WEB, node="n3"), NEW),
        settled if takes_s else [],
        changed(100, TAINTED),
        NothingChanged(at(600)),
    )

    assert [second for _, second in moved(made)] == evicted_s


def test_a_disruption_budget_counts_the_pods_of_this_world() -> None:
    """The recorded controller moved one of two pods just now: in this world both are Ready."""
    labels = {"app": "web"}
    first = pod("web-1", on="n1", labels=labels, created=START_S - 3600)
    second = pod("web-2", on="n2", labels=labels, created=START_S - 3600)
    third = pod("web-3", on="n3", labels=labels, created=START_S + 100)
    budget = budget_of(labels, 1)
    made = run(
        policy(TAINTS),
        picture(node("n1"), node("n2"), node("n3"), first, second, budget),
        evicted(100, first, third),
        changed(100, replace(budget, disruptions_allowed=0)),
        changed(102, node("n2", "gpu:NoSchedule")),
        changed(110, budget),
        NothingChanged(at(600)),
    )

    assert moved(made) == [("web-2", 102)]


def test_a_budget_that_the_recorded_eviction_spends_before_its_pod_ends_is_not_spent_here() -> None:
    """The API server writes the budget first: between both a request of this policy is answered."""
    labels = {"app": "web"}
    pods = [pod(f"web-{n}", on="n1", labels=labels, created=START_S - 3600) for n in (1, 2)]
    spent = replace(budget_of(labels, 1), disruptions_allowed=0)
    made = run(
        policy(TAINTS),
        picture(node("n1"), node("n2"), *pods, budget_of(labels, 1)),
        changed(100, TAINTED),
        changed(100.002, spent),
        evicted(100.03, pods[0], pod("web-3", on="n2", labels=labels, created=START_S + 100)),
        changed(111, budget_of(labels, 1)),
        NothingChanged(at(600)),
    )

    assert moved(made)[0] == ("web-1", 100)


def test_a_budget_is_not_spent_by_an_eviction_before_its_request() -> None:
    """It allowed none until then: what would have been spent was not there yet."""
    labels = {"app": "web"}
    pods = [pod(f"web-{n}", on="n1", labels=labels, created=START_S - 3600) for n in (1, 2)]
    allows = budget_of(labels, 1)
    none = replace(allows, disruptions_allowed=0)
    new = pod("web-3", on="n2", labels=labels, created=START_S + 100)
    sent_s = at(100.04).monotonic_s
    made = run(
        policy(TAINTS),
        picture(node("n1"), node("n2"), *pods, none),
        changed(99.97, replace(pods[0], resource_version=7)),
        changed(99.97, TAINTED),
        changed(100.04, allows),
        changed(100.045, none),
        (
            replace(each, sent_s=sent_s) if isinstance(each, EvictionAnswered) else each
            for each in evicted(100.05, pods[1], new)
        ),
        changed(111, allows),
        NothingChanged(at(105)),
    )

    assert [each.time_s - START_S for each in made.evictions] == [pytest.approx(100.05, abs=0.01)]


def test_an_eviction_long_before_the_recorded_one_is_one_of_its_own() -> None:
    """Its replacement is Ready long before the recorded eviction, to which the pod's line goes."""
    made = run(
        policy(TAINTS),
        picture(*CLUSTER),
        changed(100, TAINTED),
        evicted(140, WEB, NEW),
        NothingChanged(at(600)),
    )

    assert moved(made) == [("web", 100)]
    assert made.evictions[0].ready_s is not None
    assert made.evictions[0].ready_s < 30


def test_of_equal_nodes_the_replacement_takes_the_one_that_the_recorded_one_took() -> None:
    made = run(
        policy(TAINTS),
        picture(*CLUSTER, node("n3"), node("n4")),
        changed(100, TAINTED),
        evicted(140, WEB, replace(NEW, node="n3")),
        NothingChanged(at(600)),
    )

    assert [each.replacement_node for each in made.evictions] == ["n3"]


def test_of_equal_nodes_the_replacement_takes_one_that_the_pod_did_not_leave() -> None:
    made = run(
        policy(RESTARTS),
        picture(node("n1"), node("n2"), restarted(WEB, 30)),
        NothingChanged(at(600)),
    )

    assert [each.replacement_node for each in made.evictions] == ["n2"]


def test_a_disruption_budget_is_spent_by_the_evictions_of_this_world() -> None:
    labels = {"app": "web"}
    pods = [pod(f"web-{n}", on="n1", labels=labels, created=START_S - 3600) for n in (1, 2)]
    made = run(
        policy(TAINTS),
        picture(node("n1"), node("n2"), *pods, budget_of(labels, 1)),
        changed(100, TAINTED),
        NothingChanged(at(600)),
    )

    times = [seconds for _, seconds in moved(made)]
    assert sorted(line for line, _ in moved(made)) == ["web-1", "web-2"]
    assert times[0] == 100
    assert times[1] >= 110  # the replacement of the first is Ready then


def test_a_pod_on_a_node_that_goes_is_replaced_though_the_recorded_one_was_elsewhere() -> None:
    """This policy moved the pod to a node that is removed later."""
    made = run(
        policy(TAINTS),
        picture(node("n1"), node("n2"), WEB),
        changed(100, TAINTED),
        changed(200, node("n3")),
        changed(250, node("n2"), Verb.DELETED),
        changed(400, node("n3", "gpu:NoSchedule")),
        changed(400, node("n4")),
        NothingChanged(at(600)),
    )

    assert moved(made) == [("web", 100), ("web", 400)]
    assert [each.pod.node for each in made.evictions] == ["n1", "n3"]


@pytest.mark.parametrize(
    ("is_parallel", "first", "second"), [(False, 20, 30), (True, 20, 20)], ids=["ordered", "all"]
)
def test_a_stateful_set_creates_its_pods_in_the_order_that_it_has(
    first: int, second: int, *, is_parallel: bool
) -> None:
    """A pod is gone after ten seconds, and Ready ten seconds after it was created."""
    stateful_set = StatefulSet("default", "db", "db-uid", replicas=2, is_parallel=is_parallel)
    owner = OwnerReference("StatefulSet", "db", "db-uid", controller=True, api_version="apps/v1")
    pods = [
        replace(pod(f"db-{n}", on="n1", created=START_S - 3600), owners=(owner,)) for n in (0, 1)
    ]
    made = run(
        policy(TAINTS, settings=QUIET.replace("Rollouts]", "Rollouts, StatefulSetOrder]")),
        picture(node("n1"), node("n2"), stateful_set, *pods),
        changed(100, TAINTED),
        NothingChanged(at(600)),
    )

    ready_s = {each.pod.name: round(each.ready_s or 0) for each in made.evictions}
    assert ready_s == {"db-0": first, "db-1": second}


def test_a_replacement_is_not_put_on_a_node_that_came_before_the_recorded_one_only() -> None:
    """The recorded eviction is three seconds later: a node was added in between."""
    made = run(
        policy(TAINTS),
        picture(*CLUSTER),
        changed(100, TAINTED),
        changed(101, node("n3"), Verb.ADDED),
        evicted(103, WEB, replace(NEW, node="n3")),
        NothingChanged(at(600)),
    )

    assert [each.replacement_node for each in made.evictions] == ["n2"]


def test_a_replica_set_that_shrinks_deletes_the_pod_that_is_not_ready_in_this_world() -> None:
    """The recorded one deletes a Ready pod: all of its pods were Ready then."""
    labels = {"app": "web"}
    first, second = (
        pod(f"web-{n}", on=f"n{n}", labels=labels, created=START_S - 3600) for n in (1, 2)
    )
    made = run(
        policy(TAINTS),
        picture(node("n1"), node("n2"), node("n3"), first, second),
        changed(100, TAINTED),
        changed(105, replace(second, deletion_s=START_S + 105)),
        changed(110, second, Verb.DELETED),
        changed(300, node("n2", "gpu:NoSchedule")),
        NothingChanged(at(600)),
    )

    assert moved(made) == [("web-1", 100), ("web-2", 300)]


def test_the_life_of_the_pod_that_was_to_stay_is_laid_on_the_one_that_stays() -> None:
    """The recorded first pod stays and crash-loops later; in this world the second one stays."""
    first, second = (pod(f"web-{n}", on=f"n{n}", created=START_S - 3600) for n in (1, 2))
    made = run(
        policy(TAINTS, RESTARTS),
        picture(node("n1"), node("n2"), node("n3"), first, second),
        changed(100, TAINTED),
        changed(105, replace(second, deletion_s=START_S + 105)),
        changed(110, second, Verb.DELETED),
        changed(300, restarted(first, 30)),
        NothingChanged(at(600)),
    )

    assert moved(made) == [("web-1", 100), ("web-2", 300)]


def test_a_pod_that_a_person_deletes_ends_though_another_would_go_first() -> None:
    """It is replaced: its ReplicaSet had not too many."""
    first, second = (pod(f"web-{n}", on=f"n{n}", created=START_S - 3600) for n in (1, 2))
    made = run(
        policy(TAINTS),
        picture(node("n1"), node("n2"), node("n3"), first, second),
        changed(100, TAINTED),
        changed(105, replace(second, deletion_s=START_S + 105)),
        changed(105, pod("web-3", on="n3", created=START_S + 105), Verb.ADDED),
        changed(110, second, Verb.DELETED),
        changed(300, node("n2", "gpu:NoSchedule")),
        NothingChanged(at(600)),
    )

    assert "web-2" not in dict(moved(made)[1:])


def test_a_replacement_takes_as_long_to_start_as_the_recorded_one_did() -> None:
    first, second = (pod(f"web-{n}", on="n1", created=START_S - 3600) for n in (1, 2))
    slow = pod("web-4", on="n3", created=START_S + 220)
    made = run(
        policy(TAINTS),
        picture(node("n1"), node("n2"), node("n3"), first, second),
        changed(100, TAINTED),
        evicted(200, first, pod("web-3", on="n2", created=START_S + 200)),
        (each for each in evicted(220, second, slow) if each.at.wall_s < START_S + 230),
        changed(260, slow),
        NothingChanged(at(600)),
    )

    assert {each.pod.name: round(each.ready_s or 0) for each in made.evictions} == {
        "web-1": 10,
        "web-2": 40,
    }


def test_an_evicted_pod_is_replaced_before_one_of_which_there_were_too_many() -> None:
    scaled_down, leaving = (pod(f"web-{n}", on="n1", created=START_S - 3600) for n in (1, 2))
    items = [
        *picture(node("n1"), node("n2"), scaled_down, leaving),
        changed(98, replace(scaled_down, deletion_s=START_S + 98)),
        *evicted(100, leaving, NEW),
    ]

    assert FactsReader().read(items).replaced_by == {leaving.uid: NEW.uid}


def test_a_replica_set_that_grows_later_replaces_none_of_the_pods_that_were_too_many() -> None:
    scaled_down = pod("web-1", on="n1", created=START_S - 3600)
    items = [
        *picture(node("n1"), node("n2"), scaled_down),
        changed(98, scaled_down, Verb.DELETED),
        changed(198, NEW, Verb.ADDED),
    ]

    assert FactsReader().read(items).replaced_by == {}


def test_a_pause_by_a_person_holds_for_every_policy() -> None:
    made = run(
        policy(TAINTS),
        picture(*CLUSTER),
        OrderGiven(at(50), "pause", "a person"),
        changed(100, TAINTED),
        OrderGiven(at(300), "resume", "a person"),
        NothingChanged(at(600)),
    )

    assert moved(made) == [("web", 300)]


@pytest.mark.parametrize(
    ("seconds", "evicted_s"),
    [
        pytest.param("None", 300, id="a pause without an end lasts until the order to resume"),
        pytest.param("150.0", 200, id="a pause for some time ends by itself"),
        pytest.param("soon", 100, id="an order that the recorded process refused holds nothing"),
    ],
)
def test_a_pause_lasts_as_long_as_its_order_says(seconds: str, evicted_s: int) -> None:
    made = run(
        policy(TAINTS),
        picture(*CLUSTER),
        OrderGiven(at(50), "pause", "a person", {"forSeconds": seconds}),
        changed(100, TAINTED),
        OrderGiven(at(300), "resume", "a person"),
        NothingChanged(at(600)),
    )

    assert moved(made) == [("web", evicted_s)]


def test_behind_a_gap_both_begin_anew_with_the_cluster_as_it_was_then() -> None:
    made = run(
        policy(TAINTS),
        picture(*CLUSTER),
        changed(100, TAINTED),
        RecordingInterrupted(at(200), "the disk was full"),
        picture(TAINTED, node("n2"), pod("web-b", on="n1", created=START_S + 250), seconds=300),
        NothingChanged(at(600)),
    )

    assert moved(made) == [("web", 100), ("web-b", 300)]


@pytest.mark.parametrize("is_in_picture", [True, False])
@pytest.mark.parametrize(("knows_nothing", "evicted_s"), [(False, [100, 100]), (True, [128, 158])])
def test_limits_begin_without_a_token_where_the_recorded_process_knew_of_no_evictions(
    *, is_in_picture: bool, knows_nothing: bool, evicted_s: list[int]
) -> None:
    settings = QUIET.replace("cluster: null", "cluster: {evictions: 2, per: 1m, burst: 2}", 1)
    pods = [pod(f"web-{n}", on="n1", created=START_S - 3600) for n in (1, 2)]
    first, *rest = picture(TAINTED, node("n2"), *pods, seconds=100)
    empty_from_s = at(98 if is_in_picture else 100).monotonic_s if knows_nothing else None
    began = ProcessBegan(at(100), empty_from_s=empty_from_s)

    made = run(
        policy(TAINTS, settings=settings),
        [first, began, *rest] if is_in_picture else [first, *rest, began],
        NothingChanged(at(600)),
    )

    late_s = 0 if is_in_picture or not knows_nothing else 2
    assert [second - late_s for _, second in moved(made)] == evicted_s


def restarted(one: Pod, restarts: int) -> Pod:
    containers = (container(restarts=restarts, waits="CrashLoopBackOff"),)
    return replace(one, status=replace(one.status, containers=containers))


def budget_of(labels: dict[str, str], allowed: int) -> PodDisruptionBudget:
    selector = LabelSelector(match_labels=labels)
    return PodDisruptionBudget("default", "web", selector=selector, disruptions_allowed=allowed)
