"""What a tenant writes into an object ends neither the process nor its work for others."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from reactive_desched.api.event import EVICTION_SUCCEEDED
from reactive_desched.journal.events import read_events
from reactive_desched.primitives.bounded_text import MAX_NAME_CHARS

NODE = "node-1"


def written_pod(name: str, **metadata: object) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {"nodeName": NODE, "containers": [{"name": "app", "image": "app"}]},
        "status": {"phase": "Running"},
    }


def test_an_owner_name_of_any_length_ends_no_process_and_is_recorded_cut(
    cluster: Any, controller: Callable[..., Any], tmp_path: Path
) -> None:
    namespace = cluster.call("GET", "/api/v1/namespaces/default")["metadata"]
    owner = {
        "apiVersion": "example.com/v1",
        "kind": "Hostile",
        "name": "x" * 300_000,
        "uid": namespace["uid"],
        "controller": True,
    }
    cluster.create(
        "/api/v1/namespaces/default/pods", written_pod("hostile", ownerReferences=[owner])
    )
    program = controller()
    program.wait_for("the cluster is synced")
    movable = {uid for uid, kind in cluster.pods_on(NODE).items() if kind != "DaemonSet"}

    cluster.taint(NODE, "gpu")
    program.wait_for(rf"(?s)(evicted .*){{{len(movable)}}}")

    assert program.stop() == 0
    evicted = {
        event.data.who.uid: event.data.who
        for event in read_events(tmp_path / "journal")
        if event.type == EVICTION_SUCCEEDED
    }
    assert set(evicted) == movable
    hostile = next(who for who in evicted.values() if who.name == "hostile")
    assert "(300000 characters" in hostile.owners[0].name
    assert len(hostile.owners[0].name) <= MAX_NAME_CHARS
    assert all(len(line) < 10_000 for line in program.output.splitlines())
