"""A kubeconfig that impersonates limits the tool to the rights of that user, on a real server."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]  # it ships none

from tests.support.control_plane import ControlPlane
from tests.support.controller_process import ControllerProcess
from tests.support.golden import verbatim
from tests.support.playground import E2ENamespace

pytestmark = pytest.mark.real

READER = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: readers-of-the-descheduler}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reactive-desched}
subjects: [{kind: Group, name: readers, apiGroup: rbac.authorization.k8s.io}]
"""


def impersonating(admin: Path, folder: Path, **fields: object) -> Path:
    """Return an administrator's kubeconfig that impersonates eve, with these fields."""
    document = yaml.safe_load(admin.read_text())
    document["users"][0]["user"] |= {"as": "eve"} | {
        f"as-{name}".replace("_", "-"): each for name, each in fields.items()
    }
    path = folder / "impersonating.kubeconfig"
    path.write_text(json.dumps(document))
    return path


def plan(kubeconfig: Path, policy: Path) -> "subprocess.CompletedProcess[str]":
    command = (sys.executable, "-m", "reactive_desched", "plan", "--policy", str(policy))
    return subprocess.run(
        (*command, "--kubeconfig", str(kubeconfig)), capture_output=True, text=True, check=False
    )


@pytest.fixture
def policy(playground: E2ENamespace, tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(playground.policy(), encoding="utf-8")
    return path


def test_a_user_without_rights_may_not_read_what_the_account_behind_it_may(
    control_plane: ControlPlane, tmp_path: Path, policy: Path
) -> None:
    admin = control_plane.admin_kubeconfig
    assert plan(admin, policy).returncode == 0
    refused = plan(impersonating(admin, tmp_path, uid="7"), policy)
    assert refused.returncode == 1
    assert verbatim('User "eve" cannot list resource "pods"') in refused.stderr
    assert "403" in refused.stderr


def test_a_controller_has_the_rights_of_the_groups_that_it_impersonates(
    control_plane: ControlPlane, playground: E2ENamespace, kubeconfig: Path, tmp_path: Path
) -> None:
    del kubeconfig  # whose role is there then
    playground.kubectl.run("apply", "-f", "-", stdin=READER)
    fields = {"groups": ["readers"], "user_extra": {"scopes/x": ["a", "ü"]}}
    limited = impersonating(control_plane.admin_kubeconfig, tmp_path, **fields)
    playground.add_nodes("n1", "n2")
    playground.deploy("web", 2)
    with ControllerProcess(tmp_path, limited, playground.policy(), "") as controller:
        playground.taint("n1", "gpu=yes:NoSchedule")
        playground.await_healthy("web", 2, off="n1")
        assert controller.stop() == 0
