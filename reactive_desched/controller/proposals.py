"""Lists what plugins propose and no person has approved yet, by what led to it."""

from collections.abc import Generator, Iterable, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from reactive_desched.controller.pending import PODS_PER_SLICE, PendingFinding
from reactive_desched.errors import ConfigError
from reactive_desched.gate.approval import (
    NOT_APPROVED,
    REJECTED,
    REJECTED_BY_ANNOTATION,
    Answers,
    GivenAnswer,
    group_id,
    proposal_id,
)
from reactive_desched.model.approvals import MIN_ID_CHARACTERS, short_id
from reactive_desched.model.clock_pair import ClockPair
from reactive_desched.model.decisions import Decision, Evict
from reactive_desched.model.evaluation import Evaluation
from reactive_desched.model.modes import PROPOSE
from reactive_desched.primitives.hints import did_you_mean, quote

MAX_GROUPS = 200
"""So many groups are listed, those that wait longest first; the others are only counted."""

MAX_IN_GROUP = 500
"""So many proposals of a group are listed; the others are only counted."""


_REJECTIONS: Final = frozenset({REJECTED.code, REJECTED_BY_ANNOTATION.code})
_ANSWERABLE: Final = _REJECTIONS | {NOT_APPROVED.code}


class ProposalRow(Struct, frozen=True, rename="camel"):
    """One pod that a plugin proposes to evict, since when."""

    id: str
    namespace: str
    pod: str
    node: str
    finding: str
    since: datetime


class ProposalGroup(Struct, frozen=True, rename="camel"):
    """The proposals of one plugin on the pods of one node; `trigger` is what led to the first.

    `finding` is that of an example. `total` counts those that are not listed, too.
    """

    id: str
    profile: str
    plugin: str
    node: str
    trigger: str
    finding: str
    since: datetime
    total: int
    proposals: tuple[ProposalRow, ...]


class ProposalList(Struct, frozen=True, rename="camel"):
    """The proposals that wait for a person, as of `time`; `rejected` counts those rejected.

    `hold` is why no pod is evicted now, also after an approval.
    """

    time: datetime
    total: int
    rejected: int
    hold: str
    groups: tuple[ProposalGroup, ...]


class ProposalScope(Struct, frozen=True):
    """Names proposals: single ones, those of a group or profile, or all.

    The id of a proposal or a group may be the beginning of one.
    """

    proposals: tuple[str, ...] = ()
    group: str = ""
    profile: str = ""
    all: bool = False

    def __str__(self) -> str:
        if self.all:
            return "every proposal"
        named = {"group": self.group, "profile": self.profile}
        parts = [f"{name} {value}" for name, value in named.items() if value]
        return ", ".join((*parts, *map("proposal {}".format, self.proposals)))

    def check(self) -> None:
        """Raise ConfigError where an id is too short to be meant."""
        for each in (*self.proposals, *filter(None, (self.group,))):
            if len(each) < MIN_ID_CHARACTERS:
                raise ConfigError(
                    f"{quote(each)} is too short for an id: write {MIN_ID_CHARACTERS} characters "
                    "of it, or more"
                )

    def has(self, profile: str, group: str) -> bool:
        """Say whether the proposals of a profile and group are named, and not by their own ids."""
        return (
            self.all
            or (bool(self.group) and group.startswith(self.group))
            or (bool(self.profile) and profile == self.profile)
        )


def select_proposals(
    scope: ProposalScope,
    findings: Iterable[PendingFinding | Evaluation],
    answers: Answers,
    now: float,
    *,
    approves: bool,
) -> Generator[None, None, tuple[str, ...]]:
    """Return the ids that a scope names, in steps.

    What is approved and waits for something else is among them, and by its id whatever waits. What
    a person rejected is approved by its id alone, and not while an annotation rejects it.

    Raises ConfigError where the scope names nothing that stands, or where the beginning of an id is
    that of several.
    """
    scope.check()
    found: dict[str, None] = {}
    standing: dict[str, None] = {}
    groups: dict[str, None] = {}
    for number, each in enumerate(findings):
        if each.mode == PROPOSE:
            proposal = proposal_id(each.profile, each.decision.finding)
            given = answers.of(proposal, now)
            is_named = proposal.startswith(scope.proposals)
            if given is not None or is_named or _is_answerable(each.decision):
                group = group_id(each.profile, each.decision.finding)
                standing[proposal] = groups[group] = None
                is_kept = approves and _is_rejected(each, given, is_named=is_named)
                if is_named or (not is_kept and scope.has(each.profile, group)):
                    found[proposal] = None
        if number % PODS_PER_SLICE == 0:
            yield
    for name in scope.proposals:
        if not _is_one(name, "proposal", [each for each in found if each.startswith(name)]):
            near = did_you_mean(name, [*map(short_id, standing)])
            raise ConfigError(
                f"there is no proposal {quote(name)} now: it was carried out, its pod left, or its "
                f"finding ended; `proposals` lists those that stand{f'; {near}' if near else ''}"
            )
    if scope.group:
        _is_one(scope.group, "group", [each for each in groups if each.startswith(scope.group)])
    if not found:
        raise ConfigError(f"nothing is proposed by {scope}; `proposals` lists what is")
    return tuple(found)


def _is_answerable(decision: Decision) -> bool:
    return isinstance(decision, Evict) or decision.reason in _ANSWERABLE


def _is_rejected(
    each: PendingFinding | Evaluation, given: GivenAnswer | None, *, is_named: bool
) -> bool:
    """Say whether a proposal is rejected; raises ConfigError where its id is named in vain."""
    if isinstance(each.decision, Evict):
        return False
    is_by_annotation = each.decision.reason == REJECTED_BY_ANNOTATION.code
    if is_by_annotation and is_named:
        raise ConfigError(
            f"it cannot be approved while an annotation rejects it: {each.decision.message}"
        )
    return is_by_annotation or (given is not None and not given.answer.approves)


def _is_one(name: str, what: str, ids: Sequence[str]) -> bool:
    """Say whether the beginning of an id names one; raises ConfigError where it names several."""
    if len(ids) > 1:
        raise ConfigError(
            f"{quote(name)} is the beginning of {len(ids):,} {what}s, so nothing was answered: "
            f"write more of {' or '.join(sorted(ids)[:3])}"
        )
    return bool(ids)


def list_proposals(
    findings: Sequence[PendingFinding], hold: str, moment: ClockPair
) -> Generator[None, None, ProposalList]:
    """Return what waits for a person, in steps."""
    groups: dict[str, list[PendingFinding]] = {}
    rejected = 0
    for number, each in enumerate(findings):
        if each.decision.reason == NOT_APPROVED.code:
            groups.setdefault(group_id(each.profile, each.decision.finding), []).append(each)
        rejected += each.decision.reason in _REJECTIONS
        if number % PODS_PER_SLICE == 0:
            yield
    oldest = sorted(groups.items(), key=lambda each: min(one.since for one in each[1]))
    listed = []
    for name, members in oldest[:MAX_GROUPS]:
        listed.append(_group(name, members, moment))
        yield
    return ProposalList(
        moment.time(moment.now), sum(map(len, groups.values())), rejected, hold, tuple(listed)
    )


def _group(name: str, members: Sequence[PendingFinding], moment: ClockPair) -> ProposalGroup:
    members = sorted(members, key=lambda each: each.since)
    first = members[0]
    finding = first.decision.finding
    return ProposalGroup(
        name,
        first.profile,
        finding.plugin,
        finding.pod.node,
        str(first.trigger),
        finding.message,
        moment.time(first.since),
        len(members),
        tuple(_row(each, moment) for each in members[:MAX_IN_GROUP]),
    )


def _row(each: PendingFinding, moment: ClockPair) -> ProposalRow:
    finding = each.decision.finding
    pod = finding.pod
    return ProposalRow(
        proposal_id(each.profile, finding),
        pod.namespace,
        pod.name,
        pod.node,
        finding.message,
        moment.time(each.since),
    )
