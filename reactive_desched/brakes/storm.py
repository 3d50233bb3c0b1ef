"""Stops and asks when far more pods are found than a change of the cluster should concern.

A label that is gone from every node, or a taint on all of them, is more often a mistake than a
wish. The brake counts pods that nothing protects, each once, as plugins find them; one that time
alone lets go, as it is too young, counts when it has been let go. What a start or
another policy finds at its first look is not a storm: it was there before, `plan` shows it
beforehand, and the rates hold it. Nor do pods count that move as a set, or those on a node that is
to be drained, or that a person has labelled as `planned`, as of a rack that is to be emptied.
A person releases the brake, or a time without many new findings. Of one namespace some pods count
for the cluster, and a storm of one namespace alone holds that one (`shares.py`).
"""

from collections import Counter, deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import partial
from math import ceil
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.api.index import Index
from reactive_desched.brakes.shares import (
    MOST_SHARES,
    describe_messages,
    describe_scopes,
    held_scope,
    namespace_of,
    namespace_scope,
    pods_of,
    pods_on_nodes,
    refusal,
    stopped_scopes,
)
from reactive_desched.model.brakes import CLUSTER, STORM, BrakeNotice
from reactive_desched.model.changes import Resynced
from reactive_desched.model.decisions import Defer, Evict, GateReason, Refuse
from reactive_desched.model.evaluation import Evaluation
from reactive_desched.model.findings import Finding
from reactive_desched.model.node_drains import is_to_be_drained
from reactive_desched.model.objects import PodKey
from reactive_desched.model.wakes import WakeOnPod
from reactive_desched.policy.settings.brakes import StormBrakeSettings
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.namespace_sizes import NamespaceSizes
from reactive_desched.text.ages import format_age
from reactive_desched.text.counts import format_count

FINDING_STORM: Final = GateReason(
    "StormBrake",
    "FindingStorm",
    "Far more pods were found in a short time than a change should concern: a person has to look.",
    "brakes.storm",
)
PLANNED: Final = "reactive-desched/planned"
"""A label of a Node, set to `true`: that its pods leave is what a person wants."""

_QUIET_SHARE: Final = 10
"""While fewer pods than this part of a storm are found within the window, it is quiet."""

_HELD: Final = 2
"""So many times as many held pods of a namespace are followed as make a storm: some go, or are
protected then."""

_LATE_S: Final = 60.0
"""A pod whose hold ended so long ago, and that no plugin has found since, is forgotten."""

_FORGET_EVERY_S: Final = 5.0
"""While as many held pods are followed as may be, those that are late are sought so seldom."""


class _Found(Struct, frozen=True, gc=False):
    """A pod that was found, when, by which plugin, and after which change of which object."""

    at: float
    pod: PodKey
    namespace: str
    plugin: str
    change: str
    changed: str


class _Held(Struct, frozen=True, gc=False):
    """After which change of which object a pod was found that something holds for a moment."""

    until: float
    namespace: str
    change: str
    changed: str


class _Storm:
    """A storm that holds a scope: what it is, until when it is busy, how many pods came since."""

    __slots__ = ("busy_until", "found_since", "message")

    def __init__(self, message: str, busy_until: float) -> None:
        self.message = message
        self.busy_until = busy_until
        self.found_since = 0


class StormBrake:
    """A gate filter behind those that protect pods; times are monotonic seconds.

    Holds the pods found within the window, of each namespace at most as many as make a storm, and
    twice as many that something before the brake holds for a moment; in all at most so many as of
    the namespaces that together make a storm of the cluster.
    """

    name = FINDING_STORM.gate

    def __init__(self, view: ClusterView, settings: StormBrakeSettings | None) -> None:
        self._view = view
        self._count_pods = partial(pods_on_nodes, view)
        self._settings = settings
        self._found: deque[_Found] = deque()
        self._counts: Counter[str] = Counter()
        self._pods: set[PodKey] = set()
        self._held: dict[PodKey, _Held] = {}
        self._held_counts: Counter[str] = Counter()
        self._forget_late_at = 0.0
        self._reached: Finding | None = None
        self._storms: dict[str, _Storm] = {}

    @property
    def keys(self) -> tuple[tuple[type[Index], Hashable], ...]:
        """The index that the brake reads."""
        return () if self._settings is None else ((NamespaceSizes, None),)

    @property
    def release_text(self) -> str:
        """Return what releases the brake, for a person."""
        text = "it is released by `reactive-desched resume`"
        settings = self._settings
        if settings is None or settings.release_after_s is None:
            return text
        quiet, rest_s = format_age(settings.release_after_s), settings.window_s
        few = max(1, ceil(settings.threshold(self._count_pods()) / _QUIET_SHARE))
        found = "a pod was found" if few == 1 else f"{few:,} pods were found"
        return f"{text}, or by itself {quiet} after the last time that {found} within {rest_s:g} s"

    @property
    def found_since(self) -> int:
        """Return how many more pods were found since the brake engaged."""
        if (everywhere := self._storms.get(CLUSTER)) is not None:
            return everywhere.found_since
        return sum(each.found_since for each in self._storms.values())

    @property
    def message(self) -> str:
        """Return what the storm is; empty while there is none."""
        return describe_messages(self.messages)

    @property
    def scope(self) -> str:
        """Return which pods are held: those of the cluster, or of the named namespaces."""
        return describe_scopes(self._storms)

    @property
    def messages(self) -> Mapping[str, str]:
        """Return what the storm of each scope is."""
        return {scope: each.message for scope, each in self._storms.items()}

    def reconfigure(self, settings: StormBrakeSettings | None) -> None:
        """Apply other thresholds; a storm stays one, unless the brake is switched off."""
        self._settings = settings

    def check(self, finding: Finding, _: float) -> Refuse | None:
        """Refuse what a storm holds; note that the finding came so far."""
        if not finding.is_companion:  # it was not found
            self._reached = finding
        if (scope := held_scope(self._storms, finding.pod.namespace)) is None:
            return None
        message = f"{self._storms[scope].message}; {self.release_text}"
        return refusal(FINDING_STORM, STORM, scope, finding, message)

    def reason_to_keep(self, namespace: str) -> str:
        """Return why nothing of a namespace may be evicted; empty where it may be."""
        scope = held_scope(self._storms, namespace)
        return "" if scope is None else self._storms[scope].message

    def count(self, evaluation: Evaluation) -> BrakeNotice | None:
        """Count a finding that was just decided on; return the notice of a storm that it makes."""
        settings, finding = self._settings, evaluation.decision.finding
        trigger, held = evaluation.trigger.change, self._take_held(finding.pod.uid)
        if settings is None or not (evaluation.is_new or held):
            return None
        if held is None:
            if isinstance(trigger, Resynced):
                return None
            held = _Held(0.0, finding.pod.namespace, trigger.kind, trigger.object_name)
        now, uid = evaluation.decided_at, finding.pod.uid
        if finding is not self._reached:  # something protects the pod
            self._follow(evaluation.decision, held, now, settings)
            return None
        if self._is_planned(finding):
            return None
        self._forget_before(now - settings.window_s)
        if uid in self._pods:
            return None
        found = _Found(now, uid, finding.pod.namespace, finding.plugin, held.change, held.changed)
        return self._take(found, now, settings)

    def _take(self, found: _Found, now: float, settings: StormBrakeSettings) -> BrakeNotice | None:
        """Return the notice of a storm that the pods found make; prolong those that there are."""
        storm, own = settings.threshold(self._count_pods()), namespace_scope(found.namespace)
        if self._counts[found.namespace] < storm:
            self._pods.add(found.pod)
            self._found.append(found)
            self._counts[found.namespace] += 1
        for scope in (CLUSTER, own):
            if (known := self._storms.get(scope)) is not None:
                known.found_since += 1
                recent = len(self._found) if scope == CLUSTER else self._counts[found.namespace]
                if recent * _QUIET_SHARE >= storm:
                    known.busy_until = self._busy_until(now, settings)
        if CLUSTER in self._storms:
            while len(self._found) > storm:
                self._drop_oldest()
            return None
        if len(self._found) < storm:
            return None
        for scope in stopped_scopes(self._counts, storm, self._view):
            if scope not in self._storms:
                return self._engage(scope, now, settings)
        return None

    def _engage(self, scope: str, now: float, settings: StormBrakeSettings) -> BrakeNotice:
        message = _describe(self._of_scope(scope), scope, settings)
        self._storms[scope] = _Storm(message, self._busy_until(now, settings))
        if scope == CLUSTER:
            self._drop_found(scope)
        return BrakeNotice(STORM, scope, engaged=True, message=message)

    def _of_scope(self, scope: str) -> list[_Found]:
        if scope == CLUSTER:
            return list(self._found)
        return [each for each in self._found if each.namespace == namespace_of(scope)]

    def _follow(
        self,
        decision: Defer | Refuse | Evict,
        held: _Held,
        now: float,
        settings: StormBrakeSettings,
    ) -> None:
        """Follow a pod that something holds for a moment: within the window, or by time alone."""
        if isinstance(decision, Evict) or (until := decision.retry_at_s) is None:
            return
        pod = decision.finding.pod.uid
        wakes = decision.wake_on if isinstance(decision, Refuse) else ()
        if until > now + settings.window_s and any(each != WakeOnPod(pod) for each in wakes):
            return
        bound = _HELD * settings.threshold(self._count_pods())
        if self._is_full(held.namespace, bound) and now >= self._forget_late_at:
            self._forget_late_at, late = now + _FORGET_EVERY_S, now - _LATE_S
            self._keep_held({each: of for each, of in self._held.items() if of.until > late})
        if not self._is_full(held.namespace, bound):
            self._held[pod] = replace(held, until=until)
            self._held_counts[held.namespace] += 1

    def _is_full(self, namespace: str, bound: int) -> bool:
        """Say whether as many held pods as may be are followed, of a namespace or in all."""
        return self._held_counts[namespace] >= bound or len(self._held) >= MOST_SHARES * bound

    def _take_held(self, pod: PodKey) -> _Held | None:
        if (held := self._held.pop(pod, None)) is not None:
            self._held_counts[held.namespace] -= 1
            if not self._held_counts[held.namespace]:
                del self._held_counts[held.namespace]
        return held

    def _keep_held(self, held: dict[PodKey, _Held]) -> None:
        self._held = held
        self._held_counts = Counter(each.namespace for each in held.values())

    def _is_planned(self, finding: Finding) -> bool:
        bound = self._view.pod_and_node(finding.pod.uid)
        if bound is None:
            return False
        is_of_set = finding.move_set is not None
        return is_of_set or bound[1].labels.get(PLANNED) == "true" or is_to_be_drained(bound[1])

    def next_due(self) -> float | None:
        """Return when the brake is released by itself; None where it is not."""
        if self._settings is None or self._settings.release_after_s is None:
            return None
        return min((each.busy_until for each in self._storms.values()), default=None)

    @property
    def release_at(self) -> float | None:
        """Return when the cluster, or the last namespace, is released by itself; None: never."""
        if self._settings is None or self._settings.release_after_s is None:
            return None
        if (everywhere := self._storms.get(CLUSTER)) is not None:
            return everywhere.busy_until
        return max((each.busy_until for each in self._storms.values()), default=None)

    def update(self, now: float) -> Iterator[BrakeNotice]:
        """Yield the notice of a release whose time has come."""
        if self._settings is None:
            yield from self.release("the brake was switched off")
        elif self._settings.release_after_s is not None:
            over = [scope for scope, each in self._storms.items() if each.busy_until <= now]
            yield from self._release(over, "it has been quiet for long enough")

    def release(self, message: str, by: str = "") -> Iterator[BrakeNotice]:
        """Release the brake; the findings that wait do not count as another storm."""
        yield from self._release(list(self._storms), message, by)

    def _release(self, scopes: list[str], message: str, by: str = "") -> Iterator[BrakeNotice]:
        for scope in scopes:
            del self._storms[scope]
            self._forget(scope)
            yield BrakeNotice(STORM, scope, engaged=False, message=message, by=by)

    @property
    def ends(self) -> Mapping[str, float]:
        """Return, by its scope, when each storm ends if it stays quiet, in monotonic seconds."""
        return {scope: each.busy_until for scope, each in self._storms.items()}

    def restore(self, messages: Mapping[str, str], now: float, ends: Mapping[str, float]) -> None:
        """Restore the storms of an earlier process; the quiet time of one without an end begins."""
        until = now if self._settings is None else self._busy_until(now, self._settings)
        for scope, text in messages.items():
            self._storms[scope] = _Storm(text, ends.get(scope, until))

    def _busy_until(self, now: float, settings: StormBrakeSettings) -> float:
        return now + (settings.release_after_s or 0.0)

    def _forget_before(self, at: float) -> None:
        while self._found and self._found[0].at <= at:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        oldest = self._found.popleft()
        self._pods.discard(oldest.pod)
        self._counts[oldest.namespace] -= 1
        if not self._counts[oldest.namespace]:
            del self._counts[oldest.namespace]

    def _forget(self, scope: str) -> None:
        """Forget what was found of a scope, and what would count once it is let go."""
        self._drop_found(scope)
        self._keep_held(
            {
                uid: held
                for uid, held in self._held.items()
                if scope not in (CLUSTER, namespace_scope(held.namespace))
            }
        )

    def _drop_found(self, scope: str) -> None:
        kept = [
            each for each in self._found if scope not in (CLUSTER, namespace_scope(each.namespace))
        ]
        self._found = deque(kept)
        self._counts = Counter(each.namespace for each in kept)
        self._pods = {each.pod for each in kept}


def _describe(pods: Sequence[_Found], scope: str, settings: StormBrakeSettings) -> str:
    """Say how many pods were found, and what most of them have in common."""
    plugin, by_plugin = Counter(each.plugin for each in pods).most_common(1)[0]
    change, by_change = Counter(each.change for each in pods).most_common(1)[0]
    objects = Counter(each.changed for each in pods if each.change == change)
    changed, by_object = objects.most_common(1)[0]
    text = (
        f"{len(pods)} pods{pods_of(scope)} were found within {settings.window_s:g} s: "
        f"{by_plugin} by {plugin}, {by_change} after {change}"
    )
    if not changed:
        return text
    if len(objects) == 1:
        return f"{text} of {changed}"
    return f"{text} of {len(objects)} objects, such as {changed} ({format_count(by_object, 'pod')})"
