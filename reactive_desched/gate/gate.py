"""Every gate in its order: the first "no" is the decision, none is an eviction."""

from typing import Protocol

from reactive_desched.gate.rate_limits import Budgets
from reactive_desched.gate.windows import Windows
from reactive_desched.model.decisions import Decision, Defer, Evict, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import Pod
from reactive_desched.model.outcomes import DISRUPTED, LEFT, Outcome


class Step(Protocol):
    """One gate: a reason to refuse or to wait, or None. `now` is monotonic seconds."""

    @property
    def name(self) -> str:
        """What records and metrics call it."""
        ...

    def verdict(self, finding: Finding, now: float) -> Defer | Refuse | None:
        """Say no, not now, or nothing."""
        ...


class Memory(Protocol):
    """Remembers evictions between the decision and their end."""

    def begin(self, pod: Pod) -> None:
        """The pod's eviction was decided."""
        ...

    def end(self, pod: Pod, *, evicted: bool) -> None:
        """The pod's eviction has its outcome."""
        ...


class Gate:
    """The gates of one profile, cheap and final ones first; the budgets, which cost, come last."""

    def __init__(
        self,
        steps: tuple[Step, ...],
        windows: Windows,
        budgets: Budgets,
        memories: tuple[Memory, ...] = (),
    ) -> None:
        self.steps = (*steps, windows)
        self._windows = windows
        self._budgets = budgets
        self._memories = memories

    def decide(self, finding: Finding, now: float) -> Decision:
        """Return the first gate's no, or Evict; an Evict holds its tokens."""
        for step in self.steps:
            if (verdict := step.verdict(finding, now)) is not None:
                return verdict
        spent = self._budgets.hold(finding.pod, now)
        if spent is not None:
            reason = f"the eviction budget of the {spent.scope} is spent"
            return Defer(finding, "EvictionBudget", reason, spent.until)
        self._windows.begin(finding.pod)
        for memory in self._memories:
            memory.begin(finding.pod)
        return Evict(finding)

    def settled(self, pod: Pod, outcome: Outcome, now: float) -> None:
        """Take in the end of an eviction; only one that happened costs its tokens."""
        left = outcome.result in LEFT
        for memory in self._memories:
            memory.end(pod, evicted=left)
        evicted = outcome.result in DISRUPTED
        self._windows.end(pod, now, evicted=evicted)
        self._budgets.let_go(pod, now, spent=evicted)
