"""Mode propose: what every gate agreed to waits for a person, and is asked of every gate again."""

from collections.abc import Callable
from inspect import isawaitable
from itertools import count
from typing import Any

import anyio
import pytest
import trio.testing

from reactive_desched.api.event import ProposalEnded, ProposalsApproved, ProposalsRejected
from reactive_desched.app.approving import AnsweredProposals, Approving
from reactive_desched.app.input_notes import InputNotes
from reactive_desched.controller.proposals import ProposalList
from reactive_desched.errors import ConfigError
from reactive_desched.gate import approval
from reactive_desched.gate.approval import group_id, proposal_id
from reactive_desched.model.brakes import SavedBrakes
from reactive_desched.model.findings import Finding
from reactive_desched.model.modes import ACT, PROPOSE, Mode
from reactive_desched.primitives.token_bucket import TokenRate
from reactive_desched.testing.builders import node, pod
from tests.flow.test_modes import TAINTED, Moded, configuration, taints

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


class Proposing(Moded):
    """A controller with a profile that proposes, its orders and its page."""

    def __init__(
        self,
        modes: dict[str, Mode] | None = None,
        rates: dict[str, TokenRate | None] | None = None,
    ) -> None:
        super().__init__(configuration(modes or {"test": PROPOSE}, rates))
        self.approving = Approving(self.pipeline, self.intent_store, InputNotes(), self._keep)

        self.written_when_kept = list[int]()

    async def _keep(self) -> str:
        self.written_when_kept.append(self.intent_store.written_events)
        return ""

    async def answer(self, order: str, **body: Any) -> AnsweredProposals:
        """Carry out an order."""
        [found] = [each for each in self.approving.orders if each.name == order]
        answer = await found.carry_out(body)
        assert isinstance(answer, AnsweredProposals)
        return answer

    async def proposals(self) -> ProposalList:
        """Read the page."""
        await anyio.sleep(2)  # a list is kept for a moment
        [page] = self.approving.pages
        answer = page.read({})
        assert isawaitable(answer)
        found = await answer
        assert isinstance(found, ProposalList)
        return found

    async def proposed(self) -> dict[str, str]:
        """Return the id of the proposal of each pod, by name."""
        found = await self.proposals()
        return {each.pod: each.id for group in found.groups for each in group.proposals}


def two_pods() -> list[Any]:
    pods = [pod(name, on="n1", owner=f"ReplicaSet/{name}") for name in "ab"]
    return [node("n1"), node("n2"), *pods]


async def test_what_is_proposed_waits_for_a_person_and_then_goes() -> None:
    controller = Proposing()
    controller.sync_and_resume(*two_pods())
    async with controller.running():
        controller.deliver(TAINTED)
        await anyio.sleep(100)
        assert controller.evicted_names == []
        found = await controller.proposals()
        [group] = found.groups
        assert (found.total, group.total, group.node, group.profile) == (2, 2, "n1", "test")
        assert group.trigger == "NodeTaintsChanged node n1"

        answer = await controller.answer("approve", proposals=[group.proposals[0].id], by="ann")
        await anyio.sleep(5)

    assert answer.proposals == (group.proposals[0].id,)
    assert controller.evicted_names == [group.proposals[0].pod]
    [event] = controller.intent_store.events
    assert isinstance(event, ProposalsApproved)
    assert (event.by, event.proposals) == ("ann", answer.proposals)


@pytest.mark.parametrize("order", ["approve", "reject"])
async def test_an_answer_is_on_disk_before_it_is_kept_and_given(order: str) -> None:
    controller = Proposing()
    controller.sync_and_resume(*two_pods())
    controller.intent_store.slow_s = 0.5
    async with controller.running():
        controller.deliver(TAINTED)
        await controller.proposals()
        await controller.answer(order, all=True)

        assert controller.written_when_kept == [1]


@pytest.mark.parametrize("by", ["group", "profile", "all"])
async def test_a_group_a_profile_or_all_of_them_are_approved_at_once(by: str) -> None:
    controller = Proposing({"test": PROPOSE, "other": PROPOSE})
    controller.sync_and_resume(*two_pods())
    async with controller.running():
        controller.deliver(TAINTED)
        groups = {each.profile: each for each in (await controller.proposals()).groups}
        named = {"group": groups["test"].id, "profile": "test", "all": True}[by]
        answer = await controller.answer("approve", **{by: named})
        await anyio.sleep(5)

    assert sorted(controller.evicted_names) == ["a", "b"]
    assert len(answer.proposals) == (4 if by == "all" else 2)


async def test_what_is_approved_still_passes_every_limit() -> None:
    controller = Proposing(rates={"cluster": TokenRate(per_second=1 / 60, burst=1)})
    controller.sync_and_resume(*two_pods())
    async with controller.running():
        await anyio.sleep(100)
        controller.deliver(TAINTED)
        await controller.proposals()
        await controller.answer("approve", all=True)
        await anyio.sleep(5)
        assert len(controller.evicted_names) == 1
        await anyio.sleep(60)

    assert sorted(controller.evicted_names) == ["a", "b"]


async def test_an_approval_ends_with_its_time() -> None:
    controller = Proposing(rates={"cluster": TokenRate(per_second=1 / 60, burst=1)})
    controller.sync_and_resume(*two_pods())
    async with controller.running():
        await anyio.sleep(100)
        controller.deliver(TAINTED)
        await controller.proposals()
        await controller.answer("approve", all=True, forSeconds=10)
        await anyio.sleep(200)

        assert len(controller.evicted_names) == 1
        assert (await controller.proposals()).total == 1


async def test_what_is_rejected_stays_until_its_time_and_is_proposed_again() -> None:
    controller = Proposing()
    controller.sync_and_resume(*two_pods())
    async with controller.running():
        controller.deliver(TAINTED)
        ids = await controller.proposed()
        await controller.answer("reject", proposals=[ids["a"]], forSeconds=3600, reason="batch")
        found = await controller.proposals()
        assert (found.total, found.rejected) == (1, 1)
        await anyio.sleep(3600)
        assert (await controller.proposals()).total == 2

    assert controller.evicted_names == []
    [event] = controller.intent_store.events
    assert isinstance(event, ProposalsRejected)
    assert event.message == "batch"


async def test_the_last_answer_to_a_proposal_counts() -> None:
    controller = Proposing()
    controller.sync_and_resume(*two_pods())
    async with controller.running():
        controller.deliver(TAINTED)
        ids = await controller.proposed()
        await controller.answer("reject", proposals=[ids["a"]])
        await anyio.sleep(5)
        first = await controller.answer("approve", proposals=[ids["a"]])
        await anyio.sleep(5)

    assert first.before == 0
    assert controller.evicted_names == ["a"]


async def test_what_one_person_rejected_another_one_approves_by_its_id_alone() -> None:
    controller = Proposing()
    controller.sync_and_resume(*two_pods())
    async with controller.running():
        controller.deliver(TAINTED)
        ids = await controller.proposed()
        await controller.answer("reject", proposals=[ids["a"]])
        await anyio.sleep(5)
        answer = await controller.answer("approve", all=True)
        await anyio.sleep(5)

    assert answer.proposals == (ids["b"],)
    assert controller.evicted_names == ["b"]


async def test_what_is_approved_and_waits_can_still_be_rejected() -> None:
    controller = Proposing(rates={"cluster": TokenRate(per_second=1 / 60, burst=1)})
    controller.sync_and_resume(*two_pods())
    async with controller.running():
        await anyio.sleep(100)
        controller.deliver(TAINTED)
        ids = await controller.proposed()
        await controller.answer("approve", all=True)
        await anyio.sleep(5)
        [first] = controller.evicted_names
        [other] = {"a", "b"} - {first}
        await controller.answer("reject", proposals=[ids[other]])
        await anyio.sleep(100)

    assert controller.evicted_names == [first]


async def test_an_approval_that_is_given_again_never_ends_sooner() -> None:
    controller = Proposing(rates={"cluster": TokenRate(per_second=1 / 60, burst=1)})
    controller.sync_and_resume(*two_pods())
    async with controller.running():
        await anyio.sleep(100)
        controller.deliver(TAINTED)
        await controller.proposals()
        await controller.answer("approve", all=True, forSeconds=1000)
        await controller.answer("approve", all=True, forSeconds=10)
        await anyio.sleep(100)

    assert sorted(controller.evicted_names) == ["a", "b"]


async def test_an_approval_that_is_given_twice_evicts_once_and_says_so() -> None:
    controller = Proposing(rates={"cluster": TokenRate(per_second=1 / 600, burst=1)})
    controller.sync_and_resume(*two_pods())
    async with controller.running():
        controller.deliver(TAINTED)
        ids = await controller.proposed()
        await controller.answer("approve", proposals=[ids["b"]])
        one, two = [await controller.answer("approve", proposals=[ids["a"]]) for _ in range(2)]
        await anyio.sleep(1200)

    assert (one.before, two.before) == (0, 1)
    assert controller.evicted_names == ["b", "a"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "name proposals"),
        ({"all": True, "group": "x"}, "name nothing beside it"),
        ({"proposals": ["00000000"]}, "there is no proposal"),
        ({"group": "00000000"}, "nothing is proposed by group 00000000"),
        ({"profile": "none"}, "is proposed by profile none"),
        ({"all": True, "forSeconds": -1}, "forSeconds"),
        ({"every": True}, "every.*is unknown"),
        ({"proposals": ["0000000"]}, "too short"),
        ({"group": "0000000"}, "too short"),
    ],
)
async def test_what_is_not_proposed_cannot_be_approved(body: dict[str, Any], message: str) -> None:
    controller = Proposing()
    controller.sync_and_resume(*two_pods())
    async with controller.running():
        controller.deliver(TAINTED)
        await controller.proposals()
        with pytest.raises(ConfigError, match=message):
            await controller.answer("approve", **body)
        await anyio.sleep(5)

    assert (controller.evicted_names, controller.intent_store.events) == ([], [])


def same_beginning(id_of: Callable[[str], str]) -> tuple[str, str]:
    """Return two names whose ids have their first 8 characters in common."""
    seen: dict[str, str] = {}
    for name in map("pod-{}".format, count()):
        if (other := seen.setdefault(id_of(name)[:8], name)) != name:
            return other, name
    raise AssertionError


async def test_an_approval_by_what_two_proposals_have_in_common_lets_none_go() -> None:
    one, two = same_beginning(
        lambda uid: proposal_id("test", Finding(pod(uid, on="n1"), taints().name, ""))
    )
    controller = Proposing()
    owners = {name: f"ReplicaSet/{name}" for name in (one, two)}
    pods = [pod(name, on="n1", owner=owner) for name, owner in owners.items()]
    controller.sync_and_resume(node("n1"), node("n2"), *pods)
    async with controller.running():
        controller.deliver(TAINTED)
        ids = await controller.proposed()
        with pytest.raises(ConfigError, match=f"{ids[one]} or {ids[two]}|{ids[two]} or {ids[one]}"):
            await controller.answer("approve", proposals=[ids[one][:8]])
        await anyio.sleep(5)
        assert (controller.evicted_names, controller.intent_store.events) == ([], [])

        answer = await controller.answer("approve", proposals=[ids[one][:12]])
        await anyio.sleep(5)

    assert answer.proposals == (ids[one],)
    assert controller.evicted_names == [one]


async def test_an_approval_by_what_two_groups_have_in_common_lets_none_go() -> None:
    one, two = same_beginning(
        lambda name: group_id("test", Finding(pod("a", on=name), taints().name, ""))
    )
    controller = Proposing()
    pods = [pod(f"on-{name}", on=name, owner=f"ReplicaSet/{name}") for name in (one, two)]
    controller.sync_and_resume(node(one), node(two), node("n3"), *pods)
    async with controller.running():
        for name in (one, two):
            controller.deliver(node(name, "gpu:NoSchedule"))
        groups = {each.node: each.id for each in (await controller.proposals()).groups}
        with pytest.raises(ConfigError, match="is the beginning of 2 groups"):
            await controller.answer("approve", group=groups[one][:8])
        await controller.answer("approve", group=groups[two][:12])
        await anyio.sleep(5)

    assert controller.evicted_names == [f"on-{two}"]


async def test_an_approval_that_comes_too_late_is_refused() -> None:
    controller = Proposing()
    controller.sync_and_resume(*two_pods())
    async with controller.running():
        controller.deliver(TAINTED)
        ids = await controller.proposed()
        controller.deliver(node("n1"))
        await anyio.sleep(5)
        with pytest.raises(ConfigError, match="its finding ended"):
            await controller.answer("approve", proposals=[ids["a"]])
        found = await controller.proposals()

    assert found.total == 0
    ended = {
        each.proposal for each in controller.intent_store.events if isinstance(each, ProposalEnded)
    }
    assert ended == set(ids.values())


async def test_a_pod_that_is_replaced_needs_an_approval_of_its_own() -> None:
    controller = Proposing()
    controller.sync_and_resume(node("n1"), node("n2"), pod("a", on="n1"))
    async with controller.running():
        controller.deliver(TAINTED)
        ids = await controller.proposed()
        controller.delete(pod("a", on="n1"))
        controller.deliver(pod("c", on="n1"))
        again = await controller.proposed()

    assert (list(ids), list(again)) == (["a"], ["c"])
    assert ids["a"] != again["c"]


async def test_an_answer_outlives_a_restart_for_what_is_left_of_it() -> None:
    first = Proposing(rates={"cluster": TokenRate(per_second=1e-6, burst=1)})
    first.sync_and_resume(*two_pods())
    async with first.running():
        first.deliver(TAINTED)
        ids = await first.proposed()
        await first.answer("approve", proposals=[ids["a"]], forSeconds=100)
        await first.answer("reject", proposals=[ids["b"]], forSeconds=1000)
        saved: SavedBrakes = first.controller.pauses.saved_brakes()
    await anyio.sleep(200)
    second = Proposing()
    second.controller.pauses.restore(saved)
    second.sync_and_resume(*two_pods())
    async with second.running():
        second.deliver(TAINTED)
        await anyio.sleep(5)
        found = await second.proposals()
        assert (found.total, found.rejected) == (1, 1)
        assert await second.proposed() == {"a": ids["a"]}
        await anyio.sleep(900)
        assert (await second.proposals()).total == 2

    assert second.evicted_names == []


async def test_no_more_answers_are_kept_than_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approval, "MAX_ANSWERED", 1)
    controller = Proposing()
    controller.sync_and_resume(*two_pods())
    async with controller.running():
        controller.deliver(TAINTED)
        await controller.proposals()
        with pytest.raises(ConfigError, match="no more than 1 proposals"):
            await controller.answer("approve", all=True)
        await anyio.sleep(5)

    assert controller.evicted_names == []


async def test_proposals_take_nothing_from_what_acts() -> None:
    rates: dict[str, TokenRate | None] = {"cluster": TokenRate(per_second=1 / 600, burst=1)}
    controller = Proposing({"asks": PROPOSE, "done": ACT}, rates)
    controller.sync_and_resume(node("n1"), node("n2"), pod("a", on="n1"))
    async with controller.running():
        controller.deliver(TAINTED)
        await anyio.sleep(5)

    assert controller.evicted_names == ["a"]


@pytest.mark.parametrize(
    ("order", "left"),
    [
        pytest.param({"proposals": True}, [], id="by its id"),
        pytest.param({"all": True}, [], id="among all"),
        pytest.param({}, ["a"], id="of another pod"),
    ],
)
async def test_a_rejection_stops_what_was_approved_and_decided(
    order: dict[str, Any], left: list[str]
) -> None:
    controller = Proposing()
    controller.sync_and_resume(*two_pods())
    async with controller.running():
        controller.deliver(TAINTED)
        ids = await controller.proposed()
        await controller.answer("approve", proposals=[ids["a"]])
        controller.intent_store.slow_s = 2.0
        await anyio.sleep(1)
        assert controller.intent_store.begun == ["a"]
        named = {"proposals": [ids["a" if order else "b"]]} if "all" not in order else order
        await controller.answer("reject", **named)
        await anyio.sleep(10)

    assert controller.evicted_names == left


async def test_the_end_of_an_approval_does_not_stop_what_it_let_go() -> None:
    controller = Proposing()
    controller.sync_and_resume(*two_pods())
    async with controller.running():
        controller.deliver(TAINTED)
        ids = await controller.proposed()
        await controller.answer("approve", proposals=[ids["a"]], forSeconds=1)
        controller.intent_store.slow_s = 2.0
        await anyio.sleep(1.5)
        controller.deliver(node("n3"))
        await anyio.sleep(10)

    assert controller.evicted_names == ["a"]


async def test_what_was_asked_to_leave_is_no_proposal_that_may_be_rejected() -> None:
    controller = Proposing()
    controller.sync_and_resume(*two_pods())
    controller.evictor.slow_s = 3.0
    async with controller.running():
        controller.deliver(TAINTED)
        ids = await controller.proposed()
        await controller.answer("approve", proposals=[ids["a"]])
        for _ in range(2):  # while the request is under way, and after it
            await anyio.sleep(2)
            assert controller.evicted_names == ["a"]
            with pytest.raises(ConfigError, match="there is no proposal"):
                await controller.answer("reject", proposals=[ids["a"]])
