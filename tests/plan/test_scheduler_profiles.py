"""A preview goes by the profiles of the schedulers that the settings name."""

from typing import Any

import pytest

from reactive_desched.plan.mode import PlanMode
from tests.support.golden import Golden

POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: taints
  pluginConfig:
  - {name: DefaultEvictor, args: {nodeFit: true}}
  plugins: {deschedule: {enabled: [RemovePodsViolatingNodeTaints]}}
---
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
nodeFit: scheduler
scheduler:
  config:
  - profiles:
    - schedulerName: blind
      plugins:
        filter: {disabled: [{name: TaintToleration}]}
    - schedulerName: pool
      pluginConfig:
      - name: NodeAffinity
        args:
          addedAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
              nodeSelectorTerms:
              - matchExpressions: [{key: pool, operator: In, values: [none]}]
"""


def cluster(world: Any, scheduler: str, *, open_node: bool) -> str:
    other = world.node("n2") if open_node else world.node("n2", "gpu")
    pod = world.pod("a")
    pod["spec"]["schedulerName"] = scheduler
    path: str = world.file(world.listed([world.node("n1", "gpu"), other, pod]))
    return path


@pytest.mark.parametrize("mode", [PlanMode.ONCE, PlanMode.RUN])
@pytest.mark.parametrize(
    ("scheduler", "open_node", "evicted"),
    [
        pytest.param("blind", False, ["a"], id="a filter is off"),
        pytest.param("other", False, [], id="its scheduler has no profile"),
        pytest.param("other", True, ["a"], id="its scheduler has no profile, and a node fits"),
        pytest.param("pool", True, [], id="affinity is added"),
    ],
)
def test_pods_are_evicted_where_their_own_scheduler_has_another_node(
    world: Any, mode: PlanMode, scheduler: str, *, open_node: bool, evicted: list[str]
) -> None:
    path = cluster(world, scheduler, open_node=open_node)
    decisions = world.look(path, policy=POLICY, mode=mode).decisions

    gone = [each.pod.name for each in decisions if each.action == "Evict"]
    assert gone[:1] == evicted  # its replacements come to a tainted node again


def test_a_preview_names_the_profile(world: Any, golden: Golden) -> None:
    path = cluster(world, "pool", open_node=True)
    (decision,) = world.look(path, policy=POLICY).decisions

    (rejection, *_) = decision.rejections
    assert rejection.message == golden()
