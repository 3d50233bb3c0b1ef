"""Runs pods until enough of them have succeeded."""

from collections.abc import Sequence
from typing import Final

from reactive_desched.sim.clock import parse_time
from reactive_desched.sim.conditions import condition_status
from reactive_desched.sim.controllers.adoption import claim, selecting, without_finalizer
from reactive_desched.sim.controllers.controller import Reconciler, write_status
from reactive_desched.sim.controllers.job_pods import (
    FAILURES,
    IGNORED_FAILURES,
    INDEX,
    NO_BACKOFF,
    TRACKING,
    Backoff,
    failures_of,
    is_tracked,
    keeps_terminating,
    pause_after,
)
from reactive_desched.sim.controllers.job_round import COMPLETE, FAILED, JobRound
from reactive_desched.sim.controllers.pod_control import RETRY_S, PodControl
from reactive_desched.sim.controllers.victims import first_to_go
from reactive_desched.sim.index import PodIndex
from reactive_desched.sim.metadata import generated_name
from reactive_desched.sim.objects import Obj, name_of, namespace_of
from reactive_desched.sim.pods import (
    Key,
    controller_of,
    from_template,
    is_terminating,
    key_of,
)
from reactive_desched.sim.store import DeleteOptions, Event, Store

__all__ = ["Jobs"]

_INDEX_VARIABLE: Final = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}},
}
_OURS: Final = "kubernetes.io/job-controller"


class Jobs(Reconciler):
    """Counts each pod once, by a finalizer, replaces what failed, and says how the Job ended.

    As the Job controller of Kubernetes. Remembers the last failures of every
    Job that exists, for the pause before the next pod.
    """

    watches = frozenset({"jobs", "pods"})

    def __init__(self, store: Store, index: PodIndex, pods: PodControl) -> None:
        super().__init__(store)
        self._index = index
        self._pods = pods
        self._backoffs: dict[str, Backoff] = {}
        self._strays: set[Key] = set()
        """Pods whose Job is gone: no other controller takes their finalizer away."""

    def observe(self, event: Event) -> None:
        """Look again at the Job that changed, or whose pod did."""
        if event.resource == "jobs":
            if event.type == "DELETED":
                uid = event.object["metadata"]["uid"]
                self._backoffs.pop(uid, None)
                self._strays.update(map(key_of, self._index.owned_by(uid)))
            self.soon(key_of(event.object))
            return
        for selected in selecting(self.store, "jobs", event):
            self.soon(selected)
        owner = controller_of(event.object)
        if owner is None or owner["kind"] != "Job":
            return
        key = (namespace_of(event.object), owner["name"])
        if is_tracked(event.object) and not self._exists(key, owner["uid"]):
            self._strays.add(key_of(event.object))
        self.soon(key)

    def reconcile(self, key: Key, now: float) -> None:
        """Start what is missing, count what has ended, and report."""
        for stray in tuple(self._strays):
            self._strays.discard(stray)
            self._release(stray)
        job = self.store.get("jobs", *key)
        if job is None or job["spec"].get("managedBy", _OURS) != _OURS:
            return
        pods = self._index.owned_by(job["metadata"]["uid"])
        if _is_finished(job):
            for pod in filter(is_tracked, pods):
                self._release(key_of(pod))
            self._expire(job, now)
            return
        candidates = self._index.claimable_by(job)
        pods = claim(self.store, "pods", job, candidates, finalizer=TRACKING)
        self._look_at(JobRound(job, pods, now), now)

    def _exists(self, key: Key, uid: str) -> bool:
        job = self.store.get("jobs", *key)
        return job is not None and job["metadata"]["uid"] == uid

    def _look_at(self, job: JobRound, now: float) -> None:
        uid = job.object["metadata"]["uid"]
        backoff = self._backoffs.get(uid, NO_BACKOFF).after(job.new_successes, job.new_failures)
        self._backoffs[uid] = backoff
        job.decide(now)
        if job.end is not None:
            job.note_deleted(self._delete(job, job.active, untracked=False))
        elif not is_terminating(job.object):
            self._manage(job, backoff, now)
            self._note_changes(job, job.check_completion(now))
        if job.end is None and (late_at := job.late_at()) is not None:
            self.soon(key_of(job.object), late_at)
        self._track(job, now)

    def _manage(self, job: JobRound, backoff: Backoff, now: float) -> None:
        """Bring the number of pods to what is wanted."""
        wanted = job.wanted
        if surplus := self._surplus(job, len(job.active) - wanted, now):
            job.note_deleted(self._delete(job, surplus, untracked=True))
            return
        missing = wanted - len(job.active)
        if keeps_terminating(job.spec):
            missing -= job.terminating
        if missing <= 0 or job.is_suspended:
            return
        if not job.has_limit_per_index and now < backoff.until():
            self.soon(key_of(job.object), backoff.until())
            return
        self._start(job, missing, now)

    def _surplus(self, job: JobRound, count: int, now: float) -> list[Obj]:
        """Return pods that repeat an index, and others until there are at least so many."""
        repeated = list(job.repeated())
        others = [pod for pod in job.active if pod not in repeated]
        return [*repeated, *first_to_go(others, (), max(count - len(repeated), 0), now)]

    def _start(self, job: JobRound, count: int, now: float) -> None:
        for index in job.next_indexes(count) if job.is_indexed else (None,) * count:
            replaced = None if index is None else job.delayed.get(index)
            if job.has_limit_per_index and now < pause_after(replaced):
                self.soon(key_of(job.object), pause_after(replaced))
                continue
            if self._pods.put_for(job.object, self._new_pod(job, index, replaced)):
                self.soon(key_of(job.object), now + RETRY_S)
                return
            job.note_created()

    def _new_pod(self, job: JobRound, index: int | None, replaced: Obj | None) -> Obj:
        prefix = f"{name_of(job.object)}-" + ("" if index is None else f"{index}-")
        pod = from_template(job.object, generated_name(prefix, self._pods.rng))
        meta, spec = pod["metadata"], pod["spec"]
        meta["generateName"] = prefix
        meta["finalizers"] = [*meta.get("finalizers", ()), TRACKING]
        if index is None:
            return pod
        meta["labels"][INDEX] = str(index)
        meta["annotations"] = {**meta.get("annotations", {}), INDEX: str(index)}
        if job.has_limit_per_index:
            failures, ignored = failures_of(replaced, job.spec)
            meta["annotations"][FAILURES] = str(failures)
            if ignored:
                meta["annotations"][IGNORED_FAILURES] = str(ignored)
        spec["hostname"] = f"{name_of(job.object)}-{index}"
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            names = {each["name"] for each in container.get("env", ())}
            if _INDEX_VARIABLE["name"] not in names:
                container["env"] = [*container.get("env", ()), _INDEX_VARIABLE]
        return pod

    def _delete(self, job: JobRound, pods: Sequence[Obj], *, untracked: bool) -> Sequence[Obj]:
        """Delete pods; those that shall not count lose their finalizer first."""
        for pod in pods:
            if untracked:
                self._release(key_of(pod))
            self._pods.delete_for(job.object, pod)
        return pods

    def _note_changes(self, job: JobRound, changed: str) -> None:
        if changed:
            self._pods.recorder.normal(job.object, changed, changed, f"Job {changed.lower()}")

    def _track(self, job: JobRound, now: float) -> None:
        """Write who has ended, then let these pods go, then count them; the end comes last."""
        released = job.count_ended()
        end = job.announce_end(now)
        write_status(self.store, "jobs", job.object, job.status())
        for pod in released:
            self._release(key_of(pod))
        job.settle()
        if end is not None and job.may_end():
            job.finish(end, now)
            self._report_end(job.object, end)
        if (current := self.store.get("jobs", *key_of(job.object))) is not None:
            write_status(self.store, "jobs", current, job.status())

    def _report_end(self, job: Obj, end: Obj) -> None:
        if end["type"] == COMPLETE:
            self._pods.recorder.normal(job, "Completed", "Completed", "Job completed")
        else:
            self._pods.recorder.warning(job, end["reason"], end["reason"], end["message"])

    def _release(self, key: Key) -> None:
        """Take the finalizer off a pod that may be gone."""
        pod = self.store.get("pods", *key)
        if pod is None or not is_tracked(pod):
            return

        self.store.modify("pods", *key, lambda current: without_finalizer(current, TRACKING))

    def _expire(self, job: Obj, now: float) -> None:
        ttl, status = job["spec"].get("ttlSecondsAfterFinished"), job["status"]
        if ttl is None or is_terminating(job):
            return
        finished = next(c for c in status["conditions"] if c["type"] in (COMPLETE, FAILED))
        at = parse_time(finished["lastTransitionTime"]) + int(ttl)
        if now < at:
            self.soon(key_of(job), at)
        else:
            options = DeleteOptions(propagation_policy="Foreground")
            self.store.delete("jobs", *key_of(job), options)


def _is_finished(job: Obj) -> bool:
    return any(condition_status(job, kind) == "True" for kind in (COMPLETE, FAILED))
