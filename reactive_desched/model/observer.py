"""The observer of a controller; telemetry, the demo and tests override the methods they need."""

from collections.abc import Collection, Mapping, Sequence

from reactive_desched.errors import Malformed
from reactive_desched.model.brakes import BrakeNotice
from reactive_desched.model.changes import Change
from reactive_desched.model.disruptions import EndedPod
from reactive_desched.model.evaluation import Evaluation, Intent
from reactive_desched.model.history import PastEviction
from reactive_desched.model.moves import EndedMove
from reactive_desched.model.outcomes import Outcome
from reactive_desched.model.plugin_faults import PluginFault, SlowPlugin


class Observer:
    """Counts, logs or prints what a controller does; every method returns quickly, none raises."""

    def on_plugins(self, names: Collection[str]) -> None:
        """These plugins are in force from now on."""

    def on_initial_sync(self, size: Mapping[str, int]) -> None:
        """Every resource is synced, and evaluation begins; `size` counts nodes and pods."""

    def on_changes(self, changes: Sequence[Change]) -> None:
        """The cluster state changed, after the initial sync."""

    def on_decision(self, evaluation: Evaluation) -> None:
        """The gate decided on a finding."""

    def on_outcome(self, evaluation: Evaluation, outcome: Outcome, sent_at: float) -> None:
        """An eviction ended; its request was sent at `sent_at`, in monotonic seconds."""

    def on_effect_unknown(self, intent: Intent, error: str, within_s: float) -> None:
        """A request may have evicted the pod; the outcome follows in at most so long."""

    def on_move_ended(self, ended: EndedMove) -> None:
        """The replacement of an evicted pod was followed to the end."""

    def on_disruption(self, ended: EndedPod) -> None:
        """Something else than this controller ends a pod."""

    def on_correction(self, past: PastEviction, outcome: Outcome) -> None:
        """The outcome of a past eviction turned out to be another one."""

    def on_pause(self, reason: str) -> None:
        """The reason of the pause changed; an empty reason means that evaluation resumed."""

    def on_brake(self, notice: BrakeNotice) -> None:
        """A brake engaged or was released."""

    def on_suspend(self, seconds: float) -> None:
        """The process did not run for so long: the sync of every resource is in doubt."""

    def on_plugin_fault(self, fault: PluginFault) -> None:
        """A plugin raised an exception; the other plugins go on."""

    def on_slow_plugin(self, slow: SlowPlugin) -> None:
        """Calls of a plugin held the event loop for long."""

    def on_unread(self, kind: str, name: str, unread: str) -> None:
        """Parts of this object are too long to be read; pods that it concerns are held."""

    def on_malformed(self, resource: str, error: Malformed) -> None:
        """An object of this resource could not be decoded and was skipped."""

    def on_resource_missing(self, resource: str, effect: str, reason: str) -> None:
        """The API server denies a resource that the controller can do without, to this effect."""

    def on_cycle(self, seconds: float) -> None:
        """Nothing is due any more; evaluating took so long since that was last so."""
