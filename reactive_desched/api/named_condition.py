"""Conditions of nodes as policies and settings name them, other than Ready."""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from reactive_desched.api.args import Seconds, Section, field_error
from reactive_desched.api.rules import Rule
from reactive_desched.model.node_conditions import MAX_CONDITIONS, READY, Condition


class NamedCondition(Section):
    """A condition of a node by its type and status, and after which time it counts."""

    type: Annotated[str, Field(min_length=1, max_length=316)] = Field(
        description="The type of the condition, such as `KernelDeadlock`."
    )
    status: Literal["True", "False", "Unknown"] = Field(
        default="True", description="The status that is wrong."
    )
    for_s: Seconds = Field(
        default=300.0, description="So long the condition must stand until it is a reason."
    )
    lapse_s: Seconds = Field(
        default=60.0,
        description="A time with another status that is no longer than this does not begin anew.",
    )

    @field_validator("type")
    @classmethod
    def _validate_type(cls, kind: str) -> str:
        if kind == READY:
            message = (
                "pods of nodes that are not Ready are never judged: Kubernetes evicts them itself"
            )
            raise field_error(message, "name another condition", rule=Rule.OUT_OF_BOUNDS)
        return kind

    @property
    def condition(self) -> Condition:
        """Its type and status."""
        return self.type, self.status

    def __str__(self) -> str:
        return f"{self.type}={self.status}"


NamedConditions = Annotated[tuple[NamedCondition, ...], Field(max_length=MAX_CONDITIONS)]
