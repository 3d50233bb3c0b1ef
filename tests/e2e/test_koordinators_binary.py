"""koordinator's descheduler, as it is published, runs on the simulator unchanged."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.component import ChildProcess
from tests.support.control_plane import RealTools, wait_until
from tests.support.kubectl import Kubectl
from tests.support.ports import free_ports
from tests.support.simulated_cluster import simulated_cluster

pytestmark = pytest.mark.real

Object = dict[str, Any]  # a Kubernetes object as JSON
API = "descheduler/v1alpha2"


@pytest.fixture(scope="module")
def kubectl(real_tools: RealTools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """kubectl on a simulated cluster one of whose nodes uses 97 % of its processors."""
    size = ("--scenario", "messy", "--nodes", "12", "--pods", "120")
    with simulated_cluster(real_tools, tmp_path_factory.mktemp("koord"), *size) as kubectl:
        yield kubectl


def config(kubectl: Kubectl, balance: list[str], **arguments: Object) -> Object:
    """Return a configuration of koordinator's."""
    (port,) = free_ports(1)
    none = {"disabled": [{"name": "*"}]}
    named = {
        name: {"apiVersion": API, "kind": f"{name}Args", **it} for name, it in arguments.items()
    }
    return {
        "apiVersion": API,
        "kind": "DeschedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubectl.kubeconfig)},
        "healthzBindAddress": f"127.0.0.1:{port}",
        "metricsBindAddress": f"127.0.0.1:{port}",
        "leaderElection": {"resourceNamespace": "kube-system"},
        "deschedulingInterval": "1s",
        "profiles": [
            {
                "name": "koord-descheduler",
                "plugins": {
                    "deschedule": none,
                    "balance": {**none, "enabled": [{"name": each} for each in balance]},
                    "evict": {**none, "enabled": [{"name": "MigrationController"}]},
                },
                "pluginConfig": [{"name": name, "args": args} for name, args in named.items()],
            }
        ],
    }


def descheduler(binary: Path, tmp_path: Path, settings: Object) -> ChildProcess:
    file = tmp_path / "koordinator.json"
    file.write_text(json.dumps(settings))
    argv = (str(binary), "--config", str(file), "--secure-port", "0", "--v", "2")
    return ChildProcess("koord-descheduler", argv, tmp_path / "koord-descheduler.log")


def phases(kubectl: Kubectl) -> dict[str, str]:
    """Return the phase of each migration job by the pod that it is about."""
    return {
        job["spec"]["podRef"]["name"]: (job.get("status") or {}).get("phase", "")
        for job in kubectl.get("podmigrationjobs")
    }


def test_it_moves_pods_from_a_node_that_uses_too_much(
    kubectl: Kubectl, koord_descheduler: Path, tmp_path: Path
) -> None:
    load = {
        "evictableNamespaces": {"exclude": ["kube-system"]},
        "lowThresholds": {"cpu": 45, "memory": 55},
        "highThresholds": {"cpu": 75, "memory": 80},
        "anomalyCondition": {"consecutiveAbnormalities": 2},
    }
    jobs = {"evictionPolicy": "Eviction", "defaultJobMode": "EvictDirectly"}
    settings = config(kubectl, ["LowNodeLoad"], LowNodeLoad=load, MigrationController=jobs)
    before = {pod["metadata"]["name"] for pod in kubectl.get("pods", "-A")}

    with descheduler(koord_descheduler, tmp_path, settings).running():
        wait_until(
            lambda: "Succeeded" in phases(kubectl).values(), within_s=120, what="a job succeeds"
        )

    moved = {name for name, phase in phases(kubectl).items() if phase == "Succeeded"}
    assert moved <= before
    assert not moved & {pod["metadata"]["name"] for pod in kubectl.get("pods", "-A")}


def test_its_job_keeps_a_place_that_the_replacement_takes(
    kubectl: Kubectl, koord_descheduler: Path, tmp_path: Path
) -> None:
    labels = {"app": "moved"}
    spec = {"schedulerName": "koord-scheduler", "containers": [{"name": "main", "image": "a"}]}
    wanted = {
        "replicas": 2,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": spec},
    }
    head = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "moved"}}
    kubectl.apply({**head, "spec": wanted})
    kubectl.run("rollout", "status", "deployment/moved", "--timeout=60s")
    pod, _ = kubectl.get("pods", "-l", "app=moved")
    name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
    job = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "PodMigrationJob",
        "metadata": {"name": "by-hand"},
        "spec": {
            "mode": "ReservationFirst",
            "ttl": "5m",
            "podRef": {"namespace": "default", "name": name},
        },
    }

    settings = config(kubectl, [], MigrationController={"evictionPolicy": "Eviction"})
    with descheduler(koord_descheduler, tmp_path, settings).running():
        kubectl.apply(job)
        wait_until(
            lambda: phases(kubectl)[name] == "Succeeded", within_s=120, what="the job succeeds"
        )

    (done,) = kubectl.get("podmigrationjob", "by-hand")
    place, replacement = done["status"]["nodeName"], done["status"]["podRef"]["name"]
    (moved,) = kubectl.get("pod", replacement)
    assert (moved["spec"]["nodeName"], place != node) == (place, True)
