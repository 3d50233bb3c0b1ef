"""A node's pods request so little that they could move together and leave it empty."""

from collections.abc import Iterator
from enum import StrEnum

from pydantic import Field, ValidationInfo, field_validator

from reactive_desched.api.args import (
    FieldError,
    Percentages,
    PluginArgs,
    SignedCount,
    fraction_warnings,
    percentage_errors,
    prefixed,
    raise_field_errors,
)
from reactive_desched.api.scope import ExcludedNamespaces
from reactive_desched.primitives.hints import quote


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
    def _validate_thresholds(cls, written: Percentages, info: ValidationInfo) -> Percentages:
        raise_field_errors(percentage_errors(written), info.context)
        return written

    @field_validator("eviction_modes")
    @classmethod
    def _validate_eviction_modes(
        cls, written: tuple[str, ...], info: ValidationInfo
    ) -> tuple[str, ...]:
        raise_field_errors(_unknown_modes(written), info.context)
        return written

    def warnings(self) -> Iterator[FieldError]:
        """Say what is accepted and probably means something else."""
        return prefixed("thresholds", fraction_warnings(self.thresholds))


def _unknown_modes(modes: tuple[str, ...]) -> Iterator[FieldError]:
    """Refuse what is no eviction mode."""
    for index, mode in enumerate(modes):
        if mode not in tuple(EvictionMode):
            hint = f"the only one is {EvictionMode.ONLY_THRESHOLDING_RESOURCES}"
            yield FieldError(f"invalid eviction mode {quote(mode)}", hint, (index,))
