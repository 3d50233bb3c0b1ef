"""Past evictions, from which limits, gates and memory are restored at the start."""

from msgspec import Struct

from reactive_desched.model.eviction_options import EVICTION
from reactive_desched.model.objects import PodKey


class PastFollowUp(Struct, frozen=True, gc=False):
    """The end of a past eviction's move: `result` is one of the events' `followUp.result`.

    `node` is where the replacement went, `replacement_uid` its uid, both empty without one.
    `finding_holds` says whether the plugin
    found the same of the replacement, None where that is not known. `ready_s` is how long it took
    to be Ready, in seconds from the accepted eviction; None where it never was.
    """

    ended_s: float
    result: str
    node: str = ""
    finding_holds: bool | None = None
    replacement_uid: PodKey = ""
    ready_s: float | None = None


class PastEviction(Struct, frozen=True, gc=False):
    """One eviction that an earlier process requested; times are seconds since the epoch.

    They are by the time of day as it is now; `began_s` is when it was requested by the API server's
    clock, which also says when pods were created, else the latest that it may have been by ours.
    `accepted_s` is when the API server had answered that it evicted the pod, by its clock, too;
    0 while it has not, and where that was found by reading the pod. `request_id` is the id of the
    eviction.requested record. `ended_s` is None and `result` empty while it has no outcome;
    `follow_up` is None until its replacement was followed to the end. `owner_…` name the topmost
    controller, and `replacing_…` the owner whose new pods replace the evicted one
    (`model.moves.replacing_owner`); empty for a bare pod. `is_cleared` says that a person cleared
    the memory of the owner's moves after this one. `reason` is that of the outcome, `evictor`
    names how the pod was asked to leave, and `is_clean_up` says that it had ended, as
    `model.moves.is_clean_up` has it. `gang` names the gang with which it left, by its namespace and
    name; empty for a pod by itself.
    """

    request_id: str
    requested_s: float
    pod_uid: PodKey
    namespace: str
    pod_name: str
    node: str
    zone: str = ""
    owner_uid: str = ""
    owner_kind: str = ""
    owner_name: str = ""
    replacing_uid: str = ""
    replacing_kind: str = ""
    template_hash: str = ""
    plugin: str = ""
    profile: str = ""
    ended_s: float | None = None
    result: str = ""
    follow_up: PastFollowUp | None = None
    is_cleared: bool = False
    began_s: float = 0.0
    accepted_s: float = 0.0
    reason: str = ""
    evictor: str = EVICTION
    is_clean_up: bool = False
    gang: str = ""

    @property
    def is_open(self) -> bool:
        """Say whether it has no outcome."""
        return self.ended_s is None

    def ended_at(self, now: float, wall_now: float) -> float | None:
        """Return when it ended in monotonic seconds; None while it has no outcome.

        `now` and `wall_now` are one moment by the monotonic clock and since the epoch. After a
        step of the clock into the past, an eviction of the future counts as one of now.
        """
        return None if self.ended_s is None else now - max(0.0, wall_now - self.ended_s)
