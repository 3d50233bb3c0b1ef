from reactive_desched.gate.windows import Windows
from reactive_desched.model.decisions import Defer, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.testing.builders import pod


def finding(name: str = "web", on: str = "n1") -> Finding:
    return Finding(pod(name, on=on), "Test", "why")


def test_a_limit_holds_for_any_stretch_of_the_window() -> None:
    windows = Windows({"cluster": 2}, window_s=300)
    windows.count(finding().pod, 0)
    windows.count(finding().pod, 200)

    verdict = windows.verdict(finding(), 250)

    assert isinstance(verdict, Defer)
    assert (verdict.gate, verdict.until) == ("EvictionLimit", 300)
    assert "cluster" in verdict.reason
    assert windows.verdict(finding(), 300) is None


def test_each_node_has_its_own_count() -> None:
    windows = Windows({"node": 1})
    windows.count(finding().pod, 0)

    assert windows.verdict(finding(on="n2"), 0) is None
    assert windows.verdict(finding(on="n1"), 0) is not None


def test_a_limit_of_zero_forbids() -> None:
    assert isinstance(Windows({"namespace": 0}).verdict(finding(), 0), Refuse)


def test_no_limit_is_not_zero() -> None:
    assert Windows({"cluster": None}).verdict(finding(), 0) is None


def test_an_eviction_that_did_not_happen_does_not_count() -> None:
    windows = Windows({"cluster": 1})
    windows.count(finding().pod, 0)
    windows.discount(finding().pod)

    assert windows.verdict(finding(), 0) is None


def test_what_the_window_has_passed_is_forgotten() -> None:
    windows = Windows({"node": 1}, window_s=10)
    for number in range(100):
        windows.count(finding(on=f"n{number}").pod, 0)
        windows.verdict(finding(on=f"n{number}"), 20)

    assert windows._times == {}
