"""The benchmark's peer writes intents and outcomes alone, and only while it is asked to."""

from pathlib import Path

import pytest

from bench.measure.reaction import record_evictions_only
from bench.record.evictions import decision_contexts, record_eviction
from reactive_desched.app.recording import journal_config
from reactive_desched.journal.clocks import utc_now
from reactive_desched.journal.journal import open_journal
from reactive_desched.journal.recorder import JournalRecorder
from reactive_desched.journal.segments import list_segments, read_records
from reactive_desched.journal.summary import parse_summary
from reactive_desched.model.event_types import short_type
from reactive_desched.policy.settings.reactive_settings import ReactiveSettings
from reactive_desched.primitives.token_bucket import TokenRate

pytestmark = pytest.mark.anyio


async def test_findings_and_decisions_are_left_out_while_the_block_runs(tmp_path: Path) -> None:
    first, second = decision_contexts(0, 2)
    async with open_journal(tmp_path, journal_config(ReactiveSettings()), clock=utc_now) as journal:
        recorder = JournalRecorder(journal, utc_now, decision_rate=TokenRate(10.0, 10))
        with record_evictions_only():
            await record_eviction(recorder, first)
        await record_eviction(recorder, second)

    assert [kind for _, kind in recorded(tmp_path, first.finding.pod.name)] == [
        "eviction.requested",
        "eviction.succeeded",
    ]
    assert [kind for _, kind in recorded(tmp_path, second.finding.pod.name)] == [
        "finding.made",
        "decision.evict",
        "eviction.requested",
        "eviction.succeeded",
    ]


def recorded(folder: Path, pod: str) -> list[tuple[int, str]]:
    found = (
        parse_summary(entry.raw) for one in list_segments(folder) for entry in read_records(one)
    )
    return [(it.seq, short_type(it.type)) for it in found if it and it.data.who.name == pod]
