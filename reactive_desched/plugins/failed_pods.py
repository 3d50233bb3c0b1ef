"""A pod has failed and is still there."""

from collections.abc import Iterable, Iterator
from math import inf
from typing import TypeVar

from pydantic import Field

from reactive_desched.api.places import PlacePlugin
from reactive_desched.api.plugin import View
from reactive_desched.api.scope import ScopedArgs
from reactive_desched.model.changes import (
    NodeAdded,
    PodBound,
    PodForgotten,
    PodGone,
    PodLabelsChanged,
    PodMarksChanged,
    PodStatusChanged,
    Resynced,
)
from reactive_desched.model.findings import Finding, LookAgain
from reactive_desched.model.objects import FAILED, Pod, PodStatus
from reactive_desched.model.subjects import Places
from reactive_desched.policy.fields import Count, Int32
from reactive_desched.primitives.ages import spoken

T = TypeVar("T", str, int)


class FailedPodsArgs(ScopedArgs):
    """Which failed pods are meant: those of which everything given here is true."""

    exclude_owner_kinds: tuple[str, ...] = Field(
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


class FailedPods(PlacePlugin[FailedPodsArgs]):
    """Pods in phase Failed that are old enough, for a reason and with an exit code as asked.

    Age counts from creation, not from the failure, in whole seconds. A pod whose creation lies in
    the future, by a clock that is wrong, is young; upstream takes it for ancient.
    """

    name = "RemoveFailedPods"
    reacts_to = (
        Resynced,
        NodeAdded,
        PodBound,
        PodStatusChanged,
        PodGone,
        PodForgotten,
        PodLabelsChanged,
        PodMarksChanged,
    )
    sees_ended = True

    def __init__(self, args: FailedPodsArgs) -> None:
        super().__init__(args)
        self._min_age_s = args.min_pod_lifetime_seconds or -inf
        self._reasons = frozenset(args.reasons)
        self._with_init = args.including_init_containers
        self._exit_codes = frozenset(args.exit_codes)
        self._excluded = frozenset(args.exclude_owner_kinds)

    def judge(self, subject: Places, view: View) -> Iterator[Finding | LookAgain]:
        """Flag every failed pod that is meant; look again when the next one is old enough."""
        if (place := view.everyone(subject)) is None:
            return
        now_s, next_s = view.now_s, inf
        for pod in place[1]:
            if pod.status.phase != FAILED or not self._is_meant(pod):
                continue
            due_s = pod.created_s + self._min_age_s
            if due_s > now_s:
                next_s = min(next_s, due_s)
            else:
                reason, numbers = self._why(pod, now_s)
                yield Finding(pod, self.name, reason, numbers=numbers)
        if next_s < inf:
            yield LookAgain(next_s - now_s)

    def _is_meant(self, pod: Pod) -> bool:
        """Say whether all but its age speaks for the pod to go."""
        return (
            not any(owner.kind in self._excluded for owner in pod.owners)
            and (not self._reasons or not self._reasons.isdisjoint(self._reasons_of(pod.status)))
            and (
                not self._exit_codes or not self._exit_codes.isdisjoint(self._codes_of(pod.status))
            )
            and self.args.covers(pod)
        )

    def _reasons_of(self, status: PodStatus) -> Iterator[str]:
        """Give all reasons there are, the pod's own first."""
        if status.reason:
            yield status.reason
        for container in status.app_containers(and_init=self._with_init):
            yield from filter(None, (container.waiting, container.terminated))

    def _codes_of(self, status: PodStatus) -> Iterator[int]:
        """Give the exit codes of the containers that have ended."""
        for container in status.app_containers(and_init=self._with_init):
            if container.exit_code is not None:
                yield container.exit_code

    def _why(self, pod: Pod, now_s: float) -> tuple[str, dict[str, int | str]]:
        """Tell the reason and the exit code that were asked for, else the first there are."""
        age_s = now_s - pod.created_s
        reason = _foremost(self._reasons_of(pod.status), self._reasons)
        code = _foremost(self._codes_of(pod.status), self._exit_codes)
        told = [
            *([] if reason is None else [f"reason {reason}"]),
            *([] if code is None else [f"exit code {code}"]),
            f"{spoken(age_s)} old",
        ]
        numbers: dict[str, int | str] = {
            "ageSeconds": max(0, int(age_s)),
            "minAgeSeconds": self.args.min_pod_lifetime_seconds,
            **({} if reason is None else {"reason": reason}),
            **({} if code is None else {"exitCode": code}),
        }
        return f"failed: {', '.join(told)}", numbers


def _foremost(found: Iterable[T], wanted: frozenset[T]) -> T | None:
    """Give the first that is wanted, or the first where anything goes."""
    return next((it for it in found if it in wanted or not wanted), None)
