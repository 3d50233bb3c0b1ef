"""Keeps the pods that wait for a rate limit, and forecasts when each is evicted: place and seconds.

The tokens of a bucket come one after the other, and each is kept for as long as the bucket takes to
fill. A pod leaves at the first moment at which it finds a token in each of its buckets that no pod
before it takes: it delays none of those, and a pod whose node has no token yet delays none
elsewhere. While the rates warm up, time is counted in seconds of full rates: a token takes
as many of those as ever, and they take longer to pass.
"""

from collections import ChainMap
from collections.abc import Generator, Iterable, Iterator, MutableMapping, Sequence
from math import floor, sqrt
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.model.decisions import WaitEnd
from reactive_desched.model.objects import PodKey
from reactive_desched.primitives.bucket_queue import GIVES_UP_AFTER_S, LOOKED_THROUGH
from reactive_desched.primitives.long_answers import emptied_mapping, lazily_sorted
from reactive_desched.primitives.token_bucket import TokenRate
from reactive_desched.text.counts import place_in_queue

PODS_PER_SLICE: Final = 16
"""The turns of so many pods are found in some tenths of a millisecond."""

NAMED: Final = "named"
"""The scope of a bucket of a named budget."""

_AT_LEAST: Final = ": at least"
_EPSILON: Final = 1e-6
_FAR: Final = 365 * 86_400.0


class Turn(Struct, frozen=True, gc=False):
    """The place of a pod among all that need a token of one bucket, and when its turn is.

    The bucket is the one for which it waits longest. `at` is monotonic seconds. It is foreseen from
    the limits alone: `is_least` says that something else holds evictions besides.
    """

    scope: str
    name: str
    rate: TokenRate
    place: int
    of: int
    at: float
    ratio: float = 1.0
    is_least: bool = False

    def message(self, now: float) -> str:
        """Say it to a person, as every answer does."""
        return f"{self.where}{self.end.left(now)}"

    @property
    def where(self) -> str:
        """The place in the queue, in words."""
        if self.scope == NAMED:
            return place_in_queue(self.place, self.of, f"the budget {self.name}")
        where = self.scope if self.scope == "cluster" else f"{self.scope} {self.name}"
        return place_in_queue(self.place, self.of, f"the eviction rate limit of {where}")

    @property
    def end(self) -> WaitEnd:
        """The time of the turn, in words that follow the place."""
        warming = f", {self.ratio:.0%} of the limit in the warm-up" if self.ratio < 1 else ""
        about = _AT_LEAST if self.is_least else ": about"
        return WaitEnd(about, self.at, f" at {self.rate}{warming}", is_bare=True)


def least_end(end: WaitEnd, release_s: float | None) -> WaitEnd:
    """Return the end of a turn that something else delays, until `release_s` if that is known."""
    return replace(end, before=_AT_LEAST, at_s=max(end.at_s, release_s or end.at_s))


class WarmUpPace(Struct, frozen=True, gc=False):
    """The share of the rates now, and how it grows per second, until `left_s` from now."""

    ratio: float = 1.0
    per_second: float = 0.0
    left_s: float = 0.0

    def full_rate_s(self, seconds: float) -> float:
        """Return how many seconds at full rates give as many tokens as these from now on."""
        warm_s = min(seconds, self.left_s)
        warming = self.ratio * warm_s + self.per_second * warm_s * warm_s / 2
        return warming + max(0.0, seconds - self.left_s)

    def seconds(self, full_rate_s: float) -> float:
        """Return in how many seconds that many tokens come; the inverse of `full_rate_s`."""
        if self.left_s <= 0:
            return full_rate_s
        warming = self.full_rate_s(self.left_s)
        if full_rate_s >= warming:
            return self.left_s + full_rate_s - warming
        if self.per_second <= 0:
            return full_rate_s / self.ratio
        root = sqrt(self.ratio * self.ratio + 2 * self.per_second * full_rate_s)
        return (root - self.ratio) / self.per_second

    def ratio_at(self, full_rate_s: float) -> float:
        """Return the share of the rates after so many seconds of full rates."""
        if self.left_s <= 0:
            return 1.0
        return min(1.0, self.ratio + self.per_second * self.seconds(full_rate_s))


WARM: Final = WarmUpPace()
"""The pace of full rates."""


class BucketLevel(Struct, frozen=True, gc=False):
    """A token bucket now: the rate that counts, the rate when warmed up, and its free tokens."""

    scope: str
    name: str
    pace: TokenRate
    full: TokenRate
    available: float


class _Tokens:
    """The tokens of one bucket to come, and which are taken; times are seconds of full rates."""

    __slots__ = ("_before", "_behind", "_burst", "_first", "_rate", "level", "members")

    def __init__(self, level: BucketLevel, at: float) -> None:
        self.level = level
        self.members = 0
        self._rate = level.full.per_second
        self._burst = level.full.burst
        self._first = at - level.available / self._rate
        self._behind: dict[int, int] = {}  # of each token taken, one behind it that may be free
        self._before: dict[int, int] = {}

    def first_free(self, at: float, ratio: float) -> float:
        """Return from when on, not before `at`, there is a token that no pod takes.

        `ratio` is the share of the burst that counts at that time. Of the tokens before `at` only
        as many as the burst are kept.
        """
        burst = self._burst if ratio >= 1 else max(1, int(self._burst * ratio + _EPSILON))
        oldest = max(1, self._last(at) - burst + 1)
        comes = self._first + _free(self._behind, oldest) / self._rate
        return at if comes <= at + _EPSILON else comes

    def tokens_until(self, at: float, now: float) -> int:
        """Return how many tokens come after `now` until then: as many pods leave at the most."""
        return self._last(at) - self._last(now)

    def take(self, at: float) -> None:
        """Take the newest token that there is at a time: a pod may leave before with an older."""
        token = max(1, _free(self._before, self._last(at)))
        self._behind[token], self._before[token] = token + 1, token - 1
        self.members += 1

    def take_apart(self) -> Iterator[None]:
        """Free what is kept of the tokens, in slices."""
        yield from emptied_mapping(self._behind)
        yield from emptied_mapping(self._before)

    def _last(self, at: float) -> int:
        """Return the number of the last token that has come by then."""
        return floor((at - self._first) * self._rate + _EPSILON)


def _free(taken: dict[int, int], token: int) -> int:
    """Return the nearest token that is free, in the direction in which the taken ones point."""
    start = token
    while token in taken:
        token = taken[token]
    while start != token:  # so that the next look is short
        taken[start], start = token, taken[start]
    return token


class TurnSchedule:
    """The turns of pods, in the order in which they are added; `began_at` is monotonic seconds.

    `ratio` is the share of the rates that counts then, as every answer says it.
    """

    def __init__(self, warm_up: WarmUpPace, began_at: float, ratio: float = 1.0) -> None:
        self.began_at = began_at
        self._ratio = ratio
        self._warm_up = warm_up
        self._buckets: MutableMapping[tuple[str, str], _Tokens] = {}

    def beside(self) -> "TurnSchedule":
        """Return a schedule to look at: a bucket that is added to it is not added to this one."""
        other = TurnSchedule(self._warm_up, self.began_at, self._ratio)
        other._buckets = ChainMap({}, self._buckets)
        return other

    def has_bucket(self, bucket: tuple[str, str]) -> bool:
        """Say whether a bucket was added, by its scope and its name."""
        return bucket in self._buckets

    def add_bucket(self, level: BucketLevel, now: float) -> None:
        """Add a bucket as it is now."""
        at = self._warm_up.full_rate_s(max(0.0, now - self.began_at))
        self._buckets[level.scope, level.name] = _Tokens(level, at)

    def take_apart(self) -> Iterator[None]:
        """Free a schedule that is not used any more, in slices."""
        while self._buckets:
            _, tokens = self._buckets.popitem()
            yield from tokens.take_apart()

    def next_free(self, bucket: tuple[str, str], now: float) -> float:
        """Return when a bucket has a token that no pod takes; `now` for one that is not known."""
        if (found := self._buckets.get(bucket)) is None:
            return now
        at = self._warm_up.full_rate_s(max(0.0, now - self.began_at))
        return self._moment(found.first_free(at, self._warm_up.ratio_at(at)))

    def place(self, bucket: tuple[str, str], at: float, now: float, waiting: int) -> int:
        """Return the place of a pod whose turn is then, beside so many others that wait.

        As many are before it as the bucket has tokens for until then.
        """
        until, since = (
            self._warm_up.full_rate_s(max(0.0, each - self.began_at)) for each in (at, now)
        )
        return min(waiting + 1, max(1, self._buckets[bucket].tokens_until(until, since)))

    def find(self, buckets: Sequence[tuple[str, str]], earliest_at: float) -> tuple[float, int]:
        """Return when a pod finds its tokens, and the position of the bucket that came last."""
        at, last = self._find(buckets, earliest_at)
        return self._moment(at), last

    def add_pod(self, buckets: Sequence[tuple[str, str]], earliest_at: float) -> tuple[float, int]:
        """Take the tokens of a pod; returns as `find`."""
        at, last = self._find(buckets, earliest_at)
        for each in buckets:
            self._buckets[each].take(at)
        return self._moment(at), last

    def take(self, buckets: Iterable[tuple[str, str]], now: float) -> None:
        """Record that a pod that did not wait has taken tokens, of the buckets that are known."""
        at = self._warm_up.full_rate_s(max(0.0, now - self.began_at))
        for each in buckets:
            if (found := self._buckets.get(each)) is not None:
                found.take(at)

    def _moment(self, full_rate_s: float) -> float:
        return self.began_at + min(_FAR, self._warm_up.seconds(full_rate_s))

    def _find(self, buckets: Sequence[tuple[str, str]], earliest_at: float) -> tuple[float, int]:
        found = [self._buckets[each] for each in buckets]
        at = self._warm_up.full_rate_s(max(0.0, earliest_at - self.began_at))
        last, settled, ratio = -1, 0, self._warm_up.ratio_at(at)
        while settled < len(found):
            settled = 0
            for position, bucket in enumerate(found):
                if (free := bucket.first_free(at, ratio)) > at:
                    at, last, settled = free, position, 1
                    ratio = self._warm_up.ratio_at(at)
                else:
                    settled += 1
        if last < 0:  # none kept it: the one for which most others wait
            load = [each.members / each.level.full.per_second for each in found]
            last = max(range(len(found)), key=load.__getitem__)
        return at, last

    def turn(self, bucket: tuple[str, str], at: float, place: int, of: int) -> Turn:
        """Return a pod's turn, by the bucket that came last."""
        level = self._buckets[bucket].level
        return Turn(level.scope, level.name, level.pace, place, of, at, self._ratio)


class WaitingPod(Struct, frozen=True, gc=False):
    """A pod that waits, from when on it may leave, and its buckets by scope and name."""

    pod: PodKey
    at: float
    buckets: Sequence[tuple[str, str]]


def schedule_turns(
    pods: Iterable[WaitingPod], schedule: TurnSchedule
) -> Generator[None, None, dict[PodKey, Turn]]:
    """Return the turn of each pod, in steps.

    Its place is among the pods of the bucket that comes last.
    """
    found: list[tuple[float, int, WaitingPod, int]] = []
    members: dict[tuple[str, str], int] = {}
    for number, each in enumerate(pods):
        if each.buckets:
            at, last = schedule.add_pod(each.buckets, each.at)
            found.append((at, number, each, last))
            for bucket in each.buckets:
                members[bucket] = members.get(bucket, 0) + 1
        if number % PODS_PER_SLICE == 0:
            yield
    gone = dict.fromkeys(members, 0)
    turns: dict[PodKey, Turn] = {}
    for number, (at, _, each, last) in enumerate(lazily_sorted(found)):
        for bucket in each.buckets:
            gone[bucket] += 1
        bucket = each.buckets[last]
        turns[each.pod] = schedule.turn(bucket, at, gone[bucket], members[bucket])
        if number % PODS_PER_SLICE == 0:
            yield
    return turns


_MAX_CAME: Final = 10_000
"""The places of so many pods are kept that do not wait for a token yet; the oldest is lost."""

Bucket = tuple[str, str]
"""A bucket, by its scope and its name."""


PODS_IN_A_ROW: Final = 50
"""So many pods of a namespace may stand before those of others that came later: at 30 evictions a
minute they leave in less than two, and those of four namespaces in less than seven."""

Ticket = tuple[int, int]
"""The place of a pod in the order of turns: its row, and its number in the order of coming."""


class _Rows:
    """Has the pods of a namespace stand in rows, of which each has so many pods of it.

    Of two pods in one row the one that came first goes first. Each namespace fills the row that is
    being served when its first pod comes: what is served by then is counted as if all namespaces
    that wait had an equal part of it, whichever had it.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, int] = {}
        self._drawn: dict[str, float] = {}
        self._served = 0.0
        self.last = 0

    def draw(self, namespace: str) -> int:
        """Return the row of a pod that comes."""
        drawn = max(self._served, self._drawn.get(namespace, 0.0))
        self._drawn[namespace] = drawn + 1.0
        row = int(drawn // PODS_IN_A_ROW)
        self.last = max(self.last, row)
        return row

    def enter(self, namespace: str) -> None:
        """Count a pod that waits."""
        self._waiting[namespace] = self._waiting.get(namespace, 0) + 1

    def leave(self, namespace: str) -> None:
        """Count out a pod that waits no more; without any, the first row is served again."""
        if (count := self._waiting.pop(namespace) - 1) > 0:
            self._waiting[namespace] = count
        elif not self._waiting:
            self._drawn.clear()
            self._served, self.last = 0.0, 0

    def serve(self) -> None:
        """Count an eviction that took its tokens."""
        if self._waiting:
            self._served += 1.0 / len(self._waiting)


class _Entry(Struct, frozen=True, gc=False):
    """A pod that waits: its buckets, the ticket that it drew, its turn, and when it gives up."""

    buckets: Sequence[Bucket]
    namespace: str
    ticket: Ticket
    turn: float
    until: float


class WaitingPods:
    """Each pod's turn, and how many wait in each bucket; bounded by the findings that wait.

    A pod that was not evaluated again for some time gave up. `out_of_order` counts those, and the
    pods that took a place before others: they had come before, or their namespace has few.
    """

    def __init__(self) -> None:
        self._pods: dict[PodKey, _Entry] = {}
        self._counts: dict[Bucket, int] = {}
        self._tickets = 0
        self._came: dict[PodKey, Ticket] = {}
        self._rows = _Rows()
        self.out_of_order = 0

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, pod: PodKey) -> bool:
        return pod in self._pods

    def count(self, bucket: Bucket) -> int:
        """Return how many pods wait for a token of a bucket."""
        return self._counts.get(bucket, 0)

    def turn(self, pod: PodKey, buckets: Sequence[Bucket]) -> float | None:
        """Return a pod's turn; None where it does not wait, or waits in other buckets."""
        known = self._pods.get(pod)
        return known.turn if known is not None and known.buckets == buckets else None

    def come(self, pod: PodKey, namespace: str) -> None:
        """Give a pod that another rule lets wait first its place among those that come now."""
        if pod not in self._pods and pod not in self._came:
            self._came[pod] = self._draw(namespace)
            if len(self._came) > _MAX_CAME:
                del self._came[next(iter(self._came))]

    def enter(
        self, pod: PodKey, namespace: str, buckets: Sequence[Bucket], turn: float, until: float
    ) -> None:
        """Let a pod wait, at the end unless it waits already; `until` is its next evaluation.

        The end is that of its row.
        """
        known = self._pods.get(pod)
        if known is not None and known.buckets == buckets:
            ticket = known.ticket
            del self._pods[pod]
        else:
            came = self._came.get(pod)
            self.leave(pod)
            self._rows.enter(namespace)
            ticket = came or self._draw(namespace)
            if came is not None or ticket[0] < self._rows.last:
                self.out_of_order += 1
            for bucket in buckets:
                self._counts[bucket] = self._counts.get(bucket, 0) + 1
        self._pods[pod] = _Entry(buckets, namespace, ticket, turn, until + GIVES_UP_AFTER_S)

    def set_turn(self, pod: PodKey, turn: float, until: float) -> None:
        """Let a pod come at another time; `until` is its next evaluation."""
        if (known := self._pods.pop(pod, None)) is not None:
            self._pods[pod] = replace(known, turn=turn, until=until + GIVES_UP_AFTER_S)

    def leave(self, pod: PodKey) -> None:
        """Take a pod out: it has its tokens, or does not want them any more."""
        self._came.pop(pod, None)
        if (known := self._pods.pop(pod, None)) is None:
            return
        self._rows.leave(known.namespace)
        for bucket in known.buckets:
            if (count := self._counts[bucket]) > 1:
                self._counts[bucket] = count - 1
            else:
                del self._counts[bucket]

    def forget_gone(self, now: float) -> None:
        """Forget a few of the pods that gave up, those of which nothing came for longest."""
        for _ in range(LOOKED_THROUGH):
            first = next(iter(self._pods), None)
            if first is None or self._pods[first].until > now:
                return
            self.leave(first)
            self.out_of_order += 1

    def serve(self, pod: PodKey) -> None:
        """Take a pod out that has its tokens."""
        self._rows.serve()
        self.leave(pod)

    def ticket(self, pod: PodKey) -> Ticket:
        """Return which pod is before another: the one with the lower; the last for a new one."""
        known = self._pods.get(pod)
        return (self._rows.last, self._tickets + 1) if known is None else known.ticket

    def _draw(self, namespace: str) -> Ticket:
        self._tickets += 1
        return self._rows.draw(namespace), self._tickets
