"""A pod is too old, or has been too long in a state it should not stay in."""

from collections.abc import Iterable, Iterator
from math import inf
from typing import Annotated, Final, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from reactive_desched.api.args import (
    AnyOf,
    Count,
    FieldError,
    Int32,
    PluginArgs,
    exclusive_errors,
    field_error,
    raise_field_errors,
)
from reactive_desched.api.plugin import POD_CHANGES_IN_ANY_PHASE, PodPlugin, View
from reactive_desched.api.possible_names import ConditionStatus, OwnerKindNames
from reactive_desched.api.rules import Rule
from reactive_desched.api.scope import ScopedArgs
from reactive_desched.model.changes import (
    Change,
    PodChange,
    PodGone,
    PodMetadataChanged,
    PodStatusChanged,
)
from reactive_desched.model.findings import Finding, RequeueAfter
from reactive_desched.model.objects import ContainerStatus, Node, Pod, PodCondition, PodStatus
from reactive_desched.model.subjects import NodeOrPod
from reactive_desched.text.ages import format_age
from reactive_desched.text.counts import format_count

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

_RUNNING: Final = "Running"


class OwnerKinds(PluginArgs):
    """Kinds of owners; one of the two lists at most."""

    include: OwnerKindNames = Field(
        default=(), description="Look only at pods that one of these kinds owns."
    )
    exclude: OwnerKindNames = Field(
        default=(), description="Leave pods alone that one of these kinds owns."
    )

    @model_validator(mode="after")
    def _validate_exclusive(self) -> Self:
        raise_field_errors(exclusive_errors("include and exclude", self.include, self.exclude))
        return self


_SHORT_LIFE_S: Final = 600
"""A shorter life of pods that run is said to be too short: hours or days may have been meant."""


class WantedCondition(PluginArgs):
    """A condition a pod must have; every field that is set must hold on the same one."""

    type: str = Field(default="", description="Its type, such as Ready.")
    status: ConditionStatus = Field(default="", description="Its status: True, False or Unknown.")
    reason: str = Field(default="", description="Its reason, such as PodCompleted.")
    min_time_since_last_transition_seconds: Count | None = Field(
        default=None, description="So long ago, at least, its status last changed."
    )

    @model_validator(mode="after")
    def _validate_not_empty(self) -> Self:
        if self.type or self.status or self.reason:
            return self
        if self.min_time_since_last_transition_seconds is not None:
            return self
        message = "says nothing of the condition that is meant"
        hint = "write type, status, reason or minTimeSinceLastTransitionSeconds"
        raise field_error(message, hint, rule=Rule.NO_CRITERION)

    def matches(self, condition: PodCondition) -> bool:
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


_MatchedCondition = tuple[int, WantedCondition]
"""The place of a pod's condition, and what is wanted of it."""

_ConditionCache = dict[int, tuple[_MatchedCondition, ...]]
"""Which of some conditions are wanted, for one judgement; siblings share conditions and answer."""

_Details = dict[str, int | str]


class PodLifeTimeArgs(ScopedArgs):
    """Arguments: a pod is evicted where everything given here is true of it."""

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
    def _validate_some_criterion(cls, max_age_s: int | None, info: ValidationInfo) -> int | None:
        others = ("states", "conditions", "exit_codes")
        if max_age_s is None and not any(info.data.get(name, "refused") for name in others):
            message = "nothing says which pods are meant"
            hint = "write maxPodLifeTimeSeconds, states, conditions or exitCodes"
            raise field_error(message, hint, rule=Rule.NO_CRITERION)
        return max_age_s

    def warnings(self) -> Iterator[FieldError]:
        """Say that every pod that runs is meant, and so is each that takes its place."""
        age_s = self.max_pod_life_time_seconds or 0
        if age_s >= _SHORT_LIFE_S or self.conditions or self.exit_codes:
            return
        if self.states and _RUNNING not in self.states:
            return
        path: tuple[str, ...] = ("maxPodLifeTimeSeconds",)
        if age_s:
            message = f"{age_s} means every pod that is {format_count(age_s, 'second')} old"
        elif self.states:
            message, path = "means every pod that runs, however young", ("states",)
        else:
            message = "0 means every pod, however young"
        hint = "write how many seconds a pod may live, such as 604800 for a week"
        yield FieldError(f"{message}, and each that replaces it", hint, path, rule=Rule.EVERY_POD)


class PodLifeTimePlugin(PodPlugin[PodLifeTimeArgs]):
    """Pods in any phase that are too old, or have been in a state or condition for too long.

    Ages are whole seconds: at most 600 allows 600, and 601 is too old; a condition that must last
    600 seconds may go at 600. What is dated in the future, by a clock that is wrong, is young.
    The oldest pod of all goes first. In reactive mode a state of a pod that is not Ready, or a
    condition that need not last, counts when it is two minutes old
    (`guards.standingTimes.podStates`), and on a node that came back when that has been Ready for
    as long as for restarts: an old pod is in it for a moment whenever its container or its node
    restarts. A sweep evicts at once.
    """

    name = "PodLifeTime"
    asks_node_fit = False
    reacts_to = POD_CHANGES_IN_ANY_PHASE
    judges_completed_pods = True

    def __init__(self, args: PodLifeTimeArgs) -> None:
        super().__init__(args)
        limit_s = args.max_pod_life_time_seconds
        self._due_age_s = -inf if limit_s is None else limit_s + 1
        self._states = frozenset(args.states)
        self._include_init = args.including_init_containers
        self._exit_codes = frozenset(args.exit_codes)
        reads_status = args.states or args.conditions or args.exit_codes
        reads_owners = args.owner_kinds.include or args.owner_kinds.exclude
        self._ignored = frozenset(
            {
                *(() if reads_status else (PodStatusChanged,)),
                *(() if reads_owners else (PodMetadataChanged,)),
            }
        )
        self._included_owners = frozenset(args.owner_kinds.include)
        self._excluded_owners = frozenset(args.owner_kinds.exclude)

    def matters(self, change: Change) -> bool:
        """Ignore what the arguments do not look at, pods that they leave out, and deleted ones.

        A pod's age needs no change: its node is evaluated again when the next pod is old enough.
        """
        if not isinstance(change, PodChange):
            return True
        pod = change.pod
        if type(change) in self._ignored or (isinstance(change, PodGone) and not pod.has_ended):
            return False
        return self._matches_args(pod)

    def judge(self, subject: NodeOrPod, view: View) -> Iterator[Finding | RequeueAfter]:
        """Flag every pod that is due; look again when the next one is."""
        if (node_and_pods := view.all_pods_of(subject)) is None:
            return
        now_s, next_s, cache = view.now_s, inf, _ConditionCache()
        findings = list[Finding]()
        for pod in node_and_pods[1]:
            due_s = self._due_s(pod, cache)
            if due_s >= next_s or not self._matches_args(pod):
                continue
            if due_s > now_s:
                next_s = due_s
            else:
                reason, numbers = self._explain(pod, now_s)
                wait_s = self._state_wait_s(pod, node_and_pods[0], view)
                from_s = now_s + wait_s if wait_s else 0.0
                found = Finding(pod, self.name, reason, details=numbers, counts_from_s=from_s)
                findings.append(found)
        yield from sorted(findings, key=_created_s)
        if next_s < inf:
            yield RequeueAfter(next_s - now_s)

    def describe(self, pod: Pod, view: View) -> str:
        """Say how old the pod is, and in which state, beside what the arguments ask for."""
        age = format_age(max(0, int(view.now_s - pod.created_s)))
        limit_s = self.args.max_pod_life_time_seconds
        limit = "" if limit_s is None else f", the limit is {format_age(limit_s)}"
        texts = [f"is {age} old{limit}"]
        if self._states and self._first_listed_state(pod.status) is None:
            texts.append(f"{pod.status.phase}, and in none of the states listed")
        if self.args.conditions and self._first_due_condition(pod, {})[0] > view.now_s:
            texts.append("no condition listed has lasted for long enough")
        if self._exit_codes and self._first_listed_exit_code(pod.status) is None:
            texts.append("no container ended with an exit code listed")
        kinds = self._included_owners
        if (kinds and not _is_owned_by(pod, kinds)) or _is_owned_by(pod, self._excluded_owners):
            texts.append("ownerKinds leaves its owner out")
        return "; ".join(texts)

    def sweep(self, view: View) -> Iterator[list[Finding]]:
        """Yield the findings of all nodes at once, as upstream filters and sorts them."""
        findings = [finding for portion in super().sweep(view) for finding in portion]
        yield sorted(findings, key=_created_s)

    def _due_s(self, pod: Pod, cache: _ConditionCache) -> float:
        """Say from when on it is too old and in a wanted condition for long enough; inf: never."""
        due_s = pod.created_s + self._due_age_s
        return (
            max(due_s, self._first_due_condition(pod, cache)[0]) if self.args.conditions else due_s
        )

    def _state_wait_s(self, pod: Pod, node: Node, view: View) -> float:
        """Say for how long what the arguments ask of its status must still last to count."""
        if pod.has_ended:
            return 0.0
        waits = [0.0]
        is_state = self._states and self._first_listed_state(pod.status) != _RUNNING
        if (is_state or self._exit_codes) and not pod.status.is_ready:
            waits += view.state_wait_s(pod.readiness_changed_s), view.ready_wait_s(node)
        if (met := self._first_due_condition(pod, {})[1]) is not None:
            changed_s = pod.condition_transitions[met[0]]
            if met[1].min_time_since_last_transition_seconds is None and changed_s is not None:
                waits.append(view.state_wait_s(pod.created_s + changed_s))
        return max(waits)

    def _matches_args(self, pod: Pod) -> bool:
        """Say whether the pod matches every argument that does not depend on time."""
        return (
            (not self._states or self._first_listed_state(pod.status) is not None)
            and (not self._exit_codes or self._first_listed_exit_code(pod.status) is not None)
            and (not self._included_owners or _is_owned_by(pod, self._included_owners))
            and not (self._excluded_owners and _is_owned_by(pod, self._excluded_owners))
            and self.args.covers(pod)
        )

    def _first_listed_state(self, status: PodStatus) -> str | None:
        """Return the first of the wanted states that the pod or one of its containers is in."""
        states = self._states
        if status.phase in states:
            return status.phase
        if status.reason in states:
            return status.reason
        for container in self._containers_with_state(status):
            if container.waiting_reason in states:
                return container.waiting_reason
            if container.terminated_reason in states:
                return container.terminated_reason
        return None

    def _first_due_condition(
        self, pod: Pod, cache: _ConditionCache
    ) -> tuple[float, _MatchedCondition | None]:
        """Say from when on the first wanted condition has lasted for long enough, and which."""
        conditions = pod.status.conditions
        if (met := cache.get(id(conditions))) is None:
            met = cache[id(conditions)] = tuple(self._matching_conditions(conditions))
        first_s, which = inf, None
        for each in met:
            due_s = each[1].due_s(pod.created_s, pod.condition_transitions[each[0]])
            if due_s < first_s:
                first_s, which = due_s, each
        return first_s, which

    def _matching_conditions(
        self, conditions: Iterable[PodCondition]
    ) -> Iterator[_MatchedCondition]:
        """Return each wanted condition with its place."""
        for index, condition in enumerate(conditions):
            for wanted in self.args.conditions:
                if wanted.matches(condition):
                    yield index, wanted

    def _first_listed_exit_code(self, status: PodStatus) -> int | None:
        """Return the first of the wanted exit codes with which a container ended."""
        for container in status.app_containers(include_init=self._include_init):
            if container.exit_code in self._exit_codes:
                return container.exit_code
        return None

    def _containers_with_state(self, status: PodStatus) -> tuple[ContainerStatus, ...]:
        if self.args.including_ephemeral_containers:
            return (
                status.app_containers(include_init=self._include_init) + status.ephemeral_containers
            )
        return status.app_containers(include_init=self._include_init)

    def _explain(self, pod: Pod, now_s: float) -> tuple[str, _Details]:
        """Describe each criterion of the arguments that the pod meets, with its figures."""
        parts, age_s = [], max(0, int(now_s - pod.created_s))
        details: _Details = {"ageSeconds": age_s}
        if (limit_s := self.args.max_pod_life_time_seconds) is not None:
            parts.append(f"is {format_age(age_s)} old, the limit is {format_age(limit_s)}")
            details["maxAgeSeconds"] = limit_s
        if self._states and (state := self._first_listed_state(pod.status)) is not None:
            parts.append(f"state {state}")
            details["state"] = state
        if (met := self._first_due_condition(pod, {})[1]) is not None:
            text, condition_details = _describe_condition(pod, met, now_s)
            parts.append(text)
            details |= condition_details
        if self._exit_codes and (code := self._first_listed_exit_code(pod.status)) is not None:
            parts.append(f"exit code {code}")
            details["exitCode"] = code
        return "; ".join(parts), details


def _created_s(finding: Finding) -> int:
    return finding.pod.created_s


def _is_owned_by(pod: Pod, kinds: frozenset[str]) -> bool:
    return any(owner.kind in kinds for owner in pod.owners)


def _describe_condition(pod: Pod, matched: _MatchedCondition, now_s: float) -> tuple[str, _Details]:
    """Return how long a condition has had its status, where that is known."""
    index, wanted = matched
    condition, since_s = pod.status.conditions[index], pod.condition_transitions[index]
    why = f" ({condition.reason})" if condition.reason else ""
    text = f"condition {condition.type} is {condition.status}{why}"
    details: _Details = {"conditionType": condition.type, "conditionStatus": condition.status}
    if condition.reason:
        details["conditionReason"] = condition.reason
    if since_s is not None:
        lasted_s = max(0, int(now_s - pod.created_s - since_s))
        text += f" for {format_age(lasted_s)}"
        details["conditionSeconds"] = lasted_s
    if (least_s := wanted.min_time_since_last_transition_seconds) is not None:
        details["minConditionSeconds"] = least_s
    return text, details
