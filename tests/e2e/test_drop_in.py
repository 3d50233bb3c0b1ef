"""In place of the SIG descheduler: its rights, its command line, and what the docs say to add."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.control_plane import ControlPlane, wait_until
from tests.support.playground import E2ENamespace

pytestmark = pytest.mark.real

ACCOUNT = "descheduler"
# The rights that the Helm chart of v0.36 grants.
ROLE = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: descheduler, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: descheduler}
rules:
- {apiGroups: [events.k8s.io], resources: [events], verbs: [create, update]}
- apiGroups: [""]
  resources: [nodes, namespaces, pods, persistentvolumeclaims]
  verbs: [get, watch, list]
- {apiGroups: [""], resources: [pods/eviction], verbs: [create]}
- {apiGroups: [scheduling.k8s.io], resources: [priorityclasses], verbs: [get, watch, list]}
- {apiGroups: [policy], resources: [poddisruptionbudgets], verbs: [get, watch, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: descheduler}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: descheduler}
subjects: [{kind: ServiceAccount, name: descheduler, namespace: kube-system}]
"""
PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "sig-descheduler.md"


@pytest.fixture
def log(control_plane: ControlPlane, playground: E2ENamespace, tmp_path: Path) -> Iterator[Path]:
    """Run it as a Deployment of the SIG descheduler would; the log grows in this file."""
    control_plane.kubectl().run("apply", "-f", "-", stdin=ROLE)
    kubeconfig = control_plane.service_account_kubeconfig("kube-system", ACCOUNT)
    policy = tmp_path / "policy.yaml"
    policy.write_text(playground.policy(), encoding="utf-8")
    words = (
        *(f"--policy-config-file={policy}", "--descheduling-interval=5m", "--v=3"),
        *(f"--kubeconfig={kubeconfig}", "--secure-port=0", f"--journal={tmp_path / 'journal'}"),
    )
    log = tmp_path / "descheduler.log"
    with log.open("wb") as output:
        program = subprocess.Popen(
            (sys.executable, "-m", "reactive_desched", *words), stdout=output, stderr=output
        )
    try:
        yield log
        program.terminate()
        assert program.wait(60) == 0, log.read_text(encoding="utf-8")
    finally:
        program.kill()
        program.wait(60)


def test_the_sig_deschedulers_role_is_enough_to_evict_and_what_it_lacks_is_said(
    control_plane: ControlPlane, playground: E2ENamespace, log: Path
) -> None:
    kubectl = control_plane.kubectl()
    playground.add_nodes("n1", "n2")
    playground.deploy("web", 2)
    assert len(playground.pods_on("web", "n1")) == 1, "the scheduler spread no web pod to n1"
    for resource in ("persistentvolumes", "csinodes", "replicasets", "jobs"):
        lacks = rf'resource={resource} [^\n]*cannot list resource \\?"{resource}\\?"'
        wait_until(
            lambda: re.search(lacks, log.read_text("utf-8")),  # noqa: B023 -- called at once
            within_s=60,
            what=f"it goes without {resource}",
        )
    playground.taint("n1", "gpu=yes:NoSchedule")
    playground.await_healthy("web", 2, off="n1")

    lines = [line.strip() for line in PAGE.read_text("utf-8").splitlines()]
    commands = [line.split()[2:] for line in lines if line.startswith("$ kubectl create ")]
    assert [words[1] for words in commands] == ["clusterrole", "clusterrolebinding"]
    for words in commands:
        kubectl.run(*words)
