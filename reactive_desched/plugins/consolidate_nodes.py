"""The pods of a node fit on others, so that it can be emptied and removed."""

from collections.abc import Iterator, Mapping
from math import inf
from typing import Final

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
from reactive_desched.api.plugin import View
from reactive_desched.api.possible_names import PercentByResource
from reactive_desched.api.rules import Rule
from reactive_desched.api.scope import ScopedArgs
from reactive_desched.draining.emptiable_nodes import EmptiableNodes, EmptyingRules
from reactive_desched.draining.node_emptying import NodeEmptyingPlugin
from reactive_desched.model.labels import label_key_error
from reactive_desched.model.objects import ZONE_LABEL, Node
from reactive_desched.text.counts import format_count

_ALL: Final = 100
INSTANCE_TYPE_LABEL: Final = "node.kubernetes.io/instance-type"
DEFAULT_HEADROOM: Final = {"cpu": 10.0, "memory": 10.0}


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
        description="A label of nodes whose value is what the node costs, a number in any unit. A "
        "node of which that is not known costs as much as the others do on average. Without it, "
        "and without `prices`, all cost the same.",
    )
    prices: Mapping[str, float] = Field(
        default={},
        description="What a node costs by the value of its `priceLabel`, such as `m5.large: 0.096`,"
        f" and of `{INSTANCE_TYPE_LABEL}` without that.",
    )

    @field_validator("price_label")
    @classmethod
    def _validate_price_label(cls, written: str) -> str:
        if written and (wrong := label_key_error(written)) is not None:
            hint = "write the key of the label alone, such as example.com/price"
            raise field_error(wrong, hint, rule=Rule.LABEL_SELECTOR)
        return written

    @field_validator("prices")
    @classmethod
    def _validate_prices(cls, written: Mapping[str, float]) -> Mapping[str, float]:
        raise_field_errors(_wrong_prices(written))
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
        yield NodeBand(empties_any=True, packs=True, nodes=self.node_selector)

    def price_of(self, node: Node) -> float | None:
        """Return what a node costs by its label, None where that says nothing."""
        if self.prices:
            return self.prices.get(node.labels.get(self.price_label or INSTANCE_TYPE_LABEL, ""))
        try:
            price = float(node.labels.get(self.price_label, ""))
        except ValueError:
            return None
        return price if 0 < price < inf else None

    def selects(self, node: Node) -> bool:
        """Say whether a node is one of those that may be emptied."""
        return self.node_selector is None or self.node_selector.matches(node.labels)

    @property
    def rules(self) -> EmptyingRules:
        """The arguments as the plan asks for them."""
        return EmptyingRules(
            self.covers,
            self.price_of,
            self.selects,
            self.headroom,
            {each.label: each.nodes for each in self.min_nodes},
            self.min_saving,
        )


class ConsolidateNodesPlugin(NodeEmptyingPlugin[ConsolidateNodesArgs]):
    """Pods of nodes that can be emptied, because each of their pods fits on another node.

    A node is emptied as a whole or not at all: no pod leaves before all gates let all of its pods
    go. Nodes are emptied one after the other, those first whose pods cost least to move; it needs
    no thresholds, and works where all nodes are used little. Where a pod fits is asked by all of
    the kube-scheduler's filters, beside the moves that are planned before it. While pods leave a
    node, it has the taint `reactive-desched/consolidating` with the effect PreferNoSchedule, which
    stays while the node is empty, so that no pod comes back that fits elsewhere; nodes that are
    emptied next have it, too. A node that took a
    pod of an emptied one is not emptied itself for 90 s, one that a pod left not for
    `guards.standingTimes.nodeUse`. The pods of DaemonSets and static pods
    stay. A sweep writes no taint, so it finds nothing.
    """

    name = "ConsolidateNodes"

    def rules(self, view: View) -> EmptyingRules:
        """Return the arguments as a plan asks for them."""
        del view
        return self.args.rules

    def message(self, node: str, pods: int) -> str:
        """Say why the pods of a node leave."""
        moves = format_count(pods, "pod")
        return f"node {node} can be emptied: {moves} to move, with places elsewhere"

    def why_not(self, node: str, pods: int, nodes: EmptiableNodes) -> str:
        """Say why a node stays that may be emptied, and whose pods are so many."""
        del pods, nodes
        return (
            f"the pods of {node} have no places beside the others that move, or headroom or "
            "minNodes keep it"
        )


def _wrong_prices(written: Mapping[str, float]) -> Iterator[FieldError]:
    """Yield an error for each price that is none."""
    for value, price in written.items():
        if price <= 0:
            message = f"must be a number above 0, not {price:g}"
            hint = "leave out a price that is not known: the average of the others counts then"
            yield FieldError(message, hint, (value,), rule=Rule.OUT_OF_BOUNDS)


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
