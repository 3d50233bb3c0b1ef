"""A policy's limits of evictions in any window of time, or in one cycle.

They are `maxNoOfPodsToEvict…`, and a plugin's own limit of one node, such as
`evictionLimits.node`. Upstream counts per descheduling cycle, and so does a sweep, in which the
plugin counts for itself. A reactive controller has no cycle: its window is upstream's default
interval, five minutes, unless the settings say another.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from math import inf
from typing import Final, Generic, TypeVar

from reactive_desched.ledger.eviction import CLUSTER, Eviction
from reactive_desched.ledger.participant import EvictionParticipant
from reactive_desched.model.decisions import (
    EVICTION_LIMIT_GATE,
    LIMIT_REASONS,
    Defer,
    GateReason,
    Refuse,
    WaitEnd,
)
from reactive_desched.model.findings import Finding
from reactive_desched.model.outcomes import Outcome
from reactive_desched.model.wakes import WakeOn, WakeOnPod
from reactive_desched.policy.policy import WINDOW_S
from reactive_desched.text.ages import format_age
from reactive_desched.text.counts import format_count

CYCLE = inf
"""The window of a sweep: nothing expires."""
LimitScope = tuple[str, str]
"""A scope and the name in it, for example ("node", "n1")."""


class PolicyLimits(EvictionParticipant):
    """Counts evictions in the cluster, per node and per namespace; a limit of 0 forbids them.

    An eviction counts from its decision on, and for one window after its end; where the
    window is a cycle it counts for good. For each name with an eviction within the window at most
    as many times are kept as the limit allows.
    """

    name = EVICTION_LIMIT_GATE

    def __init__(self, limits: Mapping[str, int | None], window_s: float = WINDOW_S) -> None:
        self._limits = _limits_set(limits)
        self._counts: EvictionCounts[LimitScope] = EvictionCounts(window_s)

    @property
    def window_s(self) -> float:
        """The time for which an eviction counts."""
        return self._counts.window_s

    def reconfigure(
        self, limits: Mapping[str, int | None], window_s: float, under_way: Iterable[Eviction]
    ) -> None:
        """Apply new limits; scopes that had a limit keep their counts.

        A scope that had none counts from now on, including the evictions `under_way`. Of a longer
        window, evictions count that the shorter one had not forgotten.
        """
        self._limits = _limits_set(limits)
        self._counts.reconfigure(window_s)
        self._counts.replace_in_flight(
            key for each in under_way for key, _ in self._scopes(_place(each))
        )

    def check(self, finding: Finding, now: float) -> Defer | Refuse | None:
        """Refuse or defer a pod whose node, namespace or cluster reached its limit."""
        for key, limit in self._scopes((finding.pod.node, finding.pod.namespace)):
            if (count := self._counts.count(key, now)) >= limit:
                return self._decision(finding, key, limit, count, now)
        return None

    def lacks_room(
        self,
        finding: Finding,
        now: float,
        to_come: Callable[[str], int],
        wakes: tuple[WakeOn, ...],
    ) -> Defer | Refuse | None:
        """Refuse or defer as `check`, where evictions to come count already; nothing is reserved.

        `to_come` returns for a scope how many evictions of other pods are to come in the one that
        the pod is in. `wakes` say when one may come no more.
        """
        if (decision := self.check(finding, now)) is not None:
            return decision
        for key, limit in self._scopes((finding.pod.node, finding.pod.namespace)):
            count, promised = self._counts.count(key, now), to_come(key[0])
            if count + promised < limit:
                continue
            scope, left = " ".join(key).rstrip(), limit - promised
            message = (
                f"{scope} had {format_count(count, 'eviction')} in {format_age(self.window_s)},"
                f" migration jobs are to evict {promised} more, and the policy allows {limit}"
            )
            retry_at_s = self._counts.retry_at(key, left, now) if left > 0 else None
            return LIMIT_REASONS[key[0]].refuse(
                finding, message, wakes, retry_at_s, scope_exhausted=key[0]
            )
        return None

    def _decision(
        self, finding: Finding, key: LimitScope, limit: int, count: int, now: float
    ) -> Defer | Refuse:
        """Refuse where time changes nothing, else defer until enough evictions have expired."""
        reason, scope = LIMIT_REASONS[key[0]], " ".join(key).rstrip()
        window_s = self._counts.window_s
        if window_s == CYCLE or limit == 0:
            message = f"the policy allows no evictions per {key[0]} (limit 0 for {scope})"
            if limit:
                message = f"{scope} had {format_count(limit, 'eviction')} in this cycle, the limit"
            wakes = (WakeOnPod(finding.pod.uid),)
            return reason.refuse(finding, message, wakes, scope_exhausted=key[0])
        retry_at_s = self._counts.retry_at(key, limit, now)
        message = (
            f"{scope} had {format_count(count, 'eviction')} in {format_age(window_s)}, and the"
            f" policy allows {limit}"
        )
        end = WaitEnd(_NEXT, retry_at_s)
        return reason.defer(finding, message, retry_at_s, scope_exhausted=key[0], end=end)

    def counted(self, now: float) -> Iterator[tuple[str, str, int, int]]:
        """Yield scope, name, limit and count of each name for which evictions count."""
        for (scope, name), count in self._counts.counts(now):
            if (limit := self._limits.get(scope)) is not None:
                yield scope, name or scope, limit, count

    def decided(self, eviction: Eviction) -> None:
        """Count an eviction."""
        for key, _ in self._scopes(_place(eviction)):
            self._counts.begin(key)

    def ended(self, eviction: Eviction, outcome: Outcome) -> None:
        """Start the window of an eviction that happened; uncount one that did not."""
        del outcome
        assert eviction.ended_at is not None
        for key, _ in self._scopes(_place(eviction)):
            self._counts.end(key, eviction.ended_at, evicted=eviction.counts)
        self._counts.drop_expired(eviction.ended_at)

    def restored(self, eviction: Eviction, now: float) -> None:
        """Count an eviction of an earlier process."""
        ended_at = eviction.ended_at
        if not eviction.counts or (ended_at is not None and ended_at + self.window_s <= now):
            return
        self.decided(eviction)
        if eviction.outcome is not None:
            self.ended(eviction, eviction.outcome)

    def _scopes(self, place: "_Place") -> Iterator[tuple[LimitScope, int]]:
        node, namespace = place
        names = {CLUSTER: "", "node": node, "namespace": namespace}
        for scope, limit in self._limits.items():
            yield (scope, names[scope]), limit


_Place = tuple[str, str]
"""A pod's node and namespace."""


def _place(eviction: Eviction) -> _Place:
    return eviction.scopes.node, eviction.scopes.namespace


def _limits_set(limits: Mapping[str, int | None]) -> dict[str, int]:
    """Return the limits that are set, in upstream's order: the first one reached decides."""
    ordered = ((scope, limits.get(scope)) for scope in LIMIT_REASONS)
    return {scope: limit for scope, limit in ordered if limit is not None}


_NEXT: Final = "; the next is possible"

KeyT = TypeVar("KeyT", bound=Hashable)


class EvictionCounts(Generic[KeyT]):
    """Evictions by key: those under way, and those that ended less than `window_s` ago.

    For each key with an eviction within the window at most as many times are kept as its limit
    allows. Times are monotonic seconds.
    """

    def __init__(self, window_s: float) -> None:
        self.window_s = window_s
        self._times: OrderedDict[KeyT, deque[float]] = OrderedDict()
        self._in_flight: Counter[KeyT] = Counter()

    def reconfigure(self, window_s: float) -> None:
        """Count in a window of so many seconds; of a longer one, what was not forgotten."""
        self.window_s = window_s

    def count(self, key: KeyT, now: float) -> int:
        """Return how many evictions count for a key."""
        times = self._times.get(key, deque())
        while times and times[0] + self.window_s <= now:
            times.popleft()
        return len(times) + self._in_flight[key]

    def counts(self, now: float) -> Iterator[tuple[KeyT, int]]:
        """Yield each key for which evictions count, and how many do."""
        for key in [*self._times, *(key for key in self._in_flight if key not in self._times)]:
            if count := self.count(key, now):
                yield key, count

    def retry_at(self, key: KeyT, limit: int, now: float) -> float:
        """Return when fewer than `limit` count, if none are added; ask right after `count`."""
        times = self._times.get(key, deque())
        surplus = len(times) + self._in_flight[key] - limit
        first = times[surplus] if surplus < len(times) else now
        return first + self.window_s

    def begin(self, key: KeyT) -> None:
        """Count an eviction that was decided."""
        self._in_flight[key] += 1

    def end(self, key: KeyT, now: float, *, evicted: bool) -> None:
        """Start the window of an eviction that happened; uncount one that did not."""
        self._in_flight[key] -= 1
        if not self._in_flight[key]:
            del self._in_flight[key]
        if evicted:
            times = self._times[key] = self._times.pop(key, deque())
            times.append(now)

    def replace_in_flight(self, keys: Iterable[KeyT]) -> None:
        """Count these evictions as those under way."""
        self._in_flight = Counter(keys)

    def drop_expired(self, now: float) -> None:
        """Drop the keys whose window has passed; they are in the order of their last eviction."""
        while self._times:
            key, times = next(iter(self._times.items()))
            if times and times[-1] + self.window_s > now:
                return
            del self._times[key]


PLUGIN_NODE_LIMIT_REACHED: Final = GateReason(
    "PluginLimit",
    "PluginNodeLimitReached",
    "The plugin evicted as many pods from the node as its own limit allows.",
    "evictionLimits.node",
)


class PluginNodeLimits(EvictionParticipant):
    """Counts evictions per plugin and node, over all profiles, where a finding has a limit."""

    name = PLUGIN_NODE_LIMIT_REACHED.gate

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._counts: EvictionCounts[tuple[str, str]] = EvictionCounts(window_s)

    def reconfigure(self, window_s: float) -> None:
        """Count in another window from now on."""
        self._counts.reconfigure(window_s)

    def check(self, finding: Finding, now: float) -> Defer | Refuse | None:
        """Refuse or defer a pod of a node from which the plugin evicted as many as it may."""
        if (limit := finding.node_limit) is None:
            return None
        key = finding.plugin, finding.pod.node
        if (count := self._counts.count(key, now)) < limit:
            return None
        if limit == 0:
            message = f"{finding.plugin} may evict no pods from a node"
            wakes = (WakeOnPod(finding.pod.uid),)
            return PLUGIN_NODE_LIMIT_REACHED.refuse(finding, message, wakes, scope_exhausted="node")
        retry_at_s = self._counts.retry_at(key, limit, now)
        pods = format_count(count, "pod")
        message = (
            f"{finding.plugin} evicted {pods} from node {finding.pod.node} in "
            f"{format_age(self._counts.window_s)}, and may evict {limit}"
        )
        return PLUGIN_NODE_LIMIT_REACHED.defer(
            finding, message, retry_at_s, scope_exhausted="node", end=WaitEnd(_NEXT, retry_at_s)
        )

    def decided(self, eviction: Eviction) -> None:
        """Count an eviction whose finding has a limit."""
        if _is_limited(eviction):
            self._counts.begin(_key(eviction))

    def ended(self, eviction: Eviction, outcome: Outcome) -> None:
        """Start the window of an eviction that happened; uncount one that did not."""
        del outcome
        if _is_limited(eviction):
            self._end(eviction)

    def restored(self, eviction: Eviction, now: float) -> None:
        """Count an eviction of an earlier process.

        That of a plugin without a limit counts too, for one window: a record does not say it.
        """
        ended_at = eviction.ended_at
        is_old = ended_at is not None and ended_at + self._counts.window_s <= now
        if eviction.counts and _is_limited(eviction) and not is_old:
            self._counts.begin(_key(eviction))
            if not eviction.is_open:
                self._end(eviction)

    def _end(self, eviction: Eviction) -> None:
        assert eviction.ended_at is not None
        self._counts.end(_key(eviction), eviction.ended_at, evicted=eviction.counts)
        self._counts.drop_expired(eviction.ended_at)


def _key(eviction: Eviction) -> tuple[str, str]:
    return eviction.scopes.plugin, eviction.scopes.node


def _is_limited(eviction: Eviction) -> bool:
    """Say whether an eviction counts; of another process's it is not known by which plugin."""
    if eviction.finding is not None:
        return eviction.finding.node_limit is not None
    return bool(eviction.scopes.plugin)
