"""What else than this controller ends pods is recorded once, and outcomes are corrected by it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
import trio.testing
from msgspec.structs import replace

from reactive_desched.app.start_up import adopt_disruptions
from reactive_desched.controller import disruptions as disruptions_module
from reactive_desched.controller.deletion_causes import ROLLOUT_KEPT_S
from reactive_desched.model.disruptions import RememberedEnd
from reactive_desched.model.history import PastEviction
from reactive_desched.model.job_tries import SUSPENDED, JobTries
from reactive_desched.model.objects import (
    DaemonSet,
    Deployment,
    Job,
    Namespace,
    OwnerReference,
    Pod,
    PodCondition,
    PodStatus,
    ReplicaSet,
    StatefulSet,
)
from reactive_desched.model.outcomes import (
    BY_EVICTION_API,
    Denied,
    EffectUnknown,
    NotFound,
    PdbRefused,
    RequestTime,
)
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.primitives.token_bucket import TokenRate
from reactive_desched.state.kinds.workloads import UNOBSERVED
from reactive_desched.testing.builders import node, pod
from tests.support.configurations import UNLIMITED_MOVES
from tests.support.flow import FakeEdgesController, FakeEvictor

pytestmark = pytest.mark.anyio

RUNNING = PodCondition("Ready", "True")
TAINTED = node("n1", "gpu:NoSchedule")
NODES = (TAINTED, node("n2"))
NOW_S = 10_000_000


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def flow_of(**settings: Any) -> FakeEdgesController:
    flow = FakeEdgesController(
        NodeTaintsPlugin(NodeTaintsArgs()), moves=UNLIMITED_MOVES, **settings
    )
    flow.wall_offset_s = NOW_S
    return flow


@asynccontextmanager
async def following(*objects: Any) -> AsyncIterator[FakeEdgesController]:
    """Run a controller that has had the nodes and these objects in view for a second."""
    flow = flow_of()
    async with flow.running():
        flow.sync_and_resume(*NODES, *objects)
        await anyio.sleep(1)
        yield flow


def marked(of: Pod, mark: str, at: int | None = None, **status: Any) -> Pod:
    """Return a pod with its DisruptionTarget set."""
    conditions = (RUNNING, PodCondition("DisruptionTarget", "True", mark))
    changed = PodStatus(**{"phase": "Running", "conditions": conditions, **status})
    since = None if at is None else at - of.created_s
    return replace(of, status=changed, condition_transitions=(None, since))


def leaving(of: Pod) -> Pod:
    return replace(of, deletion_s=NOW_S + 30)


def causes(flow: FakeEdgesController) -> list[tuple[str, str]]:
    return [(each.pod.name, each.cause) for each in flow.intent_store.disruptions]


@pytest.mark.parametrize(
    "reason",
    [
        *("PreemptionByScheduler", "DeletionByTaintManager", "DeletionByPodGC", BY_EVICTION_API),
        *("DeletionByDeviceTaintManager", "OfALaterVersion"),
    ],
)
async def test_a_pod_that_is_marked_and_leaves_is_recorded_once(reason: str) -> None:
    web = pod("web", on="n2")
    async with following(web) as flow:
        flow.deliver(marked(web, reason, NOW_S + 1))
        assert causes(flow) == [], "it is not deleted yet, and may stay"
        gone = leaving(marked(web, reason, NOW_S + 1))
        flow.deliver(gone)
        flow.deliver(replace(gone, status=PodStatus("Failed", conditions=gone.status.conditions)))
        flow.delete(gone)

    assert causes(flow) == [("web", reason)]
    [ended] = flow.intent_store.disruptions
    assert (ended.is_marked, ended.since_s) == (True, NOW_S + 1)


async def test_a_pod_that_the_kubelet_ends_is_recorded_though_its_object_stays() -> None:
    web = pod("web", on="n2")
    evicted = marked(web, "TerminationByKubelet", phase="Failed", reason="Evicted")
    async with following(web) as flow:
        flow.deliver(evicted)
        flow.deliver(leaving(evicted))
        flow.delete(evicted)

    assert causes(flow) == [("web", "TerminationByKubelet")]
    assert flow.intent_store.disruptions[0].message.endswith(": Evicted")


async def test_a_pod_that_ends_by_itself_is_not_disrupted() -> None:
    done, failed, mark = pod("done", on="n2"), pod("failed", on="n2"), pod("mark", on="n2")
    taken_back = PodStatus("Running", conditions=(PodCondition("DisruptionTarget", "False"),))
    async with following(done, failed, mark) as flow:
        flow.deliver(replace(done, status=PodStatus("Succeeded")))
        flow.deliver(replace(failed, status=PodStatus("Failed")))
        flow.deliver(leaving(replace(failed, status=PodStatus("Failed"))))
        flow.deliver(replace(mark, status=taken_back))
        flow.deliver(replace(mark, status=replace(taken_back, phase="Succeeded")))

    assert causes(flow) == []


def replicas(*names: str, owner: str = "ReplicaSet/web") -> list[Pod]:
    return [pod(name, on="n2", owner=owner) for name in names]


def deployment(wanted: int, rollout: str = "") -> tuple[Deployment, ReplicaSet]:
    above = OwnerReference("Deployment", "web", "top-web", controller=True)
    workload = Deployment("default", "web", "top-web", replicas=wanted, rollout=rollout)
    return workload, ReplicaSet("owner-web", controller=above)


def alone(wanted: int) -> tuple[ReplicaSet]:
    return (ReplicaSet("owner-web", replicas=wanted),)


def of_rollout(wanted: int) -> tuple[ReplicaSet]:
    above = OwnerReference("Rollout", "web", "top-web", True, "argoproj.io/v1alpha1")
    return (ReplicaSet("owner-web", controller=above, replicas=wanted),)


@pytest.mark.parametrize(
    ("owners", "cause", "is_explained"),
    [
        pytest.param(deployment(2), "Deleted", False, id="a person deletes one of two"),
        pytest.param(deployment(1), "ScaledDown", True, id="one is wanted, and one is left"),
        pytest.param(deployment(2, "rolls out"), "RolledOut", True, id="a rollout"),
        pytest.param(deployment(1, "rolls out"), "RolledOut", True, id="a rollout with a surge"),
        pytest.param(deployment(2, UNOBSERVED), "RolledOut", True, id="a change not observed"),
        pytest.param(deployment(1, UNOBSERVED), "ScaledDown", True, id="a size not observed"),
        pytest.param(deployment(2)[:1], "OwnerGone", True, id="its ReplicaSet is gone"),
        pytest.param(deployment(2)[1:], "OwnerGone", True, id="its Deployment is gone"),
        pytest.param((), "OwnerGone", True, id="both are gone"),
        pytest.param(
            (ReplicaSet("owner-web"),), "Deleted", True, id="a ReplicaSet of no known size"
        ),
        pytest.param(
            alone(2), "Deleted", False, id="a person deletes one of a ReplicaSet of its own"
        ),
        pytest.param(alone(1), "ScaledDown", True, id="a ReplicaSet of its own wants one"),
        pytest.param(of_rollout(2), "Deleted", False, id="a person deletes one of a Rollout"),
        pytest.param(of_rollout(0), "ScaledDown", True, id="a Rollout gives a ReplicaSet up"),
        pytest.param(
            (replace(deployment(2)[0], is_terminating=True), deployment(2)[1]),
            "OwnerGone",
            True,
            id="its Deployment is deleted once its pods are gone",
        ),
        pytest.param(
            (deployment(2)[0], replace(deployment(2)[1], is_terminating=True)),
            "OwnerGone",
            True,
            id="its ReplicaSet is deleted once its pods are gone",
        ),
        pytest.param(
            (*deployment(2), Namespace("default", is_terminating=True)),
            "NamespaceGone",
            True,
            id="its namespace is being deleted",
        ),
    ],
)
async def test_a_deletion_has_the_cause_that_its_owner_shows(
    owners: tuple[Any, ...], cause: str, *, is_explained: bool
) -> None:
    web, other = replicas("web", "other")
    async with following(*owners, web, other) as flow:
        flow.deliver(leaving(web))

    [ended] = flow.intent_store.disruptions
    assert (ended.cause, ended.is_explained, ended.is_marked) == (cause, is_explained, False)


def agent(nodes: int, rollout: str = "") -> DaemonSet:
    return DaemonSet("default", "agent", "owner-agent", replicas=nodes, rollout=rollout)


def batch_job(**tries: Any) -> Job:
    return Job("owner-batch", tries=JobTries(**tries))


def leaving_job() -> Job:
    """Return a Job that is deleted in the foreground: it stays until its pods are gone."""
    return replace(batch_job(is_over=True), is_terminating=True)


@pytest.mark.parametrize(
    ("owner", "of_state", "cause", "is_explained"),
    [
        (None, (), "Deleted", False),
        ("Fleet/agent", (), "Deleted", True),
        ("DaemonSet/agent", (), "OwnerGone", True),
        ("DaemonSet/agent", (agent(1),), "Deleted", False),
        ("DaemonSet/agent", (agent(0),), "ScaledDown", True),
        ("DaemonSet/agent", (agent(1, "rolls out"),), "RolledOut", True),
        ("DaemonSet/agent", (agent(1, UNOBSERVED),), "RolledOut", True),
        ("DaemonSet/agent", (replace(agent(1), is_terminating=True),), "OwnerGone", True),
        ("Job/batch", (), "OwnerGone", True),
        ("Job/batch", (batch_job(),), "Deleted", True),
        ("Job/batch", (replace(batch_job(), replicas=1),), "Deleted", False),
        ("Job/batch", (replace(batch_job(), replicas=0),), "ScaledDown", True),
        ("Job/batch", (batch_job(is_over=True),), "JobEnded", True),
        ("Job/batch", (batch_job(makes_no_pod=SUSPENDED),), "JobEnded", True),
        ("Job/batch", (leaving_job(),), "OwnerGone", True),
        ("Job/batch", (batch_job(makes_no_pod="another manages it"),), "Deleted", True),
        ("StatefulSet/db", (), "OwnerGone", True),
        ("StatefulSet/db", (StatefulSet("default", "db", "owner-db"),), "Deleted", False),
        (
            "StatefulSet/db",
            (StatefulSet("default", "db", "owner-db", is_terminating=True),),
            "OwnerGone",
            True,
        ),
        (
            "StatefulSet/db",
            (StatefulSet("default", "db", "owner-db", replicas=0),),
            "ScaledDown",
            True,
        ),
    ],
)
async def test_a_deletion_is_unexplained_only_where_the_owner_would_know(
    owner: str | None, of_state: tuple[Any, ...], cause: str, *, is_explained: bool
) -> None:
    web = pod("web", on="n2", owner=owner)
    async with following(*of_state, web) as flow:
        flow.delete(web)

    [ended] = flow.intent_store.disruptions
    assert (ended.cause, ended.is_explained) == (cause, is_explained)


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet", "Deployment", "ReplicaSet"])
async def test_of_a_kind_of_another_group_it_is_not_known_whether_the_owner_is_gone(
    kind: str,
) -> None:
    kruise = OwnerReference(kind, "db", "owner-db", True, "apps.kruise.io/v1beta1")
    web = replace(pod("web", on="n2"), owners=(kruise,))
    async with following(web) as flow:
        flow.delete(web)

    [ended] = flow.intent_store.disruptions
    assert (ended.cause, ended.is_explained) == ("Deleted", True)


# --- watches of several resources, of which one is later than another ---


async def test_a_daemon_set_counts_its_nodes_a_moment_after_it_deletes_a_pod() -> None:
    work, other = (at(10, each) for each in replicas("work", "other", owner="DaemonSet/agent"))
    async with following(at(9, agent(2)), work, other) as flow:
        flow.deliver(at(20, agent(2, UNOBSERVED)), at(21, agent(2)))
        flow.deliver(at(30, leaving(work)))
        await anyio.sleep(disruptions_module.UNEXPLAINED_S - 0.1)
        assert causes(flow) == [], "it may still be explained"
        flow.deliver(at(31, agent(1)))
        await anyio.sleep(0.2)

    assert causes(flow) == [("work", "ScaledDown")]


async def test_a_pod_that_a_person_deletes_before_a_rollout_of_its_daemon_set_is_no_part() -> None:
    work, other = (at(10, each) for each in replicas("work", "other", owner="DaemonSet/agent"))
    async with following(at(9, agent(2)), work, other) as flow:
        flow.deliver(at(30, agent(2, UNOBSERVED)))
        flow.deliver(at(25, leaving(work)), at(31, leaving(other)))
        await anyio.sleep(disruptions_module.UNEXPLAINED_S + 1)

    assert sorted(causes(flow)) == [("other", "RolledOut"), ("work", "Deleted")]


async def test_the_end_of_a_job_may_arrive_a_moment_after_its_pods_are_deleted() -> None:
    work = pod("work", on="n2", owner="Job/batch")
    async with following(batch_job(), work) as flow:
        flow.deliver(leaving(work))
        await anyio.sleep(disruptions_module.UNEXPLAINED_S - 0.1)
        assert causes(flow) == [], "it may still be explained"
        flow.deliver(batch_job(is_over=True))
        await anyio.sleep(0.2)

    assert causes(flow) == [("work", "JobEnded")]


@pytest.mark.parametrize("is_first", [True, False])
async def test_what_a_job_ended_it_ended_though_it_is_deleted_at_once(*, is_first: bool) -> None:
    work = pod("work", on="n2", owner="Job/batch")
    async with following(batch_job(), work) as flow:
        if is_first:
            flow.deliver(leaving(work))
            await anyio.sleep(0.1)
        flow.deliver(batch_job(is_over=True))
        await anyio.sleep(0.1)
        flow.delete(batch_job(is_over=True))
        if not is_first:
            flow.deliver(leaving(work))
        await anyio.sleep(disruptions_module.UNEXPLAINED_S + 1)

    assert causes(flow) == [("work", "JobEnded")]


def rolled_out_and_done(flow: FakeEdgesController) -> None:
    flow.deliver(deployment(2, "rolls out")[0])
    flow.deliver(deployment(2)[0])


def scaled_down_and_observed(flow: FakeEdgesController) -> None:
    flow.deliver(deployment(1, UNOBSERVED)[0])
    flow.deliver(deployment(1)[0])


IN_A_NAMESPACE = Namespace("default")


@pytest.mark.parametrize(
    ("explain", "cause"),
    [
        pytest.param(lambda f: f.deliver(deployment(2, "rolls")[0]), "RolledOut", id="it rolls"),
        pytest.param(rolled_out_and_done, "RolledOut", id="it rolled, and has ended"),
        pytest.param(lambda f: f.deliver(deployment(1)[0]), "ScaledDown", id="it wants fewer"),
        pytest.param(scaled_down_and_observed, "ScaledDown", id="it wanted fewer, and has"),
        pytest.param(lambda f: f.delete(deployment(2)[0]), "OwnerGone", id="it is deleted"),
        pytest.param(
            lambda f: f.delete(*deployment(2)), "OwnerGone", id="its ReplicaSet is deleted too"
        ),
        pytest.param(
            lambda f: f.deliver(replace(IN_A_NAMESPACE, is_terminating=True)),
            "NamespaceGone",
            id="its namespace is being deleted",
        ),
        pytest.param(
            lambda f: f.delete(IN_A_NAMESPACE), "NamespaceGone", id="its namespace is gone"
        ),
    ],
)
async def test_what_explains_a_deletion_may_arrive_a_moment_after_it(
    explain: Callable[[FakeEdgesController], None], cause: str
) -> None:
    web, other = replicas("web", "other")
    async with following(IN_A_NAMESPACE, *deployment(2), web, other) as flow:
        flow.deliver(leaving(web))
        await anyio.sleep(disruptions_module.UNEXPLAINED_S - 0.1)
        assert causes(flow) == [], "it may still be explained"
        explain(flow)
        await anyio.sleep(0.2)

        [ended] = flow.intent_store.disruptions
        assert (ended.pod.name, ended.cause, ended.is_explained) == ("web", cause, True)
        assert [str(owner) for owner in ended.owners] == ["ReplicaSet/web", "Deployment/web"]
        assert ended.message.endswith(", seen after the pod's deletion")


def at(version: int, obj: Any) -> Any:
    return replace(obj, resource_version=version)


def scaled(version: int) -> Any:
    return at(version, deployment(1)[0])


OWNERS_CHANGE: list[Any] = [
    pytest.param(lambda f, at_: f.deliver(scaled(at_)), "ScaledDown", id="it wants fewer"),
    pytest.param(
        lambda f, at_: f.deliver(at(at_, deployment(2, "rolls")[0])), "RolledOut", id="it rolls"
    ),
    pytest.param(
        lambda f, at_: f.delete(at(at_, deployment(2)[0])), "OwnerGone", id="it is deleted"
    ),
    pytest.param(
        lambda f, at_: f.delete(at(at_, deployment(2)[1])), "OwnerGone", id="its ReplicaSet is"
    ),
    pytest.param(
        lambda f, at_: f.deliver(at(at_, replace(deployment(2)[0], is_terminating=True))),
        "OwnerGone",
        id="it is deleted once its pods are gone",
    ),
    pytest.param(
        lambda f, at_: f.deliver(at(at_, replace(IN_A_NAMESPACE, is_terminating=True))),
        "NamespaceGone",
        id="its namespace is deleted",
    ),
]


@pytest.mark.parametrize("is_gone", [True, False])
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("is_cause", [True, False])
@pytest.mark.parametrize(("change", "cause"), OWNERS_CHANGE)
async def test_what_an_owner_did_after_a_deletion_is_not_its_cause(
    change: Callable[[FakeEdgesController, int], None],
    cause: str,
    *,
    is_cause: bool,
    is_first: bool,
    is_gone: bool,
) -> None:
    web, other = (at(10, each) for each in replicas("web", "other"))
    (work, above), home = deployment(2), IN_A_NAMESPACE
    async with following(at(9, home), at(9, work), at(9, above), web, other) as flow:
        await anyio.sleep(1)
        if not is_first:
            change(flow, 20)
        # Watches bring the two in either order; their versions have the order of the writes.
        written = 21 if is_cause else 19
        flow.delete(at(written, web)) if is_gone else flow.deliver(at(written, leaving(web)))
        if is_first:
            change(flow, 20)
        await anyio.sleep(disruptions_module.UNEXPLAINED_S + 1)

    assert causes(flow) == [("web", cause if is_cause else "Deleted")]


async def test_a_pod_that_a_person_deletes_after_a_rollout_is_no_part_of_it() -> None:
    web, other = (at(10, each) for each in replicas("web", "other"))
    async with following(at(9, deployment(2)[0]), deployment(2)[1], web, other) as flow:
        flow.deliver(at(20, deployment(2, "rolls out")[0]), at(30, deployment(2)[0]))
        flow.deliver(at(29, leaving(web)), at(31, leaving(other)))
        await anyio.sleep(disruptions_module.UNEXPLAINED_S + 1)

    assert sorted(causes(flow)) == [("other", "Deleted"), ("web", "RolledOut")]


async def test_pods_of_a_replica_set_that_its_deployment_gave_up_go_by_its_own_size() -> None:
    web, other = (at(10, each) for each in replicas("web", "other"))
    above, own = deployment(2)[1], alone(2)[0]
    async with following(
        at(9, deployment(2)[0]), at(9, replace(above, replicas=2)), web, other
    ) as flow:
        flow.deliver(at(20, own), at(30, alone(0)[0]))
        flow.deliver(at(25, leaving(web)), at(31, leaving(other)))
        await anyio.sleep(disruptions_module.UNEXPLAINED_S + 1)

    assert sorted(causes(flow)) == [("other", "ScaledDown"), ("web", "Deleted")]


async def test_a_list_does_not_say_when_an_owner_changed() -> None:
    web, other = (at(10, each) for each in replicas("web", "other"))
    work, above = deployment(2)
    async with following(at(9, work), above, web, other) as flow:
        # Its status was written again after the pods that it gave up were deleted.
        flow.deliver_list(*NODES, scaled(40), above, at(30, leaving(web)), other)
        await anyio.sleep(disruptions_module.UNEXPLAINED_S + 1)

    assert causes(flow) == [("web", "ScaledDown")]


async def test_versions_of_two_stores_say_nothing() -> None:
    web, other = (at(10, each) for each in replicas("web", "other"))
    work, above = deployment(2)
    async with following(at(9_000_000, work), above, web, other) as flow:
        flow.deliver(scaled(9_000_001), at(30, leaving(web)))
        await anyio.sleep(disruptions_module.UNEXPLAINED_S + 1)

    assert causes(flow) == [("web", "ScaledDown")]


async def test_what_explains_a_deletion_that_is_seen_later_was_seen_before() -> None:
    web, other = replicas("web", "other")
    async with following(*deployment(2), web, other) as flow:
        flow.delete(deployment(2)[0])
        flow.deliver(leaving(web))
        await anyio.sleep(disruptions_module.UNEXPLAINED_S + 1)

        [ended] = flow.intent_store.disruptions
        assert ended.cause == "OwnerGone"
        assert "seen after" not in ended.message


async def test_what_explains_a_deletion_may_be_over_when_it_arrives() -> None:
    web, other = replicas("web", "other")
    async with following(*deployment(2), web, other) as flow:
        rolled_out_and_done(flow)
        await anyio.sleep(1)
        flow.deliver(leaving(web))
        await anyio.sleep(2 * ROLLOUT_KEPT_S)
        flow.deliver(leaving(other))
        await anyio.sleep(2 * ROLLOUT_KEPT_S)

    assert causes(flow) == [("web", "RolledOut"), ("other", "Deleted")]


async def test_the_replacement_of_a_deleted_pod_explains_nothing() -> None:
    web, other = replicas("web", "other")
    async with following(*deployment(2), web, other) as flow:
        flow.deliver(leaving(web))
        flow.deliver(*replicas("next"))
        await anyio.sleep(disruptions_module.UNEXPLAINED_S + 1)

        [ended] = flow.intent_store.disruptions
        assert (ended.cause, ended.is_explained) == ("Deleted", False)
        assert "Deployment default/web wants 2" in ended.message


async def test_an_owner_that_was_not_seen_yet_is_not_gone() -> None:
    web, other = replicas("web", "other")
    async with following(web, other) as flow:
        flow.delete(web)
        flow.deliver(*deployment(2))
        await anyio.sleep(disruptions_module.UNEXPLAINED_S + 1)

        [ended] = flow.intent_store.disruptions
        assert (ended.cause, ended.is_explained) == ("Deleted", False)
        assert [str(owner) for owner in ended.owners] == ["ReplicaSet/web", "Deployment/web"]


async def test_a_deletion_that_nothing_explains_is_known_at_once_and_recorded_a_moment_later() -> (
    None
):
    web = pod("web", on="n2", owner=None)
    async with following(web) as flow:
        flow.deliver(leaving(web))
        flow.delete(web)
        seen = flow.controller.disruptions.find("default/web")
        assert seen is not None
        assert seen == flow.controller.disruptions.end_of(web.uid)
        assert (seen.cause, seen.ended_s) == ("Deleted", NOW_S + 1)
        assert [each.name for each in flow.controller.disruptions] == ["web"]
        await anyio.sleep(disruptions_module.UNEXPLAINED_S + 1)
        assert causes(flow) == [("web", "Deleted")]
        assert flow.controller.disruptions.find("default/web") == seen

    assert causes(flow) == [("web", "Deleted")]


async def test_a_deletion_waits_while_the_watch_is_down_that_may_explain_it() -> None:
    web, other = replicas("web", "other")
    async with following(*deployment(2), web, other) as flow:
        flow.handlers["deployments"].mark_stale("")
        flow.deliver(leaving(web))
        await anyio.sleep(20.9)
        flow.handlers["deployments"].mark_synced()  # and what it missed comes
        await anyio.sleep(0.5)
        flow.deliver(deployment(1)[0])
        await anyio.sleep(5)
        assert causes(flow) == [("web", "ScaledDown")]


async def test_a_deletion_waits_a_minute_at_most_for_a_watch_that_is_down() -> None:
    web, other = replicas("web", "other")
    async with following(*deployment(2), web, other) as flow:
        flow.handlers["deployments"].mark_stale("")
        flow.deliver(leaving(web))
        await anyio.sleep(disruptions_module.MAX_OUT_OF_SYNC_S - 1)
        assert causes(flow) == []
        await anyio.sleep(6)
        assert causes(flow) == [("web", "Deleted")]


async def test_of_too_many_deletions_that_wait_the_oldest_is_recorded_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(disruptions_module, "MAX_UNEXPLAINED", 2)
    pods = [pod(name, on="n2", owner=None) for name in "abc"]
    async with following(*pods) as flow:
        flow.delete(*pods)
        assert causes(flow) == [("a", "Deleted")]
        await anyio.sleep(disruptions_module.UNEXPLAINED_S + 1)
        assert causes(flow) == [("a", "Deleted"), ("b", "Deleted"), ("c", "Deleted")]


async def test_what_waits_for_an_explanation_is_recorded_at_the_end_of_the_process() -> None:
    web = pod("web", on="n2", owner=None)
    async with following(web) as flow:
        flow.delete(web)
        flow.controller.disruptions.flush()
        assert causes(flow) == [("web", "Deleted")]


async def test_deletions_are_recorded_in_slices_and_while_evictions_are_paused() -> None:
    pods = [pod(name, on="n2", owner=None) for name in "ab"]
    async with following(*pods) as flow:
        flow.controller.pauses.pause("jane", "a test", None)
        flow.delete(*pods)
        now = anyio.current_time() + disruptions_module.UNEXPLAINED_S
        assert flow.controller.next_due(now) == now
        flow.controller.disruptions.expire(now, lambda: True)
        assert causes(flow) == [("a", "Deleted")]
        await anyio.sleep(disruptions_module.UNEXPLAINED_S + 1)
        assert causes(flow) == [("a", "Deleted"), ("b", "Deleted")]


async def test_what_another_leader_recorded_while_it_waited_here_is_not_recorded_again() -> None:
    ended, ours = pod("ended", on="n2"), pod("ours", on="n2")
    flow = flow_of()
    flow.intent_store.adopt("request-ours", "ours")
    async with flow.running():
        flow.sync_and_resume(*NODES, ended, ours)
        await anyio.sleep(1)
        flow.delete(ended, ours)
        end = RememberedEnd(*(ended.uid, "default", "ended", "n2", "", "Deleted", ""), NOW_S + 1.0)
        flow.controller.restore([past(ours.uid, "evicted")], [end])

    assert causes(flow) == []


@pytest.mark.parametrize(
    ("wanted", "corrections", "ends"),
    [
        (1, [("web", "unknown", "EvictedLater")], []),
        (0, [], [("web", "ScaledDown")]),
    ],
)
async def test_a_deletion_corrects_an_outcome_only_where_nothing_explains_it_a_moment_later(
    wanted: int, corrections: list[tuple[str, str, str]], ends: list[tuple[str, str]]
) -> None:
    [web] = replicas("web")
    flow = flow_of(limits={"cluster": 5})
    flow.intent_store.adopt(f"request-{web.uid}", "web")
    flow.controller.restore([past(web.uid, "failed", "FoundRunning", evictor="Delete")])
    async with flow.running():
        flow.sync_and_resume(*NODES, *deployment(1), web)
        await anyio.sleep(1)
        flow.deliver(leaving(web))
        assert flow.intent_store.corrections == []
        flow.deliver(deployment(wanted)[0])
        await anyio.sleep(disruptions_module.UNEXPLAINED_S + 1)
        assert flow.intent_store.corrections == corrections
        assert causes(flow) == ends


async def test_pods_that_we_evict_and_pods_that_never_ran_are_not_disrupted() -> None:
    web, waiting = pod("web", on="n1"), pod("waiting")
    async with following(web, waiting) as flow:
        assert flow.evicted_names == ["web"]
        flow.deliver(leaving(marked(web, BY_EVICTION_API)))
        flow.delete(web, waiting)

    assert causes(flow) == []


async def test_our_own_eviction_is_not_disrupted_where_the_watch_is_faster_than_the_answer() -> (
    None
):
    web = pod("web", on="n1")
    flow = flow_of()
    flow.evictor.slow_s = 5
    async with flow.running():
        flow.sync_and_resume(*NODES, web)
        await anyio.sleep(1)
        flow.deliver(leaving(marked(web, BY_EVICTION_API)))
        await anyio.sleep(10)

    assert flow.observer.outcomes == [("web", "evicted")]
    assert causes(flow) == []


@pytest.mark.parametrize("answer", [PdbRefused("no"), Denied(403, "no"), NotFound()])
async def test_a_pod_that_another_ends_while_our_eviction_is_refused_is_disrupted(
    answer: Any,
) -> None:
    web = pod("web", on="n1")
    flow = flow_of()
    flow.evictor.slow_s = 5
    flow.evictor.script["web"] = [answer]
    async with flow.running():
        flow.sync_and_resume(*NODES, web)
        await anyio.sleep(1)
        flow.deliver(leaving(marked(web, "PreemptionByScheduler")))
        assert causes(flow) == [], "it may be ours"
        await anyio.sleep(10)

    assert causes(flow) == [("web", "PreemptionByScheduler")]


class LosesAnswers(FakeEvictor):
    """Answers nothing; a request is sent at NOW_S, and can arrive for eight seconds."""

    effect_timeout_s = 8.0

    def now(self) -> RequestTime:
        return RequestTime(float(NOW_S))

    async def _answer(self, request: Any) -> Any:
        await super()._answer(request)
        return EffectUnknown("connection reset")


async def test_an_eviction_that_failed_and_lands_later_is_corrected_counted_and_followed() -> None:
    web = pod("web", on="n1", created=1)
    flow = flow_of(evictor=LosesAnswers(), rates={"cluster": TokenRate(0.001, 2)})
    flow.evictor.pods["default/web"] = web
    async with flow.running():
        flow.sync_and_resume(*NODES, *deployment(1), web)
        await anyio.sleep(9)
        assert flow.observer.outcomes == [("web", "failed")]
        flow.deliver(replace(TAINTED, taints=()))
        limiter = flow.controller.gates.rate_limiter
        assert limiter.min_available(anyio.current_time())["cluster"] == pytest.approx(2)

        flow.deliver(leaving(marked(web, BY_EVICTION_API, NOW_S + 60)))

        assert flow.intent_store.corrections == [("web", "unknown", "EvictedLater")]
        assert limiter.min_available(anyio.current_time())["cluster"] == pytest.approx(1)
        assert [move.origin.pod_name for move in flow.controller.ledger] == ["web"]
        flow.delete(web)
        flow.deliver(pod("next", on="n2", created=NOW_S + 70))
        await anyio.sleep(120)

    assert causes(flow) == []
    assert [end.result for end in flow.intent_store.follow_ups] == ["moved"]
    assert flow.intent_store.corrections == [("web", "unknown", "EvictedLater")]


@pytest.mark.parametrize(
    ("end", "after_s"),
    [
        pytest.param("PreemptionByScheduler", 60, id="by the scheduler"),
        pytest.param("", 60, id="by a deletion"),
        pytest.param(BY_EVICTION_API, -60, id="by an eviction that began before"),
        pytest.param(
            BY_EVICTION_API, 2 * disruptions_module.LATE_S, id="by an eviction much later"
        ),
    ],
)
async def test_an_eviction_that_failed_stays_so_where_another_ends_its_pod(
    end: str, after_s: float
) -> None:
    web = pod("web", on="n1", created=1)
    flow = flow_of(evictor=LosesAnswers())
    flow.evictor.pods["default/web"] = web
    async with flow.running():
        flow.sync_and_resume(*NODES, *deployment(1), web)
        await anyio.sleep(9)
        flow.deliver(replace(TAINTED, taints=()))
        await anyio.sleep(max(0, after_s))
        flow.deliver(leaving(marked(web, end, NOW_S + int(after_s)) if end else web))

    assert flow.intent_store.corrections == []
    assert causes(flow) == [("web", end or "Deleted")]


async def test_an_eviction_whose_pod_was_gone_is_known_where_the_watch_saw_its_mark() -> None:
    web = pod("web", on="n1", created=1)
    flow = flow_of(evictor=LosesAnswers())
    flow.evictor.slow_s = 1
    async with flow.running():
        flow.sync_and_resume(*NODES, web)
        await anyio.sleep(0.5)
        flow.deliver(leaving(marked(web, BY_EVICTION_API, NOW_S)))
        flow.delete(web)
        await anyio.sleep(5)

    assert flow.observer.outcomes == [("web", "unknown")]
    assert flow.intent_store.corrections == [("web", "evicted", "FoundEvicted")]
    assert causes(flow) == []


async def test_a_pod_that_we_evict_is_ours_alone_where_its_node_goes_before_it_is_gone() -> None:
    web = pod("web", on="n1", created=1)
    flow = flow_of(evictor=LosesAnswers())
    flow.evictor.slow_s = 1
    async with flow.running():
        flow.sync_and_resume(*NODES, web)
        await anyio.sleep(0.5)
        flow.deliver(leaving(marked(web, BY_EVICTION_API, NOW_S)))
        collected = leaving(marked(web, "DeletionByPodGC", NOW_S, phase="Failed"))
        flow.deliver(collected)
        flow.delete(collected)
        await anyio.sleep(5)

    assert flow.observer.outcomes == [("web", "unknown")]
    assert flow.intent_store.corrections == [("web", "evicted", "FoundEvicted")]
    assert causes(flow) == []


@pytest.mark.parametrize(
    ("mark", "at", "seen"),
    [
        ("", NOW_S, []),
        ("PreemptionByScheduler", NOW_S, [("web", "PreemptionByScheduler")]),
        (BY_EVICTION_API, NOW_S - 60, [("web", BY_EVICTION_API)]),
    ],
)
async def test_an_eviction_whose_pod_was_gone_stays_unknown_otherwise(
    mark: str, at: int, seen: list[tuple[str, str]]
) -> None:
    web = pod("web", on="n1", created=1)
    flow = flow_of(evictor=LosesAnswers())
    async with flow.running():
        flow.sync_and_resume(*NODES, web)
        await anyio.sleep(1)
        assert flow.observer.outcomes == [("web", "unknown")]
        flow.deliver(leaving(marked(web, mark, at) if mark else web))
        flow.delete(web)

    assert flow.intent_store.corrections == []
    assert causes(flow) == seen


async def test_an_eviction_that_another_client_made_first_is_disrupted_and_no_success() -> None:
    web = pod("web", on="n1", created=1)
    flow = flow_of(evictor=LosesAnswers())
    flow.evictor.slow_s = 1
    preempted = leaving(marked(web, "PreemptionByScheduler", NOW_S))
    async with flow.running():
        flow.sync_and_resume(*NODES, web)
        await anyio.sleep(0.5)
        flow.evictor.pods["default/web"] = preempted
        flow.deliver(preempted)
        await anyio.sleep(5)

    assert flow.observer.outcomes == [("web", "unknown")]
    assert causes(flow) == [("web", "PreemptionByScheduler")]


# --- over a restart ---


def past(uid: str, result: str, reason: str = "", **more: Any) -> PastEviction:
    return PastEviction(
        f"request-{uid}",
        NOW_S - 60,
        uid,
        "default",
        uid,
        "n1",
        ended_s=NOW_S - 30,
        result=result,
        reason=reason,
        began_s=NOW_S - 60,
        **more,
    )


async def test_what_was_recorded_before_a_start_is_not_recorded_again() -> None:
    known, ours, others, long_ago, stuck = (
        pod(name, on="n2") for name in ("k", "us", "o", "l", "stuck")
    )
    stuck = replace(marked(stuck, BY_EVICTION_API, NOW_S - 100_000), deletion_s=NOW_S - 99_000)
    flow = flow_of()
    end = RememberedEnd("k", "default", "k", "n2", "", "PreemptionByScheduler", "", NOW_S - 5)
    flow.intent_store.adopt("request-us", "us")
    flow.controller.restore([past("us", "evicted")], [end])
    async with flow.running(), anyio.create_task_group() as tasks:
        flow.sync_and_resume(
            *NODES,
            leaving(marked(known, "PreemptionByScheduler", NOW_S - 5)),
            leaving(marked(ours, BY_EVICTION_API, NOW_S - 5)),
            leaving(marked(others, BY_EVICTION_API, NOW_S - 5)),
            marked(long_ago, "TerminationByKubelet", NOW_S - 100_000, phase="Failed"),
            stuck,
            pod("stays", on="n2"),
        )
        tasks.start_soon(adopt_disruptions, flow.controller)
        await anyio.sleep(1)
        old = marked(long_ago, "TerminationByKubelet", NOW_S - 100_000, phase="Failed")
        flow.deliver(leaving(old))
        flow.delete(known, ours, others, old, stuck)

    assert causes(flow) == [("o", BY_EVICTION_API)]


async def test_an_outcome_of_an_earlier_process_is_corrected_too() -> None:
    web = pod("web", on="n2", created=1)
    flow = flow_of()
    flow.intent_store.adopt("request-web", "web")
    flow.controller.restore([past("web", "failed", "FoundRunning")])
    async with flow.running():
        flow.sync_and_resume(*NODES, web)
        await anyio.sleep(1)
        flow.deliver(leaving(marked(web, BY_EVICTION_API, NOW_S + 5)))

    assert flow.intent_store.corrections == [("web", "unknown", "EvictedLater")]
    assert causes(flow) == []


async def test_a_pod_is_remembered_by_its_name_and_uid_until_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(disruptions_module, "MAX_REMEMBERED", 2)
    pods = [pod(name, uid=f"uid-{name}", on="n2") for name in "abc"]
    async with following(*pods) as flow:
        flow.delete(*pods)
        await anyio.sleep(disruptions_module.UNEXPLAINED_S + 1)
        ends = flow.controller.disruptions
        assert [each.name for each in ends] == ["b", "c"]
        assert ends.find("uid-b") == ends.find("default/b") == ends.end_of("uid-b") is not None
        assert ends.find("default/a") is None


@pytest.mark.parametrize(
    ("lacks_record", "mark", "after_s", "evicted"),
    [
        pytest.param(True, BY_EVICTION_API, 5, [], id="it may be the former leader's"),
        pytest.param(False, BY_EVICTION_API, 5, ["web"], id="the record of that is here"),
        pytest.param(True, "PreemptionByScheduler", 5, ["web"], id="it is none by that API"),
        pytest.param(True, BY_EVICTION_API, 700, ["web"], id="it is too late for that"),
    ],
)
async def test_a_late_request_of_a_leader_without_record_counts_against_the_limits_of_the_next(
    lacks_record: bool,  # noqa: FBT001 -- one of four cases
    mark: str,
    after_s: float,
    evicted: list[str],
) -> None:
    taken, web = pod("taken", on="n2"), pod("web", on="n1")
    flow = flow_of(limits={"cluster": 1})
    async with flow.running():
        if lacks_record:
            flow.controller.begin_without_history()
        flow.sync_and_resume(node("n1"), node("n2"), taken, web)
        await anyio.sleep(after_s)
        flow.deliver(leaving(marked(taken, mark, NOW_S + 1)))
        flow.deliver(TAINTED)
        await anyio.sleep(120)

    assert flow.evicted_names == evicted
    [ended] = flow.intent_store.disruptions
    assert ("the leader before" in ended.message) == (not evicted)
