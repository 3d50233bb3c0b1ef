"""Reads the pods of a Job: the index of each, how it ended, and what that costs the Job.

The rules are those of the Job controller of Kubernetes; everything here is pure.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from msgspec import Struct

from reactive_desched.model.objects import FAILED, SUCCEEDED
from reactive_desched.sim.clock import parse_time
from reactive_desched.sim.conditions import condition_status, find_condition
from reactive_desched.sim.objects import Obj, name_of, namespace_of
from reactive_desched.sim.pods import is_terminating, phase_of

__all__ = [
    "FAILURES",
    "IGNORED_FAILURES",
    "INDEX",
    "NO_BACKOFF",
    "TRACKING",
    "Backoff",
    "Verdict",
    "failures_of",
    "index_of",
    "is_failed",
    "is_tracked",
    "keeps_terminating",
    "pause_after",
    "read_indexes",
    "restarts_of",
    "success_rule",
    "verdict_on",
    "write_indexes",
]

TRACKING: Final = "batch.kubernetes.io/job-tracking"
"""The finalizer of a pod that its Job has not counted yet."""
INDEX: Final = "batch.kubernetes.io/job-completion-index"
FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURES: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
_FIRST_PAUSE_S: Final = 10.0
_LONGEST_PAUSE_S: Final = 600.0
_IGNORE, _FAIL_JOB = "Ignore", "FailJob"


class Verdict(Struct, frozen=True):
    """The consequences of a failed pod by the podFailurePolicy; `ends_job` is a message."""

    counts: bool = True
    fails_index: bool = False
    ends_job: str = ""


class Backoff(Struct, frozen=True):
    """The number of failed pods since the last one succeeded, and the time of the last failure."""

    failures: int = 0
    last_s: float = 0.0

    def after(self, succeeded: Iterable[Obj], failed: Iterable[Obj]) -> "Backoff":
        """Return what follows from pods that have ended since."""
        ends = sorted(map(_finished_at, failed))
        if last_success := max(map(_finished_at, succeeded), default=None):
            later = [end for end in ends if end > last_success]
            return Backoff(len(later), later[-1]) if later else NO_BACKOFF
        return Backoff(self.failures + len(ends), ends[-1]) if ends else self

    def until(self) -> float:
        """Return the moment, in seconds since the epoch, from which pods may be created."""
        return self.last_s + _pause(self.failures)


NO_BACKOFF: Final = Backoff()


def is_tracked(pod: Obj) -> bool:
    """Say whether the Job has not counted the pod yet."""
    return TRACKING in (pod["metadata"].get("finalizers") or ())


def keeps_terminating(spec: Mapping[str, Any]) -> bool:
    """Say whether a pod is replaced only when it has ended."""
    return spec.get("podReplacementPolicy") == "Failed"


def is_failed(pod: Obj, spec: Mapping[str, Any]) -> bool:
    """Say whether a pod counts as failed: one that is deleted does unless its end is awaited."""
    if phase_of(pod) == FAILED:
        return True
    is_on_its_way = is_terminating(pod) and phase_of(pod) != SUCCEEDED
    return is_on_its_way and not keeps_terminating(spec)


def index_of(pod: Obj, completions: int) -> int | None:
    """Return the completion index of a pod, None if it has none below `completions`."""
    text = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return int(text) if text.isdecimal() and int(text) < completions else None


def failures_of(pod: Obj | None, spec: Mapping[str, Any]) -> tuple[int, int]:
    """Return how often an index has failed, and in vain, once `pod` of it is replaced."""
    if pod is None:
        return 0, 0
    counted, ignored = _count(pod, FAILURES), _count(pod, IGNORED_FAILURES)
    return (counted + 1, ignored) if verdict_on(pod, spec).counts else (counted, ignored + 1)


def pause_after(pod: Obj | None) -> float:
    """Return the moment from which a failed pod of an index may be replaced."""
    if pod is None:
        return 0.0
    return _finished_at(pod) + _pause(_count(pod, FAILURES) + _count(pod, IGNORED_FAILURES) + 1)


def verdict_on(pod: Obj, spec: Mapping[str, Any]) -> Verdict:
    """Return what the first rule of the podFailurePolicy that a failed pod matches says."""
    for place, rule in enumerate((spec.get("podFailurePolicy") or {}).get("rules") or ()):
        if not (what := _matched(pod, rule)):
            continue
        action = rule["action"]
        at = f"matching {action} rule at index {place}"
        return Verdict(
            counts=action != _IGNORE,
            fails_index=action == "FailIndex",
            ends_job=f"{what} {at}" if action == _FAIL_JOB else "",
        )
    return Verdict()


def restarts_of(pods: Iterable[Obj]) -> int:
    """Return how often containers of pods that run were restarted."""
    return sum(
        int(status.get("restartCount", 0))
        for pod in pods
        if phase_of(pod) in ("Running", "Pending")
        for status in _statuses(pod)
    )


def read_indexes(text: str, completions: int) -> frozenset[int]:
    """Read indexes written as `1,3-5`, but those from `completions` on, and no nonsense."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found.update(range(int(first), min(int(last or first) + 1, completions)))
    return frozenset(found)


def write_indexes(indexes: Iterable[int]) -> str:
    """Write indexes as intervals: `1,3-5`; two neighbours stand as two."""
    parts: list[str] = []
    for first, last in _intervals(sorted(indexes)):
        between = "," if last == first + 1 else "-"
        parts.append(str(first) if first == last else f"{first}{between}{last}")
    return ",".join(parts)


def success_rule(spec: Mapping[str, Any], succeeded: AbstractSet[int]) -> int | None:
    """Return the place of the first rule of the successPolicy that is met, or None."""
    if not succeeded:
        return None
    for place, rule in enumerate((spec.get("successPolicy") or {}).get("rules") or ()):
        least, counted = rule.get("succeededCount"), succeeded
        if (text := rule.get("succeededIndexes")) is not None:
            wanted = read_indexes(text, int(spec["completions"]))
            if wanted and wanted <= succeeded:
                return place
            counted = wanted & succeeded
        if least is not None and len(counted) >= int(least):
            return place
    return None


def _pause(failures: int) -> float:
    return min(_FIRST_PAUSE_S * 2 ** min(failures - 1, 10), _LONGEST_PAUSE_S) if failures else 0.0


def _intervals(indexes: Sequence[int]) -> Iterator[tuple[int, int]]:
    first = last = None
    for index in indexes:
        if last is None or index > last + 1:
            if first is not None and last is not None:
                yield first, last
            first = index
        last = index
    if first is not None and last is not None:
        yield first, last


def _count(pod: Obj, annotation: str) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(annotation, "")
    return int(text) if text.isdecimal() else 0


def _matched(pod: Obj, rule: Mapping[str, Any]) -> str:
    """Say what of a failed pod matches a rule; empty when nothing does."""
    where = f"{namespace_of(pod)}/{name_of(pod)}"
    if (codes := rule.get("onExitCodes")) is not None:
        for name, code in _exit_codes(pod):
            is_meant = codes.get("containerName") in (None, name)
            if is_meant and code and (code in codes["values"]) == (codes["operator"] == "In"):
                return f"Container {name} for pod {where} failed with exit code {code}"
        return ""
    patterns = rule.get("onPodConditions") or ()
    for pattern in patterns:
        if condition_status(pod, pattern["type"]) == pattern.get("status", "True"):
            return f"Pod {where} has condition {pattern['type']}"
    return ""


def _exit_codes(pod: Obj) -> Iterator[tuple[str, int]]:
    for status in _statuses(pod):
        if ended := (status.get("state") or {}).get("terminated"):
            yield status.get("name", ""), int(ended.get("exitCode", 0))


def _statuses(pod: Obj) -> Iterator[Obj]:
    status = pod.get("status", {})
    yield from status.get("containerStatuses") or ()
    yield from status.get("initContainerStatuses") or ()


def _finished_at(pod: Obj) -> float:
    """Return when a pod ended: by its containers, else its conditions, else its deletion."""
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    ends = [(each.get("state") or {}).get("terminated", {}).get("finishedAt") for each in statuses]
    if ends and all(ends):
        return max(map(parse_time, ends))
    ready, meta = find_condition(pod, "Ready"), pod["metadata"]
    if ready and ready["status"] == "False" and ready.get("lastTransitionTime"):
        return parse_time(ready["lastTransitionTime"])
    if is_terminating(pod):
        grace = float(meta.get("deletionGracePeriodSeconds") or 0)
        return parse_time(meta["deletionTimestamp"]) - grace
    return parse_time(meta["creationTimestamp"])
