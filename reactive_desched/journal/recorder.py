"""What the rest of the controller sees of the journal: what was found, decided, begun and ended."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import anyio

from reactive_desched._version import __version__
from reactive_desched.api.event import (
    DRY_RUN,
    EVICTION_REQUESTED,
    FINDING_MADE,
    JOURNAL_LOST,
    LIVE,
    POLICY_LOADED,
    POLICY_REJECTED,
    DecisionMade,
    EvictionEnded,
    EvictionRequested,
    FindingMade,
    JournalLost,
    PolicyLoaded,
    PolicyRejected,
)
from reactive_desched.journal.correlation import Case, Cases
from reactive_desched.journal.envelope import (
    Story,
    about_journal,
    digest_id,
    envelope,
    epoch_of,
)
from reactive_desched.journal.journal import Journal
from reactive_desched.journal.payloads import (
    bounded,
    cause,
    cause_id,
    ending,
    ending_type,
    partition_key,
    subject,
    verdict,
    what,
    who,
    why,
)
from reactive_desched.journal.records import AnyEvent
from reactive_desched.journal.recovery import OpenIntent
from reactive_desched.model.accounts import Account
from reactive_desched.model.decisions import Decision, Evict
from reactive_desched.model.intents import Intent
from reactive_desched.model.outcomes import LEFT, Outcome
from reactive_desched.primitives.token_bucket import Bucket, Rate

MOST_PROBLEMS, LONGEST_PROBLEM = 20, 1000
"""An event about a refused policy names so many problems at most, each with so many characters."""


class Ledger:
    """Makes events of what happens and has the journal write them.

    Ids follow from what they are about and from the journal's own past, so that the same life
    gives the same ids. `verdicts` bounds how many verdicts other than evictions are written.
    `clock` is the time of day.
    """

    def __init__(
        self,
        journal: Journal,
        clock: Callable[[], datetime],
        *,
        verdicts: Rate,
        dry_run: bool = False,
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._mode = DRY_RUN if dry_run else LIVE
        self._bucket: Bucket | None = None
        self._rate = verdicts
        self._cases = Cases()
        self._life = str(journal.tail.last)
        self._begun = 0
        self._revision = ""
        self._asked_at: dict[str, float] = {}

    # --- policies and the journal itself ---

    def policy_loaded(self, source: str, revision: str) -> None:
        """Write down that a policy came into force; what follows was decided by it."""
        self._revision = revision
        data = PolicyLoaded(
            mode=self._mode,  # type: ignore[arg-type]  # one of the two
            revision=revision,
            source=source,
            version=__version__,
        )
        self._note_about_policy(POLICY_LOADED, data, revision)

    def policy_rejected(self, source: str, problems: tuple[str, ...]) -> None:
        """Write down that changed files were refused."""
        some = tuple(bounded(each, LONGEST_PROBLEM) for each in problems[:MOST_PROBLEMS])
        data = PolicyRejected(kept=self._revision, problems=some, source=source)
        self._note_about_policy(POLICY_REJECTED, data, self._revision)

    async def lost(self, sink: str, first: int, last: int) -> None:
        """Write down, durably, that records are removed which a sink has not read."""
        data = JournalLost(first=first, last=last, sink=sink)
        event = about_journal(
            self._journal.source, JOURNAL_LOST, last, self._clock(), data, mark=sink
        )
        await self._journal.append_lasting(event)

    def _note_about_policy(self, type_: str, data: Any, revision: str) -> None:
        self._begun += 1
        epoch = epoch_of(self._journal.source)
        story = Story(f"{epoch}.policy.{revision}", "policy", epoch)
        id_ = f"{epoch}.policy.{self._life}.{self._begun}"
        event = envelope(
            self._journal.source, type_, story, self._clock(), data, id_=id_, cause="policy files"
        )
        self._journal.note(event)

    # --- pods ---

    def decided(self, account: Account, decision: Decision) -> None:
        """Write down a verdict that is news, and the finding when it is the first on it.

        Nobody waits for it, but it stands before any intent that follows. Beyond the bound on
        their rate verdicts other than evictions are only counted.
        """
        if not isinstance(decision, Evict) and not self._may_note():
            self._journal.leave_out()
            return
        about = self._about(account)
        case = self._cases.find(account) or self._open(account, about)
        case.verdicts += 1
        type_, said = verdict(decision)
        data = DecisionMade(decision=said, **about)
        self._journal.note(
            self._event(type_, case, account, data, id_=case.verdict_id, cause=case.finding_id)
        )

    async def begin(self, intent: Intent) -> str:
        """Return the id of a new intent once it is on disk; only then may the pod be evicted.

        Raises JournalUnavailable, at once, while the journal cannot write.
        """
        account = intent.account
        case = self._cases.find(account) or self._open(account, self._about(account))
        case.attempts += 1
        data = EvictionRequested(
            attempt=case.attempts, **self._about(account, intent.grace_period_s)
        )
        event = self._event(
            EVICTION_REQUESTED, case, account, data, id_=case.request_id, cause=case.verdict_id
        )
        await self._journal.append(event)
        self._asked_at[event.id] = anyio.current_time()
        return event.id

    async def end(self, intent_id: str, outcome: Outcome) -> None:
        """Return when the intent's outcome is on disk, however long the disk takes."""
        open_ = self._journal.open_intent(intent_id)
        assert open_ is not None, "an intent is ended once, by whoever began it"
        begun = open_.event.data
        began_at = self._asked_at.pop(intent_id, None)
        took_ms = None if began_at is None else round((anyio.current_time() - began_at) * 1000)
        await self._journal.append_lasting(self._ending(open_, outcome, took_ms))
        if outcome.result in LEFT:
            self._cases.close(begun.who.uid, begun.why.profile, begun.why.plugin)

    def unended(self) -> tuple[OpenIntent, ...]:
        """Return the intents without outcome: at start, those that a crash cut short."""
        return self._journal.open_intents

    def _may_note(self) -> bool:
        now = anyio.current_time()
        if self._bucket is None:
            self._bucket = Bucket(self._rate, now)
        return self._bucket.take(now)

    def _open(self, account: Account, about: Mapping[str, Any]) -> Case:
        """Begin a case, and write down the finding it begins with."""
        self._begun += 1
        pod, number = account.finding.pod, f"{self._life}.{self._begun}"
        names = (pod.uid, account.profile, account.finding.plugin, self._revision)
        id_ = digest_id(self._journal.source, *names, cause_id(account), number)
        case = self._cases.begin(account, id_)
        data = FindingMade(**about)
        self._journal.note(
            self._event(
                FINDING_MADE, case, account, data, id_=case.finding_id, cause=cause_id(account)
            )
        )
        return case

    def _about(self, account: Account, grace_period_s: int | None = None) -> dict[str, Any]:
        return {
            "mode": self._mode,
            "trigger": cause(account),
            "what": what(grace_period_s),
            "who": who(account),
            "why": why(account, self._revision),
        }

    def _event(
        self, type_: str, case: Case, account: Account, data: Any, *, id_: str, cause: str
    ) -> AnyEvent:
        story = Story(case.id, subject(account.finding.pod), partition_key(account))
        return envelope(
            self._journal.source, type_, story, self._clock(), data, id_=id_, cause=cause
        )

    def _ending(self, open_: OpenIntent, outcome: Outcome, took_ms: int | None) -> AnyEvent:
        event, begun = open_.event, open_.event.data
        data = EvictionEnded(
            attempt=begun.attempt,
            mode=begun.mode,
            outcome=ending(outcome, took_ms),
            trigger=begun.trigger,
            what=begun.what,
            who=begun.who,
            why=begun.why,
        )
        return envelope(
            self._journal.source,
            ending_type(outcome),
            Story(event.correlationid, event.subject, event.partitionkey),
            self._clock(),
            data,
            id_=event.id.replace(".requested.", ".outcome."),
            cause=event.id,
        )
