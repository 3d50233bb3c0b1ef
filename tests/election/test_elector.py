"""A candidate takes, keeps and gives up a Lease as client-go's do, on virtual time."""

from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

import anyio
import pytest
from msgspec.structs import replace

from reactive_desched.election import elector
from reactive_desched.election.lease import LeaseRecord, micro_time
from reactive_desched.errors import LeadershipLost, Unreachable
from reactive_desched.policy.settings.leader_election import JITTER_FACTOR
from tests.support.candidates import (
    TIMEOUT_S,
    TIMING,
    Candidate,
    LeaseServer,
    Link,
    held_by,
    renewed,
)
from tests.support.exposition import exposed
from tests.support.golden import Golden

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

LONGEST_RETRY_S = TIMING.retry_period_s * (1 + JITTER_FACTOR)
Acts = list[tuple[float, str]]
T = TypeVar("T")


class World:
    def __init__(self) -> None:
        self.server = LeaseServer()
        self.acts: Acts = []

    def candidate(self, name: str, rng: Random | None = None) -> Candidate:
        return Candidate(self.server, name, self.acts, rng=rng)

    def held(self) -> LeaseRecord:
        assert self.server.record is not None
        return self.server.record

    def write(self, **changes: Any) -> None:  # members of a LeaseRecord
        """Change the Lease as another client does."""
        self.server.version += 1
        self.server.record = replace(self.held(), **changes)

    def first_act(self, name: str) -> float:
        return next(at for at, who in self.acts if who == name)


class LosesOneAnswer(Link):
    """The way of a candidate that does not learn of its first write."""

    def __init__(self, server: LeaseServer) -> None:
        super().__init__()
        self._server = server

    async def carry(self, work: Callable[[], T]) -> T:
        """Have the server do the work, and lose the answer to the first write."""
        before = len(self._server.writes)
        result = await super().carry(work)
        if before == 0 < len(self._server.writes):
            await anyio.sleep(TIMEOUT_S)
            raise Unreachable("PUT", "no answer in time", sent=True)
        return result


@pytest.fixture
def world() -> World:
    return World()


async def taken_from_x_between(world: World, early_s: float, late_s: float) -> None:
    """Check that a candidate takes the Lease of x, which renews it no more, between these times."""
    async with anyio.create_task_group() as group:
        group.start_soon(world.candidate("b").run)
        await anyio.sleep(early_s)
        assert world.held().holder == "x"
        await anyio.sleep(late_s - early_s)
        group.cancel_scope.cancel()

    assert world.held().holder == "b"


async def test_the_first_candidate_creates_the_lease_and_acts_at_once(world: World) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(world.candidate("a").run)
        await anyio.sleep(1)
        group.cancel_scope.cancel()

    assert world.server.writes == [(0.0, LeaseRecord("a", 15, micro_time(0), micro_time(0), 0))]
    assert world.first_act("a") == pytest.approx(0.2)


async def test_the_leader_renews_every_retry_period_and_keeps_the_time_it_acquired(
    world: World,
) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(world.candidate("a").run)
        await anyio.sleep(7)
        group.cancel_scope.cancel()

    assert [at for at, _ in world.server.writes] == [0, 2, 4, 6]
    assert {record.acquire_time for _, record in world.server.writes} == {micro_time(0)}
    assert world.held() == LeaseRecord("a", 15, micro_time(0), micro_time(6), 0)


async def test_a_standby_takes_over_when_it_saw_no_renewal_for_the_lease_duration(
    world: World,
) -> None:
    leader = world.candidate("a")
    async with anyio.create_task_group() as group:
        group.start_soon(leader.run)
        await anyio.sleep(0.5)
        group.start_soon(world.candidate("b").run)
        await anyio.sleep(60)
        leader.kill()
        killed_at, last_renewal = anyio.current_time(), world.server.writes[-1][0]
        await anyio.sleep(30)
        group.cancel_scope.cancel()

    took_s = world.first_act("b") - killed_at
    assert took_s <= TIMING.lease_duration_s + LONGEST_RETRY_S + 0.2
    assert world.first_act("b") >= last_renewal + TIMING.lease_duration_s
    taken = next(record for _, record in world.server.writes if record.holder == "b")
    assert (taken.transitions, taken.acquire_time) == (1, taken.renew_time)


@pytest.mark.parametrize("seed", range(30))
async def test_take_over_is_within_twenty_seconds(world: World, seed: int) -> None:
    leader, rng = world.candidate("a"), Random(seed)
    async with anyio.create_task_group() as group:
        group.start_soon(leader.run)
        await anyio.sleep(0.5)
        group.start_soon(world.candidate("b", rng).run)
        await anyio.sleep(30 + 2 * rng.random())
        leader.kill()
        killed_at = anyio.current_time()
        await anyio.sleep(30)
        group.cancel_scope.cancel()

    assert world.first_act("b") - killed_at <= 20


async def test_a_clean_stop_lets_a_standby_take_over_at_its_next_try(world: World) -> None:
    leader = world.candidate("a")
    async with anyio.create_task_group() as group:
        group.start_soon(leader.run)
        await anyio.sleep(0.5)
        group.start_soon(world.candidate("b").run)
        await anyio.sleep(30)
        await leader.stop()
        stopped_at, released = anyio.current_time(), world.held()
        await anyio.sleep(LONGEST_RETRY_S + 0.2)
        group.cancel_scope.cancel()

    assert (released.holder, released.duration_s, released.transitions) == ("", 1, 0)
    assert released.acquire_time == released.renew_time == micro_time(stopped_at)
    assert world.first_act("b") - stopped_at <= LONGEST_RETRY_S + 0.2
    assert world.held().transitions == 1


async def test_a_lease_that_another_clock_dates_years_ago_is_held_all_the_same(
    world: World,
) -> None:
    world.server.record = replace(held_by("x"), renew_time="1999-01-01T00:00:00.000000Z")
    await taken_from_x_between(world, 14.9, 15.9)

    assert (world.held().holder, world.held().transitions) == ("b", 4)
    assert world.first_act("b") == pytest.approx(15.0, abs=0.3)


async def test_the_duration_that_counts_is_the_one_the_lease_names(world: World) -> None:
    world.server.record = held_by("x", duration_s=40)
    await taken_from_x_between(world, 39.9, 40.9)


@pytest.mark.parametrize("duration_s", [1, 0, -1, pytest.param(-(10**400), id="far below zero")])
async def test_a_duration_shorter_than_its_own_lets_no_candidate_take_the_lease_of_a_leader(
    world: World, duration_s: int
) -> None:
    leader = world.candidate("a")
    async with anyio.create_task_group() as group:
        group.start_soon(leader.run)
        await anyio.sleep(0.5)
        group.start_soon(world.candidate("b").run)
        for _ in range(40):  # between the renewals of the leader
            await anyio.sleep(0.3)
            world.write(duration_s=duration_s)
        assert {who for _, who in world.acts} == {"a"}
        leader.kill()
        world.write(duration_s=duration_s)
        killed_at = anyio.current_time()
        await anyio.sleep(30)
        group.cancel_scope.cancel()

    assert killed_at + 14 < world.first_act("b") < killed_at + 20


async def test_a_lease_without_renewals_is_free_after_an_hour(world: World) -> None:
    world.server.record = held_by("x", duration_s=7200)
    await taken_from_x_between(world, 3599, 3601)


@pytest.mark.parametrize("duration_s", [61, 2**31 - 1, pytest.param(10**400, id="huge")])
async def test_a_lease_without_renewals_is_free_then_whatever_duration_it_names(
    world: World, duration_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elector, "MAX_HELD_S", 60.0)
    world.server.record = held_by("x", duration_s=duration_s)
    await taken_from_x_between(world, 59, 61)


@pytest.mark.parametrize("acquired", ["", "yesterday", "9999-99", "2026-01-02T03:04:05Z\n"])
async def test_a_leader_writes_no_time_that_the_api_server_refuses(
    world: World, acquired: str
) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(world.candidate("a").run)
        await anyio.sleep(1)
        world.write(acquire_time=acquired, renew_time=acquired)
        await anyio.sleep(4)
        group.cancel_scope.cancel()

    assert world.held().acquire_time == micro_time(2)
    assert world.held().renew_time == micro_time(4)


@pytest.mark.parametrize(
    ("written", "next_one"),
    [(2**31 - 1, 2**31 - 1), pytest.param(10**400, 2**31 - 1, id="huge"), (-5, 0)],
)
async def test_a_candidate_writes_no_number_of_transitions_that_the_api_server_refuses(
    world: World, written: int, next_one: int
) -> None:
    world.server.record = replace(held_by(""), transitions=written)
    async with anyio.create_task_group() as group:
        group.start_soon(world.candidate("b").run)
        await anyio.sleep(5)
        group.cancel_scope.cancel()

    assert (world.held().holder, world.held().transitions) == ("b", next_one)


async def test_texts_name_a_holder_by_a_bounded_name_without_control_characters(
    world: World,
) -> None:
    world.server.record = held_by("x" * 300_000 + "\x1b[2J\n")
    standby = world.candidate("b")
    async with anyio.create_task_group() as group:
        group.start_soon(standby.run)
        await anyio.sleep(5)
        waiting = standby.leadership.fault
        await anyio.sleep(15)
        group.cancel_scope.cancel()

    assert waiting.startswith("the leader is xxx")
    for text in (waiting, standby.elector.previous_holder):
        assert len(text) < 600
        assert text.isprintable()


async def test_a_candidate_whose_write_was_not_answered_names_whose_lease_it_took(
    world: World,
) -> None:
    world.server.record = held_by("x")
    follower = Candidate(world.server, "b", world.acts, link=LosesOneAnswer(world.server))
    async with anyio.create_task_group() as group:
        group.start_soon(follower.run)
        await anyio.sleep(40)
        group.cancel_scope.cancel()

    assert world.first_act("b")
    assert [each.transitions for _, each in world.server.writes[:2]] == [4, 4], "it was lost"
    assert follower.elector.previous_holder == "x"


async def test_each_renewal_that_is_seen_begins_the_wait_anew(world: World) -> None:
    world.server.record = held_by("x")
    async with anyio.create_task_group() as group:
        group.start_soon(world.candidate("b").run)
        for _ in range(4):
            await anyio.sleep(10)
            world.server.record = renewed(world.held())
        await anyio.sleep(14.9)
        group.cancel_scope.cancel()

    assert world.held().holder == "x"
    assert world.acts == []


async def test_a_lease_that_vanished_is_free_only_when_its_holder_must_have_stopped(
    world: World,
) -> None:
    world.server.record = held_by("x")
    async with anyio.create_task_group() as group:
        group.start_soon(world.candidate("b").run)
        await anyio.sleep(1)
        world.server.record = None
        await anyio.sleep(13.9)
        assert world.server.record is None
        await anyio.sleep(1)
        group.cancel_scope.cancel()

    assert world.held().holder == "b"


async def test_a_leader_whose_link_is_cut_stops_at_the_renew_deadline(world: World) -> None:
    leader = world.candidate("a")
    async with anyio.create_task_group() as group:
        group.start_soon(leader.run)
        await anyio.sleep(20.5)
        leader.link.cut_until = 1000
        await anyio.sleep(15)
        group.cancel_scope.cancel()

    assert 29.5 < world.acts[-1][0] < 30
    assert leader.ended is not None
    assert "not renewed for 10 s" in leader.ended


async def test_a_term_counts_from_when_the_renewal_was_sent(world: World) -> None:
    leader = world.candidate("a")
    leader.link.delays_s = lambda: 2.0
    async with anyio.create_task_group() as group:
        group.start_soon(leader.run)
        await anyio.sleep(28.5)
        leader.link.cut_until = 1000
        await anyio.sleep(30)
        group.cancel_scope.cancel()

    last_sent = max(at for at, _ in world.server.writes if at < 26.5) - 2.0
    assert 1 < world.acts[-1][0] - last_sent < TIMING.renew_deadline_s


async def test_another_holder_in_the_lease_ends_the_term_at_once(
    world: World, golden: Golden
) -> None:
    leader = world.candidate("a")
    async with anyio.create_task_group() as group:
        group.start_soon(leader.run)
        await anyio.sleep(5)
        world.server._write(held_by("thief"))
        await anyio.sleep(20)
        group.cancel_scope.cancel()

    assert world.acts[-1][0] <= 6.3
    assert leader.ended == golden()
    assert world.held().holder == "thief"


async def test_a_lease_that_was_emptied_by_hand_ends_the_term_too(
    world: World, golden: Golden
) -> None:
    leader = world.candidate("a")
    async with anyio.create_task_group() as group:
        group.start_soon(leader.run)
        await anyio.sleep(5)
        world.server._write(replace(world.held(), holder=""))
        await anyio.sleep(5)
        group.cancel_scope.cancel()

    assert leader.ended == golden()


async def test_a_label_that_another_client_writes_meanwhile_does_not_end_the_term(
    world: World,
) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(world.candidate("a").run)
        await anyio.sleep(5)
        world.server.version += 1
        await anyio.sleep(20)
        group.cancel_scope.cancel()

    assert world.acts[-1][0] > 24.5
    assert world.held().transitions == 0


async def test_of_two_that_come_when_a_lease_runs_out_one_takes_it(world: World) -> None:
    world.server.record = held_by("x")
    async with anyio.create_task_group() as group:
        group.start_soon(world.candidate("b").run)
        group.start_soon(world.candidate("c").run)
        await anyio.sleep(40)
        group.cancel_scope.cancel()

    assert len({name for _, name in world.acts}) == 1
    assert world.held().transitions == 4


async def test_a_paused_leader_that_wakes_acts_no_more(world: World) -> None:
    leader = world.candidate("a")
    async with anyio.create_task_group() as group:
        group.start_soon(leader.run)
        await anyio.sleep(5)
        leader.pause(60)
        await anyio.sleep(70)
        group.cancel_scope.cancel()

    assert world.acts[-1][0] <= 5
    assert leader.ended is not None


async def test_a_short_pause_ends_nothing(world: World) -> None:
    leader = world.candidate("a")
    async with anyio.create_task_group() as group:
        group.start_soon(leader.run)
        await anyio.sleep(5)
        leader.pause(5)
        await anyio.sleep(20)
        group.cancel_scope.cancel()

    assert not [at for at, _ in world.acts if 5 < at < 10]
    assert world.acts[-1][0] > 24.5


async def test_a_term_begins_only_if_the_lease_is_still_its_own(
    world: World, golden: Golden
) -> None:
    leader = world.candidate("a")
    leader.opening_s = 1.0
    async with anyio.create_task_group() as group:
        group.start_soon(leader.run)
        await anyio.sleep(0.5)
        world.server._write(held_by("thief"))
        await anyio.sleep(5)
        group.cancel_scope.cancel()

    assert world.acts == []
    assert leader.ended == golden()


async def test_nothing_acts_before_the_term_begins_though_the_lease_is_held(world: World) -> None:
    leader = world.candidate("a")
    leader.opening_s = 30.0
    async with anyio.create_task_group() as group:
        group.start_soon(leader.run)
        await anyio.sleep(29)
        assert world.held().holder == "a"
        assert world.acts == []
        await anyio.sleep(2)
        group.cancel_scope.cancel()

    assert world.acts[0][0] >= 30


async def test_a_term_that_lapsed_never_comes_back(world: World) -> None:
    leader = world.candidate("a")
    await leader.elector.acquire()
    await leader.elector.begin_term()
    await anyio.sleep(11)
    assert "not renewed" in leader.leadership.fault

    with pytest.raises(LeadershipLost):
        await leader.elector.keep()
    leader.leadership.renew(leader.now() + 100)
    leader.leadership.begin()
    leader.leadership.stand_by("standby")

    assert leader.leadership.fault
    assert not leader.leadership.is_standby


async def test_a_release_of_a_lease_that_another_holds_leaves_it_alone(world: World) -> None:
    leader = world.candidate("a")
    await leader.elector.acquire()
    world.server._write(held_by("thief"))

    await leader.elector.release()

    assert world.held().holder == "thief"


async def test_the_process_must_end_before_the_lease_may_pass_to_another(world: World) -> None:
    times: list[float] = []
    leader = world.candidate("a")
    leader.elector._end_process_at = times.append
    await leader.elector.acquire()
    await leader.elector.release()

    began = leader.now()
    assert times == [began + 14.0, float("inf")]
    assert began + TIMING.renew_deadline_s < times[0] < began + TIMING.lease_duration_s


async def test_a_candidate_shows_whether_another_one_renews_the_lease(world: World) -> None:
    leader, follower = world.candidate("a"), world.candidate("b")

    def followed() -> list[float]:
        return [exposed(one.elector)["lease_held_by_another"] for one in (leader, follower)]

    assert followed() == [0, 0]
    async with anyio.create_task_group() as group:
        group.start_soon(leader.run)
        await anyio.sleep(1)
        group.start_soon(follower.run)
        await anyio.sleep(60)
        assert followed() == [0, 1]
        for one in (leader, follower):
            one.link.cut_until = anyio.current_time() + 1000
        await anyio.sleep(60)
        assert followed() == [0, 0]
        group.cancel_scope.cancel()
