"""Follows how pods end: those that others end, and those of whose eviction the outcome was open.

It is synchronous. Each change of a pod costs one look-up of its type; only an end is looked at.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.controller.deletion_causes import Deletion, DeletionCauses
from reactive_desched.model.changes import (
    Change,
    CompletedPodDeleted,
    NamespaceChanged,
    NodeGone,
    PendingPodDeleted,
    PodChange,
    PodGone,
    PodTerminating,
    WorkloadChanged,
)
from reactive_desched.model.disruptions import (
    CAUSES,
    DELETED,
    OWNER_GONE,
    EndedPod,
    RememberedEnd,
    disruption_mark,
)
from reactive_desched.model.evaluation import EvictionResult
from reactive_desched.model.evictor_table import evictor_named
from reactive_desched.model.history import PastEviction
from reactive_desched.model.migration_jobs import PLACEHOLDER_OF
from reactive_desched.model.moves import is_clean_up, replacing_owner
from reactive_desched.model.objects import (
    DISRUPTION_TARGET,
    OwnerReference,
    Pod,
    PodKey,
)
from reactive_desched.model.observer import Observer
from reactive_desched.model.outcomes import (
    BY_EVICTION_API,
    EVICTED,
    EVICTED_LATE,
    FAILED,
    POD_DISRUPTED,
    POD_EVICTED,
    POD_GONE,
    POD_STILL_RUNNING,
    UNKNOWN,
    Outcome,
)
from reactive_desched.model.read_back import SERVER_CLOCKS_S
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.owners import OwnerIndex
from reactive_desched.state.indexes.workload_pods import WorkloadPods

MAX_REMEMBERED: Final = 10_000
"""So many ends of pods are remembered; then the oldest is forgotten."""

MAX_DONE: Final = 10_000
"""So many pods are remembered whose end is no disruption, or is recorded long ago: those that we
evicted above all, until they are gone; of more the oldest is forgotten."""

MAX_UNCERTAIN: Final = 10_000
"""So many evictions whose outcome a later end of the pod may correct; then the oldest is not."""

LATE_S: Final = 3600.0
"""So long after an eviction failed without an answer its request may be the one that ends the pod.
"""

FORMER_LEADER_S: Final = 600.0
"""So long after a leader began without the record of the term before its own, what evicts a pod
through the Eviction API may be a request of that term, which a proxy had held."""

UNEXPLAINED_S: Final = 2.0
"""So long a deletion that nothing explains waits: what its owner did may arrive later than it."""

MAX_OUT_OF_SYNC_S: Final = 60.0
"""So much longer it waits at most while a watch is down that could explain it."""

MAX_UNEXPLAINED: Final = 10_000
"""So many deletions wait; of more the oldest is recorded at once."""

ADOPTED_S: Final = 3600.0
"""What ended a pod before this process began is recorded where it began so short a time ago."""

_ENDS: Final[frozenset[type[Change]]] = frozenset({PodTerminating, PodGone, PendingPodDeleted})
_LAST: Final[frozenset[type[Change]]] = frozenset({PodGone, PendingPodDeleted, CompletedPodDeleted})
"""The changes of which one is the last of a pod."""

_SEEN_LATER: Final = (POD_GONE.code, POD_DISRUPTED.code)
"""The reasons of an unknown outcome after which the end of the pod says more, or something else."""


class _Unexplained(Struct, frozen=True, gc=False):
    """A deletion that waits for its explanation since `since`, and its end as it looks till then.

    `past` is an eviction that failed and may be what deleted the pod.
    """

    deletion: Deletion
    end: RememberedEnd
    since: float
    past: PastEviction | None

    @property
    def due(self) -> float:
        """The time at which it is looked at again."""
        return self.since + UNEXPLAINED_S


class DisruptionRecorder(Protocol):
    """Records what ended pods, and the corrections of outcomes."""

    def record_disruption(self, ended: EndedPod) -> None:
        """Write soon that something else ends a pod, where the settings ask for it."""
        ...

    def record_correction(self, request_id: str, outcome: Outcome) -> None:
        """Write soon that an outcome was not the last word; does not wait for it."""
        ...


class Disruptions:
    """Says once of each pod that something else ends it, and corrects outcomes.

    `is_under_way` says whether an eviction of ours has no outcome yet. `on_late` is called for an
    eviction that happened after its outcome said otherwise: it counts against every limit.
    `on_foreign` is called for one that may be of a leader whose record this process lacks.
    A deletion that nothing explains waits a moment for an explanation before it is anything:
    `work_available` is notified when one begins to wait. `is_in_sync` says whether watches bring
    pods and what explains their ends one by one. `clock` is monotonic, in seconds.
    """

    indexes = (OwnerIndex, WorkloadPods)

    def __init__(  # noqa: PLR0913, PLR0917 -- each of another part, and the clock
        self,
        view: ClusterView,
        recorder: DisruptionRecorder,
        is_under_way: Callable[[PodKey], bool],
        on_late: Callable[[PastEviction], None],
        on_foreign: Callable[[PastEviction], None],
        observer: Observer,
        work_available: Wakeup,
        is_in_sync: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        self._view = view
        self._is_in_sync = is_in_sync
        self._causes = DeletionCauses(view)
        self._work_available = work_available
        self._clock = clock
        self._recorder = recorder
        self._is_under_way = is_under_way
        self._on_late = on_late
        self._on_foreign = on_foreign
        self._former_leader_until_s = 0.0
        self._observer = observer
        self._ended: OrderedDict[PodKey, RememberedEnd] = OrderedDict()
        self._done: OrderedDict[PodKey, None] = OrderedDict()
        self._uncertain: OrderedDict[PodKey, PastEviction] = OrderedDict()
        self._inherited: dict[PodKey, PastEviction] = {}
        self._deferred: dict[PodKey, Pod] = {}
        self._unexplained: OrderedDict[PodKey, _Unexplained] = OrderedDict()
        self._not_before = 0.0
        self._was_out_of_sync = False

    # --- the cluster ---

    def apply_changes(self, changes: Iterable[Change], now: float, version: int) -> None:
        """Look at the pods that end by these changes, and at owners, which explain such ends.

        `version` is the resourceVersion of the object whose event led to them, 0 where there is
        none.
        """
        for change in changes:
            if type(change) is WorkloadChanged:
                self._causes.follow(change, now, self._dated(version))
            elif type(change) is NamespaceChanged:
                self._causes.follow_namespace(change, self._dated(version))
            elif type(change) is NodeGone:
                self._causes.follow_node(change, self._dated(version))
            if type(change) in _ENDS:
                assert isinstance(change, PodChange), "each is the change of a pod"
                pod = change.pod
                if pod.has_ended:
                    self._causes.note_ended(pod)
                if not (type(change) is PodTerminating and pod.has_ended):  # it is cleaned up
                    self._look_at(pod, version)
            if type(change) in _LAST:
                assert isinstance(change, PodChange), "each is the change of a pod"
                if self._view.pod(change.pod.uid) is None:  # it had not only ended
                    self._done.pop(change.pod.uid, None)

    def _dated(self, version: int) -> int:
        """Return a version if it is that of a change: a list has the one of the last of several."""
        return version if version and self._is_in_sync() else 0

    def adopt_owners(self) -> None:
        """Note the owners of pods as they were found."""
        self._causes.adopt()

    def adopt(self, pods: Iterable[Pod]) -> None:
        """Look at pods as they were found: those that are ending, as of a short time ago.

        What began to end before that is an earlier process's to record.
        """
        for pod in pods:
            if pod.deletion_s is None and not pod.has_ended:
                continue
            mark = disruption_mark(pod)
            if mark is None and pod.has_ended:
                continue
            since_s = pod.deletion_s if mark is None or mark[1] is None else mark[1]
            if since_s is not None and self._view.now_s - since_s < ADOPTED_S:
                self._look_at(pod)
            elif pod.uid not in self._ended:
                self._note_done(pod.uid)

    def next_due(self) -> float | None:
        """Return when a deletion is looked at again; None where none waits for that."""
        if not self._unexplained:
            return None
        return max(next(iter(self._unexplained.values())).due, self._not_before)

    def is_due(self, now: float) -> bool:
        """Say whether a deletion is to be looked at again."""
        return (due := self.next_due()) is not None and due <= now

    def expire(self, now: float, should_yield: Callable[[], bool]) -> None:
        """Record the deletions that nothing explained in time, by what explains them now.

        While a watch that may bring an explanation is down they wait for it, a minute at most.
        """
        is_in_sync = self._is_in_sync()
        if not is_in_sync or self._was_out_of_sync:  # what it missed comes after its start
            self._was_out_of_sync = not is_in_sync
            self._not_before = now + UNEXPLAINED_S
            now -= MAX_OUT_OF_SYNC_S
        while self._unexplained:
            first = next(iter(self._unexplained.values()))
            if first.due > now:
                break
            self._end_wait(first)
            if should_yield():
                break

    def flush(self) -> None:
        """Record at once what waits for an explanation: this process ends, or leads no more."""
        while self._unexplained:
            self._end_wait(next(iter(self._unexplained.values())))

    def _look_at(self, pod: Pod, version: int = 0) -> None:
        uid = pod.uid
        if uid in self._ended or uid in self._done or uid in self._unexplained:
            return
        mark = disruption_mark(pod)
        if mark is None and (pod.has_ended or not pod.node or PLACEHOLDER_OF in pod.labels):
            return  # it ended by itself, never ran, or was a placeholder
        if self._is_under_way(uid):
            # What comes later may be the mark of pod GC, as of a node that is lost.
            self._deferred.setdefault(uid, pod)
            return
        past = self._uncertain.pop(uid, None)
        if past is not None and past.result == UNKNOWN:  # its pod was gone when it was read
            if self._is_of_unknown(past, mark):
                self._note_done(uid)
                return
            past = None
        if past is not None and not self._may_land_late(past, mark):
            past = None
        if mark is None:
            written = version if pod.deletion_s is None else pod.resource_version
            self._look_at_deletion(pod, written, past)
        elif past is not None:
            self._correct_late(past, "evicted through the Eviction API")
        else:
            self._record_marked(self._describe_marked(pod, *mark))

    def _look_at_deletion(self, pod: Pod, version: int, past: PastEviction | None) -> None:
        """Record a deletion that is explained; have any other wait for its explanation."""
        now, deletion = self._clock(), self._causes.first_seen(pod, version)
        ended = self._causes.explain(deletion, now)
        # An owner that is gone may not be seen yet, and what ends a Job comes after its pods.
        if ended.is_explained and ended.cause not in (OWNER_GONE, DELETED):
            self._record(ended, deletion.seen_s)
            return
        if not self._unexplained:
            self._work_available.notify()
        waiting = _Unexplained(deletion, self._as_remembered(ended, deletion.seen_s), now, past)
        self._unexplained[pod.uid] = waiting
        if len(self._unexplained) > MAX_UNEXPLAINED:
            self._end_wait(next(iter(self._unexplained.values())))

    def _end_wait(self, waiting: "_Unexplained") -> None:
        """Record a deletion by what explains it now, if anything does."""
        deletion, past = waiting.deletion, waiting.past
        del self._unexplained[deletion.pod.uid]
        ended = self._causes.explain(deletion, self._clock())
        if ended.is_explained and ended.cause != waiting.end.cause:
            ended = replace(ended, message=f"{ended.message}, seen after the pod's deletion")
        if past is not None and not ended.is_explained:
            self._correct_late(past, "deleted")
        else:
            self._record(ended, deletion.seen_s)

    def _record_marked(self, ended: EndedPod) -> None:
        now_s = self._view.now_s
        if ended.cause == BY_EVICTION_API and self._may_be_former_leaders:
            ended = replace(ended, message=f"{ended.message}; {_OF_FORMER_LEADER}")
            self._on_foreign(_as_foreign(ended, now_s))
        self._record(ended, now_s)

    def begin_without_history(self) -> None:
        """Count what others evict for a while: a leader whose record is missing may have begun it.

        A request that a proxy holds is carried out after the term of the leader that sent it.
        """
        self._former_leader_until_s = self._view.now_s + FORMER_LEADER_S

    @property
    def _may_be_former_leaders(self) -> bool:
        return self._view.now_s < self._former_leader_until_s

    def _record(self, ended: EndedPod, ended_s: float) -> None:
        self._remember(self._as_remembered(ended, ended_s))
        self._recorder.record_disruption(ended)
        self._observer.on_disruption(ended)

    @staticmethod
    def _as_remembered(ended: EndedPod, ended_s: float) -> RememberedEnd:
        pod = ended.pod
        top = ended.owners[-1] if ended.owners else None
        owner = "" if top is None else f"{top.kind}/{top.name}"
        return RememberedEnd(
            *(pod.uid, pod.namespace, pod.name, pod.node, owner, ended.cause, ended.message),
            ended_s,
        )

    # --- evictions of ours ---

    def settle(self, past: PastEviction) -> None:
        """Record how an eviction by this controller ended; `past` is made of its record."""
        uid, pod = past.pod_uid, self._deferred.pop(past.pod_uid, None)
        if past.result == EVICTED or (past.result == UNKNOWN and past.reason not in _SEEN_LATER):
            self._uncertain.pop(uid, None)
            if self._view.pod(uid) is not None:
                self._note_done(uid)  # the outcome says what was seen
            return
        if past.reason in (POD_GONE.code, POD_STILL_RUNNING.code):
            self._uncertain[uid] = past
            if len(self._uncertain) > MAX_UNCERTAIN:
                self._uncertain.popitem(last=False)
        elif past.reason == POD_DISRUPTED.code:
            self._uncertain.pop(uid, None)
        if pod is not None:
            self._look_at(pod)

    def _is_of_unknown(self, past: PastEviction, mark: tuple[str, int | None] | None) -> bool:
        """Say whether the end of a pod is, or may be, an eviction whose outcome is unknown.

        Where its mark shows that it is, the outcome is corrected.
        """
        reason, since_s = mark or ("", None)
        if reason not in ("", BY_EVICTION_API) or _is_before(since_s, past):
            return False
        if reason:
            text = "before it was gone its condition DisruptionTarget had the reason"
            self._correct(past, POD_EVICTED.outcome(f"{text} {reason}"))
        return True

    def _may_land_late(self, past: PastEviction, mark: tuple[str, int | None] | None) -> bool:
        """Say whether an eviction that failed may be what ends its pod, unless its owner does."""
        if self._view.now_s - (past.ended_s or past.requested_s) > LATE_S:
            return False
        if mark is None:
            return evictor_named(past.evictor).is_deletion
        return mark[0] == BY_EVICTION_API and not _is_before(mark[1], past)

    def _correct_late(self, past: PastEviction, how: str) -> None:
        message = f"after that outcome the pod was {how}: by the request, which came late, or not"
        outcome = EVICTED_LATE.outcome(message)
        self._correct(past, outcome)
        self._on_late(replace(past, result=outcome.result, ended_s=self._view.now_s))
        if self._view.pod(past.pod_uid) is not None:
            self._note_done(past.pod_uid)

    def _correct(self, past: PastEviction, outcome: Outcome) -> None:
        self._recorder.record_correction(past.request_id, outcome)
        self._observer.on_correction(past, outcome)

    # --- earlier processes ---

    def restore(self, past: Sequence[PastEviction], ends: Iterable[RememberedEnd]) -> None:
        """Restore what earlier processes evicted, and which ends they recorded."""
        for each in ends:
            self._remember(each)
        for eviction in past:
            if eviction.is_open:
                self._inherited[eviction.pod_uid] = eviction
            elif eviction.result in (EVICTED, UNKNOWN):
                self._uncertain.pop(eviction.pod_uid, None)
                if eviction.reason != POD_DISRUPTED.code:
                    self._note_done(eviction.pod_uid)
            elif eviction.result == FAILED and eviction.reason == POD_STILL_RUNNING.code:
                self._uncertain[eviction.pod_uid] = eviction

    def end_inherited(self, pod: PodKey, outcome: Outcome) -> None:
        """Record the outcome of an eviction that an earlier process requested."""
        if (past := self._inherited.pop(pod, None)) is not None:
            result, reason = outcome.result, outcome.reason
            self.settle(replace(past, result=result, reason=reason, ended_s=self._view.now_s))

    # --- what is known ---

    def end_of(self, uid: PodKey) -> RememberedEnd | None:
        """Return how something else ends a pod; None where nothing does, or it is forgotten."""
        if (waiting := self._unexplained.get(uid)) is not None:
            return waiting.end
        return self._ended.get(uid)

    def find(self, name: str) -> RememberedEnd | None:
        """Return the last end of a pod by NAMESPACE/NAME or uid; None where none is remembered."""
        return next((each for each in reversed([*self]) if each.is_named(name)), None)

    def __iter__(self) -> Iterator[RememberedEnd]:
        yield from self._ended.values()
        yield from (each.end for each in self._unexplained.values())

    def _remember(self, end: RememberedEnd) -> None:
        self._unexplained.pop(end.uid, None)
        self._ended[end.uid] = end
        if len(self._ended) > MAX_REMEMBERED:
            self._ended.popitem(last=False)

    def _note_done(self, uid: PodKey) -> None:
        self._unexplained.pop(uid, None)
        self._done[uid] = None
        if len(self._done) > MAX_DONE:
            self._done.popitem(last=False)

    # --- causes ---

    def _describe_marked(self, pod: Pod, cause: str, since_s: int | None) -> EndedPod:
        message = CAUSES.get(cause, "")
        if pod.status.reason:
            message = f"{message or 'it ends'}: {pod.status.reason}"
        return EndedPod(
            *(pod, cause or DISRUPTION_TARGET, message),
            is_marked=True,
            since_s=since_s,
            owners=self._view.index(OwnerIndex).chain(pod),
            zone=self._view.zone(pod.node),
        )


def _as_foreign(ended: EndedPod, now_s: float) -> PastEviction:
    """Return the end of a pod as an eviction of another process, as limits count it."""
    return _past(ended.pod, ended.zone, ended.owners, now_s, UNKNOWN)


def as_past(result: EvictionResult, wall_now: float) -> PastEviction:
    """Return an eviction that this process requested as its records have it."""
    context, outcome = result.intent.context, result.outcome
    pod, owners = context.finding.pod, context.owners
    replacing = replacing_owner(owners)
    return replace(
        _past(pod, context.zone, owners, wall_now, outcome.result),
        request_id=result.request_id,
        replacing_uid="" if replacing is None else replacing.uid,
        replacing_kind="" if replacing is None else replacing.kind,
        template_hash=pod.template_hash,
        plugin=context.finding.plugin,
        profile=context.profile,
        reason=outcome.reason,
        began_s=result.sent.server_s or 0.0,
        evictor=result.intent.options.evictor,
        is_clean_up=is_clean_up(pod),
    )


def _past(
    pod: Pod, zone: str, owners: Sequence[OwnerReference], now_s: float, result: str
) -> PastEviction:
    """Return what limits count of an eviction, requested and ended now."""
    top = owners[-1] if owners else None
    return PastEviction(
        request_id="",
        requested_s=now_s,
        pod_uid=pod.uid,
        namespace=pod.namespace,
        pod_name=pod.name,
        node=pod.node,
        zone=zone,
        owner_uid="" if top is None else top.uid,
        owner_kind="" if top is None else top.kind,
        owner_name="" if top is None else top.name,
        ended_s=now_s,
        result=result,
    )


_OF_FORMER_LEADER: Final = (
    "it counts against limits, as it may be a late request of the leader before, whose record is"
    " missing"
)


def _is_before(since_s: int | None, past: PastEviction) -> bool:
    """Say whether a disruption began before the request of an eviction."""
    return since_s is not None and since_s + SERVER_CLOCKS_S < past.began_s - SERVER_CLOCKS_S
