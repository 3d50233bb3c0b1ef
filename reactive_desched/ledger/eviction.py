"""One eviction, from its decision until its replacement is Ready or was given up.

The scopes in which it counts are named here, for limits of every kind.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from reactive_desched.model.evaluation import Evaluation
from reactive_desched.model.eviction_options import EVICTION
from reactive_desched.model.findings import Finding
from reactive_desched.model.history import PastEviction
from reactive_desched.model.moves import (
    MOVED,
    RETURNED,
    MoveEnd,
    MoveOrigin,
    MoveOwner,
    awaits_replacement,
    is_clean_up,
    replacing_owner,
)
from reactive_desched.model.objects import SUCCEEDED, OwnerReference, Pod, PodKey
from reactive_desched.model.outcomes import (
    COUNTS_AGAINST_LIMITS,
    EVICTED,
    POD_LEAVES,
    UNKNOWN,
    Outcome,
    recorded_outcome,
)
from reactive_desched.primitives.token_bucket import TokenBucket
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.owners import OwnerIndex
from reactive_desched.text.workloads import workload_name

CLOCK_SKEW_S: Final = 2.0
"""So far may the API server's clock be behind ours where it says when a pod was created."""

MAX_PASSED_OVER: Final = 20
"""So many pods that came too early are remembered of one eviction; then the earliest is dropped."""

MatchKey = tuple[str, str, str]
"""The namespace, the uid of the owner that creates the replacement, and a name that it keeps."""

_ACCEPTED: Final = frozenset({EVICTED, UNKNOWN})

ScopeKey = tuple[str, str]
"""A scope and the name in it, for example ("node", "n1")."""

CLUSTER: Final = "cluster"
OWNER: Final = "owner"
SINGLE: Final = "single"
"""The scope of the workloads with a single replica, named by their namespace."""
ENDED_PODS: Final = "pods"
"""The one name in the scope `ended`."""
_POD: Final = "Pod"


class EvictionScopes(NamedTuple):
    """The names of an eviction's scopes; one that it has none of is empty.

    A pod without a controller has no owner, a node may have no zone. An owner is named for people,
    by its kind, namespace and name. `ended` is that of all clean-ups, empty for any other eviction.
    """

    cluster: str
    zone: str
    node: str
    namespace: str
    owner: str
    plugin: str
    ended: str = ""

    @property
    def buckets(self) -> "EvictionScopes":
        """The names of the token buckets that it takes from: a clean-up, from its own alone."""
        return self if not self.ended else EvictionScopes("", "", "", "", "", "", self.ended)


SCOPES: Final = EvictionScopes._fields


def scopes_of(finding: Finding, view: ClusterView) -> EvictionScopes:
    """Return the scopes of an eviction that a finding asks for, by the cluster as it is now."""
    pod = finding.pod
    chain = view.index(OwnerIndex).chain(pod)
    return scopes_in(pod, chain, view.zone(pod.node), finding.plugin)


def scopes_in(pod: Pod, chain: Sequence[OwnerReference], zone: str, plugin: str) -> EvictionScopes:
    """Return the scopes of a pod's eviction by what is known of its owners and its zone."""
    owner = chain[-1].named(pod.namespace) if chain else ""
    ended = ENDED_PODS if is_clean_up(pod) else ""
    return EvictionScopes(CLUSTER, zone, pod.node, pod.namespace, owner, plugin, ended)


def past_scopes(past: PastEviction) -> EvictionScopes:
    """Return the scopes of an earlier process's eviction, by the names that they had."""
    owner = (
        workload_name(past.owner_kind, past.namespace, past.owner_name) if past.owner_uid else ""
    )
    ended = ENDED_PODS if past.is_clean_up else ""
    return EvictionScopes(CLUSTER, past.zone, past.node, past.namespace, owner, past.plugin, ended)


def owner_of(pod: Pod, chain: Sequence[OwnerReference]) -> MoveOwner:
    """Return the topmost controller of a pod, by its chain of owners; of a bare pod, itself."""
    if not chain:
        return MoveOwner(pod.namespace, _POD, pod.name, pod.uid)
    return MoveOwner(pod.namespace, chain[-1].kind, chain[-1].name, chain[-1].uid)


def past_owner(past: PastEviction) -> MoveOwner:
    """Return the topmost controller of an evicted pod, as an earlier process recorded it."""
    return MoveOwner(
        past.namespace,
        past.owner_kind or _POD,
        past.owner_name or past.pod_name,
        past.owner_uid or past.pod_uid,
    )


def moving_scopes(owner: MoveOwner, node: str, zone: str) -> tuple[ScopeKey, ...]:
    """Return the scopes in which pods that are moving are counted; an owner is named by its key."""
    scopes = (
        (OWNER, owner.key),
        ("namespace", owner.namespace),
        ("node", node),
        ("zone", zone),
        (CLUSTER, CLUSTER),
    )
    return scopes if zone and node else tuple([scope for scope in scopes if scope[1]])


def leaving_scopes(owner: MoveOwner, *, is_single: bool) -> tuple[ScopeKey, ...]:
    """Return the scopes in which is asked whose pods leave, while the ledger has the eviction."""
    of_owner = OWNER, owner.key
    return (of_owner, (SINGLE, owner.namespace)) if is_single else (of_owner,)


class Eviction:
    """One eviction; times are monotonic seconds unless they are called `..._s`.

    `finding` is what it was decided on, None of an earlier process's eviction, which has `past`
    instead, its record. `evaluation` has the decision, until there is an outcome. `is_superseded`
    says that the configuration changed since. `profile` is that of the gate. `decided_s` is the
    time of day of the decision, never in the future. `request_id` names its record and
    `requested_at` when the request was sent, both empty before that, and `evictor` names how the
    pod was asked to leave; `outcome` and `ended_at` are None while it has no outcome. `zone_token`
    is the bucket of a slowed zone in which it holds a token until then, if any.

    `moving_in` are the scopes in which it counts until it is over, and `leaving_in` those in which
    the ledger finds it for as long as it has it, until `kept_until` at least.

    Where it is not ours, or only its pod is known, `is_followed` is false: limits count it alone.

    `match_key` is None for a pod that no controller replaces: a bare one, and one that had ended,
    whose controller replaced it then. `controller_uid` is that of the evicted pod's controller,
    empty where it is not known, `replacing_uid` that of the owner whose new pods replace the
    evicted one. `gone_at` is None until the evicted pod is gone, and
    `replacement` until there is one. `passed_over` are the last pods of the same controller that
    came while the evicted pod was still there. `had_left` says that the evicted pod was leaving or
    gone when this process began: which pods came later is not known then. `replaced_since_s` is the
    time of day, by the API server's clock, since when the replacement may have been created.
    """

    __slots__ = (
        "_is_inherited",
        "_is_taken_over",
        "_is_withheld",
        "controller_uid",
        "decided_at",
        "decided_s",
        "ended_at",
        "evaluation",
        "evictor",
        "finding",
        "finding_holds",
        "followed_up_at",
        "gone_at",
        "had_left",
        "has_no_open_job",
        "is_followed",
        "is_superseded",
        "judged_at",
        "kept_until",
        "leaving_in",
        "match_key",
        "moving_in",
        "origin",
        "outcome",
        "passed_over",
        "past",
        "profile",
        "ready_at",
        "replaced_since_s",
        "replacement",
        "replacing_uid",
        "request_id",
        "requested_at",
        "scheduled_at",
        "scopes",
        "stands_as_of",
        "zone_token",
    )

    def __init__(
        self,
        origin: MoveOrigin,
        scopes: EvictionScopes,
        *,
        decided_at: float,
        decided_s: float,
        profile: str = "",
        finding: Finding | None = None,
        past: PastEviction | None = None,
        is_single: bool = False,
    ) -> None:
        self.origin = origin
        self.scopes = scopes
        self.moving_in: tuple[ScopeKey, ...] = (
            () if scopes.ended else moving_scopes(origin.owner, scopes.node, scopes.zone)
        )
        self.leaving_in = () if scopes.ended else leaving_scopes(origin.owner, is_single=is_single)
        self.kept_until = 0.0
        self.zone_token: TokenBucket | None = None
        self.has_no_open_job = False
        self.decided_at = self.judged_at = decided_at
        self.stands_as_of = -1
        self.decided_s = decided_s
        self.profile = profile
        self.finding = finding
        self.past = past
        self.evaluation: Evaluation | None = None
        self.is_superseded = False
        self.is_followed = True
        self.match_key: MatchKey | None = None
        self.controller_uid = self.replacing_uid = ""
        self.request_id = ""
        self.evictor = EVICTION
        self.requested_at: float | None = None
        self.outcome: Outcome | None = None
        self.ended_at: float | None = None
        self.replaced_since_s = origin.began_s
        self.had_left = False
        self.gone_at: float | None = None
        self.replacement: Pod | None = None
        self.scheduled_at: float | None = None
        self.ready_at: float | None = None
        self.followed_up_at: float | None = None
        self.finding_holds = False
        self.passed_over: tuple[PodKey, ...] = ()
        self._is_inherited = self._is_taken_over = self._is_withheld = False

    # --- what it is about ---

    @property
    def pod_uid(self) -> PodKey:
        """The uid of the pod."""
        return self.origin.pod_uid

    @property
    def pod(self) -> Pod | None:
        """The pod as it was decided on; None of an earlier process's eviction."""
        return None if self.finding is None else self.finding.pod

    @property
    def is_clean_up(self) -> bool:
        """Say whether it ends no work and brings no other pod: its pod had ended."""
        return bool(self.scopes.ended)

    @property
    def is_single(self) -> bool:
        """Say whether its workload has a single replica, or may have, as far as is known."""
        return len(self.leaving_in) > 1

    @property
    def is_foreign(self) -> bool:
        """Say whether it may be another's: it only counts, and no request of ours is known."""
        return not (self.is_followed or self._is_inherited)

    @property
    def is_restored(self) -> bool:
        """Say whether an earlier process requested it, or a later look showed that it happened."""
        return self.past is not None

    # --- decided, requested, ended ---

    @property
    def is_open(self) -> bool:
        """Say whether it has no outcome."""
        return self.outcome is None

    @property
    def is_under_way(self) -> bool:
        """Say whether it has no outcome and will have one: it is ours, or was inherited."""
        return self.outcome is None and (self.past is None or self._is_inherited)

    @property
    def leaves(self) -> bool:
        """Say whether its outcome says that the pod is terminating or gone, or may be."""
        return self.outcome is not None and self.outcome.result in POD_LEAVES

    @property
    def counts(self) -> bool:
        """Say whether limits count it: it has no outcome, or happened, perhaps, or in a dry run."""
        return self.outcome is None or self.outcome.result in COUNTS_AGAINST_LIMITS

    @property
    def accepted_at(self) -> float | None:
        """Return when the API server accepted it; None while it has not, as far as is known."""
        is_accepted = self.outcome is not None and self.outcome.result in _ACCEPTED
        return self.ended_at if is_accepted else None

    def evaluated(self, evaluation: Evaluation) -> None:
        """Note the evaluation that has its decision."""
        self.evaluation = evaluation

    def supersede(self) -> None:
        """Note that the configuration changed since the decision."""
        self.is_superseded = True

    def inherit(self) -> None:
        """Note that the request of an earlier process may still arrive."""
        self._is_inherited = True

    def name_request(self, request_id: str, sent_at: float, evictor: str) -> None:
        """Note which record has its request, when that was sent, and by which evictor."""
        self.request_id, self.evictor = request_id, evictor
        self.requested_at = sent_at

    def judged_again(self, now: float) -> None:
        """Note that all that may have changed since the decision is asked again now."""
        self.judged_at = now

    def note_that_it_stands(self, as_of: int) -> None:
        """Note after how many changes of the cluster its finding was seen to hold still."""
        self.stands_as_of = as_of

    def withhold(self) -> None:
        """Note that the request is not sent, also where its record was written."""
        self._is_withheld = True

    @property
    def was_sent(self) -> bool:
        """Say whether the pod was asked to leave, and the request did not fail."""
        was_requested = self.requested_at is not None and not self._is_withheld
        return was_requested and (self.outcome is None or self.leaves)

    def end(self, outcome: Outcome, now: float) -> None:
        """Note its outcome."""
        self.outcome = outcome
        self.ended_at = now
        self.evaluation = None

    def hold_token(self, of: TokenBucket) -> None:
        """Hold a token of a slowed zone until the outcome."""
        self.zone_token = of

    def keep(self, until: float) -> None:
        """Note until when it is kept at least."""
        self.kept_until = until

    def end_jobs(self) -> None:
        """Note that the migration jobs which asked for it have ended."""
        self.has_no_open_job = True

    def take_over(self) -> None:
        """Note that another program has begun to move the pod, as it was asked to."""
        self._is_taken_over = True

    @property
    def is_taken_over(self) -> bool:
        """Say whether another program has begun to move the pod."""
        return self._is_taken_over

    # --- the replacement ---

    @property
    def is_not_replaced(self) -> bool:
        """Say whether it is over, and no pod replaced the evicted one."""
        return self.followed_up_at is not None and self.replacement is None

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

    def follow_up(self, now: float) -> None:
        """Note that it is over."""
        self.followed_up_at = now

    def end_with(
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


def new_eviction(
    finding: Finding,
    chain: Sequence[OwnerReference],
    zone: str,
    profile: str,
    now: float,
    now_s: float,
    *,
    is_single: bool = False,
) -> Eviction:
    """Return the eviction of a pod that was decided just now; `now_s` is the time of day.

    `is_single` says that the pod's workload wants no other one.
    """
    pod, plugin = finding.pod, finding.plugin
    origin = MoveOrigin(
        *(pod.uid, pod.name, pod.node, pod.template_hash, plugin, owner_of(pod, chain), now_s),
        place_rank=finding.place_rank,
        is_trial=finding.is_trial,
    )
    eviction = Eviction(
        origin,
        scopes_in(pod, chain, zone, plugin),
        decided_at=now,
        decided_s=now_s,
        profile=profile,
        finding=finding,
        is_single=is_single,
    )
    replacing = replacing_owner(chain)
    eviction.replacing_uid = "" if replacing is None else replacing.uid
    eviction.controller_uid = chain[0].uid if chain else ""
    eviction.match_key = match_key_of(pod, chain) if awaits_replacement(pod) else None
    return eviction


def past_eviction(
    past: PastEviction, now: float, wall_now: float, *, is_followed: bool = True
) -> Eviction:
    """Return an earlier process's eviction, as it was recorded.

    `now` and `wall_now` are one moment by the monotonic clock and since the epoch. Whether its
    workload has a single replica is not known: it may not be listed yet. One that
    the API server answered may have happened as late as that: a proxy may have held the request.
    """
    decided_s = min(past.requested_s, wall_now)
    origin = origin_of_past(past)
    eviction = Eviction(
        origin,
        past_scopes(past),
        decided_at=now - (wall_now - decided_s),
        decided_s=decided_s,
        profile=past.profile,
        past=past,
        is_single=is_followed and bool(past.owner_uid),
    )
    eviction.is_followed = is_followed
    eviction.replacing_uid = past.replacing_uid
    eviction.controller_uid = "" if past.replacing_kind == _DEPLOYMENT else past.replacing_uid
    if past.replacing_uid and not past.is_clean_up:
        name = past.pod_name if past.replacing_kind == _STATEFUL_SET else ""
        eviction.match_key = past.namespace, past.replacing_uid, name
    eviction.replaced_since_s = max(origin.began_s, past.accepted_s)
    eviction.request_id, eviction.evictor = past.request_id, past.evictor
    if past.result:
        eviction.outcome = recorded_outcome(past.result, past.reason)
        eviction.ended_at = past.ended_at(now, wall_now)
    return eviction


def origin_of_past(past: PastEviction) -> MoveOrigin:
    """Return the evicted pod of an earlier process's eviction."""
    return MoveOrigin(
        past.pod_uid,
        past.pod_name,
        past.node,
        past.template_hash,
        past.plugin,
        past_owner(past),
        past.began_s or past.requested_s,
    )


def match_key_of(pod: Pod, chain: Sequence[OwnerReference]) -> MatchKey | None:
    """Return what a pod and its replacement have in common: the namespace, too.

    A StatefulSet keeps the name.
    """
    if (owner := replacing_owner(chain)) is None:
        return None
    return pod.namespace, owner.uid, pod.name if owner.kind == _STATEFUL_SET else ""


_DEPLOYMENT: Final = "Deployment"
_STATEFUL_SET: Final = "StatefulSet"


def _does_its_work(pod: Pod) -> bool:
    return pod.status.is_ready or pod.status.phase == SUCCEEDED
