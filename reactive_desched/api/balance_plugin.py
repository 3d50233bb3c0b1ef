"""The contract of a plugin that weighs many pods against each other.

A balance plugin plans: it yields one finding after the other and receives the decision on each
before it goes on, so that its numbers follow what really leaves.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Generator, Iterable
from enum import Enum, auto
from typing import ClassVar

from reactive_desched.api.index import Cluster
from reactive_desched.api.plugin import ArgsT, Plugin, SubjectT, View
from reactive_desched.model.changes import Resynced
from reactive_desched.model.decisions import Decision
from reactive_desched.model.findings import Finding, RequeueAfter, YieldPoint
from reactive_desched.model.node_table import NodeTable
from reactive_desched.model.objects import Node, Pod

__all__ = ["BalancePlugin", "Plan", "SweepFilters"]

Plan = Generator[Finding | RequeueAfter | YieldPoint, Decision, None]
"""What `balance` returns; `decision = yield finding`."""


class SweepFilters(Enum):
    """The evictor's filters that are left for a sweep to apply to each finding.

    A plugin applies others itself where upstream filters many pods before it evicts the first: one
    may not pass any more by then, as when its owner has fewer than `minReplicas` pods left.
    """

    ALL = auto()
    """Every filter."""
    PRE_EVICTION = auto()
    """Node fit and namespace labels: `sweep` asks `View.evictable` itself."""
    NONE = auto()
    """No filter: `sweep` asks `View.passes_pre_eviction`, too."""


class BalancePlugin(Plugin[SubjectT, ArgsT]):
    """One condition of many pods: an owner's replicas, a spread constraint, a pool of nodes.

    The decision on a finding says how to go on:

    - `decision.pod_leaves`: the eviction was decided now, or is under way already; subtract the
      pod.
    - `decision.scope_exhausted`: no more evictions now from this scope. Go on with pods outside it;
      where its kind is "cluster" there are none, so return.
    - `decision.turn`: the pod waits for one that leaves before it, in the row of this name, and
      has its turn soon, as a rule. Where another pod would leave in its stead, wait for it.
    - none of these: this pod stays for now. Go on with the next.

    Copy what you iterate over before the first finding: an evicted pod is removed from the cluster
    that the view shows before a sweep goes on, and the controller applies changes while a long
    plan is interrupted, which it may be at every finding. A plan that looks at thousands of objects
    without a finding yields a YieldPoint now and then, to be interrupted there. Where a finding
    stays blocked, the subject is planned anew when what blocks the finding may be over.
    """

    extension_point: ClassVar[str] = "balance"

    needs_spreading: ClassVar[bool] = False
    """Whether it is of use only where the kube-scheduler prefers nodes with much left."""

    sweep_filters: ClassVar[SweepFilters] = SweepFilters.ALL
    """Which filters of the evictor a sweep applies to each finding before the eviction."""

    @property
    def packed_resources(self) -> Collection[str]:
        """The resources by which the kube-scheduler must fill up used nodes first.

        It is of use only with a scheduler that does; none, where any scheduler will do.
        """
        return ()

    @property
    def closes_nodes(self) -> bool:
        """Say whether it finds sets of pods before the first of which their node gets the taint.

        The taint is taken off where no acting plugin does so any more.
        """
        return False

    def nodes_to_close(self, cluster: Cluster) -> Iterable[Node]:
        """Return empty nodes that are to have the taint without a set, and do not have it yet.

        It is asked every second, of an acting plugin that `closes_nodes`.
        """
        del cluster
        return ()

    def nodes_to_open(self, cluster: Cluster) -> Iterable[Node]:
        """Return empty nodes with the taint that need not have it, as far as it is asked.

        It is asked as `nodes_to_close` is. The taint is taken off where all such plugins agree, and
        no set is under way.
        """
        del cluster
        return ()

    @abstractmethod
    def balance(self, subject: SubjectT, view: View) -> Plan:
        """Plan which pods of the subject should leave, as the cluster is now."""

    def evaluate(self, subject: SubjectT, view: View) -> Plan:
        """Return the plan, a generator that receives the decision on each finding."""
        return self.balance(subject, view)

    def sweep(self, view: View) -> Plan:
        """Plan every subject in turn; the evictions of one are done before the next begins.

        Override this where upstream looks at all subjects before it evicts the first pod.
        """
        for subject in list(self.subjects(Resynced(), view)):
            yield from self.balance(subject, view)

    def is_misplaced(self, pod: Pod, cluster: Cluster, now_s: float) -> bool:
        """Say whether a replacement landed where pods like it should leave, as it is now.

        It is asked once, when the replacement of a pod that the plugin had evicted is Ready on
        another node. A move did not help where it says so, even if no finding names that very pod:
        a plan evicts others first. `now_s` is seconds since the epoch. The default goes by
        findings alone. A replacement on the node that the pod had left did not help in any case.
        """
        del pod, cluster, now_s
        return False

    def node_tables(self, view: View) -> Iterable[NodeTable]:
        """Return how the nodes stand now, a table for each pool.

        `reactive-desched nodes` shows them. None for a plugin that does not weigh nodes.
        """
        del view
        return ()

    def sweep_node_tables(self, view: View) -> Iterable[NodeTable]:
        """Return the same as `sweep` counts, where that differs."""
        return self.node_tables(view)

    def sweep_obstacles(self, view: View) -> Callable[[Pod], str]:
        """Return what `obstacles` does, as `sweep` counts, where that differs."""
        return self.obstacles(view)
