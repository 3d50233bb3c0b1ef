"""What is kept of a Node as the API server writes it."""

import json
from typing import Any

from reactive_desched.kube.codec import ResourceCodec
from reactive_desched.model.node_conditions import MAX_CONDITIONS
from reactive_desched.model.objects import Node, NodeImage
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.state.kinds.node import MAX_IMAGE_NAMES, MAX_IMAGES, NODE


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


def with_images(tables: InternTables, images: list[dict[str, Any]] | None) -> Node:
    written = {"metadata": {"name": "n1", "uid": "n1"}, "status": {"images": images}}
    return ResourceCodec(NODE, tables).decode_object(json.dumps(written).encode())


def test_nodes_share_the_images_that_they_have() -> None:
    tables, image = InternTables(), {"names": ["app@sha256:0", "app:v1"], "sizeBytes": 9}
    one = with_images(tables, [image, {"names": None, "sizeBytes": 5}])
    other = with_images(tables, [{"names": ["other:v1"]}, image])

    assert one.images == (NodeImage(("app@sha256:0", "app:v1"), 9), NodeImage((), 5))
    assert other.images == (NodeImage(("other:v1",)), one.images[0])
    assert one.images[0] is other.images[1]
    assert with_images(tables, None).images == ()


def test_so_many_images_of_a_node_are_read_and_so_many_of_their_names() -> None:
    names = [f"app:v{number}" for number in range(MAX_IMAGE_NAMES + 1)]
    image = {"names": names, "sizeBytes": 1}
    found = with_images(InternTables(), [image] * (MAX_IMAGES + 1)).images

    assert len(found) == MAX_IMAGES
    assert found[0].names == tuple(names[:-1])
