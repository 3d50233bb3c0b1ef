"""Keeps the groups of pods that run together or not at all, and how many of each run."""

from collections.abc import Collection, Hashable, Iterable
from typing import ClassVar

from reactive_desched.api.index import Cluster, Index
from reactive_desched.model.changes import Change
from reactive_desched.model.gangs import Gang, gang_of
from reactive_desched.model.objects import Pod, PodKey
from reactive_desched.model.wakes import ChangeTypes, WakeOn
from reactive_desched.primitives.groups import Groups


class GangChanged(Change, frozen=True, gc=False):
    """Fewer pods of a gang run."""

    gang: Gang

    @property
    def object_name(self) -> str:
        """The gang."""
        return str(self.gang)


class WakeOnGang(WakeOn, frozen=True, gc=False):
    """Fewer pods of a gang run."""

    changes: ClassVar[ChangeTypes] = (GangChanged,)
    words = "the end of other pods of gang {gang}"
    gang: Gang


class Gangs(Index):
    """The pods of each gang that are on a node, have not ended and do not terminate."""

    announces = (GangChanged,)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._members = Groups[Gang, PodKey]()
        for pod in cluster.store(Pod):
            self.on_pod(None, pod)

    @property
    def gangs(self) -> Collection[Gang]:
        """Return the gangs of which a pod runs."""
        return self._members.groups()

    def pods_of(self, gang: Gang) -> Collection[PodKey]:
        """Return the uids of the pods of a gang that run."""
        return self._members.of(gang)

    def others(self, gang: Gang, pod: Pod) -> int:
        """Count the pods of a gang that run beside this one."""
        members = self._members.of(gang)
        return len(members) - (pod.uid in members)

    def on_pod(self, old: Pod | None, new: Pod | None) -> Iterable[Change]:
        """Follow a pod that appeared, disappeared, began to terminate, or has another group."""
        before = None if old is None else _running_in(old)
        after = None if new is None else _running_in(new)
        if before == after:
            return ()
        if new is not None and after is not None:
            self._members.add(after, new.uid)
        if old is None or before is None:
            return ()
        self._members.discard(before, old.uid)
        return (GangChanged(before),)

    def on_pod_status(self, old: Pod, new: Pod) -> Iterable[Change]:
        """Follow a pod whose annotations put it into another group."""
        return () if old.annotations is new.annotations else self.on_pod(old, new)

    def answers(self) -> object:
        """Return the uids by gang."""
        return self._members.as_sets()


def _running_in(pod: Pod) -> Gang | None:
    """Return the gang of a pod that runs; None for any other pod."""
    return gang_of(pod) if pod.is_active and not pod.is_terminating else None
