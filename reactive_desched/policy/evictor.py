"""The arguments of DefaultEvictor: which pods must not be evicted, whatever a plugin finds."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Final

from msgspec import structs
from pydantic import Field, PlainValidator, ValidationInfo, field_validator

from reactive_desched.api.args import (
    AS_SELECTOR_TEXT,
    Count,
    FieldError,
    FieldErrors,
    Int32,
    Section,
    SelectorObject,
    SignedSeconds,
    exclusive_errors,
    fix_to,
    raise_field_errors,
    read_selector,
)
from reactive_desched.api.rules import Rule
from reactive_desched.model.labels import EVERYTHING, NOTHING, Selector
from reactive_desched.model.objects import SYSTEM_CRITICAL_PRIORITY
from reactive_desched.policy.protections import DEFAULT_PROTECTIONS, PodProtections, Protection
from reactive_desched.primitives.hints import nearest_name, quote, sole_near_name

_SWITCHES: Final = {
    "evict_local_storage_pods": Protection.LOCAL_STORAGE,
    "evict_daemon_set_pods": Protection.DAEMON_SET,
    "evict_system_critical_pods": Protection.SYSTEM_CRITICAL,
    "evict_failed_bare_pods": Protection.FAILED_BARE,
    "ignore_pvc_pods": Protection.PVC,
    "ignore_pods_without_pdb": Protection.WITHOUT_PDB,
}


class NoEvictionPolicy(StrEnum):
    """The meaning of a pod's annotation prefer-no-eviction."""

    PREFERRED = "Preferred"
    MANDATORY = "Mandatory"


def _read_node_selector(written: object, info: ValidationInfo) -> Selector:
    """Read a selector; with one that means nothing upstream starts, and finds no node to fit."""
    try:
        return read_selector(written)
    except FieldErrors as error:
        if not isinstance(written, str):
            raise
        errors = [structs.replace(each, lenient_ok=True) for each in error.errors]
        raise_field_errors(errors, info.context)
        return NOTHING


NodeSelectorText = Annotated[Selector, PlainValidator(_read_node_selector), AS_SELECTOR_TEXT]


class PriorityThreshold(Section):
    """Pods of this priority or above are protected; give the number or the class name."""

    value: Int32 | None = Field(default=None, description="The priority, at most 2000000000.")
    name: str | None = Field(
        default=None, description="A PriorityClass whose value is the threshold."
    )

    @field_validator("name")
    @classmethod
    def _normalize_name(cls, name: str | None) -> str | None:
        return name or None


class DefaultEvictorArgs(Section):
    """Arguments: what protects a pod, and what must hold before it is evicted."""

    node_selector: NodeSelectorText = Field(
        default=EVERYTHING, description="Nodes that nodeFit may consider; none means all."
    )
    node_fit: bool = Field(
        default=False, description="Evict only pods that fit on some other node."
    )
    namespace_label_selector: SelectorObject | None = Field(
        default=None, description="The labels of a pod's namespace must match."
    )
    label_selector: SelectorObject | None = Field(
        default=None, description="The labels of a pod must match."
    )
    priority_threshold: PriorityThreshold = Field(
        default=PriorityThreshold.model_construct(),
        description="Pods of this priority or above are protected; default 2000000000.",
    )
    min_replicas: Count = Field(
        default=0, description="Protect pods whose owner has fewer pods; active above 1."
    )
    min_pod_age_s: SignedSeconds | None = Field(
        default=None, description="Protect pods that started less than this ago."
    )
    no_eviction_policy: str = Field(
        default="", description="Preferred (the default) or Mandatory: the annotation's force."
    )
    pod_protections: PodProtections = Field(
        default=PodProtections.model_construct(), description="Protections to switch off and on."
    )
    evict_local_storage_pods: bool = Field(
        default=False, description="Deprecated: defaultDisabled: [PodsWithLocalStorage]."
    )
    evict_daemon_set_pods: bool = Field(
        default=False, description="Deprecated: defaultDisabled: [DaemonSetPods]."
    )
    evict_system_critical_pods: bool = Field(
        default=False, description="Deprecated: defaultDisabled: [SystemCriticalPods]."
    )
    evict_failed_bare_pods: bool = Field(
        default=False, description="Deprecated: defaultDisabled: [FailedBarePods]."
    )
    ignore_pvc_pods: bool = Field(
        default=False, description="Deprecated: extraEnabled: [PodsWithPVC]."
    )
    ignore_pods_without_pdb: bool = Field(
        default=False,
        validation_alias="ignorePodsWithoutPDB",
        serialization_alias="ignorePodsWithoutPDB",
        description="Deprecated: extraEnabled: [PodsWithoutPDB].",
    )

    @field_validator("priority_threshold")
    @classmethod
    def _check_threshold(
        cls, threshold: PriorityThreshold, info: ValidationInfo
    ) -> PriorityThreshold:
        raise_field_errors(_threshold_errors(threshold), info.context)
        return threshold

    @field_validator("min_pod_age_s")
    @classmethod
    def _check_age(cls, age_s: float | None, info: ValidationInfo) -> float | None:
        if age_s is not None and age_s < 0:
            message = "must not be negative: no pod is younger than that"
            raise_field_errors(
                [FieldError(message, "remove it", lenient_ok=True, rule=Rule.OUT_OF_BOUNDS)],
                info.context,
            )
        return age_s

    @field_validator("no_eviction_policy")
    @classmethod
    def _check_no_eviction_policy(cls, written: str, info: ValidationInfo) -> str:
        raise_field_errors(_no_eviction_policy_errors(written), info.context)
        return written

    @field_validator(*_SWITCHES)
    @classmethod
    def _check_not_mixed(cls, is_on: bool, info: ValidationInfo) -> bool:  # noqa: FBT001 - a field's value
        lists = info.data.get("pod_protections")
        if is_on and lists is not None and lists.has_lists:
            raise_field_errors([_mixed_error(info.field_name or "")], info.context)
        return is_on

    @property
    def protections(self) -> frozenset[Protection]:
        """Return the protections that are active, the deprecated switches included."""
        switched = {_SWITCHES[field] for field in self._switches_on()}
        lists = self.pod_protections
        changed = switched | {*map(Protection, (*lists.default_disabled, *lists.extra_enabled))}
        return frozenset(DEFAULT_PROTECTIONS) ^ changed

    @property
    def protected_storage_classes(self) -> frozenset[str]:
        """Return the classes PodsWithPVC is narrowed to; none means every claim protects."""
        return frozenset(self.pod_protections.storage_classes)

    @property
    def no_eviction(self) -> NoEvictionPolicy:
        """Return the force of the prefer-no-eviction annotation."""
        return NoEvictionPolicy(self.no_eviction_policy or NoEvictionPolicy.PREFERRED)

    def warnings(self) -> Iterator[FieldError]:
        """Say what is accepted and has no effect."""
        if self.min_replicas == 1:
            yield FieldError(
                "1 has no effect", "it is active from 2 on", ("minReplicas",), rule=Rule.NO_EFFECT
            )
        if self._has_threshold and Protection.SYSTEM_CRITICAL not in self.protections:
            hint = "priorities are looked at only while SystemCriticalPods is protected"
            yield FieldError("has no effect", hint, ("priorityThreshold",), rule=Rule.NO_EFFECT)
        if self.protected_storage_classes and Protection.PVC not in self.protections:
            hint = "add PodsWithPVC to podProtections.extraEnabled"
            yield FieldError(
                "has no effect",
                hint,
                ("podProtections", "config", "PodsWithPVC"),
                rule=Rule.NO_EFFECT,
            )

    @property
    def _has_threshold(self) -> bool:
        threshold = self.priority_threshold
        return threshold.value is not None or threshold.name is not None

    def _switches_on(self) -> Iterator[str]:
        """Return the deprecated switches that are on, by field."""
        return (field for field in _SWITCHES if getattr(self, field))


def _threshold_errors(threshold: PriorityThreshold) -> Iterator[FieldError]:
    """Refuse two thresholds, and one that would let system-critical pods go."""
    value, name = threshold.value, threshold.name
    yield from exclusive_errors("value and name", value is not None, name is not None)
    if value is not None and value > SYSTEM_CRITICAL_PRIORITY:
        message = (
            f"must be at most {SYSTEM_CRITICAL_PRIORITY}, the priority of system-critical pods"
        )
        hint = "system-critical pods have a protection of their own: SystemCriticalPods"
        yield FieldError(message, hint, ("value",), rule=Rule.OUT_OF_BOUNDS)


def _no_eviction_policy_errors(written: str) -> Iterator[FieldError]:
    """Return an error for an unknown noEvictionPolicy."""
    if written and written not in tuple(NoEvictionPolicy):
        message = f"{quote(written)} is not a value of noEvictionPolicy"
        meant = nearest_name(written, tuple(NoEvictionPolicy))
        yield FieldError(
            message,
            f"did you mean {meant}?" if meant else f"write {' or '.join(NoEvictionPolicy)}",
            rule=Rule.UNKNOWN_VALUE,
            fix=fix_to(sole_near_name(written, tuple(NoEvictionPolicy))),
        )


def _mixed_error(field: str) -> FieldError:
    """Refuse a deprecated switch beside the lists that replace it."""
    protection = _SWITCHES[field]
    which = "defaultDisabled" if protection in DEFAULT_PROTECTIONS else "extraEnabled"
    message = "is deprecated, and cannot stand beside the lists of podProtections that replace it"
    return FieldError(
        message,
        f"write podProtections.{which}: [{protection}] instead",
        rule=Rule.DEPRECATED_BESIDE_NEW,
    )
