"""The kinds of pods that are protected from eviction, and how a policy changes the choice."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

from pydantic import Field, ValidationInfo, field_validator

from reactive_desched.api.args import FieldError, Fix, Section, fix_to, raise_field_errors
from reactive_desched.api.rules import Rule
from reactive_desched.primitives.hints import nearest_name, quote, sole_near_name


class Protection(StrEnum):
    """A kind of pod that is not evicted while its protection is active."""

    LOCAL_STORAGE = "PodsWithLocalStorage"
    SYSTEM_CRITICAL = "SystemCriticalPods"
    FAILED_BARE = "FailedBarePods"
    DAEMON_SET = "DaemonSetPods"
    PVC = "PodsWithPVC"
    WITHOUT_PDB = "PodsWithoutPDB"
    RESOURCE_CLAIMS = "PodsWithResourceClaims"


DEFAULT_PROTECTIONS: Final = (
    Protection.LOCAL_STORAGE,
    Protection.SYSTEM_CRITICAL,
    Protection.FAILED_BARE,
    Protection.DAEMON_SET,
)
EXTRA_PROTECTIONS: Final = (Protection.PVC, Protection.WITHOUT_PDB, Protection.RESOURCE_CLAIMS)


class StorageClassRef(Section):
    """A storage class whose volumes protect their pods."""

    name: str = Field(default="", description="Name of the StorageClass.")


class PvcProtection(Section):
    """Narrows PodsWithPVC to some storage classes."""

    protected_storage_classes: tuple[StorageClassRef, ...] = Field(
        default=(), description="Only claims of these classes protect; none means all do."
    )


class ProtectionConfig(Section):
    """Details of single protections."""

    pods_with_pvc: PvcProtection = Field(
        default=PvcProtection.model_construct(),
        validation_alias="PodsWithPVC",
        serialization_alias="PodsWithPVC",
        description="Details of the protection of pods with persistent volume claims.",
    )


class PodProtections(Section):
    """The protections that differ from the four that are active by default."""

    default_disabled: tuple[str, ...] = Field(
        default=(),
        description="Default protections to switch off: PodsWithLocalStorage, SystemCriticalPods, "
        "FailedBarePods, DaemonSetPods.",
    )
    extra_enabled: tuple[str, ...] = Field(
        default=(),
        description="Optional protections to switch on: PodsWithPVC, PodsWithoutPDB, "
        "PodsWithResourceClaims.",
    )
    config: ProtectionConfig = Field(
        default=ProtectionConfig.model_construct(), description="Narrows single protections."
    )

    @property
    def has_lists(self) -> bool:
        """Say whether a list is in use, which rules out the deprecated switches."""
        return bool(self.default_disabled or self.extra_enabled)

    @property
    def storage_classes(self) -> tuple[str, ...]:
        """Return the classes PodsWithPVC is narrowed to; none means every claim protects."""
        return tuple(ref.name for ref in self.config.pods_with_pvc.protected_storage_classes)

    @field_validator("default_disabled")
    @classmethod
    def _check_defaults(cls, names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        raise_field_errors(
            _name_errors("defaultDisabled", names, DEFAULT_PROTECTIONS), info.context
        )
        return names

    @field_validator("extra_enabled")
    @classmethod
    def _check_extras(cls, names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        raise_field_errors(_name_errors("extraEnabled", names, EXTRA_PROTECTIONS), info.context)
        return names

    @field_validator("config")
    @classmethod
    def _check_storage_classes(
        cls, config: ProtectionConfig, info: ValidationInfo
    ) -> ProtectionConfig:
        is_read = Protection.PVC in info.data.get("extra_enabled", (Protection.PVC,))
        raise_field_errors(
            _storage_class_errors(config.pods_with_pvc, is_read=is_read), info.context
        )
        return config


def _name_errors(
    which: str, names: Sequence[str], allowed: Sequence[Protection]
) -> Iterator[FieldError]:
    """Refuse names that do not belong in this list, and names that are there twice."""
    for index, name in enumerate(names):
        if name not in allowed:
            message = f"{quote(name)} is not a protection that {which} takes"
            yield FieldError(
                message,
                _name_hint(name, allowed),
                (index,),
                rule=Rule.PROTECTION,
                fix=None if name in tuple(Protection) else fix_to(sole_near_name(name, allowed)),
            )
        if name in names[:index]:
            message = f"{quote(name)} is in {which} twice"
            yield FieldError(
                message, "remove one", (index,), rule=Rule.DUPLICATE_ITEM, fix=Fix(None)
            )


def _name_hint(name: str, allowed: Sequence[Protection]) -> str:
    """Distinguish a name of the other list from a mistyped one."""
    if name in DEFAULT_PROTECTIONS:
        return "it is active by default; only defaultDisabled changes that"
    if name in EXTRA_PROTECTIONS:
        return "it is off by default; only extraEnabled changes that"
    meant = nearest_name(name, allowed)
    return f"did you mean {meant}?" if meant is not None else f"it takes {', '.join(allowed)}"


def _storage_class_errors(written: PvcProtection, *, is_read: bool) -> Iterator[FieldError]:
    """Refuse classes without a name; upstream looks only where PodsWithPVC is switched on."""
    for index, name in enumerate(written.protected_storage_classes):
        if not name.name:
            path = ("PodsWithPVC", "protectedStorageClasses", index)
            message = "a storage class needs a name"
            yield FieldError(
                message,
                "write name: and its name",
                path,
                lenient_ok=not is_read,
                rule=Rule.PROTECTION,
            )
