"""No taint of a set is left behind: not by a leader that is killed, nor under another policy."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reactive_desched.api.event import CONSOLIDATION_BEGUN, CONSOLIDATION_ENDED
from reactive_desched.journal.events import read_events
from tests.system.conftest import POLICY
from tests.system.test_leader import ACQUIRED, ELECTION

Start = Callable[..., Any]  # programs of conftest.py, as in the other tests here

BEGUN = "a node is tainted, and its pods leave as a set"
KEY = "reactive-desched/consolidating"
PACKING = """
  - name: ConsolidateNodes
    args: {minNodes: []}
  plugins:
    balance: {enabled: [ConsolidateNodes]}
"""


@pytest.fixture
def policy(tmp_path: Path, settings: str) -> Path:
    path = tmp_path / "policy.yaml"
    plugins = POLICY.partition("  plugins:")[2].partition("---")[0]
    path.write_text(POLICY.replace("\n  plugins:" + plugins, PACKING) + settings, encoding="utf-8")
    return path


def values(cluster: Any) -> dict[str, str]:
    """Return the value of the taint by node."""
    return {
        node["metadata"]["name"]: taint.get("value", "")
        for node in cluster.call("GET", "/api/v1/nodes")["items"]
        for taint in node["spec"].get("taints", ())
        if taint["key"] == KEY
    }


def nodes_of(folder: Path, kind: str) -> list[str]:
    return [event.data.node for event in read_events(folder) if event.type == kind]


def test_the_next_leader_goes_on_with_a_set_and_without_the_plugin_no_taint_is_left(
    cluster: Any, controller: Start, tmp_path: Path, settings: str, policy: Path
) -> None:
    leader = controller(*ELECTION)
    leader.wait_for(ACQUIRED)
    standby = controller(*ELECTION)
    standby.wait_for("the cluster is synced")
    leader.wait_for(BEGUN)
    leader.process.send_signal(signal.SIGKILL)
    (begun,) = nodes_of(tmp_path / "journal", CONSOLIDATION_BEGUN) or values(cluster)
    standby.wait_for(ACQUIRED)

    standby.wait_until(lambda: values(cluster).get(begun) != "emptying")
    standby.wait_until(lambda: begun in nodes_of(tmp_path / "journal", CONSOLIDATION_ENDED))

    policy.write_text(POLICY + settings, encoding="utf-8")
    standby.wait_until(lambda: not values(cluster))
