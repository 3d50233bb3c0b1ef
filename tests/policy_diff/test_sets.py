"""Sets of moves begin in the world of a policy: nodes get their taint, pods their nomination."""

from typing import Any, Final

import pytest
from msgspec.structs import replace

from reactive_desched.model.consolidation import EMPTY, EMPTYING, consolidation_of
from reactive_desched.model.node_marks import CONSOLIDATING
from reactive_desched.model.objects import Node, Pod, PodCondition, PodStatus
from reactive_desched.policy_diff.policy_run import PolicyRun
from reactive_desched.recording.items import Item, NothingChanged, TaintRefused, Verb
from reactive_desched.testing.builders import node, pod
from tests.policy_diff.test_world import START_S, TAINTS, at, changed, evicted, picture, policy, run

CONSOLIDATE: Final = "ConsolidateNodes"
KEEP_FREE: Final = "KeepNodesFree"
MAKE_ROOM: Final = "MakeRoomForPending"
NOWHERE: Final = PodStatus(
    "Pending", conditions=(PodCondition("PodScheduled", "False", "Unschedulable"),)
)


def machine(name: str, *taints: str) -> Node:
    return node(name, *taints, allocatable={"cpu": "4", "memory": "8Gi", "pods": "9"})


def web(name: str, on: str | None, cpu: str = "1", *, created: int = START_S - 3600) -> Pod:
    owner = f"ReplicaSet/{name.partition('-')[0]}"
    return pod(name, on=on, owner=owner, created=created, requests={"cpu": cpu, "memory": "1Gi"})


def own(made: PolicyRun, name: str) -> Any:
    assert made._driven is not None
    info = made._driven.controller.view.node_info(name)
    assert info is not None
    return info.node


def left(made: PolicyRun) -> list[tuple[str, str]]:
    return [(each.pod.line, each.pod.node) for each in made.evictions]


MACHINES: Final = machine("n1"), machine("n2")
LEAST_USED: Final = web("a", "n1")
PODS: Final = LEAST_USED, web("b", "n2"), web("c", "n2")


def test_a_node_is_emptied_and_keeps_the_taint() -> None:
    made = run(policy(CONSOLIDATE), picture(*MACHINES, *PODS), NothingChanged(at(600)))

    assert left(made) == [("a", "n1")]
    assert made.evictions[0].replacement_node == "n2"
    assert consolidation_of(own(made, "n1")) == EMPTY


CLOSED: Final = machine("n1", f"{CONSOLIDATING}={EMPTYING}:PreferNoSchedule")


def first_eviction_s(*items: Item) -> float:
    made = run(policy(CONSOLIDATE), picture(*MACHINES, *PODS), items, NothingChanged(at(600)))
    return made.evictions[0].time_s - START_S


def test_a_taint_is_there_when_the_recorded_controller_wrote_it_about_then() -> None:
    """What comes until then may change what is decided: it is the same as in the recording."""
    alone_s = first_eviction_s()
    third_s, fourth_s = (first_eviction_s(changed(each, CLOSED)) for each in (3, 4))

    assert third_s > alone_s + 1
    assert fourth_s - third_s == pytest.approx(1, abs=0.01)
    assert first_eviction_s(changed(9, CLOSED)) == alone_s


def test_a_taint_that_the_recorded_controller_was_refused_is_refused_here_too() -> None:
    alone_s = first_eviction_s()
    refused = TaintRefused(at(2), "n1", EMPTYING)

    assert first_eviction_s(refused) == pytest.approx(alone_s + 3, abs=1.5)
    assert first_eviction_s(replace(refused, value=EMPTY)) == alone_s
    assert first_eviction_s(replace(refused, node="n2")) == alone_s


def test_nodes_are_kept_free_and_opened_again_as_the_cluster_changes() -> None:
    """Nothing else is due here: a recorded change is reason enough to look at the nodes."""
    alone = web("d", "n3")
    made = run(
        policy(KEEP_FREE),
        picture(*MACHINES, machine("n3"), *PODS, alone),
        changed(2, alone, Verb.DELETED),
        NothingChanged(at(4)),
    )

    assert consolidation_of(own(made, "n3")) == EMPTY

    closed = [machine(n, f"{CONSOLIDATING}={EMPTY}:PreferNoSchedule") for n in ("n1", "n2")]
    made = run(policy(KEEP_FREE), picture(*closed, machine("n3"), alone), NothingChanged(at(4)))

    assert [consolidation_of(own(made, each.name)) for each in closed] == [EMPTY, None]


def test_a_recorded_change_of_the_node_leaves_it_the_taint_of_this_world() -> None:
    relabelled = replace(MACHINES[0], labels={**MACHINES[0].labels, "a": "b"})

    made = run(
        policy(CONSOLIDATE),
        picture(*MACHINES, *PODS),
        changed(300, relabelled),
        NothingChanged(at(600)),
    )

    assert consolidation_of(own(made, "n1")) == EMPTY
    assert own(made, "n1").labels == relabelled.labels


def test_a_taint_with_its_time_keeps_that_beside_the_taint_of_this_world() -> None:
    timed = replace(machine("n1", "broken:NoExecute"), taints_added_s=(START_S + 299,))

    made = run(
        policy(CONSOLIDATE),
        picture(*MACHINES, *PODS),
        changed(300, timed),
        changed(400, replace(timed, labels={**timed.labels, "a": "b"})),
        NothingChanged(at(600)),
    )

    kept = own(made, "n1")
    assert consolidation_of(kept) == EMPTY
    assert dict(zip(kept.taints, kept.taints_added_s, strict=True)) == {
        timed.taints[0]: START_S + 299,
        kept.taints[1]: None,
    }


def test_a_taint_of_the_recorded_controller_is_taken_off_where_this_policy_empties_no_nodes() -> (
    None
):
    begun = machine("n1", f"{CONSOLIDATING}={EMPTYING}:PreferNoSchedule")

    made = run(
        policy(TAINTS),
        picture(begun, MACHINES[1], *PODS),
        changed(100, replace(begun, taints=(*begun.taints, *node("x", "gpu:NoSchedule").taints))),
        NothingChanged(at(600)),
    )

    assert [taint.key for taint in own(made, "n1").taints] == ["gpu"]
    assert left(made) == [("a", "n1")]


def test_the_set_that_the_recorded_controller_began_is_made_once() -> None:
    emptying = machine("n1", f"{CONSOLIDATING}={EMPTYING}:PreferNoSchedule")
    replacement = web("a-new", "n2", created=START_S + 31)

    made = run(
        policy(CONSOLIDATE),
        picture(*MACHINES, *PODS),
        changed(30, emptying),
        evicted(31, LEAST_USED, replacement),
        NothingChanged(at(600)),
    )

    assert left(made) == [("a", "n1")]


def test_a_set_that_nothing_finds_any_more_is_given_up_after_a_minute() -> None:
    """A pod comes to the other node before the first may leave: now nothing fits there."""
    waits = "guards: {disabled: [SingleReplicas, UnreadyWorkloads, Rollouts], minPodAge: 0s}"
    made = run(
        policy(
            CONSOLIDATE,
            settings=f"---\napiVersion: reactive-desched/v1alpha1\n"
            f"kind: ReactiveSettings\n{waits}\nbudgets: {{warmUp: null}}\n",
        ),
        picture(*MACHINES, *PODS),
        NothingChanged(at(5)),
        changed(5, web("d", "n2", "2"), Verb.ADDED),
        NothingChanged(at(600)),
    )

    assert consolidation_of(own(made, "n1")) is None


WAITING: Final = replace(web("big", None, "3"), status=NOWHERE, condition_transitions=(0,))
HALVES: Final = [web(f"{n}{i}", n) for n in ("n1", "n2") for i in "ab"]


def test_a_pod_is_bound_for_which_this_policy_makes_room() -> None:
    made = run(policy(MAKE_ROOM), picture(*MACHINES, *HALVES, WAITING), NothingChanged(at(900)))

    assert len(made.evictions) == 1
    bound = own_pod(made, WAITING)
    assert bound.node == made.evictions[0].pod.node
    assert bound.status.is_ready


def test_the_pod_stays_bound_and_ready_while_the_recorded_one_waits_on() -> None:
    longer = replace(WAITING, labels={"a": "b"})
    starts = replace(longer, node="n2", status=PodStatus("Pending"))

    made = run(
        policy(MAKE_ROOM),
        picture(*MACHINES, *HALVES, WAITING),
        changed(800, longer),
        changed(850, starts),
        NothingChanged(at(900)),
    )

    assert own_pod(made, WAITING).node == made.evictions[0].pod.node
    assert own_pod(made, WAITING).labels == {"a": "b"}
    assert own_pod(made, WAITING).status.is_ready


def test_the_pod_keeps_its_nomination_while_the_recorded_one_changes() -> None:
    cluster = list(picture(*MACHINES, *HALVES, WAITING))
    [eviction] = run(policy(MAKE_ROOM), cluster, NothingChanged(at(900))).evictions
    leaves = eviction.time_s - START_S

    made = run(
        policy(MAKE_ROOM),
        cluster,
        changed(leaves + 0.1, replace(WAITING, labels={"a": "b"})),
        NothingChanged(at(leaves + 0.2)),
    )

    assert own_pod(made, WAITING).labels == {"a": "b"}
    assert own_pod(made, WAITING).status.nominated_node == eviction.pod.node


@pytest.mark.parametrize("is_recorded", [True, False])
def test_room_that_was_made_in_the_recording_is_made_once(*, is_recorded: bool) -> None:
    """Where the recorded controller made it, the pod is bound there as recorded, else here."""
    victim = HALVES[0]
    nominated = replace(WAITING, status=replace(NOWHERE, nominated_node="n1"))
    bound = replace(WAITING, node="n1", status=web("x", "n1").status)
    then = (
        changed(301, nominated),
        *evicted(302, victim, web("n1a-new", "n2", created=START_S + 302)),
        changed(308, bound),
    )

    made = run(
        policy(MAKE_ROOM),
        picture(*MACHINES, *HALVES, WAITING),
        then if is_recorded else (),
        NothingChanged(at(900)),
    )

    assert len(made.evictions) == 1


def own_pod(made: PolicyRun, recorded: Pod) -> Pod:
    assert made._driven is not None
    found = made._driven.controller.view.pod(recorded.uid)
    assert found is not None
    return found


def created(seconds: int, new: Pod) -> tuple[Any, ...]:
    """Return what a recording has of a new pod: it is Ready ten seconds after it is bound."""
    pending = replace(new, status=PodStatus("Pending"), created_s=START_S + seconds)
    return (
        changed(seconds, replace(pending, node=""), Verb.ADDED),
        changed(seconds, pending),
        changed(seconds + 10, replace(new, created_s=START_S + seconds)),
    )


def node_of(made: PolicyRun, name: str) -> str:
    assert made._driven is not None
    return next(each.node for each in made._driven.controller.state.store(Pod) if each.name == name)


def test_a_new_pod_is_not_bound_to_the_recorded_node_that_is_empty_in_this_world() -> None:
    """A rollout of the recorded world is no reason to empty the node again."""
    made = run(
        policy(CONSOLIDATE),
        picture(*MACHINES, *PODS),
        created(300, web("d", "n1")),
        NothingChanged(at(1200)),
    )

    assert left(made) == [("a", "n1")]
    assert node_of(made, "d") == "n2"
    assert consolidation_of(own(made, "n1")) == EMPTY


def test_a_new_pod_is_bound_to_the_recorded_node_where_it_fits_on_no_other() -> None:
    made = run(
        policy(CONSOLIDATE),
        picture(*MACHINES, *PODS),
        created(300, web("d", "n1", cpu="2")),
        NothingChanged(at(400)),
    )

    assert node_of(made, "d") == "n1"


def test_a_pod_that_was_never_without_a_node_is_on_the_recorded_one() -> None:
    """No scheduler chose it: a static pod, or one whose maker named the node."""
    made = run(
        policy(CONSOLIDATE),
        picture(*MACHINES, *PODS),
        changed(300, web("d", "n1", created=START_S + 300), Verb.ADDED),
        NothingChanged(at(301)),
    )

    assert node_of(made, "d") == "n1"


@pytest.mark.parametrize(
    ("closed_s", "lands_on"), [(100, "n1"), (None, "n2")], ids=["closed there", "open in both"]
)
def test_a_new_pod_may_go_to_a_node_that_was_closed_in_the_recording_alone(
    closed_s: int | None, lands_on: str
) -> None:
    """Where the recorded scheduler had the same nodes, its choice is known: also a worse one."""
    made = run(
        policy(TAINTS),
        picture(*MACHINES, *PODS[1:]),
        [] if closed_s is None else changed(closed_s, CLOSED),
        created(300, web("d", "n2")),
        NothingChanged(at(400)),
    )

    assert node_of(made, "d") == lands_on
