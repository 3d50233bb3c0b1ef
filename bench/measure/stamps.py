"""Stamps decisions and outcomes as they pass through the application's observer."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from reactive_desched.kube.codec import ResourceCodec, WatchEvent
from reactive_desched.model.decisions import Evict
from reactive_desched.model.evaluation import Evaluation
from reactive_desched.model.outcomes import EVICTED, Outcome
from reactive_desched.telemetry.logs import DebugLogger
from reactive_desched.telemetry.observer import TelemetryObserver
from reactive_desched.telemetry.registry import MetricsRegistry


class StampingObserver(TelemetryObserver):
    """The application's own observer, with nanoseconds of the monotonic clock by pod name."""

    def __init__(self, metrics: MetricsRegistry, log: DebugLogger) -> None:
        super().__init__(metrics, log, time.time)
        self.line_ns = 0
        self.evicting = 0
        self.resumed_ns = 0
        self.reset()

    def reset(self) -> None:
        """Forget the stamps; `evicting` still counts the evictions that have no outcome yet."""
        self.decided_ns: dict[str, int] = {}
        self.evicted_uids: list[str] = []
        self.from_frame_us: list[float] = []
        self.refused: dict[str, str] = {}
        self.results: Counter[str] = Counter()

    def on_pause(self, reason: str) -> None:
        """Stamp when the last pause ended."""
        if not reason:
            self.resumed_ns = time.monotonic_ns()
        super().on_pause(reason)

    def on_decision(self, evaluation: Evaluation) -> None:
        """Stamp a decision to evict; keep why anything else was decided."""
        now, pod = time.monotonic_ns(), evaluation.finding.pod.name
        if isinstance(evaluation.decision, Evict):
            self.decided_ns[pod] = now
            self.evicting += 1
            self.from_frame_us.append((now - self.line_ns) / 1e3)
        else:
            self.refused[pod] = f"{evaluation.decision.gate}: {evaluation.decision.message}"
        super().on_decision(evaluation)

    def on_outcome(self, evaluation: Evaluation, outcome: Outcome, sent_at: float) -> None:
        """Count outcomes, and keep which pods were evicted."""
        self.results[outcome.result] += 1
        self.evicting -= 1
        if outcome.result == EVICTED:
            self.evicted_uids.append(evaluation.finding.pod.uid)
        super().on_outcome(evaluation, outcome, sent_at)


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
