"""Holds the pods of plugins that propose until a person approves, and keeps what persons said."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.errors import ConfigError
from reactive_desched.gate.annotated import AnnotatedAnswer, AnnotatedAnswers
from reactive_desched.model.approvals import (
    NOT_APPROVED_CODE,
    ProposalAnswer,
    SavedAnswer,
    short_id,
)
from reactive_desched.model.changes import ProposalAnswered
from reactive_desched.model.decisions import Decision, Defer, Evict, GateReason, Refuse, WaitEnd
from reactive_desched.model.findings import Finding
from reactive_desched.model.wakes import ChangeTypes, WakeOn, WakeOnPod

APPROVAL_GATE: Final = "Approval"
NOT_APPROVED: Final = GateReason(
    APPROVAL_GATE,
    NOT_APPROVED_CODE,
    "The plugin's mode is `propose`: nothing but a person's approval is missing.",
    "mode",
)
REJECTED: Final = GateReason(
    APPROVAL_GATE,
    "RejectedByPerson",
    "The plugin's mode is `propose`, and a person rejected the eviction, until a time.",
)
REJECTED_BY_ANNOTATION: Final = GateReason(
    APPROVAL_GATE,
    "RejectedByAnnotation",
    "The plugin's mode is `propose`, and the annotation `reactive-desched/proposals` of the pod, "
    "its workload or its namespace rejects the eviction, until a time.",
    "proposals.annotationsOf",
)

MAX_ANSWERED: Final = 10_000
"""So many proposals have an answer at a time; then no more are answered."""

_ID_CHARACTERS: Final = 32
"""128 bits: no two proposals that stand have one id, however many there are."""


class WakeOnApproval(WakeOn, frozen=True, gc=False):
    """A person answers a proposal."""

    changes: ClassVar[ChangeTypes] = (ProposalAnswered,)
    proposal: str

    @property
    def description(self) -> str:
        """Return what is awaited, with as much of the id as people write."""
        return f"an approval of proposal {short_id(self.proposal)}"


def proposal_id(profile: str, finding: Finding) -> str:
    """Return the id of the proposal to evict a pod: the same in every process."""
    return _digest(profile, finding.plugin, finding.pod.uid)


def group_id(profile: str, finding: Finding) -> str:
    """Return the id of the group of proposals with one cause: a plugin, and the pods' node."""
    return _digest(profile, finding.plugin, finding.pod.node)


def _digest(*parts: str) -> str:
    text = "\n".join(parts).encode(errors="backslashreplace")
    return hashlib.sha256(text).hexdigest()[:_ID_CHARACTERS]


class GivenAnswer(Struct, frozen=True, gc=False):
    """A person's answer to a proposal, which holds until then.

    `until` is monotonic seconds, `until_s` the same as seconds since the epoch.
    """

    answer: ProposalAnswer
    until: float
    until_s: float


class Answers:
    """The answers of persons to proposals, each until its time; times are monotonic seconds.

    An answer outlives a restart for as long as is left of it.
    """

    def __init__(self) -> None:
        self._given: dict[str, GivenAnswer] = {}

    def of(self, proposal: str, now: float) -> GivenAnswer | None:
        """Return the answer to a proposal that holds now."""
        given = self._given.get(proposal)
        return given if given is not None and now < given.until else None

    def give(
        self, proposals: Sequence[str], answer: ProposalAnswer, now: float, wall_now: float
    ) -> None:
        """Answer proposals; raises ConfigError above the bound, and then answers none.

        The last answer counts; the same one given again never ends sooner.
        """
        self._expire(now)
        if len(self._given.keys() | {*proposals}) > MAX_ANSWERED:
            raise ConfigError(
                f"no more than {MAX_ANSWERED:,} proposals have an answer at a time: "
                "answer fewer of them, or for a shorter time"
            )
        given = GivenAnswer(answer, now + answer.for_s, wall_now + answer.for_s)
        for proposal in proposals:
            before = self._given.get(proposal)
            is_same = before is not None and before.answer.approves == answer.approves
            if before is None or not is_same or before.until < given.until:
                self._given[proposal] = given

    def saved(self, now: float) -> tuple[SavedAnswer, ...]:
        """Return what outlives a restart; proposals with one answer and end are together."""
        if not self._given:
            return ()
        self._expire(now)
        together: dict[GivenAnswer, list[str]] = {}
        for proposal, given in self._given.items():
            together.setdefault(given, []).append(proposal)
        return tuple(
            SavedAnswer(given.answer, tuple(proposals), given.until_s)
            for given, proposals in together.items()
        )

    def restore(self, saved: Iterable[SavedAnswer], now: float, wall_now: float) -> None:
        """Restore the answers that an earlier process kept, for at most their whole length."""
        for each in saved:
            left_s = min(each.until_s - wall_now, each.answer.for_s)
            given = GivenAnswer(each.answer, now + left_s, each.until_s)
            self._given |= dict.fromkeys(each.proposals, given)

    def _expire(self, now: float) -> None:
        if any(now >= each.until for each in self._given.values()):
            self._given = {key: each for key, each in self._given.items() if now < each.until}


class Approval:
    """Lets a pod of one profile go while a person's approval of it holds."""

    name = APPROVAL_GATE

    def __init__(self, answers: Answers, annotated: AnnotatedAnswers, profile: str) -> None:
        self._answers = answers
        self._annotated = annotated
        self._profile = profile

    def check(self, finding: Finding, now: float) -> Defer | Refuse | None:
        """Refuse a pod that no person and no annotation approved, or that one rejected.

        A rejection counts, whatever else approves.
        """
        pod, proposal = finding.pod, proposal_id(self._profile, finding)
        given, annotated = self._answers.of(proposal, now), self._annotated.of(pod)
        wakes = (WakeOnPod(pod.uid), WakeOnApproval(proposal), *self._annotated.wakes(pod))
        if annotated is not None and not annotated.approves and not annotated.fault:
            why = f": {annotated.reason}" if annotated.reason else ""
            message = f"{annotated.by} rejects its eviction{why}"
            until = now + annotated.until_s - self._annotated.now_s
            refused = REJECTED_BY_ANNOTATION.refuse(finding, message, wakes, until)
            return refused.ending(WaitEnd("; that ends", until))
        if given is None:
            if annotated is not None and annotated.approves:
                return None
            message = f"it waits for a person: `reactive-desched approve {short_id(proposal)}`"
            if annotated is not None:
                message = f"{message}; {annotated.fault}"
            return NOT_APPROVED.refuse(finding, message, wakes)
        if given.answer.approves:
            return None
        why = f": {given.answer.reason}" if given.answer.reason else ""
        message = f"{given.answer.by} rejected proposal {short_id(proposal)}{why}"
        end = WaitEnd("; that ends", given.until)
        return REJECTED.refuse(finding, message, wakes, given.until).ending(end)

    def held_since(self, finding: Finding, now: float) -> str:
        """Say who rejects the eviction by now; empty also where an approval has merely ended."""
        refusal = self.check(finding, now)
        if refusal is None or refusal.reason == NOT_APPROVED.code:
            return ""
        return refusal.message

    def annotation_behind(self, decision: Decision, now: float) -> AnnotatedAnswer | None:
        """Return the annotation by which a pod is evicted, or is not; None where it is no other's.

        A person's approval of the very proposal counts before that of an annotation.
        """
        finding = decision.finding
        if isinstance(decision, Evict):
            if self._answers.of(proposal_id(self._profile, finding), now) is not None:
                return None
        elif decision.reason != REJECTED_BY_ANNOTATION.code:
            return None
        return self._annotated.of(finding.pod)


def as_accepted(decision: Decision) -> Decision:
    """Return a decision as the plugin receives it: a pod that is proposed leaves, by its plan.

    Else a plan would propose every pod of a node that a few of them would relieve.
    """
    if isinstance(decision, Refuse) and decision.reason == NOT_APPROVED.code:
        return replace(decision, pod_leaves=True)
    return decision
