"""No guard misses what ends its hold: what is held would be held by a fresh look as well."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.gate.guards import Guards
from reactive_desched.gate.workloads import Workloads
from reactive_desched.ledger.ledger import EvictionLedger
from reactive_desched.model.decisions import Decision, Evict, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.node_marks import NODE_MARK_GROUPS
from reactive_desched.model.objects import (
    Annotations,
    ClusterObject,
    Deployment,
    Namespace,
    OwnerReference,
    PodCondition,
    PodStatus,
    ReplicaSet,
    StatefulSet,
)
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.settings.guards import GuardName, GuardSettings
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import Scenario

TAKES_TURNS = (GuardName.STATEFUL_SET_ORDER, GuardName.SINGLE_REPLICAS)
"""Guards that remember evictions; here no pod is evicted."""

NOW_S = 1_000_000.0
CREATED_S = {"p1": 0, "p2": 0, "p3": int(NOW_S) - 5}
ABOVE = OwnerReference("Deployment", "web", "d-web", controller=True)
OPT_OUTS = (None, None, "true", "300h", "1970-01-12T13:50:00Z", "?")


def status(*, ready: bool) -> PodStatus:
    return PodStatus("Running", conditions=(PodCondition("Ready", str(ready)),))


def make_pod(name: str, on: str, owner: str, **fields: Any) -> ClusterObject:
    made = pod(
        name, on=on, owner=owner, status=status(ready=fields["ready"]), created=CREATED_S[name]
    )
    return msgspec.structs.replace(
        made,
        annotations=Annotations(
            do_not_evict=fields["opt_out"],
            safe_to_evict=fields["safe"],
            do_not_disrupt=fields["keep"],
        ),
        condition_transitions=(fields["ready_after"],),
        deletion_s=fields["deleted"],
    )


opt_outs = st.sampled_from(OPT_OUTS)
pods = st.builds(
    make_pod,
    st.sampled_from(["p1", "p2", "p3"]),
    st.sampled_from(["n1", "n1", "n2"]),
    st.sampled_from(["ReplicaSet/web", "ReplicaSet/web", "StatefulSet/db"]),
    ready=st.sampled_from([True, True, False]),
    ready_after=st.sampled_from([0, None, 4]),
    opt_out=opt_outs,
    safe=st.sampled_from([None, None, "false"]),
    keep=st.sampled_from([None, None, "true", "1h"]),
    deleted=st.sampled_from([None, None, None, 1]),
)
nodes = st.builds(
    lambda name, taints, keep, gone: msgspec.structs.replace(
        node(name, *taints), do_not_disrupt=keep, is_terminating=gone
    ),
    st.sampled_from(["n1", "n2"]),
    st.sampled_from(
        [("gpu:NoSchedule",), ("gpu:NoSchedule", "karpenter.sh/disrupted:NoSchedule"), ()]
    ),
    st.sampled_from([None, None, "true"]),
    st.sampled_from([False, False, True]),
)
workloads = st.builds(
    lambda kind, uid, replicas, rollout, opt_out: kind(
        "default", "w", uid, 0, replicas, rollout, opt_out
    ),
    st.sampled_from([Deployment, StatefulSet]),
    st.sampled_from(["d-web", "owner-db"]),
    st.integers(1, 3),
    st.sampled_from(["", "", "half of it"]),
    opt_outs,
)
others = st.builds(
    lambda above, opt_out: ReplicaSet("owner-web", 0, above, opt_out),
    st.sampled_from([ABOVE, ABOVE, None]),
    opt_outs,
) | st.builds(lambda opt_out: Namespace("default", do_not_evict=opt_out), opt_outs)
changes = st.tuples(
    st.sampled_from(["apply", "apply", "apply", "remove"]),
    pods | pods | nodes | workloads | others,
)
waits = st.tuples(st.just("wait"), st.sampled_from([3, 12, 4000, 100_000]))
HELD_POD = {"ready_after": 0, "opt_out": None, "safe": None, "keep": None, "deleted": None}
STARTS: dict[str, list[ClusterObject]] = {
    "young": [make_pod("p3", "n1", "ReplicaSet/web", ready=True, **HELD_POD)],
    "newly ready": [
        make_pod("p3", "n1", "ReplicaSet/web", ready=True, **HELD_POD | {"ready_after": 4})
    ],
    "a sibling that is not Ready": [
        make_pod("p1", "n1", "ReplicaSet/web", ready=True, **HELD_POD),
        make_pod("p2", "n2", "ReplicaSet/web", ready=False, **HELD_POD),
    ],
    "too small a Deployment": [
        ReplicaSet("owner-web", 0, ABOVE),
        Deployment("default", "w", "d-web", 0, 3),
        make_pod("p1", "n1", "ReplicaSet/web", ready=True, **HELD_POD),
    ],
    "a rollout": [
        StatefulSet("default", "w", "owner-db", 0, 1, "half of it"),
        make_pod("p1", "n1", "StatefulSet/db", ready=True, **HELD_POD),
    ],
    "a namespace's opt-out": [
        Namespace("default", do_not_evict="true"),
        make_pod("p1", "n1", "ReplicaSet/web", ready=True, **HELD_POD),
    ],
    "a node's opt-out": [
        msgspec.structs.replace(node("n1", "gpu:NoSchedule"), do_not_disrupt="true"),
        make_pod("p1", "n1", "ReplicaSet/web", ready=True, **HELD_POD),
    ],
    "a drained node": [
        node("n1", "gpu:NoSchedule", "karpenter.sh/disrupted:NoSchedule"),
        make_pod("p1", "n1", "ReplicaSet/web", ready=True, **HELD_POD),
    ],
}
NODES = (node("n1", "gpu:NoSchedule"), node("n2"))


class Held:
    """Decides by the guards alone, and remembers the last decision on each pod."""

    def __init__(self) -> None:
        self.last: dict[str, Decision] = {}
        self.scenario: Scenario | None = None
        self._guards: Guards | None = None

    def decide(self, finding: Finding) -> Decision:
        decision = self.look(finding)
        self.last[finding.pod.uid] = decision
        return decision

    def look(self, finding: Finding) -> Decision:
        """Ask the guards afresh; until the scenario is made there is nothing to ask."""
        if self.scenario is None:
            return Refuse(finding, "", "", "")
        scenario = self.scenario
        if self._guards is None:
            turns = Workloads(scenario.view, EvictionLedger(scenario.view), lambda: scenario.now_s)
            settings = GuardSettings(disabled=TAKES_TURNS)
            self._guards = Guards(scenario.view, settings, turns)
        monotonic_s = scenario.now_s - NOW_S
        return self._guards.check(finding, monotonic_s) or Evict(finding)


@pytest.mark.parametrize("start", STARTS)
@given(st.lists(changes | changes | changes | waits, min_size=5, max_size=30))
def test_what_a_guard_holds_a_fresh_evaluation_would_hold(
    start: str, steps: Iterable[tuple[str, Any]]
) -> None:
    held = Held()
    cluster = Scenario(
        NodeTaintsPlugin(NodeTaintsArgs()),
        now_s=NOW_S,
        decide=held.decide,
        ignored_taints={key for group in NODE_MARK_GROUPS for key in group.marks},
    )
    held.scenario = cluster
    cluster.apply(*NODES, *STARTS[start])
    for step, subject in steps:
        getattr(cluster, step)(subject)

        for uid, decision in held.last.items():
            found = cluster.view.active_pod(uid)
            if found is None or found[0].name not in cluster.flagged():
                continue
            if isinstance(decision, Refuse):
                fresh = held.look(Finding(found[0], decision.finding.plugin, "why"))
                assert isinstance(fresh, Refuse), (decision, fresh)
