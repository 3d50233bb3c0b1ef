"""Every eviction is in the ledger once, and all who take part are called in their order."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reactive_desched.ledger import ledger as ledger_module
from reactive_desched.ledger.eviction import Eviction
from reactive_desched.ledger.ledger import KEPT_S, UNSEEN_S, EvictionLedger
from reactive_desched.ledger.participant import EvictionParticipant
from reactive_desched.model.changes import Resynced
from reactive_desched.model.decisions import Evict
from reactive_desched.model.evaluation import ChangeTrigger, Evaluation
from reactive_desched.model.findings import Finding
from reactive_desched.model.history import PastEviction, PastFollowUp
from reactive_desched.model.moves import MOVED, MoveEnd, key_of_owner
from reactive_desched.model.objects import OwnerReference, Pod, ReplicaSet
from reactive_desched.model.outcomes import DRY_RUN, EVICTED, FAILED, NOT_FOUND, UNKNOWN, Outcome
from reactive_desched.model.subjects import PodSubject
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.testing.builders import pod
from tests.support.evictions import make_ledger

EPOCH = 1_700_000_000.0
WEB = Finding(pod("web", on="n1", namespace="shop"), "Test", "why")
PAST = PastEviction(
    "r",
    EPOCH - 20,
    *("uid", "shop", "web-1", "n1", "z1"),
    *("uid-owner", "Deployment", "web", "uid-owner", "Deployment"),
    plugin="Test",
    ended_s=EPOCH - 10,
    result="evicted",
)


class Listener(EvictionParticipant):
    """Writes down what it is called with."""

    def __init__(self, name: str, told: list[tuple[str, str, str]]) -> None:
        self.name = name
        self.told = told

    def decided(self, eviction: Eviction) -> None:
        self.told.append((self.name, "decided", eviction.pod_uid))

    def requested(self, eviction: Eviction) -> None:
        self.told.append((self.name, "requested", eviction.request_id))

    def ended(self, eviction: Eviction, outcome: Outcome) -> None:
        self.told.append((self.name, "ended", outcome.result))

    def restored(self, eviction: Eviction, now: float) -> None:
        self.told.append((self.name, "restored", eviction.pod_uid))

    def followed_up(self, eviction: Eviction, end: MoveEnd) -> None:
        self.told.append((self.name, "followed up", end.result))


def past(name: str, ended_s: float | None = EPOCH - 10, **more: Any) -> PastEviction:
    result = "" if ended_s is None else "evicted"
    return replace(PAST, **{"pod_uid": name, "ended_s": ended_s, "result": result, **more})


def test_an_eviction_is_in_the_ledger_from_its_decision_until_it_was_followed_up() -> None:
    told: list[tuple[str, str, str]] = []
    ledger = make_ledger(Listener("a", told), EvictionParticipant(), Listener("b", told))
    eviction = ledger.decide(WEB, "night", 1.0)
    assert ledger.is_under_way("web")

    ledger.request("web", "request-1", 2.0)
    ledger.end("web", Outcome(EVICTED), 3.0)
    assert not ledger.is_under_way("web")
    assert list(ledger) == [eviction]

    ledger.follow_up(eviction, MoveEnd(MOVED), 9.0)
    assert list(ledger) == []
    assert told == [
        (name, *call)
        for call in [
            ("decided", "web"),
            ("requested", "request-1"),
            ("ended", "evicted"),
            ("followed up", "moved"),
        ]
        for name in ("a", "b")
    ]
    times = eviction.decided_at, eviction.requested_at, eviction.ended_at, eviction.followed_up_at
    assert times == (1.0, 2.0, 3.0, 9.0)


def evaluation(name: str) -> Evaluation:
    finding = Finding(pod(name, on="n1"), "Test", "why")
    trigger = ChangeTrigger(Resynced(), 0.0)
    return Evaluation("night", PodSubject(name), Evict(finding), trigger, 1.0)


def test_an_eviction_has_its_evaluation_until_it_has_an_outcome() -> None:
    ledger = make_ledger()
    eviction = ledger.decide(evaluation("web").finding, "night", 1.0)

    ledger.evaluated(evaluation("web"))
    assert eviction.evaluation == evaluation("web")
    assert ledger.decided_here("web") is eviction
    assert ledger.count_decided_here() == 1

    ledger.end("web", Outcome(EVICTED), 2.0)
    assert eviction.evaluation is None
    assert ledger.decided_here("web") is None
    assert ledger.count_decided_here() == 0


def test_what_an_earlier_process_requested_was_not_decided_here_and_nothing_supersedes_it() -> None:
    ledger = make_ledger()
    ledger.restore([past("old", None)], 100.0, EPOCH)
    ledger.inherit("old", 100.0, EPOCH)
    ours, gone = (ledger.decide(evaluation(name).finding, "night", 1.0) for name in ("a", "b"))
    ledger.end("b", Outcome(EVICTED), 2.0)

    ledger.supersede()

    old = ledger.current("old")
    assert old is not None
    assert [each.is_superseded for each in (ours, gone, old)] == [True, False, False]
    assert ledger.decided_here("old") is None
    later = ledger.decide(evaluation("c").finding, "night", 3.0)
    assert not later.is_superseded


@pytest.mark.parametrize(
    ("result", "goes_on", "is_kept"),
    [
        pytest.param(EVICTED, True, True, id="evicted"),
        pytest.param(UNKNOWN, True, True, id="perhaps"),
        pytest.param(DRY_RUN, False, True, id="a dry run"),
        pytest.param(NOT_FOUND, False, True, id="gone by itself"),
        pytest.param(FAILED, False, False, id="failed"),
    ],
)
def test_only_an_eviction_that_may_have_happened_goes_on_and_one_whose_pod_stays_is_forgotten(
    result: str,
    goes_on: bool,  # noqa: FBT001 -- what a row expects
    is_kept: bool,  # noqa: FBT001 -- as above
) -> None:
    ledger = make_ledger()
    ledger.decide(WEB, "night", 1.0)

    ledger.end("web", Outcome(result), 2.0)

    assert (ledger.current("web") is not None) == goes_on
    assert (ledger.latest("web") is not None) == is_kept


def test_an_outcome_that_comes_twice_ends_an_eviction_once() -> None:
    told: list[tuple[str, str, str]] = []
    ledger = make_ledger(Listener("a", told))
    ledger.decide(WEB, "night", 1.0)

    ledger.end("web", Outcome(EVICTED), 2.0)
    ledger.end("web", Outcome(FAILED), 3.0)
    ledger.end("another", Outcome(FAILED), 3.0)

    assert [what for _, *what in told] == [["decided", "web"], ["ended", "evicted"]]


def test_what_is_over_is_kept_for_a_while_and_up_to_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger = make_ledger()
    for number in range(3):
        ledger.decide(Finding(pod(f"p{number}", on="n1"), "Test", "why"), "night", 0.0)
        ledger.end(f"p{number}", Outcome(DRY_RUN), number * (KEPT_S + 1) / 2)

    assert [ledger.latest(f"p{number}") is not None for number in range(3)] == [False, True, True]
    monkeypatch.setattr(ledger_module, "MAX_KEPT", 1)
    ledger.decide(WEB, "night", 0.0)
    ledger.end("web", Outcome(DRY_RUN), 2 * KEPT_S)
    assert [ledger.latest(name) is not None for name in ("p2", "web")] == [False, True]


def test_moving_pods_are_counted_by_scope_until_they_are_over() -> None:
    ledger = make_ledger()
    eviction = ledger.decide(WEB, "night", 1.0)
    scopes = ("namespace", "shop"), ("node", "n1"), ("cluster", "cluster")
    assert all(ledger.moving_in(scope).keys() == {"web"} for scope in scopes)
    assert not ledger.has_released

    ledger.end("web", Outcome(EVICTED), 2.0)
    ledger.follow_up(eviction, MoveEnd(MOVED), 3.0)

    assert not any(ledger.moving_in(scope) for scope in scopes)
    assert set(scopes) <= set(ledger.take_released())
    assert not ledger.has_released


def test_earlier_evictions_are_restored_in_the_order_of_their_ends_and_open_ones_last() -> None:
    told: list[tuple[str, str, str]] = []
    ledger = make_ledger(Listener("a", told))

    ledger.restore([past("open", None), past("late", EPOCH - 1), past("early")], 50.0, EPOCH)

    assert [uid for _, _, uid in told] == ["early", "late", "open"]
    assert {each.pod_uid: each.ended_at for each in ledger} == {
        "open": None,
        "late": 49.0,
        "early": 40.0,
    }


@pytest.mark.parametrize(
    ("more", "goes_on"),
    [
        pytest.param({}, True, id="not followed up"),
        pytest.param({"follow_up": PastFollowUp(EPOCH, "moved")}, False, id="followed up"),
        pytest.param({"ended_s": None, "result": ""}, True, id="without an outcome"),
        pytest.param({"result": "failed"}, False, id="failed"),
    ],
)
def test_of_earlier_evictions_those_go_on_whose_end_is_not_known(
    more: dict[str, Any],
    goes_on: bool,  # noqa: FBT001 -- what a row expects
) -> None:
    ledger = make_ledger()

    ledger.restore([past("web", **more)], 50.0, EPOCH)

    assert (ledger.current("web") is not None) == goes_on


def test_an_eviction_of_another_leader_is_counted_and_does_not_go_on() -> None:
    told: list[tuple[str, str, str]] = []
    ledger = make_ledger(Listener("a", told))

    ledger.count(past("web"), 50.0, EPOCH)

    assert told == [("a", "restored", "web")]
    assert list(ledger) == []


def test_a_request_of_an_earlier_process_is_under_way_once_it_is_inherited() -> None:
    ledger = make_ledger()
    ledger.restore([past("web", None)], 50.0, EPOCH)
    assert not ledger.is_under_way("web")

    ledger.inherit("web", 50.0, EPOCH)
    assert ledger.is_under_way("web")

    ledger.end_inherited("web", Outcome(EVICTED), 60.0, EPOCH + 10)
    assert not ledger.is_under_way("web")
    assert [each.pod_uid for each in ledger] == ["web"]


def test_a_request_whose_record_was_not_read_is_under_way_and_then_forgotten() -> None:
    ledger = make_ledger()
    ledger.inherit("web", 50.0, EPOCH)
    assert ledger.is_under_way("web")

    ledger.end_inherited("web", Outcome(EVICTED), 60.0, EPOCH + 10)

    assert list(ledger) == []
    assert ledger.latest("web") is not None


class Asking(EvictionParticipant):
    """Asks for the evictions of some pods, whatever became of those."""

    def __init__(self, *pods: str) -> None:
        self.pods = {*pods}

    def asks_for(self, eviction: Eviction) -> bool:
        return eviction.pod_uid in self.pods


def test_an_eviction_that_is_asked_for_is_kept_for_as_long_as_that_also_when_its_pod_is_gone() -> (
    None
):
    asking = Asking("web", "open")
    ledger = make_ledger(asking)
    for name in ("web", "other"):
        ledger.decide(Finding(pod(name, on="n1"), "Test", "why"), "night", 0.0)
        ledger.end(name, Outcome(DRY_RUN), 1.0)
        ledger.forget(name)
    moved = ledger.decide(Finding(pod("open", on="n1"), "Test", "why"), "night", 0.0)
    ledger.end("open", Outcome(EVICTED), 1.0)
    moved.lose_evicted(2.0)
    ledger.follow_up(moved, MoveEnd(MOVED), 9.0)

    for now in (2 * KEPT_S, 4 * KEPT_S):
        ledger.expire(now)
        assert [ledger.latest(name) is not None for name in ("web", "other", "open")] == [
            *(True, False, True)
        ]

    asking.pods.clear()
    ledger.expire(6 * KEPT_S)
    assert ledger.latest("web") is ledger.latest("open") is None
    assert not ledger.leaving_in(moved.leaving_in[0])


def test_an_eviction_whose_pod_stayed_is_closed_before_another_one_of_the_pod_begins() -> None:
    told: list[tuple[str, str, str]] = []
    ledger = make_ledger(Listener("a", told))
    first = ledger.decide(WEB, "night", 1.0)
    ledger.end("web", Outcome(EVICTED), 2.0)

    second = ledger.decide(WEB, "night", 70.0)

    assert told[1:] == [
        ("a", "ended", "evicted"),
        ("a", "followed up", "not_followed"),
        ("a", "decided", "web"),
    ]
    assert first.followed_up_at == 70.0
    assert list(ledger) == [second]
    assert ledger.moving_in(("node", "n1")) == {"web": second}
    assert ledger.leaving_in(first.leaving_in[0]) == (second,)


def test_an_eviction_that_may_still_happen_has_no_other_beside_it() -> None:
    ledger = make_ledger()
    first = ledger.decide(WEB, "night", 1.0)

    with pytest.raises(AssertionError):
        ledger.decide(WEB, "night", 2.0)
    assert list(ledger) == [first]


def test_what_is_learned_late_of_a_pods_last_eviction_is_counted_and_takes_no_place_of_this_one() -> (  # noqa: E501
    None
):
    told: list[tuple[str, str, str]] = []
    ledger = make_ledger(Listener("a", told))
    now = ledger.decide(WEB, "night", 1.0)

    ledger.restore([past("web")], 2.0, EPOCH)
    assert ledger.decided_here("web") is now

    ledger.end("web", Outcome(FAILED), 3.0)
    assert [what for _, *what in told] == [
        *(["decided", "web"], ["restored", "web"], ["ended", "failed"])
    ]


@pytest.mark.parametrize("ended_s", [pytest.param(EPOCH - 100, id="accepted"), None])
def test_of_a_pod_that_earlier_processes_evicted_twice_the_first_one_is_closed(
    ended_s: float | None,
) -> None:
    told: list[tuple[str, str, str]] = []
    ledger = make_ledger(Listener("a", told))

    ledger.restore([past("web", ended_s, request_id="first"), past("web")], 50.0, EPOCH)

    [left] = list(ledger)
    assert left.request_id == "r"
    ends = [] if ended_s else [("a", "ended", "unknown")]
    assert told[2:] == [*ends, ("a", "followed up", "not_followed")]


class Watched:
    """A ledger over a cluster with two pods of a ReplicaSet, and one of another."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self.ledger = EvictionLedger(ClusterView(self.state, lambda: EPOCH))
        of = OwnerReference("Deployment", "web", "d-web", controller=True)
        for name in ("new", "old"):
            self.state.upsert(ReplicaSet(f"owner-{name}", controller=of))
        self.pods = [
            pod(name, on="n1", owner=f"ReplicaSet/{owner}")
            for name, owner in {"a": "new", "b": "new", "c": "old"}.items()
        ]
        for each in self.pods:
            self.state.upsert(each)

    def decide(self, now: float) -> None:
        for each in self.pods:
            self.ledger.decide(Finding(each, "Test", "why"), "night", now)

    def unseen(self, now: float) -> set[str]:
        return {*self.ledger.unseen(key_of_owner("default", "d-web"), "owner-new", now)}


def test_pods_leave_unseen_until_the_watch_shows_it_or_for_two_minutes() -> None:
    cluster = Watched()
    cluster.decide(1.0)
    assert cluster.unseen(1.0) == {"a", "b"}

    cluster.ledger.end("a", Outcome(DRY_RUN), 2.0)
    cluster.ledger.end("b", Outcome(FAILED), 2.0)
    assert cluster.unseen(2.0) == {"a"}
    assert cluster.unseen(2.0 + UNSEEN_S) == set()


def test_a_pod_leaves_unseen_for_as_long_as_its_request_has_no_answer() -> None:
    cluster = Watched()
    cluster.decide(1.0)
    assert cluster.unseen(10 * UNSEEN_S) == {"a", "b"}

    cluster.state.upsert(replace(cluster.pods[0], deletion_s=1))
    cluster.state.remove(cluster.pods[1])
    assert cluster.unseen(2.0) == set()


def test_a_pod_that_an_earlier_process_evicted_leaves_unseen_as_well() -> None:
    cluster = Watched()
    accepted = past("a", owner_uid="d-web", namespace="default")
    open_ = past("b", None, owner_uid="d-web", namespace="default")
    cluster.ledger.restore([accepted, open_], 50.0, EPOCH)

    assert cluster.unseen(51.0) == {"a", "b"}
    cluster.ledger.end_inherited("b", Outcome(FAILED), 52.0, EPOCH + 2)
    assert cluster.unseen(53.0) == {"a"}


Steps = st.lists(
    st.tuples(
        st.sampled_from(["decide", "evict", "fail", "follow up"]), st.sampled_from(["a", "b", "c"])
    ),
    max_size=40,
)


@given(Steps)
def test_scopes_count_what_is_not_over_and_each_eviction_ends_once(steps: Any) -> None:
    told: list[tuple[str, str, str]] = []
    ledger = make_ledger(Listener("a", told))
    for now, (step, name) in enumerate(steps):
        _take_step(ledger, pod(name, on="n1"), step, float(now))
        moving = {each.pod_uid for each in ledger}
        assert ledger.moving_in(("cluster", "cluster")).keys() == moving
        assert len(ledger) == len(moving)
        decided = [uid for _, what, uid in told if what == "decided"]
        ended = [uid for _, what, uid in told if what == "ended"]
        assert len(decided) - len(ended) == sum(1 for _ in ledger.open())


def _take_step(ledger: EvictionLedger, of: Pod, step: str, now: float) -> None:
    known = ledger.current(of.uid)
    if step == "decide" and (known is None or not known.is_under_way):
        ledger.decide(Finding(of, "Test", "why"), "night", now)
    elif step in ("evict", "fail"):
        ledger.end(of.uid, Outcome(EVICTED if step == "evict" else FAILED), now)
    elif step == "follow up" and known is not None and not known.is_open:
        ledger.follow_up(known, MoveEnd(MOVED), now)
