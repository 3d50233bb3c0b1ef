"""A balance plugin for tests: at most so many pods of one owner on a node."""

from collections import defaultdict
from collections.abc import Iterable

from reactive_desched.api import BalancePlugin, PluginArgs, View
from reactive_desched.api.balance_plugin import Plan
from reactive_desched.model.changes import (
    Change,
    NodeAdded,
    NodeGone,
    PodBound,
    PodChange,
    PodEvictabilityChanged,
    PodGone,
    PodMetadataChanged,
    PodTerminating,
    Resynced,
)
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import Pod
from reactive_desched.model.subjects import NodeSubject


class OwnerLimitArgs(PluginArgs):
    """How many evictable pods of one owner a node may hold."""

    max_per_node: int = 1


class OwnerLimit(BalancePlugin[str, OwnerLimitArgs]):
    """Counts the evictable pods of an owner per node; the surplus goes where a free node fits it.

    Its subjects are owner uids. A pod that leaves already counts as gone.
    """

    name = "OwnerLimit"
    reacts_to = (
        Resynced,
        NodeAdded,
        NodeGone,
        PodBound,
        PodGone,
        PodTerminating,
        PodMetadataChanged,
        PodEvictabilityChanged,
    )

    def subjects(self, change: Change, view: View) -> Iterable[str]:
        """Name the owners of a changed pod; a change of nodes concerns every owner."""
        match change:
            case PodMetadataChanged():  # it may have had another owner
                return _owners(view)
            case PodChange(pod=pod):
                return [owner.uid for owner in pod.owners]
            case _:
                return _owners(view)

    def balance(self, subject: str, view: View) -> Plan:
        """Evict an owner's surplus of each node, as long as some other node has none of it."""
        by_node = _pods_by_node(subject, view)
        free = {node.name for node in view.nodes()} - by_node.keys()
        for node, pods in sorted(by_node.items()):
            staying = [pod for pod in pods if not view.is_leaving(pod)]
            surplus = len(staying) - self.args.max_per_node
            for pod in sorted(staying, key=lambda pod: pod.name):
                if surplus <= 0 or (target := view.find_node_among(pod, free)) is None:
                    break
                message = f"{node} holds {len(pods)} pods of {subject}"
                decision = yield Finding(pod, self.name, message, details={"target": target})
                if decision.pod_leaves:
                    surplus -= 1
                    free.discard(target)
                elif decision.scope_exhausted == "cluster":
                    return
                elif decision.scope_exhausted == "node":
                    break


def _owners(view: View) -> list[str]:
    return sorted({owner.uid for pod in _pods(view) for owner in pod.owners})


def _pods(view: View) -> list[Pod]:
    places = (view.pods_of(NodeSubject(node.name)) for node in view.nodes())
    return [pod for place in places if place is not None for pod in place[1]]


def _pods_by_node(owner_uid: str, view: View) -> dict[str, list[Pod]]:
    found: dict[str, list[Pod]] = defaultdict(list)
    for pod in _pods(view):
        if any(owner.uid == owner_uid for owner in pod.owners) and view.evictable(pod):
            found[pod.node].append(pod)
    return dict(found)
