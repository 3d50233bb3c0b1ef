import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reactive_desched.api.event import EVICTION_OUTCOME_TYPES, EVICTION_REQUESTED
from reactive_desched.journal.events import read_events
from tests.support.golden import Golden

NODE = "node-1"


@pytest.mark.executed
def test_one_sweep_moves_what_is_wrong_and_ends(
    cluster: Any, controller: Callable[..., Any], tmp_path: Path
) -> None:
    before = cluster.pods_on(NODE)
    movable = {uid for uid, kind in before.items() if kind != "DaemonSet"}
    cluster.taint(NODE, "gpu")
    program = controller("--once", "--log-format", "json")

    assert program.process.wait(60) == 0
    lines = [json.loads(line) for line in program.output.splitlines()]
    assert [line["event"] for line in lines[:2]] == [
        "reactive-desched starts",
        "live: evicts pods",
    ]
    [synced] = [line for line in lines if line["event"] == "the cluster is synced"]
    assert (synced["nodes"] > 1, synced["pods"] > 1) == (True, True)
    evicted = {line["pod"] for line in lines if line["event"] == "evicted"}
    intents = [e for e in read_events(tmp_path / "journal") if e.type == EVICTION_REQUESTED]
    assert evicted == {intent.subject for intent in intents}
    # Disruption budgets may keep some: a sweep does not wait for them.
    refused = {line["pod"] for line in lines if line["event"] == "refused by a PodDisruptionBudget"}
    assert {intent.data.who.uid for intent in intents} <= movable
    assert len(evicted | refused) == len(movable)
    assert evicted


@pytest.mark.parametrize("attempt", range(3))
def test_a_dry_sweep_is_right_the_first_time_and_moves_no_pod(
    cluster: Any, controller: Callable[..., Any], attempt: int, tmp_path: Path
) -> None:
    cluster.taint(NODE, "gpu")
    before = cluster.pods_on(NODE)
    movable = [uid for uid, kind in before.items() if kind != "DaemonSet"]
    program = controller("--once", "--dry-run", "--log-format", "json")

    assert program.process.wait(60) == 0
    lines = [json.loads(line) for line in program.output.splitlines()]
    told = [line for line in lines if line["event"] == "would be evicted"]
    assert len(told) == len(movable), attempt
    assert {line["mode"] for line in lines} == {"dry_run"}
    [swept] = [line for line in lines if line["event"] == "the sweep is complete"]
    assert swept["would_evict"] == len(movable)
    assert "evicted" not in swept
    ends = [
        e.data.outcome.result
        for e in read_events(tmp_path / "journal")
        if e.type in EVICTION_OUTCOME_TYPES
    ]
    assert ends == ["dry_run"] * len(movable)
    assert cluster.pods_on(NODE) == before


def test_a_dry_sweep_says_what_disruption_budgets_would_refuse(
    cluster: Any, controller: Callable[..., Any]
) -> None:
    cluster.taint(NODE, "gpu")
    movable = sum(kind != "DaemonSet" for kind in cluster.pods_on(NODE).values())
    for existing in cluster.call("GET", "/apis/policy/v1/poddisruptionbudgets")["items"]:
        where = existing["metadata"]
        path = f"/apis/policy/v1/namespaces/{where['namespace']}/poddisruptionbudgets"
        cluster.call("DELETE", f"{path}/{where['name']}")
    for namespace in cluster.call("GET", "/api/v1/namespaces")["items"]:
        path = f"/apis/policy/v1/namespaces/{namespace['metadata']['name']}/poddisruptionbudgets"
        spec = {"selector": {}, "maxUnavailable": 0}
        cluster.create(path, {"metadata": {"name": "none"}, "spec": spec})
    program = controller("--once", "--dry-run", "--log-format", "json")

    assert program.process.wait(60) == 0
    events = [json.loads(line)["event"] for line in program.output.splitlines()]
    assert "would be evicted" not in events
    assert events.count("refused by a PodDisruptionBudget") == movable > 0


def test_a_cluster_that_is_not_there_is_a_failure_and_no_pod_is_evicted(
    controller: Callable[..., Any], tmp_path: Path, golden: Golden
) -> None:
    nowhere = tmp_path / "nowhere"
    nowhere.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        'clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]\n'
        "users: [{name: u, user: {}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
    )
    program = controller("--once", "--kubeconfig", str(nowhere), module="tests.support.impatient")

    assert program.process.wait(60) == 1
    assert golden() in program.output


def test_a_sweep_requests_nothing_for_a_profile_that_observes(
    cluster: Any, controller: Callable[..., Any], policy: Path, tmp_path: Path
) -> None:
    policy.write_text(policy.read_text() + "\nmode: observe\n")
    cluster.taint(NODE, "gpu")
    program = controller("--once")

    assert program.process.wait(60) == 0
    events = list(read_events(tmp_path / "journal"))
    ends = [each for each in events if each.type in EVICTION_OUTCOME_TYPES]
    assert {each.data.outcome.result for each in ends} >= {"dry_run"}
    assert {each.data.mode for each in ends} == {"dry_run"}
    assert not [each for each in ends if each.data.outcome.result == "evicted"]


def outcomes(journal: Path) -> list[str]:
    events = list(read_events(journal))
    return [each.data.outcome.result for each in events if each.type in EVICTION_OUTCOME_TYPES]


def pause_by_file(policy: Path, tmp_path: Path, text: str) -> None:
    file = tmp_path / "paused"
    file.write_text(text)
    policy.write_text(f"{policy.read_text()}brakes: {{pauseFile: {file}}}\n")


@pytest.mark.parametrize(
    "text", ["true", "network upgrade", "2999-01-01T00:00:00Z", "a mistake in the time"]
)
def test_a_sweep_evicts_nothing_while_the_pause_file_says_so_and_has_not_failed(
    cluster: Any,
    controller: Callable[..., Any],
    policy: Path,
    tmp_path: Path,
    text: str,
    golden: Golden,
) -> None:
    pause_by_file(policy, tmp_path, text)
    cluster.taint(NODE, "gpu")
    program = controller("--once")

    assert program.process.wait(60) == 0
    assert outcomes(tmp_path / "journal") == []
    assert golden() in program.output


@pytest.mark.parametrize("text", ["", "false", "2001-01-01T00:00:00Z"])
def test_a_pause_file_that_pauses_nothing_holds_no_sweep(
    cluster: Any, controller: Callable[..., Any], policy: Path, tmp_path: Path, text: str
) -> None:
    pause_by_file(policy, tmp_path, text)
    cluster.taint(NODE, "gpu")
    program = controller("--once")

    assert program.process.wait(60) == 0
    assert "evicted" in outcomes(tmp_path / "journal")
    assert "paused" not in program.output


@pytest.mark.parametrize(
    "kept", [b'{"pause":{"by":"ann","reason":"upgrade","since_s":1.0}}', b"{damaged"]
)
def test_a_sweep_heeds_a_pause_by_command_that_a_controller_kept_beside_its_journal(
    cluster: Any, controller: Callable[..., Any], tmp_path: Path, kept: bytes, golden: Golden
) -> None:
    journal = tmp_path / "journal"
    journal.mkdir()
    (journal / "brakes.json").write_bytes(kept)
    cluster.taint(NODE, "gpu")
    program = controller("--once")

    assert program.process.wait(60) == 0
    assert outcomes(journal) == []
    assert golden(journal=journal) in program.output


def test_a_paused_dry_sweep_says_what_it_would_evict_and_that_evictions_are_paused(
    cluster: Any, controller: Callable[..., Any], policy: Path, tmp_path: Path, golden: Golden
) -> None:
    pause_by_file(policy, tmp_path, "network upgrade")
    cluster.taint(NODE, "gpu")
    program = controller("--once", "--dry-run")

    assert program.process.wait(60) == 0
    assert set(outcomes(tmp_path / "journal")) == {"dry_run"}
    assert golden() in program.output
