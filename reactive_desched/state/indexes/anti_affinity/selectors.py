"""Which active pods a selector means, and in which topology domains they sit.

Kept up to date per change: what happens to one pod costs by its labels and by the selections that
mean it, never by the size of the cluster.
"""

from collections.abc import Hashable, Iterator

from reactive_desched.model.affinity_terms import Scope, content
from reactive_desched.model.labels import Labels, LabelSelector
from reactive_desched.model.objects import Namespace, Pod
from reactive_desched.state.indexes.anti_affinity.domains import Domains, KeysInUse
from reactive_desched.state.indexes.anti_affinity.labels import Population
from reactive_desched.state.indexes.anti_affinity.terms import Selection
from reactive_desched.state.nodes import NodeTable
from reactive_desched.state.pods import PodTable
from reactive_desched.state.store import Table

REMEMBERED_QUESTIONS = 1_000
"""How many selections are kept that nobody holds. At the bound the one asked for longest ago is
forgotten; when it is asked for again it is built again, at the cost of the pods it means."""

_NO_LABELS: Labels = {}


class Selections:
    """Every selection in use, one for all that say the same.

    A selection's domains are built when they are first asked for, and follow every change then.
    One that nobody holds may be forgotten by the next question, so use it up before that.
    """

    def __init__(self, pods: PodTable, nodes: NodeTable, namespaces: Table[Namespace]) -> None:
        self._pods = pods
        self._nodes = nodes
        self._namespaces = namespaces
        self._known: dict[Hashable, Selection] = {}
        self._unheld: dict[Selection, None] = {}  # the one asked for longest ago comes first
        self._populations: dict[str, Population] = {}
        self._everywhere: Population | None = None
        self.keys = KeysInUse()

    def __len__(self) -> int:
        return len(self._known)

    def of(self, scope: Scope, selector: LabelSelector) -> Selection:
        """Return the selection of this content, made when first asked for."""
        key = scope.content, content(selector)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Selection(scope, selector, key)
            self._enrol(found)
        if not found.holders:
            self._asked_for(found)
        return found

    def hold(self, selection: Selection) -> None:
        """Keep a selection until it was released as often."""
        selection.holders += 1
        self._unheld.pop(selection, None)

    def release(self, selection: Selection) -> None:
        """Let go of a selection; it stays for a while, as the next pod may need it again."""
        selection.holders -= 1
        if not selection.holders:
            self._asked_for(selection)

    def meaning(self, pod: Pod) -> list[Selection]:
        """Return the selections that mean a pod, by its labels and its namespace."""
        population = self._populations.get(pod.namespace)
        found = population.meaning(pod.labels) if population is not None else []
        if self._everywhere is not None:
            labels = self._labels_of(pod.namespace)
            wide = self._everywhere.meaning(pod.labels)
            found += [s for s in wide if s.scope.covers(pod.namespace, labels)]
        return found

    def means(self, selection: Selection, pod: Pod) -> bool:
        """Say whether a selection means a pod."""
        return (
            selection.usable
            and selection.selector.matches(pod.labels)
            and selection.scope.covers(pod.namespace, self._labels_of(pod.namespace))
        )

    def members(self, selection: Selection) -> Iterator[Pod]:
        """Return the active pods that a selection means, on whatever nodes."""
        if not selection.usable:
            return
        for population in self._populations_of(selection):
            for uid in population.candidates(selection):
                pod = self._pods.get(uid)
                if pod is not None and self.means(selection, pod):
                    yield pod

    def domains(self, selection: Selection, key: str) -> Domains:
        """Return a selection's active pods by the domains of a topology label."""
        found = selection.domains.get(key)
        if found is None:
            found = selection.domains[key] = Domains(key)
            self.keys.begin(key)
            for pod in self.members(selection):
                found.put(pod.uid, self._nodes.standing(pod.node))
        return found

    def follow(self, old: Pod | None, new: Pod | None) -> tuple[list[Selection], list[Selection]]:
        """Take in that an active pod came, went (None) or differs.

        Returns the selections it dropped out of and those it joined, for their domains to be told.
        A pod on another node dropped out of all and joined all.
        """
        pod = new or old
        if pod is None:
            return [], []
        if (population := self._populations.get(pod.namespace)) is not None:
            population.follow(old, new)
        if self._everywhere is not None:
            self._everywhere.follow(old, new)
        before = self.meaning(old) if old is not None else []
        after = self.meaning(new) if new is not None else []
        if old is None or new is None or old.node != new.node:
            return before, after
        return [s for s in before if s not in after], [s for s in after if s not in before]

    def namespace_changed(self) -> None:
        """Forget who is meant by the labels of namespaces: some namespace has other labels."""
        for selection in self._everywhere or ():
            if selection.scope.selector is not None and not selection.scope.selector.is_empty:
                self._forget_domains(selection)

    def _labels_of(self, namespace: str) -> Labels:
        found = self._namespaces.get(namespace)
        return found.labels if found is not None else _NO_LABELS

    def _populations_of(self, selection: Selection) -> list[Population]:
        """Return where the pods are that a selection may mean, made when first needed."""
        if selection.scope.selector is None:
            return [self._population(name) for name in selection.scope.namespaces]
        if self._everywhere is None:
            self._everywhere = Population(lambda: self._pods)
        return [self._everywhere]

    def _population(self, namespace: str) -> Population:
        found = self._populations.get(namespace)
        if found is None:
            found = Population(lambda: self._pods.in_namespace(namespace))
            self._populations[namespace] = found
        return found

    def _enrol(self, selection: Selection) -> None:
        if selection.usable:
            for population in self._populations_of(selection):
                population.enrol(selection)

    def _asked_for(self, selection: Selection) -> None:
        self._unheld.pop(selection, None)
        self._unheld[selection] = None
        if len(self._unheld) > REMEMBERED_QUESTIONS:
            self._forget(next(iter(self._unheld)))

    def _forget(self, selection: Selection) -> None:
        del self._unheld[selection]
        del self._known[selection.content]
        self._forget_domains(selection)
        if not selection.usable:
            return
        for population in self._populations_of(selection):
            population.dismiss(selection)
        for name in selection.scope.namespaces:
            if name in self._populations and not len(self._populations[name]):
                del self._populations[name]
        if self._everywhere is not None and not len(self._everywhere):
            self._everywhere = None

    def _forget_domains(self, selection: Selection) -> None:
        for key in selection.domains:
            self.keys.end(key)
        selection.domains.clear()
