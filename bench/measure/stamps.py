"""Stamps changes, decisions and outcomes as they pass through the application's reporter."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import anyio

from reactive_desched.app.telemetry_observer import Reporter
from reactive_desched.controller.evaluation import Judgement
from reactive_desched.kube.decode.codec import WatchEvent
from reactive_desched.kube.decode.codecs import ResourceCodec
from reactive_desched.model.changes import Change
from reactive_desched.model.decisions import Evict
from reactive_desched.model.outcomes import Outcome
from reactive_desched.telemetry.logs import VerboseLog
from reactive_desched.telemetry.metrics import Metrics


class Stamps(Reporter):
    """The application's own reporter, with nanoseconds of the monotonic clock by pod name."""

    def __init__(self, metrics: Metrics, log: VerboseLog) -> None:
        """Report to these, as the application does."""
        super().__init__(metrics, log)
        self.changes = 0
        self.line_ns = 0
        self._wanted = 0
        self._reached: anyio.Event | None = None
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.decided: dict[str, int] = {}
        self.from_frame_us: list[float] = []
        self.refused: dict[str, str] = {}
        self.results: Counter[str] = Counter()

    def changed(self, changes: Iterable[Change]) -> None:
        """Count news that changed something."""
        super().changed(changes)
        self.changes += 1
        if self._reached is not None and self.changes >= self._wanted:
            self._reached.set()

    def judged(self, judgement: Judgement) -> None:
        """Stamp a decision to evict; keep why anything else was decided."""
        now, pod = time.monotonic_ns(), judgement.finding.pod.name
        if isinstance(judgement.decision, Evict):
            self.decided[pod] = now
            self.from_frame_us.append((now - self.line_ns) / 1e3)
        else:
            self.refused[pod] = f"{judgement.decision.gate}: {judgement.decision.reason}"
        super().judged(judgement)

    def ended(self, judgement: Judgement, outcome: Outcome, now: float, /) -> None:
        """Count outcomes by result."""
        self.results[outcome.result] += 1
        super().ended(judgement, outcome, now)

    async def reach(self, changes: int) -> None:
        """Return when so many changes have come in since the start."""
        if self.changes < changes:
            self._wanted, self._reached = changes, anyio.Event()
            await self._reached.wait()
            self._reached = None


@contextmanager
def frames_stamped(stamps: Stamps) -> Iterator[None]:
    """Stamp the moment at which each watch line is in hand, before it is decoded."""
    decode: Callable[[Any, bytes], WatchEvent[Any]] = ResourceCodec.event  # Any: of every resource

    def stamped(codec: Any, line: bytes) -> WatchEvent[Any]:
        stamps.line_ns = time.monotonic_ns()
        return decode(codec, line)

    ResourceCodec.event = stamped  # type: ignore[method-assign,assignment]  # nothing of ours may know this
    try:
        yield
    finally:
        ResourceCodec.event = decode  # type: ignore[method-assign,assignment]  # as it was
