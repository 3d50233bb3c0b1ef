"""The promise itself: kill the process at any moment, and nothing it said was so is untrue."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import settings

from reactive_desched.api.event import (
    CHECKPOINT,
    EVICTION_OUTCOME_TYPES,
    EVICTION_REQUESTED,
    JOURNAL_LOST,
    Event,
)
from reactive_desched.audit.index import AuditIndex
from reactive_desched.audit.lookup import RecordQuery, find_newest
from reactive_desched.audit.pinned_checkpoint import parse_pinned
from reactive_desched.audit.schema import INDEX_FILE
from reactive_desched.audit.verification import verify
from reactive_desched.journal.cursors import Cursors
from reactive_desched.journal.events import decode_event
from reactive_desched.journal.records import MAX_RECORD_BYTES, parse_header
from reactive_desched.journal.segments import list_segments, read_records
from reactive_desched.journal.signing.signed_note import parse_key
from tests.support.crash_runs import AcknowledgedWrite, CrashRuns, CrashSupervisor, ReceivedMessage
from tests.support.crash_steps import (
    CRASH_POINTS,
    FIRST_START_CRASH_POINTS,
    LOSS_CRASH_POINTS,
    REPAIR_CRASH_POINTS,
)
from tests.support.mock_kafka import mock_kafka

pytestmark = pytest.mark.timeout(300)

KILLS = settings().max_examples
KILLED = -9
LIVING_S = 0.3
STARTING_S = 0.06
WORKING_S = 0.12

AnyEvent = Event[Any]  # any kind of data


@pytest.fixture(scope="module")
def supervisor() -> Iterator[CrashSupervisor]:
    with CrashSupervisor() as begun:
        yield begun


@pytest.fixture
def runs(tmp_path: Path, supervisor: CrashSupervisor) -> Iterator[CrashRuns]:
    with mock_kafka() as kafka, CrashRuns(tmp_path, supervisor, kafka) as begun:
        yield begun


@pytest.mark.hypothesis  # `make test-deep` kills it as often as it draws examples
def test_whenever_it_is_killed_nothing_is_lost_doubled_or_untrue(runs: CrashRuns) -> None:
    chance = Random(KILLS)
    for _ in range(KILLS):
        longest = STARTING_S if chance.random() < 0.2 else LIVING_S
        assert runs.killed_after(chance.uniform(0, longest)) == KILLED, runs.last_log
        check_chain(runs)
        runs.read_topic()

    check_everything(runs)


@pytest.mark.parametrize("step", CRASH_POINTS)
def test_whatever_it_was_about_to_do_nothing_is_lost_doubled_or_untrue(
    runs: CrashRuns, step: str
) -> None:
    for nth in (1, 5):
        assert runs.killed_at(step, nth) == KILLED, runs.last_log
        assert AcknowledgedWrite("died", *step.split(" ", 1)) in runs.promises
        check_chain(runs)

    check_everything(runs)


@pytest.mark.parametrize("step", FIRST_START_CRASH_POINTS)
def test_whatever_it_was_about_to_do_first_of_all_the_next_one_begins_or_continues(
    runs: CrashRuns, step: str
) -> None:
    assert runs.killed_at(step) == KILLED, runs.last_log
    assert runs.work(0.15) == 0, runs.last_log

    check_everything(runs)


@pytest.mark.parametrize("step", REPAIR_CRASH_POINTS)
def test_a_repair_that_is_cut_short_is_done_by_the_next_one(runs: CrashRuns, step: str) -> None:
    assert runs.killed_at("when half of the outcome is written", 3) == KILLED, runs.last_log
    assert runs.killed_at(step) == KILLED, runs.last_log
    assert AcknowledgedWrite("died", *step.split(" ", 1)) in runs.promises

    check_everything(runs)


@pytest.mark.parametrize("step", LOSS_CRASH_POINTS)
def test_whatever_it_was_about_to_do_a_loss_is_recorded_once_and_nothing_else_is_lost(
    runs: CrashRuns, step: str
) -> None:
    unreachable, small = ("127.0.0.1:9",), 1 << 14
    for nth in (1, 3):
        limits = {"max_bytes": small, "hard_max_bytes": small}
        assert runs.killed_at(step, nth, brokers=unreachable, **limits) == KILLED, runs.last_log
        check_chain(runs)

    check_everything(runs)
    assert JOURNAL_LOST in {mark_type(one.value) for one in runs.read_topic()}
    said = Counter(one.detail for one in runs.promises if one.kind == "appended")
    assert max(said.values()) == 1


class Damage(NamedTuple):
    """What an unclean end leaves: a share of the records unknown to others, and bytes after it."""

    keeps: float
    more: bytes = b""


DAMAGES = {
    "cut": Damage(0.37),
    "cut and zeros": Damage(0.61, bytes(1000)),
    "zeros": Damage(1.0, bytes(5000)),
    "more zeros than a line may be long": Damage(1.0, bytes(MAX_RECORD_BYTES + 10)),
    "half of a record": Damage(1.0, b'{"causationid":"x","correlationid":"'),
    "half of a letter": Damage(1.0, '{"causationid":"ü'.encode()[:-1]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_torn_end_is_repaired_named_and_counted(runs: CrashRuns, damage: str) -> None:
    chance, keeps, more = Random(damage), *DAMAGES[damage]
    for _ in range(2):
        runs.killed_at_work(chance.uniform(0, WORKING_S))
        path = list_segments(runs.journal)[-1].path
        known_size, raw = known_bytes(runs, path), path.read_bytes()
        raw = raw[: known_size + round((len(raw) - known_size) * keeps)] + more
        path.write_bytes(raw)
        torn = raw[raw.rfind(b"\n") + 1 :]
        aside = path.with_name(path.name + ".torn")
        before = aside.read_bytes() if aside.exists() else b""

        runs.killed_at_work(chance.uniform(0, WORKING_S))

        repairs = [one for one in runs.promises if one.kind == "repaired"]
        assert repairs[-1].id == str(len(torn))
        assert repairs[-1].detail == (str(aside) if torn else "")
        assert (aside.read_bytes() if aside.exists() else b"") == before + torn
        check_chain(runs)
        runs.read_topic()

    check_everything(runs)


@pytest.mark.parametrize("seed", range(3))
def test_wherever_the_last_file_is_cut_the_chain_continues_whole(
    runs: CrashRuns, seed: int
) -> None:
    chance, more = Random(seed), {"max_bytes": 1 << 24, "brokers": ("127.0.0.1:9",)}
    for _ in range(3):  # without a broker: verify reports a cut below what Kafka has read
        runs.killed_at_work(chance.uniform(0, WORKING_S), **more)
        index_all(runs)  # as a search does
        path = list_segments(runs.journal)[-1].path
        path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size + 1)])
        check_chain(runs)

    assert runs.work(0.1, **more) == 0, runs.last_log
    check_chain(runs)
    recorded = [entry.seq for one in list_segments(runs.journal) for entry in read_records(one)]
    assert recorded == list(range(recorded[0], recorded[-1] + 1))
    check_index(runs)


def known_bytes(runs: CrashRuns, path: Path) -> int:
    """Return how many bytes of a file hold records that a caller or a follower knows."""
    known = {int(one.id) for one in runs.promises if one.kind == "appended"}
    known |= {seq_of(one.value) for one in runs.read_topic()}
    known |= {one.seq for one in Cursors(runs.journal / "positions").all().values()}
    lines = path.read_bytes().splitlines(keepends=True)
    marks = [(parse_header(line), line) for line in lines]
    known_size = [
        index for index, (found, _) in enumerate(marks, 1) if found and found.seq in known
    ]
    return sum(map(len, lines[: max(known_size, default=0)]))


# --- what must be so, whatever happened ---


def check_chain(runs: CrashRuns) -> None:
    """Hold that the journal verifies, if there is one yet; a torn end is no fault."""
    public = runs.journal / "checkpoint.pub"
    if public.exists() and any(read_records(one) for one in list_segments(runs.journal)):
        keys = [parse_key(line) for line in public.read_text().split()]
        report = verify(runs.journal, keys, str(public), None)
        assert report.bad is None
        assert report.unknown == ()


def check_everything(runs: CrashRuns) -> None:
    """Let one more run finish, and hold it all against each other."""
    assert runs.run_to_completion() == 0, runs.last_log
    check_chain(runs)
    recorded = {
        entry.seq: entry.raw for one in list_segments(runs.journal) for entry in read_records(one)
    }
    received = runs.read_topic()
    known = {**by_seq(received), **recorded}
    events = {seq: read(raw) for seq, raw in sorted(known.items())}
    lost = lost_by_kafka(events)

    check_sequences(recorded, received, lost)
    check_ids(events, received)
    check_promises(runs.promises, events, lost)
    check_intents(runs, events)
    check_kept_checkpoints(runs, received)
    check_followers(runs, max(recorded))


def check_sequences(
    recorded: Mapping[int, bytes], received: Sequence[ReceivedMessage], lost: set[int]
) -> None:
    """Hold that no number is missing, here or there, and that both say the same."""
    assert sorted(recorded) == list(range(min(recorded), max(recorded) + 1))
    there = by_seq(received)
    assert set(range(1, max(recorded) + 1)) - set(there) <= lost
    assert {seq: raw for seq, raw in there.items() if seq in recorded}.items() <= recorded.items()
    assert min(recorded) == 1 or max(there) >= min(recorded) - 1


def check_ids(events: Mapping[int, AnyEvent], received: Sequence[ReceivedMessage]) -> None:
    """Hold that an id means one thing, and that order holds for each key."""
    assert [id_ for id_, n in Counter(one.id for one in events.values()).items() if n > 1] == []
    firsts: dict[str, list[int]] = defaultdict(list)
    for message in received:
        seq = seq_of(message.value)
        if seq not in firsts[message.key]:
            firsts[message.key].append(seq)
    assert all(seqs == sorted(seqs) for seqs in firsts.values())
    assert len({(one.key, one.partition) for one in received}) == len(firsts)


def check_promises(
    promises: Sequence[AcknowledgedWrite], events: Mapping[int, AnyEvent], lost: set[int]
) -> None:
    """Hold that what was said to be recorded is, at the place that was named."""
    for what, first, second in promises:
        if what == "appended" and int(first) not in lost:
            assert events[int(first)].id == second, f"{first} was acknowledged"
    if lost:
        return
    ids = {one.id for one in events.values()}
    assert {one.id for one in promises if one.kind == "begun"} <= ids
    causes = {one.causationid for one in events.values() if one.type in EVICTION_OUTCOME_TYPES}
    assert {one.id for one in promises if one.kind == "ended"} <= causes


def check_intents(runs: CrashRuns, events: Mapping[int, AnyEvent]) -> None:
    """Hold that each intent has one outcome, which is true, and that no pod left without one."""
    intents = {one.id: one for one in events.values() if one.type == EVICTION_REQUESTED}
    outcomes = [one for one in events.values() if one.type in EVICTION_OUTCOME_TYPES]
    ends = Counter(one.causationid for one in outcomes)
    if not lost_by_kafka(events):
        assert ends == Counter(dict.fromkeys(intents, 1))
    assert set(ends.values()) <= {1}
    left = Counter(runs.evicted_uids)
    begun = {one.detail for one in runs.promises if one.kind == "begun"}
    if lost_by_kafka(events):
        assert set(left) <= begun | {one.data.who.uid for one in intents.values()}
        return
    assert set(left) <= {one.data.who.uid for one in intents.values()}
    said = Counter(
        one.data.who.uid for one in outcomes if one.data.outcome.result in ("evicted", "unknown")
    )
    assert said == left


def check_kept_checkpoints(runs: CrashRuns, received: Sequence[ReceivedMessage]) -> None:
    """Hold that the journal agrees with a checkpoint kept by a reader of the topic."""
    oldest = list_segments(runs.journal)[0].first_seq
    keys = [parse_key(line) for line in (runs.journal / "checkpoint.pub").read_text().split()]
    kept = [one.value.decode() for one in received if mark_type(one.value) == CHECKPOINT]
    still = [text for text in kept if seq_of(text.encode()) >= oldest]
    for text in (still[0], still[-1]):
        report = verify(runs.journal, keys, "", parse_pinned(text))
        assert report.ok, report.bad
        assert report.kept is not None
        assert report.kept.agrees


def check_followers(runs: CrashRuns, last: int) -> None:
    """Hold that followers know all there is, and that nothing is left lying about."""
    positions = Cursors(runs.journal / "positions").all()
    assert set(positions) == {"index", "kafka"}
    assert all(one.seq <= last for one in positions.values())
    assert [path.name for path in runs.journal.glob("checkpoint*.tmp")] == []
    check_index(runs, last)


def index_all(runs: CrashRuns) -> None:
    """Let the index take in all records."""
    index = AuditIndex.open(runs.journal, runs.journal / INDEX_FILE)
    try:
        index.index_all()
    finally:
        index.close()


def check_index(runs: CrashRuns, reaches: int | None = None) -> None:
    """Hold that the index is as one made anew; it may lag, unless it must reach a record."""
    index = AuditIndex.open(runs.journal, runs.journal / INDEX_FILE)
    fresh = AuditIndex.temporary(runs.journal)
    try:
        fresh.index_all()
        assert reaches in (None, index.cursor.seq)
        index.index_all()
        assert index.cursor.digest == fresh.cursor.digest
        assert contents(index) == contents(fresh)
    finally:
        index.close()
        fresh.close()


def contents(index: AuditIndex) -> list[tuple[int, int, int]]:
    """Return where an index says that each record stands."""
    return [(spot.seq, spot.start, spot.length) for spot in find_newest(index, RecordQuery())]


def lost_by_kafka(events: Mapping[int, AnyEvent]) -> set[int]:
    """Return what was removed before Kafka could have it: all up to the last loss that is recorded.

    The record of an earlier loss may have been lost with the next.
    """
    known_size = [one.data for one in events.values() if one.type == JOURNAL_LOST]
    return set(
        range(1, max((one.last for one in known_size if one.sink == "kafka"), default=0) + 1)
    )


def by_seq(received: Sequence[ReceivedMessage]) -> dict[int, bytes]:
    """Return what Kafka has; what came again must be the same."""
    found: dict[int, bytes] = {}
    for message in received:
        assert found.setdefault(seq_of(message.value), message.value) == message.value
    return found


def read(raw: bytes) -> AnyEvent:
    found = decode_event(mark_type(raw), raw)
    assert found is not None
    return found


def seq_of(raw: bytes) -> int:
    found = parse_header(raw)
    assert found is not None
    return found.seq


def mark_type(raw: bytes) -> str:
    found = parse_header(raw)
    assert found is not None
    return found.type
