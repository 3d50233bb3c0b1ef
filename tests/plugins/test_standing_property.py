"""What must stand for a time counts, whatever happens, from when a fresh look says so."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.model.changes import Resynced
from reactive_desched.model.decisions import Decision, Evict, GateReason
from reactive_desched.model.findings import Finding
from reactive_desched.plugins.node_affinity import REQUIRED, NodeAffinityArgs, NodeAffinityPlugin
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.plugins.too_many_restarts import TooManyRestartsArgs, TooManyRestartsPlugin
from reactive_desched.testing.builders import container, node, pod, pod_status
from reactive_desched.testing.scenario import AnyPlugin, Scenario

STANDS_S = 25.0
HELD = GateReason("Test", "Held", "")
PLUGINS: dict[str, Callable[[], AnyPlugin]] = {
    "taints": lambda: NodeTaintsPlugin(NodeTaintsArgs(include_prefer_no_schedule=True)),
    "labels": lambda: NodeAffinityPlugin(NodeAffinityArgs(node_affinity_type=(REQUIRED,))),
    "restarts": lambda: TooManyRestartsPlugin(TooManyRestartsArgs(pod_restart_threshold=5)),
}
TAINTS = ("a:NoSchedule", "a=x:NoSchedule", "a:PreferNoSchedule", "b:NoSchedule")
nodes = st.builds(
    lambda name, taints, labels, ready: node(
        name, *dict.fromkeys(taints), labels=dict.fromkeys(labels, "yes"), ready=ready
    ),
    st.sampled_from(["n1", "n2"]),
    st.lists(st.sampled_from(TAINTS), max_size=2),
    st.sets(st.sampled_from(["disk", "nvidia.com/gpu"])),
    st.sampled_from(["True", "True", "True", "False"]),
)
pods = st.builds(
    lambda name, on, requires, restarts: pod(
        name,
        on=on,
        requires=requires,
        status=pod_status("Running", container(restarts=restarts)),
    ),
    st.sampled_from(["p1", "p2"]),
    st.sampled_from(["n1", "n2"]),
    st.sampled_from([None, "disk=yes", "disk=yes,nvidia.com/gpu=yes"]),
    st.sampled_from([0, 9]),
)
steps = st.lists(
    st.tuples(st.just("apply"), nodes)
    | st.tuples(st.just("apply"), pods)
    | st.tuples(st.just("remove"), nodes)
    | st.tuples(st.just("wait"), st.sampled_from([1.0, 10.0, 15.0, 25.0])),
    min_size=4,
    max_size=20,
)


class Held:
    """Decides as the guard does, and remembers the last decision on each pod."""

    def __init__(self) -> None:
        self.scenario: Scenario | None = None
        self.last: dict[str, Decision] = {}

    def decide(self, finding: Finding) -> Decision:
        now_s = 0.0 if self.scenario is None else self.scenario.now_s
        is_young = finding.counts_from_s > now_s
        decision = HELD.defer(finding, "", finding.counts_from_s) if is_young else Evict(finding)
        self.last[finding.pod.name] = decision
        return decision


@pytest.mark.parametrize("plugin", PLUGINS)
@given(steps)
def test_a_finding_counts_when_a_fresh_look_says_so(
    plugin: str, steps: list[tuple[str, object]]
) -> None:
    held = Held()
    cluster = Scenario(PLUGINS[plugin](), decide=held.decide, standing_s=STANDS_S)
    held.scenario = cluster
    cluster.apply(node("n1"), node("n2"), pod("p1", on="n1"), pod("p2", on="n1"))
    for step, thing in steps:
        getattr(cluster, step)(thing)

        counting = {name for name in cluster.flagged() if isinstance(held.last[name], Evict)}
        assert counting == counting_afresh(cluster, plugin)
        last = dict(held.last)
        assert cluster.flagged() == cluster.flagged_by_full_scan()
        held.last = last  # a full scan asks for decisions, too


def counting_afresh(cluster: Scenario, plugin: str) -> set[str]:
    """Name the pods that a fresh look at everything finds, and whose finding counts by now."""
    found = [
        opinion
        for subject in PLUGINS[plugin]().subjects(Resynced(), cluster.view)
        for opinion in cluster.evaluate(subject, Evict)
        if isinstance(opinion, Finding)
    ]
    return {each.pod.name for each in found if each.counts_from_s <= cluster.now_s}
