"""The pods of a node fit on others, so that it can be emptied and removed."""

from collections.abc import Generator, Iterable, Iterator
from itertools import count
from math import isfinite
from typing import Final, TypeVar

from pydantic import Field, field_validator

from reactive_desched.api.args import (
    Count,
    FieldError,
    NodeBand,
    Percentages,
    PluginArgs,
    SelectorObject,
    field_error,
    fraction_warnings,
    prefixed,
    raise_field_errors,
)
from reactive_desched.api.balance_plugin import BalancePlugin, Plan
from reactive_desched.api.index import Cluster
from reactive_desched.api.plugin import View
from reactive_desched.api.possible_names import PercentByResource
from reactive_desched.api.rules import Rule
from reactive_desched.api.scope import ScopedArgs
from reactive_desched.api.tried_moves import MoveTrial
from reactive_desched.draining.emptiable_nodes import EmptiableNodes, EmptyingRules
from reactive_desched.draining.emptying import Emptied, Giver, plan_emptying
from reactive_desched.draining.landing import recheck_of_reserved, waits_or_leaves
from reactive_desched.model.changes import (
    PLACE_CHANGES,
    Change,
    PodBound,
    PodEvictabilityChanged,
    PodLabelsChanged,
    PodMetadataChanged,
    PodSpecChanged,
    PodStatusChanged,
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
from reactive_desched.model.labels import label_key_error
from reactive_desched.model.objects import ZONE_LABEL, Node, Pod
from reactive_desched.primitives.timers import DebounceConfig
from reactive_desched.state.indexes.consolidated_nodes import ConsolidatedNodes
from reactive_desched.state.indexes.consolidation_targets import (
    ConsolidationTargetChanged,
    ConsolidationTargets,
)
from reactive_desched.text.counts import format_count

_ALL: Final = 100
DEFAULT_HEADROOM: Final = {"cpu": 10.0, "memory": 10.0}
ResultT = TypeVar("ResultT")
Steps = Generator[Finding | RequeueAfter | YieldPoint, Decision, ResultT]


class MinNodes(PluginArgs):
    """Nodes that stay of those that have the same value of a label, or lack it."""

    label: str = Field(description="Required. The key of the label, such as that of the zone.")
    nodes: Count = Field(
        default=1, description="So many nodes with pods stay of those with each value."
    )

    @field_validator("label")
    @classmethod
    def _validate_label(cls, written: str) -> str:
        hint = f"write {ZONE_LABEL} to have some in each zone"
        if not written:
            raise field_error("no label is named", hint, rule=Rule.EMPTY_VALUE)
        if (wrong := label_key_error(written)) is not None:
            raise field_error(wrong, hint, rule=Rule.LABEL_SELECTOR)
        return written


_OF_ZONES: Final = (MinNodes(label=ZONE_LABEL),)


class ConsolidateNodesArgs(ScopedArgs):
    """Arguments: which nodes may be emptied, what stays, and when a move is worth it."""

    node_selector: SelectorObject | None = Field(
        default=None,
        description="The nodes that may be emptied; all when left out. The others take pods.",
    )
    headroom: PercentByResource = Field(
        default=DEFAULT_HEADROOM,
        description="What stays free of the nodes that are left, all together, in per cent of each "
        "resource.",
    )
    min_nodes: tuple[MinNodes, ...] = Field(
        default=_OF_ZONES,
        description="How many nodes stay for each value of a label; without it one in each zone.",
    )
    min_saving: float = Field(
        default=0.5,
        ge=0,
        allow_inf_nan=False,
        description="A node is emptied if its share of the price of all nodes is at least so many "
        "times the share of its pods in the cost of moving all pods. 0: whatever it costs.",
    )
    price_label: str = Field(
        default="",
        description="A label of nodes whose value is what the node costs, a number in any unit. "
        "A node without it costs as much as one of the mean size; so do all when left out.",
    )

    @field_validator("price_label")
    @classmethod
    def _validate_price_label(cls, written: str) -> str:
        if written and (wrong := label_key_error(written)) is not None:
            hint = "write the key of the label alone, such as example.com/price"
            raise field_error(wrong, hint, rule=Rule.LABEL_SELECTOR)
        return written

    @field_validator("headroom")
    @classmethod
    def _validate_headroom(cls, written: Percentages) -> Percentages:
        raise_field_errors(_wrong_headroom(written))
        return written

    @field_validator("min_nodes")
    @classmethod
    def _validate_min_nodes(cls, written: tuple[MinNodes, ...]) -> tuple[MinNodes, ...]:
        raise_field_errors(_repeated_labels(written))
        return written

    def warnings(self) -> Iterator[FieldError]:
        """Warn of arguments that are valid and probably a mistake."""
        yield from prefixed("headroom", fraction_warnings(self.headroom))

    def node_bands(self) -> Iterator[NodeBand]:
        """Yield the nodes that may be emptied."""
        yield NodeBand(empties_any=True, nodes=self.node_selector)

    def price_of(self, node: Node) -> float:
        """Return what a node costs by its label; 1 where that says nothing."""
        try:
            price = float(node.labels.get(self.price_label, ""))
        except ValueError:
            return 1.0
        return price if 0 < price < float("inf") else 1.0

    @property
    def rules(self) -> EmptyingRules:
        """The arguments as the plan asks for them."""
        return EmptyingRules(
            self.covers,
            self.price_of,
            self.node_selector,
            self.headroom,
            {each.label: each.nodes for each in self.min_nodes},
            self.min_saving,
        )


class ConsolidateNodesPlugin(BalancePlugin[str, ConsolidateNodesArgs]):
    """Pods of nodes that can be emptied, because each of their pods fits on another node.

    A node is emptied as a whole or not at all: no pod leaves before all gates let all of its pods
    go. Nodes are emptied one after the other, those first whose pods cost least to move; it needs
    no thresholds, and works where all nodes are used little. Where a pod fits is asked by all of
    the kube-scheduler's filters, beside the moves that are planned before it. While pods leave a
    node, it has the taint `reactive-desched/consolidating` with the effect PreferNoSchedule, which
    stays while the node is empty, so that no pod comes back that fits elsewhere. A node that took a
    pod of an emptied one is not emptied itself for 90 s. The pods of DaemonSets and static pods
    stay. A sweep writes no taint, so it finds nothing.
    """

    name = "ConsolidateNodes"
    least_debounce = DebounceConfig(quiet_s=5.0, max_wait_s=60.0)
    indexes = (ConsolidatedNodes, ConsolidationTargets)
    reacts_to = (
        Resynced,
        ConsolidationTargetChanged,
        *PLACE_CHANGES,
        PodBound,
        PodLabelsChanged,
        PodMetadataChanged,
        PodSpecChanged,
        PodStatusChanged,
        PodEvictabilityChanged,
    )

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
        nodes = EmptiableNodes(view, self.args.rules, trial.number_of)
        yield from with_pauses(nodes.count(), every=1)
        givers: list[Giver[Pod]] = []
        for giver in nodes.givers():
            yield YieldPoint()
            if giver is not None and giver.pods:
                givers.append(giver)
        yield from recheck_of_reserved(view)
        if isfinite(nodes.settled_in_s):
            yield RequeueAfter(nodes.settled_in_s)
        if not givers:
            return
        search = plan_emptying(givers, nodes.takers, trial, nodes.budgets)
        plan = yield from with_pauses(search, every=1)
        planned = [(trial.name_of(each.giver.node), each) for each in plan.nodes]
        targets = AllNodesBut(frozenset((*nodes.closed, *(name for name, _ in planned))))
        for name, emptied in planned:
            pods = tuple(pod.uid for pod in emptied.giver.pods)
            moved = MoveSet(name, pods, tuple(nodes.empty))
            found = self._empty(moved, emptied, trial, targets, has_begun=name in nodes.begun)
            if (yield from found) == "cluster":
                return

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
        pods = format_count(len(moved.pods), "pod")
        message = f"node {moved.node} can be emptied: {pods} to move, with places elsewhere"
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

    def sweep(self, view: View) -> Plan:
        """Find nothing: without the taint that the controller writes pods would come back."""
        del view
        yield from ()

    def describe(self, pod: Pod, view: View) -> str:
        """Say why the pod's node is not emptied."""
        return self._why(pod.node, view)

    def is_misplaced(self, pod: Pod, cluster: Cluster, now_s: float) -> bool:
        """Say whether the pod came to a node that is emptied, or is empty."""
        del now_s
        return pod.node in cluster.index(ConsolidatedNodes).names

    def _why(self, name: str, view: View) -> str:
        numbers = count()
        nodes = EmptiableNodes(view, self.args.rules, lambda _: next(numbers))
        for _ in nodes.count():
            pass
        return nodes.why_it_stays(name) or (
            f"the pods of {name} have no places beside the others that move, or headroom or "
            "minNodes keep it"
        )


def _wrong_headroom(written: Percentages) -> Iterator[FieldError]:
    """Yield an error for each value that would keep all nodes, or none at all."""
    for resource, percent in written.items():
        if not 0 <= percent < _ALL:
            message = f"must be from 0 to less than {_ALL} per cent, not {percent:g}"
            yield FieldError(
                message, "write 10 for a tenth", (resource,), rule=Rule.THRESHOLD_RANGE
            )


def _repeated_labels(written: tuple[MinNodes, ...]) -> Iterator[FieldError]:
    for number, each in enumerate(written):
        if each.label in (other.label for other in written[:number]):
            message = f"{each.label} is listed twice"
            yield FieldError(
                message, "keep one of them", (number, "label"), rule=Rule.DUPLICATE_ITEM
            )
