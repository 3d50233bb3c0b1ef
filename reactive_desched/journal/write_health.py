"""Whether the disk takes records just now, and how fast it lately took them."""

from collections.abc import Callable

from reactive_desched.primitives.wakeup import Wakeup

STALLED_AFTER_S = 1.0
"""A write that takes longer makes the journal unfit until it returns."""

FAST_WRITE_S = 0.0003
"""A synced write that takes no longer is fast: memory, or a disk with a protected cache."""

MAX_CREDIT_S = 0.01
"""So much longer than fast ones, in sum, writes may take before the disk's thread makes them."""


class WriteSpeed:
    """Whether a short write may be made in the event loop itself: `is_fast`.

    Handing a write to another thread and back costs more than a fast write takes. Each write adds
    `FAST_WRITE_S` to a credit and takes off what it lasted. The loop makes short writes from when
    the credit is full, after dozens of fast ones, until it is used up. So a single slow write, as
    any disk has, changes nothing, and a disk that turns slow holds the loop for `MAX_CREDIT_S` in
    sum, or for one write that takes longer.
    """

    def __init__(self) -> None:
        self._credit_s = 0.0
        self.is_fast = False

    def record(self, took_s: float) -> None:
        """Take in one short synced write, by the seconds that it took."""
        credit_s = self._credit_s + FAST_WRITE_S - took_s
        self._credit_s = min(MAX_CREDIT_S, max(0.0, credit_s))
        if self._credit_s in (0.0, MAX_CREDIT_S):
            self.is_fast = self._credit_s > 0

    def reset(self) -> None:
        """Begin anew: a write failed."""
        self._credit_s, self.is_fast = 0.0, False


class WriteHealth:
    """Tracks the current fault and the write in progress; the writer passes the time."""

    def __init__(self, recovered: Wakeup | None = None) -> None:
        self._fault = ""
        self._fault_since = 0.0
        self._writing_since: float | None = None
        self._recovered = Wakeup()
        self._also_recovered = recovered or Wakeup()

    def reason(self, clock: Callable[[], float]) -> str:
        """Return why nothing can be written at this moment; empty when it can."""
        if self._fault:
            return self._fault
        if self._writing_since is not None and self._is_stalled(clock()):
            return f"a write has been under way for more than {STALLED_AFTER_S:g} s"
        return ""

    async def wait_recovered(self, clock: Callable[[], float]) -> None:
        """Return when the disk takes records again, at once when it does."""
        if self.reason(clock):
            await self._recovered.wait()

    def mark_failed(self, message: str, now: float) -> None:
        """Note a fault; it lasts until `recovered`."""
        if not self._fault:
            self._fault_since = now
        self._fault = message

    def down_s(self, now: float) -> float:
        """Return how long the fault has lasted."""
        return now - self._fault_since

    def mark_recovered(self) -> None:
        """Note that writing works again."""
        self._fault = ""
        self.notify_waiters()

    def write_started(self, now: float) -> None:
        """Note that a write has begun."""
        self._writing_since = now

    def write_finished(self, now: float) -> None:
        """Note that the write has returned, well or not."""
        was_stalled = self._is_stalled(now)
        self._writing_since = None
        if was_stalled:
            self.notify_waiters()

    def _is_stalled(self, now: float) -> bool:
        since = self._writing_since
        return since is not None and now - since > STALLED_AFTER_S

    def notify_waiters(self) -> None:
        """Wake the tasks that wait for recovery, so that they check again."""
        self._recovered.notify()
        self._also_recovered.notify()
