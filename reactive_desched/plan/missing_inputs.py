"""Names what a decision depends on and the input lacks, or has in a form that means little."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from reactive_desched.model.objects import controller_of
from reactive_desched.model.opt_outs import EVICT, is_clear_evict_wish
from reactive_desched.model.usage import MetricsSourceKind, NodeMetric, NodeUsage, source_kind
from reactive_desched.plan.snapshot import Snapshot
from reactive_desched.policy.policy import AnyPlugin, Policy, Profile
from reactive_desched.policy.protections import Protection
from reactive_desched.state.kinds.node_metric import NODE_METRIC
from reactive_desched.state.kinds.workloads import DAEMON_SET
from reactive_desched.state.resources import (
    JOBS,
    NAMESPACES,
    OWNER_RESOURCES,
    PDBS,
    PRIORITY_CLASSES,
    PVCS,
    WATCHED_KINDS,
)
from reactive_desched.text.counts import agree, format_count
from reactive_desched.text.times import format_second

if TYPE_CHECKING:  # a preview without measured use loads no settings
    from reactive_desched.policy.settings.controller_settings import UsageSettings

__all__ = [
    "missing_inputs",
    "missing_measurements",
    "missing_nodes",
    "missing_owners",
    "stale_measurements",
    "unclear_annotations",
]


MAX_VALUES_NAMED: Final = 5
"""So many unclear values of an annotation are named."""


def missing_inputs(policy: Policy, snapshot: Snapshot) -> Iterator[str]:
    """Say what follows from kinds of object that were not given, where the policy needs them."""
    for profile in policy.profiles:
        for resource, consequence in _required_resources(profile):
            if not snapshot.objects[resource]:
                yield f'profile "{profile.name}": no {resource} given: {consequence}'


def missing_measurements(policy: Policy, snapshot: Snapshot) -> Iterator[str]:
    """Say which plugins go by use that was not measured, and of how many nodes.

    Nothing is said of a source that could not be asked: the policy's warnings and the snapshot's
    `usage_problems` say why.
    """
    for profile in policy.profiles:
        for plugin in profile.plugins:
            problems = [
                *(_missing_samples(source, policy, snapshot) for source in plugin.usage_sources),
                _missing_node_metrics(plugin, snapshot),
            ]
            for problem in filter(None, problems):
                yield f'profile "{profile.name}": {problem}: {plugin.name} evicts nothing'


def _missing_samples(source: str, policy: Policy, snapshot: Snapshot) -> str:
    """Say of which nodes nothing was measured: in a sweep one is enough for doing nothing."""
    kind = source_kind(source)
    if kind not in policy.metrics_sources or source in snapshot.usage_problems:
        return ""
    measured = {
        sample.node
        for sample in (*snapshot.samples, *snapshot.stale_samples)
        if sample.source == source
    }
    unmeasured = [node.name for node in snapshot.nodes if node.name not in measured]
    if not unmeasured:
        return ""
    if kind != MetricsSourceKind.KUBERNETES and not measured:
        return f"{kind} is not asked here"
    what = "NodeMetrics" if kind == MetricsSourceKind.KUBERNETES else f"sample of {kind}"
    return f"no {what} given of {len(unmeasured)} nodes, for example {unmeasured[0]}"


def stale_measurements(snapshot: Snapshot, settings: "UsageSettings") -> Iterator[str]:
    """Say of which nodes the use is unknown because it was measured too long ago."""
    by_source: dict[str, list[NodeUsage]] = {}
    for sample in snapshot.stale_samples:
        by_source.setdefault(sample.source, []).append(sample)
    for source, samples in by_source.items():
        newest = max(samples, key=lambda sample: sample.sampled_s)
        yield (
            f"the samples of {source} of {len(samples)} nodes are older than maxAge"
            f" ({settings.of(source).max_age_s:g} s), so the use of these is unknown; the"
            f" newest, of {newest.node}, is of {format_second(newest.sampled_s)}"
        )


def _missing_node_metrics(plugin: AnyPlugin, snapshot: Snapshot) -> str:
    """Say whether a plugin goes by NodeMetrics of koordinator and there is none."""
    reads = any(NodeMetric in index.kinds for index in plugin.indexes)
    return (
        "no NodeMetrics of koordinator given"
        if reads and not snapshot.objects.get(NODE_METRIC.resource)
        else ""
    )


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


def missing_owners(snapshot: Snapshot) -> Iterator[str]:
    """Say which owners of pods were not given: the guards of the controller read them.

    Of DaemonSets they read opt-outs alone.
    """
    controllers = (controller_of(pod.owners) for pod in snapshot.pods)
    kinds = {owner.kind for owner in controllers if owner is not None}
    missing = [
        name
        for name in sorted(OWNER_RESOURCES - {DAEMON_SET.resource})
        if WATCHED_KINDS[name].kind in kinds and not snapshot.objects.get(name)
    ]
    if JOBS in missing:
        missing.remove(JOBS)
        yield f"no {JOBS} given: whether an eviction ends one is not known, so their pods stay"
    if missing:
        yield f"no {', '.join(missing)} given: the guards go by the pods that are there"


def missing_nodes(snapshot: Snapshot) -> Iterator[str]:
    """Say of pods that their nodes are not there: such pods are not looked at."""
    node_names = {node.name for node in snapshot.nodes}
    missing = [pod.node for pod in snapshot.pods if pod.node and pod.node not in node_names]
    if missing:
        nodes = sorted(set(missing))
        yield (
            f"{format_count(len(missing), 'pod', 'is', 'are')} on"
            f" {format_count(len(nodes), 'node', 'that is', 'that are')} not there, for example"
            f" {nodes[0]}; {agree(len(missing), 'it is', 'they are')} not looked at"
        )


def unclear_annotations(snapshot: Snapshot) -> Iterator[str]:
    """Say which values of the annotation `evict` are neither yes nor no: they let the pods go."""
    unclear: dict[str, list[str]] = {}
    for pod in snapshot.pods:
        value = pod.annotations.evict
        if value is not None and not is_clear_evict_wish(value):
            unclear.setdefault(value, []).append(str(pod))
    for value, pods in sorted(unclear.items())[:MAX_VALUES_NAMED]:
        yield (
            f"{format_count(len(pods), 'pod', 'has', 'have')} the annotation {EVICT}: {value!r}, "
            f"for example {min(pods)}: it is neither true nor false, and lets them pass every "
            "protection of the policy"
        )
