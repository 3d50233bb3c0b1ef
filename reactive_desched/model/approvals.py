"""Defines the answers of persons to proposals, as they outlive a restart."""

from typing import Final

from msgspec import Struct

NOT_APPROVED_CODE: Final = "NotApproved"
"""The reason of a decision that waits for a person's approval."""

SHORT_ID_CHARACTERS: Final = 12
"""So much of the id of a proposal or a group is written for people."""

MIN_ID_CHARACTERS: Final = 8
"""So much of an id names a proposal or a group, where it is the beginning of no other one."""


def short_id(name: str) -> str:
    """Return as much of the id of a proposal or a group as is written for people."""
    return name[:SHORT_ID_CHARACTERS]


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
