import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import structs

from reactive_desched.api.args import PluginArgs
from reactive_desched.api.plugin import PodPlugin, View
from reactive_desched.errors import ConfigError
from reactive_desched.model.changes import Resynced
from reactive_desched.model.findings import Finding
from reactive_desched.model.subjects import NodeOrPod
from reactive_desched.plan.file_snapshot import read_files
from reactive_desched.plan.progress import Progress
from reactive_desched.plan.report import DecisionCounts, PlannedDecision, PodRef
from reactive_desched.plan.sweep_run import run_sweeps
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.load import load_files
from tests.support.golden import Golden

TWO = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: careful
  pluginConfig:
  - {name: DefaultEvictor, args: {minReplicas: 5, labelSelector: {matchLabels: {app: none}}}}
  plugins: {deschedule: {enabled: [RemovePodsViolatingNodeTaints]}}
- name: bold
  plugins: {deschedule: {enabled: [RemovePodsViolatingNodeTaints]}}
"""


def test_an_eviction_names_pod_node_plugin_and_reason(world: Any) -> None:
    first = world.look().decisions[0]

    assert first == PlannedDecision(
        action="Evict",
        pod=PodRef("shop", "a", "uid-a"),
        node="n1",
        owner="ReplicaSet/web",
        profile="taints",
        plugin="RemovePodsViolatingNodeTaints",
        finding=first.finding,
    )
    assert "gpu" in first.finding


def test_every_protection_that_objects_is_named_the_one_that_decided_first(world: Any) -> None:
    bare = world.pod("a")
    bare["metadata"]["ownerReferences"] = []
    bare["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    bare["spec"]["priority"] = 2_000_000_001
    things = [world.node("n1", "gpu"), world.node("n2"), bare]
    (only,) = world.look(world.file(world.listed(things))).decisions

    assert (only.action, only.gate) == ("Refuse", "SystemCriticalPods")
    assert [each.gate for each in only.rejections] == [
        "SystemCriticalPods",
        "PriorityThreshold",
        "FailedBarePods",
        "PodsWithLocalStorage",
    ]
    assert [each.reason for each in only.rejections] == [
        "SystemCriticalPriority",
        "PriorityTooHigh",
        "NoController",
        "LocalStorage",
    ]
    assert only.reason == "SystemCriticalPriority"


def test_a_refusal_for_want_of_room_has_one_reason(world: Any) -> None:
    policy = TWO.replace(
        "minReplicas: 5, labelSelector: {matchLabels: {app: none}}", "nodeFit: true"
    )
    things = [world.node("n1", "gpu"), world.node("n2", "gpu"), world.pod("a")]
    held = world.look(world.file(world.listed(things)), policy=policy, profile="careful").decisions

    assert [(each.gate, len(each.rejections)) for each in held] == [("NodeFit", 1)]


def test_each_profile_asks_its_own_evictor(world: Any) -> None:
    told = [
        (each.profile, each.action, each.pod.name, [o.gate for o in each.rejections])
        for each in world.look(policy=TWO).decisions
    ]

    assert told == [
        ("careful", "Refuse", "a", ["LabelSelector", "MinReplicas"]),
        ("careful", "Refuse", "b", ["LabelSelector", "MinReplicas"]),
        ("bold", "Evict", "a", []),
        ("bold", "Evict", "b", []),
    ]


def test_one_profile_alone_can_be_asked(world: Any) -> None:
    report = world.look(policy=TWO, profile="careful")

    assert {each.profile for each in report.decisions} == {"careful"}
    assert report.summary.total == DecisionCounts(evict=0, refuse=2)


def test_a_profile_that_is_not_there_is_wrong_input(world: Any, golden: Golden) -> None:
    with pytest.raises(ConfigError) as caught:
        world.look(policy=TWO, profile="timid")

    assert golden() in str(caught.value)


def test_the_summary_counts_per_plugin_profile_node_namespace_and_gate(world: Any) -> None:
    summary = world.look(policy=TWO).summary
    both = DecisionCounts(evict=2, refuse=2)

    assert summary.total == both
    assert summary.by_plugin == {"RemovePodsViolatingNodeTaints": both}
    assert summary.by_profile == {
        "bold": DecisionCounts(evict=2),
        "careful": DecisionCounts(refuse=2),
    }
    assert summary.by_node == {"n1": both}
    assert summary.by_namespace == {"shop": both}
    assert summary.by_gate == {"LabelSelector": 2}


def test_limits_of_a_cycle_hold(world: Any) -> None:
    policy = "maxNoOfPodsToEvictTotal: 1\n" + TWO
    told = [(each.action, each.reason) for each in world.look(policy=policy).decisions[2:]]

    assert told == [("Evict", None), ("Refuse", "TotalLimitReached")]


def test_fewer_than_two_nodes_is_said_and_decides_nothing(world: Any) -> None:
    things = [world.node("n1", "gpu"), world.node("n2", ready="False"), world.pod("a")]
    report = world.look(world.file(world.listed(things)))

    assert report.decisions == ()
    assert report.skipped is not None
    assert "fewer than two nodes" in report.skipped
    assert (report.looked_at.nodes.total, report.looked_at.nodes.counting) == (2, 1)


def test_what_the_evict_annotation_overrules_is_no_objection(world: Any) -> None:
    policy = TWO.replace(
        "minReplicas: 5, labelSelector: {matchLabels: {app: none}}", "nodeFit: true"
    )
    pod = world.pod("a")
    pod["metadata"]["annotations"] = {"descheduler.alpha.kubernetes.io/evict": "true"}
    pod["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    path = world.file(world.listed([world.node("n1", "gpu"), world.node("n2", "gpu"), pod]))
    (held,) = world.look(path, policy=policy, profile="careful").decisions

    assert [each.gate for each in held.rejections] == ["NodeFit"]


class Patient(PodPlugin[PluginArgs]):
    """Finds fault with a pod only after it has been asked twice before."""

    name = "Patient"
    reacts_to = (Resynced,)

    def __init__(self) -> None:
        super().__init__(PluginArgs())
        self._asked = 0

    def judge(self, subject: NodeOrPod, view: View) -> Iterator[Finding]:
        node, pods = view.pods_of(subject) or (None, ())
        for pod in pods:
            self._asked += 1
            if self._asked > 2:
                yield Finding(pod, self.name, f"is still on {node}")


@pytest.mark.parametrize(("passes", "gone"), [(1, []), (2, []), (3, ["a"]), (4, ["a"])])
def test_plugins_remember_from_pass_to_pass_and_the_last_is_reported(
    world: Any, passes: int, gone: list[str]
) -> None:
    path = world.file(world.listed([world.node("n1"), world.node("n2"), world.pod("a")]))
    configuration = load_files([world.policy], plugin_registry())
    ours = configuration.policy
    profile = dataclasses.replace(ours.profiles[0], plugins=(Patient(),))
    picture = read_files([path], Progress())
    judged = run_sweeps(
        structs.replace(ours, profiles=(profile,)), picture, 0.0, "upstream", passes=passes
    )

    assert [each.pod.name for each in judged.decisions] == gone


@pytest.mark.parametrize("passes", [1, 3])
def test_every_pass_sees_the_evicted_pods_again(world: Any, passes: int) -> None:
    report = world.look(passes=passes)

    assert [each.pod.name for each in report.decisions] == ["a", "b"]
    assert report.looked_at.passes == passes


def test_ages_are_those_of_the_moment_that_was_asked_for(world: Any) -> None:
    policy = TWO.replace(
        "minReplicas: 5, labelSelector: {matchLabels: {app: none}}", "minPodAge: 2h"
    )

    def gates(now: str) -> list[str | None]:
        return [e.gate for e in world.look(policy=policy, profile="careful", now=now).decisions]

    assert gates("2026-05-01T12:00:00Z") == ["MinPodAge", "MinPodAge"]
    assert gates("2026-05-01T15:00:00+02:00") == [None, None]


def test_a_priority_class_that_is_not_there_is_wrong_input(world: Any, golden: Golden) -> None:
    policy = TWO.replace(
        "minReplicas: 5, labelSelector: {matchLabels: {app: none}}",
        "priorityThreshold: {name: gold}",
    )
    with pytest.raises(ConfigError) as caught:
        world.look(policy=policy)

    assert golden() in str(caught.value)

    gold = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 7}
    named = {**gold, "metadata": {"name": "gold"}}
    report = world.look(world.file(world.listed([*world.small(), named])), policy=policy)
    assert report.summary.total.evict == 2
