"""Runs pods until enough of them have succeeded."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from reactive_desched.model.objects import FAILED, SUCCEEDED
from reactive_desched.sim.clock import parse_time, rfc3339
from reactive_desched.sim.conditions import condition_status, with_condition
from reactive_desched.sim.controllers.controller import Reconciler, write_status
from reactive_desched.sim.controllers.pod_control import RETRY_S, PodControl
from reactive_desched.sim.index import PodIndex
from reactive_desched.sim.objects import Obj, namespace_of
from reactive_desched.sim.pods import (
    Key,
    controller_of,
    is_active,
    is_ready,
    is_terminating,
    key_of,
    phase_of,
)
from reactive_desched.sim.store import DeleteOptions, Event, Store

__all__ = ["Jobs"]

_FIRST_RETRY_S: Final = 10.0
_LONGEST_RETRY_S: Final = 360.0
_COMPLETE: Final = "Complete"
_FINISHED: Final = (_COMPLETE, "Failed")
_BY_POLICY, _LATE, _TOO_OFTEN = "PodFailurePolicy", "DeadlineExceeded", "BackoffLimitExceeded"
_FAILURES: Final = {
    _BY_POLICY: "A pod failed by a rule of the podFailurePolicy",
    _LATE: "Job was active longer than specified deadline",
    _TOO_OFTEN: "Job has reached the specified backoff limit",
}
_COUNT, _IGNORE, _FAIL_JOB = "Count", "Ignore", "FailJob"


class _Tally(Struct, frozen=True):
    """A job's pods, counted; `must_fail` says that the failure of one ends the job."""

    active: Sequence[Obj]
    terminating: int
    succeeded: int
    failed: int
    must_fail: bool


class _Ended(Struct, frozen=True):
    """The end of a job's pod; after an eviction there is no pause before the next pod.

    `action` is what the podFailurePolicy says of a pod that failed.
    """

    phase: str
    at: float
    was_disrupted: bool
    action: str = _COUNT


class Jobs(Reconciler):
    """Replaces a pod that failed after a pause, and one that is being evicted at once.

    Indexed completion and success policies are not simulated. Remembers each
    ended pod of every job that exists, because the pods themselves may be deleted earlier.
    """

    watches = frozenset({"jobs", "pods"})

    def __init__(self, store: Store, index: PodIndex, pods: PodControl) -> None:
        super().__init__(store)
        self._index = index
        self._pods = pods
        self._ended: dict[str, dict[str, _Ended]] = {}

    def observe(self, event: Event) -> None:
        """Look again at the job that changed, or whose pod did; note how its pods ended."""
        if event.resource == "jobs":
            if event.type == "DELETED":
                self._ended.pop(event.object["metadata"]["uid"], None)
            self.soon(key_of(event.object))
            return
        owner = controller_of(event.object)
        if owner is not None and owner["kind"] == "Job":
            self._note(owner, event.object)
            self.soon((namespace_of(event.object), owner["name"]))

    def reconcile(self, key: Key, now: float) -> None:
        """Start what is missing, finish what is done, and report."""
        job = self.store.get("jobs", *key)
        if job is None or is_terminating(job):
            return
        if _is_finished(job):
            self._expire(job, now)
            return
        outcome = self._run(job, self._tally(job), now)
        self._report(job, self._tally(job), outcome, now)

    def _note(self, owner: Obj, pod: Obj) -> None:
        uid, phase = pod["metadata"]["uid"], phase_of(pod)
        job = self.store.get("jobs", namespace_of(pod), owner["name"])
        if phase not in (SUCCEEDED, FAILED) or job is None:
            return
        ended = self._ended.setdefault(job["metadata"]["uid"], {})
        if job["metadata"]["uid"] == owner["uid"] and uid not in ended:
            disrupted = condition_status(pod, "DisruptionTarget") == "True"
            action = _action(job["spec"], pod) if phase == FAILED else _COUNT
            ended[uid] = _Ended(phase, self.store.clock.now(), disrupted, action)

    def _tally(self, job: Obj) -> _Tally:
        pods = self._index.owned_by(job["metadata"]["uid"])
        ends = self._ended.get(job["metadata"]["uid"], {}).values()
        failures = [end.action for end in ends if end.phase == FAILED]
        return _Tally(
            active=[pod for pod in pods if is_active(pod)],
            terminating=sum(1 for pod in pods if is_terminating(pod)),
            succeeded=sum(end.phase == SUCCEEDED for end in ends),
            failed=len(failures) - failures.count(_IGNORE),
            must_fail=_FAIL_JOB in failures,
        )

    def _run(self, job: Obj, tally: _Tally, now: float) -> str:
        """Bring the number of pods to what is wanted; return the end if there is one.

        It is Complete, or the reason of a failure.
        """
        spec = job["spec"]
        if failure := self._failure(job, tally, now):
            self._stop(tally.active)
            return failure
        wanted = _wanted(spec, tally)
        if not wanted and not tally.active and tally.succeeded and not spec.get("suspend"):
            return _COMPLETE
        running = len(tally.active)
        if spec.get("podReplacementPolicy") == "Failed":
            running += tally.terminating
        self._stop(tally.active[wanted:])
        if running < wanted and self._may_start(job, now):
            self._start(job, wanted - running, now)
        return ""

    def _failure(self, job: Obj, tally: _Tally, now: float) -> str:
        """Return the reason why a job has failed; empty while it has not."""
        if tally.must_fail:
            return _BY_POLICY
        if self._is_late(job, now):
            return _LATE
        return _TOO_OFTEN if tally.failed > int(job["spec"].get("backoffLimit", 6)) else ""

    def _is_late(self, job: Obj, now: float) -> bool:
        """Say whether the job was active for too long; if not, come back when it is."""
        limit, began = job["spec"].get("activeDeadlineSeconds"), job["status"].get("startTime")
        if limit is None or began is None or job["spec"].get("suspend"):
            return False
        end = parse_time(began) + int(limit)
        if now < end:
            self.soon(key_of(job), end)
        return now >= end

    def _stop(self, pods: Sequence[Obj]) -> None:
        for pod in pods:
            self._pods.delete(pod)

    def _start(self, job: Obj, count: int, now: float) -> None:
        for _ in range(count):
            if not self._pods.create(job):
                self.soon(key_of(job), now + RETRY_S)
                return

    def _may_start(self, job: Obj, now: float) -> bool:
        """Say whether the pause after the last failure is over; if not, come back when it is."""
        ends = self._ended.get(job["metadata"]["uid"], {}).values()
        failures = [end.at for end in ends if end.phase == FAILED and not end.was_disrupted]
        if not failures:
            return True
        pause = min(_FIRST_RETRY_S * 2 ** (len(failures) - 1), _LONGEST_RETRY_S)
        if now >= failures[-1] + pause:
            return True
        self.soon(key_of(job), failures[-1] + pause)
        return False

    def _expire(self, job: Obj, now: float) -> None:
        ttl, status = job["spec"].get("ttlSecondsAfterFinished"), job["status"]
        if ttl is None:
            return
        finished = next(c for c in status["conditions"] if c["type"] in _FINISHED)
        at = parse_time(finished["lastTransitionTime"]) + int(ttl)
        if now < at:
            self.soon(key_of(job), at)
        else:
            self.store.delete("jobs", *key_of(job), DeleteOptions())

    def _report(self, job: Obj, tally: _Tally, outcome: str, now: float) -> None:
        before, at = job.get("status", {}), rfc3339(now)
        status = {
            "startTime": before.get("startTime", at),
            "active": len(tally.active) or None,
            "ready": sum(map(is_ready, tally.active)),
            "terminating": tally.terminating,
            "succeeded": tally.succeeded or None,
            "failed": tally.failed or None,
            "conditions": before.get("conditions"),
        }
        if outcome == _COMPLETE:
            status["completionTime"] = at
        if outcome:
            condition = {"type": _COMPLETE, "status": "True", "lastProbeTime": at}
            if outcome != _COMPLETE:
                condition |= {"type": "Failed", "reason": outcome, "message": _FAILURES[outcome]}
            status["conditions"] = with_condition(before.get("conditions") or (), condition, at)
        write_status(self.store, "jobs", job, status)


def _action(spec: Obj, pod: Obj) -> str:
    """Return the action of the first rule of the podFailurePolicy that a failed pod matches."""
    status = pod.get("status", {})
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        if (codes := rule.get("onExitCodes")) is not None:
            is_in, name = codes["operator"] == "In", codes.get("containerName")
            ended = (
                each.get("state", {}).get("terminated", {}).get("exitCode", 0)
                for each in status.get("containerStatuses") or ()
                if name in (None, each.get("name"))
            )
            is_matched = any(code and (code in codes["values"]) == is_in for code in ended)
        else:
            is_matched = any(
                condition_status(pod, each["type"]) == each.get("status", "True")
                for each in rule.get("onPodConditions") or ()
            )
        if is_matched:
            action: str = rule["action"]
            return action
    return _COUNT


def _wanted(spec: Obj, tally: _Tally) -> int:
    """Return how many pods should be at work now."""
    if spec.get("suspend"):
        return 0
    parallelism = int(spec.get("parallelism", 1))
    completions = spec.get("completions")
    if completions is None:  # A work queue: the first success says that nothing is left to take.
        return len(tally.active) if tally.succeeded else parallelism
    return min(parallelism, max(0, int(completions) - tally.succeeded))


def _is_finished(job: Obj) -> bool:
    return any(condition_status(job, kind) == "True" for kind in _FINISHED)
