"""One look at a Job and its pods: what is counted, what is wanted, and whether it has ended."""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from reactive_desched.model.objects import SUCCEEDED
from reactive_desched.sim.clock import parse_time, rfc3339
from reactive_desched.sim.conditions import find_condition
from reactive_desched.sim.controllers.job_pods import (
    failures_of,
    index_of,
    is_failed,
    is_tracked,
    read_indexes,
    restarts_of,
    success_rule,
    verdict_on,
    write_indexes,
)
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.pods import is_active, is_ready, is_terminal, is_terminating, phase_of

__all__ = ["COMPLETE", "FAILED", "JobRound"]

COMPLETE, FAILED = "Complete", "Failed"
_TARGET, _CRITERIA, _SUSPENDED = "FailureTarget", "SuccessCriteriaMet", "Suspended"
_FINAL: Final = {_TARGET: FAILED, _CRITERIA: COMPLETE}


class JobRound:
    """The counts of one reconciliation, in the order of the Job controller of Kubernetes.

    A pod that has ended is first named in `uncountedTerminatedPods`, then loses its finalizer,
    and only then counts: so it counts once, whatever happens in between. `end` is the condition
    that ends the Job, if it is to end.
    """

    def __init__(self, job: Obj, pods: Sequence[Obj], now: float) -> None:
        self.object, self.spec = job, job["spec"]
        self._status: Obj = dict(job.get("status") or {})
        uncounted = self._status.get("uncountedTerminatedPods") or {}
        self._uncounted = {key: list(uncounted.get(key, ())) for key in ("succeeded", "failed")}
        self._conditions: list[Obj] = list(self._status.get("conditions") or ())
        self._pods = pods
        self.active = [pod for pod in pods if is_active(pod)]
        self.terminating = sum(is_terminating(pod) and not is_terminal(pod) for pod in pods)
        self._ready = sum(map(is_ready, self.active))
        self._active = len(self.active)
        self.end: Obj | None = None
        self.new_successes = [p for p in self._new("succeeded") if phase_of(p) == SUCCEEDED]
        self.new_failures = [p for p in self._new("failed") if is_failed(p, self.spec)]
        self._counted_before = read_indexes(
            self._status.get("completedIndexes", ""), self._completions
        )
        self._succeeded_indexes = self._counted_before | self._indexes(self._tracked_successes())
        self._failed_indexes = self._all_failed_indexes() if self.has_limit_per_index else None
        self.delayed = self._awaiting_replacement() if self.has_limit_per_index else {}
        if not self._status.get("startTime") and not self.is_suspended:
            self._status["startTime"] = rfc3339(now)

    @property
    def is_indexed(self) -> bool:
        """Say whether each pod has a completion index."""
        return bool(self.spec.get("completionMode") == "Indexed")

    @property
    def is_suspended(self) -> bool:
        """Say whether the Job shall have no pods for now."""
        return bool(self.spec.get("suspend"))

    @property
    def has_limit_per_index(self) -> bool:
        """Say whether failures are counted for each index."""
        return self.is_indexed and self.spec.get("backoffLimitPerIndex") is not None

    @property
    def wanted(self) -> int:
        """Return the number of pods that should be at work now."""
        if self.is_suspended:
            return 0
        parallelism = int(self.spec.get("parallelism", 1))
        if self.spec.get("completions") is None:
            # A work queue: the first success says that nothing is left to take.
            return len(self.active) if self._succeeded else parallelism
        return min(parallelism, max(0, self._completions - self._succeeded))

    def decide(self, now: float) -> None:
        """Find out whether the Job ends: what was decided before stands."""
        self.end = self._decided_before(now) or self._failure(now)
        if self.end is None and self.is_indexed:
            self.end = self._failure_by_index(now)
            place = success_rule(self.spec, self._succeeded_indexes)
            if self.end is None and place is not None:
                text = f"Matched rules at index {place}"
                self.end = _condition(_CRITERIA, "SuccessPolicy", text, now)

    def late_at(self) -> float | None:
        """Return when the Job will have been active for too long, if it has such a limit."""
        limit, began = self.spec.get("activeDeadlineSeconds"), self._status.get("startTime")
        if limit is None or began is None or self.is_suspended:
            return None
        return parse_time(began) + int(limit)

    def check_completion(self, now: float) -> str:
        """Note that all is done, or that the Job was suspended or resumed, which is returned."""
        if self.spec.get("completions") is None:
            is_complete = self._succeeded > 0 and not self._active
        else:
            is_complete = self._succeeded >= self._completions and not self._active
        if is_complete:
            text = "Reached expected number of succeeded pods"
            self.end = _condition(_CRITERIA, "CompletionsReached", text, now)
            return ""
        return self._note_suspension(now)

    def next_indexes(self, count: int) -> Iterator[int]:
        """Yield up to so many indexes that no pod is at work on, the lowest first."""
        busy = (
            self._indexes(self.active) | self._succeeded_indexes | (self._failed_indexes or set())
        )
        if self.spec.get("podReplacementPolicy") == "Failed":
            ending = (p for p in self._pods if is_terminating(p) and not is_terminal(p))
            busy |= self._indexes(ending)
        free = (index for index in range(self._completions) if index not in busy)
        for _, index in zip(range(count), free, strict=False):
            yield index

    def repeated(self) -> Iterator[Obj]:
        """Yield active pods without an index of the Job, and those whose index another has."""
        if not self.is_indexed:
            return
        seen: set[int] = set()
        for pod in self.active:
            index = index_of(pod, self._completions)
            if index is None or index in seen:
                yield pod
            elif index is not None:
                seen.add(index)

    def note_created(self) -> None:
        """Count a pod that was created in this round."""
        self._active += 1

    def note_deleted(self, pods: Iterable[Obj]) -> None:
        """Count pods that were deleted in this round."""
        for pod in pods:
            self._active -= 1
            self.terminating += 1
            self._ready -= is_ready(pod)

    def count_ended(self) -> list[Obj]:
        """Name the pods that have ended as uncounted; return all that may lose their finalizer."""
        released = [pod for pod in filter(is_tracked, self._pods) if self._may_release(pod)]
        is_failure = self.end is not None and self.end["type"] != _CRITERIA
        for pod in released:
            uid = pod["metadata"]["uid"]
            known = uid in self._uncounted["failed"] or uid in self._uncounted["succeeded"]
            if known or (self.is_indexed and index_of(pod, self._completions) is None):
                continue
            if phase_of(pod) == SUCCEEDED:
                if not self.is_indexed:
                    self._uncounted["succeeded"].append(uid)
            elif (is_failure or is_failed(pod, self.spec)) and verdict_on(pod, self.spec).counts:
                self._uncounted["failed"].append(uid)
        return released

    def announce_end(self, now: float) -> Obj | None:
        """Note the interim condition of an end; return the final one."""
        if self.end is None:
            return None
        if self.end["type"] in _FINAL and not self._has(self.end["type"]):
            self._conditions.append(self.end)
        kind = _FINAL.get(self.end["type"], FAILED)
        return _condition(kind, self.end["reason"], self.end["message"], now)

    def settle(self) -> None:
        """Count the pods whose finalizer is gone."""
        for field, uids in self._uncounted.items():
            if not (self.is_indexed and field == "succeeded"):
                self._status[field] = int(self._status.get(field) or 0) + len(uids)
            uids.clear()

    def may_end(self) -> bool:
        """Say whether nothing of the Job is left that would have to be counted later."""
        return not self.terminating

    def finish(self, end: Obj, now: float) -> None:
        """Add the final condition."""
        self._conditions.append(end)
        if end["type"] == COMPLETE:
            self._status["completionTime"] = rfc3339(now)

    def status(self) -> Obj:
        """Return the status as it is to be written; None leaves a field out."""
        indexes = self._succeeded_indexes if self.is_indexed else frozenset()
        failed = self._failed_indexes
        counted = len(indexes) if self.is_indexed else self._status.get("succeeded")
        return {
            **self._status,
            "conditions": list(self._conditions) or None,
            "active": self._active or None,
            "ready": self._ready,
            "terminating": self.terminating,
            "succeeded": counted or None,
            "failed": self._status.get("failed") or None,
            "completedIndexes": write_indexes(indexes) or None,
            "failedIndexes": None if failed is None else write_indexes(failed),
            "uncountedTerminatedPods": {k: list(v) for k, v in self._uncounted.items() if v},
        }

    @property
    def _completions(self) -> int:
        return int(self.spec.get("completions") or 0)

    @property
    def _succeeded(self) -> int:
        if self.is_indexed:
            return len(self._succeeded_indexes)
        before = int(self._status.get("succeeded") or 0)
        return before + len(self.new_successes) + len(self._uncounted["succeeded"])

    @property
    def _failed(self) -> int:
        counted = sum(verdict_on(pod, self.spec).counts for pod in self.new_failures)
        return int(self._status.get("failed") or 0) + counted + len(self._uncounted["failed"])

    def _new(self, field: str) -> list[Obj]:
        """Return the pods of this Job that neither status nor `uncounted` have."""
        return [
            pod
            for pod in self._pods
            if is_tracked(pod)
            and pod["metadata"]["uid"] not in self._uncounted[field]
            and (not self.is_indexed or index_of(pod, self._completions) is not None)
        ]

    def _tracked_successes(self) -> Iterator[Obj]:
        return (p for p in self._pods if is_tracked(p) and phase_of(p) == SUCCEEDED)

    def _indexes(self, pods: Iterable[Obj]) -> set[int]:
        if not self.is_indexed:
            return set()
        found = (index_of(pod, self._completions) for pod in pods)
        return {index for index in found if index is not None}

    def _all_failed_indexes(self) -> AbstractSet[int]:
        limit = int(self.spec["backoffLimitPerIndex"])
        failed = (
            pod
            for pod in self._pods
            if is_tracked(pod) and is_failed(pod, self.spec) and self._is_last(pod, limit)
        )
        before = read_indexes(self._status.get("failedIndexes") or "", self._completions)
        return before | self._indexes(failed)

    def _is_last(self, pod: Obj, limit: int) -> bool:
        verdict = verdict_on(pod, self.spec)
        return verdict.fails_index or (
            verdict.counts and failures_of(pod, self.spec)[0] - 1 >= limit
        )

    def _awaiting_replacement(self) -> dict[int, Obj]:
        """Return the failed pod of each index that is tried again: the next one counts on."""
        done = (
            self._indexes(self.active) | self._succeeded_indexes | (self._failed_indexes or set())
        )
        found: dict[int, Obj] = {}
        for pod in filter(is_tracked, self._pods):
            index = index_of(pod, self._completions)
            if index is None or index in done or not is_failed(pod, self.spec):
                continue
            if index not in found or sum(failures_of(found[index], self.spec)) <= sum(
                failures_of(pod, self.spec)
            ):
                found[index] = pod
        return found

    def _may_release(self, pod: Obj) -> bool:
        if is_terminating(self.object) or self.end is not None or phase_of(pod) == SUCCEEDED:
            return True
        return is_failed(pod, self.spec) and all(pod is not each for each in self.delayed.values())

    def _decided_before(self, now: float) -> Obj | None:
        if self._has(_CRITERIA):
            return find_condition(self.object, _CRITERIA)
        if (target := find_condition(self.object, _TARGET)) and target["status"] == "True":
            return _condition(FAILED, target["reason"], target["message"], now)
        for pod in self._pods:
            if is_failed(pod, self.spec) and (text := verdict_on(pod, self.spec).ends_job):
                return _condition(_TARGET, "PodFailurePolicy", text, now)
        return None

    def _failure(self, now: float) -> Obj | None:
        limit = int(self.spec.get("backoffLimit", 6))
        if self._failed > limit or self._restarts_too_often(limit):
            text = "Job has reached the specified backoff limit"
            return _condition(_TARGET, "BackoffLimitExceeded", text, now)
        if (late_at := self.late_at()) is not None and now >= late_at:
            text = "Job was active longer than specified deadline"
            return _condition(_TARGET, "DeadlineExceeded", text, now)
        return None

    def _restarts_too_often(self, limit: int) -> bool:
        policy = self.spec["template"]["spec"].get("restartPolicy")
        if policy != "OnFailure":
            return False
        restarts = restarts_of(self._pods)
        return restarts > 0 if limit == 0 else restarts >= limit

    def _failure_by_index(self, now: float) -> Obj | None:
        if not self._failed_indexes:
            return None
        most = self.spec.get("maxFailedIndexes")
        if most is not None and len(self._failed_indexes) > int(most):
            text = "Job has exceeded the specified maximal number of failed indexes"
            return _condition(_TARGET, "MaxFailedIndexesExceeded", text, now)
        if len(self._failed_indexes) + len(self._succeeded_indexes) >= self._completions:
            return _condition(_TARGET, "FailedIndexes", "Job has failed indexes", now)
        return None

    def _note_suspension(self, now: float) -> str:
        before = next((c for c in self._conditions if c["type"] == _SUSPENDED), None)
        if self.is_suspended == (before is not None and before["status"] == "True"):
            return ""
        word = "Suspended" if self.is_suspended else "Resumed"
        text = f"Job {word.lower()}"
        fresh = _condition(_SUSPENDED, f"Job{word}", text, now)
        fresh["status"] = str(self.is_suspended)
        self._conditions = [c for c in self._conditions if c is not before] + [fresh]
        if self.is_suspended:
            self._status.pop("startTime", None)
        else:
            self._status["startTime"] = rfc3339(now)
        return word

    def _has(self, kind: str) -> bool:
        return any(c["type"] == kind and c["status"] == "True" for c in self._conditions)


def _condition(kind: str, reason: str, message: str, now: float) -> Obj:
    at = rfc3339(now)
    return {
        "type": kind,
        "status": "True",
        "lastProbeTime": at,
        "lastTransitionTime": at,
        "reason": reason,
        "message": message,
    }
