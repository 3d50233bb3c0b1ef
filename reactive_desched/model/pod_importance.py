"""The order in which pods leave that nothing else ranks: least important first."""

from typing import Final

from reactive_desched.model.objects import BEST_EFFORT, BURSTABLE, GUARANTEED, Pod

_QOS_RANKS: Final = {BEST_EFFORT: 0, BURSTABLE: 1, GUARANTEED: 2}


def pod_importance(pod: Pod) -> tuple[bool, int, int, bool, str, str]:
    """Return a key to sort pods by, least important first.

    Pods without priority come before those with one, lower before higher, then BestEffort before
    Burstable before Guaranteed, then pods without the annotation `prefer-no-eviction`; namespace
    and name decide between equals.
    """
    priority = pod.spec.priority
    return (
        priority is not None,
        priority or 0,
        _QOS_RANKS.get(pod.qos_class, len(_QOS_RANKS)),
        pod.annotations.prefer_no_eviction is not None,
        pod.namespace,
        pod.name,
    )
