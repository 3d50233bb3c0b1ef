"""Decides, by reading a pod back, on an eviction request whose response was lost."""

from typing import Final

from reactive_desched.model.evictor_table import evictor_named
from reactive_desched.model.outcomes import (
    BY_EVICTION_API,
    POD_DISRUPTED,
    POD_EVICTED,
    POD_GONE,
    POD_STILL_RUNNING,
    POD_TERMINATING,
    EvictionRequest,
    Outcome,
    PodFound,
    PodLookup,
)

SERVER_CLOCKS_S: Final = 2.0
"""So much may two times of the API server differ: dates are cut, and there may be several servers.
"""

EVICTION_TAKES_S: Final = 10
"""The eviction endpoint deletes a pod at once after it has set the condition: so late, it has not.
"""


def outcome_from_lookup(
    request: EvictionRequest, lookup: PodLookup, effect_timeout_s: float
) -> Outcome:
    """Return the outcome that reading the pod shows, after a request of unknown effect.

    A pod that still exists shows it only once the request can no longer arrive, `effect_timeout_s`
    after it was sent, unless it is terminating, or shows what the evictor does to it.
    """
    if not isinstance(lookup, PodFound) or lookup.uid != request.uid:
        return POD_GONE.outcome("a read of the pod shows that it is gone")
    evictor = evictor_named(request.options.evictor)
    if (shown := evictor.found(request, lookup)) is not None:
        return shown
    if not lookup.terminating:
        return POD_STILL_RUNNING.outcome("a read of the pod shows that it was not evicted")
    seen = "a read of the pod shows that it is terminating"
    if not lookup.disruption:
        return POD_TERMINATING.outcome(f"{seen}, without the condition DisruptionTarget")
    seen = f"{seen}, and its condition DisruptionTarget has the reason {lookup.disruption}"
    is_by_eviction = lookup.disruption == BY_EVICTION_API
    if not (is_by_eviction and evictor.sets_disruption_target):
        return POD_DISRUPTED.outcome(seen)
    if contradiction := _contradiction(request, lookup, effect_timeout_s):
        return POD_DISRUPTED.outcome(f"{seen}, but {contradiction}")
    return POD_EVICTED.outcome(seen)


def _contradiction(request: EvictionRequest, found: PodFound, effect_timeout_s: float) -> str:
    """Return what says that another request evicted the pod; empty where nothing does."""
    if request.sent.server_s is not None and found.deleted_s is not None:
        after_s = found.deleted_s - request.sent.server_s
        if after_s < -SERVER_CLOCKS_S:
            return f"it was deleted {-after_s:.0f} s before the request was sent"
        if after_s > effect_timeout_s + SERVER_CLOCKS_S:
            return f"it was deleted {after_s:.0f} s after the request, which could arrive no more"
    if found.disrupted_s is not None and found.deleted_s is not None:
        later_s = found.deleted_s - found.disrupted_s
        if later_s > EVICTION_TAKES_S:
            return f"it was deleted {later_s} s after that was set"
    asked_s = request.options.grace_period_s
    expected_s = found.own_grace_period_s if asked_s is None else asked_s
    if found.grace_period_s != expected_s and None not in (found.grace_period_s, expected_s):
        return f"its grace period is {found.grace_period_s} s, and {expected_s} s was asked for"
    return ""
