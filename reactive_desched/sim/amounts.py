"""Sums what the containers of a pod ask for, and writes amounts as the API server does."""

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from reactive_desched.model.quantities import parse_quantity
from reactive_desched.model.resources import (
    MEMORY,
    ContainerRequests,
    format_quantity,
    pod_requests,
)
from reactive_desched.sim.objects import Obj

__all__ = ["LIMITS", "REQUESTS", "exact", "listed", "sum_of", "write_amount"]

REQUESTS, LIMITS = "requests", "limits"
_SUFFIXES: Final = ("Ki", "Mi", "Gi", "Ti", "Pi")
_STEP: Final = 1024
_NOTHING: Final[Mapping[str, str]] = {}


@lru_cache(maxsize=1_000)
def exact(text: str) -> Fraction:
    """Return the value of a quantity; containers of a pod mostly ask for the same few.

    Raises QuantityError when the text is not a quantity.
    """
    return parse_quantity(text)


def sum_of(
    spec: Obj, field: str = REQUESTS, unasked: Mapping[str, str] = _NOTHING
) -> dict[str, int]:
    """Sum the requests or limits of a pod; `unasked` is what a container has that names none."""
    return pod_requests(
        [{**unasked, **listed(each, field)} for each in spec.get("containers") or ()],
        [
            ContainerRequests(
                {**unasked, **listed(each, field)}, is_sidecar=each.get("restartPolicy") == "Always"
            )
            for each in spec.get("initContainers") or ()
        ],
        listed(spec, field),
        _texts(spec.get("overhead") if field == REQUESTS else None),
    )


def listed(holder: Obj, field: str) -> dict[str, str]:
    """Return the requests or limits of a container, or of a pod's spec, as they are written."""
    return _texts((holder.get("resources") or {}).get(field))


def write_amount(resource: str, amount: int) -> str:
    """Write an amount exactly, bytes in the largest binary unit that divides them."""
    if resource != MEMORY and not resource.endswith("storage"):
        return format_quantity(resource, amount)
    suffix = ""
    for each in _SUFFIXES:
        if not amount or amount % _STEP:
            break
        amount, suffix = amount // _STEP, each
    return f"{amount}{suffix}"


def _texts(quantities: Mapping[str, Any] | None) -> dict[str, str]:
    return {name: str(value) for name, value in (quantities or {}).items()}
