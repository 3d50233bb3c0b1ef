"""Annotations by which pods, workloads, namespaces and nodes ask to be left alone, for how long."""

from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from reactive_desched.primitives.durations import DurationError, parse_duration

EVICT: Final = "descheduler.alpha.kubernetes.io/evict"
"""The SIG descheduler's annotation by which a pod passes its protections, whatever the value."""

REQUEST_EVICT_ONLY: Final = "descheduler.alpha.kubernetes.io/request-evict-only"
"""The SIG descheduler's annotation of a pod that another program moves once it is asked to."""
EVICTION_IN_PROGRESS: Final = "descheduler.alpha.kubernetes.io/eviction-in-progress"
"""The annotation by which that program says that it does."""

DO_NOT_EVICT: Final = "reactive-desched/do-not-evict"
"""Ours: `true`, `false`, a time as RFC 3339 writes it, or a duration since the pod's creation."""
SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"


class OptOut(Struct, frozen=True, gc=False):
    """A request to be left alone; `until_s` is None where it does not end by itself.

    Times are seconds since the epoch. A value that is none of those above protects, and
    `is_malformed` says so.
    """

    until_s: float | None = None
    is_malformed: bool = False


def read_opt_out(value: str | None, created_s: float) -> OptOut | None:
    """Read the value of an annotation for a pod of this creation time; None: nothing is asked."""
    if value is None or value == "false":
        return None
    if value == "true":
        return OptOut()
    try:
        return OptOut(created_s + parse_duration(value))
    except DurationError:
        pass
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return OptOut(is_malformed=True)
    if moment.tzinfo is None:
        return OptOut(is_malformed=True)
    return OptOut(moment.astimezone(UTC).timestamp())
