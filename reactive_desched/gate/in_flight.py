"""Which pods are being evicted right now, so that no pod is asked to leave twice."""

from collections.abc import Callable, Iterable

from cachetools import TTLCache

from reactive_desched.model.decisions import Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import Pod, PodKey
from reactive_desched.model.wakes import WakeOn, WakeOnEviction, WakeOnPod

MAX_RECENT_EVICTIONS = 50_000
CACHE_LAG_S = 60.0
"""How long after a successful call the pod may still look untouched in our picture."""


class InFlightEvictions:
    """Pods with an open intent, and pods just evicted whose deletion we have not seen yet.

    Just-evicted pods are remembered for a minute, 50,000 at most; at the bound the oldest is
    forgotten, which at worst costs one harmless second call (it carries the pod's uid).
    """

    name = "InFlight"

    def __init__(self, clock: Callable[[], float]) -> None:
        self._open: dict[PodKey, Pod] = {}
        self._recently_evicted: TTLCache[PodKey, None] = TTLCache(
            MAX_RECENT_EVICTIONS, CACHE_LAG_S, timer=clock
        )

    def __len__(self) -> int:
        return len(self._open)

    def pods(self) -> Iterable[Pod]:
        """Return the pods whose eviction was decided and has no outcome yet."""
        return self._open.values()

    def is_evicting(self, pod: PodKey) -> bool:
        """Say whether the pod is being evicted, or was a moment ago."""
        return pod in self._open or pod in self._recently_evicted

    def check(self, finding: Finding, _: float) -> Refuse | None:
        """Refuse a pod that is on its way already, even one that asks to be evicted."""
        pod = finding.pod
        if pod.is_terminating:
            wakes: tuple[WakeOn, ...] = (WakeOnPod(pod.uid),)
            return Refuse(finding, self.name, "pod is terminating", wakes, pod_leaves=True)
        if not self.is_evicting(pod.uid):
            return None
        wakes = (WakeOnPod(pod.uid), WakeOnEviction(pod.uid))
        return Refuse(finding, self.name, "its eviction is under way", wakes, pod_leaves=True)

    def reserve(self, pod: Pod) -> None:
        """An intent for this pod is being written."""
        self._open[pod.uid] = pod

    def release(self, pod: Pod, *, evicted: bool) -> None:
        """The intent has its outcome."""
        self._open.pop(pod.uid, None)
        if evicted:
            self._recently_evicted[pod.uid] = None
