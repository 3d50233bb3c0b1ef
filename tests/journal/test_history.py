"""Past evictions are read back from the journal, with their ends and what came of them."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reactive_desched.api import event as api
from reactive_desched.journal.history import HISTORY_S, read_history
from reactive_desched.journal.records import AnyEvent
from reactive_desched.model.history import PastEviction, PastFollowUp
from tests.support.entries import WEB, outcome_data
from tests.support.journals import correlation_of, make_pod_event, write_journal

START = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
NOW_S = START.timestamp() + 3600


def eviction(
    key: str,
    minute: float = 0,
    *,
    result: str = "evicted",
    followed: str = "",
    mode: str = "live",
) -> Iterator[AnyEvent]:
    """Yield the request to evict a pod, its outcome if there is one, and what came of it."""
    about = outcome_data("evicted", mode=mode)  # type: ignore[arg-type]  # one of the two
    fields = {name: getattr(about, name) for name in ("mode", "trigger", "what", "who", "why")}
    time = START + timedelta(minutes=minute)
    case = correlation_of(WEB, key)
    yield make_pod_event(
        api.EVICTION_REQUESTED, case, time, api.EvictionRequested(attempt=1, **fields), key, "found"
    )
    if result:
        ending = api.EvictionEnded(attempt=1, outcome=api.Ending(result=result), **fields)
        time += timedelta(seconds=2)
        yield make_pod_event(api.EVICTION_SUCCEEDED, case, time, ending, f"end-{key}", key)
    if followed:
        pod = api.Replacement(name="web-2", node="n2", uid="uid-2")
        follow_up = api.FollowUp(result=followed, finding_holds=True, replacement=pod)
        data = api.EvictionFollowedUp(attempt=1, follow_up=follow_up, **fields)
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

    history = read_history(tmp_path, NOW_S)

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
            follow_up=PastFollowUp(began + 7, "returned", "n2", True, "uid-2"),
        ),
    )
    assert history.is_whole


def test_what_follows_an_eviction_may_be_in_a_later_file(tmp_path: Path) -> None:
    events = [*eviction("a", followed="moved"), *eviction("b", result="")]
    write_journal(tmp_path, events, per_segment=1, compress=True)

    a, b = read_history(tmp_path, NOW_S).evictions

    assert (a.result, a.follow_up and a.follow_up.result) == ("evicted", "moved")
    assert (b.result, b.ended_s, b.follow_up) == ("", None, None)


def test_a_dry_run_evicted_no_pod(tmp_path: Path) -> None:
    write_journal(tmp_path, eviction("a", mode="dry_run"))

    assert read_history(tmp_path, NOW_S).evictions == ()


def test_only_the_last_day_counts(tmp_path: Path) -> None:
    write_journal(tmp_path, [*eviction("old"), *eviction("new", minute=1)], per_segment=1)

    history = read_history(tmp_path, START.timestamp() + HISTORY_S + 30)

    assert names(history.evictions) == ["new"]
    assert history.is_whole


def test_beyond_the_bound_the_newest_evictions_are_kept(tmp_path: Path) -> None:
    events = [event for minute in range(9) for event in eviction(str(minute), minute)]
    write_journal(tmp_path, events, per_segment=4)

    history = read_history(tmp_path, NOW_S, max_evictions=3)

    assert names(history.evictions) == ["6", "7", "8"]
    assert not history.is_whole
    assert history.begins_s == START.timestamp() + 6 * 60


def test_no_more_files_are_begun_beyond_so_many_bytes(tmp_path: Path) -> None:
    events = [event for minute in range(9) for event in eviction(str(minute), minute)]
    write_journal(tmp_path, events, per_segment=6)

    history = read_history(tmp_path, NOW_S, max_bytes=1)

    assert names(history.evictions) == ["6", "7", "8"]
    assert not history.is_whole


@pytest.mark.parametrize(
    ("owner_uid", "is_cleared"), [("uid-top", True), ("", True), ("another", False)]
)
def test_a_person_may_have_cleared_the_memory_of_an_owner(
    tmp_path: Path, owner_uid: str, *, is_cleared: bool
) -> None:
    events = [*eviction("before"), cleared(1, owner_uid), *eviction("after", minute=2)]
    write_journal(tmp_path, events)

    found = read_history(tmp_path, NOW_S).evictions

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

    assert names(read_history(tmp_path, NOW_S).evictions) == ["b"]


def test_of_a_compressed_file_that_is_damaged_the_whole_lines_count(tmp_path: Path) -> None:
    events = [event for minute in range(9) for event in eviction(str(minute), minute)]
    write_journal(tmp_path, events, per_segment=len(events) - 1, compress=True)
    (path,) = tmp_path.glob("journal-*.gz")
    path.write_bytes(path.read_bytes()[:-20])

    assert "0" in names(read_history(tmp_path, NOW_S).evictions)


def test_an_empty_folder_has_no_history(tmp_path: Path) -> None:
    history = read_history(tmp_path, NOW_S)

    assert (history.evictions, history.is_whole) == ((), True)
