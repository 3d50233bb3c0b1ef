"""The section `budgets` of the settings: how many pods may be evicted, and when.

The defaults are for policies that set no limit, as most do, and that were written for a descheduler
that acts every five minutes; docs/explain/safety.md explains each number.
"""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from math import ceil, inf
from typing import Annotated, Final, Self

from msgspec import structs
from pydantic import (
    AfterValidator,
    Field,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from reactive_desched.api.args import (
    FieldError,
    FieldErrors,
    Seconds,
    Section,
    exclusive_errors,
    field_error,
    file_key,
    longer_than_zero,
    raise_field_errors,
)
from reactive_desched.api.rules import Rule
from reactive_desched.policy.policy import WINDOW_S, PolicyEvictionLimits
from reactive_desched.policy.settings.concerns import Concerns
from reactive_desched.policy.settings.unique_names import duplicate_names
from reactive_desched.policy.settings.webhook_url import calendar_url_error
from reactive_desched.primitives.token_bucket import TokenRate
from reactive_desched.text.ages import format_age

PositiveCount = Annotated[int, Field(ge=1, le=1_000_000)]

_POLICY_FIELDS: Final = {
    "cluster": "maxNoOfPodsToEvictTotal",
    "node": "maxNoOfPodsToEvictPerNode",
    "namespace": "maxNoOfPodsToEvictPerNamespace",
}
"""The fields of a policy that limit evictions, by scope."""

_PERCENT: Final = re.compile(r"(100|[0-9]{1,2})(\.[0-9]+)?%")

_GROWING_SCOPES: Final = frozenset({"cluster", "zone", "namespace", "plugin", "ended"})
"""The scopes that hold more pods in a larger cluster; a node and an owner do not."""


def _read_evictions(written: object) -> int | str:
    """Read a number of evictions, or a share of the pods on nodes in per cent."""
    if isinstance(written, str) and _PERCENT.fullmatch(written):
        return written
    if type(written) is not int:
        raise field_error(
            "must be a number or a text in per cent", "write 0 or 1%", rule=Rule.NOT_A_LIMIT
        )
    if written < 0:
        raise field_error(
            f"must be at least 0, not {written}", "write 0 for none", rule=Rule.NOT_A_LIMIT
        )
    return written


Evictions = Annotated[
    int | str,
    PlainValidator(_read_evictions),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {"type": "string", "pattern": f"^{_PERCENT.pattern}$"},
            ]
        }
    ),
]
"""A number of evictions, or a text in per cent of the pods on nodes."""


def _check_window(text: str) -> str:
    from reactive_desched.policy.wall_windows import WindowError, parse_window

    try:
        parse_window(text)
    except WindowError as error:
        raise field_error(str(error), error.hint, rule=Rule.SCHEDULE) from error
    return text


Windows = tuple[Annotated[str, AfterValidator(_check_window)], ...]
"""Windows of time in words."""

_MIN_REFRESH_S: Final = 10.0
_LONGEST_EVENT_S: Final = 31 * 86_400.0
"""Evictions of so long ago are read back for the events of a calendar."""

_PerTime = Annotated[PositiveCount, Field(description="Evictions per `per`.")]
_AtOnce = Annotated[
    PositiveCount, Field(description="The most evictions at once after a quiet time.")
]


class RateLimitSettings(Section):
    """A rate: so many evictions per time, and so many at once after a quiet time."""

    evictions: _PerTime
    per_s: Annotated[Seconds, longer_than_zero("1m")] = Field(
        default=60.0, description="The time `evictions` counts for."
    )
    burst: _AtOnce

    @property
    def rate(self) -> TokenRate:
        """The rate of a token bucket, one token for each eviction."""
        return TokenRate(self.evictions / self.per_s, self.burst)


class ClusterRateLimit(RateLimitSettings):
    """The rate of evictions in the whole cluster."""

    evictions: _PerTime = 30
    burst: _AtOnce = 10


class ZoneRateLimit(RateLimitSettings):
    """The rate of evictions in any one zone."""

    evictions: _PerTime = 20
    burst: _AtOnce = 7


class NodeRateLimit(RateLimitSettings):
    """The rate of evictions from any one node."""

    evictions: _PerTime = 6
    burst: _AtOnce = 3


class NamespaceRateLimit(RateLimitSettings):
    """The rate of evictions from any one namespace."""

    evictions: _PerTime = 12
    burst: _AtOnce = 5


class OwnerRateLimit(RateLimitSettings):
    """The rate of evictions of pods of any one topmost controller, such as a Deployment."""

    evictions: _PerTime = 6
    burst: _AtOnce = 2


class PluginRateLimit(RateLimitSettings):
    """The rate of evictions of any one plugin."""

    evictions: _PerTime = 20
    burst: _AtOnce = 7


class EndedRateLimit(RateLimitSettings):
    """The rate of evictions of pods that have ended, in the whole cluster."""

    evictions: _PerTime = 120
    burst: _AtOnce = 20


class WarmUpSettings(Section):
    """The growth of rates after a start, a changed policy, and a brake's release."""

    duration_s: Seconds = Field(default=300.0, description="After so long they are full.")
    from_percent: Annotated[float, Field(ge=1, le=100, allow_inf_nan=False)] = Field(
        default=20.0, description="The share of the rates and bursts to begin with, in per cent."
    )

    def ratio(self, elapsed_s: float) -> float:
        """Return the share of the rates that counts so long after the beginning: up to 1."""
        if elapsed_s >= self.duration_s:
            return 1.0
        initial = self.from_percent / 100
        return initial + (1 - initial) * max(0.0, elapsed_s) / self.duration_s


class WhileUnread(StrEnum):
    """The answer of a calendar that was never read by this process."""

    HOLD = "hold"
    OPEN = "open"


def _check_refresh(seconds: float) -> float:
    if seconds < _MIN_REFRESH_S:
        hint = "write for example 15m"
        raise field_error("must be 10s or longer", hint, rule=Rule.OUT_OF_BOUNDS)
    return seconds


class CalendarSettings(Section):
    """An iCalendar file or address; it is read again and again."""

    file: str = Field(default="", description="The file; this or `url`.")
    url: str = Field(
        default="", description="The address; https unless it is on loopback. This or `file`."
    )
    ca_file: str = Field(
        default="", description="PEM file of authorities to trust; default: the system's."
    )
    token_file: str = Field(
        default="", description="File with a bearer token for the Authorization header."
    )
    refresh_s: Annotated[Seconds, AfterValidator(_check_refresh)] = Field(
        default=900.0, description="How often it is read; at least 10s."
    )
    timeout_s: Annotated[Seconds, longer_than_zero("10s")] = Field(
        default=10.0, description="For one request; not 0."
    )
    while_unread: WhileUnread = Field(
        default=WhileUnread.HOLD,
        description="Until this process has read it once: hold allows no evictions, open any. "
        "After that what was read last counts.",
    )

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        raise_field_errors(exclusive_errors("file and url", self.file, self.url))
        if not (self.file or self.url):
            hint = "write `file: /etc/freezes.ics` or `url: https://…`"
            raise field_error("names no calendar", hint, rule=Rule.MISSING_FIELD)
        if self.url and (wrong := calendar_url_error(self.url)) is not None:
            raise FieldErrors([structs.replace(wrong, path=("url",))])
        return self


class EvictionSchedule(Concerns):
    """Windows of time in which fewer pods may be evicted, or none; or the only ones in which any.

    Its windows come by one of `schedule`, `allow`, `close` and `calendar`.
    """

    name: str = Field(default="", description="What messages call it; else its own words do.")
    allow: Windows = Field(
        default=(),
        description="Evictions only while one of these windows is open, or one of another entry "
        "with `allow`: `tue-thu 10:00-16:00`, `2026-12-24`, `2026-12-20 to 2027-01-06`; the last "
        "day is included.",
    )
    close: Windows = Field(
        default=(), description="No evictions while one of these windows is open; as `allow`."
    )
    calendar: CalendarSettings | None = Field(
        default=None,
        description="No evictions while an event of this calendar takes place; with `name`.",
    )
    schedule: str = Field(
        default="",
        description="When a window opens, as cron writes it: minute, hour, day of month, month "
        "and day of week; with `duration` and `evictions`.",
    )
    duration_s: Annotated[Seconds, longer_than_zero("8h")] = Field(
        default=0.0, description="How long the window of `schedule` stays open; not 0."
    )
    time_zone: str = Field(
        default="UTC", description="The time zone of all times, by its IANA name."
    )
    evictions: Evictions | None = Field(
        default=None,
        description="So many evictions from the opening of a window on; 0 is none. A text such as "
        "`1%` is a share of the pods on nodes, rounded up. Left out: with `allow` any "
        "number, with `close` and `calendar` none.",
    )

    def __str__(self) -> str:
        return self.name or " ".join([*self._times(), *self.describe_concerns()])

    def _times(self) -> Iterator[str]:
        if self.schedule:
            yield f"{self.schedule} {self.time_zone} for {format_age(self.duration_s)}"
        else:
            word = "allow" if self.allow else "close"
            yield f"{word} {', '.join(self.windows)} {self.time_zone}"

    @property
    def windows(self) -> tuple[str, ...]:
        """The windows that are written in words, of either kind."""
        return self.allow or self.close

    @property
    def allowance(self) -> str:
        """Return how many evictions the window allows, for a person."""
        if self.evictions is None:
            return "evictions then only" if self.allow else "no evictions"
        then = " then, and none else" if self.allow else ""
        return f"{self.evictions or 'no'} evictions{then}"

    @property
    def counts_for_s(self) -> float:
        """The longest time for which an eviction counts in a window, in seconds."""
        if self.evictions is None or self.is_none:
            return 0.0
        if self.schedule:
            return self.duration_s
        if self.calendar is not None:
            return _LONGEST_EVENT_S
        from reactive_desched.policy.wall_windows import longest_opening_s, parse_window

        return longest_opening_s(map(parse_window, self.windows))

    @property
    def is_none(self) -> bool:
        """Say whether it allows no evictions while a window is open."""
        return self.limit(1) == 0

    def limit(self, pods: int) -> float:
        """Return how many evictions a window allows with so many pods on nodes; inf for any."""
        if self.evictions is None:
            return inf if self.allow else 0
        if isinstance(self.evictions, int):
            return self.evictions
        return ceil(pods * float(self.evictions.removesuffix("%")) / 100)

    @field_validator("schedule", "time_zone")
    @classmethod
    def _check_cron(cls, text: str, info: ValidationInfo) -> str:
        from reactive_desched.primitives.cron import CronError, check_cron, parse_time_zone

        try:
            (check_cron if info.field_name == "schedule" else parse_time_zone)(text)
        except CronError as error:
            raise field_error(str(error), error.hint, rule=Rule.SCHEDULE) from error
        return text

    @model_validator(mode="after")
    def _check_windows(self) -> Self:
        given = [word for word in ("allow", "close", "calendar", "schedule") if getattr(self, word)]
        if not given:
            hint = (
                "write `allow: [tue-thu 10:00-16:00]`, or `close:`, or `schedule:` as cron has it"
            )
            raise field_error("has no times", hint, rule=Rule.MISSING_FIELD)
        raise_field_errors(exclusive_errors("allow, close, calendar and schedule", *given))
        if self.calendar is not None and not self.name:
            hint = "write a name: messages say it, as an address may be a secret"
            raise field_error("is required with calendar", hint, ("name",), rule=Rule.MISSING_FIELD)
        if self.schedule:
            raise_field_errors(self._cron_errors())
        elif "duration_s" in self.model_fields_set:
            hint = "leave it out: the windows say when they end"
            raise field_error(
                "counts with schedule only", hint, ("duration",), rule=Rule.EXCLUSIVE_FIELDS
            )
        return self

    def _cron_errors(self) -> Iterator[FieldError]:
        for name, example in (("duration_s", "8h"), ("evictions", "0 for none")):
            if name not in self.model_fields_set or getattr(self, name) is None:
                hint, path = f"write {example}", (file_key(name),)
                yield FieldError("is required with schedule", hint, path, rule=Rule.MISSING_FIELD)


class EachOf(StrEnum):
    """The places for each of which a named budget has a bucket."""

    NAMESPACE = "namespace"
    NODE = "node"


class NamedBudget(Concerns):
    """A rate of evictions beside those of the scopes, for the evictions that it concerns."""

    name: Annotated[str, Field(min_length=1)] = Field(
        description="What messages and metrics call it; each name once."
    )
    each: EachOf | None = Field(
        default=None,
        description="One rate for each namespace, or each node, that it concerns; left out: one "
        "for all together.",
    )
    evictions: _PerTime
    per_s: Annotated[Seconds, longer_than_zero("1m")] = Field(
        default=60.0, description="The time `evictions` counts for."
    )
    burst: Annotated[
        PositiveCount, Field(description="The most evictions at once after a quiet time.")
    ] = 1

    @property
    def rate(self) -> TokenRate:
        """The rate of a token bucket, one token for each eviction."""
        return TokenRate(self.evictions / self.per_s, self.burst)

    @property
    def concerned_by(self) -> "NamedBudget":
        """The budget without its rate: what is counted in one counts in another that equals it."""
        return self.model_copy(update={"evictions": 1, "per_s": 1.0, "burst": 1})

    def describe(self) -> str:
        """Say it to a person."""
        whom = [*self.describe_concerns()]
        if self.each is not None:
            whom.append(f"each {self.each}")
        return " ".join([f"{self.rate}", *whom])


class EvictionRateLimits(Section):
    """Rates of eviction in several scopes at once; `null` switches a scope off."""

    cluster: ClusterRateLimit | None = Field(
        default=ClusterRateLimit.model_construct(),
        description="For the whole cluster; null: unlimited.",
    )
    zone: ZoneRateLimit | None = Field(
        default=ZoneRateLimit.model_construct(), description="For each zone; null: unlimited."
    )
    node: NodeRateLimit | None = Field(
        default=NodeRateLimit.model_construct(), description="For each node; null: unlimited."
    )
    namespace: NamespaceRateLimit | None = Field(
        default=NamespaceRateLimit.model_construct(),
        description="For each namespace; null: unlimited.",
    )
    owner: OwnerRateLimit | None = Field(
        default=OwnerRateLimit.model_construct(),
        description="For each topmost controller; null: unlimited.",
    )
    plugin: PluginRateLimit | None = Field(
        default=PluginRateLimit.model_construct(), description="For each plugin; null: unlimited."
    )
    ended: EndedRateLimit | None = Field(
        default=EndedRateLimit.model_construct(),
        description="For all pods that have ended (phase Succeeded or Failed), which take tokens "
        "of no other scope: their eviction ends no work. Those of a StatefulSet or a "
        "DaemonSet count as pods that run, as these create another only then. null: unlimited.",
    )
    grows_above_nodes: PositiveCount | None = Field(
        default=1500,
        description="In a cluster of more ready nodes than this, the rates and bursts of cluster, "
        "zone, namespace, plugin and ended grow in proportion to the nodes. A scope that is "
        "written in the settings does not grow. null: none grows.",
    )
    warm_up: WarmUpSettings | None = Field(
        default=WarmUpSettings.model_construct(),
        description="Low rates at first; null: full rates at once.",
    )

    window_s: Annotated[Seconds, longer_than_zero("5m")] = Field(
        default=WINDOW_S,
        description="The time in which the policy's `maxNoOfPodsToEvict…` and the plugins' own "
        "limits per node count evictions; not 0. `run --once` counts per cycle.",
    )

    named: tuple[NamedBudget, ...] = Field(
        default=(),
        description="Rates for single namespaces, nodes, profiles or plugins, beside those of the "
        "scopes: an eviction needs a token of each that concerns it. They do not warm up, and pods "
        "that have ended take none.",
    )

    schedules: tuple[EvictionSchedule, ...] = Field(
        default=(),
        description="Windows of time with fewer evictions or none, such as business hours, or the "
        "only ones with any; of several that are open the strictest counts.",
    )

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        raise_field_errors(duplicate_names(self.named, "budgets", "named"))
        return self

    def by_scope(self) -> Mapping[str, TokenRate | None]:
        """Return the rate of each scope, None for an unlimited one."""
        limits: dict[str, RateLimitSettings | None] = {
            "cluster": self.cluster,
            "zone": self.zone,
            "node": self.node,
            "namespace": self.namespace,
            "owner": self.owner,
            "plugin": self.plugin,
            "ended": self.ended,
        }
        return {scope: None if limit is None else limit.rate for scope, limit in limits.items()}

    @property
    def counts_for_s(self) -> float:
        """The longest time for which an eviction counts in any limit, in seconds.

        In a rate it counts until an empty bucket is full again, in a schedule until the end of the
        window.
        """
        rates = [*self.by_scope().values(), *(each.rate for each in self.named)]
        refills = (rate.burst / rate.per_second for rate in rates if rate)
        openings = (schedule.counts_for_s for schedule in self.schedules)
        return max([self.window_s, *refills, *openings])

    def describe(self, policy: PolicyEvictionLimits, nodes: int = 0) -> dict[str, str]:
        """Say each limit to a person, as it is for so many ready nodes, the policy's included."""
        factors = dict.fromkeys(self.growing_scopes, self.growth(nodes))
        said = {
            scope: "unlimited" if rate is None else str(rate.times(factors.get(scope, 1)))
            for scope, rate in self.by_scope().items()
        }
        said |= {f'budget "{each.name}"': each.describe() for each in self.named}
        if self.warm_up is not None:
            percent, duration = self.warm_up.from_percent, format_age(self.warm_up.duration_s)
            said["warmUp"] = f"from {percent:g} % of that, full after {duration}"
        window = format_age(self.window_s)
        counts = {_POLICY_FIELDS[scope]: count for scope, count in policy.by_scope().items()}
        said |= {
            field: f"{count} in {window}" for field, count in counts.items() if count is not None
        }
        for number, schedule in enumerate(self.schedules, 1):
            said[f"schedule{number}"] = f"{schedule}: {schedule.allowance}"
        return said

    @property
    def growing_scopes(self) -> frozenset[str]:
        """The scopes whose rates grow with the cluster: a number that is written is meant."""
        return _GROWING_SCOPES - self.model_fields_set

    def growth(self, nodes: int) -> float:
        """Return by what the rates of the growing scopes are multiplied: 1 or more."""
        return max(1.0, nodes / self.grows_above_nodes) if self.grows_above_nodes else 1.0
