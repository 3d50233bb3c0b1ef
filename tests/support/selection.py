"""Which pods an object of Kubernetes selects, and which connections NetworkPolicies let through."""

from collections.abc import Iterable, Iterator
from typing import Any

from tests.support.kustomize import pod_template

Object = dict[str, Any]  # a Kubernetes object, or a part of one, as JSON
Labels = dict[str, str]
WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob")


def matches(selector: Object, labels: Labels) -> bool:
    """Tell whether a label selector selects labels; an empty one selects everything."""
    if unknown := selector.keys() - {"matchLabels", "matchExpressions"}:
        raise ValueError(f"a label selector has no {', '.join(sorted(unknown))}")
    if not selector.get("matchLabels", {}).items() <= labels.items():
        return False
    for each in selector.get("matchExpressions", ()):
        value, values = labels.get(each["key"]), each.get("values", ())
        held = {
            "In": value in values,
            "NotIn": value not in values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }
        if not held[each["operator"]]:
            return False
    return True


def selectors(objects: Iterable[Object]) -> Iterator[tuple[str, Object]]:
    """Yield each selector of pods that objects have, as a label selector, and where it stands.

    A ServiceMonitor selects Services, whose labels are those of our pods.
    """
    for each in objects:
        where, spec = f"{each['kind']} {each['metadata']['name']}", each.get("spec", {})
        match each["kind"]:
            case "NetworkPolicy":
                yield where, spec["podSelector"]
            case "Service":
                yield where, {"matchLabels": spec["selector"]}
            case "PodDisruptionBudget" | "ServiceMonitor" | "PodMonitor" | "Deployment":
                yield where, spec["selector"]
        if each["kind"] in WORKLOADS:
            pod = pod_template(each)["spec"]
            for constraint in pod.get("topologySpreadConstraints", ()):
                yield (
                    f"{where}, spread over {constraint['topologyKey']}",
                    constraint["labelSelector"],
                )


def pods(objects: Iterable[Object]) -> Iterator[Object]:
    """Yield the pod template of each workload."""
    yield from (pod_template(each) for each in objects if each["kind"] in WORKLOADS)


def lets_in(policies: Iterable[Object], pod: Object, port: int, namespace: Labels) -> bool:
    """Tell whether a pod takes a connection to a port from the pods of a namespace.

    `policies` are the NetworkPolicies of the pod's namespace.
    """
    ours = [
        each["spec"]
        for each in policies
        if matches(each["spec"]["podSelector"], pod["metadata"]["labels"])
        and "Ingress" in each["spec"]["policyTypes"]
    ]
    rules = [rule for spec in ours for rule in spec.get("ingress", ())]
    return not ours or any(
        _has_port(rule, pod, port) and _has_peer(rule, namespace) for rule in rules
    )


def _has_port(rule: Object, pod: Object, port: int) -> bool:
    names = {
        each["name"]: each["containerPort"]
        for container in pod["spec"]["containers"]
        for each in container.get("ports", ())
    }
    ports = [each.get("port") for each in rule.get("ports", ())]
    return not ports or port in [names.get(each, each) for each in ports]


def _has_peer(rule: Object, namespace: Labels) -> bool:
    peers = rule.get("from", ())
    return not peers or any(
        matches(each["namespaceSelector"], namespace)
        for each in peers
        if "namespaceSelector" in each and "podSelector" not in each
    )
