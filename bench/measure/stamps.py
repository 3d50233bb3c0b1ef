"""Listens to the application and stamps decisions, passing everything on to its own reporter."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio

from reactive_desched.assembly import Listener
from reactive_desched.errors import Malformed
from reactive_desched.kube.codec import WatchEvent
from reactive_desched.kube.decode import ResourceCodec
from reactive_desched.model.changes import Change
from reactive_desched.model.decisions import Evict
from reactive_desched.model.outcomes import Outcome
from reactive_desched.react.judgement import Judgement


@dataclass
class Stamps:
    """Nanoseconds of the machine's monotonic clock, by pod name."""

    reporter: Listener
    changes: int = 0
    line_ns: int = 0
    decided: dict[str, int] = field(default_factory=dict)
    from_frame_us: list[float] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    results: dict[str, int] = field(default_factory=dict)
    _wanted: int = 0
    _reached: anyio.Event | None = None

    def changed(self, changes: Iterable[Change]) -> None:
        """Count news that changed something."""
        self.reporter.changed(changes)
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
        self.reporter.judged(judgement)

    def ended(self, judgement: Judgement, outcome: Outcome, now: float, /) -> None:
        """Count outcomes by result."""
        self.results[outcome.result] = self.results.get(outcome.result, 0) + 1
        self.reporter.ended(judgement, outcome, now)

    def malformed(self, resource: str, error: Malformed) -> None:
        """Pass it on; generated objects are sound."""
        self.reporter.malformed(resource, error)

    def forget(self) -> None:
        """Begin anew."""
        self.decided, self.from_frame_us, self.refused, self.results = {}, [], {}, {}

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
