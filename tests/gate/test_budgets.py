import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.gate import budgets as budgets_module
from reactive_desched.gate.budgets import Budgets, Rate, Spent
from reactive_desched.model.objects import Pod
from reactive_desched.testing.builders import pod


def test_a_burst_goes_at_once_and_then_the_rate_rules() -> None:
    budgets = Budgets({"cluster": Rate(0.5, 2)})
    web = pod("web", on="n1")

    assert [budgets.take(web, 0) for _ in range(2)] == [None, None]
    assert budgets.take(web, 0) == Spent("cluster", 2.0)
    assert budgets.take(web, 2) is None


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
    budgets = Budgets({scope: Rate(1, 1)})
    web = pod("web", on="n1")
    budgets.take(web, 0)

    assert budgets.take(web, 0) == Spent(named, 1.0)
    assert budgets.take(other, 0) is None


def test_all_scopes_agree_or_none_pays() -> None:
    budgets = Budgets({"cluster": Rate(0.001, 2), "node": Rate(0.001, 1)})
    budgets.take(pod("a", on="n1"), 0)
    assert isinstance(budgets.take(pod("b", on="n1"), 0), Spent)

    assert budgets.take(pod("c", on="n2"), 0) is None


def test_those_who_wait_are_given_different_times() -> None:
    budgets = Budgets({"cluster": Rate(1, 1)})
    web = pod("web", on="n1")
    budgets.take(web, 0)

    refusals = [budgets.take(web, 0) for _ in range(3)]

    assert refusals == [Spent("cluster", 1.0), Spent("cluster", 2.0), Spent("cluster", 3.0)]


def test_a_token_given_back_can_be_taken_again_but_never_above_the_burst() -> None:
    budgets = Budgets({"cluster": Rate(0.001, 1)})
    web = pod("web", on="n1")
    budgets.take(web, 0)
    budgets.give_back(web, 0)
    budgets.give_back(web, 0)

    assert budgets.take(web, 0) is None
    assert isinstance(budgets.take(web, 0), Spent)


def test_a_scope_without_a_rate_is_unlimited() -> None:
    budgets = Budgets({"cluster": None})

    assert all(budgets.take(pod("web", on="n1"), 0) is None for _ in range(1000))


def test_full_buckets_are_dropped_at_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets_module, "KEPT_BUCKETS", 10)
    budgets = Budgets({"node": Rate(1, 1)})
    for number in range(100):
        budgets.take(pod("web", on=f"n{number}"), now=number * 10)

    assert len(list(budgets.levels(1000))) <= 10


@given(st.lists(st.integers(0, 5), max_size=60), st.integers(1, 4))
def test_never_more_than_burst_plus_rate_times_time(pauses: list[int], burst: int) -> None:
    budgets = Budgets({"cluster": Rate(0.25, burst)})
    taken: list[int] = []
    now = 0
    for pause in pauses:
        now += pause
        if budgets.take(pod("web", on="n1"), now) is None:
            taken.append(now)
    for start in taken:
        for end in taken:
            within = sum(start <= at <= end for at in taken)
            assert within <= burst + (end - start) * 0.25 + 1e-9 or end < start
