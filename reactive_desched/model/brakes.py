"""Notices that a brake engaged or was released, and the state that is kept over a restart."""

from typing import ClassVar, Final

from msgspec import Struct

from reactive_desched.model.approvals import SavedAnswer
from reactive_desched.model.changes import Change
from reactive_desched.model.wakes import ChangeTypes, WakeOn

CLUSTER: Final = "cluster"
"""The scope of a brake that holds every pod."""


MAX_PAUSE_S: Final = 366 * 86_400
"""The longest pause with an end, in seconds."""


class BrakeLifted(Change, frozen=True, gc=False):
    """A brake no longer holds a scope, such as `cluster` or `namespace shop`."""

    brake: str
    scope: str = CLUSTER


class WakeOnBrake(WakeOn, frozen=True, gc=False):
    """A brake is released in a scope."""

    changes: ClassVar[ChangeTypes] = (BrakeLifted,)
    words = "the release of the {brake} brake"
    brake: str
    scope: str = CLUSTER


ZONE: Final = "zone"
STORM: Final = "storm"
PENDING: Final = "pending"
MANUAL: Final = "manual"
BRAKES: Final = (ZONE, STORM, PENDING, MANUAL)
"""The brakes that are always there, by the names that metrics, records and /readyz give them.

Each health check is one more, `health/` and its name.
"""

HEALTH_PREFIX: Final = "health/"
"""How the name of a health check's brake begins; its name follows."""


class BrakeNotice(Struct, frozen=True, gc=False):
    """A brake engaged, or was released, in a scope: `cluster`, `zone eu/a`, `namespace shop`.

    `message` says why, for people; `by` names the person, where one did it. `until_s` is when a
    pause ends by itself, in seconds since the epoch.
    """

    brake: str
    scope: str
    engaged: bool
    message: str
    by: str = ""
    until_s: float | None = None


class BrakeState(Struct, frozen=True, gc=False):
    """A brake that holds evictions now: which pods, why, since when, and what releases it.

    `scope` is `cluster`, or the zones, namespaces, profiles or plugins that it holds. `release`
    says what ends it, for people; `until_s` is when time alone does, at the earliest where it
    `is_least`. Times are seconds since the epoch.
    """

    name: str
    scope: str
    message: str
    since_s: float
    release: str
    until_s: float | None = None
    is_least: bool = False


class SavedPause(Struct, frozen=True, gc=False, omit_defaults=True):
    """A person's pause, as it outlives a restart; times are seconds since the epoch."""

    by: str
    reason: str
    since_s: float
    until_s: float | None = None


class SavedStorm(Struct, frozen=True, gc=False):
    """A storm that holds one namespace, as it outlives a restart; `message` says what it is."""

    namespace: str
    message: str


class SavedBrakes(Struct, frozen=True, gc=False, omit_defaults=True):
    """The brakes that only a person, or a quiet time, releases.

    `storm` is the message of a storm that holds the cluster, `storms` those of single namespaces;
    `storm_since_s` is when the first of them began, in seconds since the epoch. `answers` are what
    persons said of proposals, which holds evictions until then, too.
    """

    pause: SavedPause | None = None
    storm: str = ""
    storm_since_s: float = 0.0
    answers: tuple[SavedAnswer, ...] = ()
    storms: tuple[SavedStorm, ...] = ()
