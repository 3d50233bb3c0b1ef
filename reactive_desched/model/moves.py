"""The end of a move: the replacement of an evicted pod, and how following it ended."""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol, TypeVar

from msgspec import Struct

from reactive_desched.model.objects import TERMINAL_PHASES, NoApiObject, Pod, PodKey, controller_of
from reactive_desched.text.workloads import workload_key, workload_name

MOVED: Final = "moved"
RETURNED: Final = "returned"
NOT_READY: Final = "not_ready"
UNSCHEDULED: Final = "unscheduled"
NOT_REPLACED: Final = "not_replaced"
OWNER_GONE: Final = "owner_gone"
NOT_FOLLOWED: Final = "not_followed"

FAILED_RESULTS: Final = frozenset({NOT_READY, UNSCHEDULED})
"""The replacement does not run: to evict it, or a sibling, again would not help either."""


_WORDS: Final = {
    MOVED: "moved",
    RETURNED: "returned to its node",
    NOT_READY: "the replacement was not Ready in time",
    UNSCHEDULED: "the replacement was bound to no node in time",
    NOT_REPLACED: "not replaced",
    OWNER_GONE: "its owner is gone",
    NOT_FOLLOWED: "not followed",
}
"""Each result, for a person."""

_WAIT_UNTIL_GONE: Final = frozenset({"DaemonSet", "StatefulSet"})
"""The controllers that create no other pod while one that has ended is there."""


def awaits_replacement(pod: Pod) -> bool:
    """Say whether a controller creates another pod once this one leaves.

    None does so for a bare pod. One that has ended was replaced when it did, but by a StatefulSet
    or a DaemonSet, which wait until such a pod is gone.
    """
    controller = controller_of(pod.owners)
    return controller is not None and (not pod.has_ended or controller.kind in _WAIT_UNTIL_GONE)


def is_clean_up(pod: Pod) -> bool:
    """Say whether an eviction of the pod ends no work, and brings no other pod.

    So it is of a pod that has ended, unless its controller replaces it only then.
    """
    return pod.has_ended and not awaits_replacement(pod)


def end_in_words(result: str, message: str = "") -> str:
    """Say how a move ended; of one without a replacement, why there is none."""
    words = _WORDS.get(result, result)
    return f"{words}: {message}" if message and result in (NOT_REPLACED, NOT_FOLLOWED) else words


def end_with_node(result: str, words: str, node: str) -> str:
    """Add the node of the replacement to the words for how a move ended."""
    join = {MOVED: " to ", RETURNED: " "}.get(result, " on ")
    return f"{words}{join}{node}"


class FutileClearing(Struct, frozen=True, gc=False):
    """A person has the moves of an owner forgotten; without an owner and its uid, of all."""

    owner: str
    owner_uid: str
    cleared: int
    by: str
    message: str


class OwnerLike(Protocol):
    """One owner of a chain, nearest first, as references and records have them."""

    @property
    def kind(self) -> str:
        """Its kind."""
        ...

    @property
    def uid(self) -> str:
        """Its uid."""
        ...


OwnerT = TypeVar("OwnerT", bound=OwnerLike)


def was_clean_up(phase: str, owners: Sequence[OwnerLike]) -> bool:
    """Say the same of an eviction by its record: the phase of the pod, and its chain of owners."""
    return phase in TERMINAL_PHASES and (not owners or owners[0].kind not in _WAIT_UNTIL_GONE)


def key_of_owner(namespace: str, uid: str) -> str:
    """Return the key of an owner of pods of this namespace; a uid alone may be any pod's claim."""
    return f"{namespace}/{uid}"


class MoveOwner(Struct, frozen=True, gc=False):
    """The topmost controller of a moved pod; of a bare pod, the pod itself."""

    namespace: str
    kind: str
    name: str
    uid: str

    def __str__(self) -> str:
        return workload_key(self.kind, self.namespace, self.name)

    @property
    def key(self) -> str:
        """A text that no other owner has: pods of another namespace may name the same uid."""
        return key_of_owner(self.namespace, self.uid)

    @property
    def title(self) -> str:
        """Its name for people."""
        return workload_name(self.kind, self.namespace, self.name)


class MoveEnd(Struct, frozen=True, gc=False):
    """The end of a move: `result` is one of the above, as events have it.

    `is_expected` says that no replacement was to come, and none came. `scheduled_s` and `ready_s`
    are seconds from the accepted eviction until the replacement was bound and Ready.
    `finding_holds` is None where the plugin had no say.
    """

    result: str
    message: str = ""
    finding_holds: bool | None = None
    scheduled_s: float | None = None
    ready_s: float | None = None
    replacement: str = ""
    replacement_uid: PodKey = ""
    node: str = ""
    is_expected: bool = False

    @property
    def helped(self) -> bool:
        """Say whether a replacement runs for which the finding does not hold."""
        return self.result in (MOVED, RETURNED) and self.finding_holds is False

    @property
    def is_futile(self) -> bool:
        """Say whether the replacement does not run, or the finding holds for it as well."""
        return bool(self.finding_holds) or self.result in FAILED_RESULTS

    @property
    def needs_a_look(self) -> bool:
        """Say whether a person should know: it was futile, or a pod is missing."""
        return self.is_futile or (self.result == NOT_REPLACED and not self.is_expected)

    @property
    def words(self) -> str:
        """The result, for a person."""
        return end_in_words(self.result, self.message)


class MoveOrigin(Struct, frozen=True, gc=False):
    """The evicted pod of a move; `began_s` is when that was decided, in seconds since the epoch.

    `place_rank` and `is_trial` are those of its finding; None and False where there is none, or an
    earlier process made it.
    """

    pod_uid: PodKey
    pod_name: str
    node: str
    template_hash: str
    plugin: str
    owner: MoveOwner
    began_s: float
    place_rank: int | None = None
    is_trial: bool = False

    def is_named(self, pod: str) -> bool:
        """Say whether this is the uid of the pod, or its NAMESPACE/NAME."""
        return pod in (self.pod_uid, f"{self.owner.namespace}/{self.pod_name}")


class MovedPods(NoApiObject, frozen=True, gc=False):
    """The pods that a plugin moved to a node lately: why the node goes on taking pods.

    A node that a plugin fills is used more with every pod that it gets. It remains one that takes
    pods as long as it would be one without these. `pods` has when each of them came, by uid, in
    seconds since the epoch; without pods it says that there are none any more.
    """

    plugin: str
    node: str
    pods: Mapping[PodKey, float]

    @property
    def key(self) -> str:
        """The plugin and the node."""
        return f"{self.plugin}/{self.node}"


class EndedMove(Struct, frozen=True, gc=False):
    """A move that ended, and the id of the eviction request that it followed; empty without one."""

    request_id: str
    origin: MoveOrigin
    end: MoveEnd


def replacing_owner(chain: Sequence[OwnerT]) -> OwnerT | None:
    """Return the owner whose new pods replace an evicted one; None for a bare pod.

    It is the pod's controller; of a ReplicaSet the one above it, for a rollout may create the
    replacement in another ReplicaSet.
    """
    if not chain:
        return None
    return chain[1] if chain[0].kind == "ReplicaSet" and len(chain) > 1 else chain[0]
