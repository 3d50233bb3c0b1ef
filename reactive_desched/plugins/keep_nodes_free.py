"""A pool has fewer whole free nodes than are wanted, and others can be emptied."""

from collections.abc import Iterable, Iterator
from typing import Self

from pydantic import Field, field_validator, model_validator

from reactive_desched.api.args import (
    NodeBand,
    PositiveCount,
    SelectorObject,
    field_error,
)
from reactive_desched.api.index import Cluster
from reactive_desched.api.plugin import View
from reactive_desched.api.possible_names import ResourceName
from reactive_desched.api.rules import Rule
from reactive_desched.api.scope import ScopedArgs
from reactive_desched.draining.emptiable_nodes import (
    EmptiableNodes,
    EmptyingRules,
    node_takes_pods,
)
from reactive_desched.draining.node_emptying import NodeEmptyingPlugin
from reactive_desched.model.consolidation import EMPTY, consolidation_of
from reactive_desched.model.objects import Node
from reactive_desched.model.resources import is_scalar
from reactive_desched.model.subjects import NodeSubject
from reactive_desched.state.indexes.devices import Devices
from reactive_desched.state.indexes.empty_nodes import EmptyNodes
from reactive_desched.text.counts import format_count


class KeepNodesFreeArgs(ScopedArgs):
    """Arguments: which nodes are the pool, how many stay free, and how much may move for one."""

    node_selector: SelectorObject | None = Field(
        default=None, description="The nodes of the pool; all when left out. Others take pods."
    )
    nodes: PositiveCount | None = Field(
        default=None,
        description="So many nodes of the pool are kept free; 1 where neither this nor `amount` is "
        "there.",
    )
    resource: ResourceName = Field(
        default="",
        description="With `amount`: a resource of nodes, such as nvidia.com/gpu. Nodes that have "
        "nothing of it are no part of the pool.",
    )
    driver: str = Field(
        default="",
        max_length=63,
        description="Instead of `resource`: a driver whose devices the ResourceSlices of nodes "
        "have, such as gpu.nvidia.com. It takes `guards.resourceClaims: fit`.",
    )
    amount: PositiveCount | None = Field(
        default=None,
        description="Instead of `nodes`: nodes with so much of `resource`, or so many devices of "
        "`driver`, together are kept free.",
    )
    max_moves: PositiveCount = Field(
        default=10, description="So many pods at most move to free one node."
    )

    @field_validator("resource")
    @classmethod
    def _validate_resource(cls, written: str) -> str:
        if not written or is_scalar(written):
            return written
        message = f"must be an extended resource, as devices are, not {written}"
        hint = "write its name as in a node's status.allocatable, such as nvidia.com/gpu"
        raise field_error(message, hint, rule=Rule.IMPOSSIBLE_NAME)

    @model_validator(mode="after")
    def _validate_one_size(self) -> Self:
        if self.resource and self.driver:
            message = "resource and driver both say what is counted"
            raise field_error(message, "keep one of them", rule=Rule.EXCLUSIVE_FIELDS)
        if (self.amount is None) == bool(self.resource or self.driver):
            message = "resource and amount belong together, or driver and amount"
            hint = "write both, such as resource: nvidia.com/gpu and amount: 16, or nodes alone"
            raise field_error(message, hint, rule=Rule.MISSING_FIELD)
        if self.amount is not None and self.nodes is not None:
            message = "nodes and amount both say how much is kept free"
            raise field_error(message, "keep one of them", rule=Rule.EXCLUSIVE_FIELDS)
        return self

    def node_bands(self) -> Iterator[NodeBand]:
        """Yield the nodes that may be emptied."""
        yield NodeBand(empties_any=True, nodes=self.node_selector)

    @property
    def wanted(self) -> int:
        """The amount that is kept free, in units of `worth`."""
        return self.amount or self.nodes or 1


class KeepNodesFreePlugin(NodeEmptyingPlugin[KeepNodesFreeArgs]):
    """Pods of nodes that are emptied so that a pool has whole free nodes, for large pods and gangs.

    A node is free if no pod is there but those of DaemonSets and static pods. Where fewer are free
    than are wanted, nodes are emptied until enough are: those whose pods cost least to move, one
    node after the other, each as a whole or not at all, as ConsolidateNodes does. Free nodes have
    the taint `reactive-desched/consolidating` with the effect PreferNoSchedule as long as they are
    free, so that pods go there that fit on no other node. What passes within
    `guards.standingTimes.nodeUse` has no node emptied. A sweep writes no taint, so it finds
    nothing.
    """

    name = "KeepNodesFree"
    indexes = (*NodeEmptyingPlugin.indexes, EmptyNodes, Devices)

    def rules(self, view: View) -> EmptyingRules:
        """Return the arguments as a plan asks for them."""
        devices = view.index(Devices)
        return EmptyingRules(
            self.args.covers,
            lambda node: self._worth(node, devices) or 1,
            lambda node: self._selects(node, devices),
            headroom={},
            min_nodes={},
            min_saving=0.0,
            removes=False,
        )

    def enough(self, nodes: EmptiableNodes, view: View) -> float:
        """Return the saving that is lacking; at most 0 where enough is free."""
        free, devices = 0, view.index(Devices)
        for name in view.index(EmptyNodes).names:
            found = view.pods_of(NodeSubject(name))
            if found is not None and self._takes_part(found[0], devices):
                free += self._worth(found[0], devices)
        lacking = self.args.wanted - free
        for node, wait_s in () if nodes.begun else nodes.taken_lately:
            if lacking > 0:
                lacking -= self._worth(node, devices)
                nodes.look_again(wait_s)
        return nodes.saving(lacking)

    def is_too_large(self, pods: int) -> bool:
        """Say whether more pods would have to leave a node than the arguments allow."""
        return pods > self.args.max_moves

    def nodes_to_close(self, cluster: Cluster) -> Iterable[Node]:
        """Return free nodes without the taint, of as many as are wanted."""
        kept, _ = self._kept_and_others(cluster)
        return [node for node in kept if consolidation_of(node) is None]

    def nodes_to_open(self, cluster: Cluster) -> Iterable[Node]:
        """Return the nodes with the taint beyond those that are wanted, or of another pool."""
        _, others = self._kept_and_others(cluster)
        return [node for node in others if consolidation_of(node) == EMPTY]

    def message(self, node: str, pods: int) -> str:
        """Say why the pods of a node leave."""
        moves = format_count(pods, "pod")
        return (
            f"{self._wanted} are to be free, and {node} can be emptied: {moves} to move, with "
            "places elsewhere"
        )

    def why_not(self, node: str, pods: int, nodes: EmptiableNodes) -> str:
        """Say why a node stays that may be emptied, and whose pods are so many."""
        del nodes
        if self.is_too_large(pods):
            leave = f"{format_count(pods, 'pod')} would have to leave {node}"
            return f"{leave}, and maxMoves is {self.args.max_moves}"
        return f"{self._wanted} are free, or those of other nodes cost less to move"

    @property
    def _wanted(self) -> str:
        if self.args.resource:
            return f"{self.args.wanted} {self.args.resource}"
        if self.args.driver:
            return f"{format_count(self.args.wanted, 'device')} of {self.args.driver}"
        return format_count(self.args.wanted, "node")

    def _kept_and_others(self, cluster: Cluster) -> tuple[list[Node], list[Node]]:
        """Return the free nodes, of as many as are wanted, and the others: tainted ones first."""
        infos = map(cluster.node_info, cluster.index(EmptyNodes).names)
        nodes = [info.node for info in infos if info is not None and info.node is not None]
        takers = [node for node in nodes if node_takes_pods(node)]
        takers.sort(key=lambda node: (consolidation_of(node) is None, node.name))
        kept: list[Node] = []
        others: list[Node] = []
        worth, devices = 0, cluster.index(Devices)
        for node in takers:
            is_kept = worth < self.args.wanted and self._selects(node, devices)
            worth += self._worth(node, devices) if is_kept else 0
            (kept if is_kept else others).append(node)
        return kept, others

    def _worth(self, node: Node, devices: Devices) -> int:
        """Return for how much a free node counts: for one, or for what it has of the devices."""
        if self.args.resource:
            return node.allocatable.get(self.args.resource, 0)
        if self.args.driver:
            return devices.count_on(node.name, self.args.driver)
        return 1

    def _selects(self, node: Node, devices: Devices) -> bool:
        """Say whether a node is one of the pool."""
        selector = self.args.node_selector
        if selector is not None and not selector.matches(node.labels):
            return False
        return self._worth(node, devices) > 0

    def _takes_part(self, node: Node, devices: Devices) -> bool:
        return node_takes_pods(node) and self._selects(node, devices)
