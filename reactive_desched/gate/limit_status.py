"""Describes every limit at this moment: the answer of `/debug/limits`."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from math import inf
from typing import Final

from msgspec import Struct

from reactive_desched.gate.named_budgets import NamedBudgets
from reactive_desched.gate.policy_limits import PolicyLimits
from reactive_desched.gate.rate_limits import EvictionRateLimiter, TokenRate
from reactive_desched.gate.schedules import EvictionSchedules
from reactive_desched.gate.turns import NAMED
from reactive_desched.text.times import utc_time

MAX_LISTED: Final = 500
"""Buckets, and windows, listed in one answer: those with the least left."""


class BucketStatus(Struct, frozen=True, rename="camel"):
    """A token bucket that is not full: its rate, its burst, and the tokens that are left."""

    scope: str
    name: str
    per_minute: float
    burst: int
    available: float
    held: int


class RateStatus(Struct, frozen=True, rename="camel"):
    """The rate of a limited scope: what each of its buckets allows per minute and at once."""

    scope: str
    per_minute: float
    burst: int


class WindowStatus(Struct, frozen=True, rename="camel"):
    """The evictions that count against one of the policy's limits, for one name."""

    scope: str
    name: str
    limit: int
    counted: int


class ScheduleStatus(Struct, frozen=True, rename="camel"):
    """A schedule; `until`, `limit` and `counted` are None while none of its windows is open.

    `allow` says that evictions happen in its windows only, and not while none is open; else they
    are fewer, or none, in its windows. `limit` is None, too, where it allows any number. `next` is
    when a window opens next; None for never. `unread` says that its calendar was not read yet.
    """

    schedule: str
    until: datetime | None = None
    limit: int | None = None
    counted: int | None = None
    allow: bool = False
    next: datetime | None = None
    unread: bool = False


class LimitStatus(Struct, frozen=True, rename="camel"):
    """Every limit as it is now; buckets and windows in which nothing counts are left out."""

    warm_up_ratio: float
    rates: tuple[RateStatus, ...]
    buckets: tuple[BucketStatus, ...]
    windows: tuple[WindowStatus, ...]
    schedules: tuple[ScheduleStatus, ...]


def limit_status(
    rates: EvictionRateLimiter,
    named: NamedBudgets,
    windows: PolicyLimits,
    schedules: EvictionSchedules,
    now: float,
) -> LimitStatus:
    """Return the state of all limits; `now` is monotonic seconds."""
    paces = rates.rates(now)
    in_use = (*_bucket_statuses(rates, paces, now), *_named_statuses(named, now))
    buckets = sorted(in_use, key=lambda each: each.available)
    counted = (WindowStatus(*each) for each in windows.counted(now))
    fullest = sorted(counted, key=lambda each: each.limit - each.counted)
    return LimitStatus(
        rates.warm_up_ratio,
        tuple(RateStatus(name, _per_minute(pace), pace.burst) for name, pace in paces.items()),
        tuple(buckets[:MAX_LISTED]),
        tuple(fullest[:MAX_LISTED]),
        tuple(_schedule_statuses(schedules)),
    )


def _bucket_statuses(
    rates: EvictionRateLimiter, paces: Mapping[str, TokenRate], now: float
) -> Iterator[BucketStatus]:
    for scope, name, available, held in rates.available(now):
        pace = paces[scope]
        if available < pace.burst:
            left = round(available, 3)
            yield BucketStatus(scope, name, _per_minute(pace), pace.burst, left, held)


def _named_statuses(named: NamedBudgets, now: float) -> Iterator[BucketStatus]:
    for name, bucket, available in named.available(now):
        rate = bucket.rate
        if available < rate.burst:
            left = round(available, 3)
            yield BucketStatus(NAMED, name, _per_minute(rate), rate.burst, left, bucket.reserved)


def _per_minute(pace: TokenRate) -> float:
    return round(pace.per_second * 60, 3)


def _schedule_statuses(schedules: EvictionSchedules) -> Iterator[ScheduleStatus]:
    for each in schedules.states():
        name, allow, next_one = str(each.schedule), bool(each.schedule.allow), _time(each.next_s)
        if each.opening is None:
            yield ScheduleStatus(name, allow=allow, next=next_one, unread=each.is_unread)
        else:
            limit = int(each.limit) if each.limit < inf else None
            until = _time(each.opening.end_s)
            yield ScheduleStatus(name, until, limit, each.count, allow, next_one, each.is_unread)


def _time(at_s: float) -> datetime | None:
    return utc_time(at_s) if at_s < inf else None
