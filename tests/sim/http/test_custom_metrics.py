"""Metrics that a user makes up are served as an adapter of a metrics system serves its own."""

import random
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import aiohttp
import pytest

from reactive_desched.sim.clock import VirtualClock
from reactive_desched.sim.index import PodIndex
from reactive_desched.sim.seed import seed
from reactive_desched.sim.server import serve
from reactive_desched.sim.store import Store
from reactive_desched.sim.usage import SimulatedUsage
from tests.support.golden import verbatim

pytestmark = pytest.mark.anyio

Object = dict[str, Any]
Get = Callable[..., Coroutine[Any, Any, tuple[int, Any]]]
HITS = "sim.reactive-desched/metric.hits"
CUSTOM, EXTERNAL = "/apis/custom.metrics.k8s.io/v1beta2", "/apis/external.metrics.k8s.io/v1beta1"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.fixture
def store() -> Store:
    """Two pods with a metric, one without; a Service, a Deployment and a node with another."""
    store = Store(VirtualClock(1_800_000_000.0), random.Random(7))
    seed(store)
    for name, value in (("a", "1500m"), ("b", "20k"), ("c", "")):
        notes = {HITS: value} if value else {}
        meta = {"name": name, "namespace": "default", "labels": {"of": name}, "annotations": notes}
        spec = {"containers": [{"name": "c", "image": "app:1"}]}
        store.create("pods", {"metadata": meta, "spec": spec})
    queue = {"sim.reactive-desched/metric.queue": "7"}
    store.create("nodes", {"metadata": {"name": "n", "annotations": queue}})
    store.create(
        "ingresses", {"metadata": {"name": "i", "namespace": "default", "annotations": queue}}
    )
    return store


@pytest.fixture
async def get(store: Store) -> AsyncIterator[Get]:
    usage = SimulatedUsage(store, PodIndex())
    async with serve(store, usage=usage) as url, aiohttp.ClientSession(url) as http:

        async def ask(path: str, accept: str = "application/json", **query: str) -> Any:
            async with http.get(path, params=query, headers={"Accept": accept}) as response:
                return response.status, await response.json(content_type=None)

        yield ask


def edit(store: Store, resource: str, namespace: str, name: str, **notes: str) -> None:
    meta = {"annotations": {f"sim.reactive-desched/metric.{key}": notes[key] for key in notes}}
    store.modify(
        resource,
        namespace,
        name,
        lambda obj: {**obj, "metadata": {**obj["metadata"], **meta}},
    )


async def test_all_pods_that_are_selected_are_measured_at_once(get: Get) -> None:
    status, found = await get(f"{CUSTOM}/namespaces/default/pods/*/hits")
    assert (status, found["kind"]) == (200, "MetricValueList")
    head = {"kind": "Pod", "namespace": "default", "apiVersion": "/v1"}
    measure = {"metric": {"name": "hits", "selector": None}, "timestamp": "2027-01-15T08:00:00Z"}
    assert found["items"] == [
        {"describedObject": {**head, "name": "a"}, **measure, "value": "1500m"},
        {"describedObject": {**head, "name": "b"}, **measure, "value": "20k"},
    ]
    _, chosen = await get(f"{CUSTOM}/namespaces/default/pods/*/hits", labelSelector="of in (b,c)")
    assert [each["describedObject"]["name"] for each in chosen["items"]] == ["b"]


async def test_the_first_version_has_the_name_beside_the_value(get: Get) -> None:
    path = CUSTOM.replace("v1beta2", "v1beta1")
    _, found = await get(f"{path}/namespaces/default/pods/a/hits")
    (item,) = found["items"]
    assert (item["metricName"], item["selector"], item["value"]) == ("hits", None, "1500m")
    assert found["apiVersion"] == "custom.metrics.k8s.io/v1beta1"


async def test_objects_of_other_kinds_are_measured_one_by_one(store: Store, get: Get) -> None:
    edit(store, "namespaces", "", "default", lag="3")
    for path, name in (
        ("namespaces/default/ingresses.networking.k8s.io/i/queue", verbatim("i")),
        ("namespaces/default/ingresses/i/queue", verbatim("i")),
        ("nodes/n/queue", "n"),
        ("namespaces/default/metrics/lag", verbatim("default")),
    ):
        status, found = await get(f"{CUSTOM}/{path}")
        assert status == 200, found
        assert [each["describedObject"]["name"] for each in found["items"]] == [name]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("namespaces/default/pods/*/lost", verbatim("the metric lost for pods")),
        ("namespaces/default/pods/c/hits", verbatim("the metric hits for pods c")),
        ("namespaces/default/pods/none/hits", verbatim("the metric hits for pods none")),
        (
            "namespaces/default/ingresses/j/queue",
            verbatim("the metric queue for ingresses.networking.k8s."),
        ),
        ("namespaces/default/nodes/n/queue", verbatim("the metric queue for nodes")),
        ("namespaces/default/wonders/n/queue", verbatim("the metric queue for wonders")),
        ("namespaces/default/metrics/lag", verbatim("the metric lag for namespaces default")),
    ],
)
async def test_what_is_not_measured_is_not_found(get: Get, path: str, said: str) -> None:
    status, found = await get(f"{CUSTOM}/{path}")
    assert (status, found["reason"]) == (404, "NotFound")
    assert found["message"].startswith(f"the server could not find {said}")


async def test_a_made_up_metric_has_no_labels(store: Store, get: Get) -> None:
    edit(store, "namespaces", "", "default", lag="3")
    wants = f"{CUSTOM}/namespaces/default/pods/*/hits"
    assert (await get(wants, metricLabelSelector="verb=GET"))[0] == 404
    assert (await get(wants, metricLabelSelector="!verb"))[0] == 200
    assert (await get(wants, metricLabelSelector="!!"))[0] == 400
    _, some = await get(f"{EXTERNAL}/namespaces/default/lag", labelSelector="!queue")
    _, none = await get(f"{EXTERNAL}/namespaces/default/lag", labelSelector="queue=a")
    assert (len(some["items"]), none["items"]) == (1, [])


async def test_an_external_metric_is_what_the_namespace_says(store: Store, get: Get) -> None:
    edit(store, "namespaces", "", "default", lag="3500m")
    _, found = await get(f"{EXTERNAL}/namespaces/default/lag")
    assert found["kind"] == "ExternalMetricValueList"
    (item,) = found["items"]
    assert (item["metricName"], item["metricLabels"], item["value"]) == ("lag", {}, "3500m")
    status, found = await get(f"{EXTERNAL}/namespaces/kube-system/lag")
    assert (status, found["items"]) == (200, [])


async def names_in(get: Get, root: str) -> list[str]:
    _, found = await get(root)
    return [each["name"] for each in found["resources"]]


async def test_discovery_names_the_metrics_that_there_are_now(store: Store, get: Get) -> None:
    there = ["ingresses.networking.k8s.io/queue", "nodes/queue", "pods/hits"]
    assert await names_in(get, CUSTOM) == there
    assert await names_in(get, EXTERNAL) == []

    edit(store, "namespaces", "", "default", lag="3")
    store.delete("pods", "default", "a")
    assert await names_in(get, CUSTOM) == [there[0], "namespaces/lag", *there[1:]]
    assert await names_in(get, EXTERNAL) == ["lag"]

    edit(store, "pods", "default", "b")
    store.delete("ingresses", "default", "i")
    assert await names_in(get, CUSTOM) == ["namespaces/lag", "nodes/queue"]


async def test_both_groups_are_in_both_forms_of_discovery(get: Get) -> None:
    _, groups = await get("/apis")
    found = {each["name"]: [it["version"] for it in each["versions"]] for each in groups["groups"]}
    assert found["custom.metrics.k8s.io"] == ["v1beta2", "v1beta1"]
    assert found["external.metrics.k8s.io"] == ["v1beta1"]
    _, group = await get("/apis/custom.metrics.k8s.io")
    assert group["preferredVersion"]["version"] == "v1beta2"

    _, whole = await get("/apis", AGGREGATED)
    (custom,) = (it for it in whole["items"] if it["metadata"]["name"] == "custom.metrics.k8s.io")
    pods = next(it for it in custom["versions"][0]["resources"] if it["resource"] == "pods")
    assert (pods["scope"], pods["verbs"]) == ("Namespaced", [])
    (hits,) = pods["subresources"]
    assert (hits["subresource"], hits["responseKind"]["kind"]) == ("hits", "MetricValueList")


async def test_without_anything_to_measure_there_are_no_such_groups(store: Store) -> None:
    async with (
        serve(store) as url,
        aiohttp.ClientSession(url) as http,
        http.get(CUSTOM) as response,
    ):
        assert response.status == 404
