"""Gives a Service its address in the cluster and its node ports, as the API server does."""

from collections.abc import Collection, Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network
from typing import Final

from reactive_desched.sim.objects import Obj, name_of
from reactive_desched.sim.resources import RESOURCES
from reactive_desched.sim.status import cause, invalid

__all__ = ["admit_addresses", "keep_addresses"]

SERVICE_NETWORK: Final = IPv4Network("10.96.0.0/16")
_FIRST_GIVEN: Final = 256
"""The addresses before it go only to Services that ask for one, as in a real cluster."""
_NODE_PORTS: Final = range(30_000, 32_768)
_HEADLESS: Final = "None"


def keep_addresses(current: Obj, new: Obj) -> None:
    """Bring back what the server had given, where a client left it out of its update."""
    before, spec = current["spec"], new["spec"]
    if _has_address(before) and _has_address(spec) and not spec.get("clusterIP"):
        spec["clusterIP"] = before.get("clusterIP")
        spec.setdefault("clusterIPs", before.get("clusterIPs"))
    if not _has_address(spec):
        for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(field) == before.get(field):
                spec.pop(field, None)
    given = {_port_key(port): port.get("nodePort") for port in before.get("ports") or ()}
    for port in spec.get("ports") or ():
        node_port = given.get(_port_key(port))
        if _has_node_ports(before) and _has_node_ports(spec) and node_port:
            port.setdefault("nodePort", node_port)
        elif not _has_node_ports(spec) and port.get("nodePort") == node_port:
            port.pop("nodePort", None)


def admit_addresses(service: Obj, current: Obj | None, others: Iterable[Obj]) -> None:
    """Give a Service an address and ports that no other one has; raise 422 for those it asks."""
    spec, old = service["spec"], {} if current is None else current["spec"]
    there = [each for each in others if each is not current]
    faults = [*_admit_address(spec, old, there), *_admit_ports(spec, old, there)]
    if faults:
        raise invalid(RESOURCES["services"], name_of(service), faults)


def _admit_address(spec: Obj, old: Obj, others: Iterable[Obj]) -> Iterator[Obj]:
    if not _has_address(spec):
        return
    wanted, had = spec.get("clusterIP"), old.get("clusterIP")
    if had and wanted != had and _has_address(old):
        text = f'Invalid value: ["{wanted}"]: may not change once set'
        yield cause("FieldValueInvalid", "spec.clusterIPs[0]", text)
        return
    if wanted == _HEADLESS or (had and wanted == had):
        return
    taken = {other["spec"].get("clusterIP") for other in others}
    if not wanted:
        spec["clusterIP"] = _free_address(taken)
        spec["clusterIPs"] = [spec["clusterIP"]]
        return
    why = ""
    if IPv4Address(wanted) not in SERVICE_NETWORK:
        why = f"the provided network does not match the current range {SERVICE_NETWORK}"
    elif wanted in taken:
        why = "provided IP is already allocated"
    if why:
        text = f'Invalid value: ["{wanted}"]: failed to allocate IP {wanted}: {why}'
        yield cause("FieldValueInvalid", "spec.clusterIPs", text)


def _free_address(taken: Collection[object]) -> str:
    for number in range(_FIRST_GIVEN, SERVICE_NETWORK.num_addresses - 1):
        if (address := str(SERVICE_NETWORK[number])) not in taken:
            return address
    return ""


def _admit_ports(spec: Obj, old: Obj, others: Iterable[Obj]) -> Iterator[Obj]:
    if not _has_node_ports(spec):
        return
    own = {port.get("nodePort") for port in old.get("ports") or ()}
    taken = {port.get("nodePort") for other in others for port in other["spec"].get("ports") or ()}
    for index, port in enumerate(spec.get("ports") or ()):
        wanted = port.get("nodePort")
        if not wanted and spec.get("allocateLoadBalancerNodePorts") is False:
            continue
        if not wanted:
            port["nodePort"] = next((n for n in _NODE_PORTS if n not in taken), 0)
        elif wanted not in own and (wanted not in _NODE_PORTS or wanted in taken):
            is_known = wanted in _NODE_PORTS
            why = "is already allocated" if is_known else "is not in the valid range"
            text = f"Invalid value: {wanted}: provided port {why}"
            if not is_known:
                text += ". The range of valid ports is 30000-32767"
            yield cause("FieldValueInvalid", f"spec.ports[{index}].nodePort", text)
        taken.add(port["nodePort"])


def _has_address(spec: Obj) -> bool:
    return spec.get("type") != "ExternalName"


def _has_node_ports(spec: Obj) -> bool:
    return spec.get("type") in ("NodePort", "LoadBalancer")


def _port_key(port: Obj) -> tuple[object, object]:
    return port.get("protocol", "TCP"), port.get("port")
