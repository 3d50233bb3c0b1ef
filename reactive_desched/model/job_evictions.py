"""Counts the tries that a Job has left once one of its pods was evicted.

The rules are those of the Job controller in Kubernetes (`pkg/controller/job`): a pod that is
evicted counts as failed unless a rule of the podFailurePolicy says otherwise, and the Job fails
for good once more pods have failed than its backoffLimit.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from reactive_desched.model.job_tries import FailureRule, JobTries
from reactive_desched.model.objects import Pod

DISRUPTION_TARGET: Final = ("DisruptionTarget", "True")
"""The condition of a pod that the Eviction API ends; a deletion sets none."""

STOPPED_BY_SIGNAL: Final = (143, 137)
"""With which codes a container ends that is stopped: by SIGTERM, or by SIGKILL afterwards."""

_IGNORE: Final = "Ignore"
_COUNT: Final = "Count"
_FAILS_FOR_GOOD: Final = frozenset({"FailJob", "FailIndex"})


class TriesLeft(NamedTuple):
    """The number of tries that are left, and why there are not more."""

    tries: int
    why: str


def tries_left_without(
    tries: JobTries, pod: Pod, leaving: int = 0, *, is_deleted: bool = False
) -> TriesLeft | None:
    """Return how many tries a Job has left once a pod is evicted; None: that costs no try.

    `leaving` counts other pods that leave and are not in `failed` yet. With which code a
    container ends that is stopped is not known, so the worse of the two usual ones counts.
    A pod that `is_deleted` lacks the condition that the Eviction API sets.
    """
    actions = {_action(tries, pod, code, is_deleted=is_deleted) for code in STOPPED_BY_SIGNAL}
    if not actions.isdisjoint(_FAILS_FOR_GOOD):
        return TriesLeft(0, "a rule of its podFailurePolicy says so")
    if actions == {_IGNORE}:
        return None
    lefts = [_left("backoffLimit", tries.backoff_limit, tries.failed + leaving)]
    if (limit := tries.backoff_limit_per_index) is not None:
        lefts.append(_left("backoffLimitPerIndex", limit, pod.annotations.job_index_failures))
    return min(lefts)


def _action(tries: JobTries, pod: Pod, code: int, *, is_deleted: bool) -> str:
    """Return the action of the first rule that matches; without one a failure counts."""
    for rule in tries.rules:
        if _matches(rule, pod, code, is_deleted=is_deleted):
            return rule.action
    return _COUNT


def _left(field: str, limit: int, failed: int) -> TriesLeft:
    why = f"the eviction counts as a failure, it has {failed} already, and its {field} is {limit}"
    return TriesLeft(max(0, limit - failed), why)


def _matches(rule: FailureRule, pod: Pod, code: int, *, is_deleted: bool) -> bool:
    if rule.operator:
        is_in = rule.operator == "In"
        return any((each in rule.exit_codes) == is_in for each in _exit_codes(rule, pod, code))
    conditions = {(condition.type, condition.status) for condition in pod.status.conditions}
    if not is_deleted:
        conditions.add(DISRUPTION_TARGET)
    return not conditions.isdisjoint(rule.conditions)


def _exit_codes(rule: FailureRule, pod: Pod, code: int) -> Iterator[int]:
    """Yield with which codes the pod's containers have ended or would end, but for 0.

    A container that has not begun has none; where the status names none, one is assumed to run.
    """
    containers = (*pod.status.containers, *pod.status.init_containers)
    if not containers and pod.is_active:
        yield code
    for container in containers:
        if rule.container in ("", container.name) and not container.waiting_reason:
            ended = code if container.exit_code is None else container.exit_code
            if ended:
                yield ended
