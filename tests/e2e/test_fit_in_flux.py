"""Our filters agree with the real kube-scheduler about pods that are resized, nominated or charged.

On drawn clusters pods hold more, or less, than the requests of their specs: while their kubelet
resizes them in place, by the overhead of their RuntimeClass, and by requests of the pod as a whole.
Others wait for room that is kept for them, and keep company with some pods and not with others.
"""

import json
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.e2e.test_fit import (
    NODES,
    REFUSAL_LASTS_S,
    ZONE,
    container,
    even,
    fitting,
    near,
    node,
    pod,
    required,
    theirs,
)
from tests.support.control_plane import ControlPlane, wait_until
from tests.support.playground import OWNER, E2ENamespace

pytestmark = pytest.mark.real

Object = dict[str, Any]  # a Kubernetes object as JSON
SEEDS = (0, 1, 17, 20, 305)  # the last one's nodes declare no feature
PODS = 6
HOST = "kubernetes.io/hostname"
RESTART_ALL = "RestartAllContainersOnContainerExits"
CPU = (300, 500, 700, 900, 1200)
"""Drawn often enough alike that what is free is just what is asked for."""

OVERHEAD = {"cpu": "200m", "memory": "64Mi"}
PRIORITIES = {"low": 10, "middle": 100, "high": 1000}
"""None of them preempts: that would end the pods beside which the next one is compared."""


def milli(amount: int) -> str:
    return f"{amount}m"


def _class(ours: E2ENamespace, name: str) -> str:
    return f"{ours.namespace}-{name}"


def _charged(ours: E2ENamespace) -> Object:
    """Return a RuntimeClass whose pods are charged a share of cpu beside their requests."""
    meta = {"name": _class(ours, "charged"), "labels": {OWNER: ours.namespace}}
    head = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass"}
    return {**head, "metadata": meta, "handler": "any", "overhead": {"podFixed": OVERHEAD}}


def _priorities(ours: E2ENamespace) -> Iterator[Object]:
    for name, value in PRIORITIES.items():
        meta = {"name": _class(ours, name), "labels": {OWNER: ours.namespace}}
        head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        yield {**head, "metadata": meta, "value": value, "preemptionPolicy": "Never"}


def drawn_spec(ours: E2ENamespace, rng: random.Random) -> Object:
    """Draw what a pod holds: by its containers, as a whole, and by its RuntimeClass."""
    spec = container(cpu=milli(rng.choice(CPU)))
    if rng.random() < 0.3:
        beside = container(cpu=milli(rng.choice(CPU)))["containers"][0] | {"name": "beside"}
        once = {"restartPolicy": "Always"} if rng.random() < 0.6 else {}
        spec["initContainers"] = [beside | once]
    if rng.random() < 0.3:
        asked = sum(_cpu(each) for each in spec["containers"] + spec.get("initContainers", []))
        spec["resources"] = {"requests": {"cpu": milli(asked + rng.choice((0, 200, 700)))}}
    if rng.random() < 0.3:
        spec["runtimeClassName"] = _class(ours, "charged")
    if rng.random() < 0.5:
        spec["priorityClassName"] = _class(ours, rng.choice((*PRIORITIES,)))
    return spec


def _cpu(one: Object) -> int:
    return int(str(one["resources"]["requests"]["cpu"]).removesuffix("m"))


def drawn_feature(rng: random.Random) -> Object:
    """Draw fields of a container that only nodes run which declare a feature, or none."""
    if rng.random() < 0.7:
        return {}
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
    return {"restartPolicy": "Never", "restartPolicyRules": [rule]}


@contextmanager
def drawn_cluster(
    control_plane: ControlPlane, rng: random.Random, name: str
) -> Iterator[E2ENamespace]:
    """Four nodes on which pods run that are about to hold more or less."""
    kubectl = control_plane.kubectl()
    with E2ENamespace(kubectl, name) as ours:
        try:
            kubectl.apply(_charged(ours), *_priorities(ours))
            kubectl.apply(*(_node(ours, each, rng) for each in NODES))
            names = {ours.node(each) for each in NODES}
            wait_until(lambda: names <= ours._open_nodes(), within_s=60, what="the nodes are open")
            residents = [
                pod(ours.namespace, f"r{n}", "resident", ours.node(rng.choice(NODES)), **spec)
                for n in range(7)
                for spec in [drawn_spec(ours, rng)]
            ]
            kubectl.apply(*residents)
            wait_until(lambda: _phases(ours) == {"Running"}, within_s=60, what="pods run")
            for each in kubectl.get("pods", "-n", ours.namespace):
                if rng.random() < 0.6:
                    _resize(ours, each, rng)
            _nominate(ours, rng)
            yield ours
        finally:
            chosen = ("-l", f"{OWNER}={ours.namespace}", "--wait=false")
            kubectl.run("delete", "runtimeclass", *chosen)
            kubectl.run("delete", "priorityclass", *chosen)


def _node(ours: E2ENamespace, name: str, rng: random.Random) -> Object:
    made = node(ours, name, {"cpu": milli(rng.choice((3000, 3500, 4000)))})
    if rng.random() < 0.5:
        made["status"]["declaredFeatures"] = [RESTART_ALL]
    return made


def _phases(ours: E2ENamespace) -> set[str]:
    pods = ours.kubectl.get("pods", "-n", ours.namespace)
    return {each["status"].get("phase", "") for each in pods}


def _resize(ours: E2ENamespace, resident: Object, rng: random.Random) -> None:
    """Have the spec, the allocated and the actual resources of a pod differ."""
    status, spec = resident["status"], resident["spec"]
    for field in ("containerStatuses", "initContainerStatuses"):
        for each in status.get(field, ()):
            if rng.random() < 0.8:
                each["allocatedResources"] = {"cpu": milli(rng.choice(CPU))}
            if rng.random() < 0.8:
                each["resources"] = {"requests": {"cpu": milli(rng.choice(CPU))}}
    change: Object = {key: status[key] for key in status if key.endswith("ontainerStatuses")}
    if "resources" in spec and rng.random() < 0.7:
        change["allocatedResources"] = {"cpu": milli(rng.choice(CPU) + 400)}
        change["resources"] = {"requests": {"cpu": milli(rng.choice(CPU) + 400)}}
    if rng.random() < 0.6:
        reason = rng.choice(("Infeasible", "Deferred"))
        pending = {"type": "PodResizePending", "status": "True", "reason": reason}
        change["conditions"] = [pending]
    _patch_status(ours, resident["metadata"]["name"], change)


def _patch_status(ours: E2ENamespace, name: str, change: Object) -> None:
    text = json.dumps({"status": change})
    where = ("pod", "-n", ours.namespace, name, "--subresource=status")
    ours.kubectl.run("patch", *where, "--type=strategic", "-p", text)


def _nominate(ours: E2ENamespace, rng: random.Random) -> None:
    """Keep room of some nodes for pods that nothing schedules while we look."""
    for number in range(rng.choice((1, 2, 3))):
        spec = drawn_spec(ours, rng)
        _nominate_one(ours, pod(ours.namespace, f"n{number}", "nominated", **spec), rng)


def _nominate_one(ours: E2ENamespace, waiting: Object, rng: random.Random) -> None:
    name = waiting["metadata"]["name"]
    waiting["spec"]["nodeSelector"] = {"no-such-node": "true"}
    ours.kubectl.apply(waiting)

    def is_refused() -> bool:
        (found,) = ours.kubectl.get("pod", "-n", ours.namespace, name)
        conditions = found["status"].get("conditions", ())
        return any(each.get("reason") == "Unschedulable" for each in conditions)

    wait_until(is_refused, within_s=60, what=f"{name} is refused")
    _patch_status(ours, name, {"nominatedNodeName": ours.node(rng.choice(NODES))})


def real_nodes(ours: E2ENamespace, name: str, spec: Object, likely: set[str]) -> set[str]:
    """Let the real scheduler decide about one pod for each node; return where it puts them.

    A refusal where we find that the pod fits must last.
    """
    pods = {each: f"{name}-{each}" for each in NODES}
    ours.kubectl.apply(
        *(
            pod(ours.namespace, made, "asked", **{**spec, "nodeSelector": {HOST: ours.node(each)}})
            for each, made in pods.items()
        )
    )
    began, placed = time.monotonic(), set[str]()

    def are_decided() -> bool:
        found = {p["metadata"]["name"]: p for p in ours.kubectl.get("pods", "-n", ours.namespace)}
        lasts = time.monotonic() - began >= REFUSAL_LASTS_S
        decided = 0
        for each, made in pods.items():
            conditions = found[made]["status"].get("conditions", ())
            refused = any(c.get("reason") == "Unschedulable" for c in conditions)
            if "nodeName" in found[made]["spec"]:
                placed.add(each)
                decided += 1
            elif refused and (lasts or each not in likely):
                decided += 1
        return decided == len(pods)

    wait_until(are_decided, within_s=60, what=f"{name} is scheduled or refused")
    force = ("--grace-period=0", "--force")
    ours.kubectl.run("delete", "pod", "-n", ours.namespace, *pods.values(), *force)
    return placed


@pytest.mark.parametrize("seed", SEEDS)
def test_our_filters_agree_on_pods_whose_requests_are_in_flux(
    control_plane: ControlPlane, seed: int
) -> None:
    rng = random.Random(seed)
    differing, placed = list[str](), 0
    with drawn_cluster(control_plane, rng, f"flux-{seed}-{os.urandom(5).hex()}") as ours:
        for number in range(PODS):
            spec = drawn_spec(ours, rng)
            spec["containers"][0] |= drawn_feature(rng)
            expected = _as_admitted(spec)
            found = fitting(ours, expected)
            real = real_nodes(ours, f"d{number}", spec, found)
            placed += len(real)
            if found != real:
                differing.append(f"{found} here, {real} there: {json.dumps(expected)}")

    assert not differing, "\n".join(differing)
    assert 0 < placed < PODS * len(NODES), "the draws do not part the nodes"


APPS = ("web", "db")
"""Few, so that what one pod wants of others is often about the next one."""


def drawn_company(ours: E2ENamespace, rng: random.Random) -> Object:
    """Draw what a pod wants of others: to be apart, together or even with them, and a port."""
    ports: list[Object] = [{"containerPort": 80, "hostPort": 8080}] if rng.random() < 0.2 else []
    spec = container(tuple(ports), cpu=milli(rng.choice((100, 1200))))
    affinity: Object = {}
    for kind, likely in (("podAntiAffinity", 0.35), ("podAffinity", 0.15)):
        if rng.random() < likely:
            affinity[kind] = required(near(rng.choice(APPS), rng.choice((HOST, ZONE))))
    if rng.random() < 0.3:
        counted: Object = rng.choice(({"matchLabels": {"app": rng.choice(APPS)}}, {}))
        spread = {**even(rng.choice((HOST, ZONE))), "labelSelector": counted}
        spec["topologySpreadConstraints"] = [spread]
    if affinity:
        spec["affinity"] = affinity
    return spec | {"priorityClassName": _class(ours, rng.choice((*PRIORITIES,)))}


@pytest.mark.parametrize("seed", range(6))
def test_our_filters_agree_beside_nominated_pods_that_keep_company(
    control_plane: ControlPlane, seed: int
) -> None:
    rng = random.Random(seed)
    differing, placed = list[str](), 0
    kubectl = control_plane.kubectl()
    with E2ENamespace(kubectl, f"company-{seed}-{os.urandom(5).hex()}") as ours:
        try:
            kubectl.apply(*_priorities(ours), *(_node(ours, each, rng) for each in NODES))
            names = {ours.node(each) for each in NODES}
            wait_until(lambda: names <= ours._open_nodes(), within_s=60, what="the nodes are open")
            for number in range(rng.randrange(4)):
                at = ours.node(rng.choice(NODES))
                spec = drawn_company(ours, rng)
                kubectl.apply(pod(ours.namespace, f"r{number}", rng.choice(APPS), at, **spec))
            for number in range(3):
                spec = drawn_company(ours, rng)
                waiting = pod(ours.namespace, f"n{number}", rng.choice(APPS), **spec)
                _nominate_one(ours, waiting, rng)
            for number in range(PODS):
                wanted = {"app": rng.choice(APPS), **drawn_company(ours, rng)}
                found = fitting(ours, _as_admitted(wanted))
                real = {
                    each
                    for each in NODES
                    if theirs(ours, f"c{number}-{each}", dict(wanted), each, likely=each in found)
                }
                placed += len(real)
                if found != real:
                    differing.append(f"{found} here, {real} there: {json.dumps(wanted)}")
        finally:
            chosen = ("-l", f"{OWNER}={ours.namespace}", "--wait=false")
            kubectl.run("delete", "priorityclass", *chosen)

    assert not differing, "\n".join(differing)
    assert 0 < placed < PODS * len(NODES), "the draws do not part the nodes"


def _as_admitted(spec: Object) -> Object:
    """Return a spec with what the API server adds for its classes."""
    name = str(spec.get("priorityClassName", "")).rpartition("-")[2]
    charged = {"overhead": OVERHEAD} if "runtimeClassName" in spec else {}
    return {**spec, **charged, "priority": PRIORITIES.get(name, 0)}
