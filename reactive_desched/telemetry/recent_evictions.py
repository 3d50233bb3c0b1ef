"""The last evictions of this process, and what became of each: for people, not for decisions."""

from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.model.evaluation import Evaluation
from reactive_desched.model.moves import EndedMove, MoveEnd, awaits_replacement
from reactive_desched.model.objects import PodKey
from reactive_desched.model.outcomes import Outcome
from reactive_desched.text.times import utc_time

MAX_RECENT: Final = 50
"""So many are kept; the oldest is dropped for a new one."""


class MoveSummary(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The end of an evicted pod's move; `readySeconds` counts from the accepted eviction.

    `summary` says it for a person, `isFutile` that it did not help.
    """

    result: str
    helped: bool
    summary: str = ""
    is_futile: bool = False
    replacement: str = ""
    node: str = ""
    ready_seconds: float | None = None


class RecentEviction(Struct, frozen=True, rename="camel", omit_defaults=True):
    """An eviction that ended, with its outcome; `followUp` is there once its move has ended.

    `awaitsReplacement` says that a controller creates a new pod in the place of this one.
    """

    time: datetime
    namespace: str
    pod: str
    node: str
    plugin: str
    finding: str
    result: str
    reason: str = ""
    message: str = ""
    follow_up: MoveSummary | None = None
    awaits_replacement: bool = False


class RecentEvictions:
    """The last MAX_RECENT evictions; `wall_clock` returns seconds since 1970."""

    def __init__(self, wall_clock: Callable[[], float]) -> None:
        self._wall_clock = wall_clock
        self._recent: deque[tuple[PodKey, RecentEviction]] = deque(maxlen=MAX_RECENT)

    def add(self, evaluation: Evaluation, outcome: Outcome) -> None:
        """Remember an eviction that ended now."""
        finding = evaluation.finding
        pod = finding.pod
        eviction = RecentEviction(
            utc_time(self._wall_clock()),
            pod.namespace,
            pod.name,
            pod.node,
            finding.plugin,
            finding.message,
            outcome.result,
            outcome.reason,
            outcome.message,
            awaits_replacement=awaits_replacement(pod),
        )
        self._recent.append((pod.uid, eviction))

    def follow_up(self, ended: EndedMove) -> None:
        """Remember what became of an eviction, if it is one of the last."""
        uid = ended.origin.pod_uid
        for at in range(len(self._recent) - 1, -1, -1):
            if self._recent[at][0] == uid:
                found = self._recent[at][1]
                self._recent[at] = uid, replace(found, follow_up=_follow_up(ended.end))
                return

    def newest_first(self) -> tuple[RecentEviction, ...]:
        """Return them, the newest first."""
        return tuple(eviction for _, eviction in reversed(self._recent))


def _follow_up(end: MoveEnd) -> MoveSummary:
    ready_s = None if end.ready_s is None else round(end.ready_s, 3)
    futile = end.is_futile
    return MoveSummary(
        end.result, end.helped, end.words, futile, end.replacement, end.node, ready_s
    )
