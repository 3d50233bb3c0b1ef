"""Chooses a node for a pod that waits, as the kube-scheduler with its default plugins would."""

from collections.abc import Collection
from typing import Final

from msgspec import Struct

from reactive_desched.fit.filters import NodeFilters
from reactive_desched.fit.node_sets import NodeSets
from reactive_desched.fit.scores import NodeScores
from reactive_desched.model.node_scores import (
    DEFAULT_SCORES,
    MOST_ALLOCATED,
    Allocation,
    ScoreRules,
)
from reactive_desched.model.objects import Pod
from reactive_desched.model.scheduler_profile import DEFAULT_PROFILES, SchedulerProfiles
from reactive_desched.primitives import bits
from reactive_desched.state.cluster import ClusterView


class NodeChance(Struct, frozen=True):
    """A rule in place of chance among equal nodes: the likely one, else the first by name.

    That is one that the pod did not just leave, if there is another.
    """

    likely: str = ""
    left: str = ""

    def choose(self, names: Collection[str]) -> str:
        """Choose one of the names of nodes."""
        if self.likely in names:
            return self.likely
        return min(names, key=lambda name: (name == self.left, name))


FIRST_BY_NAME: Final = NodeChance()


class AssumedScheduler:
    """The kube-scheduler's filters and scores over the current cluster.

    What the controller reserves for replacements does not count. Of nodes with the same score, of
    which the kube-scheduler takes one by chance, it takes the first by name, unless something else
    stands for chance. Of a scheduler whose profile is not known it is assumed that it `packs` these
    resources: then it fills nodes one after the other, as a plugin that empties nodes needs it.
    """

    def __init__(
        self,
        view: ClusterView,
        profiles: SchedulerProfiles = DEFAULT_PROFILES,
        *,
        packs: Collection[str] = (),
    ) -> None:
        self._nodes = NodeSets(view)
        self._filters = NodeFilters(self._nodes, view, profiles)
        assumed = DEFAULT_SCORES
        if packs:
            resources = tuple((resource, 1) for resource in packs)
            assumed = ScoreRules(Allocation(MOST_ALLOCATED, resources))
        self._scores = NodeScores(self._nodes, view, self._filters, assumed)

    def choose_node(self, pod: Pod, chance: NodeChance = FIRST_BY_NAME) -> str:
        """Name the node to which a pod is bound; empty where it fits on none that is ready."""
        self._scores.update_nodes(update.slot for update in self._filters.sync())
        fitting = self._filters.fitting(pod, self._nodes.ready)
        if not fitting:
            return ""
        best = self._scores.best(pod, fitting)
        return chance.choose([self._nodes.name(slot) for slot in bits.slots_in(best)])
