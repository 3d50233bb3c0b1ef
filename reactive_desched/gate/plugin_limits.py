"""A plugin's own limit of evictions from one node, such as `evictionLimits.node`.

Upstream counts per descheduling cycle. A reactive controller has no cycle, so here it is so many
in any window, as long as that of the policy's limits; in a sweep the plugin counts for itself.
"""

from collections.abc import Iterable
from typing import Final

from reactive_desched.gate.eviction_counts import EvictionCounts
from reactive_desched.model.decisions import Defer, GateReason, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.history import PastEviction
from reactive_desched.model.objects import PodKey
from reactive_desched.model.wakes import WakeOnPod
from reactive_desched.policy.policy import WINDOW_S
from reactive_desched.primitives.ages import format_age
from reactive_desched.primitives.counts import format_count

PLUGIN_NODE_LIMIT_REACHED: Final = GateReason(
    "PluginLimit",
    "PluginNodeLimitReached",
    "The plugin evicted as many pods from the node as its own limit allows.",
    "evictionLimits.node",
)


class PluginNodeLimits:
    """Counts evictions per plugin and node, over all profiles, where a finding has a limit."""

    name = PLUGIN_NODE_LIMIT_REACHED.gate

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._counts: EvictionCounts[tuple[str, str]] = EvictionCounts(window_s)
        self._in_flight: dict[PodKey, tuple[str, str]] = {}

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
            f"{format_age(self._counts.window_s)}, and may evict {limit}; the next is possible in "
            f"{retry_at_s - now:.0f} s"
        )
        return PLUGIN_NODE_LIMIT_REACHED.defer(finding, message, retry_at_s, scope_exhausted="node")

    def reserve(self, finding: Finding) -> None:
        """Count an eviction that was decided."""
        if finding.node_limit is not None:
            self._begin(finding.pod.uid, finding.plugin, finding.pod.node)

    def release(self, pod: PodKey, now: float, *, evicted: bool) -> None:
        """Start the window of an eviction that happened; uncount one that did not."""
        if (key := self._in_flight.pop(pod, None)) is not None:
            self._counts.end(key, now, evicted=evicted)
        self._counts.drop_expired(now)

    def restore(self, past: Iterable[PastEviction], now: float, wall_now: float) -> None:
        """Count evictions of earlier processes, in the order of their ends.

        Those of plugins without a limit count too, for one window: a record does not say it.
        """
        for eviction in past:
            ended_at = eviction.ended_at(now, wall_now)
            if ended_at is not None and ended_at + self._counts.window_s <= now:
                continue
            self._begin(eviction.pod_uid, eviction.plugin, eviction.node)
            if ended_at is not None:
                self.release(eviction.pod_uid, ended_at, evicted=True)

    def _begin(self, pod: PodKey, plugin: str, node: str) -> None:
        key = self._in_flight[pod] = plugin, node
        self._counts.begin(key)
