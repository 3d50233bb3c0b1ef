"""The decisions of one policy over a recording: its evictions, and what blocked others."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from reactive_desched.eviction.recorder import NullRecorder
from reactive_desched.model.clock_pair import ClockPair
from reactive_desched.model.decisions import Decision, Evict
from reactive_desched.model.evaluation import DecisionContext
from reactive_desched.model.moves import MoveEnd

__all__ = [
    "BlockedLines",
    "DecisionLog",
    "FoundPod",
    "HeldFinding",
    "MadeEviction",
    "PolicyDecisions",
    "found_pod",
]

API_VERSION: Final = "reactive-desched/v1alpha1"
KIND: Final = "PolicyDecisions"


class FoundPod(Struct, frozen=True, gc=False):
    """A pod that a plugin of a profile found, where it was then, and the finding in words.

    `line` is the uid of the first recorded pod of the line of replacements that the pod continues:
    by it the evictions of two policies are compared. `workload` is the topmost controller.
    """

    line: str
    name: str
    namespace: str
    workload: str
    node: str
    profile: str
    plugin: str
    finding: str


class MadeEviction(Struct):
    """An eviction by a policy, at `time_s` since the epoch.

    `ready_s` is how long it took until the replacement was Ready, None where it was not.
    """

    time_s: float
    pod: FoundPod
    was_ready: bool
    replacement: str = ""
    replacement_node: str = ""
    ready_s: float | None = None
    is_futile: bool = False
    end: str = ""


class HeldFinding(Struct, frozen=True, gc=False):
    """A pod that a plugin would have evicted, and what blocked it last."""

    pod: FoundPod
    gate: str
    reason: str
    message: str
    setting: str
    since_s: float
    last_s: float


class BlockedLines(Struct, frozen=True, gc=False):
    """The lines of pods that a gate blocked for some time, and the setting that would change it."""

    gate: str
    reason: str
    lines: tuple[str, ...]
    setting: str = ""


class PolicyDecisions(Struct, frozen=True, kw_only=True):
    """The decisions of one policy over a recorded time, by one version of the program.

    As JSON it is what two versions give each other. `files` name what the configuration is from,
    `plugins` those that it enables; times are seconds since the epoch.
    """

    api_version: str = API_VERSION
    kind: str = KIND
    version: str
    files: tuple[str, ...]
    revision: str
    plugins: tuple[str, ...]
    began_s: float
    ended_s: float
    evictions: tuple[MadeEviction, ...]
    held: tuple[HeldFinding, ...]
    blocked: tuple[BlockedLines, ...]
    plugin_faults: tuple[str, ...] = ()


def found_pod(context: DecisionContext, line: str) -> FoundPod:
    """Return the pod that a decision is about."""
    finding, pod = context.finding, context.finding.pod
    return FoundPod(
        line,
        pod.name,
        pod.namespace,
        str(context.owners[-1]) if context.owners else f"Pod/{pod.name}",
        pod.node,
        context.profile,
        finding.plugin,
        finding.message,
    )


class DecisionLog(NullRecorder):
    """Takes the controller's records of one policy.

    `held` has the last decision against each finding, `reasons` each pod that a gate blocked
    for some time, and `settings` what would change that. `line_of` returns the line of a pod.
    """

    def __init__(self, moment: Callable[[], ClockPair], line_of: Callable[[str], str]) -> None:
        self.held: dict[tuple[str, str], HeldFinding] = {}
        self.reasons: dict[tuple[str, str], set[str]] = {}
        self.settings: dict[tuple[str, str], str] = {}
        self.line_of = line_of
        self._by_request: dict[str, MadeEviction] = {}
        self._moment = moment

    def record_decision(self, context: DecisionContext, decision: Decision) -> None:
        """Keep a decision that is no eviction."""
        if isinstance(decision, Evict) or decision.gate in _PASSING_GATES:
            return
        pod, clocks = found_pod(context, self.line_of(context.finding.pod.uid)), self._moment()
        now_s = clocks.wall_now
        before = self.held.get((pod.line, pod.plugin))
        self.held[pod.line, pod.plugin] = HeldFinding(
            pod,
            decision.gate,
            decision.reason,
            decision.record(clocks),
            decision.setting,
            now_s if before is None else before.since_s,
            now_s,
        )
        self.reasons.setdefault((decision.gate, decision.reason), set()).add(pod.line)
        if decision.setting:
            self.settings[decision.gate, decision.reason] = decision.setting

    def take_eviction(self, request_id: str, made: MadeEviction) -> None:
        """Keep an eviction by its request: what becomes of it comes later."""
        self.held.pop((made.pod.line, made.pod.plugin), None)
        self._by_request[request_id] = made

    def record_follow_up(self, intent_id: str, end: MoveEnd) -> None:
        """Keep what became of an eviction."""
        if (made := self._by_request.get(intent_id)) is not None:
            made.ready_s, made.is_futile = end.ready_s, end.is_futile
            made.end = end.words
            made.replacement_node = end.node or made.replacement_node


_PASSING_GATES = frozenset({"InFlight", "Evaluation"})
"""Gates that hold a pod which leaves anyway, or is gone."""
