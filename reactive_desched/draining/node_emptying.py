"""The common part of the plugins that empty whole nodes: a plan, and the sets of pods it finds."""

from abc import abstractmethod
from collections.abc import Generator, Iterable
from itertools import count
from math import inf, isfinite
from typing import ClassVar, TypeVar

from reactive_desched.api.balance_plugin import BalancePlugin, Plan
from reactive_desched.api.index import Cluster, Index
from reactive_desched.api.plugin import ArgsT, View
from reactive_desched.api.tried_moves import MoveTrial
from reactive_desched.draining.emptiable_nodes import EmptiableNodes, EmptyingRules
from reactive_desched.draining.emptying import Emptied, Giver, plan_emptying
from reactive_desched.draining.landing import recheck_of_reserved, waits_or_leaves
from reactive_desched.model.changes import (
    MOVE_CHANGES,
    Change,
    Resynced,
)
from reactive_desched.model.consolidation import ALL_NODES
from reactive_desched.model.decisions import Decision
from reactive_desched.model.findings import (
    AllNodesBut,
    Finding,
    MoveSet,
    RequeueAfter,
    YieldPoint,
    with_pauses,
)
from reactive_desched.model.objects import Pod
from reactive_desched.primitives.timers import DebounceConfig
from reactive_desched.state.indexes.consolidated_nodes import ConsolidatedNodes
from reactive_desched.state.indexes.consolidation_targets import (
    ConsolidationTargetChanged,
    ConsolidationTargets,
)

ResultT = TypeVar("ResultT")
Steps = Generator[Finding | RequeueAfter | YieldPoint, Decision, ResultT]


class NodeEmptyingPlugin(BalancePlugin[str, ArgsT]):
    """Finds the pods of nodes whose pods all fit elsewhere, as one set for each node.

    Subclasses say by `rules` which nodes, and by `enough` how many.
    """

    least_debounce = DebounceConfig(quiet_s=5.0, max_wait_s=60.0)
    indexes: ClassVar[tuple[type[Index], ...]] = (ConsolidatedNodes, ConsolidationTargets)
    reacts_to = (
        Resynced,
        ConsolidationTargetChanged,
        *MOVE_CHANGES,
    )

    @abstractmethod
    def rules(self, view: View) -> EmptyingRules:
        """Return the arguments as a plan asks for them."""

    @abstractmethod
    def message(self, node: str, pods: int) -> str:
        """Say why the pods of a node leave, which are so many."""

    @abstractmethod
    def why_not(self, node: str, pods: int, nodes: EmptiableNodes) -> str:
        """Say why a node stays that may be emptied, and whose pods are so many."""

    def enough(self, nodes: EmptiableNodes, view: View) -> float:
        """Return which saving is enough, as `EmptiableNodes.saving` has it."""
        del nodes, view
        return inf

    def is_too_large(self, pods: int) -> bool:
        """Say whether a node is left alone because so many pods would have to leave it."""
        del pods
        return False

    @property
    def closes_nodes(self) -> bool:
        """Return True: no pod is to come to a node that is emptied."""
        return True

    def subjects(self, change: Change, view: View) -> Iterable[str]:
        """Name all nodes."""
        del change, view
        return (ALL_NODES,)

    def balance(self, subject: str, view: View) -> Plan:
        """Plan which nodes are emptied, and find their pods, one node after the other."""
        del subject
        trial = yield from with_pauses(view.try_moves(), every=1)
        nodes = EmptiableNodes(view, self.rules(view), trial.number_of)
        yield from with_pauses(nodes.count(), every=1)
        if (enough := self.enough(nodes, view)) <= 0:
            yield from with_pauses(nodes.drop(), every=1)
            if isfinite(nodes.again_in_s):
                yield RequeueAfter(nodes.again_in_s)
            return
        yield from with_pauses(nodes.expect_back(trial), every=1)
        givers: list[Giver[Pod]] = []
        for giver in nodes.givers():
            yield YieldPoint()
            if giver is not None and giver.pods and self._takes(giver, nodes, trial):
                givers.append(giver)
        yield from recheck_of_reserved(view)
        if isfinite(nodes.again_in_s):
            yield RequeueAfter(nodes.again_in_s)
        if not givers:
            return
        search = plan_emptying(givers, nodes.takers, trial, nodes.budgets, enough=enough)
        plan = yield from with_pauses(search, every=1)
        planned = [(trial.name_of(each.giver.node), each) for each in plan.nodes]
        targets = AllNodesBut(frozenset((*nodes.closed, *(name for name, _ in planned))))
        for name, emptied in planned:
            pods = tuple(pod.uid for pod in emptied.giver.pods)
            moved = MoveSet(name, pods, tuple(nodes.empty))
            found = self._empty(moved, emptied, trial, targets, has_begun=name in nodes.begun)
            if (yield from found) == "cluster":
                return

    def sweep(self, view: View) -> Plan:
        """Find nothing: without the taint that the controller writes pods would come back."""
        del view
        yield from ()

    def describe(self, pod: Pod, view: View) -> str:
        """Say why the pod's node is not emptied."""
        numbers = count()
        nodes = EmptiableNodes(view, self.rules(view), lambda _: next(numbers))
        for _ in nodes.count():
            pass
        found = nodes.why_it_stays(pod.node)
        return found or self.why_not(pod.node, nodes.leaving(pod.node), nodes)

    def is_misplaced(self, pod: Pod, cluster: Cluster, now_s: float) -> bool:
        """Say whether the pod came to a node that is emptied, or is empty."""
        del now_s
        return pod.node in cluster.index(ConsolidatedNodes).names

    def _takes(self, giver: Giver[Pod], nodes: EmptiableNodes, trial: MoveTrial) -> bool:
        has_begun = trial.name_of(giver.node) in nodes.begun
        return has_begun or not self.is_too_large(len(giver.pods))

    def _empty(
        self,
        moved: MoveSet,
        emptied: Emptied[Pod],
        trial: MoveTrial,
        targets: AllNodesBut,
        *,
        has_begun: bool,
    ) -> Steps[str]:
        """Find the pods of a node; return the scope whose limit ended it.

        Where the set has not begun, nothing more is found once something keeps one of its pods.
        """
        message = self.message(moved.node, len(moved.pods))
        for pod, to in emptied.places:
            decision = yield Finding(
                pod,
                self.name,
                message,
                needs_fit=True,
                targets=targets,
                relieves_node=True,
                details={"pods": len(moved.pods), "place": trial.name_of(to)},
                move_set=moved,
            )
            if decision.scope_exhausted == "cluster":
                return decision.scope_exhausted
            if not has_begun and not waits_or_leaves(decision):
                return ""
        return ""
