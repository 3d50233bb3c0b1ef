"""Turns samples into the few numbers a table can hold."""

from collections.abc import Sequence

Quantiles = dict[str, float]
_LEVELS = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def quantiles(samples: Sequence[float]) -> Quantiles:
    """Return how many there are, the least, the usual quantiles and the greatest."""
    if not samples:
        return {"n": 0}
    ordered = sorted(samples)
    last = len(ordered) - 1
    values: Quantiles = {"n": len(ordered), "min": round(ordered[0], 1)}
    for name, level in _LEVELS.items():
        values[name] = round(ordered[min(last, int(len(ordered) * level))], 1)
    return values | {"max": round(ordered[last], 1)}
