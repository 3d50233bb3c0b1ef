"""What the answer would need to know and was not given."""

from collections.abc import Iterator

from reactive_desched.api.args import HasMetricsSource
from reactive_desched.plan.snapshot import Snapshot
from reactive_desched.policy.document import MetricsSourceKind
from reactive_desched.policy.policy import Policy, Profile
from reactive_desched.policy.protections import Protection
from reactive_desched.state.resources import NAMESPACES, PDBS, PRIORITY_CLASSES, PVCS

__all__ = ["missing_inputs", "missing_nodes"]


def missing_inputs(policy: Policy, snapshot: Snapshot) -> Iterator[str]:
    """Say what follows from kinds of object that were not given, where the policy needs them."""
    for profile in policy.profiles:
        for resource, consequence in _required_resources(profile):
            if not snapshot.objects[resource]:
                yield f'profile "{profile.name}": no {resource} given: {consequence}'
        for name, args in profile.args.items():
            if isinstance(args, HasMetricsSource) and args.metrics_source in policy.metrics_sources:
                for problem in _missing_samples(args.metrics_source, snapshot):
                    yield f'profile "{profile.name}": {problem}: {name} evicts nothing'


def _missing_samples(source: str, snapshot: Snapshot) -> Iterator[str]:
    """Say of which nodes nothing was measured: in a sweep one is enough for doing nothing."""
    measured = {sample.node for sample in snapshot.samples if sample.source == source}
    unmeasured = [node.name for node in snapshot.nodes if node.name not in measured]
    if source == MetricsSourceKind.PROMETHEUS:
        yield "Prometheus is not asked here"
    elif unmeasured:
        yield f"no NodeMetrics given of {len(unmeasured)} nodes, for example {unmeasured[0]}"


def _required_resources(profile: Profile) -> Iterator[tuple[str, str]]:
    args = profile.evictor
    selector, protections = args.namespace_label_selector, args.protections
    if selector is not None and not selector.is_empty:
        yield NAMESPACES, "namespaceLabelSelector matches nothing, so nothing is evicted"
    if args.priority_threshold.name is not None:
        yield PRIORITY_CLASSES, "priorityThreshold.name cannot be looked up"
    if Protection.WITHOUT_PDB in protections:
        yield PDBS, "PodsWithoutPDB protects every pod"
    if Protection.PVC in protections and args.protected_storage_classes:
        yield PVCS, "PodsWithPVC protects every pod that has a claim"


def missing_nodes(snapshot: Snapshot) -> Iterator[str]:
    """Say of pods that their nodes are not there: such pods are not looked at."""
    node_names = {node.name for node in snapshot.nodes}
    missing = [pod.node for pod in snapshot.pods if pod.node and pod.node not in node_names]
    if missing:
        nodes = sorted(set(missing))
        yield (
            f"{len(missing)} pods are on {len(nodes)} nodes that are not there, for example"
            f" {nodes[0]}; they are not looked at"
        )
