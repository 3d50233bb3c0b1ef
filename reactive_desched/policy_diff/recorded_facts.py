"""The facts of a whole recording that are needed before a policy is tried on it.

Which pods the recorded controller evicted, which pod took the place of which, and how long pods
take to end and to become Ready: a recording is read once for this.
"""

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterable
from statistics import median
from typing import Final

from msgspec import Struct

from reactive_desched.model.consolidation import consolidation_of
from reactive_desched.model.disruptions import disruption_mark
from reactive_desched.model.migration_jobs import PLACEHOLDER_OF, MigrationJob
from reactive_desched.model.objects import ClusterObject, Node, OwnerReference, Pod, controller_of
from reactive_desched.model.outcomes import DRY_RUN, EVICTED, EffectUnknown, outcome_from_response
from reactive_desched.model.reservations import Reservation
from reactive_desched.plan.controller_run import REQUEST_S
from reactive_desched.policy_diff.deletion_order import REPLICA_SET
from reactive_desched.recording.items import (
    ConfigurationInForce,
    EvictionAnswered,
    EvictionSettled,
    Item,
    ObjectChanged,
    ObjectFound,
    PictureBegun,
    PictureEnded,
    ProcessBegan,
    RecordingInterrupted,
    TaintRefused,
    Verb,
)

__all__ = ["FactsReader", "Lines", "RecordedEnd", "RecordedFacts", "is_of_recorded_move"]

DEFAULT_END_S: Final = 10.0
DEFAULT_START_S: Final = 10.0
"""How long pods take where the recording has none that ended, or became Ready."""

_SOON_S: Final = 60.0
"""A pod that ends so soon after a request of unknown effect was evicted by it."""

_RECREATED_S: Final = 10.0
"""A ReplicaSet replaces a pod so soon; one that ended before that was one too many."""

_MAX_TIMES: Final = 500
"""So many durations are kept of each owner."""

_MAX_WAITING: Final = 1000
"""So many pods of an owner that ended are kept until the pods come that replace them."""


def is_of_recorded_move(obj: ClusterObject) -> bool:
    """Say whether the recorded controller made an object to move a pod.

    Such are the jobs for pods that its plugins found, and the placeholders and Reservations of all
    jobs: another policy makes its own, and is assumed to need no places.
    """
    match obj:
        case Pod(labels=labels):
            return PLACEHOLDER_OF in labels
        case MigrationJob(pod=pod):
            return obj.is_made_for(pod.uid)
        case Reservation(is_ours=is_ours):
            return is_ours
        case _:
            return False


class RecordedEnd(Struct):
    """The end of a recorded pod: its beginning in seconds since the epoch, and when it was over.

    `sent_s` is when the eviction was requested that began it, 0 where that is not known, and
    `settled_in_s` how long after that the controller had the answer.
    """

    began_s: float
    gone_s: float | None = None
    sent_s: float = 0.0
    settled_in_s: float | None = None


class RecordedFacts(Struct):
    """The facts of a recording: times are seconds since the epoch.

    `evicted` are the pods that the recorded controller evicted, by uid; `replaced_by` names the
    pod that took the place of one that ended, `replaces` the other way about, and `bound_to` the
    node of such a replacement, `started_in` how long it took to start. `eviction_times` has when
    each of the evicted pods began to end; `set_taints` when a node got the taint of a set,
    or was refused it, by its name and the value, which is None where it lost it;
    `began_empty` when it is recorded that a process knew of no evictions before it. `request_s` is
    how long the controller waited for the end of a request, as a rule.
    """

    first_s: float = 0.0
    last_s: float = 0.0
    gaps: list[tuple[float, float]] = []
    evicted: dict[str, RecordedEnd] = {}
    replaced_by: dict[str, str] = {}
    replaces: dict[str, str] = {}
    bound_to: dict[str, str] = {}
    started_in: dict[str, float] = {}
    eviction_times: list[tuple[float, str]] = []
    set_taints: dict[tuple[str, str | None], list[tuple[float, bool]]] = {}
    began_empty: list[float] = []
    configurations: list[ConfigurationInForce] = []
    dry_run_answers: int = 0
    request_s: float = REQUEST_S
    end_times: dict[str, float] = {}
    start_times: dict[str, float] = {}

    def end_s(self, pod: Pod) -> float:
        """Return after how many seconds a pod is gone: as it was, else as others of its owner."""
        end = self.evicted.get(pod.uid)
        if end is not None and end.gone_s is not None:
            return end.gone_s - end.began_s
        return self._of_owner(self.end_times, pod, DEFAULT_END_S)

    def start_s(self, pod: Pod) -> float:
        """Return after how many seconds a bound pod is Ready: as others of its owner."""
        return self._of_owner(self.start_times, pod, DEFAULT_START_S)

    def settle_s(self, pod: str) -> float:
        """Return after how many seconds the controller has the end of a pod's eviction request.

        As it was, if it was evicted, else as that of others.
        """
        end = self.evicted.get(pod)
        return self.request_s if end is None or end.settled_in_s is None else end.settled_in_s

    def requested_at(self, now_s: float, within_s: float) -> list[str]:
        """Return the pods whose eviction was under way in the recorded world.

        It was requested, and so soon after the pod began to end.
        """
        times = self.eviction_times
        first, last = bisect_left(times, (now_s, "")), bisect_left(times, (now_s + within_s, ""))
        return [uid for _, uid in times[first:last] if self.evicted[uid].sent_s <= now_s]

    def set_taint_after(
        self, node: str, value: str | None, from_s: float
    ) -> tuple[float, bool] | None:
        """Return when a node got, or lost, the taint of a set from a moment on, or was refused it.

        True beside the time says that it got it. None for never.
        """
        times = self.set_taints.get((node, value), ())
        number = bisect_left(times, (from_s, False))
        return times[number] if number < len(times) else None

    def node_of_replacement(self, pod: str) -> str:
        """Return the node of the pod that came for one that was evicted; empty for none."""
        return self.bound_to.get(self.replaced_by.get(pod, ""), "") if pod in self.evicted else ""

    def start_of_replacement(self, pod: str) -> float | None:
        """Return how long the pod took to start that came for one that was evicted, if it did."""
        return self.started_in.get(self.replaced_by.get(pod, "")) if pod in self.evicted else None

    def line_of(self, pod: str) -> str:
        """Return the first pod of a line of replacements of pods that were evicted."""
        while (before := self.replaces.get(pod)) is not None and before in self.evicted:
            pod = before
        return pod

    @staticmethod
    def _of_owner(times: dict[str, float], pod: Pod, default: float) -> float:
        owner = controller_of(pod.owners)
        known = None if owner is None else times.get(owner.uid)
        return times.get("", default) if known is None else known


class Lines:
    """The lines of replacements in one world: by them the evictions of two worlds are compared.

    The replacements of pods that the policy, or the recorded controller, evicted continue one.
    """

    def __init__(self, facts: RecordedFacts) -> None:
        self._facts = facts
        self._origins: dict[str, str] = {}

    def of(self, pod: str) -> str:
        """Return the uid of the recorded pod whose line this one continues."""
        return self._facts.line_of(self._origins.get(pod, pod))

    def follow(self, pod: str, evicted: str) -> None:
        """Let a pod of this world alone continue the line of one that the policy evicted."""
        self._origins[pod] = self._origins.get(evicted, evicted)


class _EndedPod(Struct, frozen=True, gc=False):
    """A pod that began to end at a moment, and whose place no other has taken yet."""

    pod: Pod
    at_s: float


class FactsReader:
    """Reads the items of a recording; `facts` are whole after the last one."""

    def __init__(self) -> None:
        self.facts: Final = RecordedFacts()
        self._pods: dict[str, Pod] = {}
        self._requested: dict[str, float] = {}
        self._bound_s: dict[str, float] = {}
        self._ending: dict[str, RecordedEnd] = {}
        self._unready: set[str] = set()
        self._delayed: set[str] = set()
        self._unreplaced: defaultdict[str, deque[_EndedPod]] = defaultdict(
            lambda: deque(maxlen=_MAX_WAITING)
        )
        self._requests: list[float] = []
        self._ends: defaultdict[str, list[float]] = defaultdict(list)
        self._starts: defaultdict[str, list[float]] = defaultdict(list)
        self._interrupted_s: float | None = None
        self._seen_s: float | None = None
        self._set_taint_of: dict[str, str | None] = {}

    def read(self, items: Iterable[Item]) -> RecordedFacts:
        """Read all items; return what there is to know."""
        for item in items:
            self._take(item)
        self.facts.eviction_times = sorted(
            (end.began_s, uid) for uid, end in self.facts.evicted.items()
        )
        if self._requests:
            self.facts.request_s = median(self._requests)
        self.facts.end_times = {owner: median(each) for owner, each in self._ends.items()}
        self.facts.start_times = {owner: median(each) for owner, each in self._starts.items()}
        return self.facts

    def _take(self, item: Item) -> None:
        facts, at_s = self.facts, item.at.wall_s
        facts.first_s = facts.first_s or at_s
        facts.last_s = max(facts.last_s, at_s)
        match item:
            case ObjectFound() | ObjectChanged():
                self._take_object(item)
            case EvictionAnswered():
                self._take_answer(item)
            case EvictionSettled() | TaintRefused() | ProcessBegan():
                self._take_of_process(item)
            case ConfigurationInForce():
                last = facts.configurations[-1] if facts.configurations else None
                if last is None or (last.policy, last.settings) != (item.policy, item.settings):
                    facts.configurations.append(item)
            case RecordingInterrupted():
                self._interrupted_s = at_s
            case PictureBegun(is_continued=False):
                if self._interrupted_s is None:  # a process that was killed says nothing
                    self._interrupted_s = self._seen_s
                self._forget()
            case PictureEnded() if self._interrupted_s is not None:
                facts.gaps.append((self._interrupted_s, at_s))
                self._interrupted_s = None
            case _:
                pass
        self._seen_s = at_s

    def _take_of_process(self, item: EvictionSettled | TaintRefused | ProcessBegan) -> None:
        if isinstance(item, EvictionSettled):
            self._see_settled(item)
        elif isinstance(item, TaintRefused):
            times = self.facts.set_taints.setdefault((item.node, item.value), [])
            times.append((item.at.wall_s, False))
        elif item.empty_from_s is not None:
            self.facts.began_empty.append(item.at.wall_s)

    def _take_object(self, item: ObjectFound | ObjectChanged) -> None:
        at_s = item.at.wall_s
        if is_of_recorded_move(item.obj):
            return
        match item:
            case ObjectFound(obj=Pod() as pod):
                self._pods.setdefault(pod.uid, pod)
            case ObjectChanged(verb=verb, obj=Pod() as pod):
                self._see(pod, at_s, is_gone=verb is Verb.DELETED)
            case ObjectFound(obj=Node() as node):
                self._set_taint_of[node.name] = consolidation_of(node)
                self._see_kubelet(node)
            case ObjectChanged(obj=Node() as node):
                self._see_node(node, at_s)
            case _:
                pass

    def _take_answer(self, item: EvictionAnswered) -> None:
        facts, at_s = self.facts, item.at.wall_s
        outcome = outcome_from_response(item.response)
        if isinstance(item.response, EffectUnknown) or outcome is None:
            self._requested[item.uid] = at_s
        elif outcome.result == EVICTED:
            end = facts.evicted.setdefault(
                item.uid, self._ending.get(item.uid) or RecordedEnd(at_s)
            )
            if item.sent_s:
                end.sent_s = at_s - (item.at.monotonic_s - item.sent_s)
        elif outcome.result == DRY_RUN:
            facts.dry_run_answers += 1

    def _see_settled(self, item: EvictionSettled) -> None:
        """Note how long the controller waited for the end of an eviction request."""
        if item.result != EVICTED or not item.sent_s:
            return
        after_s = item.at.monotonic_s - item.sent_s
        if (end := self.facts.evicted.get(item.uid)) is not None:
            end.settled_in_s = after_s
        if len(self._requests) < _MAX_TIMES:
            self._requests.append(after_s)

    def _forget(self) -> None:
        self._pods.clear()
        self._bound_s.clear()
        self._ending.clear()
        self._unready.clear()
        self._delayed.clear()
        self._unreplaced.clear()

    def _see_node(self, node: Node, at_s: float) -> None:
        value = consolidation_of(node)
        if value != self._set_taint_of.get(node.name):
            self.facts.set_taints.setdefault((node.name, value), []).append((at_s, True))
        self._set_taint_of[node.name] = value
        self._see_kubelet(node)

    def _see_kubelet(self, node: Node) -> None:
        """Note whether the node's kubelet ends pods: without it, they wait for it, or for a person.

        How long they do says nothing of others.
        """
        if node.is_ready:
            self._unready.discard(node.name)
            return
        self._unready.add(node.name)
        of_node = (
            uid
            for uid in self._ending
            if (pod := self._pods.get(uid)) is not None and pod.node == node.name
        )
        self._delayed.update(of_node)

    def _see(self, pod: Pod, at_s: float, *, is_gone: bool) -> None:
        before = self._pods.get(pod.uid)
        owner = controller_of(pod.owners)
        if (is_gone or pod.is_terminating) and pod.uid not in self._ending:
            end = self._ending[pod.uid] = RecordedEnd(at_s)
            if pod.node in self._unready:
                self._delayed.add(pod.uid)
            requested_s = self._requested.get(pod.uid)
            if requested_s is not None and at_s - requested_s < _SOON_S:
                self.facts.evicted.setdefault(pod.uid, end)
            elif pod.uid in self.facts.evicted:
                settled = self.facts.evicted[pod.uid]
                end.sent_s, end.settled_in_s = settled.sent_s, settled.settled_in_s
                self.facts.evicted[pod.uid] = end
            if owner is not None:
                self._unreplaced[owner.uid].append(_EndedPod(pod, at_s))
        if is_gone:
            self._go(pod, owner, at_s)
            return
        if before is None and owner is not None:
            self._replace(pod, owner, at_s)
        if pod.node and (before is None or not before.node):
            self._bound_s[pod.uid] = at_s
            if pod.uid in self.facts.replaces:
                self.facts.bound_to[pod.uid] = pod.node
        self._see_start(pod, before, owner, at_s)
        self._pods[pod.uid] = pod

    def _see_start(
        self, pod: Pod, before: Pod | None, owner: OwnerReference | None, at_s: float
    ) -> None:
        if not pod.status.is_ready or (before is not None and before.status.is_ready):
            return
        if (bound_s := self._bound_s.pop(pod.uid, None)) is not None:
            _keep(self._starts, owner, at_s - bound_s)
            if pod.uid in self.facts.replaces:
                self.facts.started_in[pod.uid] = at_s - bound_s

    def _go(self, pod: Pod, owner: OwnerReference | None, at_s: float) -> None:
        end = self._ending.pop(pod.uid)
        end.gone_s = at_s
        is_delayed = pod.uid in self._delayed
        self._delayed.discard(pod.uid)
        if at_s > end.began_s and not is_delayed:
            _keep(self._ends, owner, at_s - end.began_s)
        self._pods.pop(pod.uid, None)
        self._bound_s.pop(pod.uid, None)

    def _replace(self, pod: Pod, owner: OwnerReference, at_s: float) -> None:
        """Find the pod whose place a new one takes: of those that qualify, the first to end.

        Evicted pods are replaced before those that were deleted, of which a ReplicaSet may have had
        too many.
        """
        waiting = self._unreplaced.get(owner.uid)
        while waiting and owner.kind == REPLICA_SET and self._was_too_many(waiting[0], at_s):
            waiting.popleft()
        if not waiting:
            return
        named = (each for each in waiting if each.pod.name == pod.name)
        evicted = (each for each in waiting if self._is_evicted(each.pod))
        ended = next(named, None) or next(evicted, None) or waiting[0]
        waiting.remove(ended)
        before = ended.pod
        self.facts.replaced_by[before.uid] = pod.uid
        self.facts.replaces[pod.uid] = before.uid

    def _was_too_many(self, ended: "_EndedPod", at_s: float) -> bool:
        return at_s - ended.at_s > _RECREATED_S and not self._is_evicted(ended.pod)

    def _is_evicted(self, pod: Pod) -> bool:
        return pod.uid in self.facts.evicted or disruption_mark(pod) is not None


def _keep(
    times: defaultdict[str, list[float]], owner: OwnerReference | None, seconds: float
) -> None:
    for key in ("",) if owner is None else ("", owner.uid):
        if len(times[key]) < _MAX_TIMES:
            times[key].append(seconds)
