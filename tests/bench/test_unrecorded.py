"""The benchmark's peer writes intents and outcomes alone, and only while it is asked to."""

from pathlib import Path

import pytest

from bench.measure.unrecorded import nothing_but_evictions
from bench.record.evictions import accounts, evict
from reactive_desched.app.recording import making, utc_now
from reactive_desched.journal.journal import open_journal
from reactive_desched.journal.recorder import Ledger
from reactive_desched.journal.segments import entries, segments
from reactive_desched.journal.summary import summary
from reactive_desched.model.event_types import short
from reactive_desched.policy.settings import ReactiveSettings
from reactive_desched.primitives.token_bucket import Rate

pytestmark = pytest.mark.anyio


async def test_findings_and_verdicts_are_left_out_while_the_block_runs(tmp_path: Path) -> None:
    first, second = accounts(0, 2)
    async with open_journal(tmp_path, making(ReactiveSettings()), clock=utc_now) as journal:
        ledger = Ledger(journal, utc_now, verdicts=Rate(10.0, 10))
        with nothing_but_evictions():
            await evict(ledger, first)
        await evict(ledger, second)

    assert [kind for _, kind in told(tmp_path, first.finding.pod.name)] == [
        "eviction.requested",
        "eviction.succeeded",
    ]
    assert [kind for _, kind in told(tmp_path, second.finding.pod.name)] == [
        "finding.made",
        "decision.evict",
        "eviction.requested",
        "eviction.succeeded",
    ]


def told(folder: Path, pod: str) -> list[tuple[int, str]]:
    found = (summary(entry.raw) for one in segments(folder) for entry in entries(one))
    return [(it.seq, short(it.type)) for it in found if it and it.data.who.name == pod]
