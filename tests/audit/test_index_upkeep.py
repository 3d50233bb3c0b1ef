import gzip
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.api import event as api
from reactive_desched.audit.catalogue import IndexCatalogue
from reactive_desched.audit.index import AuditIndex
from reactive_desched.audit.lookup import RecordQuery
from reactive_desched.audit.rows import micros
from reactive_desched.journal.event_builder import Correlation, build_event, digest_id
from reactive_desched.journal.records import (
    GENESIS,
    AnyEvent,
    JournalRecord,
    digest,
    encode,
    format_line,
)
from reactive_desched.journal.segments import list_segments, segment_at
from reactive_desched.journal.summary import EventFilter, parse_summary
from tests.support.journals import SOURCE, STARTED_AT, some_events

NAME = "index.sqlite"

# A tiny world, so that filters and records often meet.
namespaces = st.sampled_from(["shop", "bank"])
names = st.sampled_from(["web", "db"])
nodes = st.sampled_from(["n1", "n2", ""])
plugins = st.sampled_from(["PodLifeTime", "NodeTaints"])
owners = st.sampled_from([(), ("ReplicaSet/web",), ("ReplicaSet/web", "Deployment/web")])
results = st.sampled_from(["evicted", "failed"])
reasons = st.sampled_from(["Spent", "Lost", ""])


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
        "mode": api.MODE_LIVE,
        "trigger": api.Cause(change="PodAged", object="", resource_version=""),
        "what": api.What(action="evict"),
        "who": who,
        "why": api.Why(
            message="old", numbers={}, plugin=draw(plugins), policy_revision="1", profile="p"
        ),
    }
    kinds: dict[str, api.EventData] = {
        api.FINDING_MADE: api.FindingMade(**about),
        api.DECISION_DEFER: api.DecisionMade(
            decision=api.Verdict(verdict="defer", gate="budget", reason=draw(reasons)), **about
        ),
        api.EVICTION_SUCCEEDED: api.EvictionEnded(
            attempt=1, outcome=api.Ending(result=draw(results), reason=draw(reasons)), **about
        ),
        api.LEADER_CHANGED: api.LeaderChanged(holder="a", previous="b", transitions=1),
    }
    type_ = draw(st.sampled_from(sorted(kinds)))
    case = draw(st.sampled_from(["case-1", "case-2"]))
    time = STARTED_AT + timedelta(seconds=draw(st.integers(0, 9)))
    id_ = digest_id(case, str(draw(st.integers(0, 99))))
    return build_event(
        SOURCE, type_, Correlation(case, "x", "y"), time, kinds[type_], id_=id_, causation_id="z"
    )


filters = st.builds(
    EventFilter,
    types=st.sampled_from([(), ("eviction",), ("decision.defer", "leader")]),
    namespaces=st.sampled_from([(), ("shop",), ("shop", "bank")]),
    owners=st.sampled_from([(), ("web",), ("Deployment/web",), ("uid-ReplicaSet",)]),
    pods=st.sampled_from([(), ("web",), ("bank/web",), ("u2", "shop/db")]),
    nodes=st.sampled_from([(), ("n1",), ("",)]),
    plugins=st.sampled_from([(), ("PodLifeTime",)]),
    outcomes=st.sampled_from([(), ("evicted",), ("",), ("failed", "evicted")]),
    reasons=st.sampled_from([(), ("Spent",), ("",), ("Spent", "Lost")]),
)
moments = st.none() | st.integers(0, 9).map(
    lambda second: micros((STARTED_AT + timedelta(seconds=second)).isoformat())
)
wants = st.builds(RecordQuery, filter=filters, since=moments, until=moments)


class Folder:
    """A journal's folder to which everything happens that happens to one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._last = 0
        self._prev = GENESIS

    def begin(self) -> None:
        """Begin another segment."""
        segment_at(self.path, self._last + 1).path.touch()

    def append(self, event: AnyEvent) -> None:
        if not list_segments(self.path):
            self.begin()
        self._last += 1
        raw = format_line(encode(event), self._prev, "2026-03-29T01:30:00Z", self._last)
        self._prev = digest(raw)
        self.write(raw + b"\n")

    def write(self, raw: bytes) -> None:
        if not list_segments(self.path):
            self.begin()
        with list_segments(self.path)[-1].path.open("ab") as file:
            file.write(raw)

    def cut(self, raw: bytes) -> None:
        """Take back what stands at the end, as the repair of a torn line does."""
        path = list_segments(self.path)[-1].path
        path.write_bytes(path.read_bytes().removesuffix(raw))

    def compress(self) -> None:
        for one in list_segments(self.path)[:-1]:
            if not one.is_compressed:
                packed = gzip.compress(one.path.read_bytes())
                one.path.with_name(one.path.name + ".gz").write_bytes(packed)
                one.path.unlink()

    def remove_oldest(self) -> None:
        found = list_segments(self.path)
        if len(found) > 1:
            found[0].path.unlink()

    def entries(self) -> Iterator[JournalRecord]:
        """Read every whole line without any index."""
        for one in list_segments(self.path):
            with one.open() as file:
                for raw in file:
                    found = parse_summary(raw) if raw.endswith(b"\n") else None
                    if found is not None:
                        yield JournalRecord(found.seq, raw[:-1])


def brute_force(folder: Folder, wanted: RecordQuery) -> list[JournalRecord]:
    def fits(entry: JournalRecord) -> bool:
        found = parse_summary(entry.raw)
        assert found is not None
        time = micros(found.time)
        return (
            wanted.filter.matches(found)
            and (wanted.since is None or time >= wanted.since)
            and (wanted.until is None or time < wanted.until)
        )

    return [entry for entry in folder.entries() if fits(entry)]


def answer(index: AuditIndex, wanted: RecordQuery) -> list[JournalRecord]:
    catalogue = IndexCatalogue(index.directory, None, index)
    found = list(catalogue.fetch(catalogue.find(wanted)))
    assert catalogue.missing == 0
    assert found == list(catalogue.iter_matching(wanted))
    catalogue._fetcher.close()
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
def test_an_index_kept_up_to_date_answers_as_one_made_anew_and_as_reading_everything(
    happened: list[tuple[str, AnyEvent | int | None]], wanted: RecordQuery, writers: int
) -> None:
    with TemporaryDirectory() as made:
        folder = Folder(Path(made))
        index = AuditIndex.open(folder.path, folder.path / NAME)
        other = AuditIndex.open(folder.path, folder.path / NAME) if writers > 1 else index
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
        index.index_all()
        fresh = AuditIndex.open(folder.path, folder.path / "fresh.sqlite")
        fresh.index_all()

        expected = brute_force(folder, wanted)
        assert answer(index, wanted) == expected
        assert answer(fresh, wanted) == expected
        everything_gone = not list(folder.entries())
        assert everything_gone or index.cursor.digest == fresh.cursor.digest
        for each in (index, other, fresh):
            each.close()


def opened(folder: Path) -> AuditIndex:
    return AuditIndex.open(folder, folder / NAME)


def test_a_pod_whose_records_were_all_removed_is_found_when_it_comes_again(tmp_path: Path) -> None:
    findings = [each for each in some_events(50) if each.type == api.FINDING_MADE]
    told, other = findings[:2]
    folder = Folder(tmp_path)
    folder.append(told)
    index = opened(tmp_path)
    index.index_all()
    folder.begin()
    folder.append(other)
    folder.remove_oldest()
    index.index_all()

    folder.append(told)
    index.index_all()

    who = told.data.who
    wanted = RecordQuery(filter=EventFilter(pods=(who.name,), nodes=(who.node,)))
    assert [entry.seq for entry in answer(index, wanted)] == [3]


@pytest.mark.parametrize(
    ("since_s", "until_s", "sequences"),
    [
        pytest.param(5, 6, [1], id="the first moment is included, the last is not"),
        pytest.param(6, 9, [2], id="nothing before"),
        pytest.param(4, 5, [], id="nothing after"),
        pytest.param(5, 7, [1, 2], id="all between"),
    ],
)
def test_a_window_of_time_begins_with_its_first_moment(
    tmp_path: Path, since_s: int, until_s: int, sequences: list[int]
) -> None:
    folder = Folder(tmp_path)
    data = api.LeaderChanged(holder="a", previous="b", transitions=1)
    story = Correlation("e", "journal", "e")
    for second in (5, 6):
        time = STARTED_AT + timedelta(seconds=second)
        folder.append(
            build_event(
                SOURCE, api.LEADER_CHANGED, story, time, data, id_=str(second), causation_id="z"
            )
        )
    index = opened(tmp_path)
    index.index_all()

    since, until = (
        micros((STARTED_AT + timedelta(seconds=second)).isoformat())
        for second in (since_s, until_s)
    )

    assert [e.seq for e in answer(index, RecordQuery(since=since, until=until))] == sequences
