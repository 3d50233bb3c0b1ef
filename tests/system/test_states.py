"""One word says what a controller does, in each place where somebody may look."""

import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reactive_desched.api.event import BRAKE_ENGAGED, BRAKE_RELEASED
from reactive_desched.cli import main
from reactive_desched.election.leadership import NO_LEADER_YET
from reactive_desched.journal.events import read_events
from tests.support.limits import UNLIMITED

ELECTION = ("--leader-elect", "--leader-elect-lease-duration=15s")
JSON = "application/json"
NODES = ("node-1", "node-2", "node-3")


@pytest.fixture
def settings() -> str:
    return f"{UNLIMITED}brakes: {{storm: {{pods: 3, percent: 1}}}}\n"


def get(program: Any, path: str) -> str:
    try:
        with urllib.request.urlopen(f"{program.url}{path}", timeout=60) as reply:
            return str(reply.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return error.read().decode()


def words(program: Any, capsys: pytest.CaptureFixture[str]) -> dict[str, set[str]]:
    """Return the word that each place says; the log has that of its last state."""
    capsys.readouterr()
    assert main(["status", "--server", program.url]) == 0
    shown = capsys.readouterr().out
    logged = [json.loads(line) for line in program.output.splitlines()]
    metric = r'^reactive_desched_state\{state="([a-z-]+)"\} 1'
    return {
        "status": set(re.findall(r"^state +([a-z-]+): ", shown, re.MULTILINE)),
        "/debug/status": {json.loads(get(program, "/debug/status"))["state"]["name"]},
        "/readyz": set(re.findall(r"\]state: ([a-z-]+)", get(program, "/readyz?verbose"))),
        "/metrics": set(re.findall(metric, get(program, "/metrics"), re.MULTILINE)),
        "log": {[line["state"] for line in logged if "state" in line][-1]},
    }


def everywhere(word: str) -> dict[str, set[str]]:
    return {place: {word} for place in ("status", "/debug/status", "/readyz", "/metrics", "log")}


def deploy_elsewhere(cluster: Any) -> None:
    """Create pods of another namespace than that of all others but the agents."""
    cluster.call("POST", "/api/v1/namespaces", {"metadata": {"name": "other"}}, JSON)
    labels = {"app": "more"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "example/more:1"}]},
    }
    spec = {"replicas": 12, "selector": {"matchLabels": labels}, "template": template}
    body = {"metadata": {"name": "more"}, "spec": spec}
    cluster.call("POST", "/apis/apps/v1/namespaces/other/deployments", body, JSON)


def test_every_place_says_the_same_word_in_every_state(
    cluster: Any,
    controller: Callable[..., Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    deploy_elsewhere(cluster)
    leader = controller("--log-format", "json", *ELECTION)
    leader.wait_for('"state":"evaluating"')
    assert words(leader, capsys) == everywhere("evaluating")
    standby = controller("--log-format", "json", *ELECTION)
    standby.wait_for('"state":"standby"')
    assert words(standby, capsys) == everywhere("standby")

    assert main(["pause", "--server", leader.url, "--by", "ann"]) == 0
    assert "\npaused: " in capsys.readouterr().out
    leader.wait_for('"state":"paused"')
    assert words(leader, capsys) == everywhere("paused")
    assert main(["resume", "--server", leader.url]) == 0
    assert "\nevaluating: " in capsys.readouterr().out
    leader.wait_for('"state":"evaluating","before":"paused"')

    for node in NODES:
        cluster.taint(node, "gpu")
    leader.wait_for('"state":"braked"')  # pods of two namespaces of three are found
    assert words(leader, capsys) == everywhere("braked")
    assert words(standby, capsys) == everywhere("standby")

    assert leader.stop() == 0
    leader.wait_for('"state":"stopping"')
    brakes = [
        (event.type, event.data.brake)
        for event in read_events(tmp_path / "journal")
        if event.type in (BRAKE_ENGAGED, BRAKE_RELEASED)
    ]
    assert brakes[:2] == [(BRAKE_ENGAGED, "manual"), (BRAKE_RELEASED, "manual")]
    assert set(brakes[2:]) == {(BRAKE_ENGAGED, "storm")}  # of a namespace before, or at once of all


def leads(program: Any) -> float:
    """Return what the metric says."""
    (found,) = re.findall(
        r"^reactive_desched_leader (\S+)$", get(program, "/metrics"), re.MULTILINE
    )
    return float(found)


def test_a_replica_that_has_not_reached_the_api_server_yet_does_not_lead(
    cluster: Any, controller: Callable[..., Any]
) -> None:
    cluster.program.stop()
    replica = controller("--log-format", "json", *ELECTION)
    replica.wait_for("waits for the API server")
    assert leads(replica) == 0
    assert f"leader: {NO_LEADER_YET}" in get(replica, "/readyz?verbose")
    assert json.loads(get(replica, "/debug/status"))["leadership"] == "standby"
    alone = controller("--log-format", "json")
    alone.wait_for("waits for the API server")
    assert leads(alone) == 1
