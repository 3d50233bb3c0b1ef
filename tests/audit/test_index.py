import gzip
import shutil
import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reactive_desched.api import event as api
from reactive_desched.audit import lookup
from reactive_desched.audit.catalogue import Catalogue
from reactive_desched.audit.index import Index
from reactive_desched.audit.lookup import Wanted
from reactive_desched.audit.opening import searching
from reactive_desched.audit.rows import micros
from reactive_desched.journal.envelope import Story, digest_id, envelope
from reactive_desched.journal.records import GENESIS, AnyEvent, Entry, digest, encode, line
from reactive_desched.journal.segments import segment, segments
from reactive_desched.journal.summary import Filter, summary
from reactive_desched.testing.journals import BEGAN, SOURCE, some_events, write_journal

NAME = "index.sqlite"

# A tiny world, so that filters and records often meet.
namespaces = st.sampled_from(["shop", "bank"])
names = st.sampled_from(["web", "db"])
nodes = st.sampled_from(["n1", "n2", ""])
plugins = st.sampled_from(["PodLifeTime", "NodeTaints"])
owners = st.sampled_from([(), ("ReplicaSet/web",), ("ReplicaSet/web", "Deployment/web")])
results = st.sampled_from(["evicted", "failed"])


def owner(text: str) -> api.Owner:
    kind, _, name = text.partition("/")
    return api.Owner(api_version="apps/v1", kind=kind, name=name, uid=f"uid-{kind}")


@st.composite
def events(draw: st.DrawFn) -> AnyEvent:
    who = api.Who(
        name=draw(names),
        namespace=draw(namespaces),
        node=draw(nodes),
        owners=tuple(map(owner, draw(owners))),
        uid=draw(st.sampled_from(["u1", "u2", "u3"])),
        zone="",
    )
    about: dict[str, Any] = {  # as `api.PodData` has them
        "mode": api.LIVE,
        "trigger": api.Cause(change="PodAged", object="", resource_version=""),
        "what": api.What(action="evict"),
        "who": who,
        "why": api.Why(
            numbers={}, plugin=draw(plugins), policy_revision="1", profile="p", reason="old"
        ),
    }
    kinds: dict[str, api.Data] = {
        api.FINDING_MADE: api.FindingMade(**about),
        api.DECISION_DEFER: api.DecisionMade(
            decision=api.Verdict(verdict="defer", gate="budget", reason="spent"), **about
        ),
        api.EVICTION_SUCCEEDED: api.EvictionEnded(
            attempt=1, outcome=api.Ending(result=draw(results)), **about
        ),
        api.LEADER_CHANGED: api.LeaderChanged(holder="a", previous="b", transitions=1),
    }
    type_ = draw(st.sampled_from(sorted(kinds)))
    case = draw(st.sampled_from(["case-1", "case-2"]))
    time = BEGAN + timedelta(seconds=draw(st.integers(0, 9)))
    id_ = digest_id(case, str(draw(st.integers(0, 99))))
    return envelope(SOURCE, type_, Story(case, "x", "y"), time, kinds[type_], id_=id_, cause="z")


filters = st.builds(
    Filter,
    types=st.sampled_from([(), ("eviction",), ("decision.defer", "leader")]),
    namespaces=st.sampled_from([(), ("shop",), ("shop", "bank")]),
    owners=st.sampled_from([(), ("web",), ("Deployment/web",), ("uid-ReplicaSet",)]),
    pods=st.sampled_from([(), ("web",), ("bank/web",), ("u2", "shop/db")]),
    nodes=st.sampled_from([(), ("n1",), ("",)]),
    plugins=st.sampled_from([(), ("PodLifeTime",)]),
    outcomes=st.sampled_from([(), ("evicted",), ("",), ("failed", "evicted")]),
)
moments = st.none() | st.integers(0, 9).map(
    lambda second: micros((BEGAN + timedelta(seconds=second)).isoformat())
)
wants = st.builds(Wanted, filter=filters, since=moments, until=moments)


class Folder:
    """A journal's folder to which everything happens that happens to one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._last = 0
        self._prev = GENESIS

    def begin(self) -> None:
        """Begin another segment."""
        segment(self.path, self._last + 1).path.touch()

    def append(self, event: AnyEvent) -> None:
        if not segments(self.path):
            self.begin()
        self._last += 1
        raw = line(encode(event), self._prev, "2026-03-29T01:30:00Z", self._last)
        self._prev = digest(raw)
        self.write(raw + b"\n")

    def write(self, raw: bytes) -> None:
        if not segments(self.path):
            self.begin()
        with segments(self.path)[-1].path.open("ab") as file:
            file.write(raw)

    def cut(self, raw: bytes) -> None:
        """Take back what stands at the end, as the repair of a torn line does."""
        path = segments(self.path)[-1].path
        path.write_bytes(path.read_bytes().removesuffix(raw))

    def compress(self) -> None:
        for one in segments(self.path)[:-1]:
            if not one.is_compressed:
                packed = gzip.compress(one.path.read_bytes())
                one.path.with_name(one.path.name + ".gz").write_bytes(packed)
                one.path.unlink()

    def remove_oldest(self) -> None:
        found = segments(self.path)
        if len(found) > 1:
            found[0].path.unlink()

    def entries(self) -> Iterator[Entry]:
        """Read every whole line without any index."""
        for one in segments(self.path):
            with one.open() as file:
                for raw in file:
                    found = summary(raw) if raw.endswith(b"\n") else None
                    if found is not None:
                        yield Entry(found.seq, raw[:-1])


def brute_force(folder: Folder, wanted: Wanted) -> list[Entry]:
    def fits(entry: Entry) -> bool:
        found = summary(entry.raw)
        assert found is not None
        time = micros(found.time)
        return (
            wanted.filter.wants(found)
            and (wanted.since is None or time >= wanted.since)
            and (wanted.until is None or time < wanted.until)
        )

    return [entry for entry in folder.entries() if fits(entry)]


def answer(index: Index, wanted: Wanted) -> list[Entry]:
    catalogue = Catalogue(index.directory, None, index)
    found = list(catalogue.fetch(catalogue.find(wanted)))
    assert catalogue.missing == 0
    assert found == list(catalogue.walk(wanted))
    catalogue._lines.close()
    return found


happenings = st.lists(
    st.one_of(
        st.tuples(st.just("append"), events()),
        st.tuples(st.sampled_from(["begin", "compress", "remove", "damage", "tear"]), st.none()),
        st.tuples(st.just("catch up"), st.integers(1, 4)),
    ),
    max_size=40,
)


@given(happenings, wants, st.sampled_from([1, 2]))
@settings(max_examples=100, deadline=None)
def test_an_index_kept_up_to_date_answers_as_one_made_anew_and_as_reading_everything(
    happened: list[tuple[str, AnyEvent | int | None]], wanted: Wanted, writers: int
) -> None:
    with TemporaryDirectory() as made:
        folder = Folder(Path(made))
        index = Index.open(folder.path, folder.path / NAME)
        other = Index.open(folder.path, folder.path / NAME) if writers > 1 else index
        for what, value in happened:
            match what, value:
                case "append", api.Event():
                    folder.append(value)
                case "begin", _:
                    folder.begin()
                case "compress", _:
                    folder.compress()
                case "remove", _:
                    folder.remove_oldest()
                case "damage", _:
                    folder.write(b'{"id":"x"}\n')
                case "tear", _:
                    folder.write(b'{"half')
                    index.catch_up()
                    folder.cut(b'{"half')
                case _, int(most):
                    index.catch_up(most)
                    index, other = other, index
        index.finish()
        fresh = Index.open(folder.path, folder.path / "fresh.sqlite")
        fresh.finish()

        expected = brute_force(folder, wanted)
        assert answer(index, wanted) == expected
        assert answer(fresh, wanted) == expected
        everything_gone = not list(folder.entries())
        assert everything_gone or index.place.digest == fresh.place.digest
        for each in (index, other, fresh):
            each.close()


def small(folder: Path, count: int = 60, per_segment: int = 20) -> list[Entry]:
    return write_journal(folder, some_events(count), per_segment=per_segment)


def opened(folder: Path) -> Index:
    return Index.open(folder, folder / NAME)


def everything(index: Index) -> list[Entry]:
    return answer(index, Wanted())


def test_a_newest_few_are_asked_for_and_given_the_newest_first(tmp_path: Path) -> None:
    entries = small(tmp_path)
    index = opened(tmp_path)
    index.finish()

    found = [spot.seq for spot in lookup.spots(index, Wanted(), most=3)]

    assert found == [entry.seq for entry in entries[:-4:-1]]


def test_an_up_to_date_index_reads_nothing_again(tmp_path: Path) -> None:
    small(tmp_path)
    opened(tmp_path).finish()

    assert opened(tmp_path).finish() == 0


def test_an_index_of_another_journal_is_made_anew(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    small(first, 60)
    entries = write_journal(second, some_events(60, seed=7), per_segment=20)
    opened(first).finish()
    shutil.copy(first / NAME, second / NAME)

    index = opened(second)
    index.finish()

    assert everything(index) == entries


def test_an_index_whose_last_record_was_rewritten_is_made_anew(tmp_path: Path) -> None:
    entries = small(tmp_path)
    opened(tmp_path).finish()
    last = segments(tmp_path)[-1].path
    shorter = last.read_bytes().replace(b'"checkpoint in', b'"c').replace(b"kube", b"KUBE")
    last.write_bytes(shorter)

    index = opened(tmp_path)
    read = index.finish()

    assert read == len(entries)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"no database at all, but a text that is long enough to be one", id="text"),
        pytest.param(b"", id="empty"),
        pytest.param(None, id="another program's database"),
    ],
)
def test_what_is_no_index_is_replaced(tmp_path: Path, content: bytes | None) -> None:
    entries = small(tmp_path)
    if content is None:
        other = sqlite3.connect(tmp_path / NAME)
        other.execute("CREATE TABLE records (something)")
        other.close()
    else:
        (tmp_path / NAME).write_bytes(content)

    index = opened(tmp_path)
    index.finish()

    assert everything(index) == entries


def test_an_index_that_is_damaged_inside_is_made_anew(tmp_path: Path) -> None:
    entries = small(tmp_path, 2000, 500)
    index = opened(tmp_path)
    index.finish()
    index.close()
    raw = bytearray((tmp_path / NAME).read_bytes())
    raw[4096:] = b"\x99" * (len(raw) - 4096)
    (tmp_path / NAME).write_bytes(raw)

    with searching(tmp_path, tmp_path / "cache") as catalogue:
        found = list(catalogue.fetch(catalogue.find(Wanted())))

    assert found == entries


def test_an_index_of_an_earlier_version_is_made_anew(tmp_path: Path) -> None:
    entries = small(tmp_path)
    index = opened(tmp_path)
    index.finish()
    index.connection.execute("PRAGMA user_version = 0")
    index.close()

    index = opened(tmp_path)

    assert index.finish() == len(entries)


def test_what_retention_removed_is_forgotten_with_its_words(tmp_path: Path) -> None:
    entries = write_journal(tmp_path, some_events(3000, pods=900), per_segment=1000)
    index = opened(tmp_path)
    index.finish()
    for one in segments(tmp_path)[:-1]:
        one.path.unlink()

    index.catch_up()

    kept = [entry for entry in entries if entry.seq >= segments(tmp_path)[0].first_seq]
    assert everything(index) == kept
    for table, used in {
        "subjects": "SELECT subject FROM records",
        "owners": "SELECT chain FROM subjects",
    }.items():
        column = "subject" if table == "subjects" else "chain"
        unused = f"SELECT count(*) FROM {table} WHERE {column} > 0 AND {column} NOT IN ({used})"
        assert index.connection.execute(unused).fetchone() == (0,), table


def test_a_line_that_is_not_whole_yet_is_read_when_it_is(tmp_path: Path) -> None:
    entries = small(tmp_path)
    path = segments(tmp_path)[-1].path
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    index = opened(tmp_path)
    index.finish()
    assert everything(index) == entries[:-1]

    path.write_bytes(whole)
    index.finish()

    assert everything(index) == entries
    assert [held.damaged for held in index.segments] == [0] * len(segments(tmp_path))


def test_damaged_lines_are_counted_once_and_the_rest_is_found(tmp_path: Path) -> None:
    entries = small(tmp_path)
    path = segments(tmp_path)[1].path
    lines = path.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3][:40] + b"\xff\xfe" + lines[3][42:]
    path.write_bytes(b"".join(lines))
    index = opened(tmp_path)
    index.finish()
    index.finish()

    gone = segments(tmp_path)[1].first_seq + 3
    assert everything(index) == [entry for entry in entries if entry.seq != gone]
    assert [held.damaged for held in index.segments] == [0, 1, 0]


def test_a_damaged_compressed_file_hides_only_its_own_rest(tmp_path: Path) -> None:
    entries = write_journal(tmp_path, some_events(3000), per_segment=1000, compress=True)
    packed = segments(tmp_path)[0].path
    packed.write_bytes(packed.read_bytes()[:-5000])
    index = opened(tmp_path)
    index.finish()

    found = [entry.seq for entry in everything(index)]
    behind = segments(tmp_path)[1].first_seq
    assert [seq for seq in found if seq >= behind] == [
        entry.seq for entry in entries if entry.seq >= behind
    ]
    assert [held.broken for held in index.segments] == [1, 0, 0]


@example("0" * 20)
@example("9" * 20)
@given(st.integers(2**63, 10**20 - 1).map(lambda number: f"{number:020}"))
@settings(max_examples=10, deadline=None)
def test_a_forged_sequence_neither_stops_the_index_nor_hides_what_follows(forged: str) -> None:
    with TemporaryDirectory() as made:
        folder = Path(made)
        entries = small(folder)
        path = segments(folder)[1].path
        at = segments(folder)[1].first_seq + 2
        path.write_bytes(path.read_bytes().replace(f"{at:020}".encode(), forged.encode()))
        index = opened(folder)
        index.finish()

        rest = [entry.seq for entry in everything(index)]
        index.close()

    assert [seq for seq in rest if seq > at] == [entry.seq for entry in entries if entry.seq > at]


def test_two_who_write_take_turns_and_store_nothing_twice(tmp_path: Path) -> None:
    entries = small(tmp_path, 400, 100)
    one, two = opened(tmp_path), opened(tmp_path)

    while one.catch_up(7) + two.catch_up(11):
        pass

    assert everything(one) == entries
    assert everything(two) == entries


def test_a_folder_that_is_not_ours_is_searched_with_its_index_and_the_rest(
    tmp_path: Path,
) -> None:
    journal, cache = tmp_path / "journal", tmp_path / "cache"
    small(journal, 40)
    index = opened(journal)
    index.finish()
    index.close()
    entries = small(journal, 60)
    before = (journal / NAME).read_bytes()

    with searching(journal, cache, writable=lambda _: False) as catalogue:
        found = list(catalogue.fetch(catalogue.find(Wanted())))
        newest = list(catalogue.fetch(catalogue.find(Wanted(), most=2)))

    assert found == entries
    assert newest == entries[-2:]
    assert (journal / NAME).read_bytes() == before
    assert not cache.exists()


def test_a_folder_that_is_not_ours_and_has_no_index_gets_one_in_the_cache(tmp_path: Path) -> None:
    journal, cache = tmp_path / "journal", tmp_path / "cache"
    entries = small(journal)

    with searching(journal, cache, writable=lambda _: False) as catalogue:
        found = list(catalogue.fetch(catalogue.find(Wanted())))

    assert found == entries
    assert not (journal / NAME).exists()
    assert len(list(cache.glob("index-*.sqlite"))) == 1


def test_without_any_place_for_an_index_the_journal_is_searched_all_the_same(
    tmp_path: Path,
) -> None:
    journal, cache = tmp_path / "journal", tmp_path / "a-file"
    entries = small(journal)
    cache.touch()

    with searching(journal, cache, writable=lambda _: False) as catalogue:
        found = list(catalogue.fetch(catalogue.find(Wanted())))

    assert found == entries


def test_a_pod_whose_records_were_all_removed_is_found_when_it_comes_again(tmp_path: Path) -> None:
    told = next(each for each in some_events(50) if each.type == api.FINDING_MADE)
    name = told.data.who.name
    folder = Folder(tmp_path)
    folder.append(told)
    index = opened(tmp_path)
    index.finish()
    folder.begin()
    folder.append(told)
    folder.remove_oldest()
    index.finish()

    wanted = Wanted(filter=Filter(pods=(name,), nodes=(told.data.who.node,)))
    assert [entry.seq for entry in answer(index, wanted)] == [2]

    folder.append(told)
    index.finish()
    assert [entry.seq for entry in answer(index, wanted)] == [2, 3]


@pytest.mark.parametrize(
    ("since_s", "until_s", "sequences"),
    [
        pytest.param(5, 6, [1, 2], id="the moment itself is included"),
        pytest.param(4, 5, [], id="the end is not"),
        pytest.param(6, 9, [], id="nothing later"),
    ],
)
def test_a_window_of_time_begins_with_its_first_moment(
    tmp_path: Path, since_s: int, until_s: int, sequences: list[int]
) -> None:
    folder = Folder(tmp_path)
    data = api.LeaderChanged(holder="a", previous="b", transitions=1)
    story, time = Story("e", "journal", "e"), BEGAN + timedelta(seconds=5)
    for id_ in "xy":
        folder.append(envelope(SOURCE, api.LEADER_CHANGED, story, time, data, id_=id_, cause="z"))
    index = opened(tmp_path)
    index.finish()

    since, until = (
        micros((BEGAN + timedelta(seconds=second)).isoformat()) for second in (since_s, until_s)
    )

    assert [e.seq for e in answer(index, Wanted(since=since, until=until))] == sequences


def test_what_is_searched_without_writing_stays_as_it_was_whoever_writes(tmp_path: Path) -> None:
    journal, cache = tmp_path / "journal", tmp_path / "cache"
    small(journal, 40)
    writer = opened(journal)
    writer.finish()

    with searching(journal, cache, writable=lambda _: False) as catalogue:
        before = catalogue.find(Wanted())
        entries = small(journal, 60)
        writer.finish()
        after = list(catalogue.fetch(catalogue.find(Wanted())))

    assert len(after) == len(before) < len(entries)
    writer.close()
