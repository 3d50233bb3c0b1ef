"""The change that wakes findings which a brake of the whole cluster holds."""

from typing import Any, ClassVar, Self

from reactive_desched.model.changes import Change
from reactive_desched.model.wakes import ChangeTypes, WakeOn


class BrakeLifted(Change, frozen=True, gc=False):
    """A brake of the whole cluster was released."""

    brake: str


class WakeOnBrake(WakeOn, frozen=True, gc=False):
    """A brake of the whole cluster is released."""

    changes: ClassVar[ChangeTypes] = (BrakeLifted,)
    words = "the release of the {brake} brake"
    brake: str

    @classmethod
    def fulfilled_by(cls, change: Any) -> Self:  # a BrakeLifted
        """Return the wake of the released brake."""
        return cls(change.brake)
