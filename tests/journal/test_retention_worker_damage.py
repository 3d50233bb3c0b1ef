"""A closed file that is damaged neither ends who keeps the folder nor keeps it from its work."""

from pathlib import Path

import pytest

from reactive_desched.journal.segments import GZIP_SUFFIX
from reactive_desched.journal.upkeep.loss_log import LossLog
from reactive_desched.journal.upkeep.retention import Loss
from tests.support.journals import some_events, write_journal
from tests.support.kept_journal import RetainedJournal, size_limits

pytestmark = pytest.mark.anyio


def damage_first(folder: Path, how: str) -> None:
    path = min(folder.glob(f"journal-*{GZIP_SUFFIX}"))
    raw = path.read_bytes()
    half = len(raw) // 2
    changed = {
        "cut off": raw[:half],
        "no gzip": b"{" + raw[1:],
        "altered": raw[:half] + b"\0" * 40 + raw[half + 40 :],
    }
    path.write_bytes(changed[how])


@pytest.mark.parametrize("how", ["cut off", "no gzip", "altered"])
async def test_a_loss_whose_record_may_be_in_a_damaged_file_is_recorded_again(
    tmp_path: Path, how: str
) -> None:
    write_journal(tmp_path, some_events(300), per_segment=100, compress=True)
    damage_first(tmp_path, how)
    LossLog(tmp_path).mark_pending(Loss("kafka", 1, 101), since=1)  # and then the process died
    writer = RetainedJournal(tmp_path, kafka=0)

    keeper = writer.retention_worker(size_limits(max_kib=4, hard_kib=4))
    await keeper.run_once()

    assert keeper.stats.faults == {}
    assert ("kafka", 1, 202) in writer.losses()
    assert writer.first_seqs() == [203]
