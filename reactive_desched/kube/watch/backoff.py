"""How long to stay away from a server that fails, longer each time, never in step with others."""

from random import Random

from msgspec import Struct

__all__ = ["BackoffConfig", "ExponentialBackoff"]


class BackoffConfig(Struct, frozen=True, gc=False):
    """The growth of the waits: 0.8 s doubling to 30 s, forgotten after two quiet minutes."""

    initial_s: float = 0.8
    factor: float = 2.0
    max_s: float = 30.0
    reset_after_s: float = 120.0


class ExponentialBackoff:
    """Waits drawn from [d, 2d) while d doubles, then from the upper half of the longest wait."""

    def __init__(self, rng: Random, config: BackoffConfig | None = None) -> None:
        self._rng = rng
        self._config = config or BackoffConfig()
        self._base_s = 0.0
        self._last_failure: float | None = None

    def next_wait_s(self, now: float) -> float:
        """Count one more failure and say how long to wait after it."""
        if self._last_failure is None or now - self._last_failure > self._config.reset_after_s:
            self.reset()
        self._last_failure = now
        grown_s = self._base_s * self._config.factor or self._config.initial_s
        self._base_s = min(grown_s, self._config.max_s / 2)
        return self._base_s * (1.0 + self._rng.random())

    def reset(self) -> None:
        """Forget earlier failures: something worked."""
        self._base_s = 0.0
