"""Counts the Ready pods of each controller, and keeps those of its pods that are not Ready."""

from collections.abc import Collection, Hashable, Iterable
from typing import Final

from reactive_desched.api.index import Cluster, Index
from reactive_desched.model.changes import Change, WorkloadChanged
from reactive_desched.model.objects import TERMINAL_PHASES, Pod, PodKey

_Controller = tuple[str, str]
"""The namespace of a pod, and the uid of its controller."""


class WorkloadPods(Index):
    """The pods of each controller, in its namespace, that neither terminate nor have ended.

    A pod may name the uid of a controller of another namespace: it is none of its pods. The index
    announces a controller when more of its pods are Ready or fewer are not: that is what may end a
    wait. Numbers of zero are not kept.
    """

    announces = (WorkloadChanged,)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._ready: dict[_Controller, int] = {}
        self._unready: dict[_Controller, dict[PodKey, None]] = {}
        self._unsteady: dict[_Controller, dict[PodKey, None]] = {}
        for pod in cluster.store(Pod):
            self._count(pod, 1)

    def ready(self, namespace: str, controller_uid: str) -> int:
        """Count the Ready pods of a controller."""
        return self._ready.get((namespace, controller_uid), 0)

    def unready(self, namespace: str, controller_uid: str) -> int:
        """Count the other pods of a controller, those without a node included."""
        return len(self.unready_pods(namespace, controller_uid))

    def unready_pods(self, namespace: str, controller_uid: str) -> Collection[PodKey]:
        """Return the uids of these other pods; they follow later changes."""
        return self._unready.get((namespace, controller_uid), _NONE)

    def unsteady_pods(self, namespace: str, controller_uid: str) -> Collection[PodKey]:
        """Return the uids of the Ready pods that were restarted several times; as above."""
        return self._unsteady.get((namespace, controller_uid), _NONE)

    def count(self, namespace: str, controller_uid: str) -> int:
        """Count all of a controller's pods."""
        key = namespace, controller_uid
        return self.ready(*key) + self.unready(*key)

    def on_pod(self, old: Pod | None, new: Pod | None) -> Iterable[Change]:
        """Follow a pod that appeared, disappeared, terminates, or has another controller."""
        before = None if old is None else self._count(old, -1)
        after = None if new is None else self._count(new, 1)
        return _announced(before, after)

    def on_pod_status(self, old: Pod, new: Pod) -> Iterable[Change]:
        """Follow a pod that became Ready, or ceased to be."""
        if old.status is new.status:
            return ()
        is_ready, was_ready = new.status.is_ready, old.status.is_ready
        is_unsteady = is_ready and new.status.is_unsteady
        was_unsteady = was_ready and old.status.is_unsteady
        if is_ready == was_ready and is_unsteady == was_unsteady:
            return ()
        if (controller := _controller_counted(new)) is None:
            return ()
        if is_unsteady != was_unsteady:
            _file(self._unsteady, controller, new.uid, 1 if is_unsteady else -1)
        if is_ready == was_ready:
            return ()
        _file(self._unready, controller, new.uid, -1 if is_ready else 1)
        _add(self._ready, controller, 1 if is_ready else -1)
        return (WorkloadChanged(controller[1]),) if is_ready else ()

    def answers(self) -> object:
        """Return the number of Ready pods, the other pods and the unsteady ones by controller."""
        named = (
            {uid: set(pods) for uid, pods in found.items()}
            for found in (self._unready, self._unsteady)
        )
        return dict(self._ready), *named

    def _count(self, pod: Pod, step: int) -> tuple[_Controller, bool] | None:
        """Count a pod in or out; return its controller, and whether it is Ready."""
        if (controller := _controller_counted(pod)) is None:
            return None
        is_ready = pod.status.is_ready
        if is_ready:
            _add(self._ready, controller, step)
            if pod.status.is_unsteady:
                _file(self._unsteady, controller, pod.uid, step)
        else:
            _file(self._unready, controller, pod.uid, step)
        return controller, is_ready


_NONE: Final[Collection[PodKey]] = ()


def _controller_counted(pod: Pod) -> _Controller | None:
    """Return the controller for which a pod counts."""
    if pod.deletion_s is not None or pod.status.phase in TERMINAL_PHASES:
        return None
    for owner in pod.owners:
        if owner.controller:
            return pod.namespace, owner.uid
    return None


def _file(
    pods: dict[_Controller, dict[PodKey, None]], controller: _Controller, pod: PodKey, step: int
) -> None:
    """Add a pod to those of its controller, or remove it."""
    if step > 0:
        pods.setdefault(controller, {})[pod] = None
        return
    of_controller = pods[controller]
    del of_controller[pod]
    if not of_controller:
        del pods[controller]


def _add(counts: dict[_Controller, int], controller: _Controller, step: int) -> None:
    count = counts.get(controller, 0) + step
    if count:
        counts[controller] = count
    else:
        del counts[controller]


def _announced(
    before: tuple[_Controller, bool] | None, after: tuple[_Controller, bool] | None
) -> Iterable[Change]:
    """Announce the controller that has fewer pods that are not Ready, or more that are."""
    if before == after:
        return ()
    fewer = "" if before is None or before[1] else before[0][1]
    more = after[0][1] if after is not None and after[1] else ""
    if not fewer or not more or fewer == more:
        one = fewer or more
        return (WorkloadChanged(one),) if one else ()
    return map(WorkloadChanged, sorted((fewer, more)))
