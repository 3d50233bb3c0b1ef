"""LowNodeUtilization by a real Prometheus, which is asked with a token, over TLS."""

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.e2e.conftest import NAMESPACE, SERVICE_ACCOUNT, do_without
from tests.support.audit_crosscheck import AuditCrosscheck
from tests.support.control_plane import wait_until
from tests.support.controller_process import RunController
from tests.support.playground import E2ENamespace
from tests.support.prometheus import USED, GuardedPrometheus
from tools.real import prometheus

pytestmark = pytest.mark.real

NODES = ("n1", "n2", "n3")
SHARE = 0.22  # of a node, used by each pod
SECRET = "descheduler-token"
SEVERAL_POLLS_S = 10.0
QUERY = {"source": "Prometheus", "prometheus": {"query": USED}}
ARGS = {
    "metricsUtilization": QUERY,
    "thresholds": {"MetricResource": 30},
    "targetThresholds": {"MetricResource": 60},
    "evictionLimits": {"node": 2},
}


@pytest.fixture
def measured(
    playground: E2ENamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[GuardedPrometheus]:
    """Prometheus, which the policy of the playground names; only the token's Secret is readable."""
    program = prometheus.find(os.environ) or do_without(["Prometheus"])
    playground.add_nodes(*NODES)

    def used() -> Mapping[str, float]:
        pods = playground.pods_by_node()
        return {playground.node(name): 0.01 + SHARE * pods.get(name, 0) for name in NODES}

    with GuardedPrometheus(program, tmp_path, used, token="the-token") as server:
        monkeypatch.setenv("SSL_CERT_FILE", str(server.authority))
        playground.kubectl.apply(*secret(playground.namespace, server.token))
        playground.balance = {"LowNodeUtilization": ARGS}
        reference = {"namespace": playground.namespace, "name": SECRET}
        playground.metrics_providers = [
            {
                "source": "Prometheus",
                "prometheus": {
                    "url": server.url,
                    "authToken": {"secretReference": reference},
                },
            }
        ]
        yield server


def secret(namespace: str, token: str) -> list[dict[str, object]]:
    """Return the Secret, and the right to read it as docs/howto/measured-use.md has it."""
    data = {"prometheusAuthToken": base64.b64encode(token.encode()).decode()}
    meta = {"namespace": namespace, "name": SECRET}
    rbac = "rbac.authorization.k8s.io"
    rule = {
        "apiGroups": [""],
        "resources": ["secrets"],
        "resourceNames": [SECRET],
        "verbs": ["get"],
    }
    account = {"kind": "ServiceAccount", "namespace": NAMESPACE, "name": SERVICE_ACCOUNT}
    role = {"apiGroup": rbac, "kind": "Role", "name": SECRET}
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data},
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": meta, "rules": [rule]},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "subjects": [account],
            "roleRef": role,
        },
    ]


def classes(playground: E2ENamespace, kubeconfig: Path, folder: Path) -> dict[str, str]:
    """Return what `nodes` says of each node, asking Prometheus itself."""
    policy = folder / "nodes-policy.yaml"
    policy.write_text(playground.policy())
    argv = (
        *(sys.executable, "-m", "reactive_desched", "nodes", f"--policy={policy}"),
        *(f"--kubeconfig={kubeconfig}", "-o", "json"),
    )
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    (table,) = json.loads(done.stdout)["tables"]
    return {node["name"].rpartition("-")[2]: node["class"] for node in table["nodes"]}


def test_pods_leave_a_node_that_is_used_too_much_until_it_is_not(
    playground: E2ENamespace,
    measured: GuardedPrometheus,
    run_controller: RunController,
    referee: AuditCrosscheck,
    kubeconfig: Path,
    tmp_path: Path,
) -> None:
    """The pods request next to nothing: by requests every node is underutilized."""
    for name in ("n2", "n3"):
        playground.cordon(name)
    before = playground.deploy("web", 4, cpu="10m")
    for name in ("n2", "n3"):
        playground.kubectl.run("uncordon", playground.node(name))
    over, under = "overutilized", "underutilized"
    expected = {"n1": over, "n2": under, "n3": under}
    wait_until(
        lambda: classes(playground, kubeconfig, tmp_path) == expected,
        within_s=60,
        what="the use of the pods is scraped",
    )

    with run_controller():
        playground.await_pods_by_node(n1=2, n2=1, n3=1)
        time.sleep(SEVERAL_POLLS_S)

    moved = [str(each.uid) for each in referee.evicted()]
    assert len(moved) == 2
    assert set(moved) <= before.keys(), "a replacement moved"
    assert measured.refused == 0
    assert over not in classes(playground, kubeconfig, tmp_path).values()


def test_without_the_right_token_no_use_is_known_and_nothing_moves(
    playground: E2ENamespace,
    measured: GuardedPrometheus,
    run_controller: RunController,
    referee: AuditCrosscheck,
) -> None:
    for name in ("n2", "n3"):
        playground.cordon(name)
    playground.deploy("web", 4, cpu="10m")
    for name in ("n2", "n3"):
        playground.kubectl.run("uncordon", playground.node(name))
    playground.kubectl.apply(*secret(playground.namespace, "another-token"))

    with run_controller() as controller:
        wait_until(
            lambda: measured.refused > 1 and "401" in controller.log,
            within_s=60,
            what="it was refused, and says so",
        )
        time.sleep(SEVERAL_POLLS_S)
        assert referee.evicted() == []

        playground.kubectl.apply(*secret(playground.namespace, measured.token))
        playground.await_pods_by_node(n1=2, n2=1, n3=1)
