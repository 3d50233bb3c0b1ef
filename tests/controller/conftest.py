"""An evaluator over two nodes and two pods, with a plugin and a gate that do as they are told."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from reactive_desched.api import PluginArgs, PodPlugin, View
from reactive_desched.controller.evaluator import Evaluator
from reactive_desched.controller.instances import PluginInstance
from reactive_desched.controller.work_queue import NEVER_FLAPPING, FlappingConfig, PodBackoff
from reactive_desched.model.changes import Change, NodeTaintsChanged, PodBound, Resynced
from reactive_desched.model.decisions import CapacityHint, Decision, Defer, Evict, Refuse
from reactive_desched.model.evaluation import Evaluation
from reactive_desched.model.findings import Finding, RequeueAfter
from reactive_desched.model.outcomes import Outcome
from reactive_desched.model.subjects import NodeOrPod
from reactive_desched.model.wakes import WakeOn
from reactive_desched.policy.settings.controller_settings import RetrySettings
from reactive_desched.primitives.long_answers import InPortions, LongAnswers
from reactive_desched.primitives.timers import DebounceConfig
from reactive_desched.state.cluster import ClusterState
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import build_view

Verdict = Callable[[Finding, float], Decision]
A, B = pod("a", on="n1"), pod("b", on="n1")
AT_ONCE = DebounceConfig(0, 0)


class Wrong(PodPlugin[PluginArgs]):
    """Flags the pods it is told to, and asks to look again where it is told to.

    It raises what it is to raise: on a subject, or when it is asked what a change concerns, which
    it may name in `portions`. Each judgement and each such question takes `takes_s`, by `clock_s`.
    """

    name = "Wrong"
    reacts_to = (Resynced, NodeTaintsChanged, PodBound)

    def __init__(self) -> None:
        super().__init__(PluginArgs())
        self.wrong: set[str] = set()
        self.again: dict[NodeOrPod, float] = {}
        self.judged: list[NodeOrPod] = []
        self.fails_on: dict[NodeOrPod, BaseException] = {}
        self.fails_to_name: BaseException | None = None
        self.portions: Iterator[list[NodeOrPod]] | None = None
        self.clock_s = self.takes_s = 0.0

    def subjects(self, change: Change, view: View) -> Iterable[NodeOrPod]:
        self.clock_s += self.takes_s
        if self.fails_to_name is not None:
            raise self.fails_to_name
        if self.portions is not None:
            return InPortions(self.portions)
        return super().subjects(change, view)

    def judge(self, subject: NodeOrPod, view: View) -> Iterator[Finding | RequeueAfter]:
        self.judged.append(subject)
        self.clock_s += self.takes_s
        if subject in self.fails_on:
            raise self.fails_on[subject]
        if subject in self.again:
            yield RequeueAfter(self.again.pop(subject))
        if (place := view.pods_of(subject)) is not None:
            for found in place[1]:
                if found.name in self.wrong:
                    yield Finding(found, self.name, "wrong")


class Gate:
    """Lets everybody go, but for those it has a verdict for."""

    def __init__(self) -> None:
        self.verdicts: dict[str, Verdict] = {}

    def decide(self, finding: Finding, now: float) -> Decision:
        verdict = self.verdicts.get(finding.pod.name)
        return Evict(finding) if verdict is None else verdict(finding, now)

    def held_since(self, finding: Finding, now: float) -> str:
        raise NotImplementedError

    def refuse(self, name: str, *wakes: WakeOn, reason: str = "No", until: Any = None) -> None:
        self.verdicts[name] = lambda finding, _: Refuse(
            finding, "Gate", reason, "a message", wakes, until
        )

    def defer(self, name: str, until: float) -> None:
        self.verdicts[name] = lambda finding, _: Defer(finding, "Pace", "Later", "a message", until)


class Bench:
    """One or two plugins over two nodes and two pods, and all that was decided."""

    def __init__(
        self,
        plugins: int = 1,
        pause: DebounceConfig = AT_ONCE,
        flapping: FlappingConfig = NEVER_FLAPPING,
    ) -> None:
        self.state = ClusterState()
        for thing in (node("n1"), node("n2"), A, B):
            self.state.upsert(thing)
        self.evaluations: list[Evaluation] = []
        self.plugins = [Wrong() for _ in range(plugins)]
        self.gates = [Gate() for _ in range(plugins)]
        self.instances = [
            PluginInstance(f"profile {number}", plugin, gate, build_view(self.state), pause)
            for number, (plugin, gate) in enumerate(zip(self.plugins, self.gates, strict=True))
        ]
        self.plugin, self.gate, self.instance = self.plugins[0], self.gates[0], self.instances[0]
        self.rooms: list[CapacityHint] = []
        self.later_rooms: list[CapacityHint] = []
        self.long_answers = LongAnswers()
        self.evaluator = Evaluator(
            self.instances,
            PodBackoff(RetrySettings(initial_s=5, max_s=300, jitter=0)),
            self,
            flapping,
            lambda: sum(plugin.clock_s for plugin in self.plugins),
        )

    def take_capacity_hints(self) -> list[CapacityHint]:
        news, self.rooms, self.later_rooms = self.rooms, self.later_rooms[:1], self.later_rooms[1:]
        return news

    @property
    def has_more_hints(self) -> bool:
        return bool(self.rooms)

    def start(self, *wrong: str) -> "Bench":
        """Sweep with nothing wrong; the pods named are wrong from then on."""
        self.evaluator.resync(0)
        self.work(0)
        for plugin in self.plugins:
            plugin.wrong.update(wrong)
            plugin.judged.clear()
        return self

    def see(self, *changes: Change, now: float) -> None:
        self.evaluator.apply_changes(changes, now)
        self.work(now)

    def work(self, now: float) -> None:
        while (due := self.evaluator.next_due(now)) is not None and due <= now:
            self.evaluations += self.evaluator.process_due(now, lambda: False)

    def looked(self) -> list[NodeOrPod]:
        """Return, once, what the first plugin looked at."""
        judged = list(self.plugin.judged)
        self.plugin.judged.clear()
        return judged

    def adopt(self, *wrong: str, now: float) -> tuple[Wrong, Gate]:
        """Let another instance of the plugin take over; the pods named are wrong to it."""
        plugin, gate = Wrong(), Gate()
        plugin.wrong.update(wrong)
        self.evaluator.reconfigure(
            [PluginInstance("new", plugin, gate, build_view(self.state), AT_ONCE)], self, now
        )
        return plugin, gate

    def end(self, result: str, now: float, retry_after_s: float | None = None) -> None:
        """End the latest eviction."""
        evict = next(j for j in reversed(self.evaluations) if isinstance(j.decision, Evict))
        self.evaluator.settle(evict, Outcome(result, "because", retry_after_s), now)

    @property
    def decided(self) -> list[tuple[str, str]]:
        return [(type(j.decision).__name__, j.finding.pod.name) for j in self.evaluations]

    @property
    def evicted(self) -> list[str]:
        return [name for kind, name in self.decided if kind == "Evict"]


@pytest.fixture
def make_bench() -> type[Bench]:
    return Bench
