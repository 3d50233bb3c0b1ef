"""Limits of evictions for tests, without a cluster."""

from collections.abc import Callable, Mapping
from typing import Any

from reactive_desched.gate.rate_limits import EvictionRateLimiter
from reactive_desched.ledger.eviction import ENDED_PODS, SCOPES, EvictionScopes
from reactive_desched.model.findings import Finding
from reactive_desched.model.moves import is_clean_up
from reactive_desched.policy.settings.guards import GuardName
from reactive_desched.primitives.token_bucket import TokenRate
from tests.support.configurations import make_rate_limits

__all__ = ["ANY_MOVES", "NO_BUDGETS", "UNLIMITED", "make_rate_limiter", "name_scopes"]

NO_BUDGETS = f"budgets: {{{', '.join(f'{scope}: null' for scope in SCOPES)}, warmUp: null}}\n"
"""Settings without rates of eviction, but with all else by default."""

_SCOPES_OF_MOVES = ("owner", "namespace", "node", "zone", "cluster")
ANY_MOVES = (
    f"moves: {{maxMoving: {{{', '.join(f'{scope}: ~' for scope in _SCOPES_OF_MOVES)}}}, "
    "cooldown: 0s, nodeCooldown: 0s, futileBackoff: 0s}\n"
)
"""Settings of a controller that lets any number of pods move, again and again."""

UNLIMITED = f"{NO_BUDGETS}guards: {{disabled: [{', '.join(GuardName)}]}}\n{ANY_MOVES}"
"""Settings of a controller that evicts as fast as it can, for tests of anything else."""


def name_scopes(finding: Finding) -> EvictionScopes:
    """Name the buckets of an eviction; the zone of a node is its name's first letter."""
    pod = finding.pod
    owner = pod.owners[0].name if pod.owners else ""
    ended = ENDED_PODS if is_clean_up(pod) else ""
    return EvictionScopes(
        *("cluster", pod.node[:1], pod.node, pod.namespace, owner, finding.plugin, ended)
    )


def make_rate_limiter(
    rates: Mapping[str, TokenRate | None],
    node_count: Callable[[], int] = lambda: 3,
    **more: Any,  # as make_rate_limits takes them
) -> EvictionRateLimiter:
    """Build a limiter of exactly these rates by scope; other scopes have none."""
    return EvictionRateLimiter(make_rate_limits(rates, **more), name_scopes, node_count)
