"""A policy's `maxNoOfPodsToEvict…` as limits over time: so many in any stretch of five minutes.

Upstream counts per cycle; a reactive controller has none, so the default window is upstream's
default interval.
"""

from collections import deque
from collections.abc import Iterator, Mapping

from reactive_desched.model.decisions import Defer, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import Pod

WINDOW_S = 300.0


class Windows:
    """Counts evictions per node, namespace and in all; a limit of 0 forbids them.

    Remembers at most as many times as the limits allow, and forgets each with its window.
    """

    name = "EvictionLimit"

    def __init__(self, limits: Mapping[str, int | None], window_s: float = WINDOW_S) -> None:
        self._limits = {scope: limit for scope, limit in limits.items() if limit is not None}
        self._window_s = window_s
        self._times: dict[tuple[str, str], deque[float]] = {}

    def verdict(self, finding: Finding, now: float) -> Defer | Refuse | None:
        """Refuse or defer a pod whose node, namespace or cluster has had its share."""
        for key, limit in self._scopes(finding.pod):
            scope = " ".join(key).rstrip()
            if limit == 0:
                reason = f"the policy allows no evictions per {key[0]}"
                return Refuse(finding, self.name, reason, (("pod", finding.pod.uid),))
            times = self._recent(key, now)
            if len(times) >= limit:
                reason = (
                    f"{len(times)} evictions in {self._window_s:g}s reached the limit of {scope}"
                )
                return Defer(finding, self.name, reason, times[-limit] + self._window_s)
        return None

    def count(self, pod: Pod, now: float) -> None:
        """Count an eviction that was decided."""
        for key, _ in self._scopes(pod):
            self._times.setdefault(key, deque()).append(now)

    def discount(self, pod: Pod) -> None:
        """Take back the latest count, for an eviction that did not happen."""
        for key, _ in self._scopes(pod):
            if times := self._times.get(key):
                times.pop()

    def _scopes(self, pod: Pod) -> Iterator[tuple[tuple[str, str], int]]:
        names = {"cluster": "", "node": pod.node, "namespace": pod.namespace}
        for scope, limit in self._limits.items():
            yield (scope, names[scope]), limit

    def _recent(self, key: tuple[str, str], now: float) -> deque[float]:
        times = self._times.get(key, deque())
        while times and times[0] + self._window_s <= now:
            times.popleft()
        if not times:
            self._times.pop(key, None)
        return times
