"""Counts the tries of a Job, those that it used, and reads its rules on failures."""

from typing import Final

from msgspec import Struct

UNLIMITED: Final = 2**31 - 1
"""The backoffLimit of a Job that has one for each index, and names none for the whole."""


SUSPENDED: Final = "it is suspended"
"""What `JobTries.makes_no_pod` says of a Job whose pods are deleted until it goes on."""


class FailureRule(Struct, frozen=True, gc=False):
    """A rule of a podFailurePolicy: what it does, and about which pods.

    It is about the exit codes of containers (of one, where `container` names it), or about the
    `conditions` of the pod: pairs of type and status.
    """

    action: str
    exit_codes: tuple[int, ...] = ()
    operator: str = ""
    container: str = ""
    conditions: tuple[tuple[str, str], ...] = ()


class JobTries(Struct, frozen=True, gc=False):
    """The failures that a Job allows and has had, and whether it makes new pods.

    `failed` counts the failures that the Job's status has, also those it has yet to add up.
    `makes_no_pod` says why none is made for a pod that is gone; it is empty where one is. One that
    `is_over` has ended by its conditions, as `has_ended` says, or is being deleted.
    `deadline_s` is when the Job is over at the latest, in seconds since the epoch. One that
    `waits_for_end` makes a new pod once the one before has ended, and not while it terminates.
    """

    backoff_limit: int = 6
    backoff_limit_per_index: int | None = None
    failed: int = 0
    rules: tuple[FailureRule, ...] = ()
    makes_no_pod: str = ""
    is_over: bool = False
    deadline_s: int | None = None
    waits_for_end: bool = False
    has_ended: bool = False

    @property
    def makes_pods(self) -> bool:
        """Say whether the Job makes a new pod for one that is gone."""
        return not self.is_over and not self.makes_no_pod
