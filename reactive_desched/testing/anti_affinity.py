"""Pods that must not be near others, in few words: `avoiding(web, avoid("app=db", ZONE))`."""

from typing import Any

from reactive_desched.model.labels import LabelSelector, Requirement, parse_selector
from reactive_desched.model.objects import HOSTNAME_LABEL, Node, Pod, PodAffinityTerm
from reactive_desched.testing.builders import node, pod, with_spec

REGION = "region"
"""A topology label like any other: neither the hostname nor the zone."""

MAIN = {REGION: "main"}

INVALID_TERM = PodAffinityTerm(
    HOSTNAME_LABEL, LabelSelector({}, (Requirement("app", "Near", ("x",)),))
)
"""A term whose selector does not parse."""


def selector(text: str) -> LabelSelector:
    """Read a selector text as the API's object; what is written a=b becomes matchLabels."""
    requirements = parse_selector(text).requirements
    plain = [r for r in requirements if r.operator == "In" and f"{r.key}={r.values[0]}" in text]
    return LabelSelector(
        {r.key: r.values[0] for r in plain}, tuple(r for r in requirements if r not in plain)
    )


def anti_affinity_term(
    text: str | None,
    topology_key: str = HOSTNAME_LABEL,
    *,
    namespaces: tuple[str, ...] = (),
    namespace_selector: str | None = None,
) -> PodAffinityTerm:
    """Build a term; None is an absent selector and the empty text one that matches everything."""
    return PodAffinityTerm(
        topology_key,
        None if text is None else selector(text),
        namespaces,
        None if namespace_selector is None else selector(namespace_selector),
    )


def with_anti_affinity(pod: Pod, *terms: PodAffinityTerm) -> Pod:
    """Return the pod with required anti-affinity."""
    return with_spec(pod, anti_affinity=terms)


def pod_avoiding_db(
    name: str, on: str, *terms: PodAffinityTerm, **more: Any
) -> Pod:  # any part of a pod
    """Build a pod that must not be near app=db in its region, or by the terms given."""
    return with_anti_affinity(
        pod(name, on=on, **more), *(terms or (anti_affinity_term("app=db", REGION),))
    )


def db_pod(name: str, on: str, **more: Any) -> Pod:  # any part of a pod
    """Build a pod with the label app=db."""
    return pod(name, on=on, labels={"app": "db"}, **more)


def main_node(name: str, **more: Any) -> Node:  # any part of a node
    """Build a node of the region main."""
    return node(name, labels=MAIN, **more)
