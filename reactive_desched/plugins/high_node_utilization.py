"""A node's pods request so little that they could move together and leave it empty."""

from collections.abc import Iterator
from enum import StrEnum

from pydantic import Field, ValidationInfo, field_validator

from reactive_desched.api.plugin import PluginArgs
from reactive_desched.api.scope import ExcludedNamespaces
from reactive_desched.policy.diagnostics import Complaint, quoted, refuse_if_any, under
from reactive_desched.policy.fields import SignedCount
from reactive_desched.policy.percentages import Percentages, below_one, out_of_range


class EvictionMode(StrEnum):
    """A narrower choice of the pods that may leave."""

    ONLY_THRESHOLDING_RESOURCES = "OnlyThresholdingResources"


class HighNodeUtilizationArgs(PluginArgs):
    """When a node counts as hardly used, and which of its pods may leave."""

    evictable_namespaces: ExcludedNamespaces = Field(
        default=ExcludedNamespaces(), description="Namespaces whose pods stay where they are."
    )
    thresholds: Percentages = Field(
        default={},
        validate_default=True,
        description="Required. A node that uses at most this much of every resource listed, in per "
        "cent, is emptied.",
    )
    eviction_modes: tuple[str, ...] = Field(
        default=(),
        description="OnlyThresholdingResources: only pods that request a resource listed under "
        "thresholds may leave.",
        json_schema_extra={"items": {"type": "string", "enum": list(EvictionMode)}},
    )
    number_of_nodes: SignedCount = Field(
        default=0, description="Act only when more nodes than this are hardly used."
    )

    @field_validator("thresholds")
    @classmethod
    def _in_range(cls, written: Percentages, info: ValidationInfo) -> Percentages:
        refuse_if_any(out_of_range(written), info.context)
        return written

    @field_validator("eviction_modes")
    @classmethod
    def _known(cls, written: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        refuse_if_any(_unknown(written), info.context)
        return written

    def notes(self) -> Iterator[Complaint]:
        """Say what is accepted and probably means something else."""
        return under("thresholds", below_one(self.thresholds))


def _unknown(modes: tuple[str, ...]) -> Iterator[Complaint]:
    """Refuse what is no eviction mode."""
    for index, mode in enumerate(modes):
        if mode not in tuple(EvictionMode):
            hint = f"the only one is {EvictionMode.ONLY_THRESHOLDING_RESOURCES}"
            yield Complaint(f"invalid eviction mode {quoted(mode)}", hint, (index,))
