from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.gate import scope_buckets
from reactive_desched.gate.rate_limits import (
    BucketEmpty,
    EvictionRateLimiter,
    TokenRate,
)
from reactive_desched.ledger.eviction import SCOPES, EvictionScopes
from reactive_desched.model.findings import Finding
from reactive_desched.model.history import PastEviction
from reactive_desched.policy.settings.limits import EvictionRateLimits, WarmUpSettings
from reactive_desched.primitives.token_bucket import MAX_WAIT_S
from reactive_desched.testing.builders import pod
from tests.support.configurations import make_rate_limits
from tests.support.evictions import finish, restore, take, under_way
from tests.support.golden import Golden
from tests.support.limits import make_rate_limiter, name_scopes


def finding(
    name: str, on: str, namespace: str = "default", owner: str = "web", plugin: str = "Test"
) -> Finding:
    """Make a finding on a pod of an owner."""
    made = pod(name, on=on, namespace=namespace, owner=f"ReplicaSet/{owner}")
    return Finding(made, plugin, "why")


def limiter(
    rates: Mapping[str, TokenRate | None], nodes: int = 3, **more: Any
) -> EvictionRateLimiter:  # `more`: as make_rate_limits takes it
    return make_rate_limiter(rates, lambda: nodes, **more)


def empty(refusal: BucketEmpty | None) -> tuple[str, str, float] | None:
    """Return which bucket is empty, and until when."""
    return None if refusal is None else (refusal.scope, refusal.name, refusal.available_at)


WEB = finding("web", on="n1")


def evict(budgets: EvictionRateLimiter, what: Finding, now: float) -> BucketEmpty | None:
    """Ask for tokens and spend them at once."""
    refusal = take(budgets, what, now)
    if refusal is None:
        finish(budgets, what.pod.uid, now, evicted=True)
    return refusal


def pods_of(number: int) -> list[Finding]:
    return [finding(f"w{each}", on="n1") for each in range(number)]


def test_a_burst_goes_at_once_and_then_the_rate_rules() -> None:
    budgets = limiter({"cluster": TokenRate(0.5, 2)})

    assert [evict(budgets, WEB, 0) for _ in range(2)] == [None, None]
    assert empty(evict(budgets, WEB, 0)) == ("cluster", "cluster", 2.0)
    assert evict(budgets, WEB, 1.9) is not None
    assert evict(budgets, WEB, 2) is None


@pytest.mark.parametrize(
    ("scope", "named", "other"),
    [
        pytest.param("zone", "n", finding("x", on="m1"), id="zone"),
        pytest.param("node", "n1", finding("x", on="n2"), id="node"),
        pytest.param("namespace", "default", finding("x", on="n1", namespace="a"), id="namespace"),
        pytest.param("owner", "web", finding("x", on="n1", owner="db"), id="owner"),
        pytest.param("plugin", "Test", finding("x", on="n1", plugin="Other"), id="plugin"),
    ],
)
def test_each_name_of_a_scope_has_its_own_bucket_which_the_refusal_names(
    scope: str, named: str, other: Finding
) -> None:
    budgets = limiter({scope: TokenRate(1, 1)})
    evict(budgets, WEB, 0)

    assert empty(evict(budgets, WEB, 0)) == (scope, named, 1.0)
    assert evict(budgets, other, 0) is None


def test_a_refusal_says_the_limit_its_use_and_the_earliest_time(golden: Golden) -> None:
    budgets = limiter({"node": TokenRate(0.1, 3)})
    evict(budgets, finding("a", on="n1"), 0)
    evict(budgets, finding("b", on="n1"), 0)
    take(budgets, finding("c", on="n1"), 0)

    refusal = take(budgets, WEB, 5)

    assert refusal is not None
    assert refusal.turn.message(5) == golden()


def test_of_several_empty_buckets_the_one_that_is_empty_for_longest_says_when() -> None:
    budgets = limiter({"cluster": TokenRate(1, 1), "owner": TokenRate(0.1, 1)})
    evict(budgets, WEB, 0)

    assert empty(take(budgets, WEB, 0)) == ("owner", "web", 10.0)
    assert empty(take(budgets, finding("x", on="n1", owner="db"), 0)) == (
        *("cluster", "cluster"),
        1.0,
    )


def test_in_a_storm_the_cluster_refuses_at_once_and_goes_by_the_others_when_it_has_room() -> None:
    budgets = limiter({"cluster": TokenRate(1, 1), "owner": TokenRate(0.001, 1)})
    evict(budgets, WEB, 0)
    others = [finding(f"p{number}", on="n1", owner=f"o{number}") for number in range(60)]
    assert [take(budgets, other, 0) for other in others].count(None) == 0

    assert empty(take(budgets, WEB, 0)) == ("cluster", "cluster", MAX_WAIT_S)
    assert empty(take(budgets, WEB, 30)) == ("owner", "web", 1000.0)


def test_a_pod_without_a_zone_or_an_owner_is_limited_by_the_other_scopes_alone() -> None:
    rates = {"zone": TokenRate(1, 1), "owner": TokenRate(1, 1), "node": TokenRate(1, 2)}
    names = ("cluster", "", "n1", "default", "", "Test")
    budgets = EvictionRateLimiter(
        make_rate_limits(rates), lambda _: EvictionScopes(*names), lambda: 3
    )
    evict(budgets, WEB, 0)

    assert evict(budgets, WEB, 0) is None
    assert empty(evict(budgets, WEB, 0)) == ("node", "n1", 1.0)


def test_all_scopes_agree_or_none_pays() -> None:
    budgets = limiter({"cluster": TokenRate(0.001, 2), "node": TokenRate(0.001, 1)})
    evict(budgets, finding("a", on="n1"), 0)
    assert evict(budgets, finding("b", on="n1"), 0) is not None

    assert evict(budgets, finding("c", on="n2"), 0) is None
    assert empty(evict(budgets, finding("d", on="n3"), 0)) == ("cluster", "cluster", 1000.0)


def test_waiting_pods_are_given_different_times() -> None:
    budgets = limiter({"cluster": TokenRate(1, 1)})
    evict(budgets, WEB, 0)

    refusals = [empty(take(budgets, each, 0)) for each in pods_of(3)]

    assert refusals == [("cluster", "cluster", at) for at in (1.0, 2.0, 3.0)]


def test_a_pod_that_asks_again_keeps_its_place() -> None:
    budgets = limiter({"cluster": TokenRate(1, 1)})
    evict(budgets, WEB, 0)
    first, second, third = pods_of(3)
    for each in (first, second, second, third):
        take(budgets, each, 0)

    assert empty(take(budgets, second, 0.5)) == ("cluster", "cluster", 2.0)
    assert empty(take(budgets, third, 0.5)) == ("cluster", "cluster", 3.0)


def test_no_pod_waits_long_behind_those_that_asked_before() -> None:
    budgets = limiter({"cluster": TokenRate(1, 1)})
    evict(budgets, WEB, 0)
    for each in pods_of(1000):
        take(budgets, each, 0)

    assert empty(take(budgets, WEB, 0)) == ("cluster", "cluster", MAX_WAIT_S)


def test_a_token_that_takes_longer_than_the_longest_promise_is_promised_for_its_time() -> None:
    budgets = limiter({"cluster": TokenRate(0.001, 1)})
    evict(budgets, WEB, 0)

    refusals = [empty(take(budgets, WEB, 0)) for _ in range(2)]
    assert refusals == [("cluster", "cluster", 1000.0)] * 2


def test_rounding_rejects_no_request_at_the_promised_time() -> None:
    budgets = limiter({"cluster": TokenRate(0.3, 1)})
    now = 0.1
    for _ in range(1000):
        assert evict(budgets, WEB, now) is None
        refusal = take(budgets, WEB, now)
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
        self._budgets = limiter({"cluster": rate})
        everybody = range(waiting + rate.burst)
        self._due = [(0.0, number, True) for number in everybody]  # when, who, asks or has gone
        while self._due:
            now, number, asks = heappop(self._due)
            if not asks:
                finish(self._budgets, f"p{number}", now, evicted=True)
                continue
            self.asked += 1
            if refusal := take(self._budgets, finding(f"p{number}", on="n1"), now):
                heappush(self._due, (refusal.available_at, number, True))
            else:
                self.went.append((now, number))
                heappush(self._due, (now + took_s(number), number, False))


def took(longest_s: float) -> st.SearchStrategy[list[float]]:
    return st.lists(st.floats(0, longest_s), min_size=16, max_size=16)


@given(st.integers(1, 12), st.integers(1, 4), took(0.5))
def test_waiting_pods_leave_in_turn_though_evictions_take_a_moment(
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
def test_no_pod_comes_back_again_and_again_while_tokens_are_held(
    rate: TokenRate, waiting: int, took_s: float
) -> None:
    queue = Queue(rate, waiting, lambda _: took_s)

    assert len(queue.went) == waiting + rate.burst
    end_s = queue.went[-1][0]
    assert queue.asked <= waiting * (2 + end_s / MAX_WAIT_S) + 2 * end_s * rate.per_second


def test_an_unused_promise_is_not_kept_for_ever() -> None:
    budgets = limiter({"cluster": TokenRate(1, 1)})
    evict(budgets, WEB, 0)
    for each in pods_of(3):
        take(budgets, each, 0)  # to come at 1, 2 and 3, and given up
    others = [finding(name, on="n1") for name in ("x", "y", "z")]

    assert evict(budgets, others[0], 10) is None
    assert empty(evict(budgets, others[1], 10)) == ("cluster", "cluster", 11.0)
    assert empty(evict(budgets, others[2], 10)) == ("cluster", "cluster", 12.0)


def test_tokens_that_are_held_cannot_be_held_twice() -> None:
    budgets = limiter({"cluster": TokenRate(1, 2)})
    take(budgets, finding("a", on="n1"), 0)
    take(budgets, finding("b", on="n1"), 0)

    assert isinstance(take(budgets, WEB, 100), BucketEmpty)


def test_a_token_that_was_not_spent_can_be_held_again() -> None:
    budgets = limiter({"cluster": TokenRate(0.001, 1)})
    take(budgets, WEB, 0)
    finish(budgets, "web", 0, evicted=False)

    assert take(budgets, WEB, 0) is None
    assert isinstance(take(budgets, WEB, 0), BucketEmpty)


def test_tokens_that_come_back_late_do_not_add_up_to_more_than_the_burst() -> None:
    budgets = limiter({"cluster": TokenRate(0.5, 2)})
    slow = [finding("a", on="n1"), finding("b", on="n1")]
    for one in slow:
        assert take(budgets, one, 0) is None
    for one in slow:
        finish(budgets, one.pod.uid, 100, evicted=False)

    assert [evict(budgets, WEB, 100) for _ in range(2)] == [None, None]
    assert empty(evict(budgets, WEB, 100)) == ("cluster", "cluster", 102.0)


def test_a_token_is_spent_when_the_eviction_ends_not_when_it_was_decided() -> None:
    budgets = limiter({"cluster": TokenRate(0.5, 2)})
    take(budgets, WEB, 0)
    finish(budgets, "web", 100, evicted=True)

    assert budgets.min_available(100) == {"cluster": 1.0}


def test_a_scope_without_a_rate_is_unlimited() -> None:
    budgets = limiter({"cluster": None})

    assert all(evict(budgets, WEB, 0) is None for _ in range(1000))
    assert budgets.min_available(0) == {}


def test_the_lowest_level_of_a_scope_is_that_of_its_emptiest_bucket() -> None:
    budgets = limiter({"cluster": TokenRate(1, 5), "node": TokenRate(1, 3)})
    for one in (finding("a", on="n1"), finding("b", on="n1"), finding("c", on="n2")):
        take(budgets, one, 0)
    finish(budgets, "a", 0, evicted=True)

    assert budgets.min_available(0) == {"cluster": 2.0, "node": 1.0}
    assert budgets.min_available(1) == {"cluster": 3.0, "node": 2.0}
    assert sorted(budgets.available(1)) == [
        ("cluster", "cluster", 3.0, 2),
        ("node", "n1", 2.0, 1),
        ("node", "n2", 2.0, 1),
    ]


def test_full_buckets_are_dropped_at_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scope_buckets, "SWEEP_SIZE", 10)
    budgets = limiter({"node": TokenRate(1, 1)})
    for number in range(100):
        evict(budgets, finding("web", on=f"n{number}"), now=number * 10)

    assert len(list(budgets.available(1000))) <= 10


def test_a_bucket_with_a_token_held_outlives_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scope_buckets, "SWEEP_SIZE", 2)
    budgets = limiter({"node": TokenRate(1, 1)})
    take(budgets, finding("held", on="n1"), 0)
    for number in range(3, 9):
        evict(budgets, finding("x", on=f"n{number}"), 10)

    assert "n1" in {name for _, name, *_ in budgets.available(10)}


moves = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(["hold", "hold", "spend", "free"])), max_size=60
)


@given(moves, st.integers(1, 4))
def test_never_more_than_burst_plus_rate_times_time_however_long_each_takes(
    moves: list[tuple[int, str]], burst: int
) -> None:
    budgets = limiter({"cluster": TokenRate(0.25, burst)})
    now = 0
    held: list[tuple[int, str]] = []
    asked: list[int] = []
    ended: list[int] = []
    for number, (pause, move) in enumerate(moves):
        now += pause
        if move == "hold" and take(budgets, finding(f"p{number}", on="n1"), now) is None:
            held.append((now, f"p{number}"))
        elif move != "hold" and held:
            began, uid = held.pop()
            finish(budgets, uid, now, evicted=move == "spend")
            asked += [began] if move == "spend" else []
            ended += [now] if move == "spend" else []
    for times in (sorted([*asked, *(began for began, _ in held)]), ended):
        for start, earlier in enumerate(times):
            for end, later in enumerate(times[start:], start):
                assert end - start + 1 <= burst + (later - earlier) * 0.25 + 1e-6


def spent(budgets: EvictionRateLimiter, what: Finding, now: float) -> int:
    """Evict as often as the tokens allow at this moment."""
    count = 0
    while evict(budgets, what, now) is None:
        count += 1
    return count


def test_the_same_rates_adopted_again_grant_nothing() -> None:
    rates = {"cluster": TokenRate(1, 3), "node": TokenRate(1, 2)}
    budgets = limiter(rates)
    assert spent(budgets, WEB, 0) == 2
    budgets.reconfigure(make_rate_limits(rates), 0, under_way(budgets))

    assert empty(evict(budgets, WEB, 0)) == ("node", "n1", 1.0)
    assert spent(budgets, finding("x", on="n2"), 0) == 1


def test_a_larger_burst_adds_the_difference_and_going_to_and_fro_adds_nothing() -> None:
    small, large = {"cluster": TokenRate(0.5, 2)}, {"cluster": TokenRate(0.5, 5)}
    budgets = limiter(small)
    assert spent(budgets, WEB, 0) == 2
    budgets.reconfigure(make_rate_limits(large), 0, under_way(budgets))
    assert spent(budgets, WEB, 0) == 3

    budgets.reconfigure(make_rate_limits(small), 0, under_way(budgets))
    budgets.reconfigure(make_rate_limits(large), 0, under_way(budgets))
    assert spent(budgets, WEB, 0) == 0
    budgets.reconfigure(make_rate_limits(small), 0, under_way(budgets))
    assert empty(evict(budgets, WEB, 0)) == ("cluster", "cluster", 8.0)


def test_time_before_a_new_rate_refills_at_the_old_one() -> None:
    budgets = limiter({"cluster": TokenRate(1, 4)})
    assert spent(budgets, WEB, 0) == 4
    budgets.reconfigure(make_rate_limits({"cluster": TokenRate(0.1, 4)}), 2, under_way(budgets))

    assert spent(budgets, WEB, 2) == 2
    assert evict(budgets, WEB, 3) is not None


def test_evictions_under_way_hold_tokens_of_the_new_scopes() -> None:
    budgets = limiter({"cluster": TokenRate(0.001, 5)})
    assert take(budgets, WEB, 0) is None
    budgets.reconfigure(make_rate_limits({"node": TokenRate(0.001, 1)}), 0, under_way(budgets))
    assert take(budgets, WEB, 0) is not None

    finish(budgets, "web", 0, evicted=False)
    assert take(budgets, WEB, 0) is None


def test_a_scope_that_becomes_unlimited_limits_no_pod_any_more() -> None:
    budgets = limiter({"cluster": TokenRate(0.001, 1), "node": TokenRate(1, 9)})
    evict(budgets, WEB, 0)
    budgets.reconfigure(
        make_rate_limits({"cluster": None, "node": TokenRate(1, 9)}), 0, under_way(budgets)
    )

    assert evict(budgets, WEB, 0) is None
    assert budgets.min_available(0) == {"node": 7.0}


def test_those_that_wait_after_new_rates_are_in_a_new_queue() -> None:
    budgets = limiter({"cluster": TokenRate(1, 1)})
    evict(budgets, WEB, 0)
    for _ in range(9):
        take(budgets, WEB, 0)
    budgets.reconfigure(make_rate_limits({"cluster": TokenRate(1, 1)}), 0, under_way(budgets))

    assert empty(take(budgets, WEB, 0)) == ("cluster", "cluster", 1.0)


def test_the_rates_of_the_wide_scopes_grow_with_a_cluster_above_the_size_that_is_set() -> None:
    rates = dict.fromkeys(SCOPES, TokenRate(1, 4))
    limits = EvictionRateLimits()
    assert limits.growing_scopes == {"cluster", "zone", "namespace", "plugin", "ended"}
    sizes = {nodes: limits.growth(nodes) for nodes in (0, 50, 1500, 3000, 5000)}
    assert sizes == {0: 1, 50: 1, 1500: 1, 3000: 2, 5000: pytest.approx(3.33, abs=0.01)}

    nodes = [1000]
    grown = make_rate_limits(rates, grows_above_nodes=1000, grows=("cluster", "zone"))
    budgets = EvictionRateLimiter(grown, name_scopes, lambda: nodes[0])
    assert set(budgets.rates(0).values()) == {TokenRate(1, 4)}
    nodes[0] = 2500

    assert budgets.rates(1) == {
        **rates,
        "cluster": TokenRate(2.5, 10),
        "zone": TokenRate(2.5, 10),
    }


def test_a_scope_that_the_settings_name_does_not_grow() -> None:
    limits = EvictionRateLimits.model_validate({"cluster": {"burst": 3}, "growsAboveNodes": 10})

    assert limits.growing_scopes == {"zone", "namespace", "plugin", "ended"}
    assert EvictionRateLimits.model_validate({"growsAboveNodes": None}).growth(9000) == 1


def test_rates_begin_low_and_are_full_after_the_warm_up() -> None:
    warm_up = WarmUpSettings(duration_s=120, from_percent=20)
    budgets = limiter({"cluster": TokenRate(1, 10), "node": TokenRate(1, 3)}, warm_up=warm_up)
    budgets.begin_warm_up(1000)

    assert budgets.rates(1000)["node"] == TokenRate(0.2, 1)
    at = (1000, 1030, 1031.9, 1090, 1120)
    assert [budgets.rates(now)["cluster"] for now in at] == [
        TokenRate(0.2, 2),
        TokenRate(0.4, 4),
        TokenRate(0.4, 4),
        TokenRate(0.8, 8),
        TokenRate(1, 10),
    ]


def test_in_the_warm_up_a_refusal_says_so_and_growing_bursts_give_no_tokens_at_once(
    golden: Golden,
) -> None:
    warm_up = WarmUpSettings(duration_s=100, from_percent=20)
    budgets = limiter({"cluster": TokenRate(1, 10)}, warm_up=warm_up)
    budgets.begin_warm_up(0)
    assert spent(budgets, WEB, 0) == 2

    refusal = take(budgets, WEB, 0)

    assert refusal is not None
    assert golden() in refusal.turn.message(0)
    assert spent(budgets, WEB, 100) <= 2 + 1 + 100 * 0.6
    assert spent(budgets, WEB, 200) == 10


def test_a_warm_up_that_begins_anew_takes_no_tokens_twice_and_gives_none_back() -> None:
    warm_up = WarmUpSettings(duration_s=100, from_percent=20)
    budgets = limiter({"cluster": TokenRate(0.1, 10)}, warm_up=warm_up)
    assert [evict(budgets, WEB, 0) for _ in range(10)] == [None] * 10
    budgets.begin_warm_up(0)
    assert budgets.min_available(0) == {"cluster": 0}
    assert budgets.rates(0)["cluster"].burst == 2

    budgets = limiter({"cluster": TokenRate(0.1, 10)}, warm_up=warm_up)
    assert spent(budgets, WEB, 0) == 10
    budgets.begin_warm_up(100)
    assert spent(budgets, WEB, 100) == 2


@given(st.lists(st.integers(0, 30), max_size=40), st.lists(st.integers(0, 300), max_size=4))
def test_a_warm_up_never_lets_more_go_than_without_it(pauses: list[int], begins: list[int]) -> None:
    warm_up = WarmUpSettings(duration_s=60, from_percent=10)
    budgets, went, now = limiter({"cluster": TokenRate(0.25, 4)}, warm_up=warm_up), [], 0
    budgets.begin_warm_up(0)
    for pause in pauses:
        now += pause
        for _ in [at for at in begins if now - pause < at <= now]:
            budgets.begin_warm_up(now)
        went += [now] * spent(budgets, WEB, now)
    for start, earlier in enumerate(went):
        for end, later in enumerate(went[start:], start):
            assert end - start + 1 <= 4 + (later - earlier) * 0.25 + 1e-6


WORLD = [finding(name, on=name[:2]) for name in ("a1", "a2", "b1", "b2")]


def look(budgets: EvictionRateLimiter, one: Finding, now: float) -> None:
    """Ask all that a status, a metric or a page asks."""
    budgets.peek(one, now)
    budgets.rates(now)
    budgets.warm_up_ratio_at(now)
    budgets.min_available(now)
    list(budgets.collect(now))
    for _ in budgets.foresee([(one, now)], now):
        pass


@given(
    warm_up=st.builds(
        WarmUpSettings, duration_s=st.integers(1, 90), from_percent=st.integers(1, 100)
    ),
    rates=st.fixed_dictionaries(
        {
            scope: st.builds(TokenRate, st.sampled_from([0.05, 0.3, 1.0, 7.0]), st.integers(1, 12))
            for scope in ("cluster", "zone", "node")
        }
    ),
    decisions=st.lists(st.tuples(st.floats(0, 40), st.sampled_from(WORLD)), max_size=12),
    looks=st.lists(st.tuples(st.floats(0, 150), st.sampled_from(WORLD)), max_size=40),
    warms_again_at=st.none() | st.floats(0, 150),
    start=st.sampled_from(["full", "empty"]),
)
def test_looks_change_no_decision_however_the_rates_warm_up(
    warm_up: WarmUpSettings,
    rates: dict[str, TokenRate],
    decisions: list[tuple[float, Finding]],
    looks: list[tuple[float, Finding]],
    warms_again_at: float | None,
    start: str,
) -> None:
    seen, unseen = limiter(rates, warm_up=warm_up), limiter(rates, warm_up=warm_up)
    steps: list[tuple[float, int, Finding | None]] = [(at, 0, one) for at, one in looks]
    if warms_again_at is not None:
        steps.append((warms_again_at, 1, None))
    now = 0.0
    for pause, one in decisions:
        now += pause
        steps.append((now, 2, one))
    for budgets in (seen, unseen):
        budgets.begin_warm_up(0)
        if start == "empty":
            budgets.begin_empty(0)
    for at, kind, each in sorted(steps, key=lambda step: step[:2]):
        if kind == 0 and each is not None:
            look(seen, each, at)
        elif each is None:
            seen.begin_warm_up(at)
            unseen.begin_warm_up(at)
        else:
            assert spent(seen, each, at) == spent(unseen, each, at)
            assert empty(take(seen, each, at)) == empty(take(unseen, each, at))


def test_a_bucket_fills_through_the_steps_of_the_warm_up_whatever_was_asked_before() -> None:
    warm_up = WarmUpSettings(duration_s=60, from_percent=10)
    rates = {"cluster": TokenRate(0.5, 100)}
    asked, unasked = limiter(rates, warm_up=warm_up), limiter(rates, warm_up=warm_up)
    for budgets in (asked, unasked):
        budgets.begin_warm_up(0)
        assert spent(budgets, WEB, 0) == 10
    for tick in range(6000):
        look(asked, WEB, tick / 100)

    assert asked.min_available(60) == unasked.min_available(60)
    steps = sum(0.5 * warm_up.ratio(second) for second in range(60))
    assert unasked.min_available(60)["cluster"] == pytest.approx(steps)
    assert spent(asked, WEB, 60) == spent(unasked, WEB, 60) == int(steps)


def test_a_look_takes_no_size_of_the_cluster_that_a_decision_would_not_have_seen() -> None:
    grown = make_rate_limits(
        {"cluster": TokenRate(1, 4)}, grows_above_nodes=1000, grows=("cluster",)
    )
    nodes = [1000]
    seen = EvictionRateLimiter(grown, name_scopes, lambda: nodes[0])
    unseen = EvictionRateLimiter(grown, name_scopes, lambda: nodes[0])
    for budgets in (seen, unseen):
        assert spent(budgets, WEB, 0) == 4
    nodes[0] = 3000
    look(seen, WEB, 2)
    nodes[0] = 1000

    assert spent(seen, WEB, 3) == spent(unseen, WEB, 3) == 3


def test_a_warm_up_of_buckets_that_were_full_before_it_leaves_their_short_burst() -> None:
    warm_up = WarmUpSettings(duration_s=60, from_percent=10)
    budgets = limiter({"cluster": TokenRate(0.05, 10)}, warm_up=warm_up)
    assert spent(budgets, WEB, 0) == 10
    budgets.begin_warm_up(1000)

    assert spent(budgets, WEB, 1060) == 1 + int(sum(0.05 * warm_up.ratio(s) for s in range(60)))


def test_buckets_that_begin_empty_fill_at_their_rates_also_those_that_are_made_later() -> None:
    budgets = limiter({"cluster": TokenRate(1, 10), "node": TokenRate(0.1, 3)})
    budgets.begin_empty(100)

    assert empty(budgets.peek(WEB, 100)) == ("node", "n1", 110)
    assert empty(take(budgets, WEB, 100)) == ("node", "n1", 110)
    assert budgets.min_available(104) == {"cluster": 4, "node": pytest.approx(0.4)}
    assert spent(budgets, WEB, 111) == 1
    assert spent(budgets, finding("api", on="n2"), 121) == 2
    assert spent(budgets, finding("db", on="n3"), 300) == 3


def test_what_a_journal_says_of_earlier_evictions_fills_no_bucket_that_begins_empty() -> None:
    past = PastEviction("", 10.0, "a", "default", "a", "n1", ended_s=10.0, result="evicted")
    budgets = limiter({"cluster": TokenRate(0.1, 10)})
    budgets.begin_empty(1000)
    restore(budgets, [past], 1001, 1001)
    budgets.begin_restored()

    assert spent(budgets, WEB, 1005) == 0
    assert spent(budgets, WEB, 1021) == 2


def test_metrics_have_tokens_rates_and_refusals_of_each_scope_and_the_warm_up() -> None:
    warm_up = WarmUpSettings(duration_s=100, from_percent=20)
    budgets = limiter({"cluster": TokenRate(1, 10), "node": TokenRate(1, 20)}, warm_up=warm_up)
    budgets.begin_warm_up(0)
    spent(budgets, WEB, 0)

    found = {metric.family.name: metric.samples for metric in budgets.collect(0)}

    assert found["tokens_available"] == {("cluster",): 0, ("node",): 2}
    assert found["eviction_rate_limit_per_minute"] == {("cluster",): 12, ("node",): 12}
    assert found["rate_limited"][("cluster",)] == 1
    assert found["rate_limited"][("owner",)] == 0
    assert found["warm_up_ratio"] == {(): pytest.approx(0.2)}
