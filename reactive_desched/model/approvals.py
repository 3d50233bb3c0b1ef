"""Defines the answers of persons to proposals, as they outlive a restart."""

from typing import Final

from msgspec import Struct

NOT_APPROVED_CODE: Final = "NotApproved"
"""The reason of a decision that waits for a person's approval."""


class ProposalAnswer(Struct, frozen=True, gc=False):
    """A person's answer: it approves or rejects, for so many seconds; `by` is who gave it."""

    approves: bool
    by: str
    reason: str
    for_s: float


class SavedAnswer(Struct, frozen=True, gc=False):
    """One answer to these proposals, and until when it holds, in seconds since the epoch."""

    answer: ProposalAnswer
    proposals: tuple[str, ...]
    until_s: float
