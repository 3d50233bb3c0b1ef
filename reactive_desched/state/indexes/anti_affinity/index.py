"""Keeps what is known of pods near each other right, whatever changes, and tells who is eased."""

from collections.abc import Iterable

from reactive_desched.model.changes import AntiAffinityEased, Change
from reactive_desched.model.objects import Namespace, Pod, PodKey
from reactive_desched.state.indexes.anti_affinity.selectors import Selections
from reactive_desched.state.indexes.anti_affinity.terms import Selection
from reactive_desched.state.indexes.anti_affinity.terms_index import Avoidances
from reactive_desched.state.nodes import NodeTable, Standing
from reactive_desched.state.pods import PodTable
from reactive_desched.state.store import Table


class Neighbours:
    """The selections and the avoidances of a cluster, told of every change of its objects.

    Who came near whom can be asked when the change is there. Who left whom cannot be any more, so
    that is a change of its own.
    """

    def __init__(self, pods: PodTable, nodes: NodeTable, namespaces: Table[Namespace]) -> None:
        self._nodes = nodes
        self.selections = Selections(pods, nodes, namespaces)
        self.avoidances = Avoidances(pods, nodes, self.selections)

    def pod_changed(self, old: Pod | None, new: Pod | None) -> list[Change]:
        """Take in another record of a pod, None where there is none."""
        if old is not None and new is not None and _looks_the_same(old, new):
            return []
        if old is not None and not old.is_active:
            old = None
        if new is not None and not new.is_active:
            new = None
        dropped, joined = self.selections.follow(old, new)
        stays = old is not None and new is not None and _declare_the_same(old, new)
        eased = self._leave(old, dropped, withdraws=not stays) if old is not None else []
        if new is not None:
            self._join(new, joined, declares=not stays)
        return eased

    def node_changed(self, name: str, was: Standing) -> list[Change]:
        """Take in that a node came, went, has other labels, or counts or not unlike before."""
        now = self._nodes.standing(name)
        if was.labels is now.labels and was.counts == now.counts:
            return []
        keys = [key for key in self.keys() if _domain(was, key) != _domain(now, key)]
        entry = self._nodes.find(name)
        if not keys or entry is None:
            return []
        eased = self.avoidances.avoiding_on(entry, was.labels, keys) if was.counts else []
        for pod in entry.active.values():
            self._move(pod, keys, was, now)
        return _told(eased)

    def namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        """Take in that a namespace came, went, or has other labels."""
        if (old.labels if old is not None else {}) != (new.labels if new is not None else {}):
            self.selections.namespace_changed()

    def keys(self) -> set[str]:
        """Name the topology labels that matter to anybody."""
        return {*self.selections.keys, *self.avoidances.keys}

    def _leave(self, pod: Pod, dropped: list[Selection], *, withdraws: bool) -> list[Change]:
        """Take a pod out of the selections that mean it no more; tells whom it is not near now."""
        withdraws = withdraws and bool(pod.spec.anti_affinity)
        if not dropped and not withdraws:
            return []
        node = self._nodes.standing(pod.node)
        if withdraws:
            self.avoidances.withdraw(pod, node)
        for selection in dropped:
            for domains in selection.domains.values():
                domains.drop(pod.uid, node)
        eased = self._eased(pod, node, dropped)
        return _told(uid for uid in eased if uid != pod.uid) if eased else []

    def _join(self, pod: Pod, joined: list[Selection], *, declares: bool) -> None:
        """Put a pod into the selections that mean it from now on."""
        declares = declares and bool(pod.spec.anti_affinity)
        if not joined and not declares:
            return
        node = self._nodes.standing(pod.node)
        if declares:
            self.avoidances.declare(pod, node)
        for selection in joined:
            for domains in selection.domains.values():
                domains.put(pod.uid, node)

    def _move(self, pod: Pod, keys: list[str], was: Standing, now: Standing) -> None:
        """Move a pod with its node to other domains of these topology labels."""
        if pod.spec.anti_affinity:
            self.avoidances.moved(pod, keys, was, now)
        for selection in self.selections.meaning(pod):
            for key in keys:
                if (domains := selection.domains.get(key)) is not None:
                    domains.drop(pod.uid, was)
                    domains.put(pod.uid, now)

    def _eased(self, pod: Pod, node: Standing, left: list[Selection]) -> list[PodKey]:
        """Name those with a term that meant a pod where it was."""
        found: list[PodKey] = []
        for selection in left if node.counts else ():
            for avoidance in selection.avoidances:
                found += self.avoidances.declarers_near(avoidance, pod.node, node.labels)
        return found


def _looks_the_same(old: Pod, new: Pod) -> bool:
    """Say whether neither selections nor avoidances could tell two records apart."""
    return (
        old.labels is new.labels
        and old.node == new.node
        and old.spec.anti_affinity is new.spec.anti_affinity
        and (old.status is new.status or old.is_active == new.is_active)
    )


def _declare_the_same(old: Pod, new: Pod) -> bool:
    return old.node == new.node and old.spec.anti_affinity is new.spec.anti_affinity


def _domain(node: Standing, key: str) -> tuple[str, bool] | None:
    value = node.labels.get(key)
    return None if value is None else (value, node.counts)


def _told(pods: Iterable[PodKey]) -> list[Change]:
    eased = tuple(dict.fromkeys(pods))
    return [AntiAffinityEased(eased)] if eased else []
