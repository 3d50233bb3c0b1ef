import random
from typing import Any

import pytest

from reactive_desched.sim.clock import VirtualClock
from reactive_desched.sim.cluster import ClusterOptions, SimCluster
from reactive_desched.sim.http.conform import conform
from reactive_desched.sim.resources import RESOURCES
from reactive_desched.sim.seed import seed
from reactive_desched.sim.store import Store
from reactive_desched.sim.workloads import populate
from tests.support.golden import verbatim

CONTAINER = {"name": "c", "image": "app:1"}


def deployment(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "labels": {"a": "b"}},
        "spec": {"template": {"spec": {"containers": [CONTAINER]}}, **spec},
    }


def test_what_fits_its_type_stays_as_it_is() -> None:
    obj = deployment(replicas=2, strategy={"rollingUpdate": {"maxSurge": "25%"}})
    read = conform(RESOURCES["deployments"], obj)
    assert (read.obj, read.unknown, read.wrong) == (obj, (), ())


def test_unknown_fields_fall_away_and_are_named_by_their_place() -> None:
    template = {"spec": {"containers": [{**CONTAINER, "imge": "x"}]}}
    read = conform(RESOURCES["deployments"], deployment(template=template, replica=3))
    assert read.obj == deployment()
    assert read.unknown == ("spec.template.spec.containers[0].imge", "spec.replica")


def test_null_is_like_absent_but_for_times() -> None:
    template = {"spec": {"containers": [{**CONTAINER, "env": None}], "affinity": None}}
    read = conform(RESOURCES["deployments"], deployment(template=template, replicas=None))
    assert read.obj == deployment()

    event = {"metadata": {"name": "e"}, "eventTime": None, "series": None}
    assert conform(RESOURCES["events"], event).obj == {
        "metadata": {"name": "e"},
        "eventTime": None,
    }


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        pytest.param(
            {"replicas": "3"}, verbatim("string into field spec.replicas of type int"), id="text"
        ),
        pytest.param({"replicas": 1.5}, "number into field spec.replicas", id="a fraction"),
        pytest.param({"replicas": True}, "bool into field spec.replicas", id="a truth"),
        pytest.param(
            {"paused": "no"}, verbatim("string into field spec.paused of type bool"), id="no flag"
        ),
        pytest.param({"selector": []}, "array into field spec.selector", id="no object"),
        pytest.param(
            {"template": {"spec": {"containers": {}}}},
            verbatim("object into field spec.template.spec.containers of type array"),
            id="no list",
        ),
        pytest.param(
            {"template": {"metadata": {"labels": {"a": 1}}}},
            verbatim("number into field spec.template.metadata.labels.a of type string"),
            id="a number as a label",
        ),
        pytest.param(
            {"template": {"metadata": {"creationTimestamp": "noon"}}},
            'spec.template.metadata.creationTimestamp: parsing time "noon"',
            id="no time",
        ),
        pytest.param(
            {"strategy": {"rollingUpdate": {"maxSurge": [1]}}},
            "array into field spec.strategy.rollingUpdate.maxSurge of type IntOrString",
            id="neither number nor percentage",
        ),
    ],
)
def test_a_value_of_another_type_is_named(spec: dict[str, Any], complaint: str) -> None:
    (said,) = conform(RESOURCES["deployments"], deployment(**spec)).wrong
    assert complaint in said


def limits(**amounts: Any) -> Any:
    containers = [{**CONTAINER, "resources": {"limits": amounts}}]
    return conform(RESOURCES["pods"], {"spec": {"containers": containers}})


def test_a_quantity_may_be_a_number_and_is_kept_as_text() -> None:
    (container,) = limits(cpu=2, memory="1Gi").obj["spec"]["containers"]
    assert container["resources"] == {"limits": {"cpu": "2", "memory": "1Gi"}}


def test_what_is_no_quantity_is_named() -> None:
    (said,) = limits(cpu="2x").wrong
    assert said.startswith("spec.containers[0].resources.limits.cpu: quantities must match")


def test_what_is_no_base64_is_named() -> None:
    (said,) = conform(RESOURCES["secrets"], {"data": {"a": "="}}).wrong
    assert said.startswith("data.a: illegal base64")


def test_a_kind_without_listed_fields_is_taken_as_it_is() -> None:
    odd = {"spec": {"anything": 1}}
    assert conform(RESOURCES["resourceslices"], odd).obj == odd


def test_all_that_the_simulated_world_writes_fits_its_type() -> None:
    store = Store(VirtualClock(1_800_000_000.0), random.Random(1))
    seed(store)
    populate(store, nodes=4, pods=40, zones=2, seed=1, prescheduled=False)
    cluster = SimCluster(store, random.Random(1), ClusterOptions(heartbeats=True))
    cluster.advance(60)

    for resource, kind in RESOURCES.items():
        for obj in store.list(resource):
            read = conform(kind, obj)
            assert (read.obj, read.unknown, read.wrong) == (obj, (), ()), resource
