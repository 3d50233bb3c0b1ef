"""Every programme about the record runs, small, and what it says of the record is true.

Most run in this process; the benchmark starts a process for each.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from bench.record.__main__ import run
from bench.record.auditing import sample_pods
from bench.record.evictions import RECORDS_EACH, decision_contexts, record_evictions
from bench.record.kafka import mock_cluster
from bench.record.run import run_programme
from bench.record.task import Task
from reactive_desched.app.recording import journal_config
from reactive_desched.journal import disk
from reactive_desched.journal.clocks import utc_now
from reactive_desched.journal.journal import open_journal
from reactive_desched.journal.recorder import JournalRecorder
from reactive_desched.journal.segments import list_segments, read_records
from reactive_desched.policy.settings.reactive_settings import ReactiveSettings
from reactive_desched.policy.settings.recording import JournalSettings
from reactive_desched.primitives.token_bucket import TokenRate

RECORDS = 4_000
SMALL = JournalSettings(max_segment_bytes=2 << 20)
"""Two files: only a closed one is compressed."""


@pytest.fixture(scope="module", autouse=True)
def no_stall() -> Iterator[None]:
    """A busy machine is no bad disk: the journal waits for it for a minute."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(disk, "STALLED_AFTER_S", 60.0)
        yield


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("record") / "kept"
    anyio.run(write_journal, folder)
    return folder


async def write_journal(folder: Path) -> None:
    """Write the records that the programme `alone` writes, into two files."""
    config = journal_config(ReactiveSettings(journal=SMALL))
    async with open_journal(folder, config, clock=utc_now) as journal:
        recorder = JournalRecorder(journal, utc_now, decision_rate=TokenRate(200.0, 20_000))
        await record_evictions(recorder, decision_contexts(0, RECORDS // RECORDS_EACH), 50)


@pytest.fixture
def copy(kept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(kept, tmp_path / "kept"))


def last_seq(folder: Path) -> int:
    return [entry.seq for entry in read_records(list_segments(folder)[-1])][-1]


def test_so_many_records_are_written_as_were_asked_for(tmp_path: Path) -> None:
    run("alone", Task(tmp_path / "journal", count=RECORDS, runs=2))
    files = list_segments(tmp_path / "journal")
    written = [entry for one in files for entry in read_records(one)]

    pods = [entry for entry in written if b'"who"' in entry.raw]
    assert len(pods) == RECORDS


@pytest.mark.parametrize("name", ["alone", "followed"])
def test_each_portion_has_its_own_numbers(name: str, tmp_path: Path) -> None:
    found = run(name, Task(tmp_path / "journal", count=2_000, runs=2))

    assert len(found["runs"]) == 2
    for each in found["runs"]:
        assert each["records_per_s"] > 0
        assert each["records_per_write"] * each["write_ms"]["n"] == pytest.approx(1_000, rel=0.01)


def test_at_a_pace_each_request_and_each_end_is_timed(tmp_path: Path) -> None:
    found = run("paced", Task(tmp_path / "journal", count=1_000, seconds=0.4, runs=2))

    for each in found["runs"]:
        assert each["to_durable_ms"]["n"] == 2 * 400 // RECORDS_EACH
        assert each["to_durable_ms"]["min"] > 0
        assert 0 < each["write_ms"]["n"] <= 400


def test_a_journal_is_verified_whole_plain_and_compressed(copy: Path) -> None:
    (plain,) = run("verified", Task(copy))["runs"]
    packed = run("compressed", Task(copy))
    (gzip,) = run("verified", Task(copy))["runs"]

    assert (plain["ok"], plain["records"], plain["compressed"]) == (True, last_seq(copy), 0)
    assert packed["segments"] == len(list_segments(copy)) - 1 > 0
    assert (gzip["ok"], gzip["records"], gzip["compressed"]) == (
        True,
        plain["records"],
        packed["segments"],
    )


def test_a_record_that_was_changed_is_reported(copy: Path) -> None:
    file = list_segments(copy)[0].path
    file.write_bytes(file.read_bytes().replace(b"zone-1", b"zone-2", 1))

    (once,) = run("verified", Task(copy))["runs"]

    assert not once["ok"]


def test_the_index_takes_in_every_record_and_finds_each_pod(copy: Path) -> None:
    indexed = run("indexed", Task(copy))
    queried = run("queried", Task(copy, count=5))

    assert indexed["records"] == last_seq(copy)
    assert queried["ms"]["n"] == 5
    assert queried["records_each"] == [RECORDS_EACH]


def test_only_pods_are_asked_for_that_the_record_names() -> None:
    assert sample_pods(RECORDS_EACH, 5) == ["team-0/app-0-6d4b75cb6d-00000"]
    assert len(set(sample_pods(RECORDS, 5))) == 5


def test_the_last_records_are_delivered_and_all_of_them_arrive(kept: Path) -> None:
    with mock_cluster(["one", "two"]) as address:
        found = run_programme("relayed", kept, count=1_500, address=address, topics=["one", "two"])

    assert [each["arrived"] for each in found["runs"]] == [1_500, 1_500]
    assert [each["is_there"] for each in found["runs"]] == [True, True]


@pytest.mark.parametrize("name", ["streamed", "streamed-apart"])
def test_clients_that_read_get_everything_and_those_that_never_do_are_cut(
    name: str, tmp_path: Path
) -> None:
    found = run(name, Task(tmp_path / "journal", count=3, silent=2, seconds=1.5))

    clients = found["clients"]
    assert found["cut"] == 2
    assert (clients["readers"], clients["behind"], clients["gaps"]) == (3, 0, 0)
    (records,) = clients["records_each"]
    assert records >= 1_500
