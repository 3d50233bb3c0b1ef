"""Explains why pods stay on nodes that give pods away: what keeps a pod, why a node takes none.

A plan passes over such pods without a finding, so it is found out again where a person asks.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from heapq import nsmallest
from itertools import islice
from typing import Final, NamedTuple

from reactive_desched.api.plugin import View
from reactive_desched.draining.room import tolerates
from reactive_desched.model.node_affinity import satisfies_required
from reactive_desched.model.objects import Node, Pod
from reactive_desched.model.subjects import NodeSubject
from reactive_desched.model.taints import HARD_EFFECTS, Taint, untolerated
from reactive_desched.text.counts import agree, format_count

MAX_PODS: Final = 1000
"""So many pods of the nodes that give pods are looked at; the counts are of those."""

MAX_DESTINATIONS: Final = 50
"""So many of the nodes that take pods are looked at, by name; one that takes a pod is among them,
or the cluster has so many that a person must ask about a pod."""

PODS_OF_NODE: Final = 100
"""So many pods are looked at where a person asks about one node that takes pods."""

MAX_PAIRS: Final = 10_000
"""So many pairs of a pod and a node are looked at for a table."""

MAX_NAMED: Final = 3

LEAVES_LATER: Final = "other pods leave it before this one"


class Kept(NamedTuple):
    """The reason why a pod may not leave: a word or two for a count of such pods, a sentence."""

    label: str
    sentence: str


class Destinations(ABC):
    """The nodes that take pods, as one plan sees them."""

    def __init__(self, view: View, nodes: Mapping[str, Node]) -> None:
        self.view = view
        self.nodes = nodes
        self.first = nsmallest(MAX_DESTINATIONS, nodes)

    @abstractmethod
    def short_of(self, name: str, pod: Pod) -> str:
        """Name a resource of which a node has too little left for a pod; empty for none."""

    def untolerated(self, pod: Pod, node: Node) -> Taint | None:
        """Return a taint for which a plan moves no such pod to a node, of whatever effect."""
        tolerations, taints = pod.spec.tolerations, node.taints
        if tolerates(tolerations, taints):
            return None
        return next(untolerated(tolerations, taints), taints[-1])

    def refusal(self, name: str, pod: Pod) -> str:
        """Say why a node does not take a pod, in words that end before the pod; empty if it does.

        In the order of a plan: taints, what the pod asks of nodes, room, the other rules of fit.
        """
        node = self.nodes[name]
        if reason := placing_reason(pod, node, self.untolerated(pod, node)):
            return reason
        if resource := self.short_of(name, pod):
            return f"it has too little {resource} left for"
        reasons = self.view.why_unfit(pod, (name,))
        return f"{reasons}, for" if reasons else ""


def placing_reason(pod: Pod, node: Node, taint: Taint | None) -> str:
    """Say why a pod may not be on a node, by a taint or its labels, in words before the pod."""
    spec = pod.spec
    if taint is not None:
        return f"taint {taint} is not tolerated by"
    if satisfies_required(spec.node_selector, spec.node_affinity, node.name, node.labels):
        return ""
    return f"it does not match {_wish(pod, node)} of"


def hard_taint(pod: Pod, node: Node) -> Taint | None:
    """Return a taint that keeps the kube-scheduler from placing a pod on a node."""
    hard = (taint for taint in node.taints if taint.effect in HARD_EFFECTS)
    return next(untolerated(pod.spec.tolerations, hard), None)


def closed_nodes(why: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each reason for which nodes are no destinations, with their names."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in why.items():
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        verb = agree(len(names), "is no destination", "are no destinations")
        yield f"{named(names)} {verb}: {reason}"


def protected_by(pod: Pod, view: View) -> Kept | None:
    """Return which of the evictor's filters keeps a pod from leaving."""
    if (protection := view.why_protected(pod)) is None:
        return None
    gate, message = protection
    return Kept(gate, f"the pod may not leave: {message} ({gate})")


def _wish(pod: Pod, node: Node) -> str:
    """Say what a pod asks of its nodes that a node does not have."""
    missed = [f"{k}={v}" for k, v in pod.spec.node_selector.items() if node.labels.get(k) != v]
    if missed:
        return f"the node selector {', '.join(missed)}"
    required = None if pod.spec.node_affinity is None else pod.spec.node_affinity.required
    terms = () if required is None else required.node_selector_terms
    texts = [" and ".join(map(str, (*t.match_expressions, *t.match_fields))) for t in terms]
    return f"the required node affinity ({' or '.join(texts)})"


class Obstacles:
    """The obstacles that keep the pods of some nodes from leaving, pod by pod and in all.

    `sources` are the nodes that give pods away, and `what_they_are`. `general` says why no
    pod moves, whatever the pods are. `may_stay` are the labels of pods that a source is to keep,
    `otherwise` says why a pod stays that may leave and has a place.
    """

    def __init__(
        self,
        view: View,
        sources: Collection[str],
        what_they_are: str,
        kept: Callable[[Pod], Kept | None],
        destinations: Destinations,
        general: Sequence[str],
        may_stay: Collection[str] = (),
        otherwise: Callable[[Pod], str] | None = None,
    ) -> None:
        self._view = view
        self._sources = sources
        self._what_they_are = what_they_are
        self._kept = kept
        self._destinations = destinations
        self._general = general
        self._may_stay = may_stay
        self._otherwise = otherwise

    def gives(self, node: str) -> bool:
        """Say whether a node gives pods away."""
        return node in self._sources

    def of_pod(self, pod: Pod) -> str:
        """Say what keeps a pod on a node that gives pods away; empty on any other node."""
        if pod.node not in self._sources or self._view.is_leaving(pod):
            return ""
        return f"{pod.node} is {self._what_they_are}, and {self.reason(pod)}"

    def reason(self, pod: Pod) -> str:
        """Say what keeps a pod of a node that gives pods away."""
        if (kept := self._kept_by(pod)) is not None:
            return kept.sentence
        if self._general:
            return "; ".join(self._general)
        refusals: dict[str, str] = {}
        for name in self._destinations.first:
            if not (why := self._destinations.refusal(name, pod)):
                return LEAVES_LATER if self._otherwise is None else self._otherwise(pod)
            refusals[name] = f"{why} the pod"
        return "; ".join(closed_nodes(refusals))

    def of_node(self, name: str) -> str:
        """Say why a node that takes pods takes none of some that may leave; empty if it does."""
        if name not in self._destinations.nodes or self._general:
            return ""
        refused: Counter[str] = Counter()
        for pod in islice(self._movable(), PODS_OF_NODE):
            if not (reason := self._destinations.refusal(name, pod)):
                return ""
            refused[reason] += 1
        of_all = format_count(refused.total(), "movable pod")
        why = "; ".join(
            f"{reason} {count} of {of_all}" for reason, count in refused.most_common(MAX_NAMED)
        )
        return next(closed_nodes({name: why}), "") if why else ""

    def _movable(self) -> Iterator[Pod]:
        for source in sorted(self._sources):
            for pod in (self._view.pods_of(NodeSubject(source)) or (None, ()))[1]:
                if not self._view.is_leaving(pod) and self._kept_by(pod) is None:
                    yield pod

    def lines(self) -> Iterator[str]:
        """Say what keeps pods from leaving: sources without any, destinations that take none."""
        kept_on: dict[str, Counter[str]] = {}
        movable: list[Pod] = []
        seen = 0
        for source in sorted(self._sources):
            found = self._view.pods_of(NodeSubject(source))
            pods = [pod for pod in (found or (None, ()))[1] if not self._view.is_leaving(pod)]
            pods = pods[: MAX_PODS - seen]
            seen += len(pods)
            labels = {pod.uid: self._kept_by(pod) for pod in pods}
            staying = Counter(kept.label for kept in labels.values() if kept is not None)
            may_leave = [pod for pod in pods if labels[pod.uid] is None]
            movable += may_leave
            if pods and not may_leave and not staying.keys() <= set(self._may_stay):
                kept_on[source] = staying
        yield from _kept_lines(kept_on)
        if movable:
            yield from self._without_place(movable)

    def _kept_by(self, pod: Pod) -> Kept | None:
        return protected_by(pod, self._view) or self._kept(pod)

    def _without_place(self, movable: Sequence[Pod]) -> Iterator[str]:
        """Name the nodes that take none of these pods, and count the pods that no node takes."""
        names = self._destinations.first
        pods = movable[: MAX_PAIRS // max(1, len(names))]
        refused: dict[str, Counter[str]] = {name: Counter() for name in names}
        stuck: Counter[tuple[str, str]] = Counter()
        without_place = 0
        for pod in pods:
            reasons = {name: self._destinations.refusal(name, pod) for name in names}
            for name, reason in reasons.items():
                refused[name][reason] += 1
            if names and all(reasons.values()):
                without_place += 1
                stuck.update(reasons.items())
        of_all = format_count(len(pods), "movable pod")
        closed = {name: counts for name, counts in refused.items() if not counts[""]}
        yield from closed_nodes(
            {
                name: "; ".join(
                    f"{reason} {count} of {of_all}"
                    for reason, count in counts.most_common(MAX_NAMED)
                )
                for name, counts in closed.items()
            }
        )
        if without_place and len(closed) < len(names):
            why = "; ".join(
                f"{name}, since {reason} {count} of them"
                for (name, reason), count in stuck.most_common(MAX_NAMED)
            )
            yield f"{without_place} of {of_all} have no destination: not {why}"


def _kept_lines(kept_on: Mapping[str, Counter[str]]) -> Iterator[str]:
    if kept_on:
        total = sum(kept_on.values(), Counter[str]())
        counts = ", ".join(f"{count} {label}" for label, count in total.most_common(MAX_NAMED))
        yield f"no pod of {named(list(kept_on))} may leave: {counts}"


def named(nodes: Sequence[str]) -> str:
    """Name some nodes, the first of them by name."""
    more = len(nodes) - MAX_NAMED
    return ", ".join(nodes[:MAX_NAMED]) + (f" and {more} more nodes" if more > 0 else "")
