import random
from typing import Any

import pytest

from reactive_desched.sim.clock import VirtualClock
from reactive_desched.sim.pod_defaults import qos_class
from reactive_desched.sim.seed import seed
from reactive_desched.sim.status import StatusError
from reactive_desched.sim.store import Store
from tests.support.golden import verbatim


@pytest.fixture
def store() -> Store:
    made = Store(VirtualClock(1_800_000_000.0), random.Random(7))
    seed(made)
    return made


def create_pod(store: Store, **spec: Any) -> Any:
    spec = {"containers": [{"name": "c", "image": "app:1"}], **spec}
    return store.create("pods", {"metadata": {"name": "p", "namespace": "default"}, "spec": spec})


def test_a_pod_gets_the_defaults_clients_expect(store: Store) -> None:
    pod = create_pod(store)
    spec = pod["spec"]
    assert spec["restartPolicy"] == "Always"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["dnsPolicy"] == "ClusterFirst"
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["serviceAccountName"] == "default"
    assert spec["enableServiceLinks"] is True
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert pod["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


def test_a_pod_stays_five_minutes_on_a_node_that_is_gone(store: Store) -> None:
    tolerations = create_pod(store)["spec"]["tolerations"]
    assert [(t["key"], t["effect"], t["tolerationSeconds"]) for t in tolerations] == [
        ("node.kubernetes.io/not-ready", "NoExecute", 300),
        ("node.kubernetes.io/unreachable", "NoExecute", 300),
    ]


@pytest.mark.parametrize(
    "own",
    [
        pytest.param({"operator": "Exists"}, id="everything"),
        pytest.param({"operator": "Exists", "effect": "NoExecute"}, id="every NoExecute"),
    ],
)
def test_a_pod_that_tolerates_it_already_gets_nothing_added(
    store: Store, own: dict[str, str]
) -> None:
    assert create_pod(store, tolerations=[own])["spec"]["tolerations"] == [own]


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("app", "Always"),
        ("app:latest", "Always"),
        ("app:1", "IfNotPresent"),
        ("host:5000/app", "Always"),
        ("host:5000/app:2", "IfNotPresent"),
        ("app@sha256:0", "IfNotPresent"),
    ],
)
def test_the_image_decides_the_pull_policy(store: Store, image: str, policy: str) -> None:
    pod = create_pod(store, containers=[{"name": "c", "image": image}])
    assert pod["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_a_limit_alone_is_also_the_request(store: Store) -> None:
    limits = {"cpu": "1", "memory": "1Gi"}
    resources = {"limits": limits, "requests": {"cpu": "500m"}}
    pod = create_pod(store, containers=[{"name": "c", "image": "a:1", "resources": resources}])
    requests = pod["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"cpu": "500m", "memory": "1Gi"}


def test_a_template_keeps_a_limit_alone(store: Store) -> None:
    resources = {"limits": {"cpu": "1"}}
    containers = [{"name": "c", "image": "a:1", "resources": resources}]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    made = store.create(
        "deployments", {"metadata": {"name": "d", "namespace": "default"}, "spec": spec}
    )
    (kept,) = made["spec"]["template"]["spec"]["containers"]
    assert kept["resources"] == resources


BOTH = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        pytest.param([{}], "BestEffort", id="nothing"),
        pytest.param([{"requests": {"cpu": "0"}}], "BestEffort", id="zero is nothing"),
        pytest.param([{"requests": {"example.com/x": "1"}}], "BestEffort", id="other resources"),
        pytest.param([{"requests": BOTH}], "Burstable", id="requests only"),
        pytest.param([{"requests": BOTH, "limits": BOTH}], "Guaranteed", id="equal"),
        pytest.param(
            [{"requests": {"cpu": "1000m", "memory": "1024Mi"}, "limits": BOTH}],
            "Guaranteed",
            id="equal in other words",
        ),
        pytest.param(
            [{"requests": BOTH, "limits": {"cpu": "2", "memory": "1Gi"}}], "Burstable", id="unequal"
        ),
        pytest.param([{"requests": BOTH, "limits": BOTH}, {}], "Burstable", id="one without"),
    ],
)
def test_the_quality_of_service_class(resources: list[dict[str, Any]], expected: str) -> None:
    containers = [{"name": str(i), "resources": r} for i, r in enumerate(resources)]
    assert qos_class({"containers": containers}) == expected


def test_priority_comes_from_the_class(store: Store) -> None:
    spec = create_pod(store, priorityClassName="system-node-critical")["spec"]
    assert spec["priority"] == 2_000_001_000


def test_the_lowest_global_default_applies_to_pods_without_a_class(store: Store) -> None:
    for name, value in (("high", 100), ("low", 5)):
        store.create(
            "priorityclasses",
            {
                "metadata": {"name": name},
                "value": value,
                "globalDefault": True,
                "preemptionPolicy": "Never",
            },
        )
    spec = create_pod(store)["spec"]
    assert (spec["priority"], spec["priorityClassName"]) == (5, "low")
    assert spec["preemptionPolicy"] == "Never"


def test_an_unknown_priority_class_is_forbidden(store: Store) -> None:
    with pytest.raises(
        StatusError, match=verbatim("no PriorityClass with name vip was found")
    ) as refused:
        create_pod(store, priorityClassName="vip")
    assert refused.value.code == 403


def test_a_priority_of_ones_own_is_forbidden(store: Store) -> None:
    with pytest.raises(StatusError, match="must not be provided"):
        create_pod(store, priority=7)


def test_a_gated_pod_says_so(store: Store) -> None:
    pod = create_pod(store, schedulingGates=[{"name": "wait"}])
    [condition] = pod["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("PodScheduled", "SchedulingGated")


def test_a_new_node_is_tainted_until_it_is_ready(store: Store) -> None:
    node = store.create("nodes", {"metadata": {"name": "n1"}})
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    assert node["spec"]["taints"] == [taint]


def test_a_node_created_ready_is_not_tainted_and_may_use_all_it_has(store: Store) -> None:
    ready = {"type": "Ready", "status": "True"}
    status = {"conditions": [ready], "capacity": {"cpu": "4"}}
    node = store.create("nodes", {"metadata": {"name": "n1"}, "status": status})
    assert "taints" not in node["spec"]
    assert node["status"]["allocatable"] == {"cpu": "4"}


def test_a_deployment_gets_its_rollout_defaults(store: Store) -> None:
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "app:1"}]},
    }
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    made = store.create(
        "deployments", {"metadata": {"name": "d", "namespace": "default"}, "spec": spec}
    )["spec"]
    assert (made["replicas"], made["revisionHistoryLimit"]) == (1, 10)
    assert made["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert made["template"]["spec"]["restartPolicy"] == "Always"
    assert "tolerations" not in made["template"]["spec"]


def test_a_job_selects_its_own_pods(store: Store) -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "app:1"}], "restartPolicy": "Never"}}
    job = store.create(
        "jobs", {"metadata": {"name": "j", "namespace": "default"}, "spec": {"template": template}}
    )
    selector = job["spec"]["selector"]["matchLabels"]
    assert selector == {"batch.kubernetes.io/controller-uid": job["metadata"]["uid"]}
    assert selector.items() <= job["spec"]["template"]["metadata"]["labels"].items()


def test_a_namespace_is_labelled_with_its_name(store: Store) -> None:
    made = store.create("namespaces", {"metadata": {"name": "a"}})
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": "a"}
    assert made["status"] == {"phase": "Active"}


def test_a_secret_written_as_text_is_kept_in_base64(store: Store) -> None:
    secret = {
        "metadata": {"name": "s", "namespace": "default"},
        "data": {"a": "YQ==", "b": "YQ=="},
        "stringData": {"b": "b"},
    }
    made = store.create("secrets", secret)
    assert (made["data"], "stringData" in made) == ({"a": "YQ==", "b": "Yg=="}, False)
