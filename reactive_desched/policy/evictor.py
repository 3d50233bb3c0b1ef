"""The arguments of DefaultEvictor: which pods nobody may evict, whatever a plugin finds."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from pydantic import Field, field_validator, model_validator

from reactive_desched.model.labels import EVERYTHING
from reactive_desched.model.objects import SYSTEM_CRITICAL_PRIORITY
from reactive_desched.policy.fields import (
    Count,
    Int32,
    Seconds,
    Section,
    SelectorObject,
    SelectorText,
)
from reactive_desched.policy.hints import nearest
from reactive_desched.policy.problems import Complaint, quoted, refuse_if_any
from reactive_desched.policy.protections import DEFAULT_PROTECTIONS, PodProtections, Protection


class NoEvictionPolicy(StrEnum):
    """What the prefer-no-eviction annotation of a pod means."""

    PREFERRED = "Preferred"
    MANDATORY = "Mandatory"


class PriorityThreshold(Section):
    """Pods of this priority or above are protected; give the number or the class name."""

    value: Int32 | None = Field(default=None, description="The priority, at most 2000000000.")
    name: str | None = Field(
        default=None, description="A PriorityClass whose value is the threshold."
    )

    @field_validator("name")
    @classmethod
    def _empty_is_none(cls, name: str | None) -> str | None:
        return name or None


class DefaultEvictorArgs(Section):
    """What protects a pod, and what must hold before it is evicted."""

    node_selector: SelectorText = Field(
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
        default=PriorityThreshold(),
        description="Pods of this priority or above are protected; default 2000000000.",
    )
    min_replicas: Count = Field(
        default=0, description="Protect pods whose owner has fewer pods; active above 1."
    )
    min_pod_age_s: Seconds | None = Field(
        default=None, description="Protect pods that started less than this ago."
    )
    no_eviction_policy: str = Field(
        default="", description="Preferred (the default) or Mandatory: the annotation's force."
    )
    pod_protections: PodProtections = Field(
        default=PodProtections(), description="Protections to switch off and on."
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

    @model_validator(mode="after")
    def _sound(self) -> "DefaultEvictorArgs":
        refuse_if_any(self._complaints())
        return self

    @property
    def protections(self) -> frozenset[Protection]:
        """Give the protections that are active, the deprecated switches included."""
        switched = {_SWITCHES[field] for field in self._switches_on()}
        lists = self.pod_protections
        changed = switched | {*map(Protection, (*lists.default_disabled, *lists.extra_enabled))}
        return frozenset(DEFAULT_PROTECTIONS) ^ changed

    @property
    def protected_storage_classes(self) -> frozenset[str]:
        """Give the classes PodsWithPVC is narrowed to; none means every claim protects."""
        return frozenset(self.pod_protections.storage_classes)

    @property
    def no_eviction(self) -> NoEvictionPolicy:
        """Give the force of the prefer-no-eviction annotation."""
        return NoEvictionPolicy(self.no_eviction_policy or NoEvictionPolicy.PREFERRED)

    def notes(self) -> Iterator[Complaint]:
        """Say what is accepted and has no effect."""
        if self.min_replicas == 1:
            yield Complaint("1 has no effect", "it is active from 2 on", ("minReplicas",))
        if self._has_threshold and Protection.SYSTEM_CRITICAL not in self.protections:
            hint = "priorities are looked at only while SystemCriticalPods is protected"
            yield Complaint("has no effect", hint, ("priorityThreshold",))
        if self.protected_storage_classes and Protection.PVC not in self.protections:
            hint = "add PodsWithPVC to podProtections.extraEnabled"
            yield Complaint("has no effect", hint, ("podProtections", "config", "PodsWithPVC"))

    @property
    def _has_threshold(self) -> bool:
        threshold = self.priority_threshold
        return threshold.value is not None or threshold.name is not None

    def _switches_on(self) -> Iterator[str]:
        """Give the deprecated switches that are on, by field."""
        return (field for field in _SWITCHES if getattr(self, field))

    def _complaints(self) -> Iterator[Complaint]:
        """Say what is wrong, in the order upstream does."""
        yield from self._threshold_complaints()
        yield from self._policy_complaints()
        if self.pod_protections.has_lists:
            yield from map(_mixed, self._switches_on())
        yield from self.pod_protections.complaints()

    def _threshold_complaints(self) -> Iterator[Complaint]:
        value, name = self.priority_threshold.value, self.priority_threshold.name
        if value is not None and name is not None:
            hint = "keep one of the two"
            yield Complaint("value and name cannot both be set", hint, ("priorityThreshold",))
        if value is not None and value > SYSTEM_CRITICAL_PRIORITY:
            message = f"{value} is above {SYSTEM_CRITICAL_PRIORITY}, the highest threshold"
            hint = "system-critical pods have a protection of their own: SystemCriticalPods"
            yield Complaint(message, hint, ("priorityThreshold", "value"))

    def _policy_complaints(self) -> Iterator[Complaint]:
        written = self.no_eviction_policy
        if written and written not in tuple(NoEvictionPolicy):
            meant = nearest(written, tuple(NoEvictionPolicy))
            hint = f"did you mean {meant}?" if meant else "write Preferred or Mandatory"
            message = f"{quoted(written)} is neither Preferred nor Mandatory"
            yield Complaint(message, hint, ("noEvictionPolicy",))


_SWITCHES: Final = {
    "evict_local_storage_pods": Protection.LOCAL_STORAGE,
    "evict_daemon_set_pods": Protection.DAEMON_SET,
    "evict_system_critical_pods": Protection.SYSTEM_CRITICAL,
    "evict_failed_bare_pods": Protection.FAILED_BARE,
    "ignore_pvc_pods": Protection.PVC,
    "ignore_pods_without_pdb": Protection.WITHOUT_PDB,
}


def _mixed(field: str) -> Complaint:
    """Refuse a deprecated switch beside the lists that replace it."""
    protection = _SWITCHES[field]
    which = "defaultDisabled" if protection in DEFAULT_PROTECTIONS else "extraEnabled"
    written = DefaultEvictorArgs.model_fields[field].validation_alias
    message = "this deprecated switch cannot be combined with the lists of podProtections"
    hint = f"write podProtections.{which}: [{protection}] instead"
    return Complaint(message, hint, (str(written),))
