"""A pod sits near another that its own required anti-affinity keeps it away from."""

from collections.abc import Iterable, Iterator
from typing import Final

from reactive_desched.api.plugin import DeschedulePlugin, View
from reactive_desched.api.scope import ScopedArgs
from reactive_desched.model.changes import (
    Change,
    NodeAdded,
    NodeLabelsChanged,
    PodBound,
    PodChange,
    PodLabelsChanged,
    PodSpecChanged,
    Resynced,
)
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import Node, Pod, PodAffinityTerm, PodKey
from reactive_desched.model.pod_importance import pod_importance
from reactive_desched.model.subjects import NodeSubject, PodSubject
from reactive_desched.state.indexes.pod_affinity import AntiAffinityResolved, PodAffinity

MAX_LISTED_CONFLICTS: Final = 32
"""A finding names so many pods that it is against; if there are more, it names none."""


class InterPodAntiAffinityArgs(ScopedArgs):
    """Which pods to look at; the others are not seen as partners either."""


class InterPodAntiAffinityPlugin(DeschedulePlugin[PodSubject, InterPodAntiAffinityArgs]):
    """Pods whose own required anti-affinity forbids a pod in the same topology domain.

    The plugin evicts the pod that declares the term, never the pod that the term forbids. Of pods
    that exclude each other it judges the least important first: without priority before with one,
    lower before higher, BestEffort before Burstable before Guaranteed, then pods without the
    annotation `prefer-no-eviction`.

    As upstream, pods of one node share every domain, even where the node lacks the label; two pods
    of the same name count as one pod, whatever their namespaces; `namespaceSelector` is ignored;
    and a pod with a selector that does not parse is not evicted, unless it violates an earlier
    term. Terminating pods still count as forbidden pods.
    """

    name = "RemovePodsViolatingInterPodAntiAffinity"
    asks_node_fit = False
    indexes = (PodAffinity,)
    reacts_to = (
        Resynced,
        NodeAdded,
        NodeLabelsChanged,
        PodBound,
        PodLabelsChanged,
        PodSpecChanged,
        AntiAffinityResolved,
    )

    def subjects(self, change: Change, view: View) -> Iterable[PodSubject]:
        """Name the pods that may be near a forbidden one, or no longer, least important first."""
        match change:
            case NodeAdded(node=node):
                return _by_importance(view.index(PodAffinity).violated_by(NodeSubject(node)), view)
            case NodeLabelsChanged(node=node, keys=keys):
                violated = view.index(PodAffinity).violated_by(NodeSubject(node), keys)
                return _by_importance(violated, view)
            case PodSpecChanged(pod=pod):
                return (PodSubject(pod.key),)
            case PodChange(pod=pod):
                return _by_importance(
                    view.index(PodAffinity).violated_by(PodSubject(pod.key)), view
                )
            case AntiAffinityResolved(pods=pods):
                return map(PodSubject, pods)
            case _:
                return _all_subjects(view)

    def judge(self, subject: PodSubject, view: View) -> Iterator[Finding]:
        """Flag the pod if a term of its required anti-affinity means a pod near it."""
        if (pod_and_node := view.active_pod(subject.pod)) is None:
            return
        pod, node = pod_and_node
        if not pod.spec.anti_affinity or not self.args.covers(pod):
            return
        if not (conflicts := self._conflicting_pods(pod, node, view)):
            return
        term, other = min(conflicts.values(), key=lambda pair: str(pair[1]))
        conflicts_with = tuple(conflicts) if len(conflicts) <= MAX_LISTED_CONFLICTS else ()
        yield Finding(
            pod,
            self.name,
            _message(term, node, other),
            conflicts_with=conflicts_with,
            details=_details(term, node, other),
        )

    def describe(self, pod: Pod, view: View) -> str:
        """Count the terms of the pod, none of which forbids a pod near it."""
        del view
        if not (terms := pod.spec.anti_affinity):
            return "the pod has no required anti-affinity"
        return f"no pod near it is forbidden by the {len(terms)} terms of its anti-affinity"

    def _conflicting_pods(
        self, pod: Pod, node: Node, view: View
    ) -> dict[PodKey, tuple[PodAffinityTerm, Pod]]:
        """Find the forbidden pods near this one; one more than are listed is enough to know."""
        found: dict[PodKey, tuple[PodAffinityTerm, Pod]] = {}
        for term, nearby in view.index(PodAffinity).forbidden_near(pod, node):
            if nearby is None:
                break
            for other in nearby:
                if other.name != pod.name and self.args.covers(other):
                    found.setdefault(other.uid, (term, other))
                    if len(found) > MAX_LISTED_CONFLICTS:
                        return found
        return found


def _all_subjects(view: View) -> Iterator[PodSubject]:
    """Name all pods with terms, node by node; each node's once it is its turn."""
    for node in sorted(view.index(PodAffinity).nodes_with_terms()):
        node_and_pods = view.pods_of(NodeSubject(node))
        if node_and_pods is not None:
            with_terms = [pod for pod in node_and_pods[1] if pod.spec.anti_affinity]
            yield from _by_importance(with_terms, view)


def _by_importance(pods: Iterable[Pod], view: View) -> list[PodSubject]:
    """Name pods, each once, least important first."""
    chosen = {pod.uid: pod for pod in pods}
    if len(chosen) <= 1:
        return list(map(PodSubject, chosen))
    importance = pod_importance(view.prefers_no_eviction)
    return [PodSubject(pod.uid) for pod in sorted(chosen.values(), key=importance)]


def _details(term: PodAffinityTerm, node: Node, other: Pod) -> dict[str, int | str]:
    """Name the domain they share, empty where the node lacks the label, and the other pod."""
    return {
        "topologyKey": term.topology_key,
        "topologyValue": node.labels.get(term.topology_key, ""),
        "conflictingPod": str(other),
        "conflictingPodUid": other.uid,
    }


def _message(term: PodAffinityTerm, node: Node, other: Pod) -> str:
    value = node.labels.get(term.topology_key)
    shared = f"node {node.name}" if value is None else f"{term.topology_key}={value}"
    return f"shares {shared} with {other}, which its anti-affinity forbids"
