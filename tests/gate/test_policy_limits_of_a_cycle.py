"""The policy's limits as a sweep counts them: per cycle, and nothing can wait."""

import pytest

from reactive_desched.gate.policy_limits import CYCLE, PolicyLimits
from reactive_desched.model.decisions import Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import Pod
from reactive_desched.testing.builders import pod
from tests.support.evictions import decide

A = pod("a", on="n1", namespace="shop")


def refusal(limits: PolicyLimits, one: Pod) -> str | None:
    finding = Finding(one, "Wrong", "wrong")
    decision = limits.check(finding, 0)
    if decision is None:
        return None
    assert isinstance(decision, Refuse)
    assert decision.gate == "EvictionLimit"
    assert decision.scope_exhausted
    return decision.reason


@pytest.mark.parametrize(
    ("scope", "other", "reason"),
    [
        pytest.param(
            "cluster",
            pod("b", on="n2", namespace="bank"),
            "TotalLimitReached",
            id="in all",
        ),
        pytest.param(
            "node",
            pod("b", on="n1", namespace="bank"),
            "NodeLimitReached",
            id="per node",
        ),
        pytest.param(
            "namespace",
            pod("b", on="n2", namespace="shop"),
            "NamespaceLimitReached",
            id="per namespace",
        ),
    ],
)
def test_a_limit_stops_what_would_be_one_too_many(scope: str, other: Pod, reason: str) -> None:
    limits = PolicyLimits({scope: 1}, CYCLE)

    assert refusal(limits, other) is None
    decide(limits, Finding(A, "Test", "why"))
    assert refusal(limits, other) == reason


def test_a_limit_counts_only_its_own_node_and_namespace() -> None:
    limits = PolicyLimits({"node": 1, "namespace": 1, "cluster": None}, CYCLE)
    decide(limits, Finding(A, "Test", "why"))

    assert refusal(limits, pod("b", on="n2", namespace="bank")) is None


def test_a_limit_of_zero_forbids_everything() -> None:
    assert refusal(PolicyLimits({"namespace": 0}, CYCLE), A) is not None


def test_the_limit_in_all_is_named_first_and_the_namespaces_last() -> None:
    limits = PolicyLimits({"namespace": 0, "node": 0, "cluster": 0}, CYCLE)
    assert refusal(limits, A) == "TotalLimitReached"

    limits = PolicyLimits({"namespace": 0, "node": 0}, CYCLE)
    assert refusal(limits, A) == "NodeLimitReached"
