"""What a pod asks for, read from its JSON."""

from typing import Any

import pytest

from reactive_desched.sim.scheduling.needs import NeedsReader, PodNeeds
from tests.support.sim_world import pod_template


def read(**spec: Any) -> PodNeeds:
    """Return the needs of a pod with this spec."""
    pod = pod_template("web", **spec)
    return NeedsReader().read({**pod, "metadata": {**pod["metadata"], "name": "p"}})


def container(cpu: str, **more: Any) -> dict[str, Any]:
    """Return a container that requests some cpu."""
    return {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}, **more}


SIDECAR = container("200m", restartPolicy="Always")
HALF = container("500m")


@pytest.mark.parametrize(
    ("spec", "cpu_m"),
    [
        pytest.param(
            {"containers": [HALF, HALF], "initContainers": [container("2")]}, 2000, id="init peak"
        ),
        pytest.param(
            {"containers": [HALF], "initContainers": [SIDECAR, container("400m")]},
            700,
            id="sidecar before an init container",
        ),
        pytest.param(
            {"containers": [HALF], "initContainers": [container("400m"), SIDECAR]},
            700,
            id="sidecar after an init container",
        ),
        pytest.param(
            {"containers": [container("100m")], "initContainers": [SIDECAR, container("1")]},
            1200,
            id="init peak on top of the sidecar",
        ),
        pytest.param(
            {"containers": [container("2")], "overhead": {"cpu": "250m"}}, 2250, id="overhead"
        ),
        pytest.param(
            {"containers": [HALF], "resources": {"requests": {"cpu": "1"}}}, 1000, id="pod level"
        ),
    ],
)
def test_the_sum_of_requests(spec: dict[str, Any], cpu_m: int) -> None:
    assert read(**spec).requests["cpu"] == cpu_m


def test_scores_assume_a_little_for_a_container_that_asks_for_nothing() -> None:
    silent = {"name": "c", "image": "x"}

    both = read(containers=[HALF, silent])

    assert (both.requests, both.scored_cpu_m) == ({"cpu": 500}, 600)
    assert both.scored_memory == 2 * 200 * 2**20
    assert read(containers=[container("0")]).scored_cpu_m == 0


def test_pods_of_one_template_share_their_needs() -> None:
    reader, template = NeedsReader(), pod_template("web", cpu="1")
    first = {**template, "metadata": {**template["metadata"], "name": "a"}}
    second = {**template, "metadata": {**template["metadata"], "name": "b"}}

    assert reader.read(first) is reader.read(second)


def test_an_ephemeral_volume_claims_under_the_name_of_its_pod() -> None:
    reader = NeedsReader()
    template = pod_template("web", volumes=[{"name": "scratch", "ephemeral": {}}])
    pods = [{**template, "metadata": {**template["metadata"], "name": name}} for name in "ab"]

    assert [reader.read(pod).claims for pod in pods] == [("a-scratch",), ("b-scratch",)]


def test_host_ports_count_for_containers_and_sidecars() -> None:
    ports = [{"hostPort": 80, "hostIP": "10.0.0.1"}, {"containerPort": 81}]
    sidecar = container("1", restartPolicy="Always", ports=[{"hostPort": 82, "protocol": "UDP"}])
    init = container("1", ports=[{"hostPort": 83}])

    needs = read(containers=[container("1", ports=ports)], initContainers=[sidecar, init])

    assert [(p.address, p.protocol, p.port) for p in needs.host_ports] == [
        ("10.0.0.1", "TCP", 80),
        ("0.0.0.0", "UDP", 82),
    ]


def test_match_label_keys_narrow_the_selector_to_the_pods_own_values() -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["version", "absent"],
    }

    (spread,) = read(labels={"version": "2"}, topologySpreadConstraints=[constraint]).spread

    assert spread.selects({"app": "web", "version": "2"})
    assert not spread.selects({"app": "web", "version": "1"})
