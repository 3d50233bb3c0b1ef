"""What the answer would need to know and was not given."""

from collections.abc import Iterator

from reactive_desched.controller.controller import Plan, ProfilePlan
from reactive_desched.plan.snapshot import Picture
from reactive_desched.policy.protections import Protection
from reactive_desched.state.cluster import CLAIMS, DISRUPTION_BUDGETS, NAMESPACES, PRIORITY_CLASSES

__all__ = ["missing_nodes", "unmet_needs"]


def unmet_needs(plan: Plan, picture: Picture) -> Iterator[str]:
    """Say what follows from kinds of object that were not given, where the policy needs them."""
    for profile in plan.profiles:
        for resource, consequence in _needs(profile):
            if not picture.things[resource]:
                yield f'profile "{profile.name}": no {resource} given: {consequence}'


def _needs(profile: ProfilePlan) -> Iterator[tuple[str, str]]:
    args = profile.evictor
    selector, protections = args.namespace_label_selector, args.protections
    if selector is not None and not selector.is_empty:
        yield NAMESPACES, "namespaceLabelSelector matches nothing, so nothing is evicted"
    if args.priority_threshold.name is not None:
        yield PRIORITY_CLASSES, "priorityThreshold.name cannot be looked up"
    if Protection.WITHOUT_PDB in protections:
        yield DISRUPTION_BUDGETS, "PodsWithoutPDB protects every pod"
    if Protection.PVC in protections and args.protected_storage_classes:
        yield CLAIMS, "PodsWithPVC protects every pod that has a claim"


def missing_nodes(picture: Picture) -> Iterator[str]:
    """Say of pods that their nodes are not there: such pods are not looked at."""
    known = {node.name for node in picture.nodes}
    lacking = [pod.node for pod in picture.pods if pod.node and pod.node not in known]
    if lacking:
        nodes = sorted(set(lacking))
        yield (
            f"{len(lacking)} pods are on {len(nodes)} nodes that are not there, for example"
            f" {nodes[0]}; they are not looked at"
        )
