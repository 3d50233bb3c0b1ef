"""What a tenant writes on a real API server ends, stalls and fills nothing, and others go on."""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import pytest

from reactive_desched.cli import main
from tests.support import manifests
from tests.support.control_plane import ControlPlane, wait_until
from tests.support.controller_process import RunController
from tests.support.kubectl import Kubectl, KubectlError, Object
from tests.support.limits import UNLIMITED
from tests.support.playground import OWNER, E2ENamespace

pytestmark = pytest.mark.real

BIDI: Final = "\u202egnp.exe\u202c"
WRITTEN: Final = f"\x1b[31m\x1b]0;owned\x07<script>alert(1)</script>|`*_[x](http://e)@all\r\n{BIDI}"
SETTINGS: Final = (
    "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"
    "debounce: {quiet: 200ms, maxWait: 2s}\n"
    "brakes: {pending: {pods: 6, after: 1s}}\n"
) + UNLIMITED
MAX_LOG_CHARS: Final = 20_000
MAX_RECORD_BYTES: Final = 64_000


class Tenant:
    """Somebody who may do anything in one namespace, and nothing outside of it."""

    def __init__(self, ours: E2ENamespace, plane: ControlPlane) -> None:
        self.namespace = f"{ours.namespace}-tenant"
        self.node = ours.node("old")
        self._ours = ours
        ours.kubectl.apply(
            manifests.namespace(self.namespace),
            self._object("ServiceAccount", "owner", api="v1"),
            self._object(
                "Role",
                "owner",
                api="rbac.authorization.k8s.io/v1",
                rules=[{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
            ),
            self._object(
                "RoleBinding",
                "owner",
                api="rbac.authorization.k8s.io/v1",
                roleRef={
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "Role",
                    "name": "owner",
                },
                subjects=[{"kind": "ServiceAccount", "name": "owner", "namespace": self.namespace}],
            ),
        )
        path = plane.service_account_kubeconfig(self.namespace, "owner")
        self.kubectl: Kubectl = replace(ours.kubectl, kubeconfig=path)

    def create(self, *objects: Object) -> None:
        """Create objects, which the server must admit; no annotation keeps what was applied."""
        for each in objects:
            self.kubectl.run("create", "-f", "-", stdin=json.dumps(each))

    def pod(self, name: str, *, on: str | None = None, **parts: Any) -> Object:
        """Return a pod on the node that is to be emptied, with these parts in place of usual ones.

        Members of `spec`, `metadata` and `container` are added to those that there are.
        """
        metadata = {"labels": {"app": "hostile"}, "ownerReferences": [self.owner()]}
        container = {"name": "c", "image": "i", **parts.get("container", {})}
        made = self._object("Pod", name, api="v1")
        made["metadata"] |= metadata | parts.get("metadata", {})
        made["spec"] = {
            "nodeName": self.node if on is None else on,
            "containers": [container],
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            **parts.get("spec", {}),
        }
        return made

    def waiting_pod(self, number: int) -> Object:
        """Return a pod that fits on no node."""
        made = self.pod(f"waits-{number}")
        del made["spec"]["nodeName"]
        made["spec"]["nodeSelector"] = {OWNER: "nowhere"}
        return made

    def owner(self, name: str = "gone", kind: str = "Hostile") -> Object:
        """Return a controller of a kind that the cluster lacks, so that nothing collects it."""
        return {
            "apiVersion": "example.com/v1",
            "kind": kind,
            "name": name,
            "uid": "6f9619ff-8b86-d011-b42d-00cf4fc964ff",
            "controller": True,
        }

    def write_status(self, pod: str, **status: Any) -> None:
        """Write a pod's status, which a right on pods/status allows."""
        where = ("-n", self.namespace, pod, "--subresource=status")
        patch = json.dumps({"status": status})  # longer than an argument may be
        self.kubectl.run("patch", "pod", *where, "--patch-file=/dev/stdin", stdin=patch)

    def _object(self, kind: str, name: str, *, api: str, **members: Any) -> Object:
        meta = {"namespace": self.namespace, "name": name}
        return {"apiVersion": api, "kind": kind, "metadata": meta, **members}


def terms(count: int) -> list[Object]:
    """Return so many terms, all of which match any pod."""
    return [
        {"topologyKey": f"example.com/k{number}", "labelSelector": {}, "namespaceSelector": {}}
        for number in range(count)
    ]


def hostile_pods(of: Tenant) -> Iterator[Object]:
    """Yield pods that hold as much, and as odd things, as the API server admits."""
    yield of.pod("owner", metadata={"ownerReferences": [of.owner("x" * 300_000)]})
    yield of.pod("kind", metadata={"ownerReferences": [of.owner(WRITTEN, WRITTEN)]})
    many = [{**of.owner(f"o{n}"), "controller": False} for n in range(300)]
    yield of.pod("owners", metadata={"ownerReferences": [of.owner(), *many]})
    yield of.pod("n" * 253)
    labels = {f"example.com/{'k' * 50}{n}": "v" * 63 for n in range(5_000)}
    yield of.pod("labels", metadata={"labels": labels})
    texts = {
        "descheduler.alpha.kubernetes.io/prefer-no-eviction": WRITTEN,
        "reactive-desched.io/do-not-evict": WRITTEN,
        "cluster-autoscaler.kubernetes.io/safe-to-evict": WRITTEN,
        "controller.kubernetes.io/pod-deletion-cost": "2147483647",
        "scheduling.koordinator.sh/eviction-cost": "-" + "9" * 5_000,
        "pod-group.scheduling.sigs.k8s.io/name": WRITTEN,
        "example.com/lone": "\\ud800",
        "example.com/long": "\u202e" * 60_000,
    }
    yield of.pod("annotations", metadata={"annotations": texts})
    yield of.pod("mirror", metadata={"annotations": {"kubernetes.io/config.mirror": WRITTEN}})
    yield of.pod("finalizer", metadata={"finalizers": ["example.com/never"]})
    for kind in ("podAffinity", "podAntiAffinity"):
        required = {"requiredDuringSchedulingIgnoredDuringExecution": terms(8_000)}
        yield of.pod(kind.lower(), spec={"affinity": {kind: required}})
    spread = [
        {
            "maxSkew": 1,
            "topologyKey": f"example.com/k{n}",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {},
        }
        for n in range(2_000)
    ]
    yield of.pod("spread", spec={"topologySpreadConstraints": spread})
    tolerations = [{"key": f"k{n}", "operator": "Exists"} for n in range(20_000)]
    yield of.pod("tolerations", spec={"tolerations": tolerations})
    alternatives = [
        {"matchExpressions": [{"key": f"k{n}", "operator": "In", "values": ["a", "b"]}]}
        for n in range(8_000)
    ]
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": alternatives}}
    yield of.pod("alternatives", spec={"affinity": {"nodeAffinity": rules}})
    containers = [{"name": f"c{n}", "image": "i"} for n in range(4_000)]
    yield of.pod("containers", spec={"containers": containers})
    most = {"cpu": str(2**63 - 1), "memory": str(2**63 - 1), "ephemeral-storage": "1n"}
    yield of.pod("most", container={"resources": {"requests": most}})
    tiny = {"cpu": "1n", "memory": "1m", **{f"example.com/r{n}": "9E" for n in range(1_000)}}
    yield of.pod("tiny", container={"resources": {"requests": tiny, "limits": tiny}})
    volumes = [
        {"name": f"v{n}", "persistentVolumeClaim": {"claimName": f"c{n}"}} for n in range(5_000)
    ]
    yield of.pod("volumes", spec={"volumes": volumes})
    yield of.pod("image", container={"image": WRITTEN.strip()})
    yield of.pod("elsewhere", on=f"{'m' * 63}.{'m' * 63}.{'m' * 63}.{'m' * 61}")
    yield of.pod("status")


def hostile_status() -> Object:
    """Return a status as odd as the API server admits."""
    odd = {"status": "True", "reason": "R" * 500, "message": WRITTEN * 20}
    return {
        "phase": "Failed",
        "reason": WRITTEN,
        "message": WRITTEN * 1_000,
        "startTime": "9999-12-31T23:59:59Z",
        "conditions": [
            {"type": f"example.com/t{n}", "lastTransitionTime": "0001-01-01T00:00:00Z", **odd}
            for n in range(200)
        ],
    }


def other_objects(of: Tenant) -> Iterator[Object]:
    """Yield objects of other kinds that decisions read, and some that look like ours."""

    def made(kind: str, name: str, api: str, **members: Any) -> Object:
        meta = {"namespace": of.namespace, "name": name}
        return {"apiVersion": api, "kind": kind, "metadata": meta, **members}

    expressions = [
        {"key": "app", "operator": "NotIn", "values": [f"v{n}", "w"]} for n in range(8_000)
    ]
    yield made(
        "PodDisruptionBudget",
        "expressions",
        "policy/v1",
        spec={"maxUnavailable": 1, "selector": {"matchExpressions": expressions}},
    )
    template: Object = {
        "metadata": {"labels": {"app": "zero"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    yield made(
        "Deployment",
        "zero",
        "apps/v1",
        spec={
            "replicas": 0,
            "selector": {"matchLabels": {"app": "zero"}},
            "template": template,
            "progressDeadlineSeconds": 2**31 - 1,
        },
    )
    yield made(
        "Job",
        "most",
        "batch/v1",
        spec={
            "parallelism": 0,
            "completions": 2**31 - 1,
            "backoffLimit": 2**31 - 1,
            "template": {**template, "spec": {**template["spec"], "restartPolicy": "Never"}},
        },
    )
    yield made(
        "PersistentVolumeClaim",
        "c0",
        "v1",
        spec={
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": str(2**63 - 1)}},
        },
    )
    yield made("Lease", "reactive-desched", "coordination.k8s.io/v1", spec={"holderIdentity": "x"})
    yield made("ConfigMap", "reactive-desched", "v1", data={"pause": "true"})


def text_of(command: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with suppress(SystemExit):
        main(command)
    return "".join(capsys.readouterr())


def test_whatever_a_tenant_creates_pods_of_others_are_moved_and_all_is_said_in_one_line(
    playground: E2ENamespace,
    control_plane: ControlPlane,
    run_controller: RunController,
    capsys: pytest.CaptureFixture[str],
) -> None:
    playground.settings = SETTINGS
    playground.add_nodes("old")
    before = playground.deploy(
        "web", 30
    )  # more than the tenant has: one that has half counts in full
    playground.add_nodes("new")
    tenant = Tenant(playground, control_plane)
    both = {"namespaces": {"include": [playground.namespace, tenant.namespace]}}
    playground.plugins = {
        "RemovePodsViolatingNodeTaints": both,
        "RemovePodsViolatingInterPodAntiAffinity": both,
        "RemoveFailedPods": {**both, "includingInitContainers": True},
        "RemovePodsHavingTooManyRestarts": {**both, "podRestartThreshold": 5},
    }

    try:
        with run_controller() as controller:
            tenant.create(*hostile_pods(tenant), *other_objects(tenant))
            tenant.write_status("status", **hostile_status())
            tenant.create(*(tenant.waiting_pod(number) for number in range(8)))
            tenant.kubectl.run("delete", "pod", "finalizer", "-n", tenant.namespace, "--wait=false")
            scope = f"namespace {tenant.namespace}"
            wait_until(
                lambda: scope in controller.page("/readyz?verbose"),
                within_s=60,
                what="the tenant's pods that fit nowhere hold the tenant's namespace",
            )
            playground.taint("old", "gpu=yes:NoSchedule")
            wait_until(
                lambda: not playground.pods("web").keys() & before.keys(),
                within_s=60,
                what="the pods of others have left",
            )
            controller.await_ready()
            pages = [controller.page(path) for path in ("/", "/debug/pending", "/metrics")]
            assert "<script>alert" not in pages[0]
            assert "\x1b" not in "".join(pages)
            for command in ("status", "pending", "top --once"):
                said = text_of([*command.split(), "--server", controller.url], capsys)
                assert "\x1b" not in said
                assert BIDI[0] not in said
            assert not [
                line
                for line in pages[2].splitlines()
                if line.startswith("reactive_desched_plugin_errors_total") and line[-2:] != " 0"
            ]
    finally:
        for kind, name in (("pod", "finalizer"),):
            with suppress(KubectlError):
                patch = '{"metadata":{"finalizers":null}}'
                tenant.kubectl.run("patch", kind, name, "-n", tenant.namespace, "-p", patch)
        playground.kubectl.run("delete", "namespace", tenant.namespace, "--wait=false")

    for line in controller.log.splitlines():
        assert len(line) < MAX_LOG_CHARS
        assert not any(char in line for char in ("\x1b", "\u202e"))
    for segment in controller.journal.rglob("*.jsonl"):
        for record in segment.read_bytes().splitlines():
            assert len(record) < MAX_RECORD_BYTES
