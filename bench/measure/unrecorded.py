"""What the record of findings and verdicts costs an eviction: the same run with and without it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from bench.measure import reaction
from bench.measure.live import RunningController
from reactive_desched.journal.correlation import Case
from reactive_desched.journal.recorder import JournalRecorder
from reactive_desched.model.accounts import DecisionContext
from reactive_desched.model.decisions import Decision


async def react_unrecorded(
    live: RunningController, script: str, pace: float, count: int
) -> dict[str, object]:
    """Return reaction times with intents and outcomes alone in the record."""
    with record_evictions_only():
        return await reaction.react(live, script, pace, count)


@contextmanager
def record_evictions_only() -> Iterator[None]:
    """Leave findings and verdicts out of the record while the block runs."""
    decided, opened = JournalRecorder.record_decision, JournalRecorder._open_case  # noqa: SLF001  # nothing of ours may know this

    def skip_decision(self: JournalRecorder, context: DecisionContext, decision: Decision) -> None:
        """Write nothing."""

    def begun(self: JournalRecorder, context: DecisionContext, pod_data: Mapping[str, Any]) -> Case:
        """Open a case and write nothing."""
        del pod_data
        return self._cases.open(context, context.finding.pod.uid)

    JournalRecorder.record_decision, JournalRecorder._open_case = skip_decision, begun  # type: ignore[method-assign]  # noqa: SLF001  # as above
    try:
        yield
    finally:
        JournalRecorder.record_decision, JournalRecorder._open_case = decided, opened  # type: ignore[method-assign]  # noqa: SLF001  # as above
