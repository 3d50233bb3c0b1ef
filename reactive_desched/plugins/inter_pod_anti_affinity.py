"""A pod sits near another that its own required anti-affinity keeps it away from."""

from collections.abc import Iterable, Iterator, Sequence
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
from reactive_desched.primitives.long_answers import InPortions, portions, sorted_portions
from reactive_desched.state.indexes.pod_affinity import (
    AntiAffinityResolved,
    ForbiddenPodsChanged,
    PodAffinity,
)
from reactive_desched.text.counts import format_count

MAX_LISTED_CONFLICTS: Final = 32
"""A finding names so many pods that it is against; if there are more, it names none."""


_Conflict = tuple[PodAffinityTerm, Pod]
"""A term, and a pod near by that it forbids."""


class InterPodAntiAffinityArgs(ScopedArgs):
    """Arguments: the pods to judge; in a sweep the others are no partners either."""


class InterPodAntiAffinityPlugin(DeschedulePlugin[PodSubject, InterPodAntiAffinityArgs]):
    """Pods whose own required anti-affinity forbids a pod in the same topology domain.

    The plugin evicts the pod that declares the term, never the pod that the term forbids. Of pods
    that exclude each other it judges the least important first: without priority before with one,
    lower before higher, BestEffort before Burstable before Guaranteed, then pods without the
    annotation `prefer-no-eviction`.

    In reactive mode a term means the pods that it means to the kube-scheduler. `namespaceSelector`,
    `matchLabelKeys` and `mismatchLabelKeys` count; a node without the topology label shares no
    domain; a selector that does not parse means no pod. Forbidden pods count on every node that is
    Ready, whatever the policy selects, and whatever the arguments cover. A terminating one counts
    until all that are forbidden leave: then the pod stays. A pod that came to have the forbidden
    labels must have them for 25 s (`guards.standingTimes.podLabels`), and a node that came to have
    the topology label, or another value of it, for as long (`nodeLabels`): a leader that gives up
    its role and a node that is labelled anew pass.

    In a sweep, as upstream, pods of one node share every domain, even where the node lacks the
    label; two pods of the same name count as one pod, whatever their namespaces;
    `namespaceSelector` and label keys are ignored; and a pod with a selector that does not parse is
    not evicted, unless it violates an earlier term.
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
        ForbiddenPodsChanged,
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
                return _in_portions(portions(pods))
            case ForbiddenPodsChanged(pods=pods):
                found = map(view.active_pod, pods)
                return _by_importance((each[0] for each in found if each is not None), view)
            case _:
                return _all_subjects(view)

    def judge(self, subject: PodSubject, view: View) -> Iterator[Finding]:
        """Flag the pod if a term of its required anti-affinity means a pod near it."""
        if (judged := self._judged(subject, view)) is not None:
            pod, node = judged
            yield from self._findings(pod, node, _forbidden_pods(pod, node, view), view)

    def sweep(self, view: View) -> Iterator[list[Finding]]:
        """Judge every pod with terms as the SIG descheduler reads them."""
        for subject in _all_subjects(view):
            if (judged := self._judged(subject, view)) is not None:
                pod, node = judged
                forbidden = self._forbidden_in_sweep(pod, node, view)
                yield list(self._findings(pod, node, forbidden, view))

    def describe(self, pod: Pod, view: View) -> str:
        """Count the terms of the pod, none of which forbids a pod near it."""
        if not (terms := pod.spec.anti_affinity):
            return "the pod has no required anti-affinity"
        counted = format_count(len(terms), "term")
        said = f"no pod near it is forbidden by the {counted} of its anti-affinity"
        if (found := view.active_pod(pod.uid)) is None:
            return said
        node = found[1]
        keys = dict.fromkeys(term.topology_key for term in terms)
        if missing := [key for key in keys if key not in node.labels]:
            said += f"; node {node.name} has no label {', '.join(missing)}"
        return said

    def _judged(self, subject: PodSubject, view: View) -> tuple[Pod, Node] | None:
        """Return a pod with terms that the arguments cover, and its node."""
        if (pod_and_node := view.active_pod(subject.pod)) is None:
            return None
        pod = pod_and_node[0]
        return pod_and_node if pod.spec.anti_affinity and self.args.covers(pod) else None

    def _findings(
        self, pod: Pod, node: Node, forbidden: Iterable[_Conflict], view: View
    ) -> Iterator[Finding]:
        """Flag a pod for the pods that it forbids; one more than are listed is enough to know."""
        conflicts: dict[PodKey, _Conflict] = {}
        for term, other in forbidden:
            conflicts.setdefault(other.uid, (term, other))
            if len(conflicts) > MAX_LISTED_CONFLICTS:
                break
        if not conflicts:
            return
        waits = {uid: _wait_s(*pair, node, view) for uid, pair in conflicts.items()}
        wait_s = min(waits.values())
        lasting = (pair for uid, pair in conflicts.items() if waits[uid] == wait_s)
        term, other = min(lasting, key=lambda pair: str(pair[1]))
        conflicts_with = tuple(conflicts) if len(conflicts) <= MAX_LISTED_CONFLICTS else ()
        yield Finding(
            pod,
            self.name,
            _message(term, node, other),
            conflicts_with=conflicts_with,
            details=_details(term, node, other),
            counts_from_s=view.now_s + wait_s if wait_s else 0.0,
        )

    def _forbidden_in_sweep(self, pod: Pod, node: Node, view: View) -> Iterator[_Conflict]:
        """Yield the pods near this one that the SIG descheduler takes for forbidden."""
        for term, nearby in view.index(PodAffinity).forbidden_in_sweep(pod, node):
            if nearby is None:
                return
            for other in nearby:
                if other.name != pod.name and self.args.covers(other):
                    yield term, other


def _forbidden_pods(pod: Pod, node: Node, view: View) -> Iterator[_Conflict]:
    """Yield the pods that the kube-scheduler would keep this one away from."""
    for term, nearby in view.index(PodAffinity).forbidden_near(pod, node):
        for other in nearby:
            if other.uid != pod.uid:
                yield term, other


def _wait_s(term: PodAffinityTerm, other: Pod, node: Node, view: View) -> float:
    """Say for how long a conflict must still last: that of its youngest part."""
    waits = [view.label_wait_s(node, term.topology_key)]
    if other.node != node.name and (found := view.active_pod(other.uid)) is not None:
        waits.append(view.label_wait_s(found[1], term.topology_key))
    if term.label_selector is not None:
        waits.append(view.match_wait_s(other, term.label_selector))
    return max(waits)


def _all_subjects(view: View) -> Iterator[PodSubject]:
    """Name all pods with terms, node by node; each node's once it is its turn."""
    for node in view.index(PodAffinity).nodes_with_terms():
        if (node_and_pods := view.pods_of(NodeSubject(node))) is not None:
            with_terms = [pod for pod in node_and_pods[1] if pod.spec.anti_affinity]
            yield from _by_importance(with_terms, view)


def _by_importance(pods: Iterable[Pod], view: View) -> Iterable[PodSubject]:
    """Name pods, each once, least important first."""
    chosen = {pod.uid: pod for pod in pods}
    if len(chosen) <= 1:
        return map(PodSubject, chosen)
    in_order = sorted_portions(list(chosen.values()), pod_importance(view.prefers_no_eviction))
    return _in_portions([pod.uid for pod in portion] for portion in in_order)


def _in_portions(found: Iterable[Sequence[PodKey]]) -> InPortions[PodSubject]:
    return InPortions(list(map(PodSubject, portion)) for portion in found)


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
