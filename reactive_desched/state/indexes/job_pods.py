"""The pods that migration jobs name, and the pods of a namespace that are unavailable."""

from collections.abc import Hashable, Iterable, Iterator

from reactive_desched.api.index import Cluster, Index, KubeObject
from reactive_desched.model.changes import Change, MigrationJobChanged, MigrationJobEnded
from reactive_desched.model.migration_jobs import MigrationJob
from reactive_desched.model.objects import Pod, PodKey, controller_of

PodName = tuple[str, str]


class JobPods(Index):
    """Which pod each job names, and which jobs name a pod.

    It announces the jobs of a pod that appears, disappears, or whose deletion begins. Kept only
    where jobs are watched: it holds the name of every pod.
    """

    announces = (MigrationJobChanged, MigrationJobEnded)
    kinds = (MigrationJob,)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._pods = cluster.store(Pod)
        self._jobs = cluster.store(MigrationJob)
        self._uids: dict[PodName, PodKey] = {}
        self._names: dict[PodName, dict[str, None]] = {}
        self._unavailable: dict[str, dict[PodKey, None]] = {}
        for job in self._jobs:
            self.on_object(None, job)
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
        names = self._names.get((pod.namespace, pod.name), ())
        return (job for name in names if (job := self._jobs.get(name)) is not None)

    def unavailable_in(self, namespace: str) -> Iterator[Pod]:
        """Return the pods of controllers that are not Ready, have ended or are terminating."""
        found = map(self._pods.get, self._unavailable.get(namespace, ()))
        return (pod for pod in found if pod is not None)

    def on_object(self, old: KubeObject | None, new: KubeObject | None) -> Iterable[Change]:
        """Follow a job that appeared, disappeared, has ended, or names another pod."""
        if isinstance(old, MigrationJob):
            named = self._names.get(before := (old.pod.namespace, old.pod.name), {})
            named.pop(old.name, None)
            if not named:
                self._names.pop(before, None)
        if isinstance(new, MigrationJob):
            self._names.setdefault((new.pod.namespace, new.pod.name), {})[new.name] = None
        if not isinstance(old, MigrationJob) or old.has_ended:
            return ()
        is_over = not isinstance(new, MigrationJob) or new.has_ended
        return (MigrationJobEnded(old.name),) if is_over else ()

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
        if not (names := self._names.get(name)):
            return ()
        changed: list[Change] = [MigrationJobChanged(job) for job in names]
        if new is None:
            changed += (MigrationJobEnded(job) for job in names)
        return changed

    def on_pod_status(self, old: Pod, new: Pod) -> tuple[()]:
        """Follow a pod that became Ready, or ceased to be."""
        if old.status is not new.status:
            self._note_availability(new, is_there=True)
        return ()

    def answers(self) -> object:
        """Return the pod of each name, the jobs of each pod, and who is unavailable."""
        names = {name: set(jobs) for name, jobs in self._names.items()}
        return dict(self._uids), names, {of: set(uids) for of, uids in self._unavailable.items()}

    def _note_availability(self, pod: Pod, *, is_there: bool) -> None:
        uids = self._unavailable.get(pod.namespace, {})
        is_available = pod.status.is_ready and not (pod.is_terminating or pod.has_ended)
        if is_there and not is_available and controller_of(pod.owners) is not None:
            self._unavailable[pod.namespace] = uids
            uids[pod.uid] = None
        elif uids.pop(pod.uid, pod) is None and not uids:
            del self._unavailable[pod.namespace]
