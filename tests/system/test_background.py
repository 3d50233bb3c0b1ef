"""Evictions that another program carries out in the background, in a simulated cluster."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reactive_desched.api.event import EVICTION_REQUESTED, EVICTION_SUCCEEDED
from reactive_desched.journal.events import read_events
from tests.support.limits import UNLIMITED
from tests.system.conftest import POLICY, wait_until

PODS = "/api/v1/namespaces/default/pods?labelSelector=app%3Dvm"
VIRTUAL_MACHINES = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "vm", "namespace": "default"},
    "spec": {
        "replicas": 6,
        "selector": {"matchLabels": {"app": "vm"}},
        "template": {
            "metadata": {
                "labels": {"app": "vm"},
                "annotations": {"descheduler.alpha.kubernetes.io/request-evict-only": ""},
            },
            "spec": {"containers": [{"name": "main", "image": "main"}]},
        },
    },
}


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY + UNLIMITED, encoding="utf-8")
    return path


def test_a_pod_that_moves_in_the_background_is_asked_for_once_and_watched_to_its_end(
    cluster: Any, controller: Callable[..., Any], tmp_path: Path
) -> None:
    cluster.create("/apis/apps/v1/namespaces/default/deployments", VIRTUAL_MACHINES)
    program = controller("--log-format", "json")
    program.wait_for("the cluster is synced")
    wait_until(lambda: len(nodes(cluster)) == 6 or None, program)
    before = nodes(cluster)
    node = max(set(before.values()), key=[*before.values()].count)
    doomed = {uid for uid, at in before.items() if at == node}
    cluster.taint(node, "gpu")

    wait_until(lambda: not doomed & nodes(cluster).keys() or None, program)

    events = [event for event in read_events(tmp_path / "journal") if event.data is not None]
    asked = Counter(event.data.who.uid for event in events if event.type == EVICTION_REQUESTED)
    assert {uid: asked[uid] for uid in doomed} == dict.fromkeys(doomed, 1)
    reasons = {
        event.data.outcome.reason
        for event in events
        if event.type == EVICTION_SUCCEEDED and event.data.who.uid in doomed
    }
    assert reasons == {"EvictionInBackground"}
    assert node not in set(nodes(cluster).values())


def nodes(cluster: Any) -> dict[str, str]:
    """Return the nodes of the virtual machines' pods by uid."""
    items = cluster.call("GET", PODS)["items"]
    found = {pod["metadata"]["uid"]: pod["spec"].get("nodeName", "") for pod in items}
    return {uid: node for uid, node in found.items() if node}
