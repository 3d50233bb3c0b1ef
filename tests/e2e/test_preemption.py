"""The simulated scheduler preempts the pods that the real kube-scheduler preempts, and says so."""

import json
import os
import random
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from reactive_desched.sim.clock import VirtualClock, parse_time, rfc3339
from reactive_desched.sim.conditions import find_condition
from reactive_desched.sim.index import PodIndex
from reactive_desched.sim.scheduling.scheduler import Scheduler
from reactive_desched.sim.store import Event, Store
from tests.support import manifests
from tests.support.control_plane import ControlPlane, wait_until
from tests.support.golden import verbatim
from tests.support.kubectl import Kubectl
from tests.support.playground import OWNER, E2ENamespace

pytestmark = pytest.mark.real

Object = dict[str, Any]  # a Kubernetes object as JSON
SCENES = 12
NODES, APPS = 4, ("a", "b", "c")
PRIORITIES = (10, 100)
BORN = "2026-01-01T00:00:00Z"
STAYS = {"pod-delete.stage.kwok.x-k8s.io/delay": "10m"}
"""A pod that is being deleted is still there when the test looks."""
TRIED_AGAIN = (
    " no new claims to deallocate, "
    "preemption: not eligible due to a terminating pod on the nominated node."
)


class Scene:
    """Full nodes, and a pod that fits on none of them; `rng` draws all of it."""

    def __init__(self, ours: E2ENamespace, number: int, rng: random.Random) -> None:
        self.ours, self.number, self.rng = ours, number, rng
        self.label = {"scene": f"{ours.namespace}-{number}"}
        self.nodes = [f"{ours.namespace}-{number}-n{index}" for index in range(NODES)]
        self.urgent = self._pod(f"s{number}-urgent", rng.choice((2, 4, 6)), rng.choice((100, 900)))
        self.urgent["metadata"]["labels"]["app"] = "urgent"  # of no disruption budget
        if rng.random() < 0.3:
            term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
            term["labelSelector"] = {"matchLabels": self.label | {"app": rng.choice(APPS)}}
            apart = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            self.urgent["spec"]["affinity"] = {"podAntiAffinity": apart}

    def objects(self) -> Iterator[Object]:
        """Yield the nodes, what runs on them, and some disruption budgets."""
        for node in self.nodes:
            yield manifests.node(node, **{OWNER: self.ours.namespace}, **self.label)
        for app in APPS:
            if self.rng.random() < 0.7:
                made = manifests.pod_disruption_budget(
                    self.ours.namespace, app, 0, f"s{self.number}-{app}"
                )
                selector = {"matchLabels": self.label | {"app": app}}
                spec = {"minAvailable": self.rng.choice((1, 9)), "selector": selector}
                yield made | {"spec": spec}
        for node in self.nodes:
            free = 8
            while free >= 2:
                cpu = self.rng.choice((1, 2))
                cpu, free = min(cpu, free), free - min(cpu, free)
                name = f"{node}-{free}"
                pod = self._pod(name, cpu, self.rng.choice(PRIORITIES))
                pod["spec"]["nodeName"] = node
                yield pod

    def refused(self, pod: Object) -> Object:
        """Create a pod, and return it once the real scheduler has tried it."""
        self.ours.kubectl.apply(pod)
        found = list[Object]()

        def is_refused() -> bool:
            found[:] = self.ours.kubectl.get(
                "pod", "-n", self.ours.namespace, pod["metadata"]["name"]
            )
            return find_condition(found[0], "PodScheduled") is not None

        wait_until(is_refused, within_s=60, what="the scheduler tries the pod")
        return found[0]

    def humble(self) -> Object:
        """Return a pod that no other of the scene gives way to."""
        pod = self._pod(f"s{self.number}-humble", 4, PRIORITIES[0])
        pod["metadata"]["labels"]["app"] = "humble"
        return pod

    def await_leaving(self, names: set[str]) -> None:
        """Wait until exactly these pods of the scene are being deleted, as preempted."""

        def leaving() -> set[str]:
            label = f"scene={self.label['scene']}"
            pods = self.ours.kubectl.get("pods", "-n", self.ours.namespace, "-l", label)
            return {each["metadata"]["name"] for each in pods if _is_preempted(each)}

        wait_until(
            lambda: leaving() == names,
            within_s=60,
            what=f"{names} leave",
            describe=lambda: str(leaving()),
        )

    def _pod(self, name: str, cpu: int, priority: int) -> Object:
        app = self.rng.choice(APPS)
        container = {
            "name": "main",
            "image": "example.invalid/no",
            "resources": {"requests": {"cpu": str(cpu)}},
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "namespace": self.ours.namespace,
                "name": name,
                "labels": self.label | {"app": app},
                "annotations": STAYS,
            },
            "spec": {
                "containers": [container],
                "nodeSelector": self.label,
                "priorityClassName": f"{self.ours.namespace}-{priority}",
                "automountServiceAccountToken": False,
            },
        }


def _is_preempted(pod: Object) -> bool:
    reason = (find_condition(pod, "DisruptionTarget") or {}).get("reason")
    return "deletionTimestamp" in pod["metadata"] and reason == "PreemptionByScheduler"


def _with_status(status: Object, current: Object) -> Object:
    return {**current, "status": status}


def simulated(kubectl: Kubectl, scene: Scene, now: float) -> Scheduler:
    """Return the simulated scheduler with what the API server has of a scene."""
    store, index = Store(VirtualClock(now), random.Random(1)), PodIndex()
    scheduler = Scheduler(store, index)
    where = ("-n", scene.ours.namespace)
    store.create("namespaces", {"metadata": {"name": scene.ours.namespace}})
    for budget in kubectl.get("pdb", *where):
        meta = {key: budget["metadata"][key] for key in ("name", "namespace")}
        store.create("poddisruptionbudgets", {"metadata": meta, "spec": budget["spec"]})
        key = (meta["namespace"], meta["name"])
        counted = partial(_with_status, budget["status"])
        store.modify("poddisruptionbudgets", *key, counted, subresource="status")
    for node in kubectl.get("nodes"):
        scheduler.observe(Event("ADDED", "nodes", node, None, 1))
    for pod in kubectl.get("pods", "-A"):
        event = Event("ADDED", "pods", pod, None, 1)
        index.observe(event)
        scheduler.observe(event)
    return scheduler


def ready(kubectl: Kubectl, *where: str) -> set[str]:
    """Return the names of the pods that are Ready."""
    pods = kubectl.get("pods", *where)
    return {
        each["metadata"]["name"]
        for each in pods
        if (find_condition(each, "Ready") or {}).get("status") == "True"
    }


def are_counted(kubectl: Kubectl, *where: str) -> bool:
    """Say whether the disruption controller has counted all pods of the budgets."""
    statuses = [each.get("status", {}) for each in kubectl.get("pdb", *where)]
    return all(
        each.get("observedGeneration") and each.get("currentHealthy") == each.get("expectedPods")
        for each in statuses
    )


@pytest.fixture
def arena(control_plane: ControlPlane) -> Iterator[E2ENamespace]:
    """Nodes and priority classes that only these tests use."""
    kubectl = control_plane.kubectl()
    with E2ENamespace(kubectl, f"preempt-{os.urandom(5).hex()}") as ours:
        classes = [f"{ours.namespace}-{value}" for value in (*PRIORITIES, 900)]
        kubectl.apply(
            *(
                {
                    "apiVersion": "scheduling.k8s.io/v1",
                    "kind": "PriorityClass",
                    "metadata": {"name": name},
                    "value": int(name.rsplit("-", 1)[1]),
                }
                for name in classes
            )
        )
        yield ours
        kubectl.run("delete", "priorityclass", *classes)
        kubectl.run("delete", "pods", "-n", ours.namespace, "--all", "--force", "--wait=false")


def test_the_pods_that_the_real_scheduler_preempts_are_those_that_the_simulated_one_would(
    arena: E2ENamespace,
) -> None:
    kubectl, rng = arena.kubectl, random.Random(7)
    where = ("-n", arena.namespace)
    scenes = [Scene(arena, number, rng) for number in range(SCENES)]
    names = set[str]()
    for scene in scenes:
        made = list(scene.objects())
        kubectl.apply(*made)
        names |= {each["metadata"]["name"] for each in made if each["kind"] == "Pod"}
    wait_until(lambda: names <= ready(kubectl, *where), within_s=60, what="all run")
    alike: dict[str, list[str]] = {}
    for name in sorted(names):
        alike.setdefault(name.rpartition("n")[2], []).append(name)
    for minute, (_, group) in enumerate(sorted(alike.items())):
        started = {"status": {"startTime": rfc3339(parse_time(BORN) + 60 * minute)}}
        kubectl.run(
            "patch", "pod", *group, *where, "--subresource=status", "-p", json.dumps(started)
        )
    wait_until(
        lambda: are_counted(kubectl, *where), within_s=60, what="the budgets count their pods"
    )
    preempted = 0
    for scene in scenes:
        scheduler = simulated(kubectl, scene, parse_time(BORN) + 86_400)
        pod = scene.refused(scene.urgent)
        cheapest, why = scheduler.preview_preemption(pod)
        condition = find_condition(pod, "PodScheduled") or {}
        assert condition["message"].removesuffix(TRIED_AGAIN) == why
        nominated = pod["status"].get("nominatedNodeName", "")
        expected = {each.node: {one["metadata"]["name"] for one in each.pods} for each in cheapest}
        assert nominated in (expected or {""})
        if nominated:
            preempted += 1
            scene.await_leaving(expected[nominated])
    assert preempted >= SCENES / 2

    humble = scenes[0].refused(scenes[0].humble())
    cheapest, why = simulated(kubectl, scenes[0], time.time()).preview_preemption(humble)
    assert (find_condition(humble, "PodScheduled") or {})["message"] == why
    assert not cheapest
    assert verbatim("4 No preemption victims found for incoming pod") in why
