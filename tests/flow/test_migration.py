"""The life of a migration job through the whole pipeline, in virtual time."""

from typing import Any

import anyio
import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from reactive_desched.migration.cleanup import MAX_ENDED
from reactive_desched.model.clock_pair import ClockPair
from reactive_desched.model.decisions import Defer, Refuse
from reactive_desched.model.eviction_options import (
    DeleteOptions,
    EvictionOptions,
    Preconditions,
)
from reactive_desched.model.evictors.soft_eviction import SOFT_EVICTION_REQUESTED
from reactive_desched.model.history import PastEviction
from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.migration_jobs import (
    MIGRATION_PROFILE,
    JobCondition,
    JobStatus,
    Mode,
    Phase,
    PodReference,
)
from reactive_desched.model.objects import (
    Namespace,
    Node,
    Pod,
    PodCondition,
    PodDisruptionBudget,
    PodStatus,
)
from reactive_desched.model.outcomes import EVICTED, DryRun, LeavesLater, PdbRefused
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.settings.migration import MigrationJobSettings, PlaceholderSettings
from reactive_desched.primitives.token_bucket import TokenRate
from reactive_desched.testing.builders import node, pod
from reactive_desched.text.layout import TextLayout
from reactive_desched.text.times import utc_time
from reactive_desched.why.explanation import Explainer
from reactive_desched.why.text import answer_lines
from tests.support.flow import FakeEdgesController
from tests.support.golden import Golden
from tests.support.migrating import EFFECT_TIMEOUT_S, JobServer, MigratingController, job_on

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

NODES = [node("n1"), node("n2"), node("n3")]
WEB = [pod(f"web-{number}", on=f"n{number % 3 + 1}") for number in range(20)]


def served(*pods: Pod) -> JobServer:
    """Return a server that has these pods, or the twenty of web."""
    server = JobServer()
    server.pods = {each.uid: each for each in pods or WEB}
    return server


def phases(server: JobServer, name: str) -> list[Phase]:
    """Return the phases that a job went through."""
    return [phase for of, phase, _ in server.history if of == name]


def ending(server: JobServer, name: str) -> tuple[Phase, str]:
    """Return how a job ended."""
    status = server.jobs[name].status
    return status.phase, status.reason


async def test_a_job_that_a_person_makes_moves_its_pod() -> None:
    server = served()
    async with MigratingController(server).running(*NODES) as process:
        await process.make(job_on(WEB[0]))
        await anyio.sleep(1)
        evicting = server.jobs["web-0"].status
        await anyio.sleep(5)

        assert server.evictions == ["web-0"]
        assert evicting.phase is Phase.RUNNING
        assert [(each.type, each.status, each.reason) for each in evicting.conditions] == [
            ("Eviction", "False", "Evicting")
        ]
        done = server.jobs["web-0"].status
        assert (done.phase, done.step, done.reason) == (Phase.SUCCEEDED, "Complete", "")
        assert done.message == 'Pod "default/web-0" has been evicted'
        [condition] = done.conditions
        assert (condition.status, condition.reason) == ("True", "EvictComplete")
        assert server.jobs["web-0"].has_passed
        assert server.jobs["web-0"].pod.uid == "web-0"
        assert [event.reason for event in process.events] == [
            *("Running", "Evicting"),
            *("EvictComplete", "Complete"),
        ]


async def test_the_eviction_is_one_story_in_the_record() -> None:
    server = served()
    async with MigratingController(server).running(*NODES) as process:
        await process.make(job_on(WEB[0], "by-hand"))
        await anyio.sleep(5)

        [(context, decision)] = process.fed.intent_store.decisions
        assert decision.finding.message == "PodMigrationJob by-hand asks for it"
        assert context.profile == "migration"
        lines = [line[:2] for line in process.fed.intent_store.lines]
        assert lines[:2] == [("intent", "web-0"), ("outcome", "web-0")]


NO_DISRUPTION = PodDisruptionBudget("default", "web", selector=LabelSelector())


@pytest.mark.parametrize(
    ("settings", "pod_label", "job_label", "asked"),
    [
        ({}, "", "", []),
        ({"eviction_policy": "Delete"}, "", "", ["Delete"]),
        ({"eviction_policy": "Delete"}, "", "Eviction", []),
        ({}, "", "Delete", ["Delete"]),
        ({}, "Delete", "Eviction", ["Delete"]),
        ({"eviction_policy": "SoftEviction"}, "", "", []),
        ({}, "nonsense", "Delete", []),
    ],
)
async def test_the_policy_of_the_pod_of_the_job_or_of_the_settings_decides_whether_it_is_deleted(
    settings: dict[str, Any], pod_label: str, job_label: str, asked: list[str]
) -> None:
    labels = {"koordinator.sh/evict-policy": pod_label} if pod_label else {}
    ready = PodStatus(phase="Running", conditions=(PodCondition("Ready", "True"),))
    web = replace(WEB[0], labels=labels, status=ready)
    server = served(web, *WEB[1:])
    process = MigratingController(server, MigrationJobSettings.model_validate(settings))
    async with process.running(*NODES, NO_DISRUPTION):
        await process.make(job_on(web, policy=job_label))
        await anyio.sleep(5)

        assert [each.options.evictor for each in process.evictor.requests] == asked
        assert server.jobs["web-0"].phase is (Phase.SUCCEEDED if asked else Phase.RUNNING)


async def test_a_soft_eviction_says_who_asked_and_why_and_waits_for_another_program() -> None:
    server = served()
    settings = MigrationJobSettings.model_validate({"evictionPolicy": "SoftEviction"})
    async with MigratingController(server, settings).running(*NODES) as process:
        process.evictor.script["web-0"] = [LeavesLater("annotated", SOFT_EVICTION_REQUESTED)]
        await process.make(job_on(WEB[0], trigger="LowNodeLoad", cause="overutilized", ttl_s=500.0))
        await anyio.sleep(400)

        [asked] = process.evictor.requests
        assert asked.options == EvictionOptions("SoftEviction", None, "LowNodeLoad", "overutilized")
        assert server.jobs["web-0"].phase is Phase.RUNNING
        process.delete_pod(WEB[0])
        await anyio.sleep(1)
        assert ending(server, "web-0") == (Phase.SUCCEEDED, "")


async def test_the_delete_options_of_a_job_come_before_those_of_the_settings() -> None:
    server = served()
    settings = MigrationJobSettings.model_validate(
        {"defaultDeleteOptions": {"gracePeriodSeconds": 7}, "maxMigratingPerNode": 0}
    )
    async with MigratingController(server, settings).running(*NODES) as process:
        await process.make(
            job_on(WEB[0], delete_options=DeleteOptions(propagation_policy="Orphan"))
        )
        await process.make(job_on(WEB[1]))
        await anyio.sleep(10)

        assert {each.name: each.options.delete for each in process.evictor.requests} == {
            "web-0": DeleteOptions(propagation_policy="Orphan"),
            "web-1": DeleteOptions(grace_period_seconds=7),
        }


@pytest.mark.parametrize(
    "options",
    [DeleteOptions(dry_run=("All",)), DeleteOptions(preconditions=Preconditions("another"))],
)
async def test_a_job_whose_delete_options_can_evict_nothing_fails(options: DeleteOptions) -> None:
    server = served()
    async with MigratingController(server).running(*NODES) as process:
        job = job_on(WEB[0], delete_options=options)
        await process.make(replace(job, pod=replace(job.pod, uid="web-0")))
        await anyio.sleep(5)

        assert ending(server, "web-0") == (Phase.FAILED, "UnsupportedDeleteOptions")
        assert server.evictions == []


WIDE: dict[str, object] = {
    "skipCheckExpectedReplicas": True,
    "maxMigratingPerNode": 0,
    "maxMigratingPerWorkload": 9,
    "maxUnavailablePerWorkload": 9,
}
SPACED = MigrationJobSettings.model_validate(
    WIDE | {"objectLimiters": {"workload": {"duration": "100s", "maxMigrating": 1}}}
)


async def test_a_limiter_spaces_the_jobs_of_a_workload_but_for_one_with_the_annotation() -> None:
    server = served(*WEB[:3])
    async with MigratingController(server, SPACED).running(*NODES) as process:
        await process.make(job_on(WEB[0]))
        await anyio.sleep(5)
        await process.make(job_on(WEB[1]))
        await process.make(job_on(WEB[2], is_unlimited=True))
        await anyio.sleep(5)

        assert server.evictions == ["web-0", "web-2"]
        [(_, decision)] = [
            each
            for each in process.fed.intent_store.decisions
            if each[1].finding.pod.name == "web-1"
        ]
        assert isinstance(decision, Defer)
        assert (decision.reason, decision.setting) == (
            "ObjectLimiter",
            "migration.objectLimiters.workload",
        )
        await anyio.sleep(220)
        assert server.evictions == ["web-0", "web-2", "web-1"]


def slow(burst: int) -> MigrationJobSettings:
    """Return settings by which jobs evict one pod in 100 s, so many at once."""
    rate = {"evictQPS": 0.01, "evictBurst": burst, "defaultJobTTL": "0s"}
    return MigrationJobSettings.model_validate(WIDE | rate)


async def test_jobs_evict_as_fast_as_their_rate_allows() -> None:
    server = served(*WEB[:4])
    async with MigratingController(server, slow(2)).running(*NODES) as process:
        for each in WEB[:4]:
            process.fed.deliver(server.put(job_on(each, ttl_s=0.0)))
        await anyio.sleep(50)
        assert len(server.evictions) == 2
        reasons = {
            (decision.reason, decision.setting)
            for _, decision in process.fed.intent_store.decisions
            if isinstance(decision, Defer)
        }
        assert reasons == {("TooManyEvictions", "migration.evictQPS")}
        await anyio.sleep(52)
        assert len(server.evictions) == 3
        await anyio.sleep(100)
        assert len(server.evictions) == 4


async def test_the_evictions_of_an_earlier_process_count_against_the_rate_of_jobs() -> None:
    server = served(*WEB[:2])
    await anyio.sleep(1000)
    at = anyio.current_time()
    past = PastEviction(
        "request",
        at,
        "old",
        "default",
        "old",
        "n1",
        "",
        profile=MIGRATION_PROFILE,
        ended_s=at,
        result=EVICTED,
    )
    async with MigratingController(server, slow(1)).running(*NODES) as process:
        process.fed.controller.restore([past])
        await process.make(job_on(WEB[1], ttl_s=0.0))
        await anyio.sleep(90)
        assert server.evictions == []
        await anyio.sleep(15)
        assert server.evictions == ["web-1"]


@pytest.mark.parametrize("most", [1, 3])
async def test_no_more_jobs_are_written_at_once_than_may_be(most: int) -> None:
    server = served()
    under_way, highest = 0, 0

    async def hold(point: str) -> None:
        nonlocal under_way, highest
        under_way += 1 if point.startswith("before") else -1
        highest = max(highest, under_way)

    server.on_request = hold
    wide = WIDE | {"maxConcurrentReconciles": most}
    settings = MigrationJobSettings.model_validate(wide)
    async with MigratingController(server, settings).running(*NODES) as process:
        for each in WEB[:6]:
            process.fed.deliver(server.put(replace(job_on(each), is_to_be_aborted=True)))
        await anyio.sleep(5)

    assert highest == most
    assert {job.phase for job in server.jobs.values()} == {Phase.ABORTED}


async def test_no_job_is_made_for_a_pod_without_a_token_until_there_is_one() -> None:
    server = served(*ON_N1[:2])
    one_at_a_time = SPACED.model_copy(update={"max_migrating_globally": 1})
    async with MigratingController(server, one_at_a_time, taints()).running(*TAINTED):
        await anyio.sleep(60)
        assert (len(server.jobs), len(server.evictions)) == (1, 1)
        await anyio.sleep(60)
        assert (len(server.jobs), len(server.evictions)) == (2, 2)


async def test_jobs_beyond_a_limit_wait_and_are_woken_by_the_end_of_another() -> None:
    server = served()
    settings = MigrationJobSettings(max_migrating_globally=1, max_migrating_per_node=0)
    async with MigratingController(server, settings).running(*NODES) as process:
        await process.make(job_on(WEB[0]))
        await process.make(job_on(WEB[1]))
        await anyio.sleep(0.5)

        assert server.jobs["web-1"].phase is Phase.NONE
        [(_, decision)] = [
            each
            for each in process.fed.intent_store.decisions
            if each[1].finding.pod.name == "web-1"
        ]
        assert isinstance(decision, Refuse)
        assert (decision.reason, decision.setting) == (
            "MaxMigratingGlobally",
            "migration.maxMigratingGlobally",
        )
        await anyio.sleep(20)
        assert [each for each in server.evictions if each in ("web-0", "web-1")] == [
            "web-0",
            "web-1",
        ]
        assert ending(server, "web-1") == (Phase.SUCCEEDED, "")


def reasons(server: JobServer, name: str) -> list[tuple[Phase, str]]:
    """Return the phases and reasons that a job's status had."""
    return [(phase, reason) for of, phase, reason in server.history if of == name]


async def test_the_status_of_a_job_says_once_what_it_waits_for(golden: Golden) -> None:
    server = served()
    server.ends_after_s = 30.0
    settings = MigrationJobSettings(max_migrating_globally=1, max_migrating_per_node=0)
    async with MigratingController(server, settings).running(*NODES) as process:
        await process.make(job_on(WEB[0]))
        await process.make(job_on(WEB[1]))
        await anyio.sleep(4)
        assert reasons(server, "web-1") == [(Phase.NONE, "")], "it has waited for a moment only"
        await anyio.sleep(20)

        waiting = server.jobs["web-1"].status
        assert waiting.message == golden()
        await anyio.sleep(60)
        assert reasons(server, "web-1") == [
            (Phase.NONE, ""),
            (Phase.NONE, "MaxMigratingGlobally"),
            (Phase.RUNNING, ""),
            (Phase.RUNNING, "Evicting"),
            (Phase.SUCCEEDED, ""),
        ]
        told = [event for event in process.events if event.reason == "MaxMigratingGlobally"]
        assert [event.regarding.name for event in told] == ["web-1"]


async def test_the_status_of_a_job_that_runs_says_which_gate_lets_it_wait() -> None:
    server = served()
    async with MigratingController(server).running(*NODES, NO_DISRUPTION) as process:
        await process.make(job_on(WEB[0]))
        await anyio.sleep(20)

        waiting = server.jobs["web-0"].status
        assert (waiting.phase, waiting.reason) == (Phase.RUNNING, "DisruptionBudget")
        assert "web" in waiting.message
        process.fed.delete(NO_DISRUPTION)
        await anyio.sleep(10)
        assert ending(server, "web-0") == (Phase.SUCCEEDED, "")


async def test_why_names_the_jobs_of_a_pod_and_what_they_wait_for() -> None:
    server = served()
    settings = MigrationJobSettings(max_migrating_globally=1, max_migrating_per_node=0)
    async with MigratingController(server, settings).running(*NODES) as process:
        await process.make(job_on(WEB[0]))
        await process.make(job_on(WEB[1]))

        controller = process.fed.controller
        pending = controller.evaluator.queue.pending()
        answer = Explainer(controller, pending, ClockPair(0.0, 0.0)).explain(WEB[1])
        [job] = answer.jobs
        assert (job.name, job.made_by, job.phase) == ("web-1", "by hand", "Pending")
        assert (job.reason, job.setting) == (
            "MaxMigratingGlobally",
            "migration.maxMigratingGlobally",
        )
        text = "\n".join(answer_lines(to_builtins(answer), utc_time(0.0), TextLayout()))
        wanted = "job       web-1, made: by hand, Pending; MaxMigratingGlobally: "
        assert wanted in text
        assert "[setting: migration.maxMigratingGlobally]" in text


FAILURES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"owners": ()}, {}, "ForbiddenMigratePod"),
    ({}, {"mode": "ReservationFirst"}, "UnsupportedMode"),
    ({}, {"pod": PodReference("default")}, "InvalidPodRef"),
]


@pytest.mark.parametrize(("of_pod", "of_job", "reason"), FAILURES)
async def test_a_job_fails_with_a_reason(
    of_pod: dict[str, Any], of_job: dict[str, Any], reason: str
) -> None:
    one = replace(WEB[0], **of_pod)
    server = served(one, *WEB[1:])
    async with MigratingController(server).running(*NODES) as process:
        await process.make(replace(job_on(one), **of_job))
        await anyio.sleep(5)

        assert ending(server, "web-0") == (Phase.FAILED, reason)
        assert server.evictions == []


async def test_a_job_waits_a_moment_for_a_pod_that_is_not_seen_yet() -> None:
    server = served(*WEB[1:])
    async with MigratingController(server).running(*NODES) as process:
        await process.make(job_on(WEB[0]))
        await anyio.sleep(1)
        server.pods[WEB[0].uid] = WEB[0]
        process.fed.deliver(WEB[0])
        await process.make(job_on(pod("gone", on="n1")))
        await anyio.sleep(10)

        assert ending(server, "web-0") == (Phase.SUCCEEDED, "")
        assert ending(server, "gone") == (Phase.FAILED, "MissingPod")


async def test_a_job_of_another_pod_of_the_name_moves_nothing() -> None:
    server = served()
    async with MigratingController(server).running(*NODES) as process:
        made = job_on(WEB[0])
        await process.make(replace(made, pod=replace(made.pod, uid="an-earlier-one")))
        await anyio.sleep(10)

        assert ending(server, "web-0") == (Phase.FAILED, "MissingPod")
        assert server.evictions == []


async def test_a_paused_job_begins_once_it_is_paused_no_more() -> None:
    server = served()
    async with MigratingController(server).running(*NODES) as process:
        await process.make(job_on(WEB[0], is_paused=True))
        await anyio.sleep(10)
        assert server.jobs["web-0"].phase is Phase.NONE
        process.edit("web-0", is_paused=False)
        await anyio.sleep(10)

        assert ending(server, "web-0") == (Phase.SUCCEEDED, "")


async def test_a_person_aborts_a_job_whose_pod_is_not_evicted_yet() -> None:
    server = served()
    async with MigratingController(server).running(*NODES) as process:
        process.evictor.script["web-0"] = [PdbRefused("no disruptions allowed")]
        await process.make(job_on(WEB[0]))
        await anyio.sleep(2)
        assert server.jobs["web-0"].phase is Phase.RUNNING
        process.edit("web-0", is_to_be_aborted=True)
        await anyio.sleep(20)

        assert ending(server, "web-0") == (Phase.ABORTED, "AbortedByPerson")
        assert len(process.evictor.requests) == 1, "the refused request is the only one"


async def test_an_eviction_that_a_budget_refuses_is_tried_again_until_the_time_is_over() -> None:
    server = served()
    async with MigratingController(server).running(*NODES) as process:
        process.evictor.script["web-0"] = [PdbRefused("no disruptions allowed")] * 99
        await process.make(job_on(WEB[0], ttl_s=60.0))
        await anyio.sleep(120)
        requests = len(process.evictor.requests)

        assert requests > 2
        assert ending(server, "web-0") == (Phase.FAILED, "Timeout")
        await anyio.sleep(120)
        assert len(process.evictor.requests) == requests
        await anyio.sleep(300)
        assert "web-0" not in server.jobs, "an old job is deleted"


async def test_a_job_that_waits_for_arbitration_times_out_as_well() -> None:
    server = served()
    settings = MigrationJobSettings(max_migrating_globally=1, max_migrating_per_node=0)
    async with MigratingController(server, settings).running(*NODES) as process:
        server.ends_after_s = 500.0
        await process.make(job_on(WEB[0], ttl_s=0.0))
        await process.make(job_on(WEB[1], ttl_s=30.0))
        await anyio.sleep(40)

        assert ending(server, "web-1") == (Phase.FAILED, "Timeout")


async def test_writes_that_fail_are_tried_again() -> None:
    server = served()
    async with MigratingController(server).running(*NODES) as process:
        server.is_down = True
        await process.make(job_on(WEB[0]))
        await anyio.sleep(30)
        assert server.evictions == [], "nothing is evicted before the job says that it runs"
        server.is_down = False
        await anyio.sleep(20)

        assert ending(server, "web-0") == (Phase.SUCCEEDED, "")
        assert server.evictions == ["web-0"]


async def test_a_pod_that_another_deletes_was_not_moved_by_the_job() -> None:
    server = served()
    async with MigratingController(server).running(*NODES) as process:
        process.evictor.script["web-0"] = [PdbRefused("no disruptions allowed")] * 99
        await process.make(job_on(WEB[0]))
        await anyio.sleep(3)
        process.delete_pod(WEB[0])
        await anyio.sleep(3)

        assert ending(server, "web-0") == (Phase.FAILED, "MissingPod")


@pytest.mark.parametrize("person", ["waits", "aborts"])
async def test_the_pod_of_a_job_may_be_gone_before_its_eviction_is_answered(person: str) -> None:
    server = served()
    server.answers_after_s = 5
    async with MigratingController(server).running(*NODES) as process:
        await process.make(job_on(WEB[0]))
        if person == "aborts":
            process.edit("web-0", is_to_be_aborted=True)
        await anyio.sleep(4)
        assert "web-0" not in server.pods
        assert server.jobs["web-0"].phase is Phase.RUNNING
        await anyio.sleep(3)

        assert ending(server, "web-0") == (Phase.SUCCEEDED, "")


async def test_an_earlier_job_of_the_pod_that_has_failed_does_not_hide_its_eviction() -> None:
    server = served()
    server.answers_after_s = 2.0
    failed = JobStatus(phase=Phase.FAILED, reason="Timeout")
    earlier = job_on(WEB[0], "earlier", pod=PodReference("default", "web-0", "web-0"))
    server.put(replace(earlier, status=failed))
    async with MigratingController(server).running(*NODES) as process:
        await process.make(job_on(WEB[0]))
        await anyio.sleep(5)

        assert server.evictions == ["web-0"]
        assert ending(server, "web-0") == (Phase.SUCCEEDED, "")
        assert ending(server, "earlier") == (Phase.FAILED, "Timeout")


async def test_an_eviction_is_remembered_for_as_long_as_its_job_cannot_be_written() -> None:
    server = served()
    server.on_eviction = lambda _: setattr(server, "is_down", True)
    async with MigratingController(server).running(*NODES) as process:
        await process.make(job_on(WEB[0], ttl_s=7200.0))
        await anyio.sleep(3600)
        assert server.jobs["web-0"].status.condition("Eviction") is None
        server.is_down = False
        await anyio.sleep(60)

        assert ending(server, "web-0") == (Phase.SUCCEEDED, "")


async def test_an_abort_waits_for_the_answer_to_the_request_for_the_eviction() -> None:
    server = served()
    process = MigratingController(server)
    process.evictor.slow_s = 5
    process.evictor.script["web-0"] = [PdbRefused("no disruptions allowed")]
    async with process.running(*NODES):
        await process.make(job_on(WEB[0]))
        process.edit("web-0", is_to_be_aborted=True)
        await anyio.sleep(4)
        assert server.jobs["web-0"].phase is Phase.RUNNING
        await anyio.sleep(2)

        assert ending(server, "web-0") == (Phase.ABORTED, "AbortedByPerson")
        assert server.evictions == []


async def test_the_request_of_an_earlier_process_may_evict_the_pod_after_the_next_one_began() -> (
    None
):
    server = served()
    moved = PodReference("default", "web-0", "web-0")
    server.put(job_on(WEB[0], status=JobStatus(Phase.RUNNING), has_passed=True, pod=moved))
    async with MigratingController(server).running(*NODES, pending=["web-0"]) as process:
        await anyio.sleep(5)
        server.evictions.append("web-0")
        process.delete_pod(WEB[0])
        await anyio.sleep(5)
        assert server.jobs["web-0"].phase is Phase.RUNNING
        await anyio.sleep(EFFECT_TIMEOUT_S)

        assert ending(server, "web-0") == (Phase.SUCCEEDED, "")
        assert server.evictions == ["web-0"]


async def test_the_eviction_of_a_job_is_requested_once_even_if_the_pod_stays() -> None:
    server = served()
    evicting = JobStatus(Phase.RUNNING, conditions=(JobCondition("Eviction", "False", "Evicting"),))
    running = job_on(WEB[0], status=evicting, has_passed=True)
    running = replace(running, pod=PodReference("default", "web-0", "web-0"))
    async with MigratingController(server).running(*NODES) as process:
        await process.make(running)
        await anyio.sleep(10)
        assert server.evictions == []
        process.delete_pod(WEB[0])
        await anyio.sleep(1)

        assert ending(server, "web-0") == (Phase.SUCCEEDED, "")


@pytest.mark.parametrize("when", ["while it runs", "before it starts"])
async def test_of_the_jobs_that_ended_the_youngest_thousand_are_kept(when: str) -> None:
    server = served(WEB[0])
    ended = JobStatus(phase=Phase.FAILED, reason="Timeout")
    jobs = [
        job_on(WEB[0], f"job-{number}", status=ended, created_s=number // 100)
        for number in range(MAX_ENDED + 20)
    ]
    early, late = (jobs, []) if when == "before it starts" else (jobs[:-20], jobs[-20:])
    for job in early:
        server.put(job)
    async with MigratingController(server).running(*NODES) as process:
        await anyio.sleep(1)
        for job in late:
            process.fed.deliver(server.put(job))
        await anyio.sleep(1)

        assert server.jobs.keys() == {job.name for job in jobs[20:]}


async def test_a_job_in_a_phase_that_is_not_ours_is_left_alone() -> None:
    server = served()
    async with MigratingController(server).running(*NODES) as process:
        await process.make(job_on(WEB[0], status=JobStatus(Phase.ABORTED)))
        await anyio.sleep(10)

        assert server.evictions == []
        assert phases(server, "web-0") == [Phase.ABORTED]


# --- each finding makes a job ---

TAINTED = [node("n1", "gpu:NoSchedule"), node("n2"), node("n3")]
ON_N1 = [pod(f"web-{number}", on="n1") for number in range(6)]


def taints() -> NodeTaintsPlugin:
    """Return a plugin that finds every pod of n1."""
    return NodeTaintsPlugin(NodeTaintsArgs())


async def test_a_finding_makes_a_job_and_the_job_evicts_the_pod() -> None:
    server = served(*ON_N1[:1], pod("other", on="n2"), pod("third", on="n3"))
    async with MigratingController(server, None, taints()).running(*TAINTED) as process:
        await anyio.sleep(10)

        [job] = server.jobs.values()
        assert (job.trigger, job.pod.uid) == ("RemovePodsViolatingNodeTaints", "web-0")
        assert job.cause == "does not tolerate gpu:NoSchedule on n1"
        assert (job.phase, server.evictions) == (Phase.SUCCEEDED, ["web-0"])
        decisions = [
            (each.finding.plugin, getattr(each, "reason", "evict"))
            for _, each in process.fed.intent_store.decisions
        ]
        assert decisions == [
            ("RemovePodsViolatingNodeTaints", "MovedByMigrationJob"),
            ("RemovePodsViolatingNodeTaints", "evict"),
        ]


OTHERS = pod("other", on="n2"), pod("third", on="n3")


async def test_a_job_whose_taint_goes_while_its_intent_is_written_ends_without_a_request() -> None:
    server = served(*ON_N1[:1], *OTHERS)
    async with MigratingController(server, None, taints()).running(*TAINTED) as process:
        process.fed.intent_store.slow_s = 2.0
        while not process.fed.intent_store.begun:  # noqa: ASYNC110  the store notifies of nothing
            await anyio.sleep(0.1)
        process.fed.deliver(node("n1"))
        await anyio.sleep(60)
        [job] = server.jobs.values()
        assert server.evictions == []
        assert ending(server, job.name) == (Phase.ABORTED, "FindingEnded")


async def test_a_job_ends_whose_pod_the_policy_would_not_let_go_any_more() -> None:
    space = Namespace("default", labels={"move": "yes"})
    args = DefaultEvictorArgs.model_validate(
        {"namespaceLabelSelector": {"matchLabels": {"move": "yes"}}}, strict=False
    )
    server = served(*ON_N1[:1], *OTHERS)
    server.has_room = False
    process = MigratingController(server, RESERVING, taints(), evictor_args=args)
    async with process.running(*TAINTED, space):
        await anyio.sleep(10)
        [job] = server.jobs.values()
        assert (job.phase, server.evictions) == (Phase.RUNNING, [])
        process.fed.deliver(replace(space, labels={}))
        server.has_room = True
        await anyio.sleep(20)
        assert server.evictions == []
        assert ending(server, job.name) == (Phase.ABORTED, "FindingEnded")


async def test_the_job_of_another_program_is_not_asked_what_plugins_of_ours_find() -> None:
    server = served(*ON_N1[:1], *OTHERS)
    async with MigratingController(server, None, taints()).running(*NODES) as process:
        await process.make(replace(job_on(ON_N1[0]), trigger="RemovePodsViolatingNodeTaints"))
        await anyio.sleep(60)
        assert server.evictions == ["web-0"]


async def test_a_dry_run_shows_the_evictions_of_the_jobs_that_it_does_not_make() -> None:
    lone = pod("lone", on="n1", owner="ReplicaSet/lone")
    fed = FakeEdgesController(
        NodeTaintsPlugin(NodeTaintsArgs()),
        migration=MigrationJobSettings(),
        makes_jobs=True,
        dry_run=True,
    )
    fed.evictor.script = {each.name: [DryRun()] for each in WEB}
    async with fed.running():
        fed.sync_and_resume(*NODES, *WEB, lone)
        await anyio.sleep(1)
        fed.deliver(node("n1", "gpu:NoSchedule"))
        await anyio.sleep(60)

        assert sorted(fed.evicted_names) == sorted(each.name for each in WEB if each.node == "n1")
        reasons = {
            (decision.finding.pod.name, decision.reason)
            for _, decision in fed.intent_store.decisions
            if isinstance(decision, Defer | Refuse)
        }
        assert ("lone", "ExpectedReplicas") in reasons
        assert not any(reason == "MovedByMigrationJob" for _, reason in reasons)


async def test_moves_by_jobs_that_come_to_nothing_are_remembered_of_the_plugin() -> None:
    server = served(*ON_N1[:1], pod("other", on="n2"), pod("third", on="n3"))
    async with MigratingController(server, None, taints()).running(*TAINTED) as process:
        await anyio.sleep(1)
        [move] = process.fed.controller.ledger

        assert move.origin.plugin == "RemovePodsViolatingNodeTaints"


async def test_no_more_jobs_are_made_than_may_be_in_progress() -> None:
    server = served(*ON_N1, *WEB[10:])
    settings = MigrationJobSettings(max_migrating_per_node=2, max_migrating_per_workload=9)
    async with MigratingController(server, settings, taints()).running(*TAINTED):
        most = 0
        for _ in range(400):
            await anyio.sleep(0.1)
            most = max(most, sum(not job.has_ended for job in server.jobs.values()))

        assert most <= 2 + 1, "a job whose pod is gone counts for the node no more"
        assert {"web-0", "web-1", "web-2", "web-3", "web-4", "web-5"} <= set(server.evictions)


ANY_NUMBER = MigrationJobSettings(
    max_migrating_per_node=0,
    max_migrating_per_workload=99,
    max_unavailable_per_workload=99,
    skip_check_expected_replicas=True,
)

ELSEWHERE = [pod(f"other-{number}", on="n2") for number in range(3)]


@pytest.mark.parametrize("scope", ["cluster", "node", "namespace"])
async def test_no_more_jobs_are_made_than_the_policy_lets_evict(scope: str) -> None:
    server = served(*ON_N1, *ELSEWHERE)
    process = MigratingController(server, ANY_NUMBER, taints(), limits={scope: 2})
    async with process.running(*TAINTED):
        await anyio.sleep(200)
        assert len(server.jobs) == len(server.evictions) == 2
        await anyio.sleep(200)

        assert len(server.jobs) == len(server.evictions) == 4, "after five minutes two more"


@pytest.mark.parametrize("scope", ["cluster", "node", "namespace"])
async def test_no_job_is_made_that_would_time_out_before_a_slow_rate_lets_its_pod_go(
    scope: str,
) -> None:
    server = served(*ON_N1[:3])
    rates = {scope: TokenRate(1 / 600, 1)}
    process = MigratingController(server, ANY_NUMBER, taints(), rates=rates)
    async with process.running(*TAINTED):
        await anyio.sleep(440)
        assert len(server.jobs) == 3, "all three while there was a token"
        assert sum(job.phase is Phase.FAILED for job in server.jobs.values()) == 2
        await anyio.sleep(800)
        assert len(server.evictions) == 3

    assert [reason for _, _, reason in server.history].count("Timeout") == 2


async def test_an_eviction_that_no_longer_counts_makes_room_for_a_job_while_another_waits() -> None:
    server = served(*ON_N1, *ELSEWHERE)
    process = MigratingController(server, ANY_NUMBER, taints(), limits={"cluster": 2})
    for name in ("web-1", "web-2"):
        process.evictor.script[name] = [PdbRefused("no disruptions allowed")] * 999
    async with process.running(*TAINTED):
        await anyio.sleep(280)
        assert server.evictions == ["web-0"]
        assert len(server.jobs) == 2
        process.edit(next(name for name in server.jobs if "web-1" in name), ttl_s=0.0)
        await anyio.sleep(15)
        assert len(server.jobs) == 2, "the eviction still counts"
        await anyio.sleep(10)

        assert len([job for job in server.jobs.values() if job.pod.uid == "web-2"]) == 1


@pytest.mark.parametrize(("answered_after_s", "ends_after_s"), [(60.0, 2.0), (0.0, 60.0)])
async def test_an_eviction_of_a_job_counts_once(
    answered_after_s: float, ends_after_s: float
) -> None:
    server = served(*ON_N1[:1], *ELSEWHERE)
    server.ends_after_s = ends_after_s
    process = MigratingController(server, ANY_NUMBER, taints(), limits={"cluster": 2})
    process.evictor.slow_s = answered_after_s
    async with process.running(*TAINTED):
        await anyio.sleep(10)
        process.fed.deliver(ON_N1[1])
        await anyio.sleep(10)

        assert {job.pod.uid for job in server.jobs.values()} == {"web-0", "web-1"}


async def test_a_job_that_ends_without_an_eviction_leaves_its_room_to_another() -> None:
    server = served(*ON_N1, *ELSEWHERE)
    process = MigratingController(server, ANY_NUMBER, taints(), limits={"cluster": 1})
    process.evictor.script["web-0"] = [PdbRefused("no disruptions allowed")] * 99
    async with process.running(*TAINTED):
        await anyio.sleep(10)
        [job] = server.jobs.values()
        process.edit(job.name, is_to_be_aborted=True)
        await anyio.sleep(10)

        assert server.evictions == ["web-1"]


async def test_jobs_of_an_earlier_process_count_against_the_limits_of_the_policy() -> None:
    server = served(*ON_N1, *ELSEWHERE)
    refused = [PdbRefused("no disruptions allowed")] * 99
    for _ in range(2):
        process = MigratingController(server, ANY_NUMBER, taints(), limits={"cluster": 2})
        process.evictor.script = {each.name: list(refused) for each in ON_N1}
        async with process.running(*TAINTED):
            await anyio.sleep(20)

            assert len(server.jobs) == 2


async def test_a_job_on_its_way_to_the_api_server_counts_against_the_limits() -> None:
    server = served(*ON_N1[:2], *WEB[10:12])
    server.makes_after_s = 2.0
    settings = MigrationJobSettings(max_migrating_globally=1)
    async with MigratingController(server, settings, taints()).running(*TAINTED) as process:
        await anyio.sleep(0.5)
        await process.make(replace(job_on(WEB[10]), pod=PodReference("default")))
        await anyio.sleep(2.5)

        assert len([job for job in server.jobs.values() if job.trigger]) == 1


async def test_a_job_that_cannot_be_made_is_tried_again_a_minute_later() -> None:
    server = served(*ON_N1[:1], *WEB[10:12])
    server.is_down = True
    async with MigratingController(server, None, taints()).running(*TAINTED) as process:
        await anyio.sleep(10)
        reasons = [
            each.reason
            for _, each in process.fed.intent_store.decisions
            if isinstance(each, Refuse | Defer)
        ]
        assert reasons == ["MovedByMigrationJob", "MigrationJobFailed"]
        server.is_down = False
        await anyio.sleep(40)
        assert not server.jobs
        await anyio.sleep(30)

        assert server.evictions == ["web-0"]


async def test_after_a_job_that_failed_the_next_one_waits_a_minute() -> None:
    server = served(*ON_N1[:1], *WEB[10:12])
    async with MigratingController(server, None, taints()).running(*TAINTED) as process:
        process.evictor.script["web-0"] = [PdbRefused("no disruptions allowed")] * 999
        await anyio.sleep(1)
        [first] = server.jobs
        process.edit(first, is_to_be_aborted=True)
        await anyio.sleep(50)
        assert list(server.jobs) == [first]
        await anyio.sleep(20)

        assert len(server.jobs) == 2


# --- a place is kept first ---

RESERVING = MigrationJobSettings(
    default_job_mode=Mode.RESERVATION_FIRST, placeholder=PlaceholderSettings()
)


def successor(of: Pod) -> Pod:
    """Return the pod that a controller makes in place of another; the scheduler finds no node."""
    name = f"{of.name}-next"
    return replace(of, name=name, uid=name, node="", status=NO_NODE)


NO_NODE = PodStatus("Pending", conditions=(PodCondition("PodScheduled", "False", "Unschedulable"),))


def fresh(of: Pod, name: str = "") -> Pod:
    """Return a pod made now in place of another, of which the scheduler says nothing yet."""
    made = replace(successor(of), status=PodStatus(), created_s=int(anyio.current_time()))
    return replace(made, name=name, uid=name) if name else made


def steps(server: JobServer, name: str) -> list[tuple[str, str]]:
    """Return the conditions of a job."""
    return [(each.type, each.status) for each in server.jobs[name].status.conditions]


async def test_a_pod_is_evicted_once_a_placeholder_has_a_node_and_its_place_is_given_away(
    golden: Golden,
) -> None:
    server = served()
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        process.fed.deliver(server.put(job_on(WEB[0])))
        await anyio.sleep(0.3)
        assert server.placeholders == ["placeholder-job-web-0"]
        assert server.evictions == [], "the placeholder has no node yet"
        await anyio.sleep(1)
        assert server.evictions == ["web-0"]
        assert "placeholder-job-web-0" in server.pods, "no replacement waits yet"
        process.fed.deliver(successor(WEB[0]))
        await anyio.sleep(0.1)
        assert "placeholder-job-web-0" not in server.pods
        await anyio.sleep(5)

        assert ending(server, "web-0") == (Phase.SUCCEEDED, "")
        status, following = server.jobs["web-0"].status, successor(WEB[0])
        assert status.node == "n3"
        assert status.replacement == PodReference("default", following.name, following.uid)
        assert status.message.endswith(golden(following=following))
        assert steps(server, "web-0") == [
            ("ReservationCreated", "True"),
            ("ReservationScheduled", "True"),
            ("Eviction", "True"),
        ]


@pytest.mark.parametrize(
    "node",
    ["n3", "n2"],
)
async def test_the_job_says_whether_the_replacement_took_the_place(
    node: str, golden: Golden
) -> None:
    server = served()
    following = successor(WEB[0])
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        process.fed.deliver(server.put(job_on(WEB[0])))
        await anyio.sleep(1.5)
        process.fed.deliver(following)
        await anyio.sleep(0.1)
        process.fed.deliver(replace(following, node=node))
        await anyio.sleep(5)

        assert ending(server, "web-0") == (Phase.SUCCEEDED, "")
        assert server.jobs["web-0"].status.message.endswith(f'Pod "{following}" {golden()}')


async def test_a_place_is_given_away_once_the_scheduler_has_tried_the_replacement() -> None:
    server = served()
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        process.fed.deliver(server.put(job_on(WEB[0])))
        await anyio.sleep(1.5)
        made = fresh(WEB[0])
        process.fed.deliver(made)
        await anyio.sleep(1)
        assert "placeholder-job-web-0" in server.pods, "an attempt under way undoes a nomination"
        process.fed.deliver(replace(made, status=NO_NODE))
        await anyio.sleep(0.1)

        assert "placeholder-job-web-0" not in server.pods


async def test_a_scheduler_that_says_nothing_is_awaited_for_some_seconds() -> None:
    server = served()
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        process.fed.deliver(server.put(job_on(WEB[0])))
        await anyio.sleep(3.5)
        assert "web-0" not in server.pods
        process.fed.deliver(fresh(WEB[0]))
        await anyio.sleep(1)
        assert "placeholder-job-web-0" in server.pods
        assert server.jobs["web-0"].phase is Phase.RUNNING
        await anyio.sleep(5)

        assert "placeholder-job-web-0" not in server.pods
        assert ending(server, "web-0") == (Phase.SUCCEEDED, "")


async def test_the_place_is_kept_for_no_replacement_that_got_a_node_at_once() -> None:
    server = served()
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        process.fed.deliver(server.put(job_on(WEB[0])))
        await anyio.sleep(1.5)
        made = fresh(WEB[0])
        process.fed.deliver(made)
        await anyio.sleep(0.1)
        process.fed.deliver(replace(made, node="n2"))
        await anyio.sleep(0.1)

        assert "placeholder-job-web-0" not in server.pods
        await anyio.sleep(5)
        taken_by = PodReference("default", made.name, made.uid)
        assert server.jobs["web-0"].status.replacement == taken_by


async def test_a_replacement_that_is_deleted_at_once_makes_way_for_the_next() -> None:
    server = served()
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        process.fed.deliver(server.put(job_on(WEB[0])))
        await anyio.sleep(1.5)
        first = fresh(WEB[0], "first")
        process.fed.deliver(first)
        await anyio.sleep(0.1)
        process.fed.delete(first)
        process.fed.deliver(replace(fresh(WEB[0], "second"), status=NO_NODE))
        await anyio.sleep(0.1)

        assert "placeholder-job-web-0" not in server.pods
        await anyio.sleep(5)
        assert server.jobs["web-0"].status.replacement == PodReference(
            "default", "second", "second"
        )


DB = [pod(f"db-{number}", on=f"n{number % 3 + 1}", owner="StatefulSet/db") for number in range(9)]


async def test_a_place_is_kept_for_a_late_pod_of_a_stateful_set_and_for_half_a_minute_only() -> (
    None
):
    server = served(*DB)
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        await process.make(job_on(DB[0]))
        await anyio.sleep(20)
        assert "db-0" not in server.pods
        assert server.jobs["db-0"].phase is Phase.RUNNING
        assert "placeholder-job-db-0" in server.pods

        process.fed.deliver(successor(DB[1]))
        await anyio.sleep(0.1)
        assert "placeholder-job-db-0" in server.pods, "a pod of another name waits"
        process.fed.delete(successor(DB[1]))
        next_db = replace(successor(DB[0]), name="db-0")
        process.fed.deliver(next_db)
        await anyio.sleep(1)
        assert "placeholder-job-db-0" not in server.pods
        assert ending(server, "db-0") == (Phase.SUCCEEDED, "")
        process.fed.delete(next_db)
        await process.make(job_on(DB[1]))
        await anyio.sleep(45)
        assert ending(server, "db-1") == (Phase.SUCCEEDED, "")
        assert "placeholder-job-db-1" not in server.pods


async def test_where_no_pod_of_a_replica_set_waits_soon_the_place_is_given_up() -> None:
    server = served()
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        await process.make(job_on(WEB[0]))
        await anyio.sleep(3.5)
        assert "web-0" not in server.pods
        assert "placeholder-job-web-0" in server.pods
        await anyio.sleep(3)

        assert ending(server, "web-0") == (Phase.SUCCEEDED, "")
        assert "placeholder-job-web-0" not in server.pods


async def test_of_two_places_each_is_given_to_a_pod_of_its_own() -> None:
    server = served()
    settings = RESERVING.model_copy(
        update={"max_migrating_per_workload": 9, "max_unavailable_per_workload": 9}
    )
    async with MigratingController(server, settings).running(*NODES) as process:
        process.fed.deliver(server.put(job_on(WEB[0])))
        process.fed.deliver(server.put(job_on(WEB[1])))
        await anyio.sleep(1)
        assert sorted(server.evictions) == ["web-0", "web-1"]
        elsewhere = PodStatus(nominated_node="n2")
        process.fed.deliver(replace(successor(WEB[0]), status=elsewhere))
        await anyio.sleep(0.1)

        assert {"placeholder-job-web-0", "placeholder-job-web-1"} <= server.pods.keys()


async def test_in_a_full_cluster_nothing_is_evicted_and_no_placeholder_is_left() -> None:
    server = served()
    server.has_room = False
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        await process.make(job_on(WEB[0], ttl_s=60.0))
        await anyio.sleep(50)
        assert len(server.pods) == 21
        await anyio.sleep(30)

        assert ending(server, "web-0") == (Phase.FAILED, "Timeout")
        assert server.evictions == []
        assert len(server.pods) == 20


async def test_a_placeholder_that_is_gone_before_the_eviction_fails_the_job() -> None:
    server = served()
    server.has_room = False
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        await process.make(job_on(WEB[0]))
        await anyio.sleep(1)
        process.delete_pod(server.pods["placeholder-job-web-0"])
        await anyio.sleep(5)

        assert ending(server, "web-0") == (Phase.FAILED, "MissingReservation")
        assert server.evictions == []


@pytest.mark.parametrize("fields", [{"pvc_names": ("missing",)}, {"owners": ()}])
async def test_a_pod_for_which_no_placeholder_can_stand_in_stays(fields: dict[str, Any]) -> None:
    one = replace(WEB[0], **fields)
    server = served(one, *WEB[1:])
    async with MigratingController(server, RESERVING).running(*NODES) as process:
        await process.make(job_on(one))
        await anyio.sleep(5)

        assert ending(server, "web-0") == (Phase.FAILED, "ForbiddenMigratePod")
        assert (server.evictions, server.placeholders) == ([], [])


@pytest.mark.parametrize(
    ("then", "evicted"),
    [
        pytest.param(node("n1"), [], id="taken off"),
        pytest.param(TAINTED[0], ["web-0"], id="there still"),
    ],
)
async def test_a_job_whose_taint_is_off_when_its_place_is_there_ends_and_its_pod_stays(
    then: Node, evicted: list[str]
) -> None:
    server = served(*ON_N1[:1], *OTHERS)
    server.has_room = False
    async with MigratingController(server, RESERVING, taints()).running(*TAINTED) as process:
        await anyio.sleep(10)
        [job] = server.jobs.values()
        assert (job.phase, server.evictions) == (Phase.RUNNING, [])
        process.fed.deliver(then)
        server.has_room = True
        await anyio.sleep(20)

        assert server.evictions == evicted
        is_ended = ending(server, job.name) == (Phase.ABORTED, "FindingEnded")
        assert is_ended is not bool(evicted)
        if is_ended:
            assert not any(name.startswith("placeholder") for name in server.pods)
