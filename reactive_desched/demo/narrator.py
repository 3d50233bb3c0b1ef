"""Tells the audience what the controller sees and does, line by line."""

from collections.abc import Callable, Iterable

from rich.console import Console
from rich.text import Text

from reactive_desched.app.telemetry_observer import Reporter
from reactive_desched.controller.evaluation import Judgement
from reactive_desched.errors import Malformed
from reactive_desched.model.changes import (
    Change,
    DisruptionBudgetChanged,
    NodeChange,
    PodBound,
    PreferenceShifted,
    about,
)
from reactive_desched.model.decisions import Defer, Evict, Refuse
from reactive_desched.model.outcomes import EVICTED, Outcome

CHANGES_SHOWN = 4
"""Of a burst of equal changes the first few are shown, the rest are counted."""


class Narrator:
    """Prints changes, findings with their decisions, and outcomes with the time they took.

    Everything is also passed on to the ordinary reporter, so that the metrics are those of `run`.
    """

    def __init__(self, console: Console, clock: Callable[[], float], reporter: Reporter) -> None:
        self._console = console
        self._clock = clock
        self._started = clock()
        self._reporter = reporter
        self._seen: dict[str, int] = {}
        self.evicted: dict[str, Judgement] = {}
        self.latencies_ms: list[float] = []
        self.refused: list[Judgement] = []
        self.deferred = 0
        self.speaks = False

    def begin(self) -> None:
        """A new scene begins: forget the last one's figures."""
        self._seen.clear()
        self.latencies_ms.clear()
        self.refused.clear()
        self.deferred = 0

    def line(self, word: str, style: str, text: str) -> None:
        """Print one line with the time since the start."""
        if not self.speaks:
            return
        line = Text(f"{self._clock() - self._started:8.3f}s  ")
        line.append(f"{word:<9}", style=style)
        line.append(text)
        self._console.print(line, soft_wrap=True)

    def changed(self, changes: Iterable[Change]) -> None:
        """Show changes of nodes and budgets, and pods that landed."""
        changes = list(changes)
        self._reporter.changed(changes)
        for change in changes:
            if (text := _told(change)) is None:
                continue
            times = self._seen[text] = self._seen.get(text, 0) + 1
            if times <= CHANGES_SHOWN:
                self.line("change", "cyan", text)
            elif times == CHANGES_SHOWN + 1:
                self.line("change", "cyan", f"{text}, again and again …")

    def judged(self, judgement: Judgement) -> None:
        """Show a finding and what was decided on it, unless it was shown before."""
        self._reporter.judged(judgement)
        if not judgement.is_news:
            return
        decision, finding = judgement.decision, judgement.finding
        found = f"{finding.pod} {finding.reason}"
        match decision:
            case Evict():
                self.line("evict", "bold green", found)
            case Defer(gate=gate, reason=reason):
                self.deferred += 1
                self.line("defer", "yellow", f"{found}; {gate}: {reason}")
            case Refuse(gate=gate, reason=reason):
                self.refused.append(judgement)
                self.line("refuse", "red", f"{found}; {gate}: {reason}")

    def ended(self, judgement: Judgement, outcome: Outcome, asked_at: float, /) -> None:
        """Show an outcome, with the time from the change to it."""
        self._reporter.ended(judgement, outcome, asked_at)
        pod = judgement.finding.pod
        took_ms = (asked_at - judgement.cause.at) * 1000
        decided_ms = (asked_at - judgement.at) * 1000
        if outcome.result == EVICTED:
            self.evicted[pod.uid] = judgement
            self.latencies_ms.append(decided_ms)
        style = "green" if outcome.result == EVICTED else "red"
        times = f"asked {took_ms:.1f} ms after the change, {decided_ms:.1f} ms after the decision"
        self.line("outcome", style, f"{pod} {outcome.result}; {times} {outcome.detail}".rstrip())

    def held_back(self, reason: str | None) -> None:
        """Show why nothing is judged, and when it is again."""
        self._reporter.held_back(reason)
        if reason is not None:
            self.line("waiting", "magenta", reason)

    def malformed(self, resource: str, error: Malformed, /) -> None:
        """Show what could not be read."""
        self.line("skipped", "red", f"{resource}: {error}")


def _told(change: Change) -> str | None:
    match change:
        case PodBound(pod=pod):
            return f"PodBound {pod} on {pod.node}"
        case NodeChange():
            return f"{change.kind} {about(change)}"
        case DisruptionBudgetChanged(namespace=namespace, name=name):
            return f"{change.kind} {namespace}/{name}"
        case PreferenceShifted():
            return change.kind
        case _:
            return None
