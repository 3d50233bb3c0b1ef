"""The pods and places that migration jobs name, and a namespace's pods that are unavailable."""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Final

from reactive_desched.api.index import Cluster, Index
from reactive_desched.model.changes import Change, MigrationJobChanged, MigrationJobEnded
from reactive_desched.model.migration_jobs import (
    PLACEHOLDER_FOR,
    PLACEHOLDER_FOR_KIND,
    PLACEHOLDER_OF,
    MigrationJob,
    PodReference,
)
from reactive_desched.model.objects import ClusterObject, Pod, PodKey, controller_of
from reactive_desched.model.reservations import Reservation
from reactive_desched.primitives.groups import Groups

PodName = tuple[str, str]

_KEEPS_NAME: Final = "StatefulSet"
"""The kind of controllers whose next pod has the name of the one before."""


class JobPods(Index):
    """Keeps the pod that each migration job names, and the jobs that name a pod.

    It announces the jobs of a pod that appears, disappears, or whose deletion begins, of a
    Reservation that differs, and of the pod that took its place. Kept only where jobs are watched:
    it holds the name of every pod.
    """

    announces = (MigrationJobChanged, MigrationJobEnded)
    kinds = (MigrationJob, Reservation)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._pods = cluster.store(Pod)
        self._jobs = cluster.store(MigrationJob)
        self._uids: dict[PodName, PodKey] = {}
        self._names = Groups[PodName, str]()
        self._unavailable = Groups[str, PodKey]()
        self._job_of_uid: dict[str, str] = {}
        self._reserving = Groups[str, str]()  # names of jobs by the Reservation's name
        self._takers = Groups[PodKey, str]()  # names of Reservations by their pod
        self._placeholders: dict[str, PodKey] = {}  # by the job's uid
        self._holders = Groups[str, str]()  # uids of jobs by the controller's uid
        self._unbound = Groups[str, PodKey]()  # by the controller's uid
        for job in self._jobs:
            self.on_object(None, job)
        for reservation in cluster.store(Reservation):
            self.on_object(None, reservation)
        for pod in self._pods:
            self.on_pod(None, pod)

    def pod_of(self, job: MigrationJob) -> Pod | None:
        """Return the pod that a job names; None where it is gone, or the name is another pod's."""
        uid = self._uids.get((job.pod.namespace, job.pod.name))
        if uid is None or job.pod.uid not in ("", uid):
            return None
        return self._pods.get(uid)

    def jobs_of(self, pod: Pod) -> Iterator[MigrationJob]:
        """Return the jobs that name a pod, ended ones included."""
        return self.jobs_naming(PodReference(pod.namespace, pod.name))

    def jobs_naming(self, pod: PodReference) -> Iterator[MigrationJob]:
        """Return the jobs that name a pod which may be gone, or another by now."""
        names = self._names.of((pod.namespace, pod.name))
        return (job for name in names if (job := self._jobs.get(name)) is not None)

    def taker_of(self, reservation: Reservation) -> Pod | None:
        """Return the pod that took the place of a Reservation, where it is still there."""
        taken_by = reservation.taken_by
        return None if taken_by is None else self._pods.get(taken_by.uid)

    def placeholder_of(self, job: MigrationJob) -> Pod | None:
        """Return the pod that keeps a place for the replacement of a job's pod."""
        uid = self._placeholders.get(job.uid)
        return None if uid is None else self._pods.get(uid)

    def successor_for(
        self, job: MigrationJob, placeholder: Pod, promised: Mapping[PodKey, str]
    ) -> Pod | None:
        """Return a pod that waits for the place, and is meant for no other node.

        `promised` names the job whose place a pod gets. The next pod of a StatefulSet has the name
        of the job's pod; any other waits for another reason.
        """
        controller = placeholder.labels.get(PLACEHOLDER_FOR, "")
        has_name = placeholder.labels.get(PLACEHOLDER_FOR_KIND) == _KEEPS_NAME
        found = map(self._pods.get, self._unbound.of(controller))
        waiting = [
            pod
            for pod in found
            if pod is not None
            and promised.get(pod.uid, job.name) == job.name
            and (pod.name == job.pod.name or not has_name)
        ]
        meant = [pod for pod in waiting if pod.status.nominated_node == placeholder.node]
        free = [pod for pod in waiting if not pod.status.nominated_node]
        return next(iter((*meant, *free)), None)

    def orphans(self) -> Iterator[Pod]:
        """Return the placeholders whose job is gone."""
        for job_uid, uid in self._placeholders.items():
            pod = None if job_uid in self._job_of_uid else self._pods.get(uid)
            if pod is not None and not pod.is_terminating:
                yield pod

    def unavailable_in(self, namespace: str) -> Iterator[Pod]:
        """Return the pods of controllers that are not Ready, have ended or are terminating."""
        found = map(self._pods.get, self._unavailable.of(namespace))
        return (pod for pod in found if pod is not None)

    def on_object(self, old: ClusterObject | None, new: ClusterObject | None) -> Iterable[Change]:
        """Follow a job, or a Reservation, that appeared, disappeared, or differs."""
        if isinstance(new or old, Reservation):
            return self._on_reservation(old, new)
        if isinstance(old, MigrationJob) and not _is_filed_alike(old, new):
            self._names.discard((old.pod.namespace, old.pod.name), old.name)
            self._job_of_uid.pop(old.uid, None)
            self._reserving.discard(old.reservation, old.name)
        if isinstance(new, MigrationJob) and not _is_filed_alike(new, old):
            self._names.add((new.pod.namespace, new.pod.name), new.name)
            self._job_of_uid[new.uid] = new.name
            if new.reservation:
                self._reserving.add(new.reservation, new.name)
        if not isinstance(old, MigrationJob) or old.has_ended:
            return ()
        is_over = not isinstance(new, MigrationJob) or new.has_ended
        return (MigrationJobEnded(old.name),) if is_over else ()

    def _on_reservation(
        self, old: ClusterObject | None, new: ClusterObject | None
    ) -> Iterable[MigrationJobChanged]:
        """Follow which pod took a Reservation's place; return the jobs that keep it."""
        if isinstance(old, Reservation) and old.taken_by is not None:
            self._takers.discard(old.taken_by.uid, old.name)
        if isinstance(new, Reservation) and new.taken_by is not None:
            self._takers.add(new.taken_by.uid, new.name)
        known = new if isinstance(new, Reservation) else old
        assert isinstance(known, Reservation), "one of the two is given"
        return [MigrationJobChanged(name) for name in self._jobs_keeping(known.name)]

    def _jobs_keeping(self, reservation: str) -> Iterable[str]:
        """Return the jobs that name a Reservation, or after which it is named."""
        named = dict.fromkeys(self._reserving.of(reservation))
        if (own := self._job_of_uid.get(reservation)) is not None:
            named[own] = None
        return named

    def on_pod(self, old: Pod | None, new: Pod | None) -> Iterable[Change]:
        """Follow a pod that appeared, disappeared, terminates or has ended."""
        pod = new or old
        assert pod is not None, "one of the two is given"
        name = (pod.namespace, pod.name)
        if new is not None:
            self._uids[name] = new.uid
        elif self._uids.get(name) == pod.uid:
            del self._uids[name]
        self._note_availability(pod, is_there=new is not None)
        named = (*self._names.of(name), *self._holding_jobs(old, new))
        names = dict.fromkeys((*named, *self._jobs_waiting_for(pod)))
        if not names:
            return ()
        changed: list[Change] = [MigrationJobChanged(job) for job in names]
        if new is None:
            changed += (MigrationJobEnded(job) for job in self._names.of(name))
        return changed

    def _holding_jobs(self, old: Pod | None, new: Pod | None) -> Iterator[str]:
        """Follow placeholders and pods without a node; name the jobs to which that matters."""
        if old is not None:
            yield from self._names_of(self._leave(old))
        if new is not None:
            yield from self._names_of(self._enter(new))

    def _enter(self, pod: Pod) -> Iterable[str]:
        """Add a placeholder, or a pod that waits for a node; return the uids of its jobs."""
        if (job_uid := pod.labels.get(PLACEHOLDER_OF)) is not None:
            self._placeholders[job_uid] = pod.uid
            self._holders.add(pod.labels.get(PLACEHOLDER_FOR, ""), job_uid)
            return (job_uid,)
        if (owner := controller_of(pod.owners)) is None:
            return ()
        if not (pod.node or pod.is_terminating or pod.has_ended):
            self._unbound.add(owner.uid, pod.uid)
        return self._holders.of(owner.uid)

    def _leave(self, pod: Pod) -> Iterable[str]:
        """Take out a placeholder, or a pod that waited; return the uids of its jobs."""
        if (job_uid := pod.labels.get(PLACEHOLDER_OF)) is not None:
            if self._placeholders.get(job_uid) == pod.uid:
                del self._placeholders[job_uid]
                self._holders.discard(pod.labels.get(PLACEHOLDER_FOR, ""), job_uid)
            return (job_uid,)
        if (owner := controller_of(pod.owners)) is None:
            return ()
        self._unbound.discard(owner.uid, pod.uid)
        return self._holders.of(owner.uid)

    def _names_of(self, jobs: Iterable[str]) -> Iterator[str]:
        return (name for uid in jobs if (name := self._job_of_uid.get(uid)) is not None)

    def on_pod_status(self, old: Pod, new: Pod) -> Iterable[MigrationJobChanged]:
        """Follow a pod that became Ready, or ceased to be; name the jobs that wait for that.

        A job waits for what the kube-scheduler says of its placeholder, and of the successor.
        """
        if old.status is new.status:
            return ()
        self._note_availability(new, is_there=True)
        names = [*self._jobs_waiting_for(new)]
        if not new.node:
            names += self._names_of(self._jobs_placing(new))
        return [MigrationJobChanged(name) for name in names]

    def _jobs_placing(self, pod: Pod) -> Iterable[str]:
        """Return the uids of the jobs that a pod without a node keeps a place for, or may get."""
        if (job_uid := pod.labels.get(PLACEHOLDER_OF)) is not None:
            return (job_uid,)
        owner = controller_of(pod.owners)
        return () if owner is None else self._holders.of(owner.uid)

    def _jobs_waiting_for(self, pod: Pod) -> Iterator[str]:
        """Return the jobs whose Reservation a pod took."""
        for reservation in self._takers.of(pod.uid):
            yield from self._jobs_keeping(reservation)

    def answers(self) -> object:
        """Return the pod of each name, its jobs, the unavailable pods, and the placeholders."""
        grouped = (
            *(self._names, self._unavailable, self._unbound, self._holders),
            *(self._reserving, self._takers),
        )
        groups = [each.as_sets() for each in grouped]
        return dict(self._uids), groups, dict(self._placeholders), dict(self._job_of_uid)

    def _note_availability(self, pod: Pod, *, is_there: bool) -> None:
        is_available = pod.status.is_ready and not (pod.is_terminating or pod.has_ended)
        if is_there and not is_available and controller_of(pod.owners) is not None:
            self._unavailable.add(pod.namespace, pod.uid)
        else:
            self._unavailable.discard(pod.namespace, pod.uid)


def _is_filed_alike(job: MigrationJob, other: ClusterObject | None) -> bool:
    """Say whether another version of a job has the same names."""
    return (
        isinstance(other, MigrationJob)
        and job.pod == other.pod
        and job.uid == other.uid
        and job.reservation == other.reservation
    )
