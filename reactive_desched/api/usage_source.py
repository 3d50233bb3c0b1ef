"""The contract of a source of measured use: a query returns samples of nodes.

A package offers a source with one line of its pyproject.toml; policies name it as its entry point:

    [project.entry-points."reactive_desched.usage_sources"]
    NodeFile = "node_file:NodeFile"
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, ClassVar, Final, Generic, Protocol, TypeVar

from msgspec import Struct
from pydantic import Field, model_validator

from reactive_desched.api.args import (
    FieldError,
    Seconds,
    Section,
    field_error,
    longer_than_zero,
    raise_field_errors,
)
from reactive_desched.api.installed import Offers
from reactive_desched.api.rules import Rule
from reactive_desched.model.objects import Pod
from reactive_desched.model.usage import MetricsSourceKind, NodeUsage

__all__ = [
    "SmoothingSettings",
    "UsageHost",
    "UsagePlugin",
    "UsageSource",
    "UsageSourceSettings",
    "section_key",
    "source_names",
    "usage_offers",
]

GROUP: Final = "reactive_desched.usage_sources"


def usage_offers() -> Offers:
    """Return the sources that other packages offer."""
    return Offers(GROUP, "source of measured use")


def source_names() -> tuple[str, ...]:
    """Name the sources that a policy may name: the built-in ones, and those that are installed."""
    return (*MetricsSourceKind, *(name for name in usage_offers() if name.isalnum()))


def section_key(kind: str) -> str:
    """Return the key of a source below usage in the settings: NodeFile has nodeFile."""
    return kind[:1].lower() + kind[1:]


class UsageSource(Protocol):
    """One source, as policies name it: metrics-server, or one query to Prometheus."""

    @property
    def name(self) -> str:
        """The `NodeUsage.source` of its samples."""
        ...

    @property
    def measures_pods(self) -> bool:
        """Say whether its samples say what each pod of the node uses."""
        ...

    async def measure(self) -> Iterable[NodeUsage]:
        """Ask once and return a sample of each node that was measured.

        The samples may be made while they are iterated over. Raises UsageUnavailable.
        """
        ...


class SmoothingSettings(Section):
    """Settings that smooth a node's samples into the use that plugins read: a spike moves no pod.

    The steps follow each other in this order; what each keeps begins anew with a restart.
    """

    agree: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=3,
        description="So many of the last `of` samples must reach a value before it counts, and a "
        "node with fewer samples is unknown; 1: each sample counts by itself.",
    )
    of: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        default=None,
        description="The samples that `agree` is about; left out, so many that those which agree "
        "are the majority: 5 where 3 must agree.",
    )
    window: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=1, description="Of so many such values the percentile counts; 1: the last one."
    )
    percentile: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)] = Field(
        default=90.0, description="Which percentile of the window."
    )
    weight: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = Field(
        default=1.0, description="Of a new value in the moving average; 1: no average."
    )
    hysteresis: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] = Field(
        default=0.0,
        description="A node becomes over- or underutilized once it is so many per cent of it "
        "beyond the threshold, at most half way to 100 or 0, and stays so until it is back at the "
        "threshold. Where thresholds are distances from the mean, a smaller change does not "
        "count.",
    )

    @model_validator(mode="after")
    def _check_agree(self) -> "SmoothingSettings":
        if self.of is not None and self.agree > self.of:
            raise field_error(
                "agree is more than of",
                "raise of or lower agree",
                ("agree",),
                rule=Rule.CONTRADICTING_SETTINGS,
            )
        return self


class UsageSourceSettings(Section):
    """Settings of one source of measured use: how often it is queried, how long a sample counts."""

    interval_s: Annotated[Seconds, longer_than_zero("15s")] = Field(
        default=15.0, description="Ask this often; not 0."
    )
    timeout_s: Annotated[Seconds, longer_than_zero("15s")] = Field(
        default=10.0, description="Wait this long for an answer; not 0."
    )
    max_age_s: Seconds = Field(
        default=120.0,
        description="A node whose last sample is older is unknown, and neither gives nor takes "
        "pods.",
    )
    smoothing: SmoothingSettings = Field(
        default=SmoothingSettings.model_construct(), description="How samples are smoothed."
    )

    @model_validator(mode="after")
    def _check_times(self) -> "UsageSourceSettings":
        raise_field_errors(self._field_errors())
        return self

    def _field_errors(self) -> Iterator[FieldError]:
        if self.max_age_s <= self.interval_s:
            message = "maxAge is not longer than interval: every sample would be too old"
            yield FieldError(message, "raise maxAge", ("maxAge",), rule=Rule.CONTRADICTING_SETTINGS)


class UsageHost(Struct, frozen=True):
    """The objects that the controller gives a usage source.

    `name` is the name that policies give it. `wall` is the time of day in seconds; `pods_on`
    returns the pods of a node.
    """

    name: str
    wall: Callable[[], float]
    pods_on: Callable[[str], Iterable[Pod]]


S = TypeVar("S", bound=UsageSourceSettings)


class UsagePlugin(ABC, Generic[S]):
    """A source of measured use of an installed package: one class, which its entry point names.

    Its settings are a section below UsageSourceSettings, which has how often it is asked, how long
    that may take and how samples are smoothed. It measures cpu in milli-cores, memory in bytes and
    other resources in whole units. It only measures: what that means is a plugin's to judge.
    """

    settings: ClassVar[type[UsageSourceSettings]] = UsageSourceSettings
    """Its section below usage in the settings; every field has a default."""

    measures_pods: ClassVar[bool] = False
    """Whether its samples say what each pod of the node uses."""

    @classmethod
    def open(cls, settings: S, host: UsageHost) -> "UsagePlugin[S]":
        """Make the source; an exception is tried again at the next poll."""
        return cls(settings, host)

    def __init__(self, settings: S, host: UsageHost) -> None:
        self.config = settings
        self.host = host

    @abstractmethod
    async def measure(self) -> Iterable[NodeUsage]:
        """Ask once and return a sample of each node that was measured.

        A node without a sample keeps its last one until that is too old. Raise UsageUnavailable
        where nothing can be measured. The time-out of the settings cancels it; code that blocks
        holds the whole controller, so run that in a thread.
        """

    async def close(self) -> None:
        """Close what was opened."""
