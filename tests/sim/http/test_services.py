"""Services, to which the server gives addresses and node ports."""

from typing import Any

import pytest

pytestmark = pytest.mark.anyio

SERVICES = "/api/v1/namespaces/default/services"
MERGE = "application/merge-patch+json"


def service(name: str, *node_ports: int, **spec: Any) -> dict[str, Any]:
    ports = [{"port": 80 + n, "name": f"p{n}"} for n in range(2)]
    for port, node_port in zip(ports, node_ports, strict=False):
        port["nodePort"] = node_port
    return {"metadata": {"name": name}, "spec": {"ports": ports, **spec}}


async def create(api: Any, made: dict[str, Any]) -> dict[str, Any]:
    status, body = await api.ask("POST", SERVICES, made)
    assert status == 201, body
    spec: dict[str, Any] = body["spec"]
    return spec


def node_ports(spec: dict[str, Any]) -> list[int | None]:
    return [port.get("nodePort") for port in spec["ports"]]


async def refused(api: Any, method: str, path: str, body: Any, **options: Any) -> list[str]:
    status, answer = await api.ask(method, path, body, **options)
    assert status == 422, answer
    return [f"{each['field']}: {each['message']}" for each in answer["details"]["causes"]]


async def test_each_service_has_an_address_of_its_own(api: Any) -> None:
    first, second = [await create(api, service(name)) for name in ("a", "b")]
    assert first["clusterIP"].startswith("10.96.")
    assert first["clusterIPs"] == [first["clusterIP"]]
    assert second["clusterIP"] != first["clusterIP"]

    await api.ask("DELETE", f"{SERVICES}/a")
    assert (await create(api, service("c")))["clusterIP"] == first["clusterIP"]


async def test_headless_and_external_services_have_none(api: Any) -> None:
    assert (await create(api, service("a", clusterIP="None")))["clusterIP"] == "None"
    outside = await create(api, service("b", type="ExternalName", externalName="example.com"))
    assert "clusterIP" not in outside


async def test_an_address_that_is_asked_for_is_given_once(api: Any) -> None:
    asked = await create(api, service("a", clusterIP="10.96.1.0"))
    assert asked["clusterIP"] == "10.96.1.0"
    assert (await create(api, service("b")))["clusterIP"] != "10.96.1.0"

    (taken,) = await refused(api, "POST", SERVICES, service("c", clusterIP="10.96.1.0"))
    assert taken.endswith("provided IP is already allocated")
    (outside,) = await refused(api, "POST", SERVICES, service("c", clusterIP="10.1.1.1"))
    assert "failed to allocate IP 10.1.1.1" in outside


async def test_an_update_keeps_what_was_given(api: Any) -> None:
    made = await create(api, service("a", type="NodePort"))
    status, body = await api.ask("PUT", f"{SERVICES}/a", service("a", type="NodePort"))
    assert (status, body["spec"]) == (200, made)

    change = {"spec": {"clusterIP": "10.96.9.9"}}
    (fixed,) = await refused(api, "PATCH", f"{SERVICES}/a", change, headers={"Content-Type": MERGE})
    assert fixed.startswith("spec.clusterIPs[0]: ")
    assert fixed.endswith("may not change once set")


async def test_node_ports_are_given_to_the_types_that_have_them(api: Any) -> None:
    given = node_ports(await create(api, service("a", type="NodePort")))
    assert given == [30000, 30001]
    more = node_ports(await create(api, service("b", 30500, type="LoadBalancer")))
    assert more == [30500, 30002]
    (taken,) = await refused(api, "POST", SERVICES, service("c", 30001, type="NodePort"))
    assert taken.endswith("provided port is already allocated")
    (unknown,) = await refused(api, "POST", SERVICES, service("c", 80, type="NodePort"))
    assert "30000-32767" in unknown

    _, body = await api.patch(f"{SERVICES}/a", MERGE, {"spec": {"type": "ClusterIP"}})
    assert node_ports(body["spec"]) == [None, None]
    assert node_ports(await create(api, service("d", type="NodePort"))) == given


async def test_a_dry_run_gives_nothing_away(api: Any) -> None:
    status, tried = await api.ask("POST", f"{SERVICES}?dryRun=All", service("a"))
    assert status == 201
    assert (await create(api, service("b")))["clusterIP"] == tried["spec"]["clusterIP"]
