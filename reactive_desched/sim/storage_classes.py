"""Answers what a StorageClass means for the claims that name it."""

from collections.abc import Iterable
from typing import Final

from reactive_desched.sim.objects import Obj, name_of

__all__ = [
    "DEFAULT_CLASS",
    "SELECTED_NODE",
    "default_class",
    "is_waiting_for_pod",
    "makes_volumes",
]

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""The annotation by which a scheduler says where a claim's volume is needed."""
DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"


def default_class(classes: Iterable[Obj]) -> str:
    """Return the class of claims that name none, the newest of several; empty without one."""
    found = [each for each in classes if _annotations(each).get(DEFAULT_CLASS) == "true"]
    found.sort(key=lambda each: (each["metadata"]["creationTimestamp"], name_of(each)))
    return name_of(found[-1]) if found else ""


def is_waiting_for_pod(storage_class: Obj, claim: Obj) -> bool:
    """Say whether a claim gets its volume when its first pod has a node, and none has yet."""
    is_delayed = storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"
    return is_delayed and SELECTED_NODE not in _annotations(claim)


def makes_volumes(storage_class: Obj) -> bool:
    """Say whether a volume is made for each claim; if not, a person does."""
    return storage_class.get("provisioner") != _NO_PROVISIONER


def _annotations(obj: Obj) -> Obj:
    return obj["metadata"].get("annotations") or {}
