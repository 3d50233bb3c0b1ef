"""Keeps the groups of pods that run together or not at all, and how many of each run."""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import ClassVar, Final, Protocol

from reactive_desched.api.index import Cluster, Index
from reactive_desched.model.changes import Change
from reactive_desched.model.gangs import Gang, gang_of, quorum_of
from reactive_desched.model.objects import ClusterObject, Pod, PodKey
from reactive_desched.model.pod_groups import (
    GROUP_RECORDS,
    GroupRecord,
    GroupRule,
    KubernetesWorkload,
    PodGroup,
    with_rule,
)
from reactive_desched.model.wakes import ChangeTypes, WakeOn
from reactive_desched.primitives.groups import Groups


class FollowedCluster(Cluster, Protocol):
    """A cluster that says whether an index in use follows a kind."""

    def has_followers(self, kind: type[ClusterObject]) -> bool:
        """Say whether an index in use follows the objects of a kind."""
        ...


class GangChanged(Change, frozen=True, gc=False):
    """Fewer pods of a gang run, or more that it can spare, or it has another rule."""

    gang: Gang

    @property
    def object_name(self) -> str:
        """The gang."""
        return str(self.gang)


class WakeOnGang(WakeOn, frozen=True, gc=False):
    """Fewer pods of a gang run, or more that it can spare, or it has another rule."""

    changes: ClassVar[ChangeTypes] = (GangChanged,)
    words = "a change of gang {gang}"
    gang: Gang


class Gangs(Index):
    """The pods of each gang that are on a node, have not ended and do not terminate.

    What the PodGroup or Workload of a gang says counts besides what stands on its pods.
    """

    announces = (GangChanged,)
    kinds = GROUP_RECORDS

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._members = Groups[Gang, PodKey]()
        self._replicas = Groups[Gang, Gang]()
        """Gangs that run and whose rule stands by another name, by that name."""
        self._of_system = Counter[str]()
        self._rules: dict[Gang, GroupRule] = {}
        for record in GROUP_RECORDS:
            for each in cluster.store(record):
                self.on_object(None, each)
        for pod in cluster.store(Pod):
            self.on_pod(None, pod)

    @property
    def gangs(self) -> Collection[Gang]:
        """Return the groups of which a pod runs, also those that are gangs in name only."""
        return self._members.groups()

    def has_gangs_of(self, system: str) -> bool:
        """Say whether there are pods of gangs of a system."""
        return self._of_system[system] > 0

    def of(self, pod: Pod) -> Gang | None:
        """Return the gang of a pod; its group is none whose pods are placed one by one."""
        gang = gang_of(pod)
        return None if gang is None or not self._rule(gang).is_gang else gang

    def pods_of(self, gang: Gang) -> Collection[PodKey]:
        """Return the uids of the pods of a gang that run."""
        return self._members.of(gang)

    def others(self, gang: Gang, pod: Pod) -> int:
        """Count the pods of a gang that run beside this one."""
        members = self._members.of(gang)
        return len(members) - (pod.uid in members)

    def quorum(self, gang: Gang, pods: Iterable[Pod]) -> int | None:
        """Return how many pods of a gang have to run together, by its object or else its pods."""
        quorum = self._rule(gang).quorum
        return quorum_of(pods) if quorum is None else quorum

    def spares(self, gang: Gang, pod: Pod, leaves: Callable[[PodKey], bool]) -> bool:
        """Say whether a gang goes on without a pod, and lets it leave alone.

        Its object has to say both: that its pods may be disrupted one by one, and how many have to
        run together; so many others have to be Ready, without those that leave already.
        """
        rule = self._rule(gang)
        if rule.disruption != "Single":
            return False
        others = (uid for uid in self._members.of(gang) if uid != pod.uid and not leaves(uid))
        return rule.spares(sum(map(self._is_ready, others)))

    def on_pod(self, old: Pod | None, new: Pod | None) -> Iterable[Change]:
        """Follow a pod that appeared, disappeared, began to terminate, or has another group."""
        was = None if old is None else gang_of(old)
        now = None if new is None else gang_of(new)
        if was is None and now is None:  # as most pods are
            return ()
        self._count(was, now)
        before = was if old is not None and _runs(old) else None
        after = now if new is not None and _runs(new) else None
        if before == after:
            return self._readiness(old, new, after)
        changes: list[Change] = []
        if new is not None and after is not None:
            self._members.add(after, new.uid)
            if (named := with_rule(after)) != after:
                self._replicas.add(named, after)
            changes += self._readiness(None, new, after)
        if old is not None and before is not None:
            self._members.discard(before, old.uid)
            if before not in self._members:
                self._replicas.discard(with_rule(before), before)
            changes.append(GangChanged(before))
        return changes

    def on_pod_status(self, old: Pod, new: Pod) -> Iterable[Change]:
        """Follow a pod whose annotations put it into another group, or that gets Ready."""
        if old.annotations is not new.annotations:
            return self.on_pod(old, new)
        if not self._rules:  # so none may spare a pod
            return ()
        return self._readiness(old, new, gang_of(new))

    def on_object(self, old: ClusterObject | None, new: ClusterObject | None) -> Iterable[Change]:
        """Follow a PodGroup or Workload that says something else, and name its gangs."""
        was, now = ({} if each is None else each.rules for each in (_group(old), _group(new)))
        for gang in was:
            self._rules.pop(gang, None)
        self._rules.update(now)
        differ = {gang for gang in {*was, *now} if was.get(gang) != now.get(gang)}
        return [GangChanged(gang) for gang in self._with_rules(differ)]

    def answers(self) -> object:
        """Return the uids by gang, gangs by their rules, the systems of pods, and the rules."""
        return self._members.as_sets(), self._replicas.as_sets(), +self._of_system, self._rules

    def _count(self, was: Gang | None, now: Gang | None) -> None:
        if was is not None:
            self._of_system[was.system] -= 1
        if now is not None:
            self._of_system[now.system] += 1

    def _readiness(self, old: Pod | None, new: Pod | None, gang: Gang | None) -> Iterable[Change]:
        """Announce a pod that got Ready, where its gang may spare another one for it."""
        if gang is None or new is None or not new.status.is_ready:
            return ()
        was_ready = old is not None and old.status.is_ready
        if was_ready or self._rule(gang).disruption != "Single":
            return ()
        return (GangChanged(gang),)

    def _is_ready(self, uid: PodKey) -> bool:
        pod = self._cluster.store(Pod).get(uid)
        return pod is not None and pod.status.is_ready

    def _rule(self, gang: Gang) -> GroupRule:
        return self._rules.get(with_rule(gang), _UNKNOWN)

    def _with_rules(self, differ: Collection[Gang]) -> Iterable[Gang]:
        """Return the gangs whose rules these are, in one order: of a Workload, its replicas."""
        return sorted({*differ, *(each for gang in differ for each in self._replicas.of(gang))})


def _group(record: ClusterObject | None) -> GroupRecord | None:
    assert record is None or isinstance(record, PodGroup | KubernetesWorkload), "it follows these"
    return record


_UNKNOWN: Final = GroupRule()


def asks_for_gangs(state: FollowedCluster, record: type[GroupRecord]) -> bool:
    """Say whether PodGroups, or objects like them, say something of gangs that are asked about."""
    return state.has_followers(record) and state.index(Gangs).has_gangs_of(record.system)


def _runs(pod: Pod) -> bool:
    return pod.is_active and not pod.is_terminating
