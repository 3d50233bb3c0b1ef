"""What kubectl expects of a server, which no test of our own client would notice."""

import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.component import ChildProcess
from tests.support.control_plane import RealTools, wait_until
from tests.support.golden import Golden
from tests.support.kubectl import Kubectl, KubectlError

pytestmark = pytest.mark.real

Object = dict[str, Any]  # a Kubernetes object as JSON


@pytest.fixture(scope="module")
def kubectl(real_tools: RealTools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """kubectl on one simulated cluster of six nodes: each test has a namespace of its own."""
    folder = tmp_path_factory.mktemp("simulator")
    config = folder / "kubeconfig"
    size = ("--nodes", "6", "--pods", "80", "--write-kubeconfig", str(config))
    argv = (sys.executable, "-m", "reactive_desched", "sim", *size)
    simulator = ChildProcess("sim", argv, folder / "sim.log")
    simulator.start()
    try:
        wait_until(config.exists, within_s=60, what="the simulator's kubeconfig")
        yield Kubectl(real_tools.paths["kubectl"], config, folder / "cache")
        assert simulator.stop() == 0
        assert "Traceback" not in simulator.tail(1000)
    finally:
        simulator.kill()


def namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def deployment(space: str, replicas: int, **spec: Any) -> Object:
    """Return a Deployment named `web`; `spec` is for its pods."""
    labels = {"app": "web"}
    pod = {"containers": [{"name": "main", "image": "example/web:1"}], **spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": space},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def budget(space: str, min_available: int) -> Object:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": space},
        "spec": {"minAvailable": min_available, "selector": {"matchLabels": {"app": "web"}}},
    }


def rolled_out(kubectl: Kubectl, space: str) -> None:
    kubectl.run("rollout", "status", "deployment/web", "-n", space, "--timeout=60s")


def test_every_kind_is_shown_as_a_table_and_as_objects(kubectl: Kubectl) -> None:
    kinds = kubectl.run("api-resources", "--verbs=list", "-o", "name").split()
    assert {"pods", "poddisruptionbudgets.policy", "nodes.metrics.k8s.io"} <= set(kinds)

    def agree(kind: str) -> bool:
        named = kubectl.run("get", kind, "-A", "-o", "name").split()
        table = kubectl.run("get", kind, "-A", "-o", "wide").splitlines()
        return len(kubectl.get(kind, "-A")) == len(named) == len(table[1:])

    for kind in kinds:  # the cluster is still starting its pods: three looks may differ at first
        wait_until(partial(agree, kind), within_s=60, what=f"{kind} shown alike in three forms")


def test_what_is_done_to_a_node_is_seen_on_it(kubectl: Kubectl) -> None:
    def line() -> list[str]:
        return kubectl.run("get", "node", "node-1", "--no-headers", "-L", "disk").split()

    kubectl.run("taint", "node", "node-1", "gpu=yes:NoSchedule")
    kubectl.run("label", "node", "node-1", "disk=ssd")
    kubectl.run("cordon", "node-1")
    assert (line()[1], line()[-1]) == ("Ready,SchedulingDisabled", "ssd")
    (node,) = kubectl.get("nodes", "--field-selector", "spec.unschedulable=true")
    assert {"key": "gpu", "value": "yes", "effect": "NoSchedule"} in node["spec"]["taints"]
    with pytest.raises(KubectlError, match="already has gpu taint"):
        kubectl.run("taint", "node", "node-1", "gpu=yes:NoSchedule")

    kubectl.run("taint", "node", "node-1", "gpu-")
    kubectl.run("label", "node", "node-1", "disk-")
    kubectl.run("uncordon", "node-1")
    assert line()[1] == "Ready"
    assert "taints" not in kubectl.get("node", "node-1")[0]["spec"]


def test_a_watch_follows_a_pod_from_its_creation_to_its_end(
    kubectl: Kubectl, tmp_path: Path
) -> None:
    kubectl.apply(namespace("watched"), deployment("watched", 1))
    rolled_out(kubectl, "watched")
    form = "jsonpath={.object.metadata.name} {.type} {.object.status.phase}\n"
    options = ("-n", "watched", "--watch", "--output-watch-events", "-o", form)
    watch = ChildProcess("watch", kubectl.argv("get", "pods", *options), tmp_path / "watch.log")
    watch.start()
    try:
        wait_until(lambda: "ADDED Running" in watch.tail(1), within_s=60, what="the watch")
        first = watch.tail(1).split()[0]
        for replicas in ("2", "0"):
            kubectl.run("scale", "deployment/web", "-n", "watched", f"--replicas={replicas}")
            rolled_out(kubectl, "watched")
        wait_until(lambda: watch.tail(40).count("DELETED") == 2, within_s=60, what="the pods' end")
    finally:
        watch.kill()
    lines = [line.split(maxsplit=1) for line in watch.tail(40).splitlines()]
    second = [what for name, what in lines if name != first]
    assert (second[0], second[-1].split()[0]) == ("ADDED Pending", "DELETED")
    assert "MODIFIED Running" in second


def test_a_drain_waits_for_the_disruption_budget_and_then_succeeds(
    kubectl: Kubectl, tmp_path: Path
) -> None:
    kubectl.apply(namespace("drained"), deployment("drained", 2))
    rolled_out(kubectl, "drained")
    kubectl.apply(budget("drained", 2))
    node = kubectl.get("pods", "-n", "drained")[0]["spec"]["nodeName"]
    options = ("--ignore-daemonsets", "--delete-emptydir-data", "--timeout=90s")
    drain = ChildProcess("drain", kubectl.argv("drain", node, *options), tmp_path / "drain.log")
    drain.start()
    try:
        refused = "will retry after 5s): Cannot evict pod as it would violate the pod's disruption"
        wait_until(lambda: refused in drain.tail(200), within_s=60, what="the budget's refusal")
        kubectl.run("delete", "pdb", "web", "-n", "drained")
        wait_until(lambda: not drain.alive, within_s=60, what="the end of the drain")
    finally:
        drain.kill()
    assert f"node/{node} drained" in drain.tail(5)
    rolled_out(kubectl, "drained")
    assert node not in {pod["spec"]["nodeName"] for pod in kubectl.get("pods", "-n", "drained")}
    kubectl.run("uncordon", node)


def test_apply_creates_changes_and_leaves_alone_what_is_equal(kubectl: Kubectl) -> None:
    def applied(*objects: Object, how: tuple[str, ...] = ()) -> str:
        listed = {"apiVersion": "v1", "kind": "List", "items": objects}
        return kubectl.run("apply", "-f", "-", *how, stdin=json.dumps(listed))

    web, bigger = deployment("applied", 1), deployment("applied", 2)
    assert "deployment.apps/web created" in applied(namespace("applied"), web)
    assert "deployment.apps/web unchanged" in applied(web)
    assert "deployment.apps/web configured" in applied(bigger)
    rolled_out(kubectl, "applied")
    kubectl.run("wait", "--for=condition=Available", "deployment/web", "-n", "applied")
    assert len(kubectl.get("pods", "-n", "applied")) == 2

    by_server = ("--server-side", "--force-conflicts")
    assert "deployment.apps/web serverside-applied" in applied(web, how=by_server)
    rolled_out(kubectl, "applied")
    told = kubectl.run("events", "-n", "applied", "--for", "deployment/web")
    assert "from 2 to 1" in told


def test_a_misspelt_field_is_refused_as_kubectl_asks(kubectl: Kubectl) -> None:
    misspelt = {**namespace("misspelt"), "specs": {}}
    with pytest.raises(KubectlError, match='strict decoding error: unknown field "specs"'):
        kubectl.run("apply", "-f", "-", stdin=json.dumps(misspelt))

    _, warned = kubectl.run_loud("apply", "--validate=warn", "-f", "-", stdin=json.dumps(misspelt))
    assert 'Warning: unknown field "specs"' in warned


def test_each_kind_of_patch_and_each_way_to_delete(kubectl: Kubectl) -> None:
    kubectl.apply(namespace("patched"), deployment("patched", 1))
    rolled_out(kubectl, "patched")
    ours = ("deployment", "web", "-n", "patched")
    limited = [{"name": "main", "resources": {"limits": {"cpu": "1"}}}]
    strategic = json.dumps({"spec": {"template": {"spec": {"containers": limited}}}})
    kubectl.run("patch", *ours, "-p", strategic)
    kubectl.run("patch", *ours, "--type=merge", "-p", '{"metadata":{"labels":{"a":"b"}}}')
    kubectl.run("patch", *ours, "--type=json", "-p", '[{"op":"remove","path":"/metadata/labels"}]')

    (web,) = kubectl.get(*ours)
    (container,) = web["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["resources"]) == (
        "example/web:1",
        {"limits": {"cpu": "1"}},
    )
    assert "labels" not in web["metadata"]

    kubectl.run("delete", *ours, "--cascade=orphan")
    orphans = kubectl.get("replicasets", "-n", "patched")
    assert orphans
    assert not any("ownerReferences" in each["metadata"] for each in orphans)
    kubectl.run("delete", "replicasets", "-n", "patched", "--all", "--cascade=foreground")
    assert kubectl.get("pods", "-n", "patched") == []


DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
FOLDERS = [
    *("overlays/preview", "overlays/dry-run", "controller", "job", "cronjob"),
    *("overlays/no-volume", "overlays/ha", "examples/policy", "examples/kafka"),
    *("examples/tokens", "examples/egress", "examples/namespace"),
    *("monitoring/dashboards", "migration", "examples/resources"),
]


def test_the_manifests_apply_one_after_the_other_as_on_a_real_cluster(kubectl: Kubectl) -> None:
    assert set(FOLDERS) == {
        str(path.parent.relative_to(DEPLOY)) for path in DEPLOY.rglob("kustomization.yaml")
    } - {"base"}
    for folder in FOLDERS:
        _, warned = kubectl.run_loud("apply", "--validate=strict", "-k", str(DEPLOY / folder))
        assert (folder, warned) == (folder, "")
    again = kubectl.run("apply", "-k", str(DEPLOY / FOLDERS[-1])).splitlines()
    assert [line for line in again if not line.endswith("unchanged")] == []


def test_a_dry_run_may_not_evict_and_the_controller_may(kubectl: Kubectl) -> None:
    def may_evict(folder: str, account: str) -> str:
        kubectl.run("apply", "-k", str(DEPLOY / folder))
        user = f"system:serviceaccount:reactive-desched:{account}"
        asked = ("auth", "can-i", "create", "pods", "--subresource=eviction", "-A", "--as", user)
        try:
            return kubectl.run(*asked).strip()
        except KubectlError:
            return "no"

    assert may_evict("overlays/dry-run", "reactive-desched") == "no"
    assert may_evict("controller", "reactive-desched") == "yes"
    assert may_evict("overlays/preview", "reactive-desched-preview") == "no"
    assert may_evict("overlays/preview", "reactive-desched") == "yes"


ACCOUNT = "system:serviceaccount:rights:reader"


def test_least_privilege_can_be_tried(kubectl: Kubectl) -> None:
    def may(verb: str, kind: str, *how: str) -> str:
        try:
            return kubectl.run("auth", "can-i", verb, kind, "--as", ACCOUNT, *how).strip()
        except KubectlError:
            return "no"

    kubectl.apply(namespace("rights"))
    kubectl.run("create", "serviceaccount", "reader", "-n", "rights")
    made = ("--verb=get,list", "--resource=pods", "-n", "rights")
    kubectl.run("create", "role", "reader", *made)
    bound = ("--role=reader", "--serviceaccount=rights:reader", "-n", "rights")
    kubectl.run("create", "rolebinding", "reader", *bound)

    assert may("list", "pods", "-n", "rights") == "yes"
    assert may("list", "pods", "-A") == "no"
    assert may("create", "pods", "--subresource=eviction", "-n", "rights") == "no"
    kubectl.run("get", "pods", "-n", "rights", "--as", ACCOUNT)
    with pytest.raises(KubectlError, match=f'User "{ACCOUNT}" cannot list resource "nodes"'):
        kubectl.run("get", "nodes", "--as", ACCOUNT)
    assert ACCOUNT in kubectl.run("auth", "whoami", "--as", ACCOUNT)
    assert kubectl.run("create", "token", "reader", "-n", "rights").count(".") == 2


def test_kubectl_explains_the_fields_of_a_kind(kubectl: Kubectl, golden: Golden) -> None:
    told = kubectl.run("explain", "deployment.spec.template.spec.containers.resources")
    assert "requests\t<map[string]Quantity>" in told
    assert golden() in told
    assert "podSelector\t<LabelSelector>" in kubectl.run("explain", "netpol.spec")
    with pytest.raises(KubectlError, match='field "nonsense" does not exist'):
        kubectl.run("explain", "pod.nonsense")


@pytest.mark.parametrize(
    "asked",
    [
        ("logs", "{pod}"),
        ("exec", "{pod}", "--", "true"),
        ("attach", "{pod}"),
        ("port-forward", "{pod}", "8080:80"),
        ("debug", "{pod}", "--image=busybox"),
    ],
    ids=lambda asked: asked[0],
)
def test_what_needs_a_container_says_so_in_a_sentence(
    kubectl: Kubectl, asked: tuple[str, ...], golden: Golden
) -> None:
    kubectl.run("wait", "--for=condition=Ready", "pods", "--all", "-n", "kube-system")
    (pod, *_) = kubectl.get("pods", "-n", "kube-system")
    words = (word.format(pod=pod["metadata"]["name"]) for word in asked)
    with pytest.raises(KubectlError) as caught:
        kubectl.run("-n", "kube-system", *words)

    assert golden() in str(caught.value)
