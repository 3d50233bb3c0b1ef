"""Says of a decided eviction, before its request is sent, whether its reasons still hold.

Between both the disk is written, a connection is made, and late watches are waited for: the pod,
its place or what was found of it may have changed.
"""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from reactive_desched.controller.evaluator import Evaluator
from reactive_desched.gate.eviction_controls import EvictionControls
from reactive_desched.ledger.eviction import Eviction
from reactive_desched.ledger.ledger import EvictionLedger
from reactive_desched.model.evaluation import Intent
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import Pod
from reactive_desched.model.outcomes import DECISION_OUTDATED, Outcome
from reactive_desched.state.cluster import ClusterView

DECISION_TTL_S: Final = 5.0
"""An eviction that was decided longer ago is not requested: its pod is evaluated again.

The time for which it waits until the state has caught up does not count.
"""


class DecisionChecks:
    """Asks again what led to a decision; `clock` gives monotonic seconds.

    The plugin is asked only where the cluster has changed since the finding was last seen to hold.
    """

    def __init__(self, view: ClusterView, evaluator: Evaluator, clock: Callable[[], float]) -> None:
        self._view = view
        self._evaluator = evaluator
        self._clock = clock
        self._changes = 0

    def note_change(self) -> None:
        """Note that something changed by which a plugin or a gate may answer otherwise."""
        self._changes += 1

    def note_found(self, eviction: Eviction) -> None:
        """Note that the finding holds as of the latest change."""
        eviction.note_that_it_stands(self._changes)

    def outdated(
        self, intent: Intent, eviction: Eviction, controls: EvictionControls
    ) -> Outcome | None:
        """Return the outcome of a decision that waited too long, or whose reason is gone by now."""
        decided = intent.pod
        pod = self._view.pod(decided.uid)
        if pod is None or pod.is_terminating or pod.node != decided.node:
            return DECISION_OUTDATED.outcome("the pod has left its node since the decision")
        if pod is not decided and _differs(pod, decided):
            return DECISION_OUTDATED.outcome("the pod has changed since the decision")
        if lost := controls.node_fit.lost_place(pod):
            return DECISION_OUTDATED.outcome(f"the place found for the pod is lost: {lost}")
        now = self._clock()
        if (waited_s := now - eviction.judged_at) > DECISION_TTL_S:
            return DECISION_OUTDATED.outcome(f"the decision waited {waited_s:.0f} s for its turn")
        finding = intent.context.finding
        assert eviction.evaluation is not None, "it has no outcome yet"
        closed = controls.schedules.closed(finding, eviction.profile)
        if closed and not finding.is_companion:
            return DECISION_OUTDATED.outcome(f"since the decision {closed}")
        if finding.gang is None and eviction.stands_as_of == self._changes:
            return None  # nothing has changed since it was asked about
        if (found := self._still_found(eviction, finding, controls.ledger, now)) is None:
            message = f"what was found holds no more: {finding.message}"
            return DECISION_OUTDATED.outcome(message)
        if held := self._evaluator.held_since(eviction.evaluation, found, now):
            return DECISION_OUTDATED.outcome(f"since the decision {held}")
        self.note_found(eviction)
        return None

    def _still_found(
        self, eviction: Eviction, finding: Finding, ledger: EvictionLedger, now: float
    ) -> Finding | None:
        """Return a finding that was decided on as its plugin has it now, if at all.

        Once one pod of a gang was asked to leave, the others follow it.
        """
        if finding.gang is not None:
            others = (ledger.latest(uid) for uid in finding.gang.pods if uid != finding.pod.uid)
            if finding.gang.is_rest or any(each and each.was_sent for each in others):
                return finding
        assert eviction.evaluation is not None, "it has no outcome yet"
        found = self._evaluator.plugins.still_found(eviction.evaluation, now)
        return found and replace(
            finding, counts_from_s=found.counts_from_s, conflicts_with=found.conflicts_with
        )


def _differs(pod: Pod, decided: Pod) -> bool:
    """Say whether a pod differs from the one decided on in what plugins and gates read of it."""
    return (
        pod.annotations != decided.annotations
        or pod.labels != decided.labels
        or pod.spec != decided.spec
        or pod.owners != decided.owners
    )
