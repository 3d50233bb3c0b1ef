"""Namespaces whose pods are counted and limited."""

from typing import Any

import pytest

from reactive_desched.sim.objects import Obj
from reactive_desched.sim.status import StatusError
from tests.support.golden import verbatim
from tests.support.sim_world import SimulatedCluster


def limited(quota: dict[str, str], **spec: Any) -> SimulatedCluster:
    """Return a cluster of one node whose namespace has a quota."""
    world = SimulatedCluster().nodes("n1")
    world.create("resourcequotas", "compute", {"hard": quota, **spec})
    return world


def asking(name: str, **resources: dict[str, str]) -> Obj:
    """Return a pod whose container asks for so much."""
    container = {"name": "main", "image": "example/main:1", "resources": resources}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": [container]}}


def test_a_pod_beyond_the_quota_is_refused_and_the_message_says_of_what() -> None:
    world = limited({"pods": "2", "requests.cpu": "3", "limits.memory": "1Gi"})
    memory = {"memory": "64Mi"}
    world.store.create("pods", asking("a", requests={"cpu": "2"}, limits=memory))

    with pytest.raises(StatusError) as refused:
        world.store.create("pods", asking("b", requests={"cpu": "1500m"}, limits=memory))

    assert refused.value.code == 403
    assert refused.value.message == verbatim(
        'pods "b" is forbidden: exceeded quota: compute, requested: requests.cpu=1500m, '
        "used: requests.cpu=2, limited: requests.cpu=3"
    )


def test_what_a_quota_limits_every_container_has_to_name() -> None:
    world = limited({"cpu": "4", "limits.memory": "1Gi"})

    with pytest.raises(StatusError) as refused:
        world.pod("a")

    assert refused.value.message == verbatim(
        'pods "a" is forbidden: failed quota: compute: must specify cpu for: main; '
        "limits.memory for: main"
    )


def test_the_status_says_what_is_used_and_an_ended_pod_uses_nothing() -> None:
    world = limited({"pods": "5", "requests.memory": "1Gi", "count/configmaps": "3"})
    world.pod("a", memory="256Mi")
    ends = {"sim.reactive-desched/profile": "fail", "sim.reactive-desched/run-seconds": "5"}
    world.pod("b", memory="64Mi", annotations=ends, restartPolicy="Never")
    world.store.create("configmaps", {"metadata": {"name": "c", "namespace": "default"}})
    world.advance(1)
    # As on a real cluster the certificate of the API server is a ConfigMap of the namespace.
    used = {"pods": "2", "requests.memory": "320Mi", "count/configmaps": "2"}
    assert world.status("resourcequotas", "compute")["used"] == used

    world.advance(30)

    used = {"pods": "1", "requests.memory": "256Mi", "count/configmaps": "2"}
    assert world.status("resourcequotas", "compute")["used"] == used


@pytest.mark.parametrize(
    ("spec", "counted"),
    [
        pytest.param({"scopes": ["BestEffort"]}, 1, id="best effort"),
        pytest.param({"scopes": ["NotBestEffort"]}, 3, id="not best effort"),
        pytest.param({"scopes": ["Terminating"]}, 2, id="terminating"),
        pytest.param(
            {
                "scopeSelector": {
                    "matchExpressions": [
                        {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
                    ]
                }
            },
            1,
            id="priority class",
        ),
    ],
)
def test_a_scope_chooses_the_pods_that_count(spec: dict[str, Any], counted: int) -> None:
    world = limited({"pods": "9"}, **spec)
    world.store.create("priorityclasses", {"metadata": {"name": "high"}, "value": 9})
    world.pod("best-effort")
    world.pod("brief", cpu="1", activeDeadlineSeconds=600)
    world.pod("brief-too", cpu="1", activeDeadlineSeconds=600)
    world.pod("urgent", cpu="1", priorityClassName="high")
    world.advance(1)

    assert world.status("resourcequotas", "compute")["used"] == {"pods": str(counted)}


def test_a_replacement_beyond_the_quota_is_created_when_the_evicted_pod_is_gone() -> None:
    world = limited({"pods": "2"})
    slow = {"sim.reactive-desched/shutdown-seconds": "20"}
    world.deployment("web", 2, annotations=slow)
    world.advance(5)

    world.evict(min(world.names("web")))
    world.advance(10)
    assert len(world.names("web")) == 2  # the one that leaves counts
    assert "exceeded quota: compute" in "".join(world.events("FailedCreate"))

    world.advance(30)
    assert sorted(world.phases("web").values()) == ["Ready", "Ready"]


def ranged(**item: Any) -> SimulatedCluster:
    """Return a cluster whose namespace has a LimitRange of one item."""
    world = SimulatedCluster().nodes("n1")
    world.create("limitranges", "range", {"limits": [item]})
    return world


def test_a_limit_range_gives_containers_what_they_do_not_name() -> None:
    world = ranged(type="Container", default={"memory": "1Gi"}, defaultRequest={"cpu": "200m"})

    pod = world.pod("a")

    assert pod["spec"]["containers"][0]["resources"] == {
        "limits": {"memory": "1Gi"},
        "requests": {"cpu": "200m", "memory": "1Gi"},
    }
    assert pod["status"]["qosClass"] == "Burstable"


@pytest.mark.parametrize(
    ("item", "resources", "why"),
    [
        pytest.param(
            {"type": "Container", "min": {"cpu": "100m"}, "defaultRequest": {"cpu": "1"}},
            {"requests": {"cpu": "50m"}},
            verbatim("minimum cpu usage per Container is 100m, but request is 50m"),
            id="min",
        ),
        pytest.param(
            {"type": "Container", "max": {"cpu": "1"}},
            {"limits": {"cpu": "2"}},
            verbatim("maximum cpu usage per Container is 1, but limit is 2"),
            id="max",
        ),
        pytest.param(
            {"type": "Pod", "max": {"memory": "1Gi"}},
            {"requests": {"memory": "2Gi"}},
            verbatim("maximum memory usage per Pod is 1Gi.  No limit is specified"),
            id="pod",
        ),
    ],
)
def test_a_pod_outside_of_a_limit_range_is_refused(
    item: dict[str, Any], resources: dict[str, dict[str, str]], why: str
) -> None:
    world = ranged(**item)

    with pytest.raises(StatusError) as refused:
        world.store.create("pods", asking("a", **resources))

    assert refused.value.message == f'pods "a" is forbidden: {why}'


def test_only_what_a_quota_names_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    world = limited({"count/configmaps": "3"})
    listed = list[str]()
    plain = world.store.list

    def noted(resource: str, namespace: str | None = None) -> list[Obj]:
        listed.append(resource)
        return plain(resource, namespace)

    monkeypatch.setattr(world.store, "list", noted)
    meta = {"name": "c", "namespace": "default"}
    world.store.create("secrets", {"metadata": meta})
    world.cluster.settle()
    of_others = [kind for kind in listed if kind != "resourcequotas"]
    listed.clear()
    world.store.create("configmaps", {"metadata": meta})
    world.cluster.settle()

    assert of_others == []
    assert "configmaps" in listed
    assert "secrets" not in listed
    assert world.status("resourcequotas", "compute")["used"] == {"count/configmaps": "2"}


def test_claims_count_by_the_storage_that_they_ask_for() -> None:
    world = limited({"requests.storage": "2Gi"})

    def claim(name: str, size: str) -> None:
        spec = {"resources": {"requests": {"storage": size}}}
        world.create("persistentvolumeclaims", name, spec)

    claim("a", "1Gi")
    with pytest.raises(StatusError) as refused:
        claim("b", "1536Mi")

    assert refused.value.message == verbatim(
        'persistentvolumeclaims "b" is forbidden: exceeded quota: compute, requested: '
        "requests.storage=1536Mi, used: requests.storage=1Gi, limited: requests.storage=2Gi"
    )


def service(kind: str, ports: int = 1, **more: Any) -> dict[str, Any]:
    listed = [{"name": f"p{number}", "port": 80 + number} for number in range(ports)]
    return {"type": kind, "ports": listed, **more}


def test_services_count_by_their_node_ports_and_load_balancers() -> None:
    world = limited({"services": "5", "services.nodeports": "2", "services.loadbalancers": "1"})
    world.create("services", "a", service("NodePort"))
    with pytest.raises(StatusError) as refused:
        world.create("services", "b", service("LoadBalancer", 2))
    assert refused.value.message == verbatim(
        'services "b" is forbidden: exceeded quota: compute, requested: '
        "services.nodeports=2, used: services.nodeports=1, limited: services.nodeports=2"
    )
    world.create("services", "b", service("LoadBalancer", 2, allocateLoadBalancerNodePorts=False))

    used = {"services": "2", "services.nodeports": "1", "services.loadbalancers": "1"}
    assert world.status("resourcequotas", "compute")["used"] == used
    with pytest.raises(StatusError, match=verbatim("requested: services.loadbalancers=1")):
        world.edit("services", "a", type="LoadBalancer")
    world.edit("services", "a", type="ClusterIP")
    assert world.status("resourcequotas", "compute")["used"]["services.nodeports"] == "0"


def test_a_change_of_a_claim_counts_by_what_it_asks_for_in_addition() -> None:
    world = limited({"requests.storage": "3Gi"})
    ask = {"resources": {"requests": {"storage": "1Gi"}}}
    world.create("persistentvolumeclaims", "a", {"accessModes": ["ReadWriteOnce"], **ask})
    # The size of a claim that is not bound may not change at all.
    world.store.replace_status("persistentvolumeclaims", "default", "a", {"phase": "Bound"})
    claim = world.get("persistentvolumeclaims", "a")

    def grown(size: str) -> dict[str, Any]:
        resources = {"requests": {"storage": size}}
        return {**claim, "spec": {**claim["spec"], "resources": resources}}

    with pytest.raises(StatusError, match=verbatim("requested: requests.storage=3Gi, used")):
        world.store.update("persistentvolumeclaims", grown("4Gi"))
