"""Stops and asks when far more pods are found than a change of the cluster should concern.

A label that is gone from every node, or a taint on all of them, is more often a mistake than a
wish. The brake counts pods that nothing protects, each once, as plugins find them; one that time
alone lets go, as it is too young, counts when it has been let go. What a start or
another policy finds at its first look is not a storm: it was there before, `plan` shows it
beforehand, and the rates hold it. Nor do pods count that move as a set, or those on a node that is
to be drained, or that a person has labelled as `planned`, as of a rack that is to be emptied.
A person releases the brake, or a time without many new findings.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from functools import partial
from math import ceil
from typing import Final

from msgspec import Struct

from reactive_desched.model.brakes import CLUSTER, STORM, BrakeNotice, WakeOnBrake
from reactive_desched.model.changes import Resynced
from reactive_desched.model.decisions import Defer, Evict, GateReason, Refuse
from reactive_desched.model.evaluation import Evaluation
from reactive_desched.model.findings import Finding
from reactive_desched.model.node_drains import is_to_be_drained
from reactive_desched.model.objects import Pod, PodKey
from reactive_desched.model.wakes import WakeOnPod
from reactive_desched.policy.settings.brakes import StormBrakeSettings
from reactive_desched.state.cluster import ClusterView
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
"""So many times as many held pods are followed as make a storm: some go, or are protected then."""

_LATE_S: Final = 60.0
"""A pod whose hold ended so long ago, and that no plugin has found since, is forgotten."""


class _Found(Struct, frozen=True, gc=False):
    """A pod that was found, when, by which plugin, and after which change of which object."""

    at: float
    pod: PodKey
    plugin: str
    change: str
    changed: str


class _Held(Struct, frozen=True, gc=False):
    """After which change of which object a pod was found that something holds for a moment."""

    until: float
    change: str
    changed: str


class StormBrake:
    """A gate filter behind those that protect pods; times are monotonic seconds.

    Holds the pods found within the window, at most as many as make a storm, and twice as many that
    something before the brake holds for a moment.
    """

    name = FINDING_STORM.gate

    def __init__(self, view: ClusterView, settings: StormBrakeSettings | None) -> None:
        self._view = view
        self._count_pods = partial(len, view.store(Pod))
        self._settings = settings
        self._found: deque[_Found] = deque()
        self._pods: set[PodKey] = set()
        self._held: dict[PodKey, _Held] = {}
        self._reached: Finding | None = None
        self._message = ""
        self._busy_until = 0.0
        self._found_since = 0

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
        return self._found_since

    @property
    def message(self) -> str:
        """Return what the storm is; empty while there is none."""
        return self._message

    def reconfigure(self, settings: StormBrakeSettings | None) -> None:
        """Apply other thresholds; a storm stays one, unless the brake is switched off."""
        self._settings = settings

    def check(self, finding: Finding, _: float) -> Refuse | None:
        """Refuse everything during a storm; note that the finding came so far."""
        if not finding.is_companion:  # it was not found
            self._reached = finding
        if not self._message:
            return None
        message = f"{self._message}; {self.release_text}"
        wakes = (WakeOnBrake(STORM), WakeOnPod(finding.pod.uid))
        return FINDING_STORM.refuse(finding, message, wakes, scope_exhausted=CLUSTER)

    def count(self, evaluation: Evaluation) -> BrakeNotice | None:
        """Count a finding that was just decided on; return the notice of a storm that it makes."""
        settings, finding = self._settings, evaluation.decision.finding
        trigger, held = evaluation.trigger.change, self._held.pop(finding.pod.uid, None)
        if settings is None or not (evaluation.is_new or held):
            return None
        if held is None:
            if isinstance(trigger, Resynced):
                return None
            held = _Held(0.0, trigger.kind, trigger.object_name)
        now, uid = evaluation.decided_at, finding.pod.uid
        if finding is not self._reached:  # something protects the pod
            self._follow(evaluation.decision, held, now, settings)
            return None
        if self._is_planned(finding):
            return None
        self._forget_before(now - settings.window_s)
        if uid in self._pods:
            return None
        self._pods.add(uid)
        self._found.append(_Found(now, uid, finding.plugin, held.change, held.changed))
        return self._engage(now, settings)

    def _engage(self, now: float, settings: StormBrakeSettings) -> BrakeNotice | None:
        """Return the notice of a storm that the pods found make; prolong one that there is."""
        storm = settings.threshold(self._count_pods())
        if self._message:
            self._found_since += 1
            if len(self._found) * _QUIET_SHARE >= storm:
                self._set_busy(now, settings)
            while len(self._found) > storm:
                self._pods.discard(self._found.popleft().pod)
        elif len(self._found) >= storm:
            self._message = _describe(self._found, settings)
            self._set_busy(now, settings)
            self._forget()
            return BrakeNotice(STORM, CLUSTER, engaged=True, message=self._message)
        return None

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
        if len(self._held) >= (bound := _HELD * settings.threshold(self._count_pods())):
            late = now - _LATE_S
            self._held = {each: of for each, of in self._held.items() if of.until > late}
        if len(self._held) < bound:
            self._held[pod] = _Held(until, held.change, held.changed)

    def _is_planned(self, finding: Finding) -> bool:
        bound = self._view.pod_and_node(finding.pod.uid)
        if bound is None:
            return False
        is_of_set = finding.move_set is not None
        return is_of_set or bound[1].labels.get(PLANNED) == "true" or is_to_be_drained(bound[1])

    def next_due(self) -> float | None:
        """Return when the brake is released by itself; None where it is not."""
        if not self._message or self._settings is None:
            return None
        return None if self._settings.release_after_s is None else self._busy_until

    def update(self, now: float) -> Iterator[BrakeNotice]:
        """Yield the notice of a release whose time has come."""
        if self._message and self._settings is None:
            yield from self.release("the brake was switched off")
        elif (due := self.next_due()) is not None and due <= now:
            yield from self.release("it has been quiet for long enough")

    def release(self, message: str, by: str = "") -> Iterator[BrakeNotice]:
        """Release the brake; the findings that wait do not count as another storm."""
        if self._message:
            self._message = ""
            self._forget()
            self._held.clear()
            yield BrakeNotice(STORM, CLUSTER, engaged=False, message=message, by=by)

    def restore(self, message: str, now: float) -> None:
        """Restore the storm of an earlier process; the quiet time begins again."""
        self._message = message
        if self._settings is not None:
            self._set_busy(now, self._settings)

    def _set_busy(self, now: float, settings: StormBrakeSettings) -> None:
        self._busy_until = now + (settings.release_after_s or 0.0)

    def _forget_before(self, at: float) -> None:
        while self._found and self._found[0].at <= at:
            self._pods.discard(self._found.popleft().pod)

    def _forget(self) -> None:
        self._found_since = 0
        self._found.clear()
        self._pods.clear()


def _describe(found: Iterable[_Found], settings: StormBrakeSettings) -> str:
    """Say how many pods were found, and what most of them have in common."""
    pods = list(found)
    plugin, by_plugin = Counter(each.plugin for each in pods).most_common(1)[0]
    change, by_change = Counter(each.change for each in pods).most_common(1)[0]
    objects = Counter(each.changed for each in pods if each.change == change)
    changed, by_object = objects.most_common(1)[0]
    text = (
        f"{len(pods)} pods were found within {settings.window_s:g} s: {by_plugin} by {plugin}, "
        f"{by_change} after {change}"
    )
    if not changed:
        return text
    if len(objects) == 1:
        return f"{text} of {changed}"
    return f"{text} of {len(objects)} objects, such as {changed} ({format_count(by_object, 'pod')})"
