"""A plugin's own limit of evictions from one node, such as `evictionLimits.node`.

Upstream counts per descheduling cycle. A reactive controller has no cycle, so here it is so many
in any window, as long as that of the policy's limits; in a sweep the plugin counts for itself.
"""

from typing import Final

from reactive_desched.gate.eviction_counts import EvictionCounts
from reactive_desched.ledger.eviction import Eviction
from reactive_desched.ledger.participant import EvictionParticipant
from reactive_desched.model.decisions import Defer, GateReason, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.outcomes import Outcome
from reactive_desched.model.wakes import WakeOnPod
from reactive_desched.policy.policy import WINDOW_S
from reactive_desched.text.ages import format_age
from reactive_desched.text.counts import format_count

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
            f"{format_age(self._counts.window_s)}, and may evict {limit}; the next is possible in "
            f"{retry_at_s - now:.0f} s"
        )
        return PLUGIN_NODE_LIMIT_REACHED.defer(finding, message, retry_at_s, scope_exhausted="node")

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
