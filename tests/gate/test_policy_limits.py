from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.gate.policy_limits import PolicyLimits
from reactive_desched.model.decisions import Defer, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.wakes import WakeOnPod
from reactive_desched.testing.builders import pod
from tests.support.evictions import decide, finish, under_way
from tests.support.golden import Golden


def finding(name: str = "web", on: str = "n1", namespace: str = "default") -> Finding:
    return Finding(pod(name, on=on, namespace=namespace), "Test", "why")


def evict(windows: PolicyLimits, what: Finding, now: float) -> None:
    decide(windows, what)
    finish(windows, what.pod.uid, now, evicted=True)


def test_a_limit_holds_for_any_stretch_of_the_window(golden: Golden) -> None:
    windows = PolicyLimits({"cluster": 2}, window_s=300)
    evict(windows, finding(), 0)
    assert windows.check(finding(), 199) is None
    evict(windows, finding(), 200)

    decision = windows.check(finding(), 250)

    assert isinstance(decision, Defer)
    assert (decision.gate, decision.reason) == ("EvictionLimit", "TotalLimitReached")
    assert decision.setting == "maxNoOfPodsToEvictTotal"
    assert (decision.retry_at_s, decision.scope_exhausted) == (300, "cluster")
    assert decision.says(250) == golden()
    assert windows.check(finding(), 299.9) is not None
    assert windows.check(finding(), 300) is None


def test_the_second_oldest_must_leave_too_when_the_limit_was_overstepped() -> None:
    windows = PolicyLimits({"cluster": 1}, window_s=300)
    evict(windows, finding(), 0)
    evict(windows, finding(), 100)

    decision = windows.check(finding(), 150)

    assert isinstance(decision, Defer)
    assert decision.retry_at_s == 400


def test_an_eviction_under_way_counts_already_and_its_window_begins_at_its_end() -> None:
    windows = PolicyLimits({"cluster": 1}, window_s=300)
    decide(windows, finding())
    under_way = windows.check(finding("b"), 50)
    finish(windows, finding().pod.uid, 100, evicted=True)
    ended = windows.check(finding("b"), 350)

    assert isinstance(under_way, Defer)
    assert under_way.retry_at_s == 350
    assert isinstance(ended, Defer)
    assert ended.retry_at_s == 400


def test_an_eviction_that_did_not_happen_takes_no_other_ones_time_with_it() -> None:
    windows = PolicyLimits({"cluster": 2}, window_s=300)
    decide(windows, finding("a"))
    evict(windows, finding("b"), 200)
    finish(windows, finding("a").pod.uid, 250, evicted=False)
    evict(windows, finding("c"), 260)

    decision = windows.check(finding("d"), 450)

    assert isinstance(decision, Defer)
    assert decision.retry_at_s == 500


def test_an_eviction_that_did_not_happen_does_not_count() -> None:
    windows = PolicyLimits({"cluster": 1})
    decide(windows, finding())
    finish(windows, finding().pod.uid, 1, evicted=False)

    assert windows.check(finding(), 1) is None


def test_each_node_has_its_own_count() -> None:
    windows = PolicyLimits({"node": 1})
    evict(windows, finding(), 0)

    assert windows.check(finding(on="n2"), 0) is None
    decision = windows.check(finding(on="n1", namespace="bank"), 0)
    assert isinstance(decision, Defer)
    assert decision.reason == "NodeLimitReached"


def test_each_namespace_has_its_own_count() -> None:
    windows = PolicyLimits({"namespace": 1})
    evict(windows, finding(), 0)

    assert windows.check(finding(namespace="bank"), 0) is None
    decision = windows.check(finding(on="n2"), 0)
    assert isinstance(decision, Defer)
    assert decision.reason == "NamespaceLimitReached"
    assert decision.message.startswith("namespace default had 1 eviction ")


def test_a_limit_of_zero_forbids_until_the_pod_is_another() -> None:
    decision = PolicyLimits({"namespace": 0}).check(finding(), 0)

    assert isinstance(decision, Refuse)
    assert decision.reason == "NamespaceLimitReached"
    assert decision.scope_exhausted == "namespace"
    assert decision.wake_on == (WakeOnPod("web"),)


def test_no_limit_is_not_zero() -> None:
    assert PolicyLimits({"cluster": None}).check(finding(), 0) is None


def test_what_the_window_has_passed_is_forgotten_though_that_node_is_not_asked_for_again() -> None:
    windows = PolicyLimits({"node": 1}, window_s=10)
    for number in range(100):
        evict(windows, finding(on=f"n{number}"), number * 5)

    assert set(windows._counts._times) == {("node", "n98"), ("node", "n99")}
    assert not windows._counts._in_flight


moves = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from(["begin", "end", "fail"])), max_size=80
)


@given(moves, st.integers(1, 3))
def test_never_more_in_any_stretch_than_the_limit_however_long_each_takes(
    moves: list[tuple[int, str]], limit: int
) -> None:
    windows = PolicyLimits({"cluster": limit}, window_s=20)
    now = 0
    under_way: list[tuple[int, str]] = []
    happened: list[int] = []
    for number, (pause, move) in enumerate(moves):
        now += pause
        asking = finding(f"p{number}")
        if move == "begin" and windows.check(asking, now) is None:
            decide(windows, asking)
            under_way.append((now, asking.pod.uid))
        elif move != "begin" and under_way:
            asked, uid = under_way.pop()
            finish(windows, uid, now, evicted=move == "end")
            happened += [asked] if move == "end" else []
    happened = sorted(happened)
    assert all(b - a >= 20 for a, b in zip(happened, happened[limit:], strict=False))


def test_other_limits_continue_counting_what_was_counted() -> None:
    windows = PolicyLimits({"cluster": 3}, window_s=300)
    evict(windows, finding(), 0)
    evict(windows, finding(), 100)
    windows.reconfigure({"cluster": 1}, 300, under_way(windows))

    decision = windows.check(finding(), 150)

    assert isinstance(decision, Defer)
    assert decision.retry_at_s == 400


def test_a_limit_taken_away_and_set_again_still_counts_the_past() -> None:
    windows = PolicyLimits({"cluster": 1}, window_s=300)
    evict(windows, finding(), 0)
    windows.reconfigure({"cluster": None}, 300, under_way(windows))
    assert windows.check(finding(), 10) is None

    windows.reconfigure({"cluster": 1}, 300, under_way(windows))
    assert windows.check(finding(), 20) is not None


def test_evictions_under_way_count_in_scopes_limited_from_now_on() -> None:
    windows = PolicyLimits({"cluster": 9}, window_s=300)
    decide(windows, finding())
    windows.reconfigure({"node": 1}, 300, under_way(windows))
    assert windows.check(finding("b"), 10) is not None

    finish(windows, finding().pod.uid, 20, evicted=False)
    assert windows.check(finding("b"), 20) is None


def test_another_window_counts_at_once() -> None:
    windows = PolicyLimits({"cluster": 1}, window_s=300)
    evict(windows, finding(), 0)
    windows.reconfigure({"cluster": 1}, 60, under_way(windows))
    assert windows.check(finding(), 100) is None

    windows.reconfigure({"cluster": 1}, 600, under_way(windows))
    evict(windows, finding(), 100)
    assert windows.check(finding(), 650) is not None
    assert windows.check(finding(), 700) is None
