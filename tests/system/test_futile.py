"""`futile` against a running controller: a workload that is moved in vain, and cleared."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reactive_desched.api.event import EVICTION_FOLLOWED_UP, FUTILE_CLEARED
from reactive_desched.cli import main
from reactive_desched.journal.events import read_events
from reactive_desched.plugins.node_affinity import PREFERRED, NodeAffinityPlugin
from reactive_desched.plugins.node_taints import NodeTaintsPlugin
from tests.support.limits import UNLIMITED
from tests.system.conftest import POLICY, wait_until

AVOIDED = {"key": "busy", "effect": "PreferNoSchedule"}
"""Weighs more with the scheduler than a preferred affinity."""
FUTILE = "cooldown: 0s, nodeCooldown: 0s, futileBackoff: 1h, futileAfter: 1"


BY_JOBS = (
    "evictions: {evictor: migration}\nmigration: {maxMigratingPerWorkload: 9, "
    "maxUnavailablePerWorkload: 9, skipCheckExpectedReplicas: true}\n"
)


@pytest.fixture(params=["", BY_JOBS], ids=["requests", "jobs"])
def policy(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Evict for preferred affinity, and leave a workload alone after one move in vain."""
    preferred = f"name: {NodeAffinityPlugin.name}\n    args: {{nodeAffinityType: [{PREFERRED}]}}"
    settings = UNLIMITED.replace("cooldown: 0s, nodeCooldown: 0s, futileBackoff: 0s", FUTILE)
    path = tmp_path / "policy.yaml"
    text = POLICY.replace("name: DefaultEvictor\n    args: {nodeFit: true}", preferred)
    text = text.replace(NodeTaintsPlugin.name, NodeAffinityPlugin.name)
    path.write_text(text + settings + request.param, encoding="utf-8")
    return path


def wishing() -> dict[str, Any]:
    """Return a Deployment that prefers a node, where the scheduler does not put its pods."""
    expression = {"key": "wished", "operator": "In", "values": ["yes"]}
    term = {"weight": 1, "preference": {"matchExpressions": [expression]}}
    labels = {"app": "wishing"}
    spec = {
        "containers": [{"name": "main", "image": "example.invalid/no"}],
        "affinity": {"nodeAffinity": {PREFERRED: [term]}},
    }
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "metadata": {"name": "wishing"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    }


def test_a_workload_moved_in_vain_is_listed_and_tried_again_when_cleared(
    cluster: Any,
    controller: Callable[..., Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = controller("--log-format", "json")
    program.wait_for("the cluster is synced")
    server = program.url
    mark = {"metadata": {"labels": {"wished": "yes"}}, "spec": {"taints": [AVOIDED]}}
    cluster.call("PATCH", "/api/v1/nodes/node-1", mark)
    cluster.create("/apis/apps/v1/namespaces/shop/deployments", wishing())

    def parked() -> Any:
        assert main(["futile", "list", "--server", server, "-o", "json"]) == 0
        owners = json.loads(capsys.readouterr().out)["owners"]
        return [owner for owner in owners if owner["parked"]] or None

    owner = wait_until(parked, program)[0]
    assert main(["futile", "list", "--server", server]) == 0
    table = capsys.readouterr().out
    namespace, kind, name = owner["owner"].split("/")
    assert f"{kind} {namespace}/{name}" in table
    assert "left alone" in table

    assert main(["futile", "clear", owner["owner"], "--by", "ada", "--server", server]) == 0
    assert capsys.readouterr().out.endswith("\nforgot the moves of 1 workload\n")
    events = list(read_events(tmp_path / "journal"))
    [cleared] = [event.data for event in events if event.type == FUTILE_CLEARED]
    assert (cleared.owner, cleared.by) == (owner["owner"], "ada")

    def followed_up() -> bool | None:
        found = [e for e in read_events(tmp_path / "journal") if e.type == EVICTION_FOLLOWED_UP]
        return any(event.data.follow_up.finding_holds for event in found) or None

    wait_until(followed_up, program)

    assert main(["futile", "clear", "--all", "--server", server]) == 0
    assert main(["futile", "clear", "no/such/owner", "--server", server]) == 2
    assert "nothing is remembered" in capsys.readouterr().err
