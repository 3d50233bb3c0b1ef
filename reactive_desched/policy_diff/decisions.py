"""The decisions of one policy over a recording: its evictions, and what blocked others."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from reactive_desched.eviction.recorder import NullRecorder
from reactive_desched.model.decisions import Decision, Evict
from reactive_desched.model.evaluation import DecisionContext
from reactive_desched.model.moves import MoveEnd
from reactive_desched.model.objects import OwnerReference, Pod

if TYPE_CHECKING:
    pass

__all__ = ["DecisionLog", "HeldFinding", "MadeEviction"]


class MadeEviction(Struct):
    """An eviction by a policy, at `time_s` since the epoch.

    `line` is the uid of the first recorded pod of the line of replacements that the pod continues:
    by it the evictions of two policies are compared. `workload` is the topmost controller.
    `ready_s` is how long it took until the replacement was Ready, None where it was not.
    """

    time_s: float
    line: str
    pod: str
    namespace: str
    workload: str
    node: str
    profile: str
    plugin: str
    finding: str
    was_ready: bool
    replacement: str = ""
    replacement_node: str = ""
    ready_s: float | None = None
    is_futile: bool = False
    end: str = ""


class HeldFinding(Struct):
    """A pod that a plugin would have evicted, and what blocked it last."""

    line: str
    pod: str
    namespace: str
    workload: str
    node: str
    profile: str
    plugin: str
    finding: str
    gate: str
    reason: str
    message: str
    setting: str
    since_s: float
    last_s: float


class DecisionLog(NullRecorder):
    """Takes the controller's records of one policy.

    `held` has the last decision against each finding, `reasons` each pod that a gate blocked
    for some time, and `settings` what would change that.
    """

    def __init__(self, wall: Callable[[], float], line_of: Callable[[str], str]) -> None:
        self.held: dict[tuple[str, str], HeldFinding] = {}
        self.reasons: dict[tuple[str, str], set[str]] = {}
        self.settings: dict[tuple[str, str], str] = {}
        self.by_request: dict[str, MadeEviction] = {}
        self._wall = wall
        self._line_of = line_of

    def record_decision(self, context: DecisionContext, decision: Decision) -> None:
        """Keep a decision that is no eviction."""
        if isinstance(decision, Evict) or decision.gate in _PASSING_GATES:
            return
        finding, pod = context.finding, context.finding.pod
        line, now_s = self._line_of(pod.uid), self._wall()
        key = line, finding.plugin
        before = self.held.get(key)
        self.held[key] = HeldFinding(
            line=line,
            pod=pod.name,
            namespace=pod.namespace,
            workload=workload_of(pod, context.owners),
            node=pod.node,
            profile=context.profile,
            plugin=finding.plugin,
            finding=finding.message,
            gate=decision.gate,
            reason=decision.reason,
            message=decision.message,
            setting=decision.setting,
            since_s=now_s if before is None else before.since_s,
            last_s=now_s,
        )
        self.reasons.setdefault((decision.gate, decision.reason), set()).add(line)
        if decision.setting:
            self.settings[decision.gate, decision.reason] = decision.setting

    def record_follow_up(self, intent_id: str, end: MoveEnd) -> None:
        """Keep what became of an eviction."""
        if (made := self.by_request.get(intent_id)) is not None:
            made.ready_s, made.is_futile = end.ready_s, end.is_futile
            made.end = end.words
            made.replacement_node = end.node or made.replacement_node


_PASSING_GATES = frozenset({"InFlight", "Evaluation"})
"""Gates that hold a pod which leaves anyway, or is gone."""


def workload_of(pod: Pod, owners: "tuple[OwnerReference, ...]") -> str:
    """Name the topmost controller of a pod as KIND/NAME; of a bare pod, the pod."""
    return str(owners[-1]) if owners else f"Pod/{pod.name}"
