"""A pod's containers have restarted again and again."""

from collections.abc import Iterator
from operator import itemgetter
from typing import Annotated, Final

from pydantic import Field, field_validator

from reactive_desched.api.args import AnyOf, Int32, field_error
from reactive_desched.api.plugin import PodPlugin, View
from reactive_desched.api.rules import Rule
from reactive_desched.api.scope import ScopedArgs
from reactive_desched.model.changes import (
    Change,
    NodeAdded,
    PodBound,
    PodChange,
    PodGone,
    PodLabelsChanged,
    PodStatusChanged,
    Resynced,
)
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import Pod, PodStatus
from reactive_desched.model.subjects import NodeOrPod

STATES: Final = ("CrashLoopBackOff", "Running")


class TooManyRestartsArgs(ScopedArgs):
    """Arguments: how many restarts are too many, of which containers, in which states."""

    pod_restart_threshold: Int32 = Field(
        description="Only pods whose containers restarted at least so often, all together."
    )
    including_init_containers: bool = Field(
        default=False, description="Count restarts and look for states in init containers too."
    )
    states: Annotated[tuple[str, ...], AnyOf("states", STATES)] = Field(
        default=(),
        description="Only pods in the phase Running, or with a container that waits in "
        "CrashLoopBackOff, if listed; pods in any state when left out.",
    )

    @field_validator("pod_restart_threshold")
    @classmethod
    def _validate_threshold(cls, threshold: int) -> int:
        if threshold < 1:
            message = f"must be at least 1, not {threshold}"
            raise field_error(message, rule=Rule.OUT_OF_BOUNDS)
        return threshold


class TooManyRestartsPlugin(PodPlugin[TooManyRestartsArgs]):
    """Pods, ended ones included, whose containers restarted as often as the threshold, or more.

    Restarts are summed over the containers. Of a node's pods the one with most restarts goes first.
    In reactive mode no pod is evicted for restarts before the node has been Ready for 2 min
    (`guards.standingTimes.readyNodes`): a node that boots restarts every pod, some several times
    until what they need is there. A sweep evicts at once.
    """

    name = "RemovePodsHavingTooManyRestarts"
    asks_node_fit = False
    reacts_to = (
        Resynced,
        NodeAdded,
        PodBound,
        PodStatusChanged,
        PodGone,
        PodLabelsChanged,
    )
    judges_completed_pods = True

    def __init__(self, args: TooManyRestartsArgs) -> None:
        super().__init__(args)
        self._threshold = args.pod_restart_threshold
        self._include_init = args.including_init_containers
        self._states = frozenset(args.states)

    def matters(self, change: Change) -> bool:
        """Ignore pods that restarted less often."""
        return not isinstance(change, PodChange) or self._restarts(change.pod) >= self._threshold

    def judge(self, subject: NodeOrPod, view: View) -> Iterator[Finding]:
        """Flag every pod that restarted too often and is in one of the states."""
        if (node_and_pods := view.all_pods_of(subject)) is None:
            return
        found, wait_s = [], view.ready_wait_s(node_and_pods[0])
        from_s = view.now_s + wait_s if wait_s else 0.0
        for pod in node_and_pods[1]:
            restarts = self._restarts(pod)
            if restarts < self._threshold:
                continue
            if self._is_in_state(pod.status) and self.args.covers(pod):
                found.append((restarts, pod))
        for restarts, pod in sorted(found, key=itemgetter(0), reverse=True):
            message = f"restarted {restarts} times, the limit is {self._threshold}"
            details = {"restarts": restarts, "restartThreshold": self._threshold}
            yield Finding(pod, self.name, message, details=details, counts_from_s=from_s)

    def describe(self, pod: Pod, view: View) -> str:
        """Say how often the pod restarted, beside the threshold."""
        del view
        restarts = self._restarts(pod)
        text = f"restarted {restarts} times, the limit is {self._threshold}"
        if restarts < self._threshold or self._is_in_state(pod.status):
            return text
        return f"{text}; it is in none of the states listed"

    def _restarts(self, pod: Pod) -> int:
        restarts = 0
        for container in pod.status.containers:
            restarts += container.restart_count
        if self._include_init:
            for container in pod.status.init_containers:
                restarts += container.restart_count
        return restarts

    def _is_in_state(self, status: PodStatus) -> bool:
        """Only what a container waits for counts, not why it ended."""
        if not self._states or status.phase in self._states:
            return True
        return any(
            container.waiting_reason in self._states
            for container in status.app_containers(include_init=self._include_init)
        )
