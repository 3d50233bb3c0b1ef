"""When a finding that waits is looked at next, as `pending`, `status` and the live page say it."""

from datetime import datetime
from typing import Any

import anyio
import msgspec
import pytest
import trio.testing

from reactive_desched.cli import pending
from reactive_desched.controller.pending import (
    PendingContext,
    PendingList,
    PendingQuery,
    list_pending,
)
from reactive_desched.controller.turn_forecast import findings_with_turns
from reactive_desched.gate.rate_limits import TokenRate
from reactive_desched.model.clock_pair import ClockPair
from reactive_desched.policy.settings.limits import EvictionSchedule
from reactive_desched.primitives.long_answers import at_once
from reactive_desched.testing.builders import node, pod
from reactive_desched.text.layout import TextLayout
from reactive_desched.why.explanation import Explainer
from reactive_desched.why.text import answer_lines
from tests.flow.test_brakes import NODES, braked, one_each, tainted
from tests.flow.test_brakes import pending as unplaced
from tests.support.flow import FakeEdgesController

pytestmark = pytest.mark.anyio

SLOW = {"cluster": TokenRate(1 / 60, 1)}
STORM = {"pods": 5, "releaseAfter": "10m"}


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def answer(flow: FakeEdgesController) -> PendingList:
    now = anyio.current_time()
    found = at_once(findings_with_turns(flow.controller, now))
    listed = list_pending(
        found, PendingQuery(), PendingContext(), ClockPair(now, flow.controller.view.now_s)
    )
    return at_once(listed)


def nexts(flow: FakeEdgesController) -> tuple[set[str], set[str]]:
    """Return what the columns NEXT say: of the reasons, and of each finding."""
    said: Any = msgspec.to_builtins(answer(flow))
    now = answer(flow).time
    heads = pending.GROUP_COLUMNS.index("NEXT")
    of_reasons = {pending.group_row(each, now)[heads] for each in said["reasons"]}
    return of_reasons, {pending._row(each, now)[4] for each in said["findings"]}


def nexts_of_why(flow: FakeEdgesController) -> str:
    """Return the line `next` of `why`, of the pod that waits longest."""
    now = anyio.current_time()
    moment = ClockPair(now, flow.controller.view.now_s)
    found = at_once(findings_with_turns(flow.controller, now))
    ref = found[0].decision.finding.pod
    waiting = flow.controller.view.pod(ref.uid)
    assert waiting is not None
    said: Any = msgspec.to_builtins(Explainer(flow.controller, found, moment).explain(waiting))
    lines = list(answer_lines(said, moment.time(now), TextLayout()))
    [line] = [each for each in lines if each.startswith("next")]
    return str(line).removeprefix("next").strip()


async def test_what_a_storm_holds_waits_for_the_moment_that_its_message_names() -> None:
    async with braked(storm=STORM).running() as flow:
        flow.sync_and_resume(*NODES, *one_each(NODES[:10]))
        await anyio.sleep(100)
        flow.deliver(*map(tainted, NODES[:10]))
        await anyio.sleep(60)
        [brake] = flow.pipeline.description.brake_states()
        rows = answer(flow).findings

        assert brake.until_s is not None
        assert {row.reason for row in rows} == {"FindingStorm"}
        assert {row.until and row.until.timestamp() for row in rows} == {brake.until_s}
        of_reasons, of_findings = nexts(flow)
        assert of_reasons == of_findings
        [said] = of_reasons
        assert said.startswith("after 9m")
        last = nexts_of_why(flow)
        assert last.startswith("it is evaluated again in 9m")
        assert " at the earliest" in last


def gates_of_why(flow: FakeEdgesController, name: str) -> dict[str, tuple[str, datetime | None]]:
    """Return what each gate that holds the pod says, and until when."""
    now = anyio.current_time()
    found = at_once(findings_with_turns(flow.controller, now))
    moment = ClockPair(now, flow.controller.view.now_s)
    refs = (each.decision.finding.pod for each in found)
    held = flow.controller.view.pod(next(ref.uid for ref in refs if ref.name == name))
    assert held is not None
    explained = Explainer(flow.controller, found, moment).explain(held)
    [profile] = explained.profiles
    return {each.gate: (each.message, each.until) for each in profile.gates if not each.passes}


async def test_no_gate_gives_a_pod_that_a_storm_holds_a_turn_before_its_end() -> None:
    async with braked(SLOW, storm=STORM).running() as flow:
        flow.sync_and_resume(*NODES, *one_each(NODES[:8]))
        await anyio.sleep(120)
        flow.deliver(tainted(NODES[0]))  # its pod takes the token
        await anyio.sleep(5)
        flow.deliver(*map(tainted, NODES[1:8]))
        await anyio.sleep(30)
        [brake] = flow.pipeline.description.brake_states()
        held = next(row.pod for row in answer(flow).findings if row.reason == "FindingStorm")

        message, until = gates_of_why(flow, held)["EvictionRateLimit"]

        assert ": at least 9m" in message
        assert until is not None
        assert until.timestamp() == brake.until_s


async def test_what_a_storm_holds_that_only_a_person_ends_waits_for_a_change() -> None:
    async with braked(storm={"pods": 5, "releaseAfter": None}).running() as flow:
        flow.sync_and_resume(*NODES, *one_each(NODES[:8]))
        flow.deliver(*map(tainted, NODES[:8]))
        await anyio.sleep(60)

        assert nexts(flow) == ({"at a change"}, {"at a change"})


async def test_no_turn_comes_before_the_end_of_a_pause() -> None:
    flow = braked(SLOW)
    async with flow.running():
        flow.sync_and_resume(*NODES, *one_each(NODES[:4]))
        flow.deliver(*map(tainted, NODES[:4]))
        await anyio.sleep(5)
        flow.controller.pauses.pause("ann", "upgrade", 3600)

        assert nexts(flow) == ({"turn after 1h"}, {"turn after 1h"})
        flow.controller.pauses.set_pause_file("true")
        [row] = answer(flow).reasons
        assert row.is_least
        assert row.next_turn is not None


async def test_of_two_pauses_the_later_end_counts_and_one_without_an_end_has_none() -> None:
    async with braked().running() as flow:
        flow.sync_and_resume(*NODES)
        await anyio.sleep(5)
        pauses, pause = flow.controller.pauses, flow.controller.gates.brakes.pause
        pauses.pause("ann", "", 60)
        assert pauses.next_release() == 65
        pauses.set_pause_file("1970-01-01T02:00:00Z")
        assert pause.until_s == 7200
        pauses.set_pause_file("maintenance")
        assert pause.until_s is None
        assert pauses.next_release() is None


async def test_the_end_of_too_many_pending_pods_is_said_once_it_is_foreseen() -> None:
    waiting = [unplaced(f"w{i}") for i in range(3)]
    async with braked(pending={"pods": 3, "after": "60s"}).running() as flow:
        flow.sync_and_resume(*NODES, *one_each(NODES[:2]), *waiting)
        await anyio.sleep(70)
        flow.deliver(*map(tainted, NODES[:2]))
        await anyio.sleep(10)
        assert nexts(flow) == ({"at a change"}, {"at a change"})

        flow.delete(waiting[0])
        await anyio.sleep(2)
        of_reasons, of_findings = nexts(flow)
        assert of_reasons == of_findings
        [said] = of_reasons
        assert said.startswith("after 5")


async def test_what_a_schedule_holds_waits_for_the_end_of_its_window() -> None:
    closed = EvictionSchedule.model_validate(
        {"schedule": "0 0 * * *", "duration": "10h", "evictions": 0, "timeZone": "UTC"}
    )
    flow = braked()
    flow.controller.gates.schedules.reconfigure([closed], ())
    async with flow.running():
        flow.sync_and_resume(node("n1"), node("n2"), pod("web", on="n1"))
        flow.deliver(tainted(node("n1")))
        await anyio.sleep(5)
        of_reasons, of_findings = nexts(flow)

        assert of_reasons == of_findings == {"in 9h 59m"}
