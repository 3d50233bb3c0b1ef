"""What is said while an index is made, and when."""

import subprocess
import sys
from functools import partialmethod
from itertools import count
from pathlib import Path

import pytest

from reactive_desched.audit import index
from reactive_desched.audit.opening import open_catalogue
from tests.support.golden import Golden
from tests.support.journals import some_events, write_journal


@pytest.fixture(autouse=True)
def few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take in ten lines at a time."""
    monkeypatch.setattr(index.AuditIndex, "catch_up", partialmethod(index.AuditIndex.catch_up, 10))


def said(folder: Path, cache: Path, *, step_s: float, is_writable: bool = True) -> list[str]:
    """Search a journal while each look at the clock takes so long; return what was said."""
    lines: list[str] = []
    ticks = count()
    with open_catalogue(
        folder,
        cache,
        writable=lambda _: is_writable,
        notify=lines.append,
        clock=lambda: next(ticks) * step_s,
    ):
        return lines


def test_after_a_second_the_amount_to_read_is_reported_once(tmp_path: Path, golden: Golden) -> None:
    records = write_journal(tmp_path, some_events(60), per_segment=20)

    told = said(tmp_path, tmp_path, step_s=0.5)

    assert told == [golden(len=len(records))]


def test_a_short_read_reports_nothing(tmp_path: Path) -> None:
    write_journal(tmp_path, some_events(60))

    assert said(tmp_path, tmp_path, step_s=0.01) == []


def test_what_the_index_has_already_is_not_read_again(tmp_path: Path, golden: Golden) -> None:
    before = write_journal(tmp_path, some_events(60), per_segment=20)
    assert said(tmp_path, tmp_path, step_s=0.0) == []
    records = write_journal(tmp_path, some_events(90), per_segment=20)

    told = said(tmp_path, tmp_path, step_s=2.0)

    assert told == [golden(count=len(records) - len(before))]
    assert said(tmp_path, tmp_path, step_s=2.0) == []


def test_of_a_journal_whose_beginning_is_gone_the_rest_is_counted(
    tmp_path: Path, golden: Golden
) -> None:
    records = write_journal(tmp_path, some_events(60), per_segment=20)
    min(tmp_path.glob("journal-*")).unlink()

    told = said(tmp_path, tmp_path, step_s=2.0)

    assert told == [golden(count=len(records) - 21)]


def test_where_no_index_can_be_kept_the_notice_promises_none(
    tmp_path: Path, golden: Golden
) -> None:
    journal, cache = tmp_path / "journal", tmp_path / "a-file"
    records = write_journal(journal, some_events(60))
    cache.touch()

    told = said(journal, cache, step_s=2.0, is_writable=False)

    assert told == [golden(len=len(records))]


def test_the_commands_say_it_on_standard_error(tmp_path: Path, golden: Golden) -> None:
    write_journal(tmp_path, some_events(20))
    code = (
        "import sys\n"
        "from reactive_desched.audit import opening\n"
        "opening.NOTICE_AFTER_S = 0.0\n"
        "from reactive_desched.cli import main\n"
        f"main(['audit', 'query', '--limit', '1', '-o', 'json', '--journal', {str(tmp_path)!r}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)

    assert done.stderr == golden() + "\n"
    assert done.stdout.startswith("[\n{")
