import pytest

from reactive_desched.model.qos import ResourceRequirements as Needs
from reactive_desched.model.qos import compute_qos_class

BOTH = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        pytest.param([], "BestEffort", id="no containers"),
        pytest.param([Needs()], "BestEffort", id="nothing asked"),
        pytest.param([Needs({"cpu": "0"}, {"memory": "0"})], "BestEffort", id="only zeros"),
        pytest.param([Needs({"nvidia.com/gpu": "1"})], "BestEffort", id="only other resources"),
        pytest.param([Needs({"cpu": "1"})], "Burstable", id="a request"),
        pytest.param([Needs({}, {"cpu": "1"})], "Burstable", id="a limit"),
        pytest.param([Needs(BOTH, BOTH)], "Guaranteed", id="requests equal limits"),
        pytest.param(
            [Needs(BOTH, {"cpu": "1000m", "memory": "1024Mi"})], "Guaranteed", id="in other units"
        ),
        pytest.param([Needs(BOTH, BOTH | {"cpu": "2"})], "Burstable", id="a higher limit"),
        pytest.param([Needs(BOTH, {"cpu": "1"})], "Burstable", id="one limit missing"),
        pytest.param([Needs({}, BOTH)], "Burstable", id="limits without requests"),
        pytest.param([Needs(BOTH, BOTH), Needs()], "Burstable", id="a container without limits"),
        pytest.param(
            [Needs({"cpu": "1m", "memory": "1"}, {"cpu": "2m", "memory": "1"}),
             Needs({"cpu": "2m", "memory": "1"}, {"cpu": "1m", "memory": "1"})],
            "Guaranteed",
            id="only the sums are compared",
        ),
    ],
)  # fmt: skip
def test_the_class_of_service_follows_from_what_containers_ask(
    containers: list[Needs], expected: str
) -> None:
    assert compute_qos_class(containers) == expected
