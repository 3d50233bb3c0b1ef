"""The pods of a topology spread constraint are spread less evenly than it allows."""

from collections.abc import Iterator
from enum import StrEnum

from pydantic import Field, ValidationInfo, field_validator

from reactive_desched.api.scope import ScopedArgs
from reactive_desched.policy.diagnostics import Complaint, refuse_if_any
from reactive_desched.policy.hints import nearest


class Constraint(StrEnum):
    """What a constraint of a pod asks of the scheduler when it cannot be met."""

    DO_NOT_SCHEDULE = "DoNotSchedule"
    SCHEDULE_ANYWAY = "ScheduleAnyway"


class TopologySpreadArgs(ScopedArgs):
    """Which constraints to restore, and how carefully."""

    constraints: tuple[str, ...] = Field(
        default=(Constraint.DO_NOT_SCHEDULE,),
        description="Which constraints to restore: DoNotSchedule and/or ScheduleAnyway; an empty "
        "list means the default.",
        json_schema_extra={"items": {"type": "string", "enum": list(Constraint)}},
    )
    topology_balance_node_fit: bool = Field(
        default=True, description="Evict only pods that fit on a node of a smaller domain."
    )

    @field_validator("constraints")
    @classmethod
    def _known(cls, written: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        refuse_if_any(_unknown(written), info.context)
        return written or (Constraint.DO_NOT_SCHEDULE,)


def _unknown(written: tuple[str, ...]) -> Iterator[Complaint]:
    """Refuse what is no kind of constraint."""
    kinds = tuple(Constraint)
    for index, name in enumerate(written):
        if name not in kinds:
            meant = nearest(name, kinds)
            hint = f"did you mean {meant}?" if meant else ""
            message = f"constraint {name} is not one of {', '.join(kinds)}"
            yield Complaint(message, hint, (index,))
