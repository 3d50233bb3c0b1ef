"""Annotations by which pods, workloads, namespaces and nodes ask to be left alone, for how long.

Programs read most of them by one spelling, or by whether they are there at all. Here a value means
what a person means who writes it: `"false"`, `"no"` and `"0"` say no.
"""

from datetime import UTC, datetime
from enum import Enum, auto
from typing import Final

from msgspec import Struct

from reactive_desched.primitives.durations import DurationError, parse_duration

EVICT: Final = "descheduler.alpha.kubernetes.io/evict"
"""The SIG descheduler's annotation by which a pod passes its protections: there whatever the value,
here not with one that says no."""

PREFER_NO_EVICTION: Final = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
"""The SIG descheduler's annotation of a pod that is evicted after others, or not at all where the
policy makes it mandatory."""

REQUEST_EVICT_ONLY: Final = "descheduler.alpha.kubernetes.io/request-evict-only"
"""The SIG descheduler's annotation of a pod that another program moves once it is asked to."""
EVICTION_IN_PROGRESS: Final = "descheduler.alpha.kubernetes.io/eviction-in-progress"
"""The annotation by which that program says that it does."""

DO_NOT_EVICT: Final = "reactive-desched/do-not-evict"
"""Ours: `true`, `false`, a time as RFC 3339 writes it, or a duration since the pod's creation."""
SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
SCALE_DOWN_DISABLED: Final = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
"""cluster-autoscaler's annotation of a node that it does not remove."""


FALSE_WORDS: Final = frozenset({"false", "no", "off", "n", "f", "0"})
TRUE_WORDS: Final = frozenset({"true", "yes", "on", "y", "t", "1"})
"""How YAML and Go write truth, in any case of letters."""


def says_no(value: str | None) -> bool:
    """Say whether the value of an annotation is a word for no."""
    return value is not None and value.strip().casefold() in FALSE_WORDS


def says_yes(value: str | None) -> bool:
    """Say whether the value of an annotation is a word for yes."""
    return value is not None and value.strip().casefold() in TRUE_WORDS


class EvictWish(Enum):
    """The meaning of a pod's annotation `evict`."""

    NONE = auto()
    """Nothing: it is not there."""
    PASSES = auto()
    """The pod passes every protection of the evictor."""
    STAYS = auto()
    """The pod stays where it is."""


def evict_wish_as_upstream(value: str | None) -> EvictWish:
    """Read the annotation `evict` as the SIG descheduler: it is there or not."""
    return EvictWish.NONE if value is None else EvictWish.PASSES


def evict_wish(value: str | None) -> EvictWish:
    """Read the annotation `evict` as a person means it; what is no word for no lets the pod go."""
    if value is None:
        return EvictWish.NONE
    return EvictWish.STAYS if says_no(value) else EvictWish.PASSES


def is_clear_evict_wish(value: str) -> bool:
    """Say whether a value of the annotation `evict` is one that people write, or empty."""
    return not value.strip() or says_no(value) or says_yes(value)


def is_set(value: str | None) -> bool:
    """Say whether an annotation that is read as there or not is there, and does not say no."""
    return value is not None and not says_no(value)


class OptOut(Struct, frozen=True, gc=False):
    """A request to be left alone; `until_s` is None where it does not end by itself.

    Times are seconds since the epoch. A value that is none of those above protects, and
    `is_malformed` says so.
    """

    until_s: float | None = None
    is_malformed: bool = False


def read_opt_out(value: str | None, created_s: float) -> OptOut | None:
    """Read the value of an annotation for a pod of this creation time; None: nothing is asked."""
    if value is None or says_no(value):
        return None
    if says_yes(value):
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
