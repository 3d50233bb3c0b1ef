"""The contract of all that counts, reserves or remembers evictions; its defaults do nothing."""

from reactive_desched.ledger.eviction import Eviction
from reactive_desched.model.decisions import Defer, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.moves import MoveEnd
from reactive_desched.model.objects import Pod
from reactive_desched.model.outcomes import Outcome


class EvictionParticipant:
    """Takes part in the life of every eviction, as the ledger calls it.

    An eviction is `decided` or `restored` once, and `ended` once unless it was restored with its
    outcome. Only one that the API server accepted is `replaced`, and `followed_up` in the end.
    Times are on the eviction, in monotonic seconds. What a participant does not override is not
    called.
    """

    def found(self, finding: Finding, now: float) -> None:
        """See a finding of a plugin, on which no gate has decided yet."""

    def blocked(self, decision: Defer | Refuse) -> None:
        """See that a gate refused the pod of a finding, or lets it wait."""

    def decided(self, eviction: Eviction) -> None:
        """Begin: every gate agreed that the pod is to be evicted."""

    def requested(self, eviction: Eviction) -> None:
        """See the request, which was recorded, and sent unless it was cancelled after that."""

    def ended(self, eviction: Eviction, outcome: Outcome) -> None:
        """See the outcome, also of a request of an earlier process."""

    def restored(self, eviction: Eviction, now: float) -> None:
        """Restore one that an earlier process requested; it may have no outcome yet.

        Called in the order in which they ended. `now` is when this process took it up.
        """

    def replaced(self, eviction: Eviction, pod: Pod) -> None:
        """See the pod that takes the place of the evicted one, when it was bound to a node."""

    def followed_up(self, eviction: Eviction, end: MoveEnd) -> None:
        """End: the replacement is Ready, or was given up."""

    def asks_for(self, eviction: Eviction) -> bool:
        """Say whether an eviction that is over is asked for still, although its pod is gone.

        Asked when it is over, when its pod is seen to be gone, and once in a while after that.
        """
        del eviction
        return False
