"""The node that we say is taken first is where the real kube-scheduler puts a pod."""

import json
import os
import random
from collections.abc import Iterator
from typing import Any

import pytest

from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.model.labels import EVERYTHING
from reactive_desched.model.objects import Pod
from reactive_desched.policy.settings.scheduler import SchedulerSettings
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.state.kinds.interning import InternTables
from tests.support import manifests
from tests.support.codecs import make_codecs
from tests.support.control_plane import ARGUED, PACKING, WEIGHED, ControlPlane, wait_until
from tests.support.playground import OWNER, E2ENamespace

pytestmark = pytest.mark.real

Object = dict[str, Any]  # a Kubernetes object as JSON
ZONE = "topology.kubernetes.io/zone"
GPU = "example.com/gpu"
IMAGES = {
    "registry.example.com:5000/model": 2_900_000_000,
    "example.com/app:v1": 800_000_000,
    "example.com/app:v2": 800_000_000,
    "small": 60_000_000,
    "tiny:1": 9_000_000,
}
"""Images by the names that pods have for them, with their sizes."""

PODS = 68
"""Of each scheduler: 200 of three have a node with the single highest score, or nearly so."""

ENOUGH = 0.95


def nodes(ours: E2ENamespace, rng: random.Random) -> Iterator[Object]:
    """Yield nodes of several sizes in three zones; some have GPUs or another disk."""
    for number in range(12):
        labels = {OWNER: ours.namespace, ZONE: "abc"[number % 3]}
        if number % 4 == 0:
            labels["disk"] = "ssd"
        made = manifests.node(ours.node(f"n{number}"), **labels)
        room = {"cpu": rng.choice(("8", "16")), "memory": rng.choice(("24Gi", "40Gi"))}
        room |= {"pods": "60"} | ({GPU: rng.choice(("8", "16"))} if number % 2 else {})
        images = [image(name, rng) for name in IMAGES if rng.random() < 0.5]
        yield {**made, "status": {"allocatable": room, "capacity": room, "images": images}}


def image(name: str, rng: random.Random) -> Object:
    """Return what a kubelet says of an image; those of one name have the same size."""
    named = f"{name}@sha256:{'0' * 64}", name if ":" in name else f"{name}:latest"
    return {"names": rng.sample(named, 2), "sizeBytes": IMAGES[name]}


def pod(ours: E2ENamespace, scheduler: str, number: int, rng: random.Random) -> Object:
    """Return a pod that wishes something of its node, or nothing."""
    app = f"app{rng.randrange(4)}"
    requests = {"cpu": f"{rng.randrange(1, 8)}00m", "memory": f"{rng.randrange(1, 9)}00Mi"}
    if rng.random() < 0.3:
        requests.pop(rng.choice(("cpu", "memory")))
    gpus = {GPU: "1"} if rng.random() < 0.3 else {}
    affinity: Object = {}
    if rng.random() < 0.3:
        term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
        affinity["nodeAffinity"] = {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": term}]
        }
    if rng.random() < 0.3:
        near = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": ZONE}
        affinity[rng.choice(("podAffinity", "podAntiAffinity"))] = {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": rng.randrange(1, 100), "podAffinityTerm": near}
            ]
        }
    if rng.random() < 0.1:
        own = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": ZONE}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [own]}
        affinity["podAffinity"] = affinity.get("podAffinity", {}) | required
    resources = {"requests": requests | gpus, "limits": gpus}
    names = [*IMAGES, "example.invalid/no", f"example.com/app:v2@sha256:{'0' * 64}"]
    init = [
        {"name": f"init{number}", "image": rng.choice(names)} for number in range(rng.randrange(2))
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": ours.namespace,
            "name": f"{scheduler}-{number}",
            "labels": {"app": app},
        },
        "spec": {
            "schedulerName": scheduler,
            "nodeSelector": {OWNER: ours.namespace},
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "affinity": affinity,
            "initContainers": init,
            "volumes": [{"name": "data", "image": {"reference": rng.choice(names)}}]
            if rng.random() < 0.2
            else [],
            "containers": [
                {"name": "main", "image": rng.choice(names), "resources": resources},
                *(
                    {"name": f"more{n}", "image": rng.choice(names)}
                    for n in range(rng.randrange(3))
                ),
            ],
        },
    }


class Mirror:
    """What our node fit sees of the nodes and pods of a namespace."""

    def __init__(self, ours: E2ENamespace, settings: SchedulerSettings) -> None:
        self._ours = ours
        self._codec, self.state = make_codecs(InternTables()), ClusterState()
        self.fit = SchedulerNodeFit(
            ClusterView(self.state, lambda: 0), lambda: 0, settings.profiles()
        )
        self.see("nodes", *ours.kubectl.get("nodes", "-l", f"{OWNER}={ours.namespace}"))
        self.see("namespaces", *ours.kubectl.get("namespaces"))

    def see(self, kind: str, *objects: Object) -> None:
        """Take over objects as the API server has them."""
        for each in objects:
            codec = getattr(self._codec, kind)
            self.state.upsert(codec.decode_object(json.dumps(each).encode()))

    def predict(self, wanted: Object) -> tuple[str, ...]:
        """Name the nodes with the highest score for a pod that is not created yet."""
        new = {**wanted, "metadata": {**wanted["metadata"], "uid": "new"}}
        decoded = self._codec.pods.decode_object(json.dumps(new).encode())
        assert isinstance(decoded, Pod)
        best, _ = self.fit.explain_other_nodes(decoded, EVERYTHING)
        return tuple(best)

    def place(self, wanted: Object) -> str:
        """Create a pod, and return the name of the node that the real scheduler binds it to."""
        name = wanted["metadata"]["name"]
        kubectl, found = self._ours.kubectl, list[Object]()
        kubectl.apply(wanted)

        def is_bound() -> bool:
            found[:] = kubectl.get("pod", "-n", self._ours.namespace, name)
            return "nodeName" in found[0]["spec"]

        wait_until(is_bound, within_s=60, what=f"{name} is bound", every_s=0.05)
        self.see("pods", *found)
        return str(found[0]["spec"]["nodeName"])


@pytest.fixture
def arena(control_plane: ControlPlane) -> Iterator[E2ENamespace]:
    """Twelve nodes that only the pods of these tests are put on."""
    kubectl = control_plane.kubectl()
    with E2ENamespace(kubectl, f"scores-{os.urandom(5).hex()}") as ours:
        made = list(nodes(ours, random.Random(1)))
        kubectl.apply(*made)
        names = {each["metadata"]["name"] for each in made}
        wait_until(lambda: names <= ours._open_nodes(), within_s=60, what="the nodes are open")
        for number in range(1, 12, 5):
            kubectl.run("taint", "node", ours.node(f"n{number}"), "old=:PreferNoSchedule")
        yield ours


@pytest.mark.parametrize("scheduler", ["default-scheduler", PACKING, WEIGHED, ARGUED])
def test_the_node_of_the_highest_score_is_where_the_real_scheduler_puts_a_pod(
    arena: E2ENamespace, control_plane: ControlPlane, scheduler: str
) -> None:
    written = {"config": [control_plane.scheduler_configuration()]}
    mirror = Mirror(arena, SchedulerSettings.model_validate(written))
    rng = random.Random(scheduler)
    right, wrong = 0, list[str]()
    for number in range(PODS):
        wanted = pod(arena, scheduler, number, rng)
        best = mirror.predict(wanted)
        node = mirror.place(wanted)
        if node not in best:
            wrong.append(f"{wanted['metadata']['name']}: {node}, not {', '.join(best)}")
        elif len(best) == 1:
            right += 1

    assert right > PODS / 2, "too few of the nodes were the only best"
    assert right >= ENOUGH * (right + len(wrong)), wrong
