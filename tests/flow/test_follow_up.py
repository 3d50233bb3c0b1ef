"""What became of an evicted pod's place: its replacement is followed until it is Ready."""

from typing import Any

import anyio
import pytest
import trio.testing
from msgspec.structs import replace

from reactive_desched.controller.readiness import sync_pause
from reactive_desched.model.changes import NamespaceChanged
from reactive_desched.model.history import PastEviction
from reactive_desched.model.moves import MoveEnd
from reactive_desched.model.objects import (
    Deployment,
    OwnerReference,
    Pod,
    PodStatus,
    ReplicaSet,
    StatefulSet,
)
from reactive_desched.model.outcomes import (
    FAILED,
    UNKNOWN,
    Denied,
    DryRun,
    EffectUnknown,
    Outcome,
)
from reactive_desched.moves.tracker import CREATION_TIMEOUT_S
from reactive_desched.plugins.failed_pods import FailedPodsArgs, FailedPodsPlugin
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.settings.moves import MaxMovingSettings, MoveSettings
from reactive_desched.testing.builders import node, pod
from reactive_desched.text.ages import format_age
from tests.support.configurations import UNLIMITED_MOVES
from tests.support.flow import FakeEdgesController
from tests.support.golden import Golden

pytestmark = pytest.mark.anyio

STARTING = PodStatus("Pending")
TAINTED = node("n1", "gpu:NoSchedule")
NODES = (TAINTED, node("n2"), node("n3"))


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def flow_of(moves: MoveSettings = UNLIMITED_MOVES, **settings: Any) -> FakeEdgesController:
    return FakeEdgesController(NodeTaintsPlugin(NodeTaintsArgs()), moves=moves, **settings)


def limits(**by_scope: Any) -> MoveSettings:
    """Limit what is named, and nothing else."""
    none: dict[str, Any] = dict.fromkeys(("owner", "namespace", "node", "zone", "cluster"))
    return MoveSettings(
        max_moving=MaxMovingSettings(**{**none, **by_scope}),
        cooldown_s=0,
        node_cooldown_s=0,
        futile_backoff_s=0,
    )


async def evicted(flow: FakeEdgesController, *pods: Pod, nodes: tuple[Any, ...] = NODES) -> None:
    """Begin with these pods, and let those on the tainted node be evicted and go."""
    flow.sync_and_resume(*nodes, *pods)
    await anyio.sleep(1)
    flow.delete(*[each for each in pods if each.name in flow.evicted_names])


async def ready_on(flow: FakeEdgesController, name: str, node_name: str, **more: Any) -> None:
    """Create a pod that is bound after a second, and Ready five seconds later."""
    made = pod(name, status=STARTING, created=int(anyio.current_time()), **more)
    flow.deliver(made)
    await anyio.sleep(1)
    bound = replace(made, node=node_name)
    flow.deliver(bound)
    await anyio.sleep(5)
    flow.deliver(replace(bound, status=pod("any").status))
    await anyio.sleep(2)


async def test_a_replacement_on_another_node_has_moved_and_is_timed() -> None:
    async with flow_of().running() as flow:
        await evicted(flow, pod("web-1", on="n1"))
        await ready_on(flow, "web-2", "n2")

    assert flow.intent_store.lines[1:] == [
        ("outcome", "web-1", "evicted"),
        ("follow-up", "web-1", "moved"),
    ]
    assert flow.intent_store.follow_ups == [
        MoveEnd(
            "moved",
            finding_holds=False,
            scheduled_s=2,
            ready_s=7,
            replacement="web-2",
            replacement_uid="web-2",
            node="n2",
        )
    ]


async def test_moves_end_while_a_person_holds_evictions() -> None:
    async with flow_of().running() as flow:
        await evicted(flow, pod("web-1", on="n1"))
        flow.controller.pauses.pause("a person", "", None)
        flow.deliver(pod("web-2", status=STARTING, created=1), pod("web-2", on="n2", created=1))
        await anyio.sleep(5)
        assert [end.result for end in flow.intent_store.follow_ups] == ["moved"]


async def test_a_change_that_concerns_nothing_wakes_nothing_also_in_a_pause() -> None:
    async with flow_of().running() as flow:
        await evicted(flow, pod("web-1", on="n1"))
        assert flow.controller.apply([NamespaceChanged("default")]) is False
        flow.controller.pauses.pause("a person", "", None)
        assert flow.controller.apply([NamespaceChanged("default")]) is False


async def test_no_move_ends_while_a_watch_is_lost() -> None:
    async with flow_of().running() as flow:
        await evicted(flow, pod("web-1", on="n1"))
        flow.controller.pauses.pause("a person", "", None)
        flow.controller.readiness.pause(sync_pause("pods"), "the watch is lost")
        await anyio.sleep(CREATION_TIMEOUT_S + 5)
        assert flow.intent_store.follow_ups == []
        flow.controller.readiness.resume(sync_pause("pods"))
        await ready_on(flow, "web-2", "n2")
        assert [end.result for end in flow.intent_store.follow_ups] == ["moved"]


async def test_a_replacement_on_the_same_node_has_returned_and_the_finding_holds_for_it() -> None:
    async with flow_of().running() as flow:
        await evicted(flow, pod("web-1", on="n1"))
        await ready_on(flow, "web-2", "n1")

    assert [(end.result, end.finding_holds) for end in flow.intent_store.follow_ups] == [
        ("returned", True)
    ]


async def test_the_finding_may_hold_on_another_node() -> None:
    nodes = (TAINTED, node("n2", "gpu:NoSchedule"), node("n3"))
    async with flow_of().running() as flow:
        await evicted(flow, pod("web-1", on="n1"), nodes=nodes)
        await ready_on(flow, "web-2", "n2")

    assert [(end.result, end.finding_holds) for end in flow.intent_store.follow_ups] == [
        ("moved", True)
    ]


async def test_a_replacement_that_no_node_takes_has_a_result_of_its_own() -> None:
    async with flow_of().running() as flow:
        await evicted(flow, pod("web-1", on="n1"))
        flow.deliver(pod("web-2", status=STARTING))
        await anyio.sleep(598)
        assert flow.intent_store.follow_ups == []

        await anyio.sleep(3)

    [end] = flow.intent_store.follow_ups
    assert (end.result, end.replacement, end.node) == ("unscheduled", "web-2", "")


async def test_a_replacement_that_does_not_become_ready_has_a_result_of_its_own() -> None:
    impatient = UNLIMITED_MOVES.model_copy(update={"ready_timeout_s": 60.0})
    async with flow_of(impatient).running() as flow:
        await evicted(flow, pod("web-1", on="n1"))
        flow.deliver(pod("web-2", on="n2", status=STARTING))
        await anyio.sleep(61)

    [end] = flow.intent_store.follow_ups
    assert (end.result, end.scheduled_s, end.ready_s) == ("not_ready", 1, None)


@pytest.mark.parametrize(
    ("owner", "result"),
    [
        pytest.param("CloneSet/web", "not_replaced", id="of a kind that is not watched"),
        pytest.param("ReplicaSet/web", "owner_gone", id="a deleted one"),
    ],
)
async def test_an_owner_that_creates_no_other_pod_has_a_result_of_its_own(
    owner: str, result: str
) -> None:
    async with flow_of().running() as flow:
        await evicted(flow, pod("web-1", on="n1", owner=owner))
        await anyio.sleep(CREATION_TIMEOUT_S - 1)
        assert flow.intent_store.follow_ups == []

        await anyio.sleep(2)

    assert [end.result for end in flow.intent_store.follow_ups] == [result]


@pytest.mark.parametrize(("wanted", "result"), [(2, "not_replaced"), (3, "moved")])
async def test_an_owner_with_fewer_pods_than_it_wants_is_waited_for(
    wanted: int, result: str
) -> None:
    db: dict[str, Any] = {"owner": "StatefulSet/db"}
    others = [pod(f"db-{i}", on="n2", **db) for i in range(2)]
    rolling = StatefulSet("default", "db", "owner-db", replicas=wanted, rollout="0 of 3 updated")
    nodes = (*NODES, rolling)
    async with flow_of().running() as flow:
        await evicted(flow, pod("db-2", on="n1", **db), *others, nodes=nodes)
        await anyio.sleep(CREATION_TIMEOUT_S + 1)
        await ready_on(flow, "db-2", "n2", uid="second", **db)

    assert [end.result for end in flow.intent_store.follow_ups] == [result]


DEPLOYED = (
    ReplicaSet("owner-web", 0, OwnerReference("Deployment", "web", "d-web", controller=True)),
    Deployment("default", "web", "d-web", replicas=1),
)


async def test_a_deployment_that_has_as_many_pods_as_it_wants_is_not_waited_for_long(
    golden: Golden,
) -> None:
    async with flow_of().running() as flow:
        other = pod("web-2", on="n2")
        await evicted(flow, pod("web-1", on="n1"), other, nodes=(*NODES, *DEPLOYED))
        await anyio.sleep(CREATION_TIMEOUT_S - 1)
        assert flow.intent_store.follow_ups == []

        await anyio.sleep(2)

    [end] = flow.intent_store.follow_ups
    assert (end.result, end.message) == (
        "not_replaced",
        golden(),
    )


async def test_a_pod_that_had_ended_is_followed_until_it_is_gone(golden: Golden) -> None:
    failed = PodStatus("Failed", "Evicted")
    plugin = FailedPodsPlugin(FailedPodsArgs(min_pod_lifetime_seconds=0))
    async with FakeEdgesController(plugin, moves=limits(owner=1)).running() as flow:
        ended = [pod(f"web-{i}", on="n2", status=failed) for i in range(2)]
        flow.sync_and_resume(*NODES, *DEPLOYED, *ended, pod("web-9", on="n3"))
        await anyio.sleep(5)
        assert set(flow.evicted_names) == {"web-0", "web-1"}, "none holds the other up"
        flow.delete(ended[0])
        await anyio.sleep(5)

    assert [(end.result, end.message) for end in flow.intent_store.follow_ups] == [
        ("not_replaced", golden())
    ]
    assert [end.is_expected for end in flow.intent_store.follow_ups] == [True]


async def test_an_outcome_is_reported_before_what_followed_from_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plugin = FailedPodsPlugin(FailedPodsArgs(min_pod_lifetime_seconds=0))
    failed = pod("web-0", on="n2", status=PodStatus("Failed", "Evicted"))
    async with FakeEdgesController(plugin, moves=limits(owner=1)).running() as flow:
        order: list[str] = []
        on_outcome, observer = flow.observer.on_outcome, flow.observer

        def outcome(*about: Any) -> None:
            order.append("outcome")
            on_outcome(*about)

        monkeypatch.setattr(observer, "on_outcome", outcome)
        monkeypatch.setattr(observer, "on_move_ended", lambda _: order.append("follow-up"))
        flow.evictor.slow_s = 1.0
        flow.sync_and_resume(*NODES, *DEPLOYED, failed, pod("web-9", on="n3"))
        await anyio.sleep(0.5)
        flow.delete(failed)  # it is gone before the answer comes
        await anyio.sleep(5)

    assert order == ["outcome", "follow-up"]


async def test_a_pod_that_stays_after_its_eviction_is_evicted_again_and_each_one_has_an_end() -> (
    None
):
    async with flow_of().running() as flow:
        stays = pod("web-1", on="n1")
        flow.sync_and_resume(*NODES, stays)
        await anyio.sleep(90)
        flow.deliver(node("n1", "tpu:NoSchedule"))
        await anyio.sleep(5)
        assert flow.evicted_names == ["web-1", "web-1"]
        flow.delete(stays)
        await ready_on(flow, "web-2", "n2")

    assert [end.result for end in flow.intent_store.follow_ups] == ["not_followed", "moved"]


async def test_a_pod_that_is_long_terminating_is_waited_for() -> None:
    leaving = pod("web-1", on="n1")
    async with flow_of().running() as flow:
        flow.sync_and_resume(*NODES, leaving)
        await anyio.sleep(1)
        flow.terminate(leaving)
        await anyio.sleep(2 * CREATION_TIMEOUT_S)
        assert flow.intent_store.follow_ups == []
        flow.delete(leaving)
        await ready_on(flow, "web-2", "n2")

    assert [end.result for end in flow.intent_store.follow_ups] == ["moved"]


async def test_when_a_replacement_is_lost_the_next_one_counts() -> None:
    async with flow_of().running() as flow:
        await evicted(flow, pod("web-1", on="n1"))
        flow.deliver(pod("web-2", on="n3", status=STARTING))
        flow.delete(pod("web-2", on="n3", status=STARTING))
        await ready_on(flow, "web-3", "n2")

    assert [(end.result, end.replacement) for end in flow.intent_store.follow_ups] == [
        ("moved", "web-3")
    ]


async def test_a_pod_of_another_namespace_that_names_the_owner_replaces_none() -> None:
    async with flow_of().running() as flow:
        await evicted(flow, pod("web-1", on="n1"))
        await ready_on(flow, "stranger", "n3", namespace="tenant")
        await ready_on(flow, "web-2", "n2")

    assert [(end.result, end.replacement) for end in flow.intent_store.follow_ups] == [
        ("moved", "web-2")
    ]


async def test_replacements_come_in_order_and_older_siblings_are_none() -> None:
    async with flow_of().running() as flow:
        await anyio.sleep(100)
        waiting = pod("older", status=STARTING, created=20)
        flow.sync_and_resume(*NODES, waiting, pod("web-1", on="n1"), pod("web-2", on="n1"))
        await anyio.sleep(1)
        flow.deliver(replace(waiting, node="n2", status=pod("any").status))
        await ready_on(flow, "web-3", "n2")
        await ready_on(flow, "web-4", "n3")

    assert [
        (name, end.replacement)
        for (_, name, _), end in zip(
            [line for line in flow.intent_store.lines if line[0] == "follow-up"],
            flow.intent_store.follow_ups,
            strict=True,
        )
    ] == [("web-1", "web-3"), ("web-2", "web-4")]


async def test_during_a_rollout_a_new_pod_replaces_one_of_its_own_replica_set() -> None:
    deployment = OwnerReference("Deployment", "web", "d-web", controller=True)
    sets = [ReplicaSet(f"owner-{name}", 0, deployment) for name in ("old", "new")]
    objects = (*NODES, *sets, Deployment("default", "web", "d-web", replicas=1))
    pods = [pod(f"{name}-1", on="n1", owner=f"ReplicaSet/{name}") for name in ("old", "new")]
    async with flow_of().running() as flow:
        await evicted(flow, *pods, nodes=objects)
        await ready_on(flow, "new-2", "n2", owner="ReplicaSet/new")

    assert sorted(flow.evicted_names) == ["new-1", "old-1"]
    assert [line[1:] for line in flow.intent_store.lines if line[0] == "follow-up"] == [
        ("new-1", "moved")
    ]


async def test_a_pod_that_was_created_before_the_eviction_happened_is_no_replacement() -> None:
    leaving = pod("web-1", on="n1")
    async with flow_of().running() as flow:
        flow.evictor.slow_s = 20
        flow.sync_and_resume(*NODES, leaving)
        await ready_on(flow, "scaled-up", "n2")
        flow.terminate(leaving)
        flow.delete(leaving)
        await ready_on(flow, "web-2", "n2")
        await anyio.sleep(20)

    assert [end.replacement for end in flow.intent_store.follow_ups] == ["web-2"]


async def test_a_pod_that_comes_before_the_evicted_one_is_seen_to_leave_may_be_older() -> None:
    leaving = pod("web-1", on="n1")
    async with flow_of().running() as flow:
        await anyio.sleep(30)
        flow.sync_and_resume(*NODES, leaving)
        await anyio.sleep(1)
        assert flow.evicted_names == ["web-1"]
        flow.deliver(pod("older", status=STARTING, created=20))  # by a watch that lags behind
        flow.delete(leaving)
        flow.deliver(pod("older", on="n2", created=20))
        await ready_on(flow, "web-2", "n2")

    assert [end.replacement for end in flow.intent_store.follow_ups] == ["web-2"]


async def test_a_new_list_may_have_the_replacement_before_it_lacks_the_pod() -> None:
    async with flow_of().running() as flow:
        flow.evictor.slow_s = 20
        flow.sync_and_resume(*NODES, pod("web-1", on="n1"))
        await anyio.sleep(1)
        flow.deliver_list(*NODES, pod("web-2", on="n2", created=1))
        await anyio.sleep(30)

    assert [end.replacement for end in flow.intent_store.follow_ups] == ["web-2"]


async def test_a_pod_that_came_before_the_eviction_and_is_bound_later_is_no_replacement() -> None:
    leaving, scaled_up = pod("web-1", on="n1"), pod("scaled-up", status=STARTING, created=5)
    async with flow_of().running() as flow:
        flow.evictor.slow_s = 20
        flow.sync_and_resume(*NODES, leaving)
        await anyio.sleep(5)
        flow.deliver(scaled_up)
        await anyio.sleep(5)
        flow.terminate(leaving)
        flow.delete(leaving)
        flow.deliver(pod("scaled-up", on="n2", created=5))
        await ready_on(flow, "web-2", "n2")
        await anyio.sleep(20)

    assert [end.replacement for end in flow.intent_store.follow_ups] == ["web-2"]


async def test_a_replacement_in_a_stateful_set_has_the_same_name() -> None:
    db: dict[str, Any] = {"owner": "StatefulSet/db"}
    async with flow_of().running() as flow:
        await evicted(flow, pod("db-1", on="n1", uid="first", **db))
        await ready_on(flow, "db-2", "n2", **db)
        assert flow.intent_store.follow_ups == []
        await ready_on(flow, "db-1", "n2", uid="second", **db)

    assert [end.replacement_uid for end in flow.intent_store.follow_ups] == ["second"]


@pytest.mark.parametrize("answer", [Denied(403, "no"), DryRun()], ids=["refused", "dry run"])
async def test_a_pod_that_was_not_evicted_is_not_followed(answer: Any) -> None:
    async with flow_of(limits(owner=1)).running() as flow:
        flow.evictor.script["web-1"] = [answer]
        await evicted(flow, pod("web-1", on="n1"))
        await anyio.sleep(2000)

    assert flow.intent_store.follow_ups == []


async def test_a_pod_that_is_gone_after_a_lost_response_is_followed() -> None:
    async with flow_of().running() as flow:
        flow.evictor.script["web-1"] = [EffectUnknown("timeout")]
        await evicted(flow, pod("web-1", on="n1"))
        await ready_on(flow, "web-2", "n2")

    assert flow.intent_store.lines[1:] == [
        ("outcome", "web-1", "unknown"),
        ("follow-up", "web-1", "moved"),
    ]


# --- moving: so many at once ---


async def test_one_pod_of_an_owner_moves_after_the_other_was_replaced(golden: Golden) -> None:
    async with flow_of(limits(owner=1)).running() as flow:
        await evicted(flow, pod("web-1", on="n1"), pod("web-2", on="n1"))
        await anyio.sleep(30)
        assert flow.evicted_names == ["web-1"]
        reason = flow.observer.evaluations[-1].decision

        await ready_on(flow, "web-3", "n2")
        assert flow.evicted_names == ["web-1", "web-2"]

    assert golden() in (
        reason.message  # type: ignore[union-attr]  # a Refuse
    )


async def test_pods_of_another_namespace_that_name_an_owner_do_not_count_for_its_own() -> None:
    async with flow_of(limits(owner=1)).running() as flow:
        claimed = pod("web-1", on="n1", namespace="tenant", owner="Rollout/web")
        await evicted(flow, claimed)
        flow.deliver(pod("web-2", on="n1", owner="Rollout/web"))
        await anyio.sleep(5)

    assert flow.evicted_names == ["web-1", "web-2"]


@pytest.mark.parametrize(
    ("gone", "seconds"),
    [
        pytest.param(False, 570, id="ten minutes after the first eviction"),
        pytest.param(True, 60, id="a minute after an evicted pod that nobody replaces was gone"),
    ],
)
async def test_a_full_scope_says_when_it_has_room_at_the_latest_and_that_is_a_timer(
    seconds: float, golden: Golden, *, gone: bool
) -> None:
    first, *others = (pod(f"p{i}", on="n1", owner=f"ReplicaSet/r{i}") for i in range(4))
    async with flow_of(limits(node=2)).running() as flow:
        flow.sync_and_resume(*NODES, first)
        await anyio.sleep(20)
        flow.deliver(others[0])
        await anyio.sleep(10)
        if gone:
            flow.delete(others[0])
        flow.deliver(*others[1:])
        await anyio.sleep(0.01)
        waits = list(flow.controller.evaluator.queue.pending())
        assert {wait.decision.finding.pod.name for wait in waits} == {"p2", "p3"}
        for wait in waits:
            assert wait.until == pytest.approx(wait.since + seconds)
            assert golden(left=format_age(seconds)) in wait.decision.says(wait.since)

        flow.controller.gates.room_for_moves = list  # type: ignore[method-assign]  # no wakes
        await anyio.sleep(seconds + 1)
        assert flow.evicted_names == ["p0", "p1", "p2"]


async def test_the_next_pod_moves_as_soon_as_the_replacement_is_ready_and_judged() -> None:
    async with flow_of(limits(node=1)).running() as flow:
        await evicted(flow, pod("web-1", on="n1"), pod("db-1", on="n1", owner="ReplicaSet/db"))
        await ready_on(flow, "web-2", "n2")

    [(_, first), (_, second)] = flow.evictor.calls
    assert (first, second) == (0, 7)


@pytest.mark.parametrize("scope", ["namespace", "node", "zone", "cluster"])
async def test_every_scope_has_its_limit(scope: str) -> None:
    nodes = (node("n1", "gpu:NoSchedule", zone="north"), *NODES[1:])
    pods = [pod(f"p{i}", on="n1", owner=f"ReplicaSet/r{i}") for i in range(4)]
    async with flow_of(limits(**{scope: 2})).running() as flow:
        await evicted(flow, *pods, nodes=nodes)
        assert sorted(flow.evicted_names) == ["p0", "p1"]

        await anyio.sleep(CREATION_TIMEOUT_S + 1)
        assert sorted(flow.evicted_names) == ["p0", "p1", "p2", "p3"]


async def test_a_share_of_an_owners_pods_may_move() -> None:
    pods = [pod(f"web-{i}", on="n1" if i < 5 else "n2") for i in range(20)]
    async with flow_of(limits(owner="10%")).running() as flow:
        await evicted(flow, *pods)

    assert sorted(flow.evicted_names) == ["web-0", "web-1"]


async def test_a_share_is_of_the_pods_that_the_owner_wants() -> None:
    here = [pod(f"web-{i}", on="n1", owner="StatefulSet/web") for i in range(19)]
    leaving = [replace(pod(f"old-{i}", on="n2"), deletion_s=1) for i in range(10)]
    wants_19 = StatefulSet("default", "web", "owner-web", replicas=19)
    async with flow_of(limits(owner="10%")).running() as flow:
        await evicted(flow, *here, *leaving, nodes=(*NODES, wants_19))

    assert len(flow.evicted_names) == 1


async def test_an_eviction_that_failed_makes_room_at_once() -> None:
    async with flow_of(limits(owner=1)).running() as flow:
        flow.evictor.script["web-1"] = [Denied(403, "no")]
        flow.sync_and_resume(*NODES, pod("web-1", on="n1"), pod("web-2", on="n1"))
        await anyio.sleep(1)

    assert flow.evicted_names == ["web-1", "web-2"]


# --- a restart ---


def past(name: str, **more: Any) -> PastEviction:
    """An eviction at the time 5, of a pod of the ReplicaSet web."""
    return PastEviction(
        f"request-{name}",
        5,
        name,
        "default",
        name,
        "n1",
        **{
            "owner_uid": "owner-web",
            "owner_kind": "ReplicaSet",
            "owner_name": "web",
            "replacing_uid": "owner-web",
            "replacing_kind": "ReplicaSet",
            "plugin": NodeTaintsPlugin.name,
            "ended_s": 5,
            "result": "evicted",
            **more,
        },
    )


async def test_after_a_restart_moves_are_followed_on_and_count() -> None:
    async with flow_of(limits(owner=1)).running() as flow:
        await anyio.sleep(10)
        flow.controller.restore([past("web-0")])
        flow.intent_store.adopt("request-web-0", "web-0")
        flow.sync_and_resume(
            *NODES, pod("web-1", on="n1"), pod("web-2", status=STARTING, created=6)
        )
        await anyio.sleep(10)
        assert flow.evicted_names == []

        flow.deliver(pod("web-2", on="n2", created=6))
        await anyio.sleep(2)
        assert flow.evicted_names == ["web-1"]

    assert flow.intent_store.lines[0] == ("follow-up", "web-0", "moved")


async def test_after_a_restart_the_newest_pods_are_the_replacements() -> None:
    async with flow_of(limits(owner=2)).running() as flow:
        await anyio.sleep(30)
        flow.controller.restore([past("web-0", ended_s=20), past("web-1", ended_s=20)])
        for name in ("web-0", "web-1"):
            flow.intent_store.adopt(f"request-{name}", name)
        scaled_up = pod("scaled-up", on="n2", created=8)
        new = [pod(f"new-{i}", status=STARTING, created=20 + i) for i in range(2)]
        flow.sync_and_resume(*NODES, pod("web-2", on="n1"), scaled_up, *new)
        await anyio.sleep(10)
        assert flow.evicted_names == []

        flow.deliver(pod("new-1", on="n2", created=21))
        await anyio.sleep(2)
        assert flow.evicted_names == ["web-2"]

    assert flow.intent_store.lines[0] == ("follow-up", "web-1", "moved")


async def test_after_a_restart_a_pod_made_before_the_eviction_was_answered_replaces_none() -> None:
    async with flow_of(limits(owner=1)).running() as flow:
        await anyio.sleep(30)
        flow.controller.restore([past("web-0", ended_s=25, accepted_s=25)])  # held for 20 s
        flow.intent_store.adopt("request-web-0", "web-0")
        flow.sync_and_resume(*NODES, pod("web-1", on="n1"), pod("surge", on="n2", created=15))
        await anyio.sleep(10)
        assert flow.evicted_names == []

        flow.deliver(pod("web-2", on="n2", created=25))
        await anyio.sleep(2)
        assert flow.evicted_names == ["web-1"]


async def test_after_a_restart_a_pod_that_comes_late_may_be_older_than_the_eviction() -> None:
    async with flow_of(limits(owner=1)).running() as flow:
        await anyio.sleep(30)
        flow.controller.restore([past("web-0", ended_s=20)])
        flow.intent_store.adopt("request-web-0", "web-0")
        flow.sync_and_resume(*NODES, pod("web-1", on="n1"))
        flow.deliver(pod("older", status=STARTING, created=1))  # by a watch that lags behind
        flow.deliver(pod("older", on="n2", created=1))
        await anyio.sleep(10)
        assert flow.evicted_names == []

        flow.deliver(pod("web-2", on="n2", created=20))
        await anyio.sleep(2)
        assert flow.evicted_names == ["web-1"]


async def test_a_move_that_ended_while_nothing_ran_is_inferred_from_what_is_there() -> None:
    async with flow_of().running() as flow:
        await anyio.sleep(5000)
        flow.controller.restore([past("web-0"), past("web-1")])
        for name in ("web-0", "web-1"):
            flow.intent_store.adopt(f"request-{name}", name)
        flow.sync_and_resume(*NODES, pod("web-2", on="n2", created=6))
        await anyio.sleep(2)

    assert flow.intent_store.lines == [
        ("follow-up", "web-0", "owner_gone"),
        ("follow-up", "web-1", "moved"),
    ]


@pytest.mark.parametrize("created", [40, 0], ids=["clocks agree", "the server's is behind"])
async def test_after_a_restart_a_request_without_an_outcome_counts_and_is_followed(
    created: int,
) -> None:
    web_0 = pod("web-0", on="n3")
    async with flow_of(limits(owner=1)).running() as flow:
        await anyio.sleep(10)
        flow.controller.restore([past("web-0", ended_s=None, result="")])
        flow.intent_store.adopt("request-web-0", "web-0")
        flow.sync_and_resume(*NODES, web_0, pod("web-1", on="n1"))
        await anyio.sleep(30)
        flow.delete(web_0)
        flow.deliver(pod("web-2", status=STARTING, created=created))
        await anyio.sleep(10)
        flow.controller.end_inherited_eviction("web-0", Outcome(UNKNOWN))
        await anyio.sleep(CREATION_TIMEOUT_S + 1)
        assert flow.evicted_names == []

        flow.deliver(pod("web-2", on="n2", created=created))
        await anyio.sleep(2)
        assert flow.evicted_names == ["web-1"]

    assert flow.intent_store.lines[0] == ("follow-up", "web-0", "moved")


async def test_after_a_restart_a_request_that_evicted_no_pod_makes_room() -> None:
    async with flow_of(limits(owner=1)).running() as flow:
        await anyio.sleep(10)
        flow.controller.restore([past("web-0", ended_s=None, result="")])
        flow.sync_and_resume(*NODES, pod("web-0", on="n3"), pod("web-1", on="n1"))
        await anyio.sleep(30)
        assert flow.evicted_names == []

        flow.controller.end_inherited_eviction("web-0", Outcome(FAILED))
        await anyio.sleep(2)

    assert flow.evicted_names == ["web-1"]
