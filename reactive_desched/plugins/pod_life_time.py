"""A pod is too old, or has been too long in a state it should not stay in."""

from collections.abc import Iterable, Iterator
from math import inf
from typing import Annotated, Final, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from reactive_desched.api.places import PlacePlugin
from reactive_desched.api.plugin import PluginArgs, View
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
from reactive_desched.model.objects import ContainerStatus, Pod, PodCondition, PodStatus
from reactive_desched.model.subjects import Places
from reactive_desched.policy.choices import AnyOf
from reactive_desched.policy.fields import Count, Int32
from reactive_desched.primitives.ages import spoken

STATES: Final = (
    "Completed",
    "ContainerCannotRun",
    "ContainerCreating",
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "CreateContainerError",
    "DeadlineExceeded",
    "ErrImagePull",
    "Error",
    "Evicted",
    "Failed",
    "ImagePullBackOff",
    "InvalidImageName",
    "NodeAffinity",
    "NodeLost",
    "OOMKilled",
    "Pending",
    "PodInitializing",
    "Running",
    "Shutdown",
    "StartError",
    "Succeeded",
    "UnexpectedAdmissionError",
    "Unknown",
)
"""Phases of pods, and reasons of pods and of containers that wait or have ended."""


class OwnerKinds(PluginArgs):
    """Kinds of owners; one of the two lists at most."""

    include: tuple[str, ...] = Field(
        default=(), description="Look only at pods that one of these kinds owns."
    )
    exclude: tuple[str, ...] = Field(
        default=(), description="Leave pods alone that one of these kinds owns."
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if self.include and self.exclude:
            raise ValueError("only one of Include/Exclude ownerKinds can be set")
        return self


class WantedCondition(PluginArgs):
    """A condition a pod must have; every field that is set must hold on the same one."""

    type: str = Field(default="", description="Its type, such as Ready.")
    status: str = Field(default="", description="Its status: True, False or Unknown.")
    reason: str = Field(default="", description="Its reason, such as PodCompleted.")
    min_time_since_last_transition_seconds: Count | None = Field(
        default=None, description="So long ago, at least, its status last changed."
    )

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.type or self.status or self.reason:
            return self
        if self.min_time_since_last_transition_seconds is not None:
            return self
        raise ValueError(
            "at least one of type, status, reason, or minTimeSinceLastTransitionSeconds must be set"
        )

    def is_met_by(self, condition: PodCondition) -> bool:
        """Say whether this is the condition, however long it has been so."""
        return (
            self.type in ("", condition.type)
            and self.status in ("", condition.status)
            and self.reason in ("", condition.reason)
        )

    def due_s(self, created_s: int, changed_s: int | None) -> float:
        """Say from when on it has been so for long enough; never when it has no time."""
        wait_s = self.min_time_since_last_transition_seconds
        if wait_s is None:
            return -inf
        return inf if changed_s is None else created_s + changed_s + wait_s


_Met = tuple[int, WantedCondition]
"""The place of a pod's condition, and what is wanted of it."""

_Known = dict[int, tuple[_Met, ...]]
"""Which of some conditions are wanted, for one judgement; siblings share conditions and answer."""

_Numbers = dict[str, int | str]


class PodLifeTimeArgs(ScopedArgs):
    """Which pods are meant: those of which everything given here is true."""

    owner_kinds: OwnerKinds = Field(
        default=OwnerKinds(), description="The kinds of owners to look at; all when left out."
    )
    states: Annotated[tuple[str, ...], AnyOf("states", STATES)] = Field(
        default=(),
        description="Only pods with a listed phase or reason, or with a container that waits or "
        f"ended for a listed reason; there are {', '.join(STATES)}.",
    )
    conditions: tuple[WantedCondition, ...] = Field(
        default=(),
        description="Only pods with one of these conditions; each gives its type, status, reason "
        "and minTimeSinceLastTransitionSeconds, or some of these.",
    )
    exit_codes: tuple[Int32, ...] = Field(
        default=(), description="Only pods with a container that ended with a listed exit code."
    )
    including_init_containers: bool = Field(
        default=False, description="Look for states and exit codes in init containers as well."
    )
    including_ephemeral_containers: bool = Field(
        default=False, description="Look for states in ephemeral containers as well."
    )
    # The last field, because its check looks at the fields before it.
    max_pod_life_time_seconds: Count | None = Field(
        default=None,
        validate_default=True,
        description="Only pods created longer ago than this; it, states, conditions or exitCodes "
        "must be given.",
    )

    @field_validator("max_pod_life_time_seconds")
    @classmethod
    def _some_criterion(cls, max_age_s: int | None, info: ValidationInfo) -> int | None:
        others = ("states", "conditions", "exit_codes")
        if max_age_s is None and not any(info.data.get(name, "refused") for name in others):
            raise ValueError(
                "at least one filtering criterion must be specified "
                "(maxPodLifeTimeSeconds, states, conditions, or exitCodes)"
            )
        return max_age_s


class PodLifeTime(PlacePlugin[PodLifeTimeArgs]):
    """Pods in any phase that are too old, or have been in a state or condition for too long.

    Ages are whole seconds: at most 600 allows 600, and 601 is too old; a condition that must last
    600 seconds may go at 600. What is dated in the future, by a clock that is wrong, is young.
    The oldest pod of all goes first.
    """

    name = "PodLifeTime"
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
    gathers = True

    def __init__(self, args: PodLifeTimeArgs) -> None:
        super().__init__(args)
        limit_s = args.max_pod_life_time_seconds
        self._due_age_s = -inf if limit_s is None else limit_s + 1
        self._states = frozenset(args.states)
        self._with_init = args.including_init_containers
        self._exit_codes = frozenset(args.exit_codes)
        self._included_owners = frozenset(args.owner_kinds.include)
        self._excluded_owners = frozenset(args.owner_kinds.exclude)

    def judge(self, subject: Places, view: View) -> Iterator[Finding | LookAgain]:
        """Flag every pod that is due; look again when the next one is."""
        if (place := view.everyone(subject)) is None:
            return
        now_s, next_s, known = view.now_s, inf, _Known()
        for pod in place[1]:
            due_s = self._due_s(pod, known)
            if due_s >= next_s or not self._is_meant(pod):
                continue
            if due_s > now_s:
                next_s = due_s
            else:
                reason, numbers = self._why(pod, now_s)
                yield Finding(pod, self.name, reason, rank=(pod.created_s,), numbers=numbers)
        if next_s < inf:
            yield LookAgain(next_s - now_s)

    def _due_s(self, pod: Pod, known: _Known) -> float:
        """Say from when on it is too old and in a wanted condition for long enough; inf: never."""
        due_s = pod.created_s + self._due_age_s
        return max(due_s, self._condition(pod, known)[0]) if self.args.conditions else due_s

    def _is_meant(self, pod: Pod) -> bool:
        """Say whether everything that does not hang on time speaks for the pod to go."""
        return (
            (not self._states or self._state(pod.status) is not None)
            and (not self._exit_codes or self._exit_code(pod.status) is not None)
            and (not self._included_owners or _is_owned_by(pod, self._included_owners))
            and not (self._excluded_owners and _is_owned_by(pod, self._excluded_owners))
            and self.args.covers(pod)
        )

    def _state(self, status: PodStatus) -> str | None:
        """Give the first of the wanted states that the pod or one of its containers is in."""
        states = self._states
        if status.phase in states:
            return status.phase
        if status.reason in states:
            return status.reason
        for container in self._containers_with_state(status):
            if container.waiting in states:
                return container.waiting
            if container.terminated in states:
                return container.terminated
        return None

    def _condition(self, pod: Pod, known: _Known) -> tuple[float, _Met | None]:
        """Say from when on the first wanted condition has lasted for long enough, and which."""
        conditions = pod.status.conditions
        if (met := known.get(id(conditions))) is None:
            met = known[id(conditions)] = tuple(self._wanted_among(conditions))
        first_s, which = inf, None
        for each in met:
            due_s = each[1].due_s(pod.created_s, pod.transitions[each[0]])
            if due_s < first_s:
                first_s, which = due_s, each
        return first_s, which

    def _wanted_among(self, conditions: Iterable[PodCondition]) -> Iterator[_Met]:
        """Give the place of each condition that is wanted, with what is wanted of it."""
        for index, condition in enumerate(conditions):
            for wanted in self.args.conditions:
                if wanted.is_met_by(condition):
                    yield index, wanted

    def _exit_code(self, status: PodStatus) -> int | None:
        """Give the first of the wanted exit codes with which a container ended."""
        for container in status.app_containers(and_init=self._with_init):
            if container.exit_code in self._exit_codes:
                return container.exit_code
        return None

    def _containers_with_state(self, status: PodStatus) -> tuple[ContainerStatus, ...]:
        if self.args.including_ephemeral_containers:
            return status.app_containers(and_init=self._with_init) + status.ephemeral_containers
        return status.app_containers(and_init=self._with_init)

    def _why(self, pod: Pod, now_s: float) -> tuple[str, _Numbers]:
        """Tell each thing that was asked for, with the pod's own numbers."""
        told, age_s = [], max(0, int(now_s - pod.created_s))
        numbers: _Numbers = {"ageSeconds": age_s}
        if (limit_s := self.args.max_pod_life_time_seconds) is not None:
            told.append(f"is {spoken(age_s)} old, the limit is {spoken(limit_s)}")
            numbers["maxAgeSeconds"] = limit_s
        if self._states and (state := self._state(pod.status)) is not None:
            told.append(f"state {state}")
            numbers["state"] = state
        if (met := self._condition(pod, {})[1]) is not None:
            words, figures = _told(pod, met, now_s)
            told.append(words)
            numbers |= figures
        if self._exit_codes and (code := self._exit_code(pod.status)) is not None:
            told.append(f"exit code {code}")
            numbers["exitCode"] = code
        return "; ".join(told), numbers


def _is_owned_by(pod: Pod, kinds: frozenset[str]) -> bool:
    return any(owner.kind in kinds for owner in pod.owners)


def _told(pod: Pod, met: _Met, now_s: float) -> tuple[str, _Numbers]:
    """Tell how long a condition has been as it is, where that is known."""
    index, wanted = met
    condition, since_s = pod.status.conditions[index], pod.transitions[index]
    why = f" ({condition.reason})" if condition.reason else ""
    words = f"condition {condition.type} is {condition.status}{why}"
    numbers: _Numbers = {"conditionType": condition.type, "conditionStatus": condition.status}
    if condition.reason:
        numbers["conditionReason"] = condition.reason
    if since_s is not None:
        lasted_s = max(0, int(now_s - pod.created_s - since_s))
        words += f" for {spoken(lasted_s)}"
        numbers["conditionSeconds"] = lasted_s
    if (least_s := wanted.min_time_since_last_transition_seconds) is not None:
        numbers["minConditionSeconds"] = least_s
    return words, numbers
