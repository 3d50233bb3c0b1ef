"""Decides after how many observations a condition counts, as koordinator's anomaly detector.

One high sample moves nothing: a detector counts observations, and what counts as one is up to
the caller. Times are seconds on one clock.
"""

from collections.abc import Hashable
from typing import Final

from msgspec import Struct

DEFAULT_TIMEOUT_S: Final = 60.0


class AnomalyLimits(Struct, frozen=True):
    """The numbers of observations in a row that make a node abnormal, and normal again.

    A node becomes abnormal when it was found so more often than `abnormalities`, and normal when it
    was found so more often than `normalities`, or after `timeout_s`.
    """

    abnormalities: int = 5
    normalities: int = 3
    timeout_s: float = DEFAULT_TIMEOUT_S

    @property
    def is_immediate(self) -> bool:
        """Say whether the first observation counts at once."""
        return self.abnormalities == 1


class AnomalyDetector:
    """Decides whether one node is abnormal.

    Marks in between that are neither do not interrupt a run: only `reset` and time do.
    """

    __slots__ = ("_abnormal_run", "_expires_s", "_is_abnormal", "_limits", "_normal_run")

    def __init__(self, limits: AnomalyLimits) -> None:
        self._limits = limits
        self._is_abnormal = False
        self._abnormal_run = self._normal_run = 0
        self._expires_s = 0.0

    def mark_abnormal(self, now_s: float) -> bool:
        """Count an abnormal observation; return whether the node is abnormal now."""
        self._expire(now_s)
        self._normal_run = 0
        if not self._is_abnormal:
            self._abnormal_run += 1
            if self._abnormal_run > self._limits.abnormalities:
                self._become(abnormal=True)
                timeout_s = self._limits.timeout_s
                self._expires_s = now_s + (timeout_s if timeout_s > 0 else DEFAULT_TIMEOUT_S)
        return self._is_abnormal

    def mark_normal(self, now_s: float) -> None:
        """Count a normal observation."""
        self._expire(now_s)
        self._abnormal_run = 0
        self._normal_run += 1
        if self._is_abnormal and self._normal_run > self._limits.normalities:
            self._become(abnormal=False)

    def reset(self) -> None:
        """End the abnormal state; a node that is not abnormal keeps its counts."""
        if self._is_abnormal:
            self._become(abnormal=False)

    def _expire(self, now_s: float) -> None:
        if self._is_abnormal and self._expires_s < now_s:
            self._become(abnormal=False)

    def _become(self, *, abnormal: bool) -> None:
        self._is_abnormal = abnormal
        self._abnormal_run = self._normal_run = 0


class _Watched:
    """A node's detector, its last observation, and what followed from that."""

    __slots__ = ("detector", "ends_normal", "ends_reset", "evidence", "expires_s", "is_abnormal")

    def __init__(self, detector: AnomalyDetector) -> None:
        self.detector = detector
        self.evidence: Hashable = None
        self.expires_s = 0.0
        self.is_abnormal = self.ends_reset = self.ends_normal = False

    def end_observation(self, now_s: float) -> None:
        """Record what followed from the last observation."""
        if self.ends_reset:
            self.detector.reset()
        if self.ends_normal:
            self.detector.mark_normal(now_s)
        self.ends_reset = self.ends_normal = False


class AnomalyDetectors:
    """The detectors of the nodes of one pool, each forgotten when its node is not abnormal again.

    What follows from an observation counts with the next one. So a node that is looked at twice on
    the same evidence is found the same, whatever a plan made of it in between.
    """

    def __init__(self, forget_after_s: float) -> None:
        self._forget_after_s = forget_after_s
        self._watched: dict[str, _Watched] = {}
        self._now_s = 0.0

    def __len__(self) -> int:
        return len(self._watched)

    def begin(self, now_s: float) -> None:
        """Set the time of the observations to come; forget nodes found abnormal too long ago."""
        self._now_s = now_s
        self._watched = {n: w for n, w in self._watched.items() if w.expires_s >= now_s}

    def observe_abnormal(self, node: str, limits: AnomalyLimits, evidence: Hashable) -> bool:
        """Count an abnormal observation of a node; return whether it is abnormal.

        The same evidence again is no new observation.
        """
        if limits.is_immediate:
            return True
        if (watched := self._watched.get(node)) is None:
            watched = self._watched[node] = _Watched(AnomalyDetector(limits))
        if watched.evidence != evidence:
            watched.end_observation(self._now_s)
            watched.is_abnormal = watched.detector.mark_abnormal(self._now_s)
            watched.evidence = evidence
            watched.expires_s = self._now_s + self._forget_after_s
        watched.ends_reset = watched.ends_normal = False
        return watched.is_abnormal

    def relieve(self, node: str) -> None:
        """Reset a node's detector: it is not overloaded, or will soon be so no longer."""
        if (watched := self._watched.get(node)) is not None:
            watched.ends_reset = True

    def observe_normal(self, node: str) -> None:
        """Count a normal observation of a node that has a detector."""
        if (watched := self._watched.get(node)) is not None:
            watched.ends_normal = True
