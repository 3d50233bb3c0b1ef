from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import anyio
import msgspec
import pytest
import trio.testing

from reactive_desched.api import event as api
from reactive_desched.api.sink import Sink
from reactive_desched.journal.records import JournalRecord
from reactive_desched.model.kube_events import KubeEvent, Regarding
from reactive_desched.model.outcomes import (
    CANCELLED,
    CONFLICT,
    DENIED,
    EVICTED,
    FAILED,
    NOT_FOUND,
    PDB_REFUSED,
    TOO_MANY_REQUESTS,
    UNKNOWN,
)
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import load_sources
from reactive_desched.sinks.kube_events import (
    BATCH_SIZE,
    GATHER_S,
    MAX_EVENTS_PER_OWNER,
    MAX_OWNERS,
    KubeEventsSink,
    own_pod,
)
from tests.support.entries import REASONS, WEB, decision_data, entry, outcome_data
from tests.support.golden import Golden

pytestmark = pytest.mark.anyio

BEGAN = datetime(2026, 9, 21, 14, 0, tzinfo=UTC)
TAINTS = "RemovePodsViolatingNodeTaints"
ABOUT_WEB = Regarding("Pod", "shop", "web", "uid-1")
DEPLOYMENT = Regarding("Deployment", "shop", "web", "uid-top", "apps/v1")
OURSELVES = Regarding("Pod", "ops", "controller-1", "uid-9")
WHY = "RemovePodsViolatingNodeTaints of profile day: does not tolerate gpu"
BARE = msgspec.structs.replace(WEB, owners=())
TYPES = {
    EVICTED: api.EVICTION_SUCCEEDED,
    UNKNOWN: api.EVICTION_UNKNOWN,
}


def done(golden: Golden) -> KubeEvent:
    return KubeEvent(ABOUT_WEB, TAINTS, "Descheduled", golden.shared("of the pod", why=WHY))


def done_to_owner(golden: Golden) -> KubeEvent:
    note = golden.shared("of its owner", why=WHY)
    return KubeEvent(DEPLOYMENT, "PodEvicted", "Descheduled", note)


def failure(detail: str) -> KubeEvent:
    note = f"pod eviction from n1 node by reactive-desched failed: {detail} ({WHY})"
    return KubeEvent(ABOUT_WEB, "EvictionFailed", "Descheduled", note, is_warning=True)


@cache
def configuration(*, failures: bool, wanted: bool) -> Configuration:
    text = (
        "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n"
        f"evictionFailureEventNotification: {str(failures).lower()}\n---\n"
        "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"
        f"events: {{kubernetes: {str(wanted).lower()}}}\n"
    )
    return load_sources([SourceText(text, "p.yaml")], plugin_registry())


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


class Bench:
    """An announcer under a policy, and the Events it had recorded."""

    def __init__(
        self, *, failures: bool = False, wanted: bool = True, pod: Regarding | None = OURSELVES
    ) -> None:
        self.events: list[KubeEvent] = []
        self.is_wanted = wanted
        self.tells_failures = failures
        self.now = BEGAN
        self.announcer = KubeEventsSink(self.events.append, self._in_force, pod, self._wall)
        self.revision: str = self._in_force().policy.revision

    def _in_force(self) -> Configuration:
        return configuration(failures=self.tells_failures, wanted=self.is_wanted)

    def _wall(self) -> float:
        return self.now.timestamp()

    async def hand(self, *some: tuple[str, api.EventData], after_s: float = 0.0) -> list[KubeEvent]:
        """Hand over records of this time and return what was told of them."""
        time = self.now + timedelta(seconds=after_s)
        entries = [entry(type_, data, seq, time=time) for seq, (type_, data) in enumerate(some, 1)]
        return await self.hand_all(entries)

    async def hand_all(self, entries: Sequence[JournalRecord]) -> list[KubeEvent]:
        self.events.clear()
        assert await self.announcer.deliver(entries) == len(entries)
        return list(self.events)


def outcome(
    result: str, detail: str = "", **more: Any
) -> tuple[str, api.EventData]:  # as ended() takes it
    return TYPES.get(result, api.EVICTION_REFUSED), outcome_data(result, detail, **more)


def loaded(
    revision: str, mode: Any = api.MODE_LIVE
) -> tuple[str, api.EventData]:  # one of two words
    data = api.PolicyLoaded(mode=mode, revision=revision, source="p.yaml", version="1")
    return api.POLICY_LOADED, data


def rejected(*problems: str) -> tuple[str, api.EventData]:
    return api.POLICY_REJECTED, api.PolicyRejected(kept="r1", problems=problems, source="p.yaml")


async def test_it_is_a_sink_that_begins_with_what_comes_next() -> None:
    sink: Sink = Bench().announcer

    assert (sink.name, sink.from_start) == ("kubernetes-events", False)
    await sink.close()


@pytest.mark.parametrize("failures", [False, True])
async def test_an_eviction_is_an_event_on_the_pod_and_on_its_topmost_owner(
    golden: Golden, *, failures: bool
) -> None:
    bench = Bench(failures=failures)
    before = (
        (api.DECISION_EVICT, decision_data("evict")),
        (api.FINDING_MADE, decision_data("evict")),
        (api.EVICTION_REQUESTED, outcome_data(EVICTED)),
    )

    assert await bench.hand(*before) == []
    assert await bench.hand(outcome(EVICTED, "settled by reading")) == [
        done(golden),
        done_to_owner(golden),
    ]


async def test_an_eviction_of_a_pod_without_an_owner_is_one_event(golden: Golden) -> None:
    assert await Bench().hand(outcome(EVICTED, pod=BARE)) == [done(golden)]


async def test_a_pod_that_left_for_a_reason_unknown_is_reported_as_such(golden: Golden) -> None:
    beside_pod, beside_owner = await Bench().hand(outcome(UNKNOWN))

    assert beside_pod == KubeEvent(
        ABOUT_WEB,
        TAINTS,
        "Descheduled",
        golden("pod", why=WHY),
    )
    assert (beside_owner.regarding, beside_owner.reason) == (DEPLOYMENT, "PodEvicted")
    assert beside_owner.note == golden("owner", why=WHY)


async def test_an_outcome_that_is_corrected_has_the_events_of_the_true_one() -> None:
    _, ended = outcome(FAILED)
    fields = {name: getattr(ended, name) for name in ("mode", "trigger", "what", "who", "why")}
    true = api.Ending(result=UNKNOWN, reason="EvictedLater")
    data = api.EvictionCorrected(attempt=1, corrects="x", outcome=true, **fields)
    bench = Bench()

    assert await bench.hand((api.EVICTION_CORRECTED, data)) == await Bench().hand(outcome(UNKNOWN))


async def test_what_others_end_has_no_event_of_ours() -> None:
    ended: Any = outcome(FAILED)[1]
    data = api.DisruptionObserved(cause="PreemptionByScheduler", who=ended.who)

    assert await Bench().hand((api.DISRUPTION_OBSERVED, data)) == []


@pytest.mark.parametrize("result", [PDB_REFUSED, TOO_MANY_REQUESTS, DENIED, FAILED])
async def test_a_failed_eviction_is_an_event_on_the_pod_if_the_policy_asks_for_it(
    result: str,
) -> None:
    silent, telling = Bench(), Bench(failures=True)
    both = outcome(result, "403: no"), outcome(result)

    assert await silent.hand(*both) == []
    assert await telling.hand(*both) == [
        failure("403: no"),
        failure(REASONS.get(result, result)),
    ]


@pytest.mark.parametrize("result", [NOT_FOUND, CONFLICT, CANCELLED, "a word of a later version"])
async def test_what_needed_no_eviction_or_was_never_requested_is_no_event(result: str) -> None:
    assert await Bench(failures=True).hand(outcome(result, "why")) == []


@pytest.mark.parametrize(
    ("type_", "data"),
    [
        pytest.param(
            api.DECISION_DEFER,
            decision_data("defer", "EvictionLimit", "NodeLimitReached", "2 in 300s"),
            id="reached",
        ),
        pytest.param(
            api.DECISION_REFUSE,
            decision_data("refuse", "EvictionLimit", "TotalLimitReached", "2 in 300s"),
            id="nothing allowed",
        ),
    ],
)
async def test_a_limit_of_the_policy_is_reported_as_a_failure(
    type_: str, data: api.EventData
) -> None:
    silent, telling = Bench(), Bench(failures=True)

    assert await silent.hand((type_, data)) == []
    assert await telling.hand((type_, data)) == [failure("2 in 300s")]


async def test_what_is_proposed_is_an_event_on_the_pod_and_on_its_topmost_owner() -> None:
    asks = decision_data("refuse", "Approval", "NotApproved", "it waits for a person: approve 1a2b")
    pod, owner = await Bench().hand((api.DECISION_REFUSE, asks))

    assert (pod.regarding.kind, owner.regarding.kind) == ("Pod", "Deployment")
    assert (pod.reason, owner.reason) == ("EvictionProposed", "EvictionProposed")
    assert all(each.note.endswith("approve 1a2b") for each in (pod, owner))


async def test_decisions_of_other_gates_are_no_events() -> None:
    told = await Bench(failures=True).hand(
        (
            api.DECISION_DEFER,
            decision_data("defer", "EvictionRateLimit", "EvictionRateLimited", "no token"),
        ),
        (api.DECISION_REFUSE, decision_data("refuse", "NodeFit", "NoNodeFits", "no room")),
    )

    assert told == []


async def test_settings_switch_all_of_it_off_while_it_runs() -> None:
    bench = Bench(failures=True, wanted=False)
    some = outcome(EVICTED, pod=BARE), outcome(FAILED), rejected("b")
    assert await bench.hand(*some, loaded("r2")) == []

    bench.is_wanted, bench.tells_failures = True, False
    assert [event.reason for event in await bench.hand(*some)] == [TAINTS, "PolicyRejected"]


def leader_changed(holder: str, previous: str) -> tuple[str, api.EventData]:
    return api.LEADER_CHANGED, api.LeaderChanged(holder=holder, previous=previous, transitions=3)


async def test_a_new_leader_is_an_event_on_the_lease_in_the_words_of_client_go() -> None:
    lease = Regarding("Lease", "kube-system", "descheduler", "", "coordination.k8s.io/v1")

    assert await Bench().hand(leader_changed("a_1", "b_2"), leader_changed("", "a_1")) == [
        KubeEvent(lease, "LeaderElection", "LeaderElection", "a_1 became leader"),
        KubeEvent(lease, "LeaderElection", "LeaderElection", "a_1 stopped leading"),
    ]
    assert await Bench(wanted=False).hand(leader_changed("a_1", "")) == []
    assert await Bench().hand(leader_changed("a_1", ""), after_s=-1) == []  # of an earlier process


async def test_a_dry_run_is_no_event() -> None:
    dry: Any = api.MODE_DRY_RUN
    told = await Bench(failures=True).hand(
        outcome(EVICTED, mode=dry),
        outcome(FAILED, mode=dry),
        (api.EVICTION_DRY_RUN, outcome_data(EVICTED, mode=dry)),
        (api.DECISION_DEFER, decision_data("defer", "EvictionLimit", "2 in 300s", mode=dry)),
        loaded("r2", mode=dry),
    )

    assert told == []


# --- noise ---


def of_pod(number: int, **more: Any) -> tuple[str, api.EventData]:  # fields of Who
    name = {"name": f"web-{number}", "uid": f"uid-{number}"}
    return outcome(EVICTED, pod=msgspec.structs.replace(WEB, **name, **more))


async def beside_owner(bench: Bench, *some: tuple[str, api.EventData]) -> list[str]:
    events = await bench.hand(*some)
    return [event.note.partition(" evicted")[0] for event in events if event.reason == "PodEvicted"]


async def test_of_an_owner_that_loses_many_pods_ten_are_named_and_the_rest_is_one_series() -> None:
    bench = Bench()
    many = [of_pod(number) for number in range(MAX_EVENTS_PER_OWNER + 2)]
    events = await bench.hand(*many)

    beside = [event for event in events if event.regarding == DEPLOYMENT]
    assert [event.note.split()[1] for event in beside[:MAX_EVENTS_PER_OWNER]] == [
        f"web-{number}" for number in range(MAX_EVENTS_PER_OWNER)
    ]
    assert beside[MAX_EVENTS_PER_OWNER] == beside[MAX_EVENTS_PER_OWNER + 1]
    assert beside[-1].note.startswith("more pods evicted by reactive-desched")
    assert len({event.regarding.name for event in events if event.reason == TAINTS}) == len(many)


async def test_another_owner_and_another_ten_minutes_begin_anew() -> None:
    bench = Bench()
    assert "more pods" in await beside_owner(bench, *map(of_pod, range(MAX_EVENTS_PER_OWNER + 1)))

    other = msgspec.structs.replace(WEB.owners[-1], uid="uid-other")
    assert await beside_owner(bench, of_pod(1, owners=(other,))) == ["pod web-1"]
    bench.now += timedelta(seconds=599)
    assert await beside_owner(bench, of_pod(2)) == ["more pods"]
    bench.now += timedelta(seconds=1)
    assert await beside_owner(bench, of_pod(3)) == ["pod web-3"]


def of_owner(number: int) -> tuple[str, api.EventData]:
    other = msgspec.structs.replace(WEB.owners[-1], uid=f"other-{number}")
    return of_pod(1, owners=(other,))


async def test_at_the_bound_the_owner_not_seen_for_longest_is_forgotten() -> None:
    bench = Bench()
    await bench.hand(*map(of_pod, range(MAX_EVENTS_PER_OWNER)), of_owner(0))
    assert await beside_owner(bench, of_pod(MAX_EVENTS_PER_OWNER)) == ["more pods"]

    for number in range(1, MAX_OWNERS):
        await bench.hand(of_owner(number))
    assert await beside_owner(bench, of_pod(MAX_EVENTS_PER_OWNER + 1)) == ["more pods"]
    for number in range(MAX_OWNERS):
        await bench.hand(of_owner(number))
    assert await beside_owner(bench, of_pod(5)) == ["pod web-5"]


@pytest.mark.parametrize(
    ("after_s", "is_told"), [(-600.0, True), (-600.1, False), (-86_400.0, False), (5.0, True)]
)
async def test_what_happened_more_than_ten_minutes_ago_is_passed_over(
    after_s: float, golden: Golden, *, is_told: bool
) -> None:
    told = await Bench().hand(outcome(EVICTED, pod=BARE), after_s=after_s)

    assert told == ([done(golden)] if is_told else [])


async def test_what_cannot_be_read_or_is_of_a_later_version_is_passed_over(golden: Golden) -> None:
    bench = Bench()
    later = entry(api.EVICTION_SUCCEEDED, outcome_data(EVICTED), 2, time=bench.now)
    later = JournalRecord(2, later.raw.replace(b"succeeded.v1", b"succeeded.v2"))
    good = entry(api.EVICTION_SUCCEEDED, outcome_data(EVICTED, pod=BARE), 3, time=bench.now)
    odd = JournalRecord(4, good.raw.replace(b'"who":{', b'"who":7,"x":{'))

    assert await bench.hand_all([JournalRecord(1, b"{"), later, odd, good]) == [done(golden)]


async def test_no_more_than_a_portion_is_read_in_one_go() -> None:
    bench = Bench()
    many = [entry(*outcome(EVICTED), seq, time=bench.now) for seq in range(1, BATCH_SIZE + 2)]

    assert await bench.announcer.deliver(many) == BATCH_SIZE
    assert len([event for event in bench.events if event.regarding == ABOUT_WEB]) == BATCH_SIZE


async def test_records_gather_between_two_small_batches_and_never_wait_in_large_ones() -> None:
    bench, began = Bench(), anyio.current_time()
    large = [entry(*outcome(EVICTED), seq, time=bench.now) for seq in range(1, BATCH_SIZE + 1)]

    for batch in (large[:1], large, large[:1]):
        await bench.hand_all(batch)
    assert anyio.current_time() - began == pytest.approx(GATHER_S)


# --- policies ---


async def test_a_policy_is_an_event_on_our_own_pod(golden: Golden) -> None:
    bench = Bench()

    assert await bench.hand(loaded("r2"), loaded("r3"), rejected("p.yaml:1:1: bad", "more")) == [
        KubeEvent(
            OURSELVES,
            "PolicyReloaded",
            "ReloadPolicy",
            golden("r2", revision=bench.revision),
        ),
        KubeEvent(
            OURSELVES,
            "PolicyReloaded",
            "ReloadPolicy",
            golden("r3"),
        ),
        KubeEvent(
            OURSELVES,
            "PolicyRejected",
            "ReloadPolicy",
            "kept revision r1: file rejected: p.yaml:1:1: bad",
            is_warning=True,
        ),
    ]


async def test_the_policy_of_the_start_is_no_event() -> None:
    bench = Bench()

    assert await bench.hand(loaded(bench.revision)) == []


async def test_policies_of_the_previous_process_are_no_events() -> None:
    bench = Bench()

    assert await bench.hand(loaded("r0"), rejected("bad"), after_s=-0.1) == []
    [event] = await bench.hand(loaded("r2"))
    assert event.note.endswith(f"after revision {bench.revision}")


async def test_a_brake_is_announced_beside_our_own_pod(golden: Golden) -> None:
    about: dict[str, Any] = {"brake": "storm", "scope": "cluster", "mode": api.MODE_LIVE}
    engaged = api.BrakeEngaged(message="120 pods were found", **about)
    released = api.BrakeReleased(message="it was meant", by="ann", **about)

    assert await Bench().hand((api.BRAKE_ENGAGED, engaged), (api.BRAKE_RELEASED, released)) == [
        KubeEvent(
            OURSELVES,
            "BrakeEngaged",
            "Brake",
            golden("engaged"),
            is_warning=True,
        ),
        KubeEvent(OURSELVES, "BrakeReleased", "Brake", golden("released")),
    ]
    assert await Bench(pod=None).hand((api.BRAKE_ENGAGED, engaged)) == []
    dry_run = msgspec.structs.replace(engaged, mode=api.MODE_DRY_RUN)
    assert await Bench().hand((api.BRAKE_ENGAGED, dry_run)) == []


async def test_a_process_that_does_not_know_its_pod_writes_no_event_of_policies() -> None:
    assert await Bench(pod=None).hand(loaded("r2"), rejected("bad")) == []


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        pytest.param({}, None, id="outside a cluster"),
        pytest.param({"POD_NAME": "a"}, None, id="half of it"),
        pytest.param({"POD_NAME": "", "POD_NAMESPACE": "ops"}, None, id="an empty name"),
        pytest.param(
            {"POD_NAME": "a", "POD_NAMESPACE": "ops"},
            Regarding("Pod", "ops", "a"),
            id="without a uid",
        ),
        pytest.param(
            {"POD_NAME": "a", "POD_NAMESPACE": "ops", "POD_UID": "u"},
            Regarding("Pod", "ops", "a", "u"),
            id="all of it",
        ),
    ],
)
def test_our_own_pod_is_what_the_environment_says(
    environ: dict[str, str], found: Regarding | None
) -> None:
    assert own_pod(environ) == found
