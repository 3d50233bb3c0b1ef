"""Defines the answers of persons to proposals: as they outlive a restart, and as annotations."""

from datetime import UTC, datetime
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


ANSWER: Final = "reactive-desched/proposals"
"""Our annotation by which a pod, a workload or a namespace answers proposals of its pods."""

MAX_APPROVED_S: Final = 31 * 86_400
"""An approval holds for so long at most."""

_WORDS: Final = {"approve": True, "reject": False}
_MAX_REASON: Final = 1000


class WrittenAnswer(Struct, frozen=True, gc=False):
    """The value of our annotation: it approves or rejects until then, and why.

    `until_s` is seconds since the epoch.
    """

    approves: bool
    until_s: float
    reason: str


def parse_answer(text: str) -> WrittenAnswer | None:
    """Read `approve until TIME REASON`, or the same with `reject`; None for any other text.

    The time is one of RFC 3339 with its zone: an annotation does not say when it was written.
    """
    verb, until, moment, *reason = (*text.split(), "", "", "")
    if verb not in _WORDS or until != "until":
        return None
    try:
        end = datetime.fromisoformat(moment.rstrip(":,"))
    except ValueError:
        return None
    if end.tzinfo is None:
        return None
    why = " ".join(filter(None, reason))[:_MAX_REASON]
    return WrittenAnswer(_WORDS[verb], end.astimezone(UTC).timestamp(), why)


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
