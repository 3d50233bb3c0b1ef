"""One evicted pod and the pod that takes its place."""

from collections.abc import Iterable, Sequence
from typing import Final

from reactive_desched.model.findings import Finding
from reactive_desched.model.history import PastEviction
from reactive_desched.model.moves import (
    MOVED,
    RETURNED,
    MoveEnd,
    MoveOrigin,
    MoveOwner,
    awaits_replacement,
    replacing_owner,
)
from reactive_desched.model.objects import SUCCEEDED, OwnerReference, Pod, PodKey

CLOCK_SKEW_S: Final = 2.0
"""So far may the API server's clock be behind ours where it says when a pod was created."""

MAX_PASSED_OVER: Final = 20
"""So many pods that came too early are remembered of one move; then the earliest is dropped."""

MatchKey = tuple[str, str]
"""The uid of the owner that creates the replacement, and the pod's name where it keeps that."""

ScopeKey = tuple[str, str]
"""A scope and the name in it, for example ("node", "n1")."""


class Move:
    """An eviction that was decided, until its replacement is Ready; times are monotonic seconds.

    `match_key` is None for a pod that no controller replaces: a bare one, and one that had ended,
    whose controller replaced it then. `controller_uid` is that of the evicted pod's controller,
    empty where it is not known. `accepted_at` is None until
    the API server accepted the eviction, `gone_at` until the evicted pod is gone, and
    `replacement` until there is one. `request_id` is empty until the outcome is recorded.
    `passed_over` are the last pods of the same controller that came while the evicted pod was
    still there. `had_left` says that the evicted pod was leaving or gone when this process began:
    which pods came later is not known then. `replaced_since_s` is the time of day, by the API
    server's clock, since when the replacement may have been created.
    """

    __slots__ = (
        "accepted_at",
        "controller_uid",
        "finding_holds",
        "gone_at",
        "had_left",
        "match_key",
        "origin",
        "passed_over",
        "ready_at",
        "replaced_since_s",
        "replacement",
        "request_id",
        "scheduled_at",
        "scopes",
    )

    def __init__(
        self,
        origin: MoveOrigin,
        match_key: MatchKey | None,
        controller_uid: str,
        scopes: tuple[ScopeKey, ...],
    ) -> None:
        self.origin = origin
        self.match_key = match_key
        self.controller_uid = controller_uid
        self.scopes = scopes
        self.replaced_since_s = origin.began_s
        self.request_id = ""
        self.had_left = False
        self.accepted_at: float | None = None
        self.gone_at: float | None = None
        self.replacement: Pod | None = None
        self.scheduled_at: float | None = None
        self.ready_at: float | None = None
        self.finding_holds = False
        self.passed_over: tuple[PodKey, ...] = ()

    def precedes(self, pod: Pod) -> bool:
        """Say whether a pod was created since the eviction may have happened."""
        return pod.created_s + CLOCK_SKEW_S >= int(self.replaced_since_s)

    def take_replacement(self, pod: Pod, now: float) -> bool:
        """Record the replacement as it is now; return whether it was bound just now."""
        self.replacement = pod
        was_bound = self.scheduled_at is not None
        if pod.node and not was_bound:
            self.scheduled_at = now
        if self.ready_at is None and pod.node and _does_its_work(pod):
            self.ready_at = now
        return not was_bound and self.scheduled_at is not None

    def accept(self, now: float) -> None:
        """Record that the API server accepted the eviction."""
        self.accepted_at = now

    def name_request(self, request_id: str) -> None:
        """Say which record's eviction request this is."""
        self.request_id = request_id

    def lose_evicted(self, now: float) -> None:
        """Record that the evicted pod is gone."""
        self.gone_at = now

    def miss_leaving(self) -> None:
        """Record that the evicted pod was leaving or gone when this process began."""
        self.had_left = True

    def pass_over(self, pods: Iterable[PodKey]) -> None:
        """Record that these pods of the controller came while the evicted pod was still there."""
        self.passed_over = (*self.passed_over, *pods)[-MAX_PASSED_OVER:]

    def confirm_finding(self) -> None:
        """Record that the plugin finds the same of the replacement."""
        self.finding_holds = True

    def lose_replacement(self, now: float) -> None:
        """Wait for another replacement: this one is gone, and its owner creates another."""
        self.replacement = None
        self.scheduled_at = self.ready_at = None
        self.finding_holds = False
        self.gone_at = now

    def ended(
        self, result: str, message: str, *, plugin_in_force: bool, is_expected: bool = False
    ) -> MoveEnd:
        """Return the end with this result; `is_expected`: no replacement was to come."""
        pod = self.replacement
        was_judged = result in (MOVED, RETURNED) and plugin_in_force
        return MoveEnd(
            result,
            message,
            self.finding_holds if self.finding_holds or was_judged else None,
            self._since_accepted(self.scheduled_at),
            self._since_accepted(self.ready_at),
            "" if pod is None else pod.name,
            "" if pod is None else pod.uid,
            "" if pod is None else pod.node,
            is_expected,
        )

    def _since_accepted(self, at: float | None) -> float | None:
        if at is None or self.accepted_at is None:
            return None
        return max(0.0, at - self.accepted_at)


def new_move(finding: Finding, chain: Sequence[OwnerReference], zone: str, now_s: float) -> Move:
    """Return the move of a pod that is about to be evicted; `now_s` is the time of day."""
    pod, plugin = finding.pod, finding.plugin
    owner = owner_of(pod, chain)
    origin = MoveOrigin(
        *(pod.uid, pod.name, pod.node, pod.template_hash, plugin, owner, now_s),
        place_rank=finding.place_rank,
    )
    match_key = match_key_of(chain, pod.name) if awaits_replacement(pod) else None
    controller_uid = chain[0].uid if chain else ""
    return Move(origin, match_key, controller_uid, scopes_of(owner, pod.node, zone))


def past_move(past: PastEviction, accepted_at: float | None) -> Move:
    """Return the move of an earlier process's eviction, whose end is not known.

    `accepted_at` is None where it is not known either whether the API server accepted it. One that
    it answered may have happened as late as that: a proxy may have held the request.
    """
    name = past.pod_name if past.replacing_kind == _STATEFUL_SET else ""
    match_key = (past.replacing_uid, name) if past.replacing_uid else None
    origin = origin_of_past(past)
    controller_uid = "" if past.replacing_kind == _DEPLOYMENT else past.replacing_uid
    move = Move(origin, match_key, controller_uid, scopes_of(origin.owner, past.node, past.zone))
    move.accepted_at = accepted_at
    move.replaced_since_s = max(origin.began_s, past.accepted_s)
    move.request_id = past.request_id
    return move


def origin_of_past(past: PastEviction) -> MoveOrigin:
    """Return the evicted pod of an earlier process's eviction."""
    owner = MoveOwner(
        past.namespace,
        past.owner_kind or _POD,
        past.owner_name or past.pod_name,
        past.owner_uid or past.pod_uid,
    )
    return MoveOrigin(
        past.pod_uid,
        past.pod_name,
        past.node,
        past.template_hash,
        past.plugin,
        owner,
        past.began_s or past.requested_s,
    )


def owner_of(pod: Pod, chain: Sequence[OwnerReference]) -> MoveOwner:
    """Return the topmost controller of a pod, by its chain of owners; of a bare pod, itself."""
    if not chain:
        return MoveOwner(pod.namespace, _POD, pod.name, pod.uid)
    return MoveOwner(pod.namespace, chain[-1].kind, chain[-1].name, chain[-1].uid)


def scopes_of(owner: MoveOwner, node: str, zone: str) -> tuple[ScopeKey, ...]:
    """Return every scope that a move counts in; a node without a zone counts in no zone."""
    scopes = (
        ("owner", owner.uid),
        ("namespace", owner.namespace),
        ("node", node),
        ("zone", zone),
        ("cluster", "cluster"),
    )
    return scopes if zone and node else tuple([scope for scope in scopes if scope[1]])


def match_key_of(chain: Sequence[OwnerReference], name: str) -> MatchKey | None:
    """Return what a pod and its replacement have in common; a StatefulSet keeps the name."""
    if (owner := replacing_owner(chain)) is None:
        return None
    return owner.uid, name if owner.kind == _STATEFUL_SET else ""


_POD: Final = "Pod"
_DEPLOYMENT: Final = "Deployment"
_STATEFUL_SET: Final = "StatefulSet"


def _does_its_work(pod: Pod) -> bool:
    return pod.status.is_ready or pod.status.phase == SUCCEEDED
