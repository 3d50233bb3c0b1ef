"""What the API server said to an eviction, and what became of it.

An Answer is one reply to one request; an Outcome is the single end of one intent.
"""

from msgspec import Struct


class EvictionRequest(Struct, frozen=True, gc=False):
    """One eviction to ask for; the uid makes it harmless to any other pod of that name."""

    namespace: str
    name: str
    uid: str
    reason: str = ""
    grace_period_s: int | None = None


class Answer(Struct, frozen=True, gc=False):
    """Base of all replies to an eviction request."""


class Accepted(Answer, frozen=True, gc=False):
    """2xx: the pod is deleted or terminating."""


class BudgetRefused(Answer, frozen=True, gc=False):
    """429 with cause DisruptionBudget: the budget has nothing left, or its status is stale."""

    message: str
    retry_after_s: float | None = None


class Overloaded(Answer, frozen=True, gc=False):
    """429 or 503 without that cause: the server or a webhook asks us to slow down."""

    message: str
    retry_after_s: float | None = None


class Gone(Answer, frozen=True, gc=False):
    """404: there is no such pod any more."""


class Replaced(Answer, frozen=True, gc=False):
    """409: the name now belongs to another pod, or a precondition failed."""

    message: str


class Denied(Answer, frozen=True, gc=False):
    """Any other 4xx, for example 403: missing rights, or an admission webhook said no."""

    status: int
    message: str


class ServerFailed(Answer, frozen=True, gc=False):
    """5xx that tells nothing was done (for example 500: two disruption budgets)."""

    status: int
    message: str


class Rehearsed(Answer, frozen=True, gc=False):
    """A dry run: nobody was asked, and the rest goes on as if the pod were leaving."""


class Unknown(Answer, frozen=True, gc=False):
    """The line broke or timed out: the effect is unknown until the pod is read."""

    error: str


class PodAbsent(Struct, frozen=True, gc=False):
    """Reading the pod back: there is none of that name."""


class PodPresent(Struct, frozen=True, gc=False):
    """Reading the pod back: this one bears the name now."""

    uid: str
    terminating: bool


PodNow = PodAbsent | PodPresent


class Outcome(Struct, frozen=True, gc=False):
    """How an intent ended; exactly one for each."""

    result: str
    detail: str = ""
    retry_after_s: float | None = None


EVICTED = "evicted"
BUDGET_REFUSED = "refused by disruption budget"
OVERLOADED = "deferred by overload"
GONE = "gone"
REPLACED = "replaced"
DENIED = "denied"
FAILED = "failed"
WITHHELD = "withheld"
"""Not asked for after all: the picture went stale, or we are stopping."""
UNKNOWN = "unknown"
"""The answer was lost and the pod is gone: by this eviction, or by somebody else."""
REHEARSED = "rehearsed"
"""A dry run: nobody was asked; without that the pod would have been evicted, for all we know."""
LEFT = frozenset({EVICTED, GONE, REHEARSED, UNKNOWN})
"""The results after which the pod is on its way or away, or taken to be."""
DISRUPTED = frozenset({EVICTED, REHEARSED, UNKNOWN})
"""The results that count against budgets and windows: we evicted it, may have, or would have."""


def outcome_of(answer: Answer) -> Outcome | None:
    """Translate a reply into an outcome; None when it is unknown and must be settled by reading."""
    match answer:
        case Accepted():
            return Outcome(EVICTED)
        case Rehearsed():
            return Outcome(REHEARSED)
        case BudgetRefused(message=message, retry_after_s=wait):
            return Outcome(BUDGET_REFUSED, message, wait)
        case Overloaded(message=message, retry_after_s=wait):
            return Outcome(OVERLOADED, message, wait)
        case Gone():
            return Outcome(GONE, "the pod was already gone")
        case Replaced(message=message):
            return Outcome(REPLACED, message)
        case Denied(status=status, message=message):
            return Outcome(DENIED, f"{status}: {message}")
        case ServerFailed(status=status, message=message):
            return Outcome(FAILED, f"{status}: {message}")
        case _:
            return None


def settled(uid: str, pod: PodNow) -> Outcome:
    """Translate what reading the pod showed, after a call whose effect was unknown."""
    match pod:
        case PodPresent(uid=found, terminating=terminating) if found == uid:
            if terminating:
                return Outcome(EVICTED, "settled by reading the pod: it is terminating")
            return Outcome(FAILED, "settled by reading the pod: it was not evicted")
        case _:
            return Outcome(UNKNOWN, "settled by reading the pod: it is gone")
