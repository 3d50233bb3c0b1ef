"""What is kept of a Node as the API server writes it."""

import json
from typing import Any

from reactive_desched.kube.codec import ResourceCodec
from reactive_desched.model.node_conditions import MAX_CONDITIONS
from reactive_desched.model.objects import Node
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.state.kinds.node import NODE


def read(*conditions: dict[str, Any]) -> Node:
    codec = ResourceCodec(NODE, InternTables())
    written = {"metadata": {"name": "n1", "uid": "n1"}, "status": {"conditions": conditions}}
    return codec.decode_object(json.dumps(written).encode())


def test_conditions_other_than_ready_are_kept_by_type_with_their_last_transition() -> None:
    node = read(
        {"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:09Z"},
        {
            "type": "ReadonlyFilesystem",
            "status": "False",
            "lastHeartbeatTime": "1970-01-01T00:01:00Z",
            "lastTransitionTime": "1970-01-01T00:00:05Z",
        },
        {"type": "KernelDeadlock", "status": "True"},
    )

    assert node.conditions == (("KernelDeadlock", "True"), ("ReadonlyFilesystem", "False"))
    assert node.conditions_changed_s == (None, 5)
    assert (node.ready_status, node.ready_since_s) == ("True", 9)


def test_of_too_many_conditions_the_first_by_type_are_kept() -> None:
    types = [f"C{number:03}" for number in range(MAX_CONDITIONS + 1)]
    node = read(*({"type": kind, "status": "True"} for kind in reversed(types)))

    assert [kind for kind, _ in node.conditions] == types[:MAX_CONDITIONS]


def test_of_a_condition_that_is_reported_twice_the_last_one_counts() -> None:
    twice = ({"type": "KernelDeadlock", "status": status} for status in ("True", "False"))

    assert read(*twice).conditions == (("KernelDeadlock", "False"),)


def test_annotations_that_keep_a_node_are_read() -> None:
    codec = ResourceCodec(NODE, InternTables())
    annotations = {
        "cluster-autoscaler.kubernetes.io/scale-down-disabled": "true",
        "karpenter.sh/do-not-disrupt": "yes",
    }
    metadata = {"name": "n1", "uid": "n1", "annotations": annotations}
    node = codec.decode_object(json.dumps({"metadata": metadata}).encode())

    assert (node.scale_down_disabled, node.do_not_disrupt) == ("true", "yes")
