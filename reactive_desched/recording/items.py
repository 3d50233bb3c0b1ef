"""The items of a recording, in the order in which the controller saw them.

Each reader of a recording yields `Item`s, and each part that alters or replays one takes them: a
folder, a file, an import of another program's recording and an anonymized copy look the same.
Objects are those that the cluster state keeps, whole: what it does not keep, such as managed fields
and environment variables, is in no recording.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import chain, pairwise
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.model.brakes import SavedBrakes
from reactive_desched.model.health import HealthAnswer
from reactive_desched.model.node_conditions import StatusChange
from reactive_desched.model.objects import ClusterObject
from reactive_desched.model.outcomes import EvictionResponse, PodLookup
from reactive_desched.model.taints import Taint
from reactive_desched.model.usage import NodeUsage


class Instant(Struct, frozen=True, gc=False, array_like=True, order=True):
    """The time of an item: the time of day, and monotonic seconds of the process that saw it.

    Debounce, rates and retries go by `monotonic_s`, ages by `wall_s`, in seconds since the epoch.
    """

    wall_s: float
    monotonic_s: float

    def is_step_to(self, other: "Instant") -> bool:
        """Say whether the time of day was set in between, or another process has its own."""
        ahead_s = self.wall_s - self.monotonic_s
        return abs(other.wall_s - other.monotonic_s - ahead_s) > STEP_S


STEP_S: Final = 0.25
"""A smaller correction of the time of day is none: moments are kept apart less exactly."""

NO_TIME: Final = Instant(0.0, 0.0)
"""The time of an item before it has one."""


class Item(Struct, frozen=True, gc=False):
    """Base of all items."""

    at: Instant


class PictureBegun(Item, frozen=True, gc=False):
    """Everything that the state held at this moment follows, up to `PictureEnded`.

    The objects of a reader before it are to be forgotten. Changes may stand between its objects:
    a picture is made in parts. An object in a later part is as it was after those changes, so that
    what is true at `PictureEnded` is the same whether a reader began before the picture or with it.
    In one that continues nothing, an object that changes is found as it was before, too.
    `version` is that of the program, `cluster` and `cluster_uid` say of which cluster it is;
    `denied` are the resources that the API server denies the controller. With `is_continued` every
    change since the item before it is in the recording; without, what came between is not known.
    """

    version: str = ""
    cluster: str = ""
    cluster_uid: str = ""
    denied: tuple[str, ...] = ()
    is_continued: bool = False


class PictureEnded(Item, frozen=True, gc=False):
    """The picture is complete: `objects` says how many objects of each resource it has."""

    objects: Mapping[str, int] = {}


class ObjectFound(Item, frozen=True, gc=False):
    """An object of a picture; `resource` is the name of its kind in the API, such as pods."""

    resource: str
    obj: ClusterObject


class Verb(StrEnum):
    """The change of an object, as a watch says it."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class ObjectChanged(Item, frozen=True, gc=False):
    """A change that altered an object of the state: the object as it is now, or was last.

    Its resourceVersion is that of the object; 0 where no event named one, as for a deletion that a
    new list showed.
    """

    resource: str
    verb: Verb
    obj: ClusterObject


class UsageMeasured(Item, frozen=True, gc=False):
    """A sample of measured use that is in force from now on, for its source and node.

    With `is_gone` it is in force no longer, and the node's use by this source is unknown.
    """

    sample: NodeUsage
    is_gone: bool = False


class ResourceDenied(Item, frozen=True, gc=False):
    """The API server denies the controller a resource from now on, or no longer does."""

    resource: str
    is_denied: bool = True


class ConfigurationInForce(Item, frozen=True, gc=False):
    """The policy and the settings that decide from now on: their texts, and where they came from.

    A secret in the settings is none: those name the files of secrets. `flags` has those of the
    command line that decide besides them, such as dryRun and nodeSelector, with their values, and
    what was read of each calendar, by the number of its schedule, such as calendar0.
    """

    policy: str
    settings: str = ""
    revision: str = ""
    source: str = ""
    flags: Mapping[str, str] = {}


class PauseSet(Item, frozen=True, gc=False):
    """A pause of the controller holds from now on, or ended where `reason` is empty.

    `name` is one of those in `controller/readiness.py`, such as manual or sync/pods.
    """

    name: str
    reason: str = ""


class BrakesHeld(Item, frozen=True, gc=False):
    """The pause of a person and the storm that hold from now on, as they would outlive a restart.

    `pause_file` is the text of the pause file, empty where there is none. `storm_ends` has of
    each storm, that of the cluster first, when it ends if it stays quiet, in monotonic seconds.
    """

    saved: SavedBrakes = SavedBrakes()
    pause_file: str = ""
    storm_ends: tuple[float, ...] = ()


class HealthAnswered(Item, frozen=True, gc=False):
    """The answer to the health check of this name, which counts from now on."""

    name: str
    answer: HealthAnswer


class OrderGiven(Item, frozen=True, gc=False):
    """An order of a person, before it is carried out: `order` is its name, such as pause.

    `who` gave it, and `arguments` are the members of its body as texts. An order that cannot be
    carried out has no effect, and stands here all the same.
    """

    order: str
    who: str = ""
    arguments: Mapping[str, str] = {}


class TermChanged(Item, frozen=True, gc=False):
    """This process leads from now on, or does so no longer; `identity` is its own name."""

    leads: bool
    identity: str = ""


class HistoryRead(Struct, frozen=True, gc=False):
    """The clocks by which a process counted the ages of what its journal had at its start.

    It had the records up to `sequence`. `boot_id` and `uptime_ms` are of the machine, `server_s` is
    the API server's time of day; each is empty or None where it was not known.
    """

    sequence: int
    wall_s: float
    boot_id: str = ""
    uptime_ms: int = 0
    server_s: float | None = None


class InheritedEnd(Struct, frozen=True, gc=False):
    """The end of an eviction that an earlier process had left open.

    `ended_s` is when this process took it up, in its monotonic seconds; recordings of before lack
    it.
    """

    uid: str
    result: str
    reason: str = ""
    message: str = ""
    retry_after_s: float | None = None
    ended_s: float | None = None


class ProcessBegan(Item, frozen=True, gc=False):
    """The times from which this process counts, in its monotonic seconds; None before each.

    At `empty_from_s` every limit had no token, as another leader's evictions were not known. At
    `restored_s` limits and memory had what the journal had, which was read at `history`; None where
    it could not be read. From `evaluates_from_s` on subjects are evaluated, and rates warm up.
    `ended` and `inherited` are evictions that an earlier process left open: those that have ended,
    and the pods of the others. `has_job_steps` says that what is written of
    migration jobs is recorded, and each answer.
    """

    empty_from_s: float | None = None
    history: HistoryRead | None = None
    restored_s: float | None = None
    evaluates_from_s: float | None = None
    ended: tuple[InheritedEnd, ...] = ()
    inherited: tuple[str, ...] = ()
    has_job_steps: bool = False

    def with_end(self, end: InheritedEnd) -> "ProcessBegan":
        """Return it with the end of one that was open."""
        still_open = (uid for uid in self.inherited if uid != end.uid)
        return replace(self, ended=(*self.ended, end), inherited=tuple(still_open))


class InheritedEvictionEnded(Item, frozen=True, gc=False):
    """An eviction that an earlier process had left open ended."""

    end: InheritedEnd


class NodeSeen(Item, frozen=True, gc=False):
    """A node of a picture, with the times from which its taints and labels count.

    Times are monotonic seconds, as this process saw the node. Of labels there are those that have
    changed since then, with their value before, None where they were not there. `pods` are the uids
    of its pods as they came, where that is another order than by namespace and name, in a first
    picture. Of each condition there are the last changes of its status. `opened_s` is when it last
    began to take pods, None where the process did not see it.
    """

    node: str
    known_since_s: float
    created_s: float
    ready_since_s: float
    taints: tuple[tuple[Taint, float], ...] = ()
    labels: tuple[tuple[str, float, str | None], ...] = ()
    pods: tuple[str, ...] = ()
    conditions: tuple[tuple[str, tuple[StatusChange, ...]], ...] = ()
    opened_s: float | None = None


class NodesClosed(Item, frozen=True, gc=False):
    """The nodes that were closed within the last hours, and when, in monotonic seconds."""

    times: tuple[tuple[str, float], ...]


class Worked(Item, frozen=True, gc=False):
    """The controller evaluated what was due at this moment.

    With `ended_after` its slice of the event loop ended after so many steps: it went on in a later
    one. What prepares an answer is no step, as a person may have asked for the same before.
    Recordings of before have `interrupted_after` instead: how often it had asked whether it should
    end.
    """

    interrupted_after: int = 0
    ended_after: int | None = None


class LookedForWork(Item, frozen=True, gc=False):
    """The controller woke, and nothing was due: brakes whose time had come are released by that."""


class RequestWritten(Item, frozen=True, gc=False):
    """The request for an eviction was written to the journal, with this id.

    It is sent next, unless it must not be any more: `is_sent` says it. One that `is_observed` is
    never sent.
    """

    uid: str
    request_id: str
    is_sent: bool = True
    is_observed: bool = False


class EvictionAnswered(Item, frozen=True, gc=False):
    """The API server's answer to an eviction request, when it came.

    `sent_s` is when the request was sent, in monotonic seconds.
    """

    namespace: str
    name: str
    uid: str
    response: EvictionResponse
    sent_s: float = 0.0


class EvictionSettled(Item, frozen=True, gc=False):
    """The end of an eviction that was decided, when the controller was given it.

    That is later than the answer by the time that the disk took, and there is one for each that
    was decided: also where no request was sent. `result` and what follows are those of the outcome;
    `request_id` is that of the record, empty where none was written. `sent_s` is when the request
    was sent, or would have been, in monotonic seconds. One that `is_observed` was decided by a
    plugin that only observes.
    """

    uid: str
    result: str
    reason: str = ""
    message: str = ""
    retry_after_s: float | None = None
    request_id: str = ""
    sent_s: float = 0.0
    is_observed: bool = False


class JobLookedAt(Item, frozen=True, gc=False):
    """A migration job was due, and the controller decided what to write of it: its next `step`.

    `name` is empty for the placeholders whose job is gone, and `step` where there is nothing to
    write; else it is the step's name, and of a status its phase, its step and its reason.
    """

    name: str
    step: str = ""


class JobOrderEnded(Item, frozen=True, gc=False):
    """The migration job that was ordered for a pod, named by its uid, was made.

    With an `error` it could not be.
    """

    uid: str
    error: str = ""


class JobStepEnded(Item, frozen=True, gc=False):
    """The API server's answer to the step of a migration job that was looked at last.

    With an `error` the step was refused, or got no answer. Without, and not `is_written`, the job
    was gone or differed; so it is of a job that was deleted.
    """

    name: str
    error: str = ""
    is_written: bool = False


class TaintRefused(Item, frozen=True, gc=False):
    """The API server refused to write the taint of a set, or with None to take it off a node.

    It decides nothing: the controller tries again later, and a taint that is there is a change of
    its node.
    """

    node: str
    value: str | None


class PodLookedUp(Item, frozen=True, gc=False):
    """The pod that the API server has of a name, read after a request of unknown effect."""

    namespace: str
    name: str
    lookup: PodLookup


class NothingChanged(Item, frozen=True, gc=False):
    """Nothing of all this was seen since the item before, up to this moment."""


STANDING: Final = (
    BrakesHeld
    | ConfigurationInForce
    | HealthAnswered
    | NodesClosed
    | PauseSet
    | ProcessBegan
    | ResourceDenied
    | TermChanged
)
"""The items that hold until the next of their kind: they stand at the head of each picture."""

STOPPED: Final = "the controller stopped"
"""The reason of a gap behind which another process begins."""


class RecordingInterrupted(Item, frozen=True, gc=False):
    """A gap: for this `reason` nothing was recorded up to the next picture."""

    reason: str


class Damage(Struct, frozen=True, gc=False):
    """The place of data that a reader could not read, and why: no item of the recording.

    With `is_torn_end` it is how a process that was killed leaves what it was writing: nothing else
    is missing.
    """

    file: str
    offset: int
    message: str
    is_torn_end: bool = False

    def __str__(self) -> str:
        return f"{self.file}, byte {self.offset}: {self.message}"


Items = Iterable[Item]
"""The interface of reading: a recording, as far as it could be read, in its order."""


def with_following(items: Iterable[Item]) -> Iterator[tuple[Item, Item | None]]:
    """Yield each item with the one that follows it; None follows the last one."""
    for item, following in pairwise(chain(items, (None,))):
        if item is not None:
            yield item, following
