import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reactive_desched.api.event import (
    EVICTION_OUTCOME_TYPES,
    EVICTION_REQUESTED,
    MODE_DRY_RUN,
    POLICY_LOADED,
)
from reactive_desched.journal.cluster import ClusterIdentity, mark_cluster
from reactive_desched.journal.events import read_events
from tests.support.fork_server import ForkServer
from tests.support.golden import Golden

NODE = "node-1"


def moved(cluster: Any, before: dict[str, str]) -> set[str]:  # from the fixture
    return set(before) - set(cluster.pods_on(NODE))


def test_a_taint_moves_the_pods_that_do_not_tolerate_it_and_every_move_is_on_record(
    cluster: Any, controller: Callable[..., Any], tmp_path: Path
) -> None:
    program = controller()
    program.wait_for("the cluster is synced")
    before = cluster.pods_on(NODE)
    movable = {uid for uid, kind in before.items() if kind != "DaemonSet"}
    assert movable

    cluster.taint(NODE, "gpu")
    for _ in movable:
        program.wait_for(rf"(?s)(evicted .*){{{len(movable)}}}")

    assert moved(cluster, before) == movable
    assert program.stop() == 0
    assert "[warning" not in program.output
    assert "mode=" not in program.output
    records = list(read_events(tmp_path / "journal"))
    intents = {e.id: e.data.who.uid for e in records if e.type == EVICTION_REQUESTED}
    outcomes = [e for e in records if e.type in EVICTION_OUTCOME_TYPES]
    assert set(intents.values()) == movable
    assert sorted(o.causationid for o in outcomes) == sorted(intents)
    assert {o.data.outcome.result for o in outcomes} == {"evicted"}


def test_a_dry_run_moves_no_pod_and_names_those_it_would_move(
    cluster: Any, controller: Callable[..., Any], tmp_path: Path
) -> None:
    program = controller("--dry-run")
    program.wait_for("the cluster is synced")
    before = cluster.pods_on(NODE)
    cluster.taint(NODE, "gpu")
    program.wait_for("would be evicted ")

    assert moved(cluster, before) == set()
    assert program.stop() == 0
    assert [line for line in program.output.splitlines() if " mode=dry_run " not in line] == []
    intents = [e for e in read_events(tmp_path / "journal") if e.type == EVICTION_REQUESTED]
    assert intents
    assert {intent.data.mode for intent in intents} == {MODE_DRY_RUN}


def test_a_start_says_in_a_line_each_what_runs_where_how_and_by_which_policy(
    cluster: Any, controller: Callable[..., Any], policy: Path
) -> None:
    cluster.taint(NODE, "gpu")
    program = controller("--log-format", "json")
    program.wait_for("the first evaluation is complete")
    lines = [json.loads(line) for line in program.output.splitlines()]

    said = [line["event"] for line in lines if not line["event"].startswith("RemovePods")]
    assert said[:4] == [
        "reactive-desched starts",
        "live: evicts pods",
        "the policy is in force",
        "this API server is used",
    ]
    assert {"probes and metrics are served", "the cluster is identified"} < set(said)
    limits = said.index("eviction limits are set")
    assert said[limits : limits + 4] == [
        "eviction limits are set",
        "move limits are set",
        "brakes are configured",
        "the cluster is synced",
    ]
    decisions = {"decided to evict", "deferred", "refused"}
    assert decisions & set(said[limits:])
    assert not decisions & set(said[:limits])
    assert "the first evaluation is complete" in said
    values = {line["event"]: line for line in lines}
    assert values["this API server is used"]["context"] == "kubeconfig", (
        "a context of sim is named as its file"
    )
    assert values["this API server is used"]["server"].startswith("http://127.0.0.1:")
    assert values["the policy is in force"]["files"] == str(policy)
    assert {line["level"] for line in lines} == {"info"}
    assert [key for line in lines for key in line if " " in key] == []


def test_a_record_stands_alone_with_its_cluster_and_the_text_of_its_policy(
    cluster: Any, controller: Callable[..., Any], policy: Path, tmp_path: Path, fork_server: Any
) -> None:
    program = controller()
    program.wait_for("the first evaluation is complete .*findings=")
    assert program.stop() == 0
    [namespace] = cluster.call("GET", "/api/v1/namespaces?fieldSelector=metadata.name=kube-system")[
        "items"
    ]
    uid = namespace["metadata"]["uid"]
    journal = str(tmp_path / "journal")
    [loaded] = [e for e in read_events(tmp_path / "journal") if e.type == POLICY_LOADED]

    assert (loaded.data.cluster, loaded.data.cluster_uid) == (uid, uid)
    assert loaded.source.startswith(f"//{uid}/descheduler/")
    assert [file.text for file in loaded.data.files] == [policy.read_text(encoding="utf-8")]
    shown = fork_server.run("audit", "show", loaded.data.revision, "--journal", journal)
    assert "  - name: test" in shown.stdout
    status = fork_server.run("audit", "status", "--journal", journal)
    assert re.search(rf"  cluster +kubeconfig, kube-system has the uid {uid}\n", status.stdout)
    assert f"revision {loaded.data.revision} from {policy}" in status.stdout


def test_the_journal_of_another_cluster_is_refused(
    cluster: Any, controller: Callable[..., Any], tmp_path: Path, golden: Golden
) -> None:
    (tmp_path / "journal").mkdir()
    mark_cluster(tmp_path / "journal", ClusterIdentity("elsewhere", "uid-of-elsewhere"))

    program = controller()

    assert program.process.wait(60) == 1
    assert golden() in program.output
    assert "--journal" in program.output
    assert "Traceback" not in program.output
    assert list((tmp_path / "journal").glob("*.jsonl")) == []


def test_health_and_metrics_are_served(cluster: Any, controller: Callable[..., Any]) -> None:
    program = controller("--log-format", "json")
    program.wait_for("the cluster is synced")
    url = program.url

    def get(path: str) -> str:
        with urllib.request.urlopen(f"{url}{path}", timeout=60) as reply:
            return str(reply.read().decode())

    assert get("/livez") == "ok"
    assert "[+]sync/pods ok" in get("/readyz?verbose")
    metrics = get("/metrics")
    assert 'reactive_desched_reflector_synced{resource="pods"} 1.0' in metrics
    for name in ("dirty_subjects", "settling_subjects", "backoff_pods", "evictions_under_way"):
        assert f"\nreactive_desched_{name} " in metrics


@pytest.mark.executed
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(controller: Callable[..., Any], number: int) -> None:
    program = controller()
    program.wait_for("the cluster is synced")

    assert program.stop(number) == 0
    assert "Traceback" not in program.output


def test_it_starts_without_a_cluster_and_says_that_it_is_not_ready(
    start: Callable[..., Any], cluster: Any, controller: Callable[..., Any]
) -> None:
    cluster.program.stop()
    program = controller("--log-format", "json")
    url = program.url
    program.wait_for("Cannot connect|refused|Connect call failed")
    with pytest.raises(urllib.error.HTTPError) as answer:
        urllib.request.urlopen(f"{url}/readyz", timeout=60)

    assert answer.value.code == 503
    answer.value.close()
    assert program.stop() == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("nodeSelectr: a=b\n", "nodeSelector", id="a mistyped field"),
        pytest.param(
            "profiles:\n- plugins: {deschedule: {enabled: [RemovePodsViolatingTaints]}}\n",
            "RemovePodsViolatingNodeTaints",
            id="an unknown plugin",
        ),
        pytest.param(
            "maxNoOfPodsToEvictTotal: many\n", "maxNoOfPodsToEvictTotal", id="a wrong type"
        ),
    ],
)
def test_a_wrong_policy_ends_with_status_2_and_names_place_and_remedy(
    tmp_path: Path, text: str, said: str, fork_server: ForkServer
) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(f"apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n{text}")

    ended = fork_server.run("run", "--policy", str(path))

    assert ended.returncode == 2
    assert said in ended.stderr
    assert f"{path}:" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_kubeconfig_that_is_not_there_ends_with_status_2(policy: Path, tmp_path: Path) -> None:
    command = [
        *(sys.executable, "-m", "reactive_desched", "run"),
        *("--policy", str(policy), "--kubeconfig", str(tmp_path / "none")),
        *("--journal", str(tmp_path / "journal"), "--listen", "127.0.0.1:0"),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert ended.returncode == 2
    assert str(tmp_path / "none") in ended.stderr
    assert "Traceback" not in ended.stderr


def test_help_never_loads_the_cluster_client() -> None:
    code = (
        "import sys; from reactive_desched.cli import parser; parser().format_help(); "
        "print([m for m in ('kubernetes_asyncio', 'aiohttp', 'anyio') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert shown.stdout.strip() == "[]"
