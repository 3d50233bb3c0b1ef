"""What the API server said to an eviction, and what became of it.

An Answer is one reply to one request; an Outcome is the single end of one intent.
"""

from msgspec import Struct


class EvictionRequest(Struct, frozen=True, gc=False):
    """One eviction to ask for; the uid makes it harmless to any other pod of that name."""

    namespace: str
    name: str
    uid: str
    message: str = ""
    grace_period_s: int | None = None


class EvictionResponse(Struct, frozen=True, gc=False):
    """Base of all replies to an eviction request."""


class Accepted(EvictionResponse, frozen=True, gc=False):
    """2xx: the pod is deleted or terminating."""


class PdbRefused(EvictionResponse, frozen=True, gc=False):
    """429 with cause DisruptionBudget: the budget has nothing left, or its status is stale."""

    message: str
    retry_after_s: float | None = None


class TooManyRequests(EvictionResponse, frozen=True, gc=False):
    """429 or 503 without that cause: the server or a webhook asks us to slow down."""

    message: str
    retry_after_s: float | None = None


class NotFound(EvictionResponse, frozen=True, gc=False):
    """404: there is no such pod any more."""


class Conflict(EvictionResponse, frozen=True, gc=False):
    """409: the name now belongs to another pod, or a precondition failed."""

    message: str


class Denied(EvictionResponse, frozen=True, gc=False):
    """Any other 4xx, for example 403: missing rights, or an admission webhook said no."""

    status: int
    message: str


class ServerError(EvictionResponse, frozen=True, gc=False):
    """5xx that tells nothing was done (for example 500: two disruption budgets)."""

    status: int
    message: str


class DryRun(EvictionResponse, frozen=True, gc=False):
    """A dry run: nobody was asked, and the rest goes on as if the pod were leaving."""


class EffectUnknown(EvictionResponse, frozen=True, gc=False):
    """The line broke or timed out: the effect is unknown until the pod is read."""

    error: str


class PodNotFound(Struct, frozen=True, gc=False):
    """Reading the pod back: there is none of that name."""


class PodFound(Struct, frozen=True, gc=False):
    """Reading the pod back: this one bears the name now."""

    uid: str
    terminating: bool


PodLookup = PodNotFound | PodFound


class Outcome(Struct, frozen=True, gc=False):
    """How an intent ended; exactly one for each."""

    result: str
    message: str = ""
    retry_after_s: float | None = None


EVICTED = "evicted"
PDB_REFUSED = "refused by disruption budget"
TOO_MANY_REQUESTS = "deferred by overload"
NOT_FOUND = "gone"
CONFLICT = "replaced"
DENIED = "denied"
FAILED = "failed"
CANCELLED = "withheld"
"""Not asked for after all: the picture went stale, or we are stopping."""
UNKNOWN = "unknown"
"""The answer was lost and the pod is gone: by this eviction, or by somebody else."""
DRY_RUN = "rehearsed"
"""A dry run: nobody was asked; without that the pod would have been evicted, for all we know."""
POD_LEAVES = frozenset({EVICTED, NOT_FOUND, DRY_RUN, UNKNOWN})
"""The results after which the pod is on its way or away, or taken to be."""
COUNTS_AGAINST_LIMITS = frozenset({EVICTED, DRY_RUN, UNKNOWN})
"""The results that count against budgets and windows: we evicted it, may have, or would have."""


def outcome_from_response(response: EvictionResponse) -> Outcome | None:
    """Translate a reply into an outcome; None when it is unknown and must be settled by reading."""
    match response:
        case Accepted():
            return Outcome(EVICTED)
        case DryRun():
            return Outcome(DRY_RUN)
        case PdbRefused(message=message, retry_after_s=wait):
            return Outcome(PDB_REFUSED, message, wait)
        case TooManyRequests(message=message, retry_after_s=wait):
            return Outcome(TOO_MANY_REQUESTS, message, wait)
        case NotFound():
            return Outcome(NOT_FOUND, "the pod was already gone")
        case Conflict(message=message):
            return Outcome(CONFLICT, message)
        case Denied(status=status, message=message):
            return Outcome(DENIED, f"{status}: {message}")
        case ServerError(status=status, message=message):
            return Outcome(FAILED, f"{status}: {message}")
        case _:
            return None


def outcome_from_lookup(uid: str, lookup: PodLookup) -> Outcome:
    """Translate what reading the pod showed, after a call whose effect was unknown."""
    match lookup:
        case PodFound(uid=found, terminating=terminating) if found == uid:
            if terminating:
                return Outcome(EVICTED, "settled by reading the pod: it is terminating")
            return Outcome(FAILED, "settled by reading the pod: it was not evicted")
        case _:
            return Outcome(UNKNOWN, "settled by reading the pod: it is gone")
