"""A pod has failed and is still there."""

from collections.abc import Iterable, Iterator
from math import inf
from typing import TypeVar

from pydantic import Field

from reactive_desched.api.args import Count, Int32
from reactive_desched.api.plugin import POD_CHANGES_IN_ANY_PHASE, PodPlugin, View
from reactive_desched.api.possible_names import OwnerKindNames
from reactive_desched.api.scope import ScopedArgs
from reactive_desched.model.changes import (
    Change,
    PodChange,
)
from reactive_desched.model.findings import Finding, RequeueAfter
from reactive_desched.model.objects import FAILED, Pod, PodStatus
from reactive_desched.model.subjects import NodeOrPod
from reactive_desched.text.ages import format_age

T = TypeVar("T", str, int)


class FailedPodsArgs(ScopedArgs):
    """Arguments: a failed pod is evicted where it matches every one that is given."""

    exclude_owner_kinds: OwnerKindNames = Field(
        default=(), description="Leave pods alone that one of these kinds owns."
    )
    min_pod_lifetime_seconds: Count = Field(
        default=3600, description="Only pods created at least so long ago; 0 for any age."
    )
    reasons: tuple[str, ...] = Field(
        default=(),
        description="Only pods with a listed reason, or with a container that waits or ended for "
        "one.",
    )
    exit_codes: tuple[Int32, ...] = Field(
        default=(), description="Only pods with a container that ended with a listed exit code."
    )
    including_init_containers: bool = Field(
        default=False, description="Look for reasons and exit codes in init containers as well."
    )


class FailedPodsPlugin(PodPlugin[FailedPodsArgs]):
    """Pods in phase Failed that are old enough, for a reason and with an exit code as asked.

    Age counts from creation, not from the failure, in whole seconds. A pod whose creation lies in
    the future, by a clock that is wrong, is young; upstream takes it for ancient.
    """

    name = "RemoveFailedPods"
    asks_node_fit = False
    reacts_to = POD_CHANGES_IN_ANY_PHASE
    judges_completed_pods = True

    def __init__(self, args: FailedPodsArgs) -> None:
        super().__init__(args)
        self._min_age_s = args.min_pod_lifetime_seconds or -inf
        self._reasons = frozenset(args.reasons)
        self._include_init = args.including_init_containers
        self._exit_codes = frozenset(args.exit_codes)
        self._excluded_owner_kinds = frozenset(args.exclude_owner_kinds)

    def matters(self, change: Change) -> bool:
        """Ignore pods that have not failed."""
        return not isinstance(change, PodChange) or change.pod.status.phase == FAILED

    def judge(self, subject: NodeOrPod, view: View) -> Iterator[Finding | RequeueAfter]:
        """Flag every failed pod that matches; look again when the next one is old enough."""
        if (node_and_pods := view.all_pods_of(subject)) is None:
            return
        now_s, next_s = view.now_s, inf
        for pod in node_and_pods[1]:
            if pod.status.phase != FAILED or not self._matches_args(pod):
                continue
            due_s = pod.created_s + self._min_age_s
            if due_s > now_s:
                next_s = min(next_s, due_s)
            else:
                reason, numbers = self._explain(pod, now_s)
                yield Finding(pod, self.name, reason, details=numbers)
        if next_s < inf:
            yield RequeueAfter(next_s - now_s)

    def describe(self, pod: Pod, view: View) -> str:
        """Say that the pod has not failed, or which argument its failure does not match."""
        if pod.status.phase != FAILED:
            return f"the pod is {pod.status.phase}"
        if self._matches_args(pod):
            age, least = view.now_s - pod.created_s, self.args.min_pod_lifetime_seconds or 0
            return f"failed, {format_age(age)} old: flagged at {format_age(least)}"
        reasons = ", ".join(self._reasons_of(pod.status)) or "none"
        codes = ", ".join(map(str, self._exit_codes_of(pod.status))) or "none"
        return f"failed, and not as the arguments ask: reasons {reasons}, exit codes {codes}"

    def _matches_args(self, pod: Pod) -> bool:
        """Say whether the pod matches every argument but the age."""
        return (
            not any(owner.kind in self._excluded_owner_kinds for owner in pod.owners)
            and (not self._reasons or not self._reasons.isdisjoint(self._reasons_of(pod.status)))
            and (
                not self._exit_codes
                or not self._exit_codes.isdisjoint(self._exit_codes_of(pod.status))
            )
            and self.args.covers(pod)
        )

    def _reasons_of(self, status: PodStatus) -> Iterator[str]:
        """Return all reasons there are, the pod's own first."""
        if status.reason:
            yield status.reason
        for container in status.app_containers(include_init=self._include_init):
            yield from filter(None, (container.waiting_reason, container.terminated_reason))

    def _exit_codes_of(self, status: PodStatus) -> Iterator[int]:
        """Return the exit codes of the containers that have ended."""
        for container in status.app_containers(include_init=self._include_init):
            if container.exit_code is not None:
                yield container.exit_code

    def _explain(self, pod: Pod, now_s: float) -> tuple[str, dict[str, int | str]]:
        """Return the reason and the exit code that the arguments ask for, else the first ones."""
        age_s = now_s - pod.created_s
        reason = _first_wanted(self._reasons_of(pod.status), self._reasons)
        code = _first_wanted(self._exit_codes_of(pod.status), self._exit_codes)
        parts = [
            *([] if reason is None else [f"reason {reason}"]),
            *([] if code is None else [f"exit code {code}"]),
            f"{format_age(age_s)} old",
        ]
        details: dict[str, int | str] = {
            "ageSeconds": max(0, int(age_s)),
            "minAgeSeconds": self.args.min_pod_lifetime_seconds,
            **({} if reason is None else {"reason": reason}),
            **({} if code is None else {"exitCode": code}),
        }
        return f"failed: {', '.join(parts)}", details


def _first_wanted(found: Iterable[T], wanted: frozenset[T]) -> T | None:
    """Return the first that an argument lists, or the first where the argument is empty."""
    return next((it for it in found if it in wanted or not wanted), None)
