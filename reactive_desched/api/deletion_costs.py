"""The contract of a plugin that says which pods a controller is to delete first when it shrinks."""

from collections.abc import Generator, Sequence
from typing import Final, Protocol, runtime_checkable

from reactive_desched.api.plugin import View
from reactive_desched.model.objects import Pod

MAX_COST: Final = 2**31 - 1
"""The highest cost that Kubernetes reads: such a pod is deleted last."""


@runtime_checkable
class RanksForDeletion(Protocol):
    """A plugin whose ranks the controller writes as `controller.kubernetes.io/pod-deletion-cost`.

    Of a ReplicaSet that shrinks, Kubernetes deletes the pods of the lowest cost first.
    """

    def deletion_costs(self, view: View) -> Generator[None, None, Sequence[tuple[Pod, int]]]:
        """Return the cost of each pod that is to have one, as the cluster is now, in steps."""
        ...
