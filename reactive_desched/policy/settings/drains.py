"""The section `drains` of the settings: nodes that the controller begins to drain by itself."""

from typing import Annotated

from pydantic import Field, model_validator

from reactive_desched.api.args import Seconds, Section, SelectorText, field_error, longer_than_zero
from reactive_desched.api.named_condition import NamedConditions
from reactive_desched.api.rules import Rule
from reactive_desched.model.objects import Node
from reactive_desched.policy.settings.limits import PositiveCount
from reactive_desched.text.ages import format_age

MAX_RULES = 50


class DrainRule(Section):
    """Nodes that are cordoned and drained one after the other, the oldest first."""

    name: Annotated[str, Field(min_length=1, max_length=63)] = Field(
        default=..., description="What the annotation of the node says of the reason."
    )
    node_selector: SelectorText | None = Field(
        default=None, description="Nodes with these labels, such as `pool=old`."
    )
    max_node_age_s: Annotated[Seconds, longer_than_zero("720h")] | None = Field(
        default=None,
        description="Nodes that were created so long ago.",
    )
    conditions: NamedConditions = Field(
        default=(),
        description="Nodes that have one of these conditions for the time it names. Of "
        "`nodeSelector`, `maxNodeAge` and `conditions` all that are written must hold.",
    )
    max_nodes: PositiveCount = Field(
        default=1,
        description="So many of these nodes are drained or empty at the same time; the next one "
        "begins when one of them is deleted, or uncordoned and without the annotation.",
    )

    @model_validator(mode="after")
    def _check_some_node(self) -> "DrainRule":
        if self.node_selector is None and self.max_node_age_s is None and not self.conditions:
            raise field_error(
                "nothing says which nodes are meant",
                "write nodeSelector, maxNodeAge or conditions",
                rule=Rule.NO_CRITERION,
            )
        return self

    def concerns(self, node: Node, now_s: float) -> bool:
        """Say whether its labels and age are meant, at this time in seconds since the epoch."""
        if self.node_selector is not None and not self.node_selector.matches(node.labels):
            return False
        if self.max_node_age_s is None:
            return True
        return node.created_s is not None and now_s - node.created_s >= self.max_node_age_s

    @property
    def owner(self) -> str:
        """The begin of the annotation of a node that is drained by this rule."""
        return f"rule {self.name}: "

    @property
    def wish(self) -> str:
        """The value of the annotation of a node that is drained by this rule."""
        parts = []
        if self.max_node_age_s is not None:
            parts.append(f"older than {format_age(self.max_node_age_s)}")
        if self.node_selector is not None:
            parts.append(f"with {self.node_selector}")
        if self.conditions:
            parts.append(f"with {' or '.join(map(str, self.conditions))}")
        return f"{self.owner}{' and '.join(parts)}"
