from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.gate.windows import Windows
from reactive_desched.model.decisions import Defer, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.testing.builders import pod


def finding(name: str = "web", on: str = "n1", namespace: str = "default") -> Finding:
    return Finding(pod(name, on=on, namespace=namespace), "Test", "why")


def evict(windows: Windows, what: Finding, now: float) -> None:
    windows.begin(what.pod)
    windows.end(what.pod, now, evicted=True)


def test_a_limit_holds_for_any_stretch_of_the_window() -> None:
    windows = Windows({"cluster": 2}, window_s=300)
    evict(windows, finding(), 0)
    assert windows.verdict(finding(), 199) is None
    evict(windows, finding(), 200)

    verdict = windows.verdict(finding(), 250)

    assert verdict == Defer(
        finding(), "EvictionLimit", "2 evictions in 300s reached the limit of cluster", 300
    )
    assert windows.verdict(finding(), 299.9) is not None
    assert windows.verdict(finding(), 300) is None


def test_the_second_oldest_must_leave_too_when_the_limit_was_overstepped() -> None:
    windows = Windows({"cluster": 1}, window_s=300)
    evict(windows, finding(), 0)
    evict(windows, finding(), 100)

    verdict = windows.verdict(finding(), 150)

    assert isinstance(verdict, Defer)
    assert verdict.until == 400


def test_an_eviction_under_way_counts_already_and_its_window_begins_at_its_end() -> None:
    windows = Windows({"cluster": 1}, window_s=300)
    windows.begin(finding().pod)
    under_way = windows.verdict(finding("b"), 50)
    windows.end(finding().pod, 100, evicted=True)
    ended = windows.verdict(finding("b"), 350)

    assert isinstance(under_way, Defer)
    assert under_way.until == 350
    assert isinstance(ended, Defer)
    assert ended.until == 400


def test_an_eviction_that_did_not_happen_takes_no_other_ones_time_with_it() -> None:
    windows = Windows({"cluster": 2}, window_s=300)
    windows.begin(finding("a").pod)
    evict(windows, finding("b"), 200)
    windows.end(finding("a").pod, 250, evicted=False)
    evict(windows, finding("c"), 260)

    verdict = windows.verdict(finding("d"), 450)

    assert isinstance(verdict, Defer)
    assert verdict.until == 500


def test_an_eviction_that_did_not_happen_does_not_count() -> None:
    windows = Windows({"cluster": 1})
    windows.begin(finding().pod)
    windows.end(finding().pod, 1, evicted=False)

    assert windows.verdict(finding(), 1) is None


def test_each_node_has_its_own_count() -> None:
    windows = Windows({"node": 1})
    evict(windows, finding(), 0)

    assert windows.verdict(finding(on="n2"), 0) is None
    verdict = windows.verdict(finding(on="n1", namespace="bank"), 0)
    assert isinstance(verdict, Defer)
    assert verdict.reason.endswith("limit of node n1")


def test_each_namespace_has_its_own_count() -> None:
    windows = Windows({"namespace": 1})
    evict(windows, finding(), 0)

    assert windows.verdict(finding(namespace="bank"), 0) is None
    verdict = windows.verdict(finding(on="n2"), 0)
    assert isinstance(verdict, Defer)
    assert verdict.reason.endswith("limit of namespace default")


def test_a_limit_of_zero_forbids_until_the_pod_is_another() -> None:
    verdict = Windows({"namespace": 0}).verdict(finding(), 0)

    assert isinstance(verdict, Refuse)
    assert verdict.reason == "the policy allows no evictions per namespace"
    assert verdict.wakes == (("pod", "web"),)


def test_no_limit_is_not_zero() -> None:
    assert Windows({"cluster": None}).verdict(finding(), 0) is None


def test_what_the_window_has_passed_is_forgotten_though_nobody_asks_for_that_node_again() -> None:
    windows = Windows({"node": 1}, window_s=10)
    for number in range(100):
        evict(windows, finding(on=f"n{number}"), number * 5)

    assert set(windows._times) == {("node", "n98"), ("node", "n99")}
    assert not windows._under_way


moves = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from(["begin", "end", "fail"])), max_size=80
)


@given(moves, st.integers(1, 3))
def test_never_more_in_any_stretch_than_the_limit_however_long_each_takes(
    moves: list[tuple[int, str]], limit: int
) -> None:
    windows = Windows({"cluster": limit}, window_s=20)
    now, asked, under_way, happened = 0, 0, [], []
    for pause, move in moves:
        now += pause
        if move == "begin" and windows.verdict(finding(), now) is None:
            windows.begin(finding().pod)
            under_way.append(now)
        elif move != "begin" and under_way:
            asked = under_way.pop()
            windows.end(finding().pod, now, evicted=move == "end")
            happened += [asked] if move == "end" else []
    happened = sorted(happened)
    assert all(b - a >= 20 for a, b in zip(happened, happened[limit:], strict=False))


def test_other_limits_go_on_counting_what_was_counted() -> None:
    windows = Windows({"cluster": 3}, window_s=300)
    evict(windows, finding(), 0)
    evict(windows, finding(), 100)
    windows.adopt({"cluster": 1}, [])

    verdict = windows.verdict(finding(), 150)

    assert isinstance(verdict, Defer)
    assert verdict.until == 400


def test_a_limit_taken_away_and_set_again_still_knows_the_past() -> None:
    windows = Windows({"cluster": 1}, window_s=300)
    evict(windows, finding(), 0)
    windows.adopt({"cluster": None}, [])
    assert windows.verdict(finding(), 10) is None

    windows.adopt({"cluster": 1}, [])
    assert windows.verdict(finding(), 20) is not None


def test_evictions_under_way_count_in_scopes_limited_from_now_on() -> None:
    windows = Windows({"cluster": 9}, window_s=300)
    windows.begin(finding().pod)
    windows.adopt({"node": 1}, [finding().pod])
    assert windows.verdict(finding("b"), 10) is not None

    windows.end(finding().pod, 20, evicted=False)
    assert windows.verdict(finding("b"), 20) is None
