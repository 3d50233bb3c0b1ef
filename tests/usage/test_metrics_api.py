"""What metrics-server says becomes a sample for each node."""

from typing import Any

import msgspec
import pytest

from reactive_desched.errors import Malformed
from reactive_desched.kube.codec import ResourceCodec
from reactive_desched.model.usage import NodeUsage
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.testing.builders import pod
from reactive_desched.usage.metrics_api import (
    NODE_METRICS,
    POD_METRICS,
    NodeMetrics,
    PodMetrics,
    make_samples,
)

NODE: dict[str, Any] = {
    "metadata": {"name": "n1", "creationTimestamp": "2026-11-21T07:17:02Z"},
    "timestamp": "2026-11-21T07:17:02Z",
    "window": "20s",
    "usage": {"cpu": "1500000001n", "memory": "4915Mi"},
}


def read_node(obj: dict[str, Any]) -> NodeMetrics:
    return ResourceCodec(NODE_METRICS, InternTables()).decode_object(msgspec.json.encode(obj))


def read_pod(*usages: dict[str, str], **metadata: str) -> PodMetrics:
    containers = [{"name": f"c{n}", "usage": usage} for n, usage in enumerate(usages)]
    obj = {"metadata": {"namespace": "shop", "name": "a", **metadata}, "containers": containers}
    return ResourceCodec(POD_METRICS, InternTables()).decode_object(msgspec.json.encode(obj))


def test_a_node_has_milli_cores_rounded_up_and_bytes_and_the_time_they_were_measured() -> None:
    assert read_node(NODE) == NodeMetrics(
        "n1", {"cpu": 1501, "memory": 4915 * 2**20}, sampled_s=1795245422.0, window_s=20.0
    )


@pytest.mark.parametrize(
    ("window", "seconds"), [("15s", 15), ("20.056s", 20.056), ("1m0.5s", 60.5), ("500ms", 0.5)]
)
def test_the_window_is_a_duration(window: str, seconds: float) -> None:
    assert read_node({**NODE, "window": window}).window_s == seconds


@pytest.mark.parametrize("window", ["", "s", ".s", "long", "infs"])
def test_a_node_without_a_window_was_measured_at_a_moment(window: str) -> None:
    assert read_node({**NODE, "window": window}).window_s == 0


def test_the_containers_of_a_pod_add_up() -> None:
    both = read_pod({"cpu": "100m", "memory": "1Ki"}, {"cpu": "1", "memory": "2Ki"})

    assert (both.key, both.usage) == ("shop/a", {"cpu": 1100, "memory": 3072})


def test_a_resource_that_one_container_lacks_is_not_known_of_the_pod() -> None:
    assert read_pod({"cpu": "100m", "memory": "1Ki"}, {"memory": "2Ki"}).usage == {"memory": 3072}
    assert read_pod().usage == {}


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"timestamp": None}, id="no time"),
        pytest.param({"usage": {"cpu": "much"}}, id="no quantity"),
        pytest.param({"usage": []}, id="a list"),
    ],
)
def test_an_object_that_cannot_be_read_is_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(Malformed, match="NodeMetrics n1 cannot be read"):
        read_node({**NODE, **wrong})


def test_a_sample_has_the_pods_of_its_node_alone() -> None:
    nodes = [NodeMetrics(name, {"cpu": 5}, 1.0, 20.0) for name in ("n1", "n2")]
    used = {"shop/a": {"cpu": 1}, "shop/gone": {"cpu": 1}}
    pods_on = {
        name: [pod(each, namespace="shop") for each in pods]
        for name, pods in (("n1", "ax"), ("n3", "b"))
    }

    samples = make_samples(nodes, used, lambda node: pods_on.get(node, ()))

    assert list(samples) == [
        NodeUsage("KubernetesMetrics", "n1", {"cpu": 5}, 1.0, {"shop/a": {"cpu": 1}}, 20.0),
        NodeUsage("KubernetesMetrics", "n2", {"cpu": 5}, 1.0, {}, 20.0),
    ]
