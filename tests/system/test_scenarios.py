"""The simulated cluster as a place to practise: its scenarios, and what our commands find there."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reactive_desched.cli.sim import SCENARIOS
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.sim import scenarios
from tests.system.conftest import Cluster, Program

POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: packing
  pluginConfig:
  - name: HighNodeUtilization
    args: {thresholds: {cpu: 60}}
  plugins:
    balance: {enabled: [HighNodeUtilization]}
- name: everything
  pluginConfig:
  - name: DefaultEvictor
    args: {nodeFit: true}
  - name: PodLifeTime
    args: {maxPodLifeTimeSeconds: 604800}
  - name: RemovePodsHavingTooManyRestarts
    args: {podRestartThreshold: 100}
  - name: RemovePodsViolatingNodeAffinity
    args: {nodeAffinityType: [requiredDuringSchedulingIgnoredDuringExecution]}
  - name: LowNodeUtilization
    args: {thresholds: {cpu: 20}, targetThresholds: {cpu: 50}}
  - name: FragmentationAware
    args: {imbalanceThreshold: 0, minImprovementThreshold: 0}
  - name: LowNodeLoad
    args:
      lowThresholds: {cpu: 30}
      highThresholds: {cpu: 80}
      anomalyCondition: {consecutiveAbnormalities: 1}
  plugins:
    deschedule:
      enabled:
      - RemoveFailedPods
      - RemovePodsHavingTooManyRestarts
      - RemovePodsViolatingNodeAffinity
      - RemovePodsViolatingNodeTaints
      - RemovePodsViolatingInterPodAntiAffinity
      - PodLifeTime
    balance:
      enabled:
      - RemovePodsViolatingTopologySpreadConstraint
      - RemoveDuplicates
      - LowNodeUtilization
      - LowNodeLoad
      - FragmentationAware
"""
BALANCE = (
    *("FragmentationAware", "HighNodeUtilization", "LowNodeLoad", "LowNodeUtilization"),
    *("RemoveDuplicates", "RemovePodsViolatingTopologySpreadConstraint"),
)

ASKED_FOR = {
    "DrainNodes",
    "RemovePodsViolatingDeviceTaints",
    "RemovePodsViolatingNodeConditions",
    "ConsolidateNodes",
    "KeepNodesFree",
    "MakeRoomForPending",
    "CustomPriority",
    "ScaleDownBinPack",
}
"""Find pods of nodes that a person cordons: to have them drained, or because they are sick; the
next three find nothing in a sweep, which writes no taint and nominates no pod, then one where
nobody says which nodes are expensive, and the last one ranks pods and evicts none."""


@pytest.fixture
def scenario(start: Callable[..., Program], tmp_path: Path) -> Callable[[str], Cluster]:
    """Start `sim --scenario NAME`, twelve nodes, and return when it is ready."""

    def start_one(name: str) -> Cluster:
        kubeconfig = tmp_path / "kubeconfig"
        size = ("--nodes", "12", "--pods", "150", "--write-kubeconfig", str(kubeconfig))
        program = start("sim", "--scenario", name, *size)
        program.wait_for("ready: scenario")
        return Cluster(program, program.wait_for(r"http://\S+").group(), kubeconfig)

    return start_one


def planned(cluster: Cluster, folder: Path) -> set[str]:
    """Return the plugins whose findings `plan` would act on, or hold back."""
    policy = folder / "policy.yaml"
    policy.write_text(POLICY, encoding="utf-8")
    words = (
        *("plan", "--as", "once", "--policy", str(policy)),
        *("--kubeconfig", str(cluster.kubeconfig), "-o", "json"),
    )
    said = subprocess.run(
        (sys.executable, "-m", "reactive_desched", *words),
        capture_output=True,
        check=True,
        timeout=60,
    )
    report: dict[str, Any] = json.loads(said.stdout)
    return set(named_plugins(report))


def named_plugins(report: Any) -> set[str]:
    """Return every plugin that the report names as one with a finding."""
    if isinstance(report, dict):
        own = {str(report["plugin"])} if isinstance(report.get("plugin"), str) else set()
        return own.union(*map(named_plugins, report.values()))
    if isinstance(report, list):
        return set().union(*map(named_plugins, report))
    return set()


def node_metrics(cluster: Cluster) -> list[dict[str, Any]]:
    """Return the NodeMetrics of koordinator."""
    found: list[dict[str, Any]] = cluster.call(
        "GET", "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
    )["items"]
    return found


def _cpu_m(metric: dict[str, Any]) -> int:
    cpu: str = metric["status"]["nodeMetric"]["nodeUsage"]["resources"]["cpu"]
    return int(cpu.removesuffix("m"))


def test_help_and_simulator_know_the_same_scenarios() -> None:
    assert SCENARIOS.keys() == {scenarios.FRESH, *scenarios.SCENARIOS}


def test_in_a_mess_every_plugin_finds_something(
    scenario: Callable[[str], Cluster], tmp_path: Path
) -> None:
    assert planned(scenario("messy"), tmp_path) == set(plugin_registry().built_in()) - ASKED_FOR


def test_where_all_is_well_no_pod_breaks_a_rule(
    scenario: Callable[[str], Cluster], tmp_path: Path
) -> None:
    found = planned(scenario("busy"), tmp_path)

    assert found <= {*BALANCE}, "no single pod is wrong; what is uneven is as the scheduler left it"


def test_a_zone_that_joined_is_found_empty(
    scenario: Callable[[str], Cluster], tmp_path: Path
) -> None:
    assert {
        "LowNodeUtilization",
        "RemovePodsViolatingTopologySpreadConstraint",
    } <= planned(scenario("skewed"), tmp_path)


def test_a_hot_node_is_measured_hot_while_pods_wait(scenario: Callable[[str], Cluster]) -> None:
    cluster = scenario("overcommitted")
    used = {
        node["metadata"]["name"]: int(node["usage"]["cpu"].removesuffix("m"))
        for node in cluster.call("GET", "/apis/metrics.k8s.io/v1beta1/nodes")["items"]
    }
    cpus = {
        node["metadata"]["name"]: node["status"]["allocatable"]["cpu"]
        for node in cluster.call("GET", "/api/v1/nodes")["items"]
    }
    hot = {name for name in used if used[name] > 0.9 * int(cpus[name].removesuffix("m"))}
    assert {"node-01", "node-05", "node-09"} == hot
    assert {metric["metadata"]["name"] for metric in node_metrics(cluster)} == used.keys()
    assert hot == {
        metric["metadata"]["name"]
        for metric in node_metrics(cluster)
        if _cpu_m(metric) > 0.9 * int(cpus[metric["metadata"]["name"]].removesuffix("m"))
    }
    query = "/api/v1/pods?fieldSelector=status.phase=Pending"
    assert cluster.call("GET", query)["items"]


def test_the_controller_of_run_evicts_in_a_mess(
    scenario: Callable[[str], Cluster], start: Callable[..., Program], tmp_path: Path
) -> None:
    cluster = scenario("messy")
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY, encoding="utf-8")
    controller = start(
        "run",
        *("--policy", str(policy), "--kubeconfig", str(cluster.kubeconfig)),
        *("--journal-dir", str(tmp_path / "journal"), "--listen", "127.0.0.1:0"),
    )
    controller.wait_for(r"\] evicted ")
