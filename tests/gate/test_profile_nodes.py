"""A profile's nodeSelector: its pods are those on the nodes that it selects, whatever changes."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reactive_desched.fit.upstream import UpstreamNodeFit
from reactive_desched.gate.evictor import DefaultEvictor
from reactive_desched.model.decisions import Decision, Evict, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.labels import EVERYTHING, parse_selector
from reactive_desched.model.objects import ClusterObject
from reactive_desched.plugins.duplicates import DuplicatesArgs, DuplicatesPlugin
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import Scenario

BLUE = parse_selector("pool=blue")


class Filtered:
    """Decides by the evictor's filters alone, and remembers the last decision on each pod."""

    def __init__(self) -> None:
        self.last: dict[str, Decision] = {}
        self.cluster = Scenario(NodeTaintsPlugin(NodeTaintsArgs()), decide=self.decide)
        view = self.cluster.view
        fit = UpstreamNodeFit(view)
        self.filters = DefaultEvictor(DefaultEvictorArgs(), view, fit, nodes=BLUE).filters

    def decide(self, finding: Finding) -> Decision:
        decision = self.look(finding)
        self.last[finding.pod.uid] = decision
        return decision

    def look(self, finding: Finding) -> Decision:
        """Ask the filters afresh."""
        return self.filters.check(finding, 0.0) or Evict(finding)

    @property
    def evicted(self) -> set[str]:
        """Name the pods that would be evicted by the last decision on each."""
        flagged = self.cluster.flagged()
        return {
            each.finding.pod.name
            for each in self.last.values()
            if isinstance(each, Evict) and each.finding.pod.name in flagged
        }


def make_node(name: str, pool: str | None, taints: tuple[str, ...]) -> ClusterObject:
    return node(name, *taints, labels={} if pool is None else {"pool": pool})


nodes = st.builds(
    make_node,
    st.sampled_from(["n1", "n2", "n3"]),
    st.sampled_from(["blue", "blue", "red", None]),
    st.sampled_from([("gpu:NoSchedule",), ()]),
)
pods = st.builds(
    pod,
    st.sampled_from(["p1", "p2", "p3", "p4"]),
    on=st.sampled_from(["n1", "n2", "n3", None]),
    owner=st.just("ReplicaSet/web"),
    evict=st.sampled_from([None, None, "true"]),
)
steps = st.lists(
    st.tuples(st.sampled_from(["apply", "apply", "apply", "remove"]), pods | nodes),
    min_size=4,
    max_size=30,
)
TAINTED = "gpu:NoSchedule"


@given(steps)
@example([("apply", node("n1", TAINTED)), ("apply", pod("p1", on="n1", evict="true"))])
@example(
    [
        ("apply", make_node("n1", "red", (TAINTED,))),
        ("apply", pod("p1", on="n1")),
        ("apply", make_node("n1", "blue", (TAINTED,))),
    ]
)
def test_the_same_pods_go_as_if_the_policy_selected_the_nodes(
    changes: Iterable[tuple[str, Any]],
) -> None:
    by_profile = Filtered()
    by_policy = Scenario(NodeTaintsPlugin(NodeTaintsArgs()), node_selector=BLUE)
    for step, subject in changes:
        getattr(by_profile.cluster, step)(subject)
        getattr(by_policy, step)(subject)

        assert by_profile.evicted == by_policy.flagged()


@given(steps)
def test_what_a_balance_plugin_finds_it_finds_by_a_full_scan_too(
    changes: Iterable[tuple[str, Any]],
) -> None:
    cluster = Scenario(
        DuplicatesPlugin(DuplicatesArgs()), *map(node, ["n1", "n2", "n3"]), profile_nodes=BLUE
    )
    for step, subject in changes:
        getattr(cluster, step)(subject)

        assert cluster.flagged() == cluster.flagged_by_full_scan()
        for name in cluster.flagged():
            found = cluster.view.active_pod(name)
            assert found is not None
            assert BLUE.matches(found[1].labels)


def crowd(selector: Any) -> set[str]:
    pools = {"n1": "red", "n2": "blue", "n3": "red", "n4": "red"}
    cluster = Scenario(
        DuplicatesPlugin(DuplicatesArgs()),
        *(make_node(name, pool, ()) for name, pool in pools.items()),
        *(pod(f"{on}-{n}", on=on, owner="ReplicaSet/web") for on in ("n1", "n2") for n in "ab"),
        profile_nodes=selector,
    )
    return {each[:2] for each in cluster.flagged()}


def test_a_balance_plugin_counts_every_node_and_moves_pods_from_those_selected_alone() -> None:
    assert crowd(EVERYTHING) == {"n1", "n2"}
    assert crowd(BLUE) == {"n2"}


@pytest.mark.parametrize("on", ["n1", None])
def test_a_pod_on_another_node_or_on_none_stays_and_the_reason_says_so(on: str | None) -> None:
    filtered = Filtered()
    filtered.cluster.apply(node("n1"))
    decision = filtered.look(Finding(pod("p", on=on, evict="true"), "P", "why"))

    assert isinstance(decision, Refuse)
    assert (decision.reason, decision.keeps) == ("NodeOutsideProfile", True)
