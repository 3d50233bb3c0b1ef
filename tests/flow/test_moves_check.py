"""The health check by our own moves: whether replacements get Ready, and how soon."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import anyio
import pytest
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.brakes.health import SERVICE_SUFFERS
from reactive_desched.brakes.judged_moves import (
    DAY_S,
    HISTORY,
    SLOWER_BY_S,
    CountedMove,
    JudgedMoves,
)
from reactive_desched.model.decisions import Refuse
from reactive_desched.model.health import HELD_KEYS
from reactive_desched.model.history import PastEviction, PastFollowUp
from reactive_desched.model.moves import MOVED, NOT_READY, NOT_REPLACED, UNSCHEDULED
from reactive_desched.model.objects import PodStatus
from reactive_desched.model.outcomes import EVICTED
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.settings.brakes import BrakeSettings
from reactive_desched.policy.settings.health import MovesCheckSettings
from reactive_desched.policy.settings.moves import MoveSettings
from reactive_desched.testing.builders import node, pod
from tests.support.configurations import UNLIMITED_MOVES
from tests.support.flow import FakeEdgesController
from tests.support.golden import Golden

MINUTE = 60.0
LAST = 5
FAILED = None
STARTING = PodStatus("Pending")
SOON_GIVEN_UP = UNLIMITED_MOVES.model_copy(update={"ready_timeout_s": MINUTE})
SHOP = ("health/own", "namespace shop")


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def counts(**settings: object) -> JudgedMoves:
    return JudgedMoves(MovesCheckSettings.model_validate({"last": LAST, **settings}))


def verdicts(
    judged: JudgedMoves, moves: Sequence[float | None], key: str = "", every_s: float = 1.0
) -> list[int]:
    """Count these moves; return at which of them, from 1 on, something was wrong."""
    return [
        number
        for number, ready_s in enumerate(moves, 1)
        if judged.count(key, CountedMove(number * every_s, ready_s))
    ]


# --- what is judged ---


def test_three_moves_prove_nothing_and_each_judgement_takes_as_many_again() -> None:
    judged = counts()
    assert verdicts(judged, [FAILED] * 13) == [5, 10]


def test_one_that_was_ready_too_late_was_not_ready_within_the_time() -> None:
    assert verdicts(counts(readyWithin="1m", slowdown=None), [61.0] * 5) == [5]
    assert verdicts(counts(readyWithin="1m", slowdown=None), [60.0] * 5) == []


def test_a_share_below_the_limit_is_none() -> None:
    assert verdicts(counts(notReadyPercent=60), [FAILED, 1.0, FAILED, 1.0, 1.0]) == []
    assert verdicts(counts(notReadyPercent=60), [FAILED, 1.0, FAILED, 1.0, FAILED]) == [5]


def test_moves_of_yesterday_are_not_judged() -> None:
    assert verdicts(counts(), [FAILED] * 20, every_s=DAY_S / (LAST - 1)) == []


def test_each_name_is_judged_for_itself() -> None:
    judged = counts()
    verdicts(judged, [FAILED] * 4, "shop")
    assert verdicts(judged, [FAILED] * 4, "pay") == []
    assert verdicts(judged, [FAILED], "shop") == [1]


def test_of_too_many_names_the_one_that_moved_longest_ago_is_forgotten() -> None:
    judged = counts()
    verdicts(judged, [FAILED] * 4, "shop")
    for number in range(HELD_KEYS):
        verdicts(judged, [FAILED], f"n{number}")
    assert verdicts(judged, [FAILED], "shop") == []


def test_replacements_that_take_longer_than_before_are_slow() -> None:
    usual, slow = [4.0] * 10, [15.0] * 5
    assert verdicts(counts(), [*usual, *slow]) == [13], "the median of the last five"
    assert verdicts(counts(slowdown=None), [*usual, *slow]) == []
    assert verdicts(counts(slowdown=4), [*usual, *slow]) == []
    assert verdicts(counts(), [*[4.0] * 4, *slow]) == [], "there is no history to compare with"


def test_seconds_are_no_slowdown() -> None:
    assert verdicts(counts(slowdown=1.5), [*[1.0] * 10, *[SLOWER_BY_S] * 20]) == []


@given(st.lists(st.one_of(st.none(), st.floats(0, 1e4)), max_size=80))
def test_no_verdict_comes_before_so_many_moves_since_the_last_one(
    moves: list[float | None],
) -> None:
    found = [0, *verdicts(counts(), moves)]
    assert all(later - earlier >= LAST for earlier, later in pairwise(found))


@given(st.lists(st.one_of(st.none(), st.floats(0, 1e4)), max_size=80), st.integers(1, 100))
def test_a_share_is_what_the_last_moves_had(moves: list[float | None], percent: int) -> None:
    judged = counts(notReadyPercent=percent, slowdown=None, readyWithin="1m")
    found, begins = verdicts(judged, moves), 0
    for number in range(1, len(moves) + 1):
        last = moves[max(begins, number - LAST) : number]
        late = sum(each is None or each > MINUTE for each in last)
        assert (number in found) == (len(last) == LAST and 100 * late >= percent * LAST)
        begins = number if number in found else begins


@given(st.floats(0, 100), st.floats(0, 1e3))
def test_what_stays_slower_becomes_usual(usual: float, slow: float) -> None:
    judged = counts(notReadyPercent=None)
    verdicts(judged, [usual] * (HISTORY + 1) * LAST)
    assert len(verdicts(judged, [slow] * 50 * LAST)) <= HISTORY


# --- what it holds ---


def checked(moves: MoveSettings = SOON_GIVEN_UP, **check: object) -> FakeEdgesController:
    """Return a controller with a check by its own moves, and no other brake."""
    own = {"last": LAST, "readyWithin": "30s", "notReadyPercent": 60, "slowdown": None}
    health = {"name": "own", "moves": own, "holds": "namespace", "releaseAfter": "10m", **check}
    off = dict.fromkeys(("zones", "storm", "pending"))
    settings = BrakeSettings.model_validate({**off, "health": [health]})
    taints = NodeTaintsPlugin(NodeTaintsArgs())
    return FakeEdgesController(taints, brakes=settings, moves=moves)


async def move(flow: FakeEdgesController, namespace: str, *names: str, ready: bool) -> None:
    """Let pods be found, evicted and replaced on another node by pods that are Ready, or never."""
    found = [pod(each, namespace=namespace, on="tainted", owner="ReplicaSet/w") for each in names]
    flow.deliver(*found)
    await anyio.sleep(1)
    for each in found:
        if each.name in flow.evicted_names:
            flow.delete(each)
            more: dict[str, Any] = {} if ready else {"status": STARTING}
            now = int(anyio.current_time())
            flow.deliver(
                pod(
                    f"{each.name}-new",
                    namespace=namespace,
                    on="spare",
                    owner="ReplicaSet/w",
                    created=now,
                    **more,
                )
            )
    await anyio.sleep(2 * MINUTE)


def notices(flow: FakeEdgesController) -> list[tuple[str, str, bool]]:
    return [(each.brake, each.scope, each.engaged) for each in flow.intent_store.brakes]


def reasons(flow: FakeEdgesController) -> Mapping[str, str]:
    return {
        each.finding.pod.name: getattr(each.decision, "reason", "")
        for each in flow.observer.evaluations
    }


FIVE = ("a", "b", "c", "d", "e")


@pytest.mark.anyio
async def test_a_namespace_is_held_when_its_replacements_do_not_get_ready_and_let_go_by_time(
    golden: Golden,
) -> None:
    async with checked().running() as flow:
        flow.sync_and_resume(node("tainted", "gpu:NoSchedule"), node("spare"))
        await move(flow, "pay", *(f"pay-{each}" for each in FIVE), ready=True)
        await move(flow, "shop", *FIVE, ready=False)
        assert notices(flow) == [(*SHOP, True)]
        await move(flow, "shop", "late", ready=False)
        await move(flow, "pay", "other", ready=True)
        assert reasons(flow)["late"] == SERVICE_SUFFERS.code
        assert "other" in flow.evicted_names
        [state] = flow.controller.gates.brakes.states(anyio.current_time())
        held = next(each for each in flow.observer.evaluations if each.finding.pod.name == "late")
        assert isinstance(held.decision, Refuse)
        await anyio.sleep(10 * MINUTE)
        assert "late" in flow.evicted_names

    assert notices(flow) == [(*SHOP, True), (*SHOP, False)]
    assert golden() == f"{state.message}; {state.release}"
    assert golden("decision") == held.decision.message


@pytest.mark.anyio
@pytest.mark.parametrize("holds", ["cluster", "profile", "plugin"])
async def test_it_holds_what_it_is_to_hold(holds: str) -> None:
    scope = {"cluster": "cluster", "profile": "profile test", "plugin": f"plugin {TAINTS}"}[holds]
    async with checked(holds=holds).running() as flow:
        flow.sync_and_resume(node("tainted", "gpu:NoSchedule"), node("spare"))
        await move(flow, "shop", *FIVE, ready=False)
        await move(flow, "pay", "other", ready=True)

    assert notices(flow) == [("health/own", scope, True)]
    assert "other" not in flow.evicted_names


TAINTS = NodeTaintsPlugin(NodeTaintsArgs()).name


def past(number: int, ended_s: float, result: str, ready_s: float | None = None) -> PastEviction:
    return PastEviction(
        *(f"r{number}", ended_s - MINUTE, f"u{number}", "shop", f"web-{number}", "n9"),
        owner_uid="w",
        owner_kind="ReplicaSet",
        owner_name="w",
        plugin=TAINTS,
        profile="test",
        ended_s=ended_s - MINUTE,
        result=EVICTED,
        follow_up=PastFollowUp(ended_s, result, ready_s=ready_s),
    )


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("result", "ready_s", "is_held"),
    [
        (NOT_READY, None, True),
        (UNSCHEDULED, None, True),
        (MOVED, 31.0, True),
        (MOVED, 29.0, False),
        (NOT_REPLACED, None, False),
    ],
)
async def test_after_a_restart_it_holds_for_the_rest_of_its_time(
    result: str, ready_s: float | None, *, is_held: bool
) -> None:
    async with checked().running() as flow:
        await anyio.sleep(10 * MINUTE)
        ended = anyio.current_time() - 6 * MINUTE
        flow.controller.restore([past(number, ended, result, ready_s) for number in range(LAST)])
        flow.sync_and_resume(node("tainted", "gpu:NoSchedule"), node("spare"))
        await move(flow, "shop", "web", ready=True)
        assert ("web" not in flow.evicted_names) == is_held
        await anyio.sleep(3 * MINUTE)
        assert "web" in flow.evicted_names

    assert notices(flow) == ([(*SHOP, True), (*SHOP, False)] if is_held else [])


@pytest.mark.anyio
async def test_what_was_over_before_a_restart_holds_nothing() -> None:
    async with checked().running() as flow:
        await anyio.sleep(20 * MINUTE)
        ended = anyio.current_time() - 11 * MINUTE
        flow.controller.restore([past(number, ended, NOT_READY) for number in range(LAST)])
        flow.sync_and_resume(node("tainted", "gpu:NoSchedule"), node("spare"))
        await move(flow, "shop", "web", ready=True)

    assert "web" in flow.evicted_names
    assert notices(flow) == []


@pytest.mark.anyio
async def test_a_reload_that_changes_nothing_of_it_keeps_what_it_counted() -> None:
    async with checked().running() as flow:
        flow.sync_and_resume(node("tainted", "gpu:NoSchedule"), node("spare"))
        await move(flow, "shop", *FIVE[:3], ready=False)
        flow.reconfigure(flow.config)
        await move(flow, "shop", *FIVE[3:], ready=False)
        assert notices(flow) == [(*SHOP, True)]


# --- how it is written ---


@pytest.mark.parametrize(
    "check",
    [
        {"moves": {"last": 4}},
        {"moves": {"last": 101}},
        {"moves": {"notReadyPercent": 0}},
        {"moves": {"slowdown": 1}},
        {"moves": {"readyWithin": "0s"}},
        {"moves": {"notReadyPercent": None, "slowdown": None}},
        {"moves": {}, "label": "team"},
        {"moves": {}, "for": "1m"},
        {"moves": {}, "onUnknown": "ignore"},
        {"moves": {}, "interval": "1m"},
        {"moves": {}, "prometheus": {"url": "http://prom", "query": "up == 0"}},
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(check: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="health"):
        BrakeSettings.model_validate({"health": [{"name": "own", **check}]})


def test_it_needs_no_more_than_its_name() -> None:
    [check] = BrakeSettings.model_validate({"health": [{"name": "own", "moves": {}}]}).health
    assert not check.asks_a_server
