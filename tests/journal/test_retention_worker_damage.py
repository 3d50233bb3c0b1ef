"""A closed file that is damaged neither ends who keeps the folder nor keeps it from its work."""

from pathlib import Path

import pytest

from reactive_desched.journal.segments import COMPRESSED
from reactive_desched.journal.upkeep.loss_log import Losses
from reactive_desched.journal.upkeep.retention import Loss
from tests.support.journals import some_events, write_journal
from tests.support.kept_journal import KeptJournal, within

pytestmark = pytest.mark.anyio


def damage_first(folder: Path, how: str) -> None:
    path = min(folder.glob(f"journal-*{COMPRESSED}"))
    raw = path.read_bytes()
    half = len(raw) // 2
    changed = {
        "cut off": raw[:half],
        "no gzip": b"{" + raw[1:],
        "altered": raw[:half] + b"\0" * 40 + raw[half + 40 :],
    }
    path.write_bytes(changed[how])


@pytest.mark.parametrize("how", ["cut off", "no gzip", "altered"])
async def test_a_loss_whose_telling_may_be_in_a_damaged_file_is_told_again(
    tmp_path: Path, how: str
) -> None:
    write_journal(tmp_path, some_events(300), per_segment=100, compress=True)
    damage_first(tmp_path, how)
    Losses(tmp_path).begin(Loss("kafka", 1, 101), since=1)  # and then the process died
    writer = KeptJournal(tmp_path, kafka=0)

    keeper = writer.keeper(within(max_kib=4, hard_kib=4))
    await keeper.tidy()

    assert keeper.numbers.faults == {}
    assert ("kafka", 1, 202) in writer.losses()
    assert writer.firsts() == [203]
