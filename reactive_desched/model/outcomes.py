"""The API server's response to an eviction request, and the outcome of an intent.

An EvictionResponse answers one request; an Outcome is the single end of one intent.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from reactive_desched.model.eviction_options import BY_EVICTION, EvictionOptions


class RequestTime(Struct, frozen=True, gc=False):
    """The time of a request, in seconds since the epoch; None for a clock that is not known.

    By the API server's clock it is rather too early, and our own clock may have been set.
    """

    server_s: float | None = None
    own_s: float | None = None


NOT_KNOWN: Final = RequestTime()


class EvictionRequest(Struct, frozen=True, gc=False):
    """One eviction to send; the uid precondition protects any other pod of the same name.

    `case` names the case in our records that it is of, for who reads the API server's audit log.
    """

    namespace: str
    name: str
    uid: str
    message: str = ""
    options: EvictionOptions = BY_EVICTION
    sent: RequestTime = NOT_KNOWN
    case: str = ""


class EvictionResponse(Struct, frozen=True, gc=False):
    """Base of all responses to an eviction request."""


class Accepted(EvictionResponse, frozen=True, gc=False):
    """2xx: the pod is deleted or terminating."""


class PdbRefused(EvictionResponse, frozen=True, gc=False):
    """429 with cause DisruptionBudget: the PDB allows no disruption, or its status is stale."""

    message: str
    retry_after_s: float | None = None


class TooManyRequests(EvictionResponse, frozen=True, gc=False):
    """429 without that cause, or the API server's 503: it or a webhook is overloaded."""

    message: str
    retry_after_s: float | None = None


class NotSent(EvictionResponse, frozen=True, gc=False):
    """No request left: no connection to the API server, none to this cluster, or our own limit."""

    message: str


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


_NO_ANNOTATIONS: Final[Mapping[str, str]] = MappingProxyType({})


class PodNotFound(Struct, frozen=True, gc=False):
    """The API server has no pod of that name."""


class PodFound(Struct, frozen=True, gc=False):
    """The API server has a pod of that name, with this uid.

    `disruption` is the reason of its condition DisruptionTarget, empty where that is not True, and
    `disrupted_s` when it became True, `deleted_s` when its deletion began, in seconds since the
    epoch by the API server's clock. `grace_period_s` is the grace period of the deletion, and
    `own_grace_period_s` that of the pod's spec.
    """

    uid: str
    terminating: bool
    disruption: str = ""
    disrupted_s: int | None = None
    deleted_s: int | None = None
    grace_period_s: int | None = None
    own_grace_period_s: int | None = None
    annotations: Mapping[str, str] = _NO_ANNOTATIONS


PodLookup = PodNotFound | PodFound


class Outcome(Struct, frozen=True, gc=False):
    """The end of an intent; each intent has exactly one outcome.

    `result` is one of RESULTS and decides what happens next. `reason` is a CamelCase code;
    `message` is for people, in the API server's words where there are any.
    """

    result: str
    message: str = ""
    retry_after_s: float | None = None
    reason: str = ""


BY_EVICTION_API: Final = "EvictionByEvictionAPI"
"""The reason of the condition DisruptionTarget that the eviction endpoint sets."""

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


def recorded_outcome(
    result: str, reason: str, message: str = "", retry_after_s: float | None = None
) -> Outcome:
    """Return the outcome that a record names by its result and its code."""
    return Outcome(result, message, retry_after_s, reason)


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


class LeavesLater(EvictionResponse, frozen=True, gc=False):
    """Another program lets the pod leave: 429 of one that has begun to, as KubeVirt's, or 2xx.

    `reason` is that of the outcome.
    """

    message: str
    reason: OutcomeReason = EVICTION_IN_BACKGROUND


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
REQUEST_NOT_SENT: Final = OutcomeReason(
    FAILED,
    "NotSent",
    "No request was sent: there was no connection to the API server, or it did not say which "
    "cluster it is, or too many requests wait here already. The message has why.",
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
    "Before the request was sent the pod changed or left, what was found of it held no more, an "
    "annotation, the policy or a person came to keep it, a schedule closed, the place found for it "
    "was lost, or five seconds passed; the pod is evaluated again.",
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
        case LeavesLater(message=message, reason=reason):
            return reason.outcome(message)
        case DryRun():
            return DRY_RUN_NOT_SENT.outcome()
        case PdbRefused(message=message, retry_after_s=wait):
            return PDB_REFUSED_EVICTION.outcome(message, wait)
        case TooManyRequests(message=message, retry_after_s=wait):
            return SERVER_BUSY.outcome(message, wait)
        case NotFound():
            return POD_NOT_FOUND.outcome("the pod did not exist any more")
        case Conflict(message=message) | NotSent(message=message):
            reason = POD_CONFLICT if isinstance(response, Conflict) else REQUEST_NOT_SENT
            return reason.outcome(message)
        case Denied(status=status, message=message):
            return REQUEST_DENIED.outcome(f"{status}: {message}")
        case ServerError(status=status, message=message):
            return SERVER_FAILED.outcome(f"{status}: {message}")
        case _:
            return None
