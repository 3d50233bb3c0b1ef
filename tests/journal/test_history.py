"""Past evictions are read back from the journal, with their ends and what came of them."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from reactive_desched.api import event as api
from reactive_desched.journal.clocks import Moment
from reactive_desched.journal.history import HISTORY_S, read_history
from reactive_desched.journal.records import AnyEvent, JournalRecord
from reactive_desched.journal.segments import Segment, list_segments
from reactive_desched.journal.upkeep.compression import compress
from reactive_desched.model.history import PastEviction, PastFollowUp
from tests.support.entries import WEB, outcome_data
from tests.support.journals import correlation_of, make_pod_event, write_journal

START = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
NOW_S = START.timestamp() + 3600

EVICTED = api.Ending(result="evicted")


def eviction(
    key: str,
    minute: float = 0,
    *,
    outcome: api.Ending | None = EVICTED,
    followed: str = "",
    mode: str = "live",
    up_ms: int | None = None,
    boot_id: str = "a boot",
    server_s: float | None = None,
) -> Iterator[AnyEvent]:
    """Yield the request to evict a pod, its outcome if there is one, and what came of it.

    `up_ms` is the machine's uptime at the request, `server_s` the API server's clock in seconds
    after START; None is not known.
    """

    def server_time(later_s: int = 0) -> datetime | None:
        return None if server_s is None else START + timedelta(seconds=server_s + later_s)

    def uptime(later_s: int = 0) -> api.Uptime | None:
        if up_ms is None:
            return None
        return api.Uptime(boot_id=boot_id, milliseconds=up_ms + later_s * 1000)

    about = outcome_data("evicted", mode=mode)  # type: ignore[arg-type]  # one of the two
    fields = {name: getattr(about, name) for name in ("mode", "trigger", "what", "who", "why")}
    time = START + timedelta(minutes=minute)
    case = correlation_of(WEB, key)
    request = api.EvictionRequested(attempt=1, server_time=server_time(), uptime=uptime(), **fields)
    yield make_pod_event(api.EVICTION_REQUESTED, case, time, request, key, "found")
    if outcome is not None:
        ending = api.EvictionEnded(
            attempt=1, outcome=outcome, server_time=server_time(2), uptime=uptime(2), **fields
        )
        time += timedelta(seconds=2)
        yield make_pod_event(api.EVICTION_SUCCEEDED, case, time, ending, f"end-{key}", key)
    if followed:
        pod = api.Replacement(name="web-2", node="n2", uid="uid-2")
        follow_up = api.FollowUp(
            result=followed, finding_holds=True, ready_ms=4_500, replacement=pod
        )
        data = api.EvictionFollowedUp(
            attempt=1,
            follow_up=follow_up,
            server_time=server_time(7),
            uptime=uptime(7),
            **fields,
        )
        time += timedelta(seconds=5)
        yield make_pod_event(
            api.EVICTION_FOLLOWED_UP, case, time, data, f"followed-{key}", f"end-{key}"
        )


def cleared(minute: float, owner_uid: str = "") -> AnyEvent:
    data = api.FutileCleared(
        by="ada", cleared=1, message="", owner="shop/Deployment/web", owner_uid=owner_uid
    )
    time = START + timedelta(minutes=minute)
    id_ = f"cleared-{minute}"
    return make_pod_event(api.FUTILE_CLEARED, correlation_of(WEB, id_), time, data, id_, "request")


def names(evictions: tuple[PastEviction, ...]) -> list[str]:
    return [each.request_id for each in evictions]


def test_an_eviction_has_its_pod_its_topmost_owner_its_end_and_what_came_of_it(
    tmp_path: Path,
) -> None:
    write_journal(tmp_path, eviction("a", followed="returned"))

    history = read_history(tmp_path, Moment(NOW_S))

    began = START.timestamp()
    assert history.evictions == (
        PastEviction(
            request_id="a",
            requested_s=began,
            pod_uid="uid-1",
            namespace="shop",
            pod_name="web",
            node="n1",
            zone="north",
            owner_uid="uid-top",
            owner_kind="Deployment",
            owner_name="web",
            replacing_uid="uid-top",
            replacing_kind="Deployment",
            template_hash="",
            plugin="RemovePodsViolatingNodeTaints",
            profile="day",
            ended_s=began + 2,
            result="evicted",
            follow_up=PastFollowUp(began + 7, "returned", "n2", True, "uid-2", 4.5),
            began_s=began,
        ),
    )
    assert history.is_whole


def test_what_follows_an_eviction_may_be_in_a_later_file(tmp_path: Path) -> None:
    events = [*eviction("a", followed="moved"), *eviction("b", outcome=None)]
    write_journal(tmp_path, events, per_segment=1, compress=True)

    a, b = read_history(tmp_path, Moment(NOW_S)).evictions

    assert (a.result, a.follow_up and a.follow_up.result) == ("evicted", "moved")
    assert (b.result, b.ended_s, b.follow_up) == ("", None, None)


def test_an_eviction_of_a_pod_that_had_ended_is_read_as_a_clean_up(tmp_path: Path) -> None:
    ended, *rest = eviction("a")
    ended = replace(ended, data=replace(ended.data, phase="Failed"))
    write_journal(tmp_path, [ended, *rest, *eviction("b", 1)])

    found = read_history(tmp_path, Moment(NOW_S)).evictions

    assert {each.request_id: each.is_clean_up for each in found} == {"a": True, "b": False}


def test_a_dry_run_evicted_no_pod(tmp_path: Path) -> None:
    write_journal(tmp_path, eviction("a", mode="dry_run"))

    assert read_history(tmp_path, Moment(NOW_S)).evictions == ()


def test_only_the_last_day_counts(tmp_path: Path) -> None:
    write_journal(tmp_path, [*eviction("old"), *eviction("new", minute=1)], per_segment=1)

    history = read_history(tmp_path, Moment(START.timestamp() + HISTORY_S + 30))

    assert names(history.evictions) == ["new"]
    assert history.is_whole


def test_an_eviction_that_counts_for_longer_than_a_day_is_read(tmp_path: Path) -> None:
    events = [*eviction("gone"), *eviction("old", minute=1), *eviction("new", minute=2)]
    write_journal(tmp_path, events, per_segment=1)
    counts_for_s = 2 * HISTORY_S
    now = Moment(START.timestamp() + counts_for_s + 30)

    history = read_history(tmp_path, now, counts_for_s=counts_for_s)

    assert names(history.evictions) == ["old", "new"]
    assert history.is_whole


def test_beyond_the_bound_the_newest_evictions_are_kept(tmp_path: Path) -> None:
    events = [event for minute in range(9) for event in eviction(str(minute), minute)]
    write_journal(tmp_path, events, per_segment=4)

    history = read_history(tmp_path, Moment(NOW_S), max_evictions=3)

    assert names(history.evictions) == ["6", "7", "8"]
    assert not history.is_whole
    assert history.begins_s == START.timestamp() + 6 * 60


def test_evictions_of_one_time_are_in_the_order_of_their_records(tmp_path: Path) -> None:
    write_journal(tmp_path, [event for key in "bca" for event in eviction(key)])

    history = read_history(tmp_path, Moment(NOW_S))

    assert names(history.evictions) == ["b", "c", "a"]


def test_no_more_files_are_begun_beyond_so_many_bytes(tmp_path: Path) -> None:
    events = [event for minute in range(9) for event in eviction(str(minute), minute)]
    write_journal(tmp_path, events, per_segment=6)

    history = read_history(tmp_path, Moment(NOW_S), max_bytes=1)

    assert names(history.evictions) == ["6", "7", "8"]
    assert not history.is_whole


@pytest.mark.parametrize("until", ["time", "sequence"])
def test_the_bounds_are_not_spent_on_what_was_recorded_later(tmp_path: Path, until: str) -> None:
    events = [event for minute in range(90) for event in eviction(str(minute), minute)]
    apart = timedelta(seconds=24)  # so that each record is written at the time of its event
    written = write_journal(tmp_path, events, per_segment=4, began=START, apart=apart)
    at_s = START.timestamp() + 10.5 * 60
    found = read_history(
        tmp_path,
        Moment(at_s),
        until_s=at_s if until == "time" else None,
        until_sequence=None if until == "time" else sequence_of(written, "10"),
        max_bytes=20_000,
    )

    assert names(found.evictions)[-1] == "10"


def sequence_of(written: list[JournalRecord], id_: str) -> int:
    """Return the sequence of the record with this id."""
    return next(each.seq for each in written if f'"id":"{id_}"'.encode() in each.raw)


@pytest.mark.parametrize(
    ("owner_uid", "is_cleared"), [("uid-top", True), ("", True), ("another", False)]
)
def test_a_person_may_have_cleared_the_memory_of_an_owner(
    tmp_path: Path, owner_uid: str, *, is_cleared: bool
) -> None:
    events = [*eviction("before"), cleared(1, owner_uid), *eviction("after", minute=2)]
    write_journal(tmp_path, events)

    found = read_history(tmp_path, Moment(NOW_S)).evictions

    assert {each.request_id: each.is_cleared for each in found} == {
        "before": is_cleared,
        "after": False,
    }


def test_damaged_lines_are_left_out(tmp_path: Path) -> None:
    write_journal(tmp_path, [*eviction("a"), *eviction("b")])
    (path,) = tmp_path.glob("journal-*.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1][:100] + b"\n"
    path.write_bytes(b"".join(lines) + lines[3][:-40])

    assert names(read_history(tmp_path, Moment(NOW_S)).evictions) == ["b"]


def test_of_a_compressed_file_that_is_damaged_the_whole_lines_count(tmp_path: Path) -> None:
    events = [event for minute in range(9) for event in eviction(str(minute), minute)]
    write_journal(tmp_path, events, per_segment=len(events) - 1, compress=True)
    (path,) = tmp_path.glob("journal-*.gz")
    path.write_bytes(path.read_bytes()[:-20])

    assert "0" in names(read_history(tmp_path, Moment(NOW_S)).evictions)


def test_a_file_that_is_compressed_after_it_was_listed_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_journal(tmp_path, eviction("a"))

    def list_then_compress(directory: Path) -> list[Segment]:
        listed = list_segments(directory)
        for segment in listed:
            compress(segment, lambda: None)
        return listed

    monkeypatch.setattr("reactive_desched.journal.history.list_segments", list_then_compress)

    assert names(read_history(tmp_path, Moment(NOW_S)).evictions) == ["a"]


def test_an_empty_folder_has_no_history(tmp_path: Path) -> None:
    history = read_history(tmp_path, Moment(NOW_S))

    assert (history.evictions, history.is_whole) == ((), True)


@pytest.mark.parametrize("step_s", [-7200, -30, 30, 7200, 3 * 86_400])
def test_a_clock_that_was_set_since_makes_no_eviction_of_this_boot_older_or_younger(
    tmp_path: Path, step_s: int
) -> None:
    write_journal(tmp_path, eviction("a", followed="moved", up_ms=50_000))
    uptime = api.Uptime(boot_id="a boot", milliseconds=50_000 + 120_000)
    now_s = START.timestamp() + 120 + step_s

    [past] = read_history(tmp_path, Moment(now_s, uptime)).evictions

    assert past.follow_up is not None
    ages = [now_s - at for at in (past.requested_s, past.ended_s or 0.0, past.follow_up.ended_s)]
    assert ages == [120, 118, 113]


def test_evictions_of_other_boots_and_of_machines_without_names_of_boots_go_by_the_clock(
    tmp_path: Path,
) -> None:
    events = [
        *eviction("other", minute=1, up_ms=50_000, boot_id="another boot"),
        *eviction("nameless", minute=2),
    ]
    write_journal(tmp_path, events)
    uptime = api.Uptime(boot_id="a boot", milliseconds=51_000)

    found = read_history(tmp_path, Moment(NOW_S, uptime)).evictions

    assert [each.requested_s - START.timestamp() for each in found] == [60, 120]
    assert read_history(tmp_path, Moment(NOW_S)).evictions == found


def test_what_was_cleared_is_known_by_the_order_of_records_whatever_the_clock(
    tmp_path: Path,
) -> None:
    events = [*eviction("before", 10), cleared(minute=0), *eviction("after", -5)]
    write_journal(tmp_path, events)

    found = {
        each.request_id: each.is_cleared for each in read_history(tmp_path, Moment(NOW_S)).evictions
    }

    assert found == {"before": True, "after": False}


@pytest.mark.parametrize("ahead_s", [-7200, -30, 0, 30, 7200, 3 * 86_400])
def test_on_another_machine_an_eviction_is_as_old_as_the_api_servers_clock_says(
    tmp_path: Path, ahead_s: int
) -> None:
    write_journal(tmp_path, eviction("a", followed="moved", up_ms=50_000, server_s=500))
    uptime = api.Uptime(boot_id="another boot", milliseconds=7)
    now_s = START.timestamp() + 120 + ahead_s  # by the clock of the machine that it is on now
    now = Moment(now_s, uptime, START + timedelta(seconds=500 + 120))

    [past] = read_history(tmp_path, now).evictions

    assert past.follow_up is not None
    ages = [now_s - at for at in (past.requested_s, past.ended_s or 0.0, past.follow_up.ended_s)]
    assert ages == [119, 117, 112]  # by a second less: two dates that are cut are so far apart


def test_a_replacement_is_created_after_the_api_servers_time_of_the_request(tmp_path: Path) -> None:
    events = [
        *eviction("known", minute=1, server_s=5000),
        *eviction("unknown", minute=3, up_ms=50_000),
    ]
    write_journal(tmp_path, events)
    uptime = api.Uptime(boot_id="a boot", milliseconds=110_000)
    now = Moment(START.timestamp() + 200, uptime, START + timedelta(seconds=9000))

    known, unknown = read_history(tmp_path, now).evictions

    assert known.began_s - START.timestamp() == 5001
    assert unknown.began_s - START.timestamp() == 180


def test_an_answered_eviction_may_have_happened_as_late_as_its_answer(tmp_path: Path) -> None:
    answered = api.Ending(result="evicted", reason="EvictionAccepted")
    read_back = api.Ending(result="evicted", reason="FoundTerminating")
    events = [
        *eviction("answered", 1, outcome=answered, server_s=5000),
        *eviction("read back", 2, outcome=read_back, server_s=5060),
        *eviction("by no clock", 3, outcome=answered),
    ]
    write_journal(tmp_path, events)

    found = read_history(tmp_path, Moment(START.timestamp() + 200)).evictions

    start = START.timestamp()
    assert [each.accepted_s and each.accepted_s - start for each in found] == [5002, 0, 0]


def test_without_a_second_clock_the_time_of_day_counts(tmp_path: Path) -> None:
    write_journal(tmp_path, [*eviction("a", 1, server_s=9), *eviction("b", 2)])
    server_time = START + timedelta(seconds=9000)

    found = [
        read_history(tmp_path, now).evictions
        for now in (Moment(NOW_S), Moment(NOW_S, server_time=server_time))
    ]

    assert [each.requested_s - START.timestamp() for each in found[0]] == [60, 120]
    assert found[1][-1].requested_s - START.timestamp() == 120


STILL_RUNNING = api.Ending(result="failed", reason="FoundRunning")


def corrected(key: str, minute: float, *, followed: bool = False) -> Iterator[AnyEvent]:
    """Yield what corrects the outcome of an eviction, and what came of it."""
    about = outcome_data("failed")
    fields = {name: getattr(about, name) for name in ("mode", "trigger", "what", "who", "why")}
    time, case = START + timedelta(minutes=minute), correlation_of(WEB, key)
    outcome = api.Ending(result="unknown", reason="EvictedLater")
    data = api.EvictionCorrected(attempt=1, corrects=f"end-{key}", outcome=outcome, **fields)
    yield make_pod_event(api.EVICTION_CORRECTED, case, time, data, f"late-{key}", f"end-{key}")
    if followed:
        end = api.EvictionFollowedUp(attempt=1, follow_up=api.FollowUp(result="moved"), **fields)
        id_ = f"followed-{key}"
        yield make_pod_event(api.EVICTION_FOLLOWED_UP, case, time, end, id_, f"end-{key}")


def test_a_correction_takes_the_place_of_its_outcome_and_is_followed_up(tmp_path: Path) -> None:
    events = [
        *eviction("a", 1, outcome=STILL_RUNNING),
        *eviction("b", 2, outcome=STILL_RUNNING),
        *corrected("b", 5),
        *eviction("c", 6, outcome=STILL_RUNNING),
        *corrected("c", 7, followed=True),
    ]
    for per_segment in (100, 2):  # a correction may stand in a later file, which is read first
        write_journal(tmp_path / str(per_segment), events, per_segment=per_segment)
        found = read_history(tmp_path / str(per_segment), Moment(NOW_S))

        results = [(each.request_id, each.result, each.reason) for each in found.evictions]
        assert results == [
            ("a", "failed", "FoundRunning"),
            ("b", "unknown", "EvictedLater"),
            ("c", "unknown", "EvictedLater"),
        ]
        assert found.evictions[1].ended_s == START.timestamp() + 5 * 60
        assert {key: event.id for key, event in found.unfollowed.items()} == {"b": "end-b"}
        assert {key: event.id for key, event in found.uncertain.items()} == {"a": "end-a"}


def test_the_ends_of_pods_by_something_else_are_read_back(tmp_path: Path) -> None:
    data = api.DisruptionObserved(cause="PreemptionByScheduler", message="for another", who=WEB)
    case = correlation_of(WEB, "d")
    event = make_pod_event(api.DISRUPTION_OBSERVED, case, START, data, "d", "pod")
    write_journal(tmp_path, [event])

    [end] = read_history(tmp_path, Moment(NOW_S)).ends
    assert (end.uid, end.namespace, end.name, end.node) == (
        *(WEB.uid, WEB.namespace, WEB.name, WEB.node),
    )
    assert (end.cause, end.message) == ("PreemptionByScheduler", "for another")
    assert end.ended_s == START.timestamp()
