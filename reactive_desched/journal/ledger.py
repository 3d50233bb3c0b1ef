"""What the eviction path sees of the journal: begin an intent, end it; no records, no files."""

from collections.abc import Callable
from datetime import datetime

from reactive_desched.journal.ids import Ids
from reactive_desched.journal.journal import Journal
from reactive_desched.journal.records import IntentRecord, OutcomeRecord
from reactive_desched.model.intents import Intent
from reactive_desched.model.objects import Pod
from reactive_desched.model.outcomes import Outcome


class Ledger:
    """Writes intents, and the outcomes that end them, as records with ids and times."""

    def __init__(self, journal: Journal, ids: Ids, clock: Callable[[], datetime]) -> None:
        self._journal = journal
        self._ids = ids
        self._clock = clock

    async def begin(self, intent: Intent) -> str:
        """Return the id of a new intent once it is on disk; only then may the pod be evicted.

        Raises JournalUnavailable, at once, while the journal cannot write.
        """
        pod = intent.pod
        record = IntentRecord(
            time=self._clock(),
            id=self._ids.next(),
            namespace=pod.namespace,
            pod=pod.name,
            uid=pod.uid,
            node=pod.node,
            owner=_owner(pod),
            plugin=intent.plugin,
            reason=intent.reason,
            profile=intent.profile,
            trigger=intent.trigger,
            dry_run=intent.dry_run,
        )
        await self._journal.append(record)
        return record.id

    async def end(self, intent_id: str, outcome: Outcome, status: int | None = None) -> None:
        """Return when the intent's outcome is on disk, however long the disk takes."""
        await self._journal.append_outcome(
            OutcomeRecord(
                time=self._clock(),
                intent=intent_id,
                result=outcome.result,
                detail=outcome.detail,
                status=status,
            )
        )

    def unended(self) -> tuple[IntentRecord, ...]:
        """Return the intents without outcome: at start, those that a crash cut short."""
        return self._journal.open_intents


def _owner(pod: Pod) -> str:
    controllers = (owner for owner in pod.owners if owner.controller)
    owner = next(controllers, pod.owners[0] if pod.owners else None)
    return "" if owner is None else str(owner)
