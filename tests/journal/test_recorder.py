import itertools
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from reactive_desched.api import event as api
from reactive_desched.journal.cluster import ClusterIdentity
from reactive_desched.journal.event_builder import policy_file_payload
from reactive_desched.journal.events import read_events
from reactive_desched.journal.journal import Journal
from reactive_desched.journal.recorder import MAX_PROBLEMS, JournalRecorder
from reactive_desched.journal.records import AnyEvent
from reactive_desched.model.decisions import Defer, Evict, Refuse
from reactive_desched.model.disruptions import EndedPod
from reactive_desched.model.evaluation import DecisionContext, Intent, Trigger
from reactive_desched.model.eviction_options import EvictionOptions
from reactive_desched.model.evictor_table import EVICTORS
from reactive_desched.model.findings import Finding
from reactive_desched.model.kube_events import Regarding
from reactive_desched.model.migration_jobs import MigrationStep
from reactive_desched.model.moves import MoveEnd
from reactive_desched.model.objects import OwnerReference, Pod, PodStatus
from reactive_desched.model.outcomes import (
    CANCELLED,
    DRY_RUN,
    EVICTED,
    EVICTED_LATE,
    NOT_FOUND,
    PDB_REFUSED,
    POD_STILL_RUNNING,
    UNKNOWN,
    Outcome,
)
from reactive_desched.policy.settings.recording import DisruptionSettings
from reactive_desched.primitives.token_bucket import TokenRate

pytestmark = pytest.mark.anyio

Running = Callable[..., AbstractAsyncContextManager[Journal]]
SET = OwnerReference("ReplicaSet", "web-6d4", "set-uid", controller=True, api_version="apps/v1")
TOP = OwnerReference("Deployment", "web", "top-uid", controller=True, api_version="apps/v1")
POD = Pod(namespace="shop", name="web-1", uid="u1", node="n1", owners=(SET,))
FINDING = Finding(POD, "PodLifeTime", "older than a day", details={"ageSeconds": 90_000})
ACCOUNT = DecisionContext(
    FINDING, "nightly", Trigger("NodeTaintsChanged", "node n1", "812"), (SET, TOP), "north"
)
PLENTY = TokenRate(1000.0, 1000)
SERVER_TIMES = [datetime(2026, 11, 23, 12, minute, tzinfo=UTC) for minute in (1, 2, 3)]


@pytest.fixture
def make(clock: Callable[[], datetime]) -> Callable[..., JournalRecorder]:
    def make(
        journal: Journal,
        decisions: TokenRate = PLENTY,
        *,
        dry_run: bool = False,
        disruptions: Callable[[], DisruptionSettings] = DisruptionSettings,
    ) -> JournalRecorder:
        ledger = JournalRecorder(
            journal, clock, decision_rate=decisions, dry_run=dry_run, disruptions=disruptions
        )
        ledger.policy_loaded("policy.yaml", "r1")
        return ledger

    return make


def told(directory: Path) -> list[AnyEvent]:
    """Return what the ledger wrote, without the journal's own records."""
    return [e for e in read_events(directory) if e.type not in (api.CHECKPOINT, api.POLICY_LOADED)]


async def test_records_from_trigger_to_outcome_are_under_one_case(
    running: Running, make: Callable[..., JournalRecorder], tmp_path: Path
) -> None:
    async with running() as journal:
        ledger = make(journal)
        ledger.record_decision(
            ACCOUNT, Refuse(FINDING, "NodeFit", "NoOtherNodeFits", "nothing fits on 3 nodes")
        )
        ledger.record_decision(
            ACCOUNT, Defer(FINDING, "EvictionRateLimit", "EvictionRateLimited", "spent", 9.0)
        )
        ledger.record_decision(ACCOUNT, Evict(FINDING))
        key = await ledger.record_intent(Intent(ACCOUNT, grace_period_s=7))
        assert [intent.id for intent in ledger.open_intents()] == [key]
        await ledger.record_outcome(key, Outcome(EVICTED))
        assert ledger.open_intents() == ()

    events = told(tmp_path)
    assert [event.type for event in events] == [
        api.FINDING_MADE,
        api.DECISION_REFUSE,
        api.DECISION_DEFER,
        api.DECISION_EVICT,
        api.EVICTION_REQUESTED,
        api.EVICTION_SUCCEEDED,
    ]
    finding, refuse, defer, evict, requested, ended = events
    assert len({event.correlationid for event in events}) == 1
    assert [event.causationid for event in events] == [
        "NodeTaintsChanged node n1/812",
        finding.id,
        finding.id,
        finding.id,
        evict.id,
        requested.id,
    ]
    assert {(event.subject, event.partitionkey) for event in events} == {("shop/web-1", "top-uid")}
    assert refuse.data.decision == api.Verdict(
        verdict="refuse",
        gate="NodeFit",
        reason="NoOtherNodeFits",
        message="nothing fits on 3 nodes",
    )
    assert defer.data.decision.gate == "EvictionRateLimit"
    assert (requested.data.attempt, requested.data.what.grace_period_seconds) == (1, 7)
    assert (ended.data.attempt, ended.data.outcome.result) == (1, "evicted")


async def test_every_event_about_a_pod_says_who_why_and_what_led_to_it(
    running: Running, make: Callable[..., JournalRecorder], tmp_path: Path
) -> None:
    async with running() as journal:
        ledger = make(journal)
        key = await ledger.record_intent(Intent(ACCOUNT))
        await ledger.record_outcome(key, Outcome(PDB_REFUSED, "web needs 2 pods"))

    for event in told(tmp_path):
        data = event.data
        assert data.mode == "live"
        assert data.who == api.Who(
            name="web-1",
            namespace="shop",
            node="n1",
            owners=(
                api.Owner(api_version="apps/v1", kind="ReplicaSet", name="web-6d4", uid="set-uid"),
                api.Owner(api_version="apps/v1", kind="Deployment", name="web", uid="top-uid"),
            ),
            uid="u1",
            zone="north",
        )
        assert data.why == api.Why(
            message="older than a day",
            numbers={"ageSeconds": 90_000},
            plugin="PodLifeTime",
            policy_revision="r1",
            profile="nightly",
        )
        assert data.trigger == api.Cause(
            change="NodeTaintsChanged", object="node n1", resource_version="812"
        )


async def test_an_eviction_has_the_uptime_of_the_machine_and_the_servers_time_at_each_step(
    running: Running, clock: Callable[[], datetime], tmp_path: Path
) -> None:
    up_ms = itertools.count(5000, 1000)
    times = iter(SERVER_TIMES)
    async with running() as journal:
        recorder = JournalRecorder(
            journal,
            clock,
            decision_rate=PLENTY,
            uptime=lambda: api.Uptime(boot_id="a boot", milliseconds=next(up_ms)),
            server_time=lambda: next(times),
        )
        intent_id = await recorder.record_intent(Intent(ACCOUNT))
        await recorder.record_outcome(intent_id, Outcome(EVICTED))
        recorder.record_follow_up(intent_id, MoveEnd("moved"))

    uptimes = [getattr(event.data, "uptime", None) for event in told(tmp_path)]
    assert [each.milliseconds for each in uptimes if each is not None] == [5000, 6000, 7000]
    found = [getattr(event.data, "server_time", None) for event in told(tmp_path)]
    assert [each for each in found if each is not None] == SERVER_TIMES


@pytest.mark.parametrize(
    ("result", "type_"),
    [
        (EVICTED, api.EVICTION_SUCCEEDED),
        (UNKNOWN, api.EVICTION_UNKNOWN),
        (PDB_REFUSED, api.EVICTION_REFUSED),
        (NOT_FOUND, api.EVICTION_REFUSED),
        (CANCELLED, api.EVICTION_REFUSED),
    ],
)
async def test_the_type_of_an_outcome_says_how_it_ended(
    running: Running, make: Callable[..., JournalRecorder], tmp_path: Path, result: str, type_: str
) -> None:
    async with running() as journal:
        ledger = make(journal)
        await ledger.record_outcome(await ledger.record_intent(Intent(ACCOUNT)), Outcome(result))

    assert told(tmp_path)[-1].type == type_


async def test_a_dry_run_never_says_that_an_eviction_succeeded(
    running: Running, make: Callable[..., JournalRecorder], tmp_path: Path
) -> None:
    async with running() as journal:
        ledger = make(journal, dry_run=True)
        ledger.record_decision(ACCOUNT, Evict(FINDING))
        await ledger.record_outcome(await ledger.record_intent(Intent(ACCOUNT)), Outcome(DRY_RUN))

    last = told(tmp_path)[-1]
    assert (last.type, last.data.outcome.result) == (api.EVICTION_DRY_RUN, "dry_run")
    assert {event.data.mode for event in told(tmp_path)} == {"dry_run"}


async def test_a_refused_eviction_is_tried_again_within_its_case_and_a_new_case_follows_the_last(
    running: Running, make: Callable[..., JournalRecorder], tmp_path: Path
) -> None:
    async with running() as journal:
        ledger = make(journal)
        for result in (PDB_REFUSED, EVICTED, EVICTED):
            ledger.record_decision(ACCOUNT, Evict(FINDING))
            await ledger.record_outcome(
                await ledger.record_intent(Intent(ACCOUNT)), Outcome(result)
            )

    events = told(tmp_path)
    first, second, third = (e for e in events if e.type == api.EVICTION_REQUESTED)
    assert first.correlationid == second.correlationid != third.correlationid
    assert [e.data.attempt for e in (first, second, third)] == [1, 2, 1]
    assert len({event.id for event in events}) == len(events)


async def test_other_profiles_plugins_and_pods_have_cases_of_their_own(
    running: Running, make: Callable[..., JournalRecorder], tmp_path: Path
) -> None:
    replace = msgspec.structs.replace
    other_pod = replace(FINDING, pod=replace(POD, uid="u2"))
    accounts = [
        ACCOUNT,
        replace(ACCOUNT, profile="daily"),
        replace(ACCOUNT, finding=replace(FINDING, plugin="Other")),
        replace(ACCOUNT, finding=other_pod),
    ]
    async with running() as journal:
        ledger = make(journal)
        for account in accounts:
            ledger.record_decision(account, Evict(account.finding))

    cases = {e.correlationid for e in told(tmp_path)}
    assert len(cases) == 4


async def test_a_bare_pods_order_holds_within_the_pod(
    running: Running, make: Callable[..., JournalRecorder], tmp_path: Path
) -> None:
    async with running() as journal:
        make(journal).record_decision(DecisionContext(FINDING), Evict(FINDING))

    assert {event.partitionkey for event in told(tmp_path)} == {"u1"}


async def test_ids_follow_from_the_past_and_never_come_back_in_another_process(
    running: Running, make: Callable[..., JournalRecorder], tmp_path: Path
) -> None:
    for _ in range(2):
        async with running() as journal:
            ledger = make(journal)
            ledger.record_decision(ACCOUNT, Evict(FINDING))

    ids = [event.id for event in read_events(tmp_path)]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(("phase", "recorded"), [("Failed", "Failed"), ("Running", "")])
async def test_a_request_has_the_phase_of_a_pod_that_has_ended(
    running: Running,
    make: Callable[..., JournalRecorder],
    tmp_path: Path,
    *,
    phase: str,
    recorded: str,
) -> None:
    found = replace(FINDING, pod=replace(POD, status=PodStatus(phase)))
    async with running() as journal:
        ledger = make(journal)
        await ledger.record_intent(Intent(replace(ACCOUNT, finding=found)))

    [requested] = [each for each in told(tmp_path) if each.type == api.EVICTION_REQUESTED]
    assert requested.data.phase == recorded


@pytest.mark.parametrize("policy", EVICTORS)
async def test_an_intent_that_was_left_open_says_how_its_pod_was_asked_to_leave(
    running: Running, make: Callable[..., JournalRecorder], policy: str
) -> None:
    finding = msgspec.structs.replace(FINDING, options=EvictionOptions(policy))
    async with running() as journal:
        await make(journal).record_intent(Intent(DecisionContext(finding, "nightly")))

    async with running() as journal:
        assert [intent.options.evictor for intent in journal.open_intents] == [policy]


async def test_beyond_their_rate_decisions_are_counted_and_evictions_still_recorded(
    running: Running, make: Callable[..., JournalRecorder], tmp_path: Path
) -> None:
    async with running() as journal:
        ledger = make(journal, TokenRate(1e-9, 2))
        for uid in "abcd":
            finding = msgspec.structs.replace(FINDING, pod=msgspec.structs.replace(POD, uid=uid))
            ledger.record_decision(
                DecisionContext(finding), Refuse(finding, "NodeFit", "NoNodeFits", "no")
            )
        ledger.record_decision(ACCOUNT, Evict(FINDING))
        assert journal.records_unrecorded == 2

    types = [event.type for event in told(tmp_path)]
    assert types.count(api.DECISION_REFUSE) == 2
    assert types[-2:] == [api.FINDING_MADE, api.DECISION_EVICT]


async def test_policies_are_recorded_with_what_is_wrong_with_them(
    running: Running, make: Callable[..., JournalRecorder], tmp_path: Path
) -> None:
    async with running() as journal:
        ledger = make(journal)
        ledger.policy_rejected("policy.yaml", ("line 3: no",) * 100)
        ledger.policy_loaded("policy.yaml", "r2")
        ledger.record_decision(ACCOUNT, Evict(FINDING))

    events = list(read_events(tmp_path))
    [rejected] = [e for e in events if e.type == api.POLICY_REJECTED]
    assert (rejected.data.kept, rejected.data.problems) == ("r1", ("line 3: no",) * MAX_PROBLEMS)
    assert [e.data.revision for e in events if e.type == api.POLICY_LOADED] == ["r1", "r2"]
    assert told(tmp_path)[-1].data.why.policy_revision == "r2"


async def test_a_policy_is_recorded_with_its_cluster_and_each_text_once(
    running: Running, clock: Callable[[], datetime], tmp_path: Path
) -> None:
    first = api.PolicyFile(name="policy.yaml", sha256="a" * 64, text="kind: DeschedulerPolicy")
    other = api.PolicyFile(name="policy.yaml", sha256="b" * 64, text="profiles: []")
    async with running() as journal:
        cluster = ClusterIdentity("prod", "uid-1", is_named=True)
        ledger = JournalRecorder(journal, clock, decision_rate=PLENTY, cluster=cluster)
        for file in (first, other, first):
            ledger.policy_loaded("policy.yaml", file.sha256[:12], (file,))

    loaded = [e.data for e in read_events(tmp_path) if e.type == api.POLICY_LOADED]
    assert [(data.cluster, data.cluster_uid) for data in loaded] == [("prod", "uid-1")] * 3
    assert [data.files for data in loaded] == [
        (first,),
        (other,),
        (api.PolicyFile(name="policy.yaml", sha256="a" * 64),),
    ]


@pytest.mark.parametrize(
    ("text", "recorded"),
    [
        pytest.param(
            "url: https://hooks.example/T0/B1?key=k3y # ours",
            "url: https://hooks.example/[redacted] # ours",
            id="what stands behind the host",
        ),
        pytest.param(
            "url: 'https://me:pw@host:1/in'", "url: 'https://host:1/[redacted]'", id="who"
        ),
        pytest.param("{url: http://host:80}", "{url: http://host:80}", id="a bare address"),
        pytest.param("a: Bearer c4n4ryc4n4ry", "a: Bearer [redacted]", id="a token"),
        pytest.param("# Łódź", "# Łódź", id="any language"),
        pytest.param("#" * 50_000, "", id="too long"),
    ],
)
def test_the_recorded_text_of_a_policy_holds_no_secret(text: str, recorded: str) -> None:
    assert policy_file_payload("policy.yaml", "a" * 64, text).text == recorded


async def test_a_loss_is_durable_when_it_was_reported(
    running: Running, make: Callable[..., JournalRecorder], tmp_path: Path
) -> None:
    async with running() as journal:
        await make(journal).record_loss("kafka", 3, 9)
        [lost] = [e for e in read_events(tmp_path) if e.type == api.JOURNAL_LOST]

    assert lost.data == api.JournalLost(first=3, last=9, sink="kafka")


async def test_no_text_is_so_long_that_its_record_is_refused(
    running: Running, make: Callable[..., JournalRecorder], tmp_path: Path
) -> None:
    long = "\x00" * 300_000  # the longest a character can become
    finding = Finding(POD, "PodLifeTime", long, details={"seen": long, "bytes": 2**63})
    account = DecisionContext(finding, "nightly", ACCOUNT.trigger, (SET, TOP), "north")
    async with running() as journal:
        ledger = make(journal)
        ledger.policy_rejected("policy.yaml", (long,) * MAX_PROBLEMS)
        ledger.record_decision(account, Refuse(finding, "NodeFit", "NoNodeFits", long))
        ledger.record_decision(
            account, Defer(finding, "EvictionRateLimit", "EvictionRateLimited", long, 9.0)
        )
        key = await ledger.record_intent(Intent(account))
        await ledger.record_outcome(key, Outcome(NOT_FOUND, long))

    *_, ended = told(tmp_path)
    assert ended.data.outcome.message.endswith("… (295904 more characters)")
    assert ended.data.why.numbers["bytes"] == str(2**63)  # doubles hold no such number


async def test_a_change_of_leader_is_written_with_both_names(
    running: Running, make: Callable[..., JournalRecorder], tmp_path: Path
) -> None:
    async with running() as journal:
        ledger = make(journal)
        for holder, previous in ("a_1", "b_2"), ("", "a_1"):
            data = api.LeaderChanged(holder=holder, previous=previous, transitions=4)
            ledger.record(data, "leader", version="4", cause="lease")

    first, second = told(tmp_path)
    assert (first.type, first.subject, first.causationid) == (api.LEADER_CHANGED, "leader", "lease")
    assert first.data == api.LeaderChanged(holder="a_1", previous="b_2", transitions=4)
    assert second.data == api.LeaderChanged(holder="", previous="a_1", transitions=4)
    assert first.correlationid == second.correlationid
    assert first.id != second.id


async def test_an_event_of_a_pod_joins_the_case_that_is_open_of_it(
    running: Running, make: Callable[..., JournalRecorder], tmp_path: Path
) -> None:
    async with running() as journal:
        ledger = make(journal)
        key = await ledger.record_intent(Intent(ACCOUNT))
        found = next(event for event in told(tmp_path) if event.type == api.FINDING_MADE)
        assert ledger.open_intents()[0].id == key
        data = api.DisruptionObserved(cause="Deleted", who=found.data.who)
        ledger.record(data, "disruption", cause="pod shop/web")
        other = replace(found.data.who, uid="another")
        ledger.record(replace(data, who=other), "disruption")

    *_, joined, alone = told(tmp_path)
    assert joined.type == alone.type == api.DISRUPTION_OBSERVED
    assert (joined.subject, joined.partitionkey) == (found.subject, found.partitionkey)
    assert joined.correlationid == found.correlationid
    assert alone.correlationid == alone.id != joined.id
    assert joined.causationid == "pod shop/web"


MARKED = EndedPod(
    *(POD, "PreemptionByScheduler", "for another"),
    is_marked=True,
    since_s=1_700_000_000,
    owners=(SET, TOP),
    zone="north",
)
UNEXPLAINED = EndedPod(POD, "Deleted", "nothing says by whom", owners=(SET, TOP))
EXPLAINED = EndedPod(POD, "ScaledDown", "wants 1", is_explained=True, owners=(SET, TOP))


def other(ended: EndedPod, uid: str) -> EndedPod:
    return msgspec.structs.replace(ended, pod=msgspec.structs.replace(POD, uid=uid))


async def test_the_end_of_a_pod_by_something_else_says_what_when_and_of_which_owner(
    running: Running, make: Callable[..., JournalRecorder], tmp_path: Path
) -> None:
    async with running() as journal:
        make(journal).record_disruption(MARKED)

    [event] = told(tmp_path)
    assert event.type == api.DISRUPTION_OBSERVED
    assert (event.id, event.correlationid) == ("u1.disruption", "u1.disruption")
    assert (event.subject, event.partitionkey) == ("shop/web-1", "top-uid")
    assert (event.data.cause, event.data.message) == ("PreemptionByScheduler", "for another")
    assert event.data.since == datetime.fromtimestamp(1_700_000_000, UTC)
    who = event.data.who
    assert (who.node, who.zone, [each.name for each in who.owners]) == (
        "n1",
        "north",
        ["web-6d4", "web"],
    )


async def test_the_end_of_a_pod_belongs_to_its_open_case_and_ends_it(
    running: Running, make: Callable[..., JournalRecorder], tmp_path: Path
) -> None:
    async with running() as journal:
        recorder = make(journal)
        recorder.record_decision(ACCOUNT, Refuse(FINDING, "NodeFit", "NoOtherNodeFits", "none"))
        recorder.record_disruption(MARKED)
        recorder.record_decision(ACCOUNT, Evict(FINDING))

    finding, refuse, ended, again, _ = told(tmp_path)
    assert finding.correlationid == refuse.correlationid == ended.correlationid
    assert again.type == api.FINDING_MADE
    assert again.correlationid != finding.correlationid


@pytest.mark.parametrize(
    ("record", "recorded"),
    [
        ("none", []),
        ("marked", ["a"]),
        ("unexplained", ["a", "b"]),
        ("all", ["a", "b", "c"]),
    ],
)
async def test_the_settings_in_force_say_which_ends_are_recorded(
    running: Running,
    make: Callable[..., JournalRecorder],
    tmp_path: Path,
    record: Any,
    recorded: list[str],
) -> None:
    settings = [DisruptionSettings(record="none")]
    async with running() as journal:
        recorder = make(journal, disruptions=lambda: settings[-1])
        settings.append(DisruptionSettings(record=record))
        for uid, ended in zip("abc", (MARKED, UNEXPLAINED, EXPLAINED), strict=True):
            recorder.record_disruption(other(ended, uid))

    assert [event.data.who.uid for event in told(tmp_path)] == recorded


async def test_ends_of_pods_beyond_their_rate_are_counted_in_the_next_checkpoint(
    running: Running, make: Callable[..., JournalRecorder], tmp_path: Path
) -> None:
    async with running() as journal:
        slow = DisruptionSettings(per_second=1e-9, burst=2)
        recorder = make(journal, disruptions=lambda: slow)
        for uid in "abcd":
            recorder.record_disruption(other(MARKED, uid))
        assert (journal.disruptions_unrecorded, journal.records_unrecorded) == (2, 0)

    assert [event.data.who.uid for event in told(tmp_path)] == ["a", "b"]
    seals = [e.data for e in read_events(tmp_path) if e.type == api.CHECKPOINT]
    assert sum(seal.unrecorded_disruptions for seal in seals) == 2
    assert sum(seal.unrecorded for seal in seals) == 0


async def test_a_correction_names_the_outcome_that_it_corrects_and_is_followed_up_once(
    running: Running, make: Callable[..., JournalRecorder], tmp_path: Path
) -> None:
    async with running() as journal:
        recorder = make(journal)
        request = await recorder.record_intent(Intent(ACCOUNT))
        await recorder.record_outcome(request, POD_STILL_RUNNING.outcome("still there"))
        recorder.record_correction(request, EVICTED_LATE.outcome("evicted later"))
        recorder.record_correction(request, EVICTED_LATE.outcome("evicted later"))
        recorder.record_follow_up(request, MoveEnd("moved"))

    *_, requested, failed, corrected, followed = told(tmp_path)
    assert [e.type for e in (failed, corrected, followed)] == [
        api.EVICTION_REFUSED,
        api.EVICTION_CORRECTED,
        api.EVICTION_FOLLOWED_UP,
    ]
    assert corrected.data.corrects == corrected.causationid == followed.causationid == failed.id
    assert corrected.correlationid == requested.correlationid
    outcome = corrected.data.outcome
    assert (outcome.result, outcome.reason) == ("unknown", "EvictedLater")
    assert len({e.id for e in (requested, failed, corrected, followed)}) == 4


async def test_an_outcome_that_the_api_server_gave_is_not_corrected(
    running: Running, make: Callable[..., JournalRecorder], tmp_path: Path
) -> None:
    async with running() as journal:
        recorder = make(journal)
        request = await recorder.record_intent(Intent(ACCOUNT))
        await recorder.record_outcome(request, Outcome(PDB_REFUSED))
        recorder.record_correction(request, EVICTED_LATE.outcome("evicted later"))

    assert api.EVICTION_CORRECTED not in [event.type for event in told(tmp_path)]


async def test_what_is_done_for_a_migration_job_belongs_to_the_case_of_its_finding(
    running: Running, make: Callable[..., JournalRecorder], tmp_path: Path
) -> None:
    about = Regarding("Reservation", "", "job-uid", "r1", "scheduling.koordinator.sh/v1alpha1")
    step = MigrationStep("create", about, "migrate-web", POD, "done", trigger="PodLifeTime")
    async with running() as journal:
        recorder = make(journal)
        recorder.record_decision(ACCOUNT, Refuse(FINDING, "MigrationJob", "Moved", "job"))
        recorder.record_migration_step(step)
        key = await recorder.record_intent(Intent(ACCOUNT))
        await recorder.record_outcome(key, Outcome(EVICTED))
        recorder.record_migration_step(msgspec.structs.replace(step, action="end"))
        recorder.record_migration_step(msgspec.structs.replace(step, job="another"))

    finding, _, own, _, _, later, others = told(tmp_path)
    assert own.correlationid == later.correlationid == finding.correlationid
    assert others.correlationid == "u1.migration"
    assert len({own.id, later.id, others.id}) == 3
    data = own.data
    assert (data.action, data.job, data.result) == ("create", "migrate-web", "done")
    assert (data.object.kind, data.object.name, data.object.uid) == ("Reservation", "job-uid", "r1")
    assert (data.who.name, own.subject) == ("web-1", "shop/web-1")
