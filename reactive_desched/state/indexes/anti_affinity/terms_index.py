"""Who keeps away from whom: required anti-affinity between pods, both ways round.

A pod's own terms say whom it must not be near; the other way round, a pod that arrives must find
those that must not be near it. Pods of one template in one namespace share what their terms come
to.
"""

from collections.abc import Collection, Container, Iterable, Iterator

from reactive_desched.model.affinity_terms import descheduler_scope, scheduler_scope
from reactive_desched.model.labels import Labels
from reactive_desched.model.objects import Node, Pod, PodAffinityTerm, PodKey
from reactive_desched.state.indexes.anti_affinity.domains import KeysInUse
from reactive_desched.state.indexes.anti_affinity.selectors import Selections
from reactive_desched.state.indexes.anti_affinity.terms import Avoidance, Reading, Selection
from reactive_desched.state.nodes import DOMAIN_KEYS, NodeEntry, NodeTable, Standing
from reactive_desched.state.pods import PodTable

Terms = tuple[PodAffinityTerm, ...]
Meant = tuple[tuple[PodAffinityTerm, Selection], ...]
"""Terms with whom they mean; a term without a selector means nobody and is left out."""


class _Declaration:
    """The required anti-affinity that pods of a namespace share, and how many have it.

    `terms` are held, so that an identity is never used twice.
    """

    __slots__ = ("avoidances", "meant", "pods", "terms")

    def __init__(self, terms: Terms, meant: Meant, avoidances: tuple[Avoidance, ...]) -> None:
        self.terms = terms
        self.meant = meant
        self.avoidances = avoidances
        self.pods = 0


class Avoidances:
    """The required anti-affinity of all active pods, as the descheduler and the scheduler read it.

    For the descheduler pods are near each other on one node even if it lacks the topology label,
    and nodes that do not count are not looked at.
    """

    def __init__(self, pods: PodTable, nodes: NodeTable, selections: Selections) -> None:
        self._pods = pods
        self._nodes = nodes
        self._selections = selections
        self._declarations: dict[str, dict[int, _Declaration]] = {}
        self.keys = KeysInUse()

    # --- kept up to date ---

    def declare(self, pod: Pod, node: Standing) -> None:
        """An active pod has anti-affinity terms from now on."""
        declared = self._declared(pod)
        if declared is None:
            declared = self._begin(pod)
        declared.pods += 1
        for avoidance in declared.avoidances:
            avoidance.declarers.put(pod.uid, node)

    def withdraw(self, pod: Pod, node: Standing) -> None:
        """A pod that declared its terms is active no more, or has others."""
        declared = self._declared(pod)
        assert declared is not None
        for avoidance in declared.avoidances:
            avoidance.declarers.drop(pod.uid, node)
        declared.pods -= 1
        if not declared.pods:
            self._end(pod.namespace, declared)

    def moved(self, pod: Pod, keys: Container[str], was: Standing, now: Standing) -> None:
        """A declaring pod's node is in other domains of these topology labels than before."""
        declared = self._declared(pod)
        assert declared is not None
        for avoidance in declared.avoidances:
            if avoidance.key in keys:
                avoidance.declarers.drop(pod.uid, was)
                avoidance.declarers.put(pod.uid, now)

    # --- questions ---

    def avoided(
        self, pod: Pod, node: Node
    ) -> Iterator[tuple[PodAffinityTerm, Iterable[Pod] | None]]:
        """Return, term by term, the active pods near a pod that it must not be near."""
        declared = self._declared(pod)
        for term, selection in self._meant(pod) if declared is None else declared.meant:
            if not selection.usable:
                yield term, None
            else:
                yield term, self._near(selection, term.topology_key, node)

    def avoiding(
        self, pod: Pod, labels: Labels, keys: Container[str] | None = None
    ) -> list[PodKey]:
        """Return the pods that must not be near a pod and are, given the labels of its node.

        With `keys`, only those that say so with one of these topology labels.
        """
        found: list[PodKey] = []
        for selection in self._selections.meaning(pod):
            for avoidance in selection.avoidances:
                if keys is None or avoidance.key in keys:
                    found += self.declarers_near(avoidance, pod.node, labels)
        return found

    def avoiding_on(
        self, entry: NodeEntry, labels: Labels, keys: Collection[str] | None = None
    ) -> list[PodKey]:
        """Return who avoids a pod of a node of these labels: pods there, and pods near there.

        Of the pods there, only those that have company whom a term of theirs means. With `keys`,
        only terms over these topology labels matter.
        """
        matter = [key for key in self.keys if keys is None or key in keys]
        if not matter:
            return []
        found = [
            pod.uid
            for pod, declared in self._declaring(entry)
            if self._has_company(pod, declared, labels, matter)
        ]
        shared = [key for key in matter if self._is_shared(key, labels, entry.name)]
        for pod in entry.active.values() if shared else ():
            found += self.avoiding(pod, labels, shared)
        return found

    def declarers_near(self, avoidance: Avoidance, node: str, labels: Labels) -> Collection[PodKey]:
        """Return the pods near a node that declare a term, as the descheduler reads it."""
        if avoidance.reading is Reading.SCHEDULER:
            return ()
        declarers = avoidance.declarers
        value = labels.get(declarers.key)
        if value is not None:
            return declarers.counting.of(value)
        if (entry := self._nodes.find(node)) is None:
            return ()
        declaring = self._declaring(entry)
        return [pod.uid for pod, declared in declaring if avoidance in declared.avoidances]

    def repelling(self, pod: Pod) -> list[Avoidance]:
        """Return the terms of others that mean a pod, as the kube-scheduler reads them."""
        return [
            avoidance
            for selection in self._selections.meaning(pod)
            for avoidance in selection.avoidances
            if avoidance.reading is not Reading.DESCHEDULER
        ]

    # --- inside ---

    def _has_company(
        self, pod: Pod, declared: _Declaration, labels: Labels, keys: Collection[str]
    ) -> bool:
        """Say whether a term means another pod nearby, or may: on a node without the label."""
        for term, selection in declared.meant:
            if (key := term.topology_key) not in keys or not selection.usable:
                continue
            if (value := labels.get(key)) is None:
                return True
            nearby = self._selections.domains(selection, key).counting.of(value)
            if len(nearby) > 1 or (nearby and pod.uid not in nearby):
                return True
        return False

    def _is_shared(self, key: str, labels: Labels, name: str) -> bool:
        """Say whether other nodes than this one may be in the domain of these labels."""
        if (value := labels.get(key)) is None:
            return False
        if key not in DOMAIN_KEYS:
            return True
        nodes = self._nodes.in_domain(key, value)
        return len(nodes) > 1 or (len(nodes) == 1 and name not in nodes)

    def _declared(self, pod: Pod) -> _Declaration | None:
        declarations = self._declarations.get(pod.namespace)
        return None if declarations is None else declarations.get(id(pod.spec.anti_affinity))

    def _meant(self, pod: Pod) -> Meant:
        return tuple(
            (term, self._selections.of(descheduler_scope(term, pod.namespace), selector))
            for term in pod.spec.anti_affinity
            if (selector := term.label_selector) is not None
        )

    def _near(self, selection: Selection, key: str, node: Node) -> Iterable[Pod]:
        value = node.labels.get(key)
        if value is None:
            entry = self._nodes.find(node.name)
            pods = entry.active.values() if entry is not None else ()
            return [pod for pod in pods if self._selections.means(selection, pod)]
        uids = self._selections.domains(selection, key).counting.of(value)
        return filter(None, map(self._pods.get, uids))

    def _declaring(self, entry: NodeEntry) -> Iterator[tuple[Pod, _Declaration]]:
        for pod in entry.active.values():
            if pod.spec.anti_affinity and (declared := self._declared(pod)) is not None:
                yield pod, declared

    def _begin(self, pod: Pod) -> _Declaration:
        avoidances: dict[Avoidance, None] = {}
        for term in pod.spec.anti_affinity:
            for avoidance in self._avoidances(term, pod.namespace):
                if avoidance not in avoidances:
                    avoidance.holders += 1
                    avoidances[avoidance] = None
        made = _Declaration(pod.spec.anti_affinity, self._meant(pod), tuple(avoidances))
        self._declarations.setdefault(pod.namespace, {})[id(made.terms)] = made
        return made

    def _avoidances(self, term: PodAffinityTerm, namespace: str) -> Iterator[Avoidance]:
        """Return what a term comes to: one avoidance, or one for each of two readings."""
        if term.label_selector is None:
            return
        scope, key = descheduler_scope(term, namespace), term.topology_key
        if term.namespace_selector is None:
            yield self._avoidance(
                self._selections.of(scope, term.label_selector), key, Reading.BOTH
            )
            return
        yield self._avoidance(
            self._selections.of(scope, term.label_selector), key, Reading.DESCHEDULER
        )
        scope = scheduler_scope(term, namespace)
        yield self._avoidance(
            self._selections.of(scope, term.label_selector), key, Reading.SCHEDULER
        )

    def _avoidance(self, selection: Selection, key: str, reading: Reading) -> Avoidance:
        for known in selection.avoidances:
            if known.key == key and known.reading is reading:
                return known
        made = Avoidance(selection, key, reading)
        selection.avoidances.append(made)
        self._selections.hold(selection)
        self.keys.begin(key)
        if reading is not Reading.SCHEDULER:
            self._selections.domains(selection, key)  # while it is small: others will follow
        return made

    def _end(self, namespace: str, declared: _Declaration) -> None:
        of_namespace = self._declarations[namespace]
        del of_namespace[id(declared.terms)]
        if not of_namespace:
            del self._declarations[namespace]
        for avoidance in declared.avoidances:
            avoidance.holders -= 1
            if not avoidance.holders:
                avoidance.selection.avoidances.remove(avoidance)
                self.keys.end(avoidance.key)
                self._selections.release(avoidance.selection)
