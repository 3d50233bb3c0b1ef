"""Creates the Jobs of CronJobs when their time has come, and deletes the oldest that have ended."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from reactive_desched.primitives.cron import CronError, CronSchedule, parse_time_zone
from reactive_desched.sim.clock import parse_time, rfc3339
from reactive_desched.sim.conditions import condition_status
from reactive_desched.sim.controllers.controller import Reconciler, write_status
from reactive_desched.sim.controllers.job_round import COMPLETE, FAILED
from reactive_desched.sim.objects import Obj, clone, name_of, namespace_of
from reactive_desched.sim.pods import Key, controller_of, is_terminating, key_of, reference_to
from reactive_desched.sim.recorder import Recorder
from reactive_desched.sim.status import StatusError
from reactive_desched.sim.store import DeleteOptions, Event, Store

__all__ = ["CronJobs"]

_AT: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_NAMED: Mapping[str, str] = MappingProxyType(
    {
        "@yearly": "0 0 1 1 *",
        "@annually": "0 0 1 1 *",
        "@monthly": "0 0 1 * *",
        "@weekly": "0 0 * * 0",
        "@daily": "0 0 * * *",
        "@midnight": "0 0 * * *",
        "@hourly": "0 * * * *",
    }
)
_PART: Final = re.compile(r"(\d+)([hms])")
_SECONDS: Final = {"h": 3600, "m": 60, "s": 1}


class _Every:
    """A schedule that begins so many seconds after its last beginning."""

    def __init__(self, seconds: int) -> None:
        self._seconds = seconds

    def next_start(self, at_s: float) -> float:
        return int(at_s) + self._seconds


class CronJobs(Reconciler):
    """As the CronJob controller of Kubernetes; a start that was missed is made up for once."""

    watches = frozenset({"cronjobs", "jobs"})

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._recorder = Recorder(store, "cronjob-controller")

    def observe(self, event: Event) -> None:
        """Look again at the CronJob that changed, or whose Job did."""
        if event.resource == "cronjobs":
            self.soon(key_of(event.object))
        elif (owner := controller_of(event.object)) and owner["kind"] == "CronJob":
            self.soon((namespace_of(event.object), owner["name"]))

    def reconcile(self, key: Key, now: float) -> None:
        """Note what has ended, start what is due, and come back for the next time."""
        cron = self.store.get("cronjobs", *key)
        if cron is None:
            return
        jobs = self._jobs_of(cron)
        status = self._followed(cron, jobs)
        if not is_terminating(cron):
            self._clean(cron, jobs)
            status = self._scheduled(cron, status, now)
        write_status(self.store, "cronjobs", cron, status)

    def _jobs_of(self, cron: Obj) -> list[Obj]:
        uid = cron["metadata"]["uid"]
        owned = ((job, controller_of(job)) for job in self.store.list("jobs", namespace_of(cron)))
        return [job for job, owner in owned if owner is not None and owner["uid"] == uid]

    def _followed(self, cron: Obj, jobs: Iterable[Obj]) -> Obj:
        """Return the status without the Jobs that have ended or are gone."""
        status = dict(cron.get("status") or {})
        there = {job["metadata"]["uid"]: job for job in jobs}
        active = []
        for reference in status.get("active") or ():
            job = there.get(reference["uid"])
            if job is None:
                note = f"Active job went missing: {reference['name']}"
                self._recorder.normal(cron, "MissingJob", "MissingJob", note)
            elif end := _end_of(job):
                note = f"Saw completed job: {name_of(job)}, condition: {end}"
                self._recorder.normal(cron, "SawCompletedJob", "SawCompletedJob", note)
            else:
                active.append(reference)
        ends = [status.get("lastSuccessfulTime")]
        ends += [job.get("status", {}).get("completionTime") for job in there.values()]
        done = max(filter(None, ends), default=None)
        return {**status, "active": active or None, "lastSuccessfulTime": done}

    def _scheduled(self, cron: Obj, status: Obj, now: float) -> Obj:
        """Return the status once a Job that is due was started."""
        spec = cron["spec"]
        if spec.get("suspend"):
            return status
        try:
            schedule = _schedule(spec)
        except CronError as error:
            note = f'unparseable schedule: "{spec["schedule"]}" : {error}'
            self._recorder.warning(cron, "UnparseableSchedule", "UnparseableSchedule", note)
            return status
        began = status.get("lastScheduleTime") or cron["metadata"]["creationTimestamp"]
        due = _last_due(schedule, _earliest(spec, parse_time(began), now), now)
        if due is not None and due != parse_time(began):
            status = self._begin(cron, status, due)
        last = _last_due(schedule, parse_time(began), now)
        self.soon(key_of(cron), schedule.next_start(parse_time(began) if last is None else last))
        return status

    def _begin(self, cron: Obj, status: Obj, due: float) -> Obj:
        active = list(status.get("active") or ())
        policy = cron["spec"].get("concurrencyPolicy")
        if policy == "Forbid" and active:
            note = "Not starting job because prior execution is running"
            note += " and concurrency policy is Forbid"
            self._recorder.normal(cron, "JobAlreadyActive", "JobAlreadyActive", note)
            return status
        if policy == "Replace":
            for reference in active:
                self._delete(cron, namespace_of(cron), reference["name"])
            active = []
        try:
            job = self.store.create("jobs", _job(cron, due))
        except StatusError as error:
            note = f"Error creating job: {error.message}"
            self._recorder.warning(cron, "FailedCreate", "FailedCreate", note)
            return {**status, "active": active or None}
        note = f"Created job {name_of(job)}"
        self._recorder.normal(cron, "SuccessfulCreate", "SuccessfulCreate", note)
        meta = job["metadata"]
        reference = {"apiVersion": "batch/v1", "kind": "Job"}
        reference |= {key: meta[key] for key in ("name", "namespace", "uid", "resourceVersion")}
        return {**status, "active": [*active, reference], "lastScheduleTime": rfc3339(due)}

    def _clean(self, cron: Obj, jobs: Iterable[Obj]) -> None:
        """Delete the Jobs beyond the limits of the history, the oldest first."""
        spec, ended = cron["spec"], [(job, _end_of(job)) for job in jobs]
        for end, limit in (
            (COMPLETE, spec.get("successfulJobsHistoryLimit")),
            (FAILED, spec.get("failedJobsHistoryLimit")),
        ):
            done = [job for job, how in ended if how == end]
            for job in _oldest(done, None if limit is None else int(limit)):
                self._delete(cron, *key_of(job))

    def _delete(self, cron: Obj, namespace: str, name: str) -> None:
        if self.store.get("jobs", namespace, name) is None:
            return
        self.store.delete("jobs", namespace, name, DeleteOptions())
        note = f"Deleted job {name}"
        self._recorder.normal(cron, "SuccessfulDelete", "SuccessfulDelete", note)


def _end_of(job: Obj) -> str:
    """Return the condition that ended a Job; empty while it runs."""
    return next((end for end in (COMPLETE, FAILED) if condition_status(job, end) == "True"), "")


def _oldest(jobs: Sequence[Obj], limit: int | None) -> Sequence[Obj]:
    if limit is None or len(jobs) <= limit:
        return ()
    ordered = sorted(jobs, key=lambda job: (job["status"].get("startTime", ""), name_of(job)))
    return ordered[: len(jobs) - limit]


def _schedule(spec: Obj) -> CronSchedule | _Every:
    """Read a schedule of five fields, or one of the short forms; raises CronError."""
    text, zone = str(spec.get("schedule", "")).strip(), spec.get("timeZone") or "UTC"
    if text.startswith("@every "):
        parts = _PART.findall(text)
        if not parts:
            raise CronError(f"{text} names no time", "write @every 1h30m")
        return _Every(sum(int(number) * _SECONDS[unit] for number, unit in parts))
    # A question mark is a star in the schedules of Kubernetes.
    return CronSchedule(_NAMED.get(text, text).replace("?", "*"), zone)


def _earliest(spec: Obj, began: float, now: float) -> float:
    """Return the moment before which no start is made up for."""
    deadline = spec.get("startingDeadlineSeconds")
    return began if deadline is None else max(began, now - int(deadline))


def _last_due(schedule: CronSchedule | _Every, after: float, now: float) -> float | None:
    """Return the last start in a span of time, or None: those before it are given up."""
    due = schedule.next_start(after)
    if due > now:
        return None
    if isinstance(schedule, CronSchedule):
        return schedule.last_start(now)
    period = schedule.next_start(due) - due
    return due + (now - due) // period * period


def _job(cron: Obj, due: float) -> Obj:
    template, meta = cron["spec"]["jobTemplate"], cron["metadata"]
    wished = template.get("metadata") or {}
    zone = cron["spec"].get("timeZone")
    at = datetime.fromtimestamp(due, parse_time_zone(zone) if zone else UTC)
    stamp = at.isoformat().replace("+00:00", "Z")
    return {
        "metadata": {
            "name": f"{meta['name']}-{int(due) // 60}",
            "namespace": meta["namespace"],
            "labels": dict(wished.get("labels") or {}),
            "annotations": {**(wished.get("annotations") or {}), _AT: stamp},
            "ownerReferences": [reference_to(cron)],
        },
        "spec": clone(template.get("spec") or {}),
    }
