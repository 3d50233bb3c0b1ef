"""The pods of a topology spread constraint are spread less evenly than it allows."""

from collections.abc import Iterator
from enum import StrEnum

from pydantic import Field, ValidationInfo, field_validator

from reactive_desched.api.args import FieldError, raise_field_errors
from reactive_desched.api.scope import ScopedArgs
from reactive_desched.primitives.hints import nearest_name


class UnsatisfiableConstraintAction(StrEnum):
    """What a constraint of a pod asks of the scheduler when it cannot be met."""

    DO_NOT_SCHEDULE = "DoNotSchedule"
    SCHEDULE_ANYWAY = "ScheduleAnyway"


class TopologySpreadArgs(ScopedArgs):
    """Which constraints to restore, and how carefully."""

    constraints: tuple[str, ...] = Field(
        default=(UnsatisfiableConstraintAction.DO_NOT_SCHEDULE,),
        description="Which constraints to restore: DoNotSchedule and/or ScheduleAnyway; an empty "
        "list means the default.",
        json_schema_extra={
            "items": {"type": "string", "enum": list(UnsatisfiableConstraintAction)}
        },
    )
    topology_balance_node_fit: bool = Field(
        default=True, description="Evict only pods that fit on a node of a smaller domain."
    )

    @field_validator("constraints")
    @classmethod
    def _validate_constraints(
        cls, written: tuple[str, ...], info: ValidationInfo
    ) -> tuple[str, ...]:
        raise_field_errors(_unknown_constraints(written), info.context)
        return written or (UnsatisfiableConstraintAction.DO_NOT_SCHEDULE,)


def _unknown_constraints(written: tuple[str, ...]) -> Iterator[FieldError]:
    """Refuse what is no kind of constraint."""
    kinds = tuple(UnsatisfiableConstraintAction)
    for index, name in enumerate(written):
        if name not in kinds:
            meant = nearest_name(name, kinds)
            hint = f"did you mean {meant}?" if meant else ""
            message = f"constraint {name} is not one of {', '.join(kinds)}"
            yield FieldError(message, hint, (index,))
