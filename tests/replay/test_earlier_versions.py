"""Recordings of real processes of each version are kept, and this version decides the same again.

A folder of `recorded` has the journal and the recording of a process that ran on the simulated
cluster. Where a rule changes on purpose, and a decision with it, the changelog fragment of that
change says so, and the folder is recorded anew: run the controller beside `sim --scenario messy`
with `recording: {enabled: true}`, and copy its journal's segments and their folder `recording`.
"""

import re
import shutil
from pathlib import Path

import pytest

from reactive_desched.cli import main

RECORDED = Path(__file__).parent / "recorded"


@pytest.mark.parametrize("version", sorted(each.name for each in RECORDED.iterdir()))
def test_what_an_earlier_version_decided_is_decided_again(
    version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = shutil.copytree(RECORDED / version, tmp_path / "journal")

    status = main(["replay", "--journal", str(journal)])

    printed = capsys.readouterr().out
    assert status == 0, printed
    assert re.match(r"[1-9]\d+ decisions, all equal\n", printed), printed
