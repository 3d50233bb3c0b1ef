"""LowNodeUtilization by the simulator's metrics-server: the whole program, over HTTP."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from reactive_desched.model.objects import HOSTNAME_LABEL
from reactive_desched.model.quantities import milli_value
from reactive_desched.sim.profiles import PREFIX
from tests.support.limits import UNLIMITED
from tests.system.conftest import wait_until

POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
metricsProviders: [{source: KubernetesMetrics}]
profiles:
- name: test
  pluginConfig:
  - name: LowNodeUtilization
    args:
      metricsUtilization: {source: KubernetesMetrics}
      thresholds: {cpu: 50}
      targetThresholds: {cpu: 60}
  plugins:
    balance: {enabled: [LowNodeUtilization]}
---
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
debounce: {quiet: 50ms}
usage: {kubernetesMetrics: {interval: 300ms, podInterval: 300ms}}
"""
NODE, TARGET = "node-1", 60
SEVERAL_POLLS_S = 5
URL = "http://127.0.0.1:1"  # where nothing is served


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY + UNLIMITED, encoding="utf-8")
    return path


def used_percent(cluster: Any, node: str) -> float:  # from the fixture
    used = cluster.call("GET", f"/apis/metrics.k8s.io/v1beta1/nodes/{node}")["usage"]["cpu"]
    capacity = cluster.call("GET", f"/api/v1/nodes/{node}")["status"]["allocatable"]["cpu"]
    return milli_value(used) / milli_value(capacity) * 100


def heat(cluster: Any, node: str, percent: int) -> float:
    """Let the pods of a node use so much of it together; return the per cent that each uses."""
    query = f"/api/v1/pods?fieldSelector=spec.nodeName={node}"
    pods = [pod["metadata"] for pod in cluster.call("GET", query)["items"]]
    capacity = cluster.call("GET", f"/api/v1/nodes/{node}")["status"]["allocatable"]["cpu"]
    each = f"{milli_value(capacity) * percent // 100 // len(pods)}m"
    for meta in pods:
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        annotations = {f"{PREFIX}usage-cpu": each}
        cluster.call("PATCH", path, {"metadata": {"annotations": annotations}})
    return percent / len(pods)


def join(cluster: Any, name: str) -> None:
    """Let an empty node join, for the scheduler to place replacements on it.

    Of the others each has a pod of every workload, so replacements would come back.
    """
    found = cluster.call("GET", f"/api/v1/nodes/{NODE}")
    metadata = {"name": name, "labels": {**found["metadata"]["labels"], HOSTNAME_LABEL: name}}
    cluster.create("/api/v1/nodes", {**found, "metadata": metadata})


def test_pods_leave_a_node_that_uses_too_much_until_it_does_not(
    cluster: Any, controller: Callable[..., Any]
) -> None:
    program = controller()
    url = program.url
    program.wait_for("the cluster is synced")
    time.sleep(SEVERAL_POLLS_S / 2)
    assert "] evicted " not in program.output

    join(cluster, "node-7")
    share = heat(cluster, NODE, 90)
    assert used_percent(cluster, NODE) > TARGET
    program.wait_until(lambda: used_percent(cluster, NODE) <= TARGET)
    time.sleep(SEVERAL_POLLS_S)
    evicted, used = program.output.count("] evicted "), used_percent(cluster, NODE)

    assert evicted > 0
    assert used + share > TARGET, "no more left than had to"
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as reply:
        metrics = reply.read().decode()
    assert 'reactive_desched_usage_samples{source="KubernetesMetrics"} 7' in metrics
    assert program.stop() == 0


def test_a_sweep_measures_once_and_evicts(cluster: Any, controller: Callable[..., Any]) -> None:
    before = set(cluster.pods_on(NODE))
    heat(cluster, NODE, 90)
    time.sleep(2)  # what was measured in the second in which a pod was created is not the pod's
    program = controller("--once")

    assert program.process.wait(60) == 0
    assert before - set(cluster.pods_on(NODE))
    assert "overutilized" in program.output
    assert "LowNodeUtilization evicts nothing" not in program.output


def by_query(policy: Path, url: str) -> None:
    """Let the policy go by a query to Prometheus instead."""
    source = "{source: Prometheus, prometheus: {query: up}}"
    text = (
        policy.read_text(encoding="utf-8")
        .replace("metricsUtilization: {source: KubernetesMetrics}", f"metricsUtilization: {source}")
        .replace("cpu:", "MetricResource:")
        .replace(
            "{source: KubernetesMetrics}", f"{{source: Prometheus, prometheus: {{url: '{url}'}}}}"
        )
    )
    policy.write_text(text, encoding="utf-8")


@contextmanager
def prometheus(*series: tuple[str, float]) -> Iterator[str]:
    """Answer every query with these series: a label `instance`, and a value."""

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            result = [
                {"metric": {"instance": name}, "value": [time.time(), str(value)]}
                for name, value in series
            ]
            answer = {"status": "success", "data": {"resultType": "vector", "result": result}}
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def measured_use_line(page: str) -> str | None:
    """Return what the page of a ready controller says of measured use; None while it starts."""
    try:
        with urllib.request.urlopen(page, timeout=60) as reply:
            text = reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return None
    (line,) = (line for line in text.splitlines() if "measured-use" in line)
    return str(line)


@pytest.mark.parametrize(
    ("series", "named"),
    [
        pytest.param(
            [("node-1", 0.9), ("node-1", 0.1), ("node-2", 0.1)], "node-1", id="two of one node"
        ),
        pytest.param([("10.0.0.1:9100", 0.9), ("10.0.0.2:9100", 0.1)], "10.0.0.1:9100", id="ports"),
    ],
)
def test_run_names_series_that_do_not_say_what_nodes_use(
    cluster: Any,
    controller: Callable[..., Any],
    policy: Path,
    series: list[tuple[str, float]],
    named: str,
) -> None:
    del cluster
    with prometheus(*series) as url:
        by_query(policy, url)
        program = controller()
        base = program.url
        program.wait_until(lambda: "usage cannot be measured" in program.output)
        line = wait_until(lambda: measured_use_line(f"{base}/readyz?verbose"), program)
        assert program.stop() == 0

    assert line.startswith("[!]measured-use: Prometheus/up: ")
    assert named in line
    assert "evicted " not in program.output


def test_a_sweep_says_once_why_nothing_is_measured(
    cluster: Any, controller: Callable[..., Any], policy: Path
) -> None:
    del cluster
    by_query(policy, URL)
    program = controller("--once")

    assert program.process.wait(60) == 0
    assert program.output.count(f"unable to capture prometheus metrics: {URL}") == 1
    assert "evicted" not in program.output
    assert "evicts nothing" not in program.output, "the reason has been given"
