"""Plans in few words, and a core of them with fakes at its edges: `Bench(profile("day"))`."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import anyio

from reactive_desched.controller.pauses import SuspendDetector
from reactive_desched.controller.pipeline import build_pipeline
from reactive_desched.errors import Malformed
from reactive_desched.gate.rate_limits import TokenRate
from reactive_desched.model.changes import Change
from reactive_desched.model.evaluation import Evaluation
from reactive_desched.model.labels import EVERYTHING, Selector
from reactive_desched.model.objects import ClusterObject
from reactive_desched.model.observer import Observer
from reactive_desched.model.outcomes import Outcome
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.policy import AnyPlugin, Profile
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.testing.builders import node
from tests.support.configurations import make_configuration, make_profile_of
from tests.support.flow import FakeEvictor, FedController, MemoryIntentStore, never_suspended

__all__ = ["TAINTED", "TAINTS", "ControllerBench", "make_config", "make_profile"]

TAINTS = NodeTaintsPlugin(NodeTaintsArgs())
TAINTED = node("n1", "gpu:NoSchedule")


class CountingObserver(Observer):
    """Keeps what it observes, in order and by kind."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []
        self.outcomes: list[Outcome] = []

    def on_changes(self, changes: Iterable[Change]) -> None:
        """Keep each change."""
        self.events += [("changed", change) for change in changes]

    def on_initial_sync(self, size: Mapping[str, int]) -> None:
        """Keep how many nodes and pods there are."""
        self.events.append(("synced", size))

    def on_decision(self, evaluation: Evaluation) -> None:
        """Keep the profile, and the decision's type."""
        kind = type(evaluation.decision).__name__
        self.events.append(("judged", (evaluation.profile, kind)))

    def on_outcome(self, evaluation: Evaluation, outcome: Outcome, sent_at: float) -> None:
        """Keep the pod's name, the result, and when the request was sent."""
        self.outcomes.append(outcome)
        self.events.append(("ended", (evaluation.finding.pod.name, outcome.result, sent_at)))

    def on_pause(self, reason: str) -> None:
        """Keep the reason."""
        self.events.append(("held back", reason))

    def on_suspend(self, seconds: float) -> None:
        """Keep how long it was."""
        self.events.append(("suspend", seconds))

    def on_malformed(self, resource: str, error: Malformed) -> None:
        """Keep which object it was."""
        self.events.append(("malformed", (resource, error.name)))

    def of_kind(self, kind: str) -> list[Any]:
        """Return what was heard of a kind."""
        return [what for recorded_kind, what in self.events if recorded_kind == kind]


def make_profile(name: str = "day", *plugins: AnyPlugin, **evictor: Any) -> Profile:  # any field
    """Build a profile of these plugins, or of taints, with these fields of its evictor."""
    return make_profile_of(name, plugins or (TAINTS,), DefaultEvictorArgs.model_validate(evictor))


def make_config(
    *profiles: Profile,
    selects: Selector = EVERYTHING,
    rates: Mapping[str, TokenRate | None] | None = None,
    limits: Mapping[str, int | None] | None = None,
    **settings: Any,  # as make_configuration takes them
) -> Configuration:
    """Build a configuration that waits for nothing and limits nothing unless told."""
    return make_configuration(profiles or (make_profile(),), selects, rates, limits, **settings)


class ControllerBench(FedController):
    """A pipeline of `make_config` with fakes at its edges."""

    def __init__(
        self,
        *profiles: Profile,
        suspend: SuspendDetector | None = None,
        clock: Callable[[], float] = anyio.current_time,
        wall_clock: Callable[[], float] = lambda: 0.0,
        **settings: Any,  # as make_config takes them
    ) -> None:
        self.observer = CountingObserver()
        self.ledger = MemoryIntentStore()
        self.server = FakeEvictor()
        self.work_available = Wakeup()
        pipeline = build_pipeline(
            make_config(*profiles, **settings),
            recorder=self.ledger,
            evictor=self.server,
            observer=self.observer,
            work_available=self.work_available,
            suspend=suspend or never_suspended(),
            clock=clock,
            wall_clock=wall_clock,
        )
        super().__init__(pipeline)

    async def run_with_taint(self, *objects: ClusterObject, seconds: float = 1) -> None:
        """Begin with a whole picture, deliver a taint, and let time pass."""
        async with self.running():
            self.sync_and_resume(node("n1"), node("n2"), *objects)
            self.deliver(TAINTED)
            await anyio.sleep(seconds)

    @property
    def evicted_names(self) -> list[str]:
        """The names the server was asked for, in order."""
        return [name for name, _ in self.server.calls]
