"""Prints what the controller sees and does, line by line."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

from reactive_desched.errors import Malformed
from reactive_desched.model.brakes import BrakeNotice
from reactive_desched.model.changes import (
    Change,
    NodeChange,
    PdbChanged,
    PodBound,
)
from reactive_desched.model.decisions import Defer, Evict, Refuse
from reactive_desched.model.evaluation import Evaluation
from reactive_desched.model.observer import Observer
from reactive_desched.model.outcomes import EVICTED, Outcome
from reactive_desched.state.indexes.preferred_affinity import BestPreferenceChanged
from reactive_desched.telemetry.observer import TelemetryObserver

CHANGES_SHOWN = 4
"""Of a burst of equal changes the first few are shown, the rest are counted."""


class ConsoleObserver(Observer):
    """Prints changes, findings with their decisions, and outcomes with the time they took.

    Everything is also passed on to the ordinary reporter, so that the metrics are those of `run`.
    """

    def __init__(
        self, console: Console, clock: Callable[[], float], telemetry: TelemetryObserver
    ) -> None:
        self._console = console
        self._clock = clock
        self._started = clock()
        self._telemetry = telemetry
        self._shown: dict[str, int] = {}
        self.evicted: dict[str, Evaluation] = {}
        self.latencies_ms: list[float] = []
        self.refused: list[Evaluation] = []
        self.deferred = 0
        self._is_shown = False

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Print what happens while the block runs; before and after it, nothing."""
        self._is_shown = True
        try:
            yield
        finally:
            self._is_shown = False

    def start_scene(self) -> None:
        """Begin a new scene with all figures at zero."""
        self._shown.clear()
        self.latencies_ms.clear()
        self.refused.clear()
        self.deferred = 0

    def print_line(self, label: str, style: str, text: str) -> None:
        """Print one line with the time since the start."""
        if not self._is_shown:
            return
        line = Text(f"{self._clock() - self._started:8.3f}s  ")
        line.append(f"{label:<9}", style=style)
        line.append(text)
        self._console.print(line, soft_wrap=True)

    def on_changes(self, changes: Iterable[Change]) -> None:
        """Show changes of nodes and budgets, and pods that landed."""
        changes = list(changes)
        self._telemetry.on_changes(changes)
        for change in changes:
            if (text := _describe(change)) is None:
                continue
            times = self._shown[text] = self._shown.get(text, 0) + 1
            if times <= CHANGES_SHOWN:
                self.print_line("change", "cyan", text)
            elif times == CHANGES_SHOWN + 1:
                self.print_line("change", "cyan", f"{text}, again and again …")

    def on_decision(self, evaluation: Evaluation) -> None:
        """Show a finding and what was decided on it, unless it was shown before."""
        self._telemetry.on_decision(evaluation)
        if not evaluation.changed:
            return
        decision, finding = evaluation.decision, evaluation.finding
        found = f"{finding.pod} {finding.message}"
        match decision:
            case Evict():
                self.print_line("evict", "bold green", found)
            case Defer(reason=reason, message=message):
                self.deferred += 1
                self.print_line("defer", "yellow", f"{found}; {reason}: {message}")
            case Refuse(reason=reason, message=message):
                self.refused.append(evaluation)
                self.print_line("refuse", "red", f"{found}; {reason}: {message}")

    def on_outcome(self, evaluation: Evaluation, outcome: Outcome, sent_at: float) -> None:
        """Show an outcome, with the time from the change to it."""
        self._telemetry.on_outcome(evaluation, outcome, sent_at)
        pod = evaluation.finding.pod
        took_ms = (sent_at - evaluation.trigger.seen_at) * 1000
        decided_ms = (sent_at - evaluation.decided_at) * 1000
        if outcome.result == EVICTED:
            self.evicted[pod.uid] = evaluation
            self.latencies_ms.append(decided_ms)
        style = "green" if outcome.result == EVICTED else "red"
        times = f"asked {took_ms:.1f} ms after the change, {decided_ms:.1f} ms after the decision"
        self.print_line(
            "outcome", style, f"{pod} {outcome.result}; {times} {outcome.message}".rstrip()
        )

    def on_pause(self, reason: str) -> None:
        """Show why evaluation is paused."""
        self._telemetry.on_pause(reason)
        if reason:
            self.print_line("waiting", "magenta", reason)

    def on_brake(self, notice: BrakeNotice) -> None:
        """Show a brake that engaged or was released."""
        self._telemetry.on_brake(notice)
        verb, style = ("holds", "bold red") if notice.engaged else ("lets go", "bold green")
        self.print_line("brake", style, f"{notice.brake} {verb}: {notice.message}")

    def on_cycle(self, seconds: float) -> None:
        """Count it in the metrics."""
        self._telemetry.on_cycle(seconds)

    def on_malformed(self, resource: str, error: Malformed) -> None:
        """Show what could not be read."""
        self.print_line("skipped", "red", f"{resource}: {error}")


def _describe(change: Change) -> str | None:
    match change:
        case PodBound(pod=pod):
            return f"PodBound {pod} on {pod.node}"
        case NodeChange():
            return f"{change.kind} {change.object_name}"
        case PdbChanged(namespace=namespace, name=name):
            return f"{change.kind} {namespace}/{name}"
        case BestPreferenceChanged():
            return change.kind
        case _:
            return None
