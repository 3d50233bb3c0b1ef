"""Says how long a command that ends waits for an API server that does not serve.

A server that restarts is away for some seconds, and a busy one, or a proxy before it, refuses some
requests: kubectl and client-go ask such a server again. One that stays away is an error.
"""

from collections.abc import Callable
from typing import Final

from reactive_desched.errors import ClusterError, RequestRejected
from reactive_desched.kube.client.clock import Clock

__all__ = ["PATIENCE_S", "Patience"]

PATIENCE_S: Final = 45.0
"""So long after the first failure the last request is sent; a request that succeeds renews it."""

MAX_REFUSALS: Final = 3
"""So often credentials are tried that the server does not accept: they may be renewed meanwhile."""

_FIRST_S, _LONGEST_S = 0.5, 5.0


def _ignore(_: str) -> None:
    """Do nothing with it."""


class Patience:
    """Waits between the requests of one command: half a second, doubling to five.

    A server that names a wait is asked then. `on_wait` is called with each new reason to wait.
    """

    def __init__(self, clock: Clock, on_wait: Callable[[str], None] = _ignore) -> None:
        self._clock = clock
        self._on_wait = on_wait
        self.succeeded()

    def succeeded(self) -> None:
        """Forget earlier failures: the server has served a request."""
        self._since: float | None = None
        self._wait_s = _FIRST_S
        self._refusals = 0
        self._reason = ""

    async def waited_after(self, error: ClusterError) -> bool:
        """Wait until the next request is due; at once return False where none is."""
        now = self._clock.now()
        since = self._since = now if self._since is None else self._since
        asked_s, is_refused = 0.0, False
        if isinstance(error, RequestRejected):
            asked_s, is_refused = error.retry_after_s or 0.0, error.is_unauthorized
        self._refusals += is_refused
        wait_s = max(self._wait_s, asked_s)
        is_over = now + wait_s > since + PATIENCE_S or self._refusals >= MAX_REFUSALS
        if not error.retryable or is_over:
            return False
        if (reason := str(error)) != self._reason:
            self._reason = reason
            left_s = since + PATIENCE_S - now
            self._on_wait(f"{reason}; the API server is asked again for up to {left_s:.0f} s")
        await self._clock.sleep(wait_s)
        self._wait_s = min(2 * self._wait_s, _LONGEST_S)
        return True
