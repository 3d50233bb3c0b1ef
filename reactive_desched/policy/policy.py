"""What a policy file comes to: everything decided, checked and in order."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel

from reactive_desched.model.labels import EVERYTHING, Selector
from reactive_desched.policy.document import MetricsProvider
from reactive_desched.policy.evictor import DefaultEvictorArgs


@dataclass(frozen=True, slots=True)
class Profile:
    """A set of plugins with their arguments; DefaultEvictor is in both filter lists.

    The lists are in order, each name once. `args` has the arguments of every plugin enabled at
    `deschedule` or `balance`, or at a filter point beside DefaultEvictor.
    """

    name: str
    deschedule: tuple[str, ...]
    balance: tuple[str, ...]
    filter: tuple[str, ...]
    pre_eviction_filter: tuple[str, ...]
    args: Mapping[str, BaseModel]
    evictor: DefaultEvictorArgs = field(default_factory=DefaultEvictorArgs)


@dataclass(frozen=True, slots=True)
class PolicyEvictionLimits:
    """The most evictions per cycle (or window); None means no limit, 0 means none at all."""

    per_node: int | None = None
    per_namespace: int | None = None
    total: int | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """A whole policy; `revision` identifies the text it was read from."""

    profiles: tuple[Profile, ...]
    revision: str
    source: str = ""
    node_selector: Selector = EVERYTHING
    limits: PolicyEvictionLimits = field(default_factory=PolicyEvictionLimits)
    grace_period_s: int | None = None
    eviction_failure_event_notification: bool = False
    metrics_collector_enabled: bool = False
    metrics_providers: tuple[MetricsProvider, ...] = ()
