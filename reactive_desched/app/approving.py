"""Takes the orders `approve` and `reject`, and lists on a page what is proposed."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from itertools import chain
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from reactive_desched.api.event import ProposalsApproved, ProposalsRejected
from reactive_desched.app.input_notes import InputNotes
from reactive_desched.controller.pending import PendingFinding
from reactive_desched.controller.pipeline import Pipeline
from reactive_desched.controller.proposals import (
    ProposalList,
    ProposalScope,
    select_proposals,
)
from reactive_desched.controller.slices import in_slices
from reactive_desched.errors import ConfigError
from reactive_desched.eviction.recorder import Recorder
from reactive_desched.model.approvals import MAX_APPROVED_S, ProposalAnswer
from reactive_desched.model.evaluation import Evaluation
from reactive_desched.primitives.hints import refuse_filters
from reactive_desched.web.operator import DebugPage, Order, read_order

APPROVE, REJECT, PAGE = "approve", "reject", "proposals"

APPROVED_FOR_S: Final = 3600.0
REJECTED_FOR_S: Final = 86_400.0
"""How long an answer holds that does not say it."""

MAX_NAMED: Final = 100
"""So many single proposals one order names; a group or a profile has any number."""

MAX_PER_RECORD: Final = 200
"""So many proposals one record names; an answer to more has several."""

_Id = Annotated[str, Meta(max_length=64)]


class AnswerOrder(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The body of the orders `approve` and `reject`: what any of these name, or `all`.

    It holds for `forSeconds`, by default an hour to approve and a day to reject; `by` names the
    person.
    """

    proposals: Annotated[tuple[_Id, ...], Meta(max_length=MAX_NAMED)] = ()
    group: _Id = ""
    profile: Annotated[str, Meta(max_length=1000)] = ""
    all: bool = False
    for_seconds: Annotated[float, Meta(gt=0, le=MAX_APPROVED_S)] | None = None
    by: Annotated[str, Meta(max_length=200)] = "command"
    reason: Annotated[str, Meta(max_length=1000)] = ""

    @property
    def scope(self) -> ProposalScope:
        """Return what it names; raises ConfigError unless that is something, or all."""
        named = bool(self.proposals or self.group or self.profile)
        if named == self.all:
            raise ConfigError(
                "all is everything: name nothing beside it"
                if self.all
                else "name proposals, a group or a profile, or all of them with all"
            )
        return ProposalScope(self.proposals, self.group, self.profile, self.all)


class AnsweredProposals(Struct, frozen=True, rename="camel"):
    """The proposals that were answered, those of them that had this answer before, and until when.

    `notKept` is why a restart would forget it; empty when it would not.
    """

    proposals: tuple[str, ...]
    before: int
    until: datetime
    hold: str
    not_kept: str = ""


class Approving:
    """Has persons approve and reject what one controller proposes; each answer is recorded.

    `keep` writes down what outlives a restart, and returns why it could not.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        recorder: Recorder,
        notes: InputNotes,
        keep: Callable[[], Awaitable[str]],
    ) -> None:
        self._controller = pipeline.controller
        self._description = pipeline.description
        self._recorder = recorder
        self._notes = notes
        self._keep = keep

    @property
    def orders(self) -> tuple[Order, ...]:
        """The orders `approve` and `reject`."""
        return (
            Order(APPROVE, "let proposed pods be evicted", self._approve),
            Order(REJECT, "keep proposed pods where they are, for some time", self._reject),
        )

    @property
    def pages(self) -> tuple[DebugPage, ...]:
        """The page `proposals`."""
        return (DebugPage(PAGE, "the evictions that wait for a person's approval", self._read),)

    async def _read(self, query: Mapping[str, str]) -> ProposalList:
        refuse_filters(query)
        return await self._description.proposals()

    async def _approve(self, body: Mapping[str, Any]) -> AnsweredProposals:
        return await self._answer(APPROVE, body)

    async def _reject(self, body: Mapping[str, Any]) -> AnsweredProposals:
        return await self._answer(REJECT, body)

    async def _answer(self, name: str, body: Mapping[str, Any]) -> AnsweredProposals:
        order, approves = read_order(body, AnswerOrder), name == APPROVE
        controller, scope = self._controller, order.scope
        controller.pauses.check_leading()
        if fault := self._recorder.fault:
            raise ConfigError(f"it cannot be recorded, so nothing was answered: {fault}")
        for_s = order.for_seconds or (APPROVED_FOR_S if approves else REJECTED_FOR_S)
        answer = ProposalAnswer(approves, order.by, order.reason, for_s)
        moment, answers = self._description.moment(), controller.answers
        pending = controller.evaluator.queue.pending()
        decided = () if approves else controller.decided_proposals()
        findings: Iterable[PendingFinding | Evaluation] = chain(pending, decided)
        proposals = await in_slices(
            select_proposals(scope, findings, answers, moment.now, approves=approves)
        )
        answered = [answers.of(each, moment.now) for each in proposals]
        before = sum(each is not None and each.answer.approves == approves for each in answered)
        until = datetime.fromtimestamp(moment.wall_now + for_s, UTC)
        with controller.clocks.still():
            self._note(name, order, proposals, for_s)
            controller.answer_proposals(proposals, answer)
        self._record(scope, answer, proposals, until)
        await self._recorder.written()
        not_kept = await self._keep()
        return AnsweredProposals(proposals, before, until, controller.pauses.state().hold, not_kept)

    def _note(
        self, name: str, order: AnswerOrder, proposals: tuple[str, ...], for_s: float
    ) -> None:
        arguments = {"proposals": " ".join(proposals), "forSeconds": for_s, "reason": order.reason}
        self._notes.order_given(name, {**arguments, "by": order.by})

    def _record(
        self,
        scope: ProposalScope,
        answer: ProposalAnswer,
        proposals: tuple[str, ...],
        until: datetime,
    ) -> None:
        kind = ProposalsApproved if answer.approves else ProposalsRejected
        for first in range(0, len(proposals), MAX_PER_RECORD):
            some = proposals[first : first + MAX_PER_RECORD]
            self._recorder.record(
                kind(
                    by=answer.by,
                    message=answer.reason,
                    proposals=some,
                    scope=str(scope)[:1000],
                    until=until,
                ),
                "proposals",
                version=some[0],
                cause="command",
            )
