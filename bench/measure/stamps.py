"""Stamps changes, decisions and outcomes as they pass through the application's reporter."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import anyio

from reactive_desched.kube.codec import ResourceCodec, WatchEvent
from reactive_desched.model.changes import Change
from reactive_desched.model.decisions import Evict
from reactive_desched.model.evaluation import Evaluation
from reactive_desched.model.outcomes import Outcome
from reactive_desched.telemetry.logs import DebugLogger
from reactive_desched.telemetry.observer import TelemetryObserver
from reactive_desched.telemetry.registry import MetricsRegistry


class StampingObserver(TelemetryObserver):
    """The application's own reporter, with nanoseconds of the monotonic clock by pod name."""

    def __init__(self, metrics: MetricsRegistry, log: DebugLogger) -> None:
        """Report to these, as the application does."""
        super().__init__(metrics, log)
        self.changes = 0
        self.line_ns = 0
        self._target_changes = 0
        self._target_reached: anyio.Event | None = None
        self.reset()

    def reset(self) -> None:
        """Begin anew."""
        self.decided_ns: dict[str, int] = {}
        self.from_frame_us: list[float] = []
        self.refused: dict[str, str] = {}
        self.results: Counter[str] = Counter()

    def on_changes(self, changes: Iterable[Change]) -> None:
        """Count news that changed something."""
        super().on_changes(changes)
        self.changes += 1
        if self._target_reached is not None and self.changes >= self._target_changes:
            self._target_reached.set()

    def on_decision(self, evaluation: Evaluation) -> None:
        """Stamp a decision to evict; keep why anything else was decided."""
        now, pod = time.monotonic_ns(), evaluation.finding.pod.name
        if isinstance(evaluation.decision, Evict):
            self.decided_ns[pod] = now
            self.from_frame_us.append((now - self.line_ns) / 1e3)
        else:
            self.refused[pod] = f"{evaluation.decision.gate}: {evaluation.decision.message}"
        super().on_decision(evaluation)

    def on_outcome(self, evaluation: Evaluation, outcome: Outcome, sent_at: float) -> None:
        """Count outcomes by result."""
        self.results[outcome.result] += 1
        super().on_outcome(evaluation, outcome, sent_at)

    async def wait_for_changes(self, changes: int) -> None:
        """Return when so many changes have come in since the start."""
        if self.changes < changes:
            self._target_changes, self._target_reached = changes, anyio.Event()
            await self._target_reached.wait()
            self._target_reached = None


@contextmanager
def frames_stamped(stamps: StampingObserver) -> Iterator[None]:
    """Stamp the moment at which each watch line is in hand, before it is decoded."""
    decode: Callable[[Any, bytes], WatchEvent[Any]] = (
        ResourceCodec.decode_event
    )  # Any: of every resource

    def stamped(codec: Any, line: bytes) -> WatchEvent[Any]:
        stamps.line_ns = time.monotonic_ns()
        return decode(codec, line)

    ResourceCodec.decode_event = stamped  # type: ignore[method-assign,assignment]  # nothing of ours may know this
    try:
        yield
    finally:
        ResourceCodec.decode_event = decode  # type: ignore[method-assign,assignment]  # as it was
