"""A plugin's own limit of evictions from a node counts within five minutes."""

import pytest
from msgspec.structs import replace

from reactive_desched.gate.policy_limits import PLUGIN_NODE_LIMIT_REACHED, PluginNodeLimits
from reactive_desched.model.decisions import Defer, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.testing.builders import pod
from tests.support.evictions import decide, finish


def finding(name: str, on: str = "n1", limit: int | None = 1, plugin: str = "P") -> Finding:
    return Finding(pod(name, on=on), plugin, "", node_limit=limit)


def evict(limits: PluginNodeLimits, what: Finding, now: float, *, evicted: bool = True) -> None:
    assert limits.check(what, now) is None
    decide(limits, what)
    finish(limits, what.pod.uid, now, evicted=evicted)


def test_a_node_whose_limit_is_reached_waits_until_the_first_eviction_is_old() -> None:
    limits = PluginNodeLimits(window_s=300)
    evict(limits, finding("a", limit=2), 0)
    evict(limits, finding("b", limit=2), 10)

    decision = limits.check(finding("c", limit=2), 20)

    assert isinstance(decision, Defer)
    assert (decision.gate, decision.reason) == ("PluginLimit", PLUGIN_NODE_LIMIT_REACHED.code)
    assert (decision.retry_at_s, decision.scope_exhausted) == (300, "node")
    assert limits.check(finding("c", limit=2), 300) is None


def test_an_eviction_under_way_counts_and_one_that_failed_does_not() -> None:
    limits = PluginNodeLimits(window_s=300)
    decide(limits, finding("a"))
    assert limits.check(finding("b"), 0) is not None

    finish(limits, finding("a").pod.uid, 0, evicted=False)

    assert limits.check(finding("b"), 0) is None


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(finding("b", on="n2"), id="another node"),
        pytest.param(finding("b", plugin="Q"), id="another plugin"),
        pytest.param(finding("b", limit=None), id="no limit"),
    ],
)
def test_a_limit_is_that_of_one_plugin_and_node(other: Finding) -> None:
    limits = PluginNodeLimits()
    evict(limits, finding("a"), 0)

    assert limits.check(other, 0) is None


def test_a_limit_of_none_at_all_is_final() -> None:
    assert isinstance(PluginNodeLimits().check(finding("a", limit=0), 0), Refuse)


def test_findings_without_a_limit_are_not_counted() -> None:
    limits = PluginNodeLimits()
    evict(limits, replace(finding("a"), node_limit=None), 0)

    assert limits.check(finding("b"), 0) is None


def test_what_the_window_has_passed_is_forgotten() -> None:
    limits = PluginNodeLimits(window_s=10)
    for number in range(100):
        evict(limits, finding(f"p{number}", on=f"n{number}"), number * 5)

    assert set(limits._counts._times) == {("P", "n98"), ("P", "n99")}
    assert not limits._counts._in_flight
