"""A pod's request is summed as kube-scheduler sums it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.errors import QuantityError
from reactive_desched.model.resources import (
    ContainerRequests,
    add_resources,
    device_requests,
    parse_amount,
    parse_resource_list,
    pod_requests,
    subtract_resources,
)

Quantities = dict[str, str]


def cpu(quantity: str) -> Quantities:
    return {"cpu": quantity}


def init(quantity: str) -> ContainerRequests:
    return ContainerRequests(cpu(quantity))


def sidecar(quantity: str) -> ContainerRequests:
    return ContainerRequests(cpu(quantity), is_sidecar=True)


@pytest.mark.parametrize(
    ("containers", "inits", "pod_level", "overhead", "total"),
    [
        pytest.param(["500m", "500m"], [], None, None, 1000, id="containers add up"),
        pytest.param(["500m", "500m"], [init("2")], None, None, 2000, id="a larger init wins"),
        pytest.param(["500m"], [init("100m")], None, None, 500, id="a smaller one does not"),
        pytest.param(["1"], [init("2"), init("3")], None, None, 3000, id="inits run one by one"),
        pytest.param(
            ["500m"], [sidecar("200m"), init("400m")], None, None, 700, id="a sidecar joins"
        ),
        pytest.param(
            ["500m"], [init("400m"), sidecar("200m")], None, None, 700, id="in either order"
        ),
        pytest.param(
            ["100m"],
            [sidecar("200m"), init("1")],
            None,
            None,
            1200,
            id="an init runs beside the sidecars before it",
        ),
        pytest.param(
            ["100m"],
            [init("1"), sidecar("200m")],
            None,
            None,
            1000,
            id="but not beside those after it",
        ),
        pytest.param(
            ["100m"],
            [sidecar("200m"), init("1"), sidecar("300m"), init("900m")],
            None,
            None,
            1400,
            id="sidecars pile up",
        ),
        pytest.param(["2"], [], None, "250m", 2250, id="overhead comes on top"),
        pytest.param(["300m", "300m"], [], "1", None, 1000, id="the pod level replaces the sum"),
        pytest.param(["2"], [init("3")], "1", None, 1000, id="even a larger one"),
        pytest.param(["2"], [], "1", "250m", 1250, id="and overhead still comes on top"),
        pytest.param(["2"], [], "0", None, 0, id="a pod level of zero is one"),
        pytest.param([], [sidecar("1")], None, None, 1000, id="a sidecar alone"),
        pytest.param(["0.1m", "0.1m"], [], None, None, 2, id="each is rounded up to a milli-core"),
    ],
)
def test_a_pod_asks_for_this_much_cpu(
    containers: list[str],
    inits: list[ContainerRequests],
    pod_level: str | None,
    overhead: str | None,
    total: int,
) -> None:
    asked = pod_requests(
        map(cpu, containers),
        inits,
        None if pod_level is None else cpu(pod_level),
        None if overhead is None else cpu(overhead),
    )

    assert asked == {"cpu": total}


def test_a_pod_that_asks_for_nothing_has_no_amounts() -> None:
    assert pod_requests([{}, {}], [ContainerRequests()], {}, {}) == {}


def test_each_resource_is_summed_on_its_own() -> None:
    asked = pod_requests(
        [{"cpu": "1", "memory": "1Gi"}, {"memory": "1Gi", "nvidia.com/gpu": "1"}],
        [ContainerRequests({"cpu": "3", "ephemeral-storage": "5"})],
    )

    assert asked == {
        "cpu": 3000,
        "memory": 2 * 2**30,
        "nvidia.com/gpu": 1,
        "ephemeral-storage": 5,
    }


def test_pod_level_resources_count_for_cpu_memory_and_huge_pages_only() -> None:
    asked = pod_requests(
        [{"cpu": "1", "ephemeral-storage": "1"}],
        pod_level={
            "cpu": "2",
            "memory": "3",
            "hugepages-2Mi": "4",
            "ephemeral-storage": "5",
            "nvidia.com/gpu": "6",
        },
    )

    assert asked == {"cpu": 2000, "memory": 3, "hugepages-2Mi": 4, "ephemeral-storage": 1}


@pytest.mark.parametrize(
    ("resource", "quantity", "units"),
    [
        pytest.param("cpu", "1500m", 1500, id="cpu in milli-cores"),
        pytest.param("memory", "1.5Ki", 1536, id="memory in bytes"),
        pytest.param("memory", "100m", 1, id="rounded up to a byte"),
        pytest.param("ephemeral-storage", "1k", 1000, id="disk in bytes"),
        pytest.param("pods", "110", 110, id="pods by number"),
        pytest.param("nvidia.com/gpu", "2", 2, id="devices by number"),
        pytest.param("example.com/cpu", "2", 2, id="only the core cpu is in thousandths"),
    ],
)
def test_amounts_are_integers_in_the_schedulers_units(
    resource: str, quantity: str, units: int
) -> None:
    assert parse_amount(resource, quantity) == units
    assert parse_resource_list({resource: quantity}) == {resource: units}


def test_a_bad_quantity_is_refused() -> None:
    with pytest.raises(QuantityError, match="'1KB'"):
        parse_resource_list({"memory": "1KB"})


def test_taking_away_all_of_a_resource_forgets_it() -> None:
    total = {"cpu": 500, "memory": 10}

    subtract_resources(total, {"cpu": 500, "memory": 4})

    assert total == {"memory": 6}


def test_taking_away_more_than_there_is_shows_the_debt() -> None:
    total: dict[str, int] = {}

    subtract_resources(total, {"cpu": 5})

    assert total == {"cpu": -5}


def test_adding_does_not_change_what_is_added() -> None:
    total, more = {"cpu": 1}, {"cpu": 2, "memory": 3}

    add_resources(total, more)

    assert (total, more) == ({"cpu": 3, "memory": 3}, {"cpu": 2, "memory": 3})


# --- properties --------------------------------------------------------------------------------

positive = st.dictionaries(st.sampled_from(["cpu", "memory", "gpu"]), st.integers(1, 9), max_size=3)
requests = positive.map(
    lambda given_amounts: {resource: str(value) for resource, value in given_amounts.items()}
)
init_containers = st.builds(ContainerRequests, requests, st.booleans())


@given(st.lists(positive, max_size=5), positive)
def test_what_is_added_can_be_taken_away_again(
    before: list[dict[str, int]], more: dict[str, int]
) -> None:
    total: dict[str, int] = {}
    for one in before:
        add_resources(total, one)
    remembered = dict(total)

    add_resources(total, more)
    subtract_resources(total, more)

    assert total == remembered


@given(st.lists(requests, max_size=3), st.lists(init_containers, max_size=4))
def test_a_pod_has_room_for_every_timestamp(
    containers: list[Quantities], inits: list[ContainerRequests]
) -> None:
    """Live through the pod's start-up; the request is the most it ever holds at once."""
    held: dict[str, int] = {}
    most: dict[str, int] = {}

    def note(now: dict[str, int]) -> None:
        for resource, value in now.items():
            most[resource] = max(most.get(resource, 0), value)

    for one in inits:
        running = dict(held)
        add_resources(running, parse_resource_list(one.requests))
        note(running)
        if one.is_sidecar:
            held = running
    for container in containers:
        add_resources(held, parse_resource_list(container))
    note(held)

    assert pod_requests(containers, inits) == most


GPU, NIC = "example.com/gpu", "example.com/nic"


def first(number: str, *, stays: bool = False) -> ContainerRequests:
    return ContainerRequests({GPU: number}, is_sidecar=stays)


@pytest.mark.parametrize(
    ("apps", "inits", "expected"),
    [
        pytest.param([{"cpu": "1"}], [], (), id="none"),
        pytest.param(
            [{NIC: "1", GPU: "2"}, {GPU: "1", NIC: "0"}],
            [],
            ((GPU, 2), (NIC, 1), (GPU, 1)),
            id="each container its own",
        ),
        pytest.param([{GPU: "2"}], [first("2")], ((GPU, 2),), id="what runs first takes the same"),
        pytest.param(
            [{GPU: "1"}],
            [first("2"), first("4"), first("3")],
            ((GPU, 3), (GPU, 1)),
            id="and what is beyond, of the one with most",
        ),
        pytest.param(
            [{GPU: "1"}],
            [first("1", stays=True), first("2"), first("1", stays=True)],
            ((GPU, 1), (GPU, 1), (GPU, 1)),
            id="beside the sidecars before it",
        ),
    ],
)
def test_each_container_requests_devices_of_its_own(
    apps: list[dict[str, str]],
    inits: list[ContainerRequests],
    expected: tuple[tuple[str, int], ...],
) -> None:
    """As createRequestsAndMappings of the kube-scheduler 1.36."""
    assert device_requests(apps, inits) == expected
