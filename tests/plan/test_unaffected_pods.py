from typing import Any

import pytest

from reactive_desched.plan.mode import PlanMode

SCOPED = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
nodeSelector: pool!=other
profiles:
- name: one
  pluginConfig:
  - {name: RemovePodsViolatingNodeTaints, args: {namespaces: {exclude: [quiet]}}}
  plugins: {deschedule: {enabled: [RemovePodsViolatingNodeTaints]}}
- name: two
  pluginConfig:
  - name: RemovePodsViolatingNodeAffinity
    args: {nodeAffinityType: [requiredDuringSchedulingIgnoredDuringExecution],
           namespaces: {exclude: [quiet]}}
  plugins: {deschedule: {enabled: [RemovePodsViolatingNodeAffinity]}}
"""
BOTH = ("one/RemovePodsViolatingNodeTaints", "two/RemovePodsViolatingNodeAffinity")


def others(
    world: Any, *things: Any, policy: str = SCOPED
) -> dict[str, tuple[str, tuple[str, ...]]]:
    nodes = [world.node("n1", "gpu"), world.node("n2"), world.node("n3", pool="other")]
    nodes.append(world.node("n4", ready="Unknown"))
    path = world.file(world.listed([*nodes, *things]))
    found = world.look(path, policy=policy, show_unaffected=True).others
    return {each.pod.name: (each.reason, each.looked_at_by) for each in found}


@pytest.mark.parametrize(
    ("on", "reason"),
    [
        pytest.param(None, "PodNotScheduled", id="unscheduled"),
        pytest.param("n9", "NodeNotFound", id="on a node that was not given"),
        pytest.param("n4", "NodeNotReady", id="on a node that is not ready"),
        pytest.param("n3", "NodeNotSelected", id="on another's node"),
    ],
)
def test_a_pod_that_is_not_judged_has_the_reason(world: Any, on: str | None, reason: str) -> None:
    assert others(world, world.pod("a", on=on)) == {"a": (reason, ())}


def test_a_pod_with_nothing_wrong_names_the_plugins_that_judged_it(world: Any) -> None:
    found = others(world, world.pod("a", on="n2"))

    assert found == {"a": ("NothingFound", BOTH)}


def test_a_pod_outside_of_what_plugins_are_limited_to_is_reported_as_such(world: Any) -> None:
    assert others(world, world.pod("a", space="quiet")) == {"a": ("OutOfScope", ())}


def test_a_pod_that_has_ended_is_reported_as_such_unless_a_plugin_judges_such(world: Any) -> None:
    ended = world.pod("a", phase="Failed")
    assert others(world, ended) == {"a": ("PodCompleted", ())}

    failed = SCOPED + "- {name: three, plugins: {deschedule: {enabled: [RemoveFailedPods]}}}\n"
    found = others(world, world.pod("b", phase="Succeeded"), policy=failed)
    assert found["b"][1] == ("three/RemoveFailedPods",)


def test_a_policy_without_plugins_judges_no_pod(world: Any) -> None:
    empty = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\nprofiles: [{name: none}]\n"

    assert others(world, world.pod("a"), policy=empty) == {"a": ("NoPluginsEnabled", ())}


def test_without_two_nodes_no_pod_is_judged(world: Any) -> None:
    path = world.file(world.listed([world.node("n1", "gpu"), world.pod("a")]))
    report = world.look(path, show_unaffected=True)

    assert [(each.pod.name, each.reason, each.message) for each in report.others] == [
        ("a", "TooFewReadyNodes", report.skipped)
    ]


def test_they_are_there_only_when_asked_for(world: Any) -> None:
    assert world.look().others is None
    assert [each.pod.name for each in world.look(show_unaffected=True).others] == ["c"]


LOW = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: one
  pluginConfig:
  - {name: LowNodeUtilization, args: {thresholds: {pods: 1}, targetThresholds: {pods: 2}}}
  plugins: {balance: {enabled: [LowNodeUtilization]}}
"""


@pytest.mark.parametrize("mode", list(PlanMode))
def test_a_pod_that_something_keeps_on_an_overutilized_node_says_what(
    world: Any, mode: PlanMode
) -> None:
    pods = [world.pod(f"p{number}", on="n2") for number in range(4)]
    nodes = [world.node("n1", "dedicated"), world.node("n2")]
    path = world.file(world.listed([*nodes, *pods]))
    found = world.look(path, policy=LOW, show_unaffected=True, mode=mode).others

    assert {each.pod.name: each.reason for each in found} == {
        f"p{number}": "Obstacle" for number in range(4)
    }
    assert all("dedicated:NoSchedule" in each.message for each in found)
    assert {each.looked_at_by for each in found} == {("one/LowNodeUtilization",)}
