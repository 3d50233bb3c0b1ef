"""The migration jobs that are to be made, and the pods for which the next one has to wait."""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from reactive_desched.model.objects import Pod, PodKey

NEXT_JOB_S: Final = 60.0
"""So long after a job failed no other is made for its pod."""

MAX_REMEMBERED: Final = 10_000
"""So many pods whose job failed are remembered; then the oldest is forgotten."""


class NewJob(Struct, frozen=True, gc=False):
    """A job that is to be made: the pod, which plugin found it, and why."""

    name: str
    pod: Pod
    trigger: str
    cause: str


class PendingJobs:
    """Holds at most one order for each pod, from its finding until the job is made or is not."""

    def __init__(self, wall_clock: Callable[[], float]) -> None:
        self._wall_clock: Final = wall_clock
        self._by_pod: Final[dict[PodKey, NewJob]] = {}
        self._unmade: Final[deque[NewJob]] = deque()
        self._not_before: Final[OrderedDict[PodKey, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._unmade)

    def of(self, pod: Pod) -> NewJob | None:
        """Return the order for a pod."""
        return self._by_pod.get(pod.uid)

    def add(self, pod: Pod, trigger: str, cause: str) -> NewJob:
        """Order a job for a pod."""
        order = NewJob(f"{pod.uid}-{int(self._wall_clock())}", pod, trigger, cause)
        self._by_pod[pod.uid] = order
        self._unmade.append(order)
        return order

    def take(self) -> NewJob | None:
        """Take out a job that is to be made; it is ordered until `end`."""
        return self._unmade.popleft() if self._unmade else None

    def end(self, order: NewJob, *, made: bool) -> None:
        """Record that a job was made, or could not be."""
        self._by_pod.pop(order.pod.uid, None)
        if not made:
            self.postpone(order.pod.uid)

    def postpone(self, pod: PodKey) -> None:
        """Delay the next job of a pod: one failed, or could not be made."""
        self._not_before.pop(pod, None)
        if len(self._not_before) >= MAX_REMEMBERED:
            self._not_before.popitem(last=False)
        self._not_before[pod] = self._wall_clock() + NEXT_JOB_S

    def seconds_to_next(self, pod: Pod) -> float:
        """Return for how long no job of the pod is made."""
        return max(0.0, self._not_before.get(pod.uid, 0.0) - self._wall_clock())
