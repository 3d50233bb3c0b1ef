"""The SIG descheduler's command line and metrics, as its manifests and dashboards use them."""

import re
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

NODE, PLUGIN = "node-1", "RemovePodsViolatingNodeTaints"


@pytest.fixture
def program(
    start: Callable[..., Any],  # the fixtures of this folder
    cluster: Any,
    policy: Path,
    tmp_path: Path,
) -> Any:
    """Begin as a Deployment of the SIG descheduler does, only at a port that is free."""
    return start(
        "--v=3",
        f"--policy_config_file={policy}",
        *("--descheduling-interval=5m", "--leader-elect=true", "--logging-format=json"),
        f"--kubeconfig={cluster.kubeconfig}",
        "--secure-port=0",
        f"--journal={tmp_path / 'journal'}",
    )


def test_its_command_line_starts_the_controller_and_its_metrics_count_what_was_evicted(
    program: Any, cluster: Any
) -> None:
    url = program.wait_for(r'"url":"(http://127[^"]+)"').group(1)

    def get(path: str) -> str:
        with urllib.request.urlopen(f"{url}{path}", timeout=60) as reply:
            return str(reply.read().decode())

    program.wait_for('"acquired the lease"')
    program.wait_until(lambda: "descheduler_loop_duration_seconds_count 1\n" in get("/metrics"))
    doomed = [kind for kind in cluster.pods_on(NODE).values() if kind != "DaemonSet"]
    cluster.taint(NODE, "gpu")
    program.wait_for(rf'(?s)("event":"evicted".*){{{len(doomed)}}}')

    metrics = get("/metrics")
    for name in ("descheduler_pods_evicted_total", "descheduler_pods_evicted"):
        about = f'node="{NODE}",profile="test",result="success",strategy="{PLUGIN}"'
        sample = rf'^{name}{{namespace="[^"]+",{about}}} (\d+)$'
        counts = re.findall(sample, metrics, re.MULTILINE)
        assert sum(map(int, counts)) == len(doomed)
    (loops,) = re.findall(r"^descheduler_loop_duration_seconds_count (\d+)$", metrics, re.MULTILINE)
    assert int(loops) >= 2, "the start, and the taint"
    assert get("/healthz") == "ok"
    assert program.output.count("does nothing here") == 1
    assert program.stop() == 0
