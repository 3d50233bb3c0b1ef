"""NodeMetrics of koordinator, and what its annotations say of a node."""

import json
from math import inf
from typing import Any

import pytest

from reactive_desched.errors import Malformed
from reactive_desched.model.usage import NODE_METRIC, NodeMetric
from reactive_desched.state.kinds.interning import InternTables
from tests.support.codecs import make_codecs

NAME = {"metadata": {"name": "n1", "uid": "u1", "resourceVersion": "7"}}
STATUS: dict[str, Any] = {
    "updateTime": "2026-11-21T07:31:59Z",
    "nodeMetric": {
        "nodeUsage": {"resources": {"cpu": "9"}},
        "systemUsage": {"resources": {"cpu": "1241m", "memory": "1Ki"}},
    },
    "podsMetric": [
        {
            "namespace": "a",
            "name": "x",
            "podUsage": {"resources": {"cpu": "902m", "memory": "2Ki"}},
        },
        {"namespace": "a", "name": "y", "podUsage": {"resources": {"example.com/gpu": "1"}}},
    ],
}


def read(**status: Any) -> NodeMetric:
    obj = {**NAME, "status": {**STATUS, **status}}
    return make_codecs(InternTables()).node_metrics.decode_object(json.dumps(obj).encode())


def test_use_is_what_the_system_and_all_pods_use() -> None:
    assert read() == NodeMetric(
        NODE_METRIC,
        "n1",
        {"cpu": 2143, "memory": 3072, "example.com/gpu": 1},
        1795246319.0,
        {"a/x": {"cpu": 902, "memory": 2048}, "a/y": {"example.com/gpu": 1}},
        uid="u1",
        resource_version=7,
        pods_usage={"cpu": 902, "memory": 2048, "example.com/gpu": 1},
    )


def test_where_a_pod_is_there_twice_the_use_of_pods_is_not_summed() -> None:
    [x, y] = STATUS["podsMetric"]

    twice = read(podsMetric=[x, y, x])

    assert twice.pods_usage is None
    assert twice.usage["cpu"] == 2143 + 902


@pytest.mark.parametrize("missing", ["updateTime", "nodeMetric"])
def test_without_a_measurement_or_its_time_it_is_older_than_any(missing: str) -> None:
    assert read(**{missing: None}).sampled_s == -inf


def test_a_quantity_that_is_none_makes_it_malformed() -> None:
    wrong = {"systemUsage": {"resources": {"cpu": "much"}}}

    with pytest.raises(Malformed, match="NodeMetric n1"):
        read(nodeMetric=wrong)


def load_capacity(**annotations: Any) -> Any:
    written = {
        f"node.koordinator.sh/{key.replace('_', '-')}": value
        if isinstance(value, str)
        else json.dumps(value)
        for key, value in annotations.items()
    }
    obj = {
        "metadata": {"name": "n1", "annotations": written},
        "status": {"allocatable": {"cpu": "8", "memory": "1Ki", "kubernetes.io/batch-cpu": "4000"}},
    }
    node = make_codecs(InternTables()).nodes.decode_object(json.dumps(obj).encode())
    return node.load_capacity


LESS = {"cpu": 6000, "memory": 1024, "kubernetes.io/batch-cpu": 4000}


@pytest.mark.parametrize(
    ("annotations", "capacity"),
    [
        pytest.param({}, None, id="none"),
        pytest.param(
            {"raw_allocatable": {"cpu": "4", "memory": "1Mi"}},
            {"cpu": 4000, "memory": 2**20},
            id="raw",
        ),
        pytest.param({"raw_allocatable": "4 cores"}, None, id="raw, not JSON"),
        pytest.param({"raw_allocatable": {"cpu": "4 cores"}}, None, id="raw, no quantity"),
        pytest.param({"reservation": {"resources": {"cpu": "2"}}}, LESS, id="reserved"),
        pytest.param({"reservation": {"reservedCPUs": "0,7"}}, LESS, id="reserved cpus"),
        pytest.param(
            {"reservation": {"resources": {"cpu": "9"}, "reservedCPUs": "2-3"}},
            LESS,
            id="cpus count instead of an amount",
        ),
        pytest.param(
            {"reservation": {"resources": {"cpu": "99"}}},
            {**LESS, "cpu": 0},
            id="never less than nothing",
        ),
        pytest.param(
            {"reservation": {"resources": {"cpu": "2"}, "applyPolicy": "ReservedCPUsOnly"}},
            None,
            id="reserved for something else",
        ),
        pytest.param({"reservation": {"reservedCPUs": "0-x"}}, None, id="no list of cpus"),
        pytest.param({"reservation": {"reservedCPUs": "0-9999999999"}}, None, id="too many cpus"),
        pytest.param({"reservation": {"reservedCPUs": f"0-{'9' * 40}"}}, None, id="no end of cpus"),
        pytest.param({"reservation": {"reservedCPUs": "9" * 5000}}, None, id="a long number"),
        pytest.param(
            {"reservation": {"reservedCPUs": ",".join(["0-65000"] * 3000)}},
            None,
            id="the same cpus again and again",
        ),
        pytest.param(
            {"raw_allocatable": "?", "reservation": {"resources": {"cpu": "2"}}},
            LESS,
            id="the reservation where raw cannot be read",
        ),
    ],
)
def test_annotations_say_what_measured_use_is_a_share_of(
    annotations: dict[str, Any], capacity: dict[str, int] | None
) -> None:
    assert load_capacity(**annotations) == capacity
