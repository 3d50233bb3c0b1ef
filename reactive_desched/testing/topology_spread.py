"""Pods with topology spread constraints, in few words: `spread_pods("a", "web", 3)`."""

from typing import Any

from reactive_desched.model.labels import LabelSelector
from reactive_desched.model.objects import ZONE_LABEL, Pod, TopologySpreadConstraint
from reactive_desched.testing.builders import pod, with_spec

WEB = {"app": "web"}


def spread_constraint(
    max_skew: int = 1, key: str = ZONE_LABEL, **fields: Any
) -> TopologySpreadConstraint:  # any field of a constraint
    """Build a constraint that spreads the pods with app=web over zones."""
    return TopologySpreadConstraint(
        **{
            "max_skew": max_skew,
            "topology_key": key,
            "label_selector": LabelSelector(WEB),
            **fields,
        }
    )


def with_spread(pod: Pod, *constraints: TopologySpreadConstraint) -> Pod:
    """Return the pod with these constraints, or with one over zones."""
    return with_spec(pod, topology_spread_constraints=constraints or (spread_constraint(),))


def spread_pods(
    *sizes: int, constraints: tuple[TopologySpreadConstraint, ...] = (), **more: Any
) -> list[Pod]:  # any part of a pod
    """Build pods of app=web: so many on n1, on n2 and so on, named p00, p01 and so on."""
    nodes = [f"n{number}" for number, size in enumerate(sizes, 1) for _ in range(size)]
    return [
        with_spread(pod(f"p{number:02}", on=node, **{"labels": WEB, **more}), *constraints)
        for number, node in enumerate(nodes)
    ]
