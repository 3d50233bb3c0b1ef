"""Runs the sweep over a picture, and puts what it decides into words."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from reactive_desched.controller.controller import Plan, ProfilePlan
from reactive_desched.fit.scheduler import SchedulerFit
from reactive_desched.fit.upstream import SCHEDULER
from reactive_desched.gate.evictor import Guards
from reactive_desched.gate.filters import guards
from reactive_desched.model.decisions import Decision, Defer, Evict
from reactive_desched.model.objects import Pod
from reactive_desched.plan.defaults import is_stand_in
from reactive_desched.plan.report import Objection, PodName, Verdict
from reactive_desched.plan.snapshot import Picture
from reactive_desched.state.view import ClusterView
from reactive_desched.sweep.cycle import Cycle, Decided
from reactive_desched.sweep.thresholds import check_thresholds

__all__ = ["Judged", "judge", "named", "owner_of"]


class Judged(Struct, frozen=True):
    """What one pass came to; the view shows the cluster without the pods that would be gone."""

    verdicts: tuple[Verdict, ...]
    skipped: str | None
    view: ClusterView


def judge(plan: Plan, picture: Picture, now_s: float, node_fit: str, passes: int) -> Judged:
    """Look so many times at the same picture and return what the last time came to.

    What plugins remember from one pass to the next they keep; evicted pods are back each time.
    Raises ConfigError where the policy needs a PriorityClass that the picture does not have.
    """
    judged = _once(plan, picture, now_s, node_fit)
    for _ in range(passes - 1):
        judged = _once(plan, picture, now_s, node_fit)
    return judged


def _once(plan: Plan, picture: Picture, now_s: float, node_fit: str) -> Judged:
    state = picture.state(plan.selects)
    view = ClusterView(state, lambda: now_s)
    check_thresholds(plan.profiles, view)
    fit = SchedulerFit(view, lambda: now_s) if node_fit == SCHEDULER else None
    cycle, words = Cycle(plan, state, view, fit), _Words(plan.profiles, view)
    verdicts = tuple(map(words.verdict, _decisions(cycle)))
    return Judged(verdicts, cycle.why_not(), view)


def _decisions(cycle: Cycle) -> Iterator[Decided]:
    """Let every eviction succeed."""
    steps = cycle.run()
    decided = next(steps, None)
    while decided is not None:
        yield decided
        try:
            decided = steps.send(isinstance(decided.decision, Evict))
        except StopIteration:
            return


class _Words:
    """Puts decisions into words, adding to a protection's refusal what the others say."""

    def __init__(self, profiles: Sequence[ProfilePlan], view: ClusterView) -> None:
        asked = {profile.name: guards(profile.evictor) for profile in profiles}
        self._names: Final = {guard.name for each in asked.values() for guard in each}
        self._guards: Final[Mapping[str, Guards]] = {
            name: Guards(each, view, mandatory_no_eviction=False) for name, each in asked.items()
        }

    def verdict(self, decided: Decided) -> Verdict:
        """Describe one decision while the picture is as it was when it was made."""
        finding = decided.finding
        objections = tuple(self._objections(decided))
        return Verdict(
            action=_action(decided.decision),
            pod=named(finding.pod),
            node=finding.pod.node,
            owner=owner_of(finding.pod),
            profile=decided.profile,
            plugin=finding.plugin,
            reason=finding.reason,
            gate=objections[0].gate if objections else None,
            objections=objections,
        )

    def _objections(self, decided: Decided) -> Iterator[Objection]:
        decision = decided.decision
        if isinstance(decision, Evict):
            return
        yield Objection(decision.gate, decision.reason)
        if decision.gate in self._names:
            for gate, reason in self._guards[decided.profile].reasons(decision.finding.pod):
                if gate != decision.gate:
                    yield Objection(gate, reason)


def _action(decision: Decision) -> str:
    match decision:
        case Evict():
            return "Evict"
        case Defer():
            return "Defer"
        case _:
            return "Refuse"


def named(pod: Pod) -> PodName:
    """Name a pod."""
    return PodName(pod.namespace, pod.name, None if is_stand_in(pod.uid) else pod.uid)


def owner_of(pod: Pod) -> str | None:
    """Name a pod's first owner."""
    return str(pod.owners[0]) if pod.owners else None
