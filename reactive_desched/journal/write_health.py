"""Says whether the disk takes records just now."""

from collections.abc import Callable

from reactive_desched.primitives.wakeup import Wakeup

STALLED_AFTER_S = 1.0
"""A write that takes longer makes the journal unfit until it returns."""


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
