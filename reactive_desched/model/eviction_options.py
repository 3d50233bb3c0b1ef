"""By which evictor a pod is asked to leave, and with which options."""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

POLICY_LABEL: Final = "koordinator.sh/evict-policy"
"""koordinator's label of a pod, or of a migration job, that names the evictor for it."""


EVICTION: Final = "Eviction"
"""The evictor that is taken where none is named: the Eviction API."""


class Preconditions(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The uid and the resource version that a pod must have for it to be deleted."""

    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Kubernetes' DeleteOptions, as far as they concern pods."""

    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    preconditions: Preconditions | None = None
    dry_run: tuple[str, ...] = ()


class EvictionOptions(Struct, frozen=True, gc=False):
    """The evictor of one eviction, by its name, and the options; None leaves those to the policy.

    `initiator` names what had the pod's migration job made, a plugin or another program. It and
    `reason` are for the annotation of a soft eviction; metrics under koordinator's names have it.
    """

    evictor: str = EVICTION
    delete: DeleteOptions | None = None
    initiator: str = ""
    reason: str = ""

    def or_grace_period(self, grace_period_s: int | None) -> "EvictionOptions":
        """Return these options; without any, those of a policy file's grace period in seconds."""
        if self.delete is not None or grace_period_s is None:
            return self
        return replace(self, delete=DeleteOptions(grace_period_seconds=grace_period_s))

    @property
    def grace_period_s(self) -> int | None:
        """The grace period that is asked for, in seconds; None for the pod's own."""
        return None if self.delete is None else self.delete.grace_period_seconds


BY_EVICTION: Final = EvictionOptions()


def delete_options(options: EvictionOptions, uid: str) -> DeleteOptions:
    """Return the DeleteOptions of a request; the uid is always that of the pod that was judged."""
    asked = options.delete or DeleteOptions()
    version = None if asked.preconditions is None else asked.preconditions.resource_version
    return replace(asked, preconditions=Preconditions(uid, version))
