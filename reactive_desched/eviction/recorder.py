"""Records decisions, intents and outcomes: in the open journal, or nowhere on a standby."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

from reactive_desched.errors import JournalUnavailable
from reactive_desched.model.brakes import BrakeNotice
from reactive_desched.model.decisions import Decision
from reactive_desched.model.disruptions import EndedPod
from reactive_desched.model.evaluation import DecisionContext, Intent
from reactive_desched.model.migration_jobs import MigrationStep
from reactive_desched.model.moves import FutileClearing, MoveEnd
from reactive_desched.model.outcomes import Outcome

if TYPE_CHECKING:
    from reactive_desched.api.event import EventData, PolicyFile

NOT_OPEN: Final = "the journal is not open"


class DecisionRecorder(Protocol):
    """Records what the controller itself decides: decisions, brakes, and the ends of evictions."""

    @property
    def fault(self) -> str:
        """Return why nothing can be recorded now; empty when records can be written."""
        ...

    def record(
        self, data: "EventData", subject: str, *, version: str = "", cause: str = ""
    ) -> None:
        """Write an event of any type soon; does not wait for it.

        It is about the pod of the data, else about the component `subject` in the state `version`.
        """
        ...

    def record_decision(self, context: DecisionContext, decision: Decision) -> None:
        """Write a decision soon, before any intent that follows; does not wait for it."""
        ...

    def record_brake(self, notice: BrakeNotice) -> None:
        """Write a brake's engagement or release soon; does not wait for it."""
        ...

    def record_follow_up(self, intent_id: str, end: MoveEnd) -> None:
        """Write the follow-up of an eviction soon; does not wait for it."""
        ...

    def record_correction(self, intent_id: str, outcome: Outcome) -> None:
        """Write soon that an outcome was not the last word; does not wait for it."""
        ...

    def record_disruption(self, ended: EndedPod) -> None:
        """Write soon that something else ends a pod; does not wait for it."""
        ...


class NullRecorder(DecisionRecorder):
    """Keeps nothing: what runs a controller beside no journal overrides the methods it needs."""

    fault = ""

    def record(
        self, data: "EventData", subject: str, *, version: str = "", cause: str = ""
    ) -> None:
        """Keep nothing."""

    def record_decision(self, context: DecisionContext, decision: Decision) -> None:
        """Keep nothing."""

    def record_brake(self, notice: BrakeNotice) -> None:
        """Keep nothing."""

    def record_follow_up(self, intent_id: str, end: MoveEnd) -> None:
        """Keep nothing."""

    def record_correction(self, intent_id: str, outcome: Outcome) -> None:
        """Keep nothing."""

    def record_disruption(self, ended: EndedPod) -> None:
        """Keep nothing."""


class Recorder(DecisionRecorder, Protocol):
    """The durable record of decisions, of intents and of their outcomes."""

    async def record_intent(self, intent: Intent) -> str:
        """Return the intent's id once it is on disk, behind the decisions recorded so far.

        Raises JournalError when it cannot be written.
        """
        ...

    def case_of(self, intent_id: str) -> str:
        """Return the case of an intent that was recorded and has no outcome yet."""
        ...

    async def record_outcome(self, intent_id: str, outcome: Outcome) -> None:
        """Return once the outcome is on disk."""
        ...

    async def record_futile_cleared(self, clearing: FutileClearing) -> None:
        """Return once it is on disk; raises JournalError when it cannot be."""
        ...

    async def written(self) -> None:
        """Return once what was recorded so far is on disk, or waits there for a fault to end."""
        ...


class PolicyRecorder(Recorder, Protocol):
    """A recorder that also takes which policy is in force."""

    def policy_loaded(self, source: str, revision: str, files: "Sequence[PolicyFile]" = ()) -> None:
        """Write that another policy, or other settings, are in force."""
        ...

    def policy_rejected(self, source: str, problems: tuple[str, ...]) -> None:
        """Write that changed files were refused."""
        ...

    def record_migration_step(self, step: MigrationStep) -> None:
        """Write soon what was done for a migration job; does not wait for it."""
        ...


class RecorderSlot:
    """Holds the recorder of the open journal, for parts that are constructed before it opens.

    While it is empty, `fault` says so: the controller pauses, and no intent can begin.
    """

    def __init__(self) -> None:
        self._recorder: PolicyRecorder | None = None

    @contextmanager
    def filled(self, recorder: PolicyRecorder) -> Iterator[None]:
        """Record to this recorder while the block lasts."""
        assert self._recorder is None, "one journal is open at a time"
        self._recorder = recorder
        try:
            yield
        finally:
            self._recorder = None

    @property
    def fault(self) -> str:
        """Return why nothing can be recorded now; empty when records can be written."""
        return NOT_OPEN if self._recorder is None else self._recorder.fault

    def record(
        self, data: "EventData", subject: str, *, version: str = "", cause: str = ""
    ) -> None:
        """Write an event of any type soon; without a recorder it is dropped."""
        if self._recorder is not None:
            self._recorder.record(data, subject, version=version, cause=cause)

    def record_decision(self, context: DecisionContext, decision: Decision) -> None:
        """Write a decision soon; raises JournalUnavailable without a recorder."""
        self._open().record_decision(context, decision)

    def record_brake(self, notice: BrakeNotice) -> None:
        """Write a brake's engagement or release soon; raises as `record_decision`."""
        self._open().record_brake(notice)

    async def record_intent(self, intent: Intent) -> str:
        """Return the intent's id once it is on disk; raises as `record_decision`."""
        return await self._open().record_intent(intent)

    def case_of(self, intent_id: str) -> str:
        """Return the case of an intent without outcome; raises as `record_decision`."""
        return self._open().case_of(intent_id)

    async def record_outcome(self, intent_id: str, outcome: Outcome) -> None:
        """Return once the outcome is on disk."""
        await self._open().record_outcome(intent_id, outcome)

    def record_follow_up(self, intent_id: str, end: MoveEnd) -> None:
        """Write the follow-up of an eviction soon; without a recorder it is dropped."""
        if self._recorder is not None:
            self._recorder.record_follow_up(intent_id, end)

    def record_correction(self, intent_id: str, outcome: Outcome) -> None:
        """Write a correction soon; without a recorder it is dropped."""
        if self._recorder is not None:
            self._recorder.record_correction(intent_id, outcome)

    def record_disruption(self, ended: EndedPod) -> None:
        """Write the end of a pod soon; without a recorder it is dropped."""
        if self._recorder is not None:
            self._recorder.record_disruption(ended)

    def record_migration_step(self, step: MigrationStep) -> None:
        """Write what was done for a job soon; without a recorder it is dropped."""
        if self._recorder is not None:
            self._recorder.record_migration_step(step)

    def policy_loaded(self, source: str, revision: str, files: "Sequence[PolicyFile]" = ()) -> None:
        """Write that another policy is in force; without a recorder it is dropped."""
        if self._recorder is not None:
            self._recorder.policy_loaded(source, revision, files)

    def policy_rejected(self, source: str, problems: tuple[str, ...]) -> None:
        """Write that changed files were refused; without a recorder it is dropped."""
        if self._recorder is not None:
            self._recorder.policy_rejected(source, problems)

    async def record_futile_cleared(self, clearing: FutileClearing) -> None:
        """Return once it is on disk; raises JournalError when it cannot be."""
        await self._open().record_futile_cleared(clearing)

    async def written(self) -> None:
        """Return once what was recorded so far is on disk; at once without a recorder."""
        if self._recorder is not None:
            await self._recorder.written()

    def _open(self) -> PolicyRecorder:
        if self._recorder is None:
            raise JournalUnavailable(NOT_OPEN)
        return self._recorder
