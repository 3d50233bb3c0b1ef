"""Services, and the pods that their EndpointSlices list."""

from reactive_desched.sim.objects import Obj
from tests.support.sim_world import SimulatedCluster


def served(replicas: int = 2) -> SimulatedCluster:
    """Return a cluster with a Service over the pods of a Deployment."""
    world = SimulatedCluster().nodes("n1/a")
    world.deployment("web", replicas)
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    world.create("services", "web", {"selector": {"app": "web"}, "ports": ports})
    return world.advance(5)


def slices(world: SimulatedCluster) -> list[Obj]:
    """Return the slices of the Service."""
    return world.store.list("endpointslices", "default")


def states(world: SimulatedCluster) -> dict[str, tuple[bool, bool, bool]]:
    """Return by pod whether its endpoint is ready, serving, terminating."""
    return {
        each["targetRef"]["name"]: (
            each["conditions"]["ready"],
            each["conditions"]["serving"],
            each["conditions"]["terminating"],
        )
        for found in slices(world)
        for each in found["endpoints"]
    }


def test_the_ready_pods_of_a_service_are_listed_with_node_and_zone() -> None:
    world = served()

    (found,) = slices(world)
    assert found["metadata"]["labels"]["kubernetes.io/service-name"] == "web"
    assert found["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
    assert {(each["nodeName"], each["zone"]) for each in found["endpoints"]} == {("n1", "a")}
    assert states(world) == dict.fromkeys(world.names("web"), (True, True, False))


def test_a_pod_that_ends_serves_until_it_is_gone_and_is_not_ready() -> None:
    world = served(1)
    (first,) = world.names("web")

    world.evict(first)
    assert states(world)[first] == (False, True, True)

    world.advance(10)
    assert states(world) == dict.fromkeys(world.names("web") - {first}, (True, True, False))


def test_a_pod_whose_label_no_longer_matches_is_not_listed() -> None:
    world = served(1)
    world.store.create(
        "pods",
        {
            "metadata": {"name": "other", "namespace": "default", "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "example/main:1"}]},
        },
    )
    world.advance(5)
    assert "other" in states(world)

    def relabelled(pod: Obj) -> Obj:
        return {**pod, "metadata": {**pod["metadata"], "labels": {"app": "else"}}}

    world.store.modify("pods", "default", "other", relabelled)
    world.advance(1)

    assert "other" not in states(world)


def test_a_slice_has_a_hundred_endpoints_at_most_and_goes_with_its_service() -> None:
    world = served(130)
    world.nodes("n2").advance(10)
    assert sorted(len(found["endpoints"]) for found in slices(world)) == [30, 100]

    world.store.modify(
        "deployments",
        "default",
        "web",
        lambda it: {**it, "spec": {**it["spec"], "replicas": 3}},
    )
    world.advance(10)
    assert [len(found["endpoints"]) for found in slices(world)] == [3]

    world.delete("services", "web")
    world.advance(5)
    assert slices(world) == []


def with_named_port(**spec: object) -> SimulatedCluster:
    """Return a cluster with a Service whose port has the name of a container's port."""
    world = SimulatedCluster().nodes("n1/a")
    world.deployment("web", 2)
    ports = [{"name": "http", "port": 80, "targetPort": "web"}]
    world.create("services", "web", {"selector": {"app": "web"}, "ports": ports, **spec})
    for number in (8080, 9090):
        container = {
            "name": "c",
            "image": "i",
            "ports": [{"name": "web", "containerPort": number}],
        }
        world.store.create(
            "pods",
            {
                "metadata": {
                    "name": f"p{number}",
                    "namespace": "default",
                    "labels": {"app": "web"},
                },
                "spec": {"containers": [container]},
            },
        )
    return world.advance(9)


def test_a_port_by_name_is_that_of_each_pod() -> None:
    world = with_named_port()

    by_number = {
        str([port["port"] for port in each["ports"]]): len(each["endpoints"])
        for each in slices(world)
    }
    assert by_number == {"[]": 2, "[8080]": 1, "[9090]": 1}
    endpoints = world.store.get("endpoints", "default", "web")
    assert endpoints is not None
    assert [each["ports"][0]["port"] for each in endpoints["subsets"]] == [8080, 9090]


def test_the_endpoints_of_a_service_list_ready_pods_apart_and_go_with_it() -> None:
    world = served()
    (subset,) = (world.store.get("endpoints", "default", "web") or {})["subsets"]
    assert {each["targetRef"]["name"] for each in subset["addresses"]} == world.names("web")
    assert subset["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]

    leaving = min(world.names("web"))
    world.evict(leaving)
    (subset,) = (world.store.get("endpoints", "default", "web") or {})["subsets"]
    assert leaving not in {each["targetRef"]["name"] for each in subset["addresses"]}

    world.store.delete("services", "default", "web")
    world.advance(1)
    assert world.store.get("endpoints", "default", "web") is None


def test_endpoints_that_a_client_made_stay_when_a_service_goes() -> None:
    world = SimulatedCluster().nodes("n1/a")
    world.store.create("endpoints", {"metadata": {"name": "own", "namespace": "default"}})
    world.create("services", "own", {"ports": [{"port": 80}]})
    world.advance(1)
    world.store.delete("services", "default", "own")
    world.advance(1)

    assert world.store.get("endpoints", "default", "own") is not None
