"""Reads koordinator's labels and annotations of a pod: its class, its QoS, and its cost."""

from functools import lru_cache
from typing import Final

from reactive_desched.model.deletion_cost import read_deletion_cost
from reactive_desched.model.objects import BEST_EFFORT, BURSTABLE, GUARANTEED, Pod

PRIORITY_CLASS_LABEL: Final = "koordinator.sh/priority-class"
QOS_CLASS_LABEL: Final = "koordinator.sh/qosClass"

PROD: Final = "koord-prod"
_NO_CLASS: Final = ""
_CLASS_RANKS: Final = {"koord-free": 1, "koord-batch": 2, "koord-mid": 3, PROD: 4, _NO_CLASS: 5}
_CLASSES_BY_PRIORITY: Final = {
    range(9000, 10_000): PROD,
    range(7000, 8000): "koord-mid",
    range(5000, 6000): "koord-batch",
    range(3000, 4000): "koord-free",
}
_CLASSES_BY_QOS: Final = {
    "BE": "koord-batch",
    "LS": PROD,
    "LSR": PROD,
    "LSE": PROD,
    "SYSTEM": PROD,
}
_KUBERNETES_QOS_RANKS: Final = {BEST_EFFORT: 1, BURSTABLE: 2, GUARANTEED: 3}
_QOS_BY_KUBERNETES_QOS: Final = {GUARANTEED: "LSR", BURSTABLE: "LS", BEST_EFFORT: "BE"}
_QOS_RANKS: Final = {"BE": 1, "LS": 2, "LSR": 3, "LSE": 4, "SYSTEM": 4}
_NO_QOS_RANK: Final = 5

SortKey = tuple[int, ...]


def qos_class(pod: Pod) -> str:
    """Return koordinator's QoS class of a pod: its label's, else by the Kubernetes QoS class."""
    return _qos_class(pod.labels.get(QOS_CLASS_LABEL), pod.qos_class)


def priority_class(pod: Pod) -> str:
    """Return koordinator's priority class of a pod; empty for none.

    Its label decides, then its priority, then its QoS class. A label of any other value counts as
    none, and so leaves it to the QoS class.
    """
    labels = pod.labels
    return _priority_class(
        labels.get(PRIORITY_CLASS_LABEL),
        pod.spec.priority,
        labels.get(QOS_CLASS_LABEL),
        pod.qos_class,
    )


def is_prod(pod: Pod) -> bool:
    """Say whether the pod is a production pod."""
    return priority_class(pod) == PROD


@lru_cache(maxsize=1_000)  # the pods of a cluster have few combinations, and each asks often
def _priority_class(
    written: str | None, priority: int | None, written_qos: str | None, kubernetes_qos: str
) -> str:
    found = _class_by_priority(priority) if written is None else written
    if found and found in _CLASS_RANKS:
        return found
    return _CLASSES_BY_QOS.get(_qos_class(written_qos, kubernetes_qos), _NO_CLASS)


def _qos_class(written: str | None, kubernetes_qos: str) -> str:
    if written in _QOS_RANKS:
        return written
    return _QOS_BY_KUBERNETES_QOS.get(kubernetes_qos, "")


def eviction_order(pod: Pod) -> SortKey:
    """Return the key by which pods leave, the least important first, before use and age decide."""
    return (
        _CLASS_RANKS[priority_class(pod)],
        pod.spec.priority or 0,
        _KUBERNETES_QOS_RANKS.get(pod.qos_class, 0),
        _QOS_RANKS.get(qos_class(pod), _NO_QOS_RANK),
        read_deletion_cost(pod.annotations.deletion_cost) or 0,
        eviction_cost(pod),
    )


def eviction_cost(pod: Pod) -> int:
    """Return what koordinator's annotation says moving the pod costs; 0 where it says nothing.

    koordinator reads it as the API server reads the deletion cost.
    """
    return read_deletion_cost(pod.annotations.eviction_cost) or 0


def _class_by_priority(priority: int | None) -> str:
    if priority is None:
        return _NO_CLASS
    return next((c for among, c in _CLASSES_BY_PRIORITY.items() if priority in among), _NO_CLASS)
