import pytest

from reactive_desched.model.qos import Asks, computed_qos

BOTH = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        pytest.param([], "BestEffort", id="no containers"),
        pytest.param([Asks()], "BestEffort", id="nothing asked"),
        pytest.param([Asks({"cpu": "0"}, {"memory": "0"})], "BestEffort", id="only zeros"),
        pytest.param([Asks({"nvidia.com/gpu": "1"})], "BestEffort", id="only other resources"),
        pytest.param([Asks({"cpu": "1"})], "Burstable", id="a request"),
        pytest.param([Asks({}, {"cpu": "1"})], "Burstable", id="a limit"),
        pytest.param([Asks(BOTH, BOTH)], "Guaranteed", id="requests equal limits"),
        pytest.param(
            [Asks(BOTH, {"cpu": "1000m", "memory": "1024Mi"})], "Guaranteed", id="in other units"
        ),
        pytest.param([Asks(BOTH, BOTH | {"cpu": "2"})], "Burstable", id="a higher limit"),
        pytest.param([Asks(BOTH, {"cpu": "1"})], "Burstable", id="one limit missing"),
        pytest.param([Asks({}, BOTH)], "Burstable", id="limits without requests"),
        pytest.param([Asks(BOTH, BOTH), Asks()], "Burstable", id="a container without limits"),
        pytest.param(
            [Asks({"cpu": "1m", "memory": "1"}, {"cpu": "2m", "memory": "1"}),
             Asks({"cpu": "2m", "memory": "1"}, {"cpu": "1m", "memory": "1"})],
            "Guaranteed",
            id="only the sums are compared",
        ),
    ],
)  # fmt: skip
def test_the_class_of_service_follows_from_what_containers_ask(
    containers: list[Asks], expected: str
) -> None:
    assert computed_qos(containers) == expected
