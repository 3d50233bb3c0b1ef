"""Tables of Services, EndpointSlices, NetworkPolicies and Ingresses."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from reactive_desched.sim.objects import Obj, name_of
from reactive_desched.sim.tables.columns import (
    AGE,
    NAME,
    Table,
    age_of,
    or_none,
    selectors,
    text,
    wide,
)

__all__ = ["NETWORK_TABLES"]

_MOST_SHOWN: Final = 3


def _service(service: Obj, now: float) -> list[object]:
    spec = service.get("spec", {})
    return [
        name_of(service),
        spec.get("type", ""),
        or_none(spec.get("clusterIP")),
        _external(service),
        or_none([_port(port) for port in spec.get("ports") or ()]),
        age_of(service, now),
        selectors(spec.get("selector")),
    ]


def _external(service: Obj) -> str:
    spec = service.get("spec", {})
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    ingress = (service.get("status", {}).get("loadBalancer") or {}).get("ingress") or ()
    given = [each.get("ip") or each.get("hostname") for each in ingress]
    found = [*given, *(spec.get("externalIPs") or ())]
    if spec.get("type") == "LoadBalancer" and not found:
        return "<pending>"
    return or_none(found)


def _port(port: Obj) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}"


def _endpoints(obj: Obj, now: float) -> list[object]:
    found = [
        f"{address.get('ip')}{port}"
        for subset in obj.get("subsets") or ()
        for port in [f":{port.get('port')}" for port in subset.get("ports") or ()] or [""]
        for address in subset.get("addresses") or ()
    ]
    return [name_of(obj), _shortened(found, "<none>"), age_of(obj, now)]


def _slice(obj: Obj, now: float) -> list[object]:
    ports = [str(port.get("port", "*")) for port in obj.get("ports") or ()]
    addresses = [
        address for each in obj.get("endpoints") or () for address in each.get("addresses") or ()
    ]
    return [
        name_of(obj),
        obj.get("addressType", ""),
        _shortened(ports, "<unset>"),
        _shortened(addresses, "<unset>"),
        age_of(obj, now),
    ]


def _shortened(found: Sequence[str], nothing: str) -> str:
    rest = len(found) - _MOST_SHOWN
    said = ",".join(found[:_MOST_SHOWN]) or nothing
    return f"{said} + {rest} more..." if rest > 0 else said


def _network_policy(policy: Obj, now: float) -> list[object]:
    chosen = selectors(policy.get("spec", {}).get("podSelector"))
    return [name_of(policy), chosen, age_of(policy, now)]


def _ingress(ingress: Obj, now: float) -> list[object]:
    spec = ingress.get("spec", {})
    hosts = [rule["host"] for rule in spec.get("rules") or () if rule.get("host")]
    balanced = (ingress.get("status", {}).get("loadBalancer") or {}).get("ingress") or ()
    addresses = [str(each.get("ip") or each.get("hostname") or "") for each in balanced]
    return [
        name_of(ingress),
        or_none(spec.get("ingressClassName")),
        or_none(hosts) if hosts else "*",
        ",".join(filter(None, addresses)),
        "80, 443" if spec.get("tls") else "80",
        age_of(ingress, now),
    ]


def _ingress_class(obj: Obj, now: float) -> list[object]:
    spec = obj.get("spec", {})
    wanted = spec.get("parameters") or {}
    kind = ".".join(filter(None, (wanted.get("kind"), wanted.get("apiGroup"))))
    parameters = f"{kind}/{wanted.get('name')}" if wanted else "<none>"
    return [name_of(obj), spec.get("controller", ""), parameters, age_of(obj, now)]


NETWORK_TABLES: Mapping[str, Table] = MappingProxyType(
    {
        "services": Table(
            (NAME, *text("Type", "Cluster-IP", "External-IP", "Port(s)"), AGE, *wide("Selector")),
            _service,
        ),
        "networkpolicies": Table((NAME, *text("Pod-Selector"), AGE), _network_policy),
        "ingresses": Table((NAME, *text("Class", "Hosts", "Address", "Ports"), AGE), _ingress),
        "ingressclasses": Table((NAME, *text("Controller", "Parameters"), AGE), _ingress_class),
        "endpoints": Table((NAME, *text("Endpoints"), AGE), _endpoints),
        "endpointslices": Table((NAME, *text("AddressType", "Ports", "Endpoints"), AGE), _slice),
    }
)
