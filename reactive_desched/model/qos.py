"""The quality of service class that a pod's containers come to, where the status does not say.

As the SIG descheduler's pkg/utils/qos.go: of containers and init containers alike, only cpu and
memory, and only amounts above zero. Amounts are compared in thousandths, rounded up.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from reactive_desched.model.objects import BEST_EFFORT, BURSTABLE, GUARANTEED
from reactive_desched.model.quantities import milli_value
from reactive_desched.model.resources import CPU, MEMORY

Quantities = Mapping[str, str]


class ResourceRequirements(Struct, frozen=True, gc=False):
    """The requests and limits of one container, as quantity texts."""

    requests: Quantities = {}
    limits: Quantities = {}


def compute_qos_class(containers: Iterable[ResourceRequirements]) -> str:
    """Return BestEffort, Burstable or Guaranteed. Raises QuantityError."""
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    all_limited = True
    for container in containers:
        _add(requests, container.requests)
        all_limited &= _add(limits, container.limits) == {CPU, MEMORY}
    if not requests and not limits:
        return BEST_EFFORT
    return GUARANTEED if all_limited and requests == limits else BURSTABLE


def _add(total: dict[str, int], quantities: Quantities) -> set[str]:
    """Add cpu and memory to a total; returns which of them were above zero."""
    above_zero = set()
    for resource in quantities.keys() & {CPU, MEMORY}:
        if (amount := milli_value(quantities[resource])) > 0:
            total[resource] = total.get(resource, 0) + amount
            above_zero.add(resource)
    return above_zero
