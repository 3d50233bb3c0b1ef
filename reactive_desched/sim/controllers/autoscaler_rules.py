"""Limits how fast a HorizontalPodAutoscaler scales: by windows, policies, and bounds."""

from collections.abc import Callable, Iterable, Mapping
from math import ceil
from typing import Final

from msgspec import Struct

from reactive_desched.sim.objects import Obj

__all__ = ["Allowed", "PastScaling"]

_WINDOW_S: Final = 300
"""`--horizontal-pod-autoscaler-downscale-stabilization`."""
_LONGEST_S: Final = 3_600
"""No window is longer; a period ends after half an hour."""
_LEAST_UP, _FACTOR_UP = 4, 2
_WHOLE: Final = 100
_MORE: Final = "recent recommendations were higher than current one, applying the highest"
_FEWER: Final = "recent recommendations were lower than current one, applying the lowest"
_FAST: Final = "the desired replica count is {} faster than the maximum scale rate"
_FAR: Final = "the desired replica count is {} than the {} replica count"


class Allowed(Struct, frozen=True):
    """The number of pods that may be there now, and the two conditions that say why."""

    replicas: int
    able: Obj
    limited: Obj


class _Limit(Struct, frozen=True):
    replicas: int
    reason: str
    message: str


_WITHIN: Final = ("DesiredWithinRange", "the desired count is within the acceptable range")


class PastScaling:
    """The recommendations and changes of one autoscaler, of the last hour."""

    def __init__(self, replicas: int, now: float) -> None:
        self._recommended = [(now, replicas)]
        self._changes: list[tuple[float, int]] = []

    def note(self, before: int, after: int, now: float) -> None:
        """Note that the workload was scaled: policies count that."""
        self._changes = [each for each in self._changes if each[0] >= now - _LONGEST_S]
        self._changes.append((now, after - before))

    def allow(self, spec: Obj, there: int, wanted: int, now: float) -> Allowed:
        """Return how many of the wanted pods the autoscaler's spec lets there be now."""
        behavior = spec.get("behavior")
        steady = self._stabilized(behavior, there, wanted, now)
        if steady == wanted:
            able = ("ReadyForNewScale", "recommended size matches current size")
        elif behavior is not None and wanted >= there:
            able = ("ScaleUpStabilized", f"{_FEWER} recent recommendation")
        else:
            able = ("ScaleDownStabilized", f"{_MORE} recent recommendation")
        limit = self._limited(spec, there, steady, now)
        return Allowed(
            limit.replicas,
            _condition("AbleToScale", "True", *able),
            _condition(
                "ScalingLimited",
                "False" if limit.replicas == steady else "True",
                limit.reason,
                limit.message,
            ),
        )

    def _stabilized(self, behavior: Obj | None, there: int, wanted: int, now: float) -> int:
        """Return what the windows make of a recommendation, which is noted as it is."""
        recent, self._recommended = (
            self._recommended,
            [
                *(each for each in self._recommended if each[0] >= now - _LONGEST_S),
                (now, wanted),
            ],
        )
        if behavior is None:
            return max([wanted, *(count for at, count in recent if at >= now - _WINDOW_S)])
        up = int(behavior["scaleUp"].get("stabilizationWindowSeconds", 0))
        down = int(behavior["scaleDown"].get("stabilizationWindowSeconds", _WINDOW_S))
        least = min([wanted, *(count for at, count in recent if at > now - up)])
        most = max([wanted, *(count for at, count in recent if at > now - down)])
        return min(max(there, least), most)

    def _limited(self, spec: Obj, there: int, wanted: int, now: float) -> _Limit:
        least, most = int(spec.get("minReplicas", 1)), int(spec["maxReplicas"])
        behavior = spec.get("behavior")
        if behavior is None:
            low, high = _lower(least, least), _upper(most, max(_FACTOR_UP * there, _LEAST_UP))
        else:
            up = max(there, self._farthest(behavior["scaleUp"], there, 1, now))
            down = min(there, self._farthest(behavior["scaleDown"], there, -1, now))
            low, high = _lower(least, down), _upper(most, up)
            if wanted == there:
                return _Limit(wanted, *_WITHIN)
        if wanted < low.replicas and (behavior is None or wanted < there):
            return low
        if wanted > high.replicas and (behavior is None or wanted > there):
            return high
        return _Limit(wanted, *_WITHIN)

    def _farthest(self, rules: Obj, there: int, sign: int, now: float) -> int:
        """Return how far the policies of one direction let the number of pods go."""
        if rules.get("selectPolicy") == "Disabled":
            return there
        reached = (self._reached(each, there, sign, now) for each in rules.get("policies") or ())
        goes_far = rules.get("selectPolicy") != "Min"
        choose: Callable[[Iterable[int]], int] = max if goes_far == (sign > 0) else min
        return choose(reached)

    def _reached(self, policy: Mapping[str, object], there: int, sign: int, now: float) -> int:
        value, period = int(str(policy["value"])), int(str(policy["periodSeconds"]))
        began = there - sum(change for at, change in self._changes if at > now - period)
        if policy["type"] == "Pods":
            return began + sign * value
        reached = began * (1 + sign * value / _WHOLE)
        return ceil(reached) if sign > 0 else int(reached)


def _upper(most: int, rate: int) -> _Limit:
    if most > rate:
        return _Limit(rate, "ScaleUpLimit", _FAST.format("increasing"))
    return _Limit(most, "TooManyReplicas", _FAR.format("more", "maximum"))


def _lower(least: int, rate: int) -> _Limit:
    if least < rate:
        return _Limit(rate, "ScaleDownLimit", _FAST.format("decreasing"))
    return _Limit(least, "TooFewReplicas", _FAR.format("less", "minimum"))


def _condition(kind: str, status: str, reason: str, message: str) -> Obj:
    return {"type": kind, "status": status, "reason": reason, "message": message}
