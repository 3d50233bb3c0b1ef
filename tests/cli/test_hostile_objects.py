"""What objects hold reaches a terminal and a table of any command as text, and as nothing else."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from reactive_desched.cli import main

WRITTEN: Final = (
    "\x1b[31m\x1b]0;owned\x07<script>|`*_[x](http://e)@all\r\n\u202egnp.exe\u202c\x9b2J"
)
POLICY: Final = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: p
  pluginConfig:
  - name: DefaultEvictor
    args: {nodeFit: true}
  - name: RemovePodsHavingTooManyRestarts
    args: {podRestartThreshold: 5}
  - name: RemovePodsViolatingNodeAffinity
    args: {nodeAffinityType: [requiredDuringSchedulingIgnoredDuringExecution]}
  - name: LowNodeUtilization
    args: {thresholds: {cpu: 20}, targetThresholds: {cpu: 50}}
  plugins:
    deschedule:
      enabled: [RemovePodsViolatingNodeTaints, RemoveFailedPods, RemovePodsHavingTooManyRestarts,
                RemovePodsViolatingNodeAffinity, RemovePodsViolatingInterPodAntiAffinity]
    balance:
      enabled: [RemoveDuplicates, RemovePodsViolatingTopologySpreadConstraint, LowNodeUtilization,
                MakeRoomForPending, ConsolidateNodes]
"""


def node(name: str, *taints: object) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {"taints": list(taints)},
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "100"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(name: str, phase: str = "Running", on: str | None = "n1", **metadata: Any) -> Any:
    expression = {"key": WRITTEN, "operator": "In", "values": [WRITTEN]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    term = {"topologyKey": WRITTEN, "labelSelector": {"matchExpressions": [expression]}}
    state = {"terminated": {"reason": WRITTEN, "exitCode": 1}}
    said = {"reason": WRITTEN, "message": WRITTEN}
    owner = {"apiVersion": WRITTEN, "kind": WRITTEN, "name": WRITTEN, "uid": "o"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"uid-{name}",
            "labels": {"app": "web", WRITTEN: WRITTEN},
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [{**owner, "controller": True}],
            **metadata,
        },
        "spec": {
            "nodeName": on,
            "schedulerName": WRITTEN,
            "priorityClassName": WRITTEN,
            "nodeSelector": {WRITTEN: WRITTEN},
            "tolerations": [{"key": WRITTEN, "operator": "Equal", "value": WRITTEN}],
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required},
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
            },
            "topologySpreadConstraints": [
                {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **term}
            ],
            "containers": [
                {"name": WRITTEN, "image": WRITTEN, "resources": {"requests": {WRITTEN: "1"}}}
            ],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": WRITTEN}}],
        },
        "status": {
            "phase": phase,
            "conditions": [
                {"type": WRITTEN, "status": WRITTEN, **said},
                {"type": "PodScheduled", "status": "False" if on is None else "True", **said},
            ],
            "containerStatuses": [{"name": WRITTEN, "restartCount": 99, "state": state}],
            **said,
        },
    }


ANNOTATIONS: Final = dict.fromkeys(
    (
        "descheduler.alpha.kubernetes.io/evict",
        "reactive-desched/do-not-evict",
        "cluster-autoscaler.kubernetes.io/safe-to-evict",
        "karpenter.sh/do-not-disrupt",
        "scheduling.volcano.sh/group-name",
    ),
    WRITTEN,
)
PODS: Final = ("plain", "failed", "annotated", "waits")


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str, str, str]:
    """Write a policy and the objects, and return the options that name them."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": WRITTEN, "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 0},
    }
    taint = {"key": "gpu", "value": WRITTEN, "effect": "NoSchedule"}
    pods = (
        pod("plain"),
        pod("failed", "Failed"),
        pod("annotated", annotations=ANNOTATIONS),
        pod("waits", "Pending", None),
    )
    items = [namespace, budget, node("n1", taint), node("n2"), *pods]
    objects = tmp_path / "objects.json"
    objects.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    return "--policy", str(policy), "-f", str(objects)


@pytest.mark.parametrize(
    "command",
    [
        *(
            f"plan --all --as {how} -o {form}"
            for how in ("run", "once", "upstream")
            for form in ("wide", "json", "yaml")
        ),
        *(f"why shop/{name}" for name in PODS),
        "why node/n1",
        "nodes",
    ],
)
def test_no_command_writes_what_a_terminal_takes_for_a_command(
    command: str, files: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    main([*command.split(), *files])

    written = capsys.readouterr()
    for text in (written.out, written.err):
        odd = {each for each in text if not each.isprintable()} - {"\n"}
        assert odd == set()
    assert written.out
