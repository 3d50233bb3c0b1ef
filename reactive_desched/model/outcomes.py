"""The API server's response to an eviction request, and the outcome of an intent.

An EvictionResponse answers one request; an Outcome is the single end of one intent.
"""

from typing import Final

from msgspec import Struct

from reactive_desched.model.eviction_options import BY_EVICTION, EvictionOptions, EvictionPolicy


class RequestTime(Struct, frozen=True, gc=False):
    """When a request is sent, in seconds since the epoch; None by a clock that is not known.

    By the API server's clock it is rather too early, and our own clock may have been set.
    """

    server_s: float | None = None
    own_s: float | None = None


NOT_KNOWN: Final = RequestTime()


class EvictionRequest(Struct, frozen=True, gc=False):
    """One eviction to send; the uid precondition protects any other pod of the same name."""

    namespace: str
    name: str
    uid: str
    message: str = ""
    options: EvictionOptions = BY_EVICTION
    sent: RequestTime = NOT_KNOWN


class EvictionResponse(Struct, frozen=True, gc=False):
    """Base of all responses to an eviction request."""


class Accepted(EvictionResponse, frozen=True, gc=False):
    """2xx: the pod is deleted or terminating."""


class LeavesLater(EvictionResponse, frozen=True, gc=False):
    """Another program lets the pod leave: 429 of one that has begun to, as KubeVirt's, or 2xx.

    `is_soft` says that the pod has the annotation of a soft eviction.
    """

    message: str
    is_soft: bool = False


class PdbRefused(EvictionResponse, frozen=True, gc=False):
    """429 with cause DisruptionBudget: the PDB allows no disruption, or its status is stale."""

    message: str
    retry_after_s: float | None = None


class TooManyRequests(EvictionResponse, frozen=True, gc=False):
    """429 without that cause, or the API server's 503: it or a webhook is overloaded."""

    message: str
    retry_after_s: float | None = None


class NotFound(EvictionResponse, frozen=True, gc=False):
    """404: the pod does not exist any more."""


class Conflict(EvictionResponse, frozen=True, gc=False):
    """409: the name now belongs to another pod, or a precondition failed."""

    message: str


class Denied(EvictionResponse, frozen=True, gc=False):
    """Any other 4xx, for example 403: missing rights, or an admission webhook refused."""

    status: int
    message: str


class ServerError(EvictionResponse, frozen=True, gc=False):
    """5xx after which the pod is certainly not evicted (for example 500: two PDBs cover it)."""

    status: int
    message: str


class DryRun(EvictionResponse, frozen=True, gc=False):
    """A dry run: no request was sent, and everything else runs as if the pod were leaving."""


class EffectUnknown(EvictionResponse, frozen=True, gc=False):
    """The connection broke or timed out: the effect is unknown until the pod is read."""

    error: str


class PodNotFound(Struct, frozen=True, gc=False):
    """The API server has no pod of that name."""


class PodFound(Struct, frozen=True, gc=False):
    """The API server has a pod of that name, with this uid.

    `disruption` is the reason of its condition DisruptionTarget, empty where that is not True, and
    `disrupted_s` when it became True, `deleted_s` when its deletion began, in seconds since the
    epoch by the API server's clock. `grace_period_s` is the grace period of the deletion, and
    `own_grace_period_s` that of the pod's spec. `is_soft` says that the pod has the annotation of a
    soft eviction, `soft_asked_s` when that was asked for, by the clock of the client that asked.
    """

    uid: str
    terminating: bool
    is_soft: bool = False
    disruption: str = ""
    disrupted_s: int | None = None
    deleted_s: int | None = None
    grace_period_s: int | None = None
    own_grace_period_s: int | None = None
    soft_asked_s: float | None = None


PodLookup = PodNotFound | PodFound


class Outcome(Struct, frozen=True, gc=False):
    """How an intent ended; each intent has exactly one outcome.

    `result` is one of RESULTS and decides what happens next. `reason` is a CamelCase code;
    `message` is for people, in the API server's words where there are any.
    """

    result: str
    message: str = ""
    retry_after_s: float | None = None
    reason: str = ""


BY_EVICTION_API: Final = "EvictionByEvictionAPI"
"""The reason of the condition DisruptionTarget that the eviction endpoint sets."""

SERVER_CLOCKS_S: Final = 2.0
"""So much may two times of the API server differ: dates are cut, and there may be several servers.
"""

EVICTION_TAKES_S: Final = 10
"""The eviction endpoint deletes a pod at once after it has set the condition: so late, it has not.
"""

EVICTED: Final = "evicted"
PDB_REFUSED: Final = "pdb_refused"
TOO_MANY_REQUESTS: Final = "too_many_requests"
NOT_FOUND: Final = "not_found"
CONFLICT: Final = "conflict"
DENIED: Final = "denied"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"
"""No request was sent: evictions are paused, the journal cannot write, or the process stops."""
UNKNOWN: Final = "unknown"
"""The response was lost and the pod leaves or is gone: by this eviction, or deleted otherwise."""
DRY_RUN: Final = "dry_run"
"""A dry run: no request was sent; a real run would have sent one."""
RESULTS: Final = frozenset(
    {
        *(EVICTED, PDB_REFUSED, TOO_MANY_REQUESTS, NOT_FOUND, CONFLICT),
        *(DENIED, FAILED, CANCELLED, UNKNOWN, DRY_RUN),
    }
)
POD_LEAVES: Final = frozenset({EVICTED, NOT_FOUND, DRY_RUN, UNKNOWN})
"""The results after which the pod is terminating or gone, or is taken to be."""
COUNTS_AGAINST_LIMITS: Final = frozenset({EVICTED, DRY_RUN, UNKNOWN})
"""The results that count against rate limits and windows: evicted, perhaps, or in a dry run."""


class OutcomeReason(Struct, frozen=True, gc=False):
    """One way in which an intent ends: `code` is what the outcome carries as `reason`.

    `meaning` explains the code in docs/reference/reasons.md.
    """

    result: str
    code: str
    meaning: str

    def outcome(self, message: str = "", retry_after_s: float | None = None) -> Outcome:
        """Return an outcome with this result and reason."""
        return Outcome(self.result, message, retry_after_s, self.code)


EVICTION_ACCEPTED: Final = OutcomeReason(
    EVICTED, "EvictionAccepted", "The API server accepted the eviction."
)
EVICTION_IN_BACKGROUND: Final = OutcomeReason(
    EVICTED,
    "EvictionInBackground",
    "The eviction was answered by a program that moves the pod itself, as KubeVirt's live "
    "migration: the pod leaves when that is over.",
)
SOFT_EVICTION_REQUESTED: Final = OutcomeReason(
    EVICTED,
    "SoftEvictionRequested",
    "The pod has koordinator's annotation of a soft eviction: it leaves when another program has "
    "acted on it.",
)
POD_EVICTED: Final = OutcomeReason(
    EVICTED,
    "FoundEvicted",
    "The response was lost; the pod's condition DisruptionTarget showed that it was evicted "
    "through the Eviction API while the request could arrive, with the grace period that the "
    "request asks for. Another client's eviction of the same moment would look the same.",
)
POD_DISRUPTED: Final = OutcomeReason(
    UNKNOWN,
    "FoundDisrupted",
    "The response was lost; reading the pod showed that something else ends it: its condition "
    "DisruptionTarget has another reason, or it was deleted at another time or with another grace "
    "period. The message has what was seen.",
)
POD_TERMINATING: Final = OutcomeReason(
    UNKNOWN,
    "FoundTerminating",
    "The response was lost; reading the pod showed that it is terminating, and not by whom: by "
    "this request, or deleted otherwise. Earlier versions called this evicted.",
)
PDB_REFUSED_EVICTION: Final = OutcomeReason(
    PDB_REFUSED,
    "DisruptionBudget",
    "The API server refused the eviction: the PodDisruptionBudget allows no disruption now.",
)
SERVER_BUSY: Final = OutcomeReason(
    TOO_MANY_REQUESTS,
    "TooManyRequests",
    "The API server or an admission webhook answered 429 or 503: it asks for fewer requests.",
)
POD_NOT_FOUND: Final = OutcomeReason(
    NOT_FOUND, "PodNotFound", "The pod did not exist any more when the eviction was requested."
)
POD_CONFLICT: Final = OutcomeReason(
    CONFLICT,
    "Conflict",
    "The name belongs to another pod by now, or the pod changed during the request.",
)
REQUEST_DENIED: Final = OutcomeReason(
    DENIED,
    "Denied",
    "The API server answered another 4xx: a right is missing, or an admission webhook refused.",
)
SERVER_FAILED: Final = OutcomeReason(
    FAILED,
    "ServerError",
    "The API server answered 5xx, for example because two PodDisruptionBudgets cover the pod.",
)
POD_STILL_RUNNING: Final = OutcomeReason(
    FAILED,
    "FoundRunning",
    "The response was lost; reading the pod showed that it was not evicted.",
)
POD_GONE: Final = OutcomeReason(
    UNKNOWN,
    "FoundGone",
    "The response was lost and the pod is gone: by this eviction, or deleted otherwise.",
)
EVICTED_LATE: Final = OutcomeReason(
    UNKNOWN,
    "EvictedLater",
    "In a correction: after the outcome, which said that the pod was not evicted, it was evicted: "
    "by the request, which came late, or by another client.",
)
DRY_RUN_NOT_SENT: Final = OutcomeReason(
    DRY_RUN, "DryRun", "A dry run: no request was sent; a real run would have sent one."
)
EVICTIONS_PAUSED: Final = OutcomeReason(
    CANCELLED,
    "EvictionsPaused",
    "Evictions were paused before the request was sent; the message has the pause.",
)
POLICY_CHANGED: Final = OutcomeReason(
    CANCELLED,
    "PolicyChanged",
    "Another policy, or other settings, came into force before the request was sent.",
)
DECISION_OUTDATED: Final = OutcomeReason(
    CANCELLED,
    "DecisionOutdated",
    "Before the request was sent the pod changed or left, the place found for it was lost, or five "
    "seconds passed; the pod is evaluated again.",
)
JOURNAL_UNAVAILABLE: Final = OutcomeReason(
    CANCELLED, "JournalUnavailable", "The journal could not write the intent; no request was sent."
)
RECORD_UNWRITABLE: Final = OutcomeReason(
    CANCELLED,
    "RecordUnwritable",
    "The record of the eviction is too long, or no Unicode, by what its plugin says of the pod; no "
    "request was sent, as nothing is evicted without a record. The pod is evaluated again, and the "
    "plugin has to say less.",
)
SHUTTING_DOWN: Final = OutcomeReason(
    CANCELLED, "ShuttingDown", "The process was stopping; no request was sent."
)
DRY_RUN_INTERRUPTED: Final = OutcomeReason(
    CANCELLED, "DryRunInterrupted", "A dry run ended between the intent and its outcome."
)


def outcome_from_response(response: EvictionResponse) -> Outcome | None:
    """Return the outcome of a response; None when its effect is unknown: the pod must be read."""
    match response:
        case Accepted():
            return EVICTION_ACCEPTED.outcome()
        case LeavesLater(message=message, is_soft=is_soft):
            return (SOFT_EVICTION_REQUESTED if is_soft else EVICTION_IN_BACKGROUND).outcome(message)
        case DryRun():
            return DRY_RUN_NOT_SENT.outcome()
        case PdbRefused(message=message, retry_after_s=wait):
            return PDB_REFUSED_EVICTION.outcome(message, wait)
        case TooManyRequests(message=message, retry_after_s=wait):
            return SERVER_BUSY.outcome(message, wait)
        case NotFound():
            return POD_NOT_FOUND.outcome("the pod did not exist any more")
        case Conflict(message=message):
            return POD_CONFLICT.outcome(message)
        case Denied(status=status, message=message):
            return REQUEST_DENIED.outcome(f"{status}: {message}")
        case ServerError(status=status, message=message):
            return SERVER_FAILED.outcome(f"{status}: {message}")
        case _:
            return None


def outcome_from_lookup(
    request: EvictionRequest, lookup: PodLookup, effect_timeout_s: float
) -> Outcome:
    """Return the outcome that reading the pod shows, after a request of unknown effect.

    A pod that still exists shows it only once the request can no longer arrive, `effect_timeout_s`
    after it was sent, unless it is terminating, or annotated by a soft eviction.
    """
    if not isinstance(lookup, PodFound) or lookup.uid != request.uid:
        return POD_GONE.outcome("a read of the pod shows that it is gone")
    is_soft = request.options.policy is EvictionPolicy.SOFT_EVICTION
    if is_soft and _is_annotated_by(request, lookup):
        return SOFT_EVICTION_REQUESTED.outcome("a read of the pod shows the annotation")
    if not lookup.terminating:
        return POD_STILL_RUNNING.outcome("a read of the pod shows that it was not evicted")
    seen = "a read of the pod shows that it is terminating"
    if not lookup.disruption:
        return POD_TERMINATING.outcome(f"{seen}, without the condition DisruptionTarget")
    seen = f"{seen}, and its condition DisruptionTarget has the reason {lookup.disruption}"
    is_by_eviction = lookup.disruption == BY_EVICTION_API
    if not is_by_eviction or request.options.policy is not EvictionPolicy.EVICTION:
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


def _is_annotated_by(request: EvictionRequest, found: PodFound) -> bool:
    """Say whether the annotation of a soft eviction is that of the request: times are cut."""
    if not found.is_soft:
        return False
    asked_s = request.sent.own_s
    return asked_s is None or (found.soft_asked_s or 0.0) >= int(asked_s)
