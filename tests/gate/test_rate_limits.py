from collections.abc import Callable
from heapq import heappop, heappush

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.gate import rate_limits as budgets_module
from reactive_desched.gate.rate_limits import BucketEmpty, EvictionRateLimiter, TokenRate
from reactive_desched.model.objects import Pod
from reactive_desched.primitives.token_bucket import MAX_WAIT_S
from reactive_desched.testing.builders import pod

WEB = pod("web", on="n1")


def evict(budgets: EvictionRateLimiter, what: Pod, now: float) -> BucketEmpty | None:
    """Ask for tokens and spend them at once."""
    refusal = budgets.reserve(what, now)
    if refusal is None:
        budgets.release(what, now, consumed=True)
    return refusal


def test_a_burst_goes_at_once_and_then_the_rate_rules() -> None:
    budgets = EvictionRateLimiter({"cluster": TokenRate(0.5, 2)})

    assert [evict(budgets, WEB, 0) for _ in range(2)] == [None, None]
    assert evict(budgets, WEB, 0) == BucketEmpty("cluster", 2.0)
    assert evict(budgets, WEB, 1.9) is not None
    assert evict(budgets, WEB, 2) is None


@pytest.mark.parametrize(
    ("scope", "other", "named"),
    [
        pytest.param("node", pod("x", on="n2"), "node n1", id="another node has its own"),
        pytest.param(
            "namespace",
            pod("x", on="n1", namespace="bank"),
            "namespace default",
            id="another namespace has its own",
        ),
    ],
)
def test_scopes_are_counted_apart_and_named_in_the_refusal(
    scope: str, other: Pod, named: str
) -> None:
    budgets = EvictionRateLimiter({scope: TokenRate(1, 1)})
    evict(budgets, WEB, 0)

    assert evict(budgets, WEB, 0) == BucketEmpty(named, 1.0)
    assert evict(budgets, other, 0) is None


def test_all_scopes_agree_or_none_pays() -> None:
    budgets = EvictionRateLimiter({"cluster": TokenRate(0.001, 2), "node": TokenRate(0.001, 1)})
    evict(budgets, pod("a", on="n1"), 0)
    assert evict(budgets, pod("b", on="n1"), 0) is not None

    assert evict(budgets, pod("c", on="n2"), 0) is None
    assert evict(budgets, pod("d", on="n3"), 0) == BucketEmpty("cluster", 1000.0)


def test_those_who_wait_are_given_different_times() -> None:
    budgets = EvictionRateLimiter({"cluster": TokenRate(1, 1)})
    evict(budgets, WEB, 0)

    refusals = [budgets.reserve(WEB, 0) for _ in range(3)]

    assert refusals == [
        BucketEmpty("cluster", 1.0),
        BucketEmpty("cluster", 2.0),
        BucketEmpty("cluster", 3.0),
    ]


def test_nobody_waits_long_behind_those_who_asked_again_and_again() -> None:
    budgets = EvictionRateLimiter({"cluster": TokenRate(1, 1)})
    evict(budgets, WEB, 0)
    for _ in range(10_000):
        budgets.reserve(WEB, 0)

    assert budgets.reserve(WEB, 0) == BucketEmpty("cluster", MAX_WAIT_S)


def test_a_token_that_takes_longer_than_the_longest_promise_is_promised_for_its_time() -> None:
    budgets = EvictionRateLimiter({"cluster": TokenRate(0.001, 1)})
    evict(budgets, WEB, 0)

    assert [budgets.reserve(WEB, 0) for _ in range(2)] == [BucketEmpty("cluster", 1000.0)] * 2


def test_rounding_does_not_turn_away_whoever_comes_at_the_promised_time() -> None:
    budgets = EvictionRateLimiter({"cluster": TokenRate(0.3, 1)})
    now = 0.1
    for _ in range(1000):
        assert evict(budgets, WEB, now) is None
        refusal = budgets.reserve(WEB, now)
        assert refusal is not None
        now = refusal.available_at


class Queue:
    """Many wait behind a burst, each back when told; each eviction takes its time.

    While all tokens are held none refills: so those who come back come a moment too early.
    `went` tells who went when, in order, and `asked` how often anybody asked.
    """

    def __init__(self, rate: TokenRate, waiting: int, took_s: Callable[[int], float]) -> None:
        self.went: list[tuple[float, int]] = []
        self.asked = 0
        self._budgets = EvictionRateLimiter({"cluster": rate})
        everybody = range(waiting + rate.burst)
        self._due = [(0.0, number, True) for number in everybody]  # when, who, asks or has gone
        while self._due:
            now, number, asks = heappop(self._due)
            if not asks:
                self._budgets.release(WEB, now, consumed=True)
                continue
            self.asked += 1
            if refusal := self._budgets.reserve(WEB, now):
                heappush(self._due, (refusal.available_at, number, True))
            else:
                self.went.append((now, number))
                heappush(self._due, (now + took_s(number), number, False))


def took(longest_s: float) -> st.SearchStrategy[list[float]]:
    return st.lists(st.floats(0, longest_s), min_size=16, max_size=16)


@given(st.integers(1, 12), st.integers(1, 4), took(0.5))
def test_who_waits_goes_in_turn_though_evictions_take_a_moment(
    waiting: int, burst: int, took_s: list[float]
) -> None:
    queue = Queue(TokenRate(0.1, burst), waiting, took_s.__getitem__)

    assert [number for _, number in queue.went] == list(range(waiting + burst))


@pytest.mark.parametrize(
    ("rate", "waiting", "took_s"),
    [
        pytest.param(TokenRate(0.5, 10), 500, 30, id="slow evictions"),
        pytest.param(TokenRate(10, 5), 1000, 1, id="a fast pace"),
        pytest.param(TokenRate(10, 10), 1000, 5, id="a fast pace and slow evictions"),
    ],
)
def test_nobody_comes_back_again_and_again_while_tokens_are_held(
    rate: TokenRate, waiting: int, took_s: float
) -> None:
    queue = Queue(rate, waiting, lambda _: took_s)

    assert len(queue.went) == waiting + rate.burst
    end_s = queue.went[-1][0]
    assert queue.asked <= waiting * (2 + end_s / MAX_WAIT_S) + 2 * end_s * rate.per_second


def test_a_promise_nobody_comes_for_is_not_kept_for_ever() -> None:
    budgets = EvictionRateLimiter({"cluster": TokenRate(1, 1)})
    evict(budgets, WEB, 0)
    for _ in range(3):
        budgets.reserve(WEB, 0)  # told 1, 2 and 3, and given up

    assert evict(budgets, WEB, 10) is None
    assert evict(budgets, WEB, 10) == BucketEmpty("cluster", 11.0)
    assert evict(budgets, WEB, 10) == BucketEmpty("cluster", 12.0)


def test_tokens_that_are_held_cannot_be_held_twice() -> None:
    budgets = EvictionRateLimiter({"cluster": TokenRate(1, 2)})
    budgets.reserve(WEB, 0)
    budgets.reserve(WEB, 0)

    assert isinstance(budgets.reserve(WEB, 100), BucketEmpty)


def test_a_token_that_was_not_spent_can_be_held_again() -> None:
    budgets = EvictionRateLimiter({"cluster": TokenRate(0.001, 1)})
    budgets.reserve(WEB, 0)
    budgets.release(WEB, 0, consumed=False)

    assert budgets.reserve(WEB, 0) is None
    assert isinstance(budgets.reserve(WEB, 0), BucketEmpty)


def test_tokens_that_come_back_late_do_not_add_up_to_more_than_the_burst() -> None:
    budgets = EvictionRateLimiter({"cluster": TokenRate(0.5, 2)})
    slow = [pod("a", on="n1"), pod("b", on="n1")]
    for one in slow:
        assert budgets.reserve(one, 0) is None
    for one in slow:
        budgets.release(one, 100, consumed=False)

    assert [evict(budgets, WEB, 100) for _ in range(3)] == [
        None,
        None,
        BucketEmpty("cluster", 102.0),
    ]


def test_a_token_is_spent_when_the_eviction_ends_not_when_it_was_decided() -> None:
    budgets = EvictionRateLimiter({"cluster": TokenRate(0.5, 2)})
    budgets.reserve(WEB, 0)
    budgets.release(WEB, 100, consumed=True)

    assert budgets.min_available(100) == {"cluster": 1.0}


def test_a_scope_without_a_rate_is_unlimited() -> None:
    budgets = EvictionRateLimiter({"cluster": None})

    assert all(evict(budgets, WEB, 0) is None for _ in range(1000))
    assert budgets.min_available(0) == {}


def test_the_lowest_level_of_a_scope_is_that_of_its_emptiest_bucket() -> None:
    budgets = EvictionRateLimiter({"cluster": TokenRate(1, 5), "node": TokenRate(1, 3)})
    for one in (pod("a", on="n1"), pod("b", on="n1"), pod("c", on="n2")):
        budgets.reserve(one, 0)
    budgets.release(pod("a", on="n1"), 0, consumed=True)

    assert budgets.min_available(0) == {"cluster": 2.0, "node": 1.0}
    assert budgets.min_available(1) == {"cluster": 3.0, "node": 2.0}
    assert sorted(budgets.available(1)) == [
        ("cluster", "", 3.0),
        ("node", "n1", 2.0),
        ("node", "n2", 2.0),
    ]


def test_full_buckets_are_dropped_at_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets_module, "MAX_BUCKETS", 10)
    budgets = EvictionRateLimiter({"node": TokenRate(1, 1)})
    for number in range(100):
        evict(budgets, pod("web", on=f"n{number}"), now=number * 10)

    assert len(list(budgets.available(1000))) <= 10


def test_a_bucket_with_a_token_held_or_promised_outlives_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(budgets_module, "MAX_BUCKETS", 2)
    budgets = EvictionRateLimiter({"node": TokenRate(1, 1)})
    budgets.reserve(pod("held", on="n1"), 0)
    evict(budgets, pod("x", on="n2"), 0)
    for _ in range(30):
        budgets.reserve(pod("promised", on="n2"), 0)
    for number in range(3, 9):
        evict(budgets, pod("x", on=f"n{number}"), 10)

    assert {"n1", "n2"} <= {name for _, name, _ in budgets.available(10)}


moves = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(["hold", "hold", "spend", "free"])), max_size=60
)


@given(moves, st.integers(1, 4))
def test_never_more_than_burst_plus_rate_times_time_however_long_each_takes(
    moves: list[tuple[int, str]], burst: int
) -> None:
    budgets = EvictionRateLimiter({"cluster": TokenRate(0.25, burst)})
    now, held, asked, ended = 0, [], [], []
    for pause, move in moves:
        now += pause
        if move == "hold" and budgets.reserve(WEB, now) is None:
            held.append(now)
        elif move != "hold" and held:
            began = held.pop()
            budgets.release(WEB, now, consumed=move == "spend")
            asked += [began] if move == "spend" else []
            ended += [now] if move == "spend" else []
    for times in (sorted(asked + held), ended):
        for start, earlier in enumerate(times):
            for end, later in enumerate(times[start:], start):
                assert end - start + 1 <= burst + (later - earlier) * 0.25 + 1e-6


def spent(budgets: EvictionRateLimiter, what: Pod, now: float) -> int:
    """Evict as often as the tokens allow at this moment."""
    count = 0
    while evict(budgets, what, now) is None:
        count += 1
    return count


def test_the_same_rates_adopted_again_grant_nothing() -> None:
    rates = {"cluster": TokenRate(1, 3), "node": TokenRate(1, 2)}
    budgets = EvictionRateLimiter(rates)
    assert spent(budgets, WEB, 0) == 2
    budgets.reconfigure(rates, [], 0)

    assert evict(budgets, WEB, 0) == BucketEmpty("node n1", 1.0)
    assert spent(budgets, pod("x", on="n2"), 0) == 1


def test_a_larger_burst_adds_the_difference_and_going_to_and_fro_adds_nothing() -> None:
    small, large = {"cluster": TokenRate(0.5, 2)}, {"cluster": TokenRate(0.5, 5)}
    budgets = EvictionRateLimiter(small)
    assert spent(budgets, WEB, 0) == 2
    budgets.reconfigure(large, [], 0)
    assert spent(budgets, WEB, 0) == 3

    budgets.reconfigure(small, [], 0)
    budgets.reconfigure(large, [], 0)
    assert spent(budgets, WEB, 0) == 0
    budgets.reconfigure(small, [], 0)
    assert evict(budgets, WEB, 0) == BucketEmpty("cluster", 8.0)


def test_time_before_a_new_rate_refills_at_the_old_one() -> None:
    budgets = EvictionRateLimiter({"cluster": TokenRate(1, 4)})
    assert spent(budgets, WEB, 0) == 4
    budgets.reconfigure({"cluster": TokenRate(0.1, 4)}, [], 2)

    assert spent(budgets, WEB, 2) == 2
    assert evict(budgets, WEB, 3) is not None


def test_evictions_under_way_hold_tokens_of_the_new_scopes() -> None:
    budgets = EvictionRateLimiter({"cluster": TokenRate(0.001, 5)})
    assert budgets.reserve(WEB, 0) is None
    budgets.reconfigure({"node": TokenRate(0.001, 1)}, [WEB], 0)
    assert budgets.reserve(WEB, 0) is not None

    budgets.release(WEB, 0, consumed=False)
    assert budgets.reserve(WEB, 0) is None


def test_a_scope_that_becomes_unlimited_asks_nobody_any_more() -> None:
    budgets = EvictionRateLimiter({"cluster": TokenRate(0.001, 1), "node": TokenRate(1, 9)})
    evict(budgets, WEB, 0)
    budgets.reconfigure({"cluster": None, "node": TokenRate(1, 9)}, [], 0)

    assert evict(budgets, WEB, 0) is None
    assert budgets.min_available(0) == {"node": 7.0}


def test_those_who_wait_after_new_rates_stand_in_a_new_queue() -> None:
    budgets = EvictionRateLimiter({"cluster": TokenRate(1, 1)})
    evict(budgets, WEB, 0)
    for _ in range(9):
        budgets.reserve(WEB, 0)
    budgets.reconfigure({"cluster": TokenRate(1, 1)}, [], 0)

    assert budgets.reserve(WEB, 0) == BucketEmpty("cluster", 1.0)
