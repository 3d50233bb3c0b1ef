"""The order in which pods leave that nothing else ranks: least important first."""

import re
from collections.abc import Callable
from typing import Final

from reactive_desched.model.objects import (
    BEST_EFFORT,
    BURSTABLE,
    GUARANTEED,
    Pod,
    controller_of,
)

STATEFUL_SET: Final = "StatefulSet"
"""The kind of controller whose pods leave in order, those of higher ordinals first."""

_ORDINAL: Final = re.compile(r"-([0-9]+)$")
_QOS_RANKS: Final = {BEST_EFFORT: 0, BURSTABLE: 1, GUARANTEED: 2}


Importance = tuple[bool, int, int, bool, str, str]


def pod_importance(prefers_no_eviction: Callable[[Pod], bool]) -> Callable[[Pod], Importance]:
    """Return a function that returns a key to sort pods by, least important first.

    Pods without priority come before those with one, lower before higher, then BestEffort before
    Burstable before Guaranteed, then pods that do not prefer to stay; namespace and name decide
    between equals.
    """

    def importance(pod: Pod) -> Importance:
        priority = pod.spec.priority
        return (
            priority is not None,
            priority or 0,
            _QOS_RANKS.get(pod.qos_class, len(_QOS_RANKS)),
            prefers_no_eviction(pod),
            pod.namespace,
            pod.name,
        )

    return importance


def is_of_stateful_set(pod: Pod) -> bool:
    """Say whether a StatefulSet controls the pod."""
    owner = controller_of(pod.owners)
    return owner is not None and owner.kind == STATEFUL_SET


def ordinal_of(pod: Pod) -> int:
    """Return the ordinal in the name of a StatefulSet's pod; 0 for any other pod."""
    found = _ORDINAL.search(pod.name) if is_of_stateful_set(pod) else None
    return int(found[1]) if found else 0
