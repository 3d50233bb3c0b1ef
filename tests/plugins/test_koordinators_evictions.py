"""A sweep evicts what koordinator's own plugins evicted from the same drawn clusters, in order.

koordinators_evictions.jsonl has what its source of July 2026 (a7a1b76b) did, one cluster a line:
nodes by name, labels, allocatable, whether tainted and whether cordoned; pods by name, namespace,
app, node, requests of containers, whether they tolerate the taint and whether they need the disk.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reactive_desched.plugins.custom_priority import CustomPriorityArgs, CustomPriorityPlugin
from reactive_desched.plugins.fragmentation_aware import (
    FragmentationAwareArgs,
    FragmentationAwarePlugin,
)
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.testing.scenario import plugin_from_policy
from tests.support.codecs import make_codecs
from tests.support.swept import swept

MEASURED = Path(__file__).with_name("koordinators_evictions.jsonl").read_text().splitlines()
PLUGINS: dict[str, Any] = {
    "FragmentationAware": (FragmentationAwarePlugin, FragmentationAwareArgs),
    "CustomPriority": (CustomPriorityPlugin, CustomPriorityArgs),
}


def nodes(case: Any) -> Iterator[Any]:
    for name, labels, room, tainted, cordoned in case["nodes"]:
        taints = [{"key": "k", "value": "v", "effect": "NoSchedule"}] if tainted else []
        yield {
            "metadata": {"name": name, "uid": name, "labels": labels},
            "spec": {"taints": taints, "unschedulable": cordoned},
            "status": {"allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]},
        }


def pods(case: Any) -> Iterator[Any]:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True}
    for name, namespace, app, node, requests, tolerates, needs_disk in case["pods"]:
        meta = {"name": name, "namespace": namespace, "uid": name, "labels": {"app": app}}
        containers = [{"name": "c", "resources": {"requests": each}} for each in requests]
        spec: Any = {"nodeName": node, "containers": containers}
        if tolerates:
            spec["tolerations"] = [{"operator": "Exists"}]
        if needs_disk:
            spec["nodeSelector"] = {"disk": "ssd"}
        owners = [{**owner, "name": f"rs-{name}", "uid": f"rs-{name}"}]
        yield {
            "metadata": {**meta, "ownerReferences": owners},
            "spec": spec,
            "status": {"phase": "Running"},
        }


@pytest.mark.parametrize("line", MEASURED, ids=range(len(MEASURED)))
def test_a_sweep_evicts_what_koordinators_plugin_evicted(line: str) -> None:
    case, codecs = json.loads(line), make_codecs(InternTables())
    plugin = plugin_from_policy(*PLUGINS[case["plugin"]], **case["args"])
    read_node, read_pod = codecs.nodes.decode_object, codecs.pods.decode_object
    there = (read_node(json.dumps(each).encode()) for each in nodes(case))
    running = (read_pod(json.dumps(each).encode()) for each in pods(case))

    assert swept(plugin, *there, *running) == case["evicted"]
