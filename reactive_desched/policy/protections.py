"""The kinds of pods that are protected from eviction, and how a policy changes the choice."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

from pydantic import Field

from reactive_desched.policy.fields import Section
from reactive_desched.policy.hints import nearest
from reactive_desched.policy.problems import Complaint, Path, quoted


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

_HERE: Final = "podProtections"
_CLASSES: Final[Path] = (_HERE, "config", "PodsWithPVC", "protectedStorageClasses")


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
        default=PvcProtection(),
        validation_alias="PodsWithPVC",
        serialization_alias="PodsWithPVC",
        description="Details of the protection of pods with persistent volume claims.",
    )


class PodProtections(Section):
    """Which protections differ from the four that are active by default."""

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
        default=ProtectionConfig(), description="Details of single protections."
    )

    @property
    def has_lists(self) -> bool:
        """Say whether a list is in use, which rules out the deprecated switches."""
        return bool(self.default_disabled or self.extra_enabled)

    @property
    def storage_classes(self) -> tuple[str, ...]:
        """Give the classes PodsWithPVC is narrowed to; none means every claim protects."""
        return tuple(ref.name for ref in self.config.pods_with_pvc.protected_storage_classes)

    def complaints(self) -> Iterator[Complaint]:
        """Say what is wrong with the names, each at its own place."""
        yield from _name_complaints("extraEnabled", self.extra_enabled, EXTRA_PROTECTIONS)
        yield from _name_complaints("defaultDisabled", self.default_disabled, DEFAULT_PROTECTIONS)
        yield from _repeated("defaultDisabled", self.default_disabled)
        yield from _repeated("extraEnabled", self.extra_enabled)
        for index, name in enumerate(self.storage_classes):
            if not name:
                path = (*_CLASSES, index)
                yield Complaint("a storage class needs a name", "write name: and its name", path)


def _name_complaints(
    which: str, names: Sequence[str], allowed: Sequence[Protection]
) -> Iterator[Complaint]:
    """Refuse names that do not belong in this list."""
    for index, name in enumerate(names):
        if name not in allowed:
            message = f"{quoted(name)} cannot be in {which}"
            yield Complaint(message, _name_hint(name, allowed), (_HERE, which, index))


def _name_hint(name: str, allowed: Sequence[Protection]) -> str:
    """Tell a name of the other list from a mistyped one."""
    if name in DEFAULT_PROTECTIONS:
        return "it is active by default; only defaultDisabled changes that"
    if name in EXTRA_PROTECTIONS:
        return "it is off by default; only extraEnabled changes that"
    if (meant := nearest(name, allowed)) is not None:
        return f"did you mean {meant}?"
    return f"choose from {', '.join(allowed)}"


def _repeated(which: str, names: Sequence[str]) -> Iterator[Complaint]:
    """Refuse names that are there twice."""
    for index, name in enumerate(names):
        if name in names[:index]:
            message = f"{quoted(name)} is listed twice"
            yield Complaint(message, "remove one", (_HERE, which, index))
