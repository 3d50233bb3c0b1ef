"""Plans in few words, and a core of them with fakes at its edges: `Bench(profile("day"))`."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import anyio

from reactive_desched.controller.controller import Core, Plan, ProfilePlan
from reactive_desched.controller.evaluation import Judgement
from reactive_desched.controller.subscriptions import AnyPlugin
from reactive_desched.errors import Malformed
from reactive_desched.gate.rate_limits import Rate
from reactive_desched.model.changes import Change
from reactive_desched.model.labels import EVERYTHING, Selector
from reactive_desched.model.objects import ClusterObject
from reactive_desched.model.outcomes import Outcome
from reactive_desched.plugins.node_taints import NodeTaints, NodeTaintsArgs
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.primitives.debounce import Pause
from reactive_desched.testing.builders import node
from tests.support.flow import FakeEvictor, FedCore, MemoryLedger

__all__ = ["TAINTED", "TAINTS", "Bench", "make_plan", "profile"]

TAINTS = NodeTaints(NodeTaintsArgs())
TAINTED = node("n1", "gpu:NoSchedule")


class Listener:
    """Keeps what it hears, in order and by kind."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []

    def changed(self, changes: Iterable[Change]) -> None:
        """Keep each change."""
        self.heard += [("changed", change) for change in changes]

    def judged(self, judgement: Judgement) -> None:
        """Keep whose judgement it was, and the decision's type."""
        kind = type(judgement.decision).__name__
        self.heard.append(("judged", (judgement.instance.profile, kind)))

    def ended(self, judgement: Judgement, outcome: Outcome, asked_at: float, /) -> None:
        """Keep the pod's name, the result, and when the server was asked."""
        self.heard.append(("ended", (judgement.finding.pod.name, outcome.result, asked_at)))

    def held_back(self, reason: str | None) -> None:
        """Keep the reason."""
        self.heard.append(("held back", reason))

    def malformed(self, resource: str, error: Malformed, /) -> None:
        """Keep which object it was."""
        self.heard.append(("malformed", (resource, error.name)))

    def of(self, kind: str) -> list[Any]:
        """Return what was heard of a kind."""
        return [what for heard, what in self.heard if heard == kind]


def profile(name: str = "day", *plugins: AnyPlugin, **evictor: Any) -> ProfilePlan:  # any field
    """Build a profile of these plugins, or of taints, with these fields of its evictor."""
    return ProfilePlan(name, plugins or (TAINTS,), DefaultEvictorArgs.model_validate(evictor))


def make_plan(
    *profiles: ProfilePlan,
    selects: Selector = EVERYTHING,
    rates: Mapping[str, Rate | None] | None = None,
    limits: Mapping[str, int | None] | None = None,
    pause: Callable[[str], Pause] = lambda _: Pause(0, 0),
    **settings: Any,  # other fields of a plan
) -> Plan:
    """Build a plan that waits for nothing and limits nothing unless told."""
    return Plan(profiles or (profile(),), selects, rates or {}, limits or {}, pause, **settings)


class Bench(FedCore):
    """A core of `make_plan` with fakes at its edges."""

    def __init__(
        self,
        *profiles: ProfilePlan,
        may_write: Callable[[], str | None] = lambda: None,
        **settings: Any,  # as make_plan takes them
    ) -> None:
        self.listener, self.ledger, self.server = Listener(), MemoryLedger(), FakeEvictor()
        core = Core(
            make_plan(*profiles, **settings),
            ledger=self.ledger,
            evictor=self.server,
            listener=self.listener,
            clock=anyio.current_time,
            wall_clock=lambda: 0.0,
            may_write=may_write,
        )
        super().__init__(core)

    async def live(self, *things: ClusterObject, seconds: float = 1) -> None:
        """Begin with a whole picture, deliver a taint, and let time pass."""
        async with self.running():
            self.sync(node("n1"), node("n2"), *things)
            self.deliver(TAINTED)
            await anyio.sleep(seconds)

    @property
    def asked(self) -> list[str]:
        """The names the server was asked for, in order."""
        return [name for name, _ in self.server.asked]
