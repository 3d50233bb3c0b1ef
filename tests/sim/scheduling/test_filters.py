"""Which nodes can take a pod, and in whose words they refuse."""

from typing import Any

import pytest

from tests.support.golden import verbatim
from tests.support.sim_world import SimulatedCluster

CORDON = "node.kubernetes.io/unschedulable"


def verdicts(world: SimulatedCluster, **template: Any) -> dict[str, tuple[str, ...]]:
    """Return each node's reasons against a pod of this template."""
    pod = world.pod("candidate", schedulerName="nobody", **template)
    return world.cluster.scheduler.verdicts(pod)


def possible(world: SimulatedCluster, **template: Any) -> set[str]:
    """Return the nodes that can take a pod of this template."""
    return {node for node, reasons in verdicts(world, **template).items() if not reasons}


def toleration(**fields: Any) -> dict[str, Any]:
    """Return a toleration."""
    return fields


@pytest.mark.parametrize(
    ("tolerations", "allowed"),
    [
        pytest.param([], False, id="nobody may"),
        pytest.param([toleration(operator="Exists")], True, id="whoever tolerates everything may"),
        pytest.param(
            [toleration(key=CORDON, operator="Exists", effect="NoSchedule")], True, id="by name"
        ),
        pytest.param(
            [toleration(key=CORDON, operator="Exists", effect="NoExecute")],
            False,
            id="not with another effect",
        ),
    ],
)
def test_a_cordoned_node(tolerations: list[dict[str, Any]], allowed: bool) -> None:  # noqa: FBT001 -- a column of the table
    world = SimulatedCluster().nodes("n1")
    world.edit("nodes", "n1", unschedulable=True)

    reasons = verdicts(world, tolerations=tolerations)["n1"]

    assert reasons == (() if allowed else ("node(s) were unschedulable",))


@pytest.mark.parametrize(
    ("effect", "allowed"), [("NoSchedule", False), ("NoExecute", False), ("PreferNoSchedule", True)]
)
def test_only_hard_taints_keep_a_pod_away(effect: str, allowed: bool) -> None:  # noqa: FBT001 -- a column of the table
    world = SimulatedCluster().nodes("n1", taints=({"key": "a", "effect": effect},))

    reasons = verdicts(world)["n1"]

    assert reasons == (() if allowed else ("node(s) had untolerated taint(s)",))


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    """Return required node affinity with these alternatives."""
    selector = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    """Return a term with one expression."""
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("affinity", "allowed"),
    [
        pytest.param(required(expression("disk", "In", "ssd")), {"n1"}, id="in"),
        pytest.param(required(expression("disk", "NotIn", "ssd")), {"n2", "n3"}, id="not in"),
        pytest.param(required(expression("disk", "Exists")), {"n1", "n2"}, id="exists"),
        pytest.param(required(expression("disk", "DoesNotExist")), {"n3"}, id="absent"),
        pytest.param(required(expression("size", "Gt", "4")), {"n1"}, id="greater"),
        pytest.param(required(expression("size", "Lt", "5")), {"n2"}, id="less; absent is no"),
        pytest.param(
            required(expression("disk", "In", "ssd"), expression("disk", "In", "hdd")),
            {"n1", "n2"},
            id="alternatives",
        ),
        pytest.param(required(), set(), id="no alternative at all"),
        pytest.param(required({}), set(), id="an empty alternative"),
        pytest.param(
            required({}, expression("disk", "In", "ssd")), {"n1"}, id="empty ones are skipped"
        ),
        pytest.param(
            required(
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
            ),
            {"n2"},
            id="by name",
        ),
    ],
)
def test_required_node_affinity(affinity: dict[str, Any], allowed: set[str]) -> None:
    world = SimulatedCluster().nodes("n1", labels={"disk": "ssd", "size": "8"})
    world.nodes("n2", labels={"disk": "hdd", "size": "2"}).nodes("n3")

    assert possible(world, affinity=affinity) == allowed


def test_selector_and_affinity_must_both_hold() -> None:
    world = SimulatedCluster().nodes("n1", labels={"disk": "ssd", "pool": "a"})
    world.nodes("n2", labels={"disk": "ssd", "pool": "b"})
    affinity = required(expression("disk", "In", "ssd"))

    assert possible(world, affinity=affinity, nodeSelector={"pool": "b"}) == {"n2"}


def port(number: int, address: str = "", protocol: str = "TCP") -> dict[str, Any]:
    """Return containers with one host port."""
    ports = [{"containerPort": 80, "hostPort": number, "hostIP": address, "protocol": protocol}]
    return {"containers": [{"name": "main", "image": "x", "ports": ports}]}


@pytest.mark.parametrize(
    ("wanted", "allowed"),
    [
        pytest.param(port(8080), False, id="the same port"),
        pytest.param(port(8081), True, id="another port"),
        pytest.param(port(8080, protocol="UDP"), True, id="another protocol"),
        pytest.param(port(8080, "10.0.0.1"), False, id="the same address"),
        pytest.param(port(8080, "10.0.0.2"), True, id="another address"),
        pytest.param(port(8080, "0.0.0.0"), False, id="every address"),
    ],
)
def test_host_ports(wanted: dict[str, Any], allowed: bool) -> None:  # noqa: FBT001 -- a column of the table
    world = SimulatedCluster().nodes("n1")
    world.pod("holder", nodeName="n1", **port(8080, "10.0.0.1"))

    assert (possible(world, **wanted) == {"n1"}) is allowed


@pytest.mark.parametrize(
    ("asked", "reasons"),
    [
        pytest.param({"cpu": "1", "memory": "4Gi"}, (), id="exactly what is left"),
        pytest.param({"cpu": "1001m"}, ("Insufficient cpu",), id="a thousandth too much"),
        pytest.param(
            {"cpu": "2", "memory": "5Gi"},
            ("Insufficient cpu", "Insufficient memory"),
            id="every shortage is named",
        ),
        pytest.param({}, (), id="nothing asked"),
        pytest.param({"cpu": "0", "memory": "1Gi"}, (), id="zero asked"),
    ],
)
def test_what_is_left_of_a_node(asked: dict[str, str], reasons: tuple[str, ...]) -> None:
    world = SimulatedCluster().nodes("n1")
    world.pod("holder", nodeName="n1", cpu="3", memory="4Gi")

    assert verdicts(world, **asked)["n1"] == reasons


def test_a_pod_that_asks_for_nothing_fits_on_an_over_committed_node() -> None:
    world = SimulatedCluster().nodes("n1")
    world.pod("holder", nodeName="n1", cpu="9")

    assert possible(world, cpu="0", memory="1Gi") == {"n1"}
    assert world.cluster.scheduler.verdicts(world.pod("other", cpu="1m"))["n1"]


def test_a_resource_that_the_node_does_not_have_never_fits() -> None:
    world = SimulatedCluster().nodes("n1")
    limits = {"example.com/gpu": "1"}
    container = {"name": "main", "image": "x", "resources": {"limits": limits}}

    assert verdicts(world, containers=[container])["n1"] == ("Insufficient example.com/gpu",)


def test_the_number_of_pods_is_limited_and_terminating_ones_still_count() -> None:
    world = SimulatedCluster().nodes("n1", pods="1")
    world.pod("holder")
    world.advance(5)
    world.delete("pods", "holder")
    assert world.phases() == {"holder": "Terminating"}

    full = verdicts(world)["n1"]
    world.advance(5)

    assert full == ("Too many pods",)
    assert world.cluster.scheduler.verdicts(world.get("pods", "candidate"))["n1"] == ()


def test_a_pod_that_has_ended_holds_nothing() -> None:
    world = SimulatedCluster().nodes("n1")
    done = {"sim.reactive-desched/profile": "complete", "sim.reactive-desched/run-seconds": "1"}
    world.pod("holder", cpu="4", annotations=done, restartPolicy="Never")
    world.advance(5)
    assert world.phases() == {"holder": "Succeeded"}

    assert possible(world, cpu="4") == {"n1"}


def test_a_node_named_in_advance_is_the_only_one() -> None:
    world = SimulatedCluster().nodes("n1", "n2")

    assert verdicts(world, nodeName="n2") == {
        "n1": (verbatim("node(s) didn't match the requested node name"),),
        "n2": (),
    }
