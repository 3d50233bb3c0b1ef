"""A profile by sampling: at every tick of a CPU timer, look where the interpreter is."""

import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

_EVERY_S = 0.001
_SHOWN = 40
_ROOT = Path(__file__).resolve().parents[2]


class ProfileSamples:
    """Where the time went: by function itself, and by function with all that it called."""

    def __init__(self) -> None:
        self.count = 0
        self.self_counts: Counter[str] = Counter()
        self.lines: Counter[str] = Counter()
        self.cumulative_counts: Counter[str] = Counter()

    def take(self, _: int, frame: FrameType | None) -> None:
        """Take one sample; a signal handler."""
        self.count += 1
        seen, inner = set[str](), frame
        while frame is not None:
            seen.add(_name(frame))
            frame = frame.f_back
        self.cumulative_counts.update(seen)
        if inner is not None:
            self.self_counts[_name(inner)] += 1
            self.lines[f"{_name(inner)}:{inner.f_lineno}"] += 1

    def table(self) -> str:
        """Return the busiest functions and lines as text."""
        blocks = (
            ("itself", self.self_counts),
            ("line", self.lines),
            ("with callees", self.cumulative_counts),
        )
        return "\n".join(
            f"-- {title} ({self.count} samples)\n{_rows(counts, self.count)}"
            for title, counts in blocks
        )


def _rows(counts: Counter[str], total: int) -> str:
    rows = counts.most_common(_SHOWN)
    return "\n".join(f"{100 * hits / max(1, total):6.1f} %  {name}" for name, hits in rows)


def _name(frame: FrameType) -> str:
    code = frame.f_code
    file = Path(code.co_filename)
    where = file.relative_to(_ROOT) if file.is_relative_to(_ROOT) else Path(*file.parts[-2:])
    return f"{where}::{code.co_qualname}"


@contextmanager
def sampling(*, phase: bool = True) -> Iterator[None]:
    """Sample the main thread while the block runs, and show the result on standard error."""
    if not phase:
        yield
        return
    samples = ProfileSamples()
    before = signal.signal(signal.SIGPROF, samples.take)
    signal.setitimer(signal.ITIMER_PROF, _EVERY_S, _EVERY_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        sys.stderr.write(samples.table() + "\n")
