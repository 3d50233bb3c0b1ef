"""Keeps when workloads were scaled lately: a size that is brief is no reason to balance."""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

from reactive_desched.model.objects import IntermediateOwner, Workload

MAX_KEPT: Final = 5_000
"""So many workloads are kept; the sizes of those that were scaled before are old."""

MAX_TIMES: Final = 10
"""So many times that a workload was scaled are kept, and count."""


class ScaledWorkloads:
    """Keeps when workloads were scaled, by their uids; `clock` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._scaled_at: OrderedDict[str, deque[float]] = OrderedDict()  # by uid

    def follow(self, before: Workload, after: Workload) -> None:
        """Keep the time where a workload wants another number of pods now."""
        if before.uid == after.uid and before.replicas != after.replicas:
            self._note(after.uid)

    def follow_replica_set(self, before: IntermediateOwner, after: IntermediateOwner) -> None:
        """Keep the time where a ReplicaSet was scaled, for what controls it, else for itself.

        Of one that a Deployment controls the size is not known here: its Deployment is followed.
        """
        if before.replicas is None or after.replicas is None or before.replicas == after.replicas:
            return
        self._note(after.uid if after.controller is None else after.controller.uid)

    def _note(self, uid: str) -> None:
        times = self._scaled_at.pop(uid, None) or deque[float](maxlen=MAX_TIMES)
        times.append(self._clock())
        self._scaled_at[uid] = times  # the one that was scaled longest ago is the first
        if len(self._scaled_at) > MAX_KEPT:
            self._scaled_at.popitem(last=False)

    def wait_s(self, uid: str, lasts_s: float) -> float:
        """Return for how long a workload must still keep its size until that counts.

        That is `lasts_s` for each time that it was scaled within ten times as long.
        """
        now = self._clock()
        times = [at for at in self._scaled_at.get(uid, ()) if now - at < MAX_TIMES * lasts_s]
        return max(0.0, times[-1] + len(times) * lasts_s - now) if times else 0.0
