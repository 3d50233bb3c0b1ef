"""An engine over two nodes and two pods, with a plugin and a gate that do as they are told."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from reactive_desched.api import PlacePlugin, PluginArgs, View
from reactive_desched.controller.backoff import Backoff
from reactive_desched.controller.evaluation import Judgement
from reactive_desched.controller.evaluator import Engine
from reactive_desched.controller.subscriptions import Instance
from reactive_desched.model.changes import Change, NodeTaintsChanged, PodBound, Resynced
from reactive_desched.model.decisions import Decision, Defer, Evict, Refuse, Room, WakeKey
from reactive_desched.model.findings import Finding, LookAgain
from reactive_desched.model.objects import Pod
from reactive_desched.model.outcomes import Outcome
from reactive_desched.model.subjects import Places
from reactive_desched.primitives.debounce import Pause
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.view import ClusterView
from reactive_desched.testing.builders import node, pod

Verdict = Callable[[Finding, float], Decision]
A, B = pod("a", on="n1"), pod("b", on="n1")
AT_ONCE = Pause(0, 0)


class Wrong(PlacePlugin[PluginArgs]):
    """Flags the pods it is told to, and asks to look again where it is told to."""

    name = "Wrong"
    reacts_to = (Resynced, NodeTaintsChanged, PodBound)

    def __init__(self) -> None:
        super().__init__(PluginArgs())
        self.wrong: set[str] = set()
        self.ranks: dict[str, int] = {}
        self.again: dict[Places, float] = {}
        self.judged: list[Places] = []

    def judge(self, subject: Places, view: View) -> Iterator[Finding | LookAgain]:
        self.judged.append(subject)
        if subject in self.again:
            yield LookAgain(self.again.pop(subject))
        if (place := view.place(subject)) is not None:
            for found in place[1]:
                if found.name in self.wrong:
                    rank = self.ranks.get(found.name)
                    yield Finding(found, self.name, "wrong", rank=() if rank is None else (rank,))


class Gate:
    """Lets everybody go, but for those it has a verdict for."""

    def __init__(self) -> None:
        self.verdicts: dict[str, Verdict] = {}
        self.ends: list[tuple[str, str, float]] = []

    def decide(self, finding: Finding, now: float) -> Decision:
        verdict = self.verdicts.get(finding.pod.name)
        return Evict(finding) if verdict is None else verdict(finding, now)

    def settled(self, pod: Pod, outcome: Outcome, now: float) -> None:
        self.ends.append((pod.name, outcome.result, now))

    def refuse(self, name: str, *wakes: WakeKey, reason: str = "no", until: Any = None) -> None:
        self.verdicts[name] = lambda finding, _: Refuse(finding, "Gate", reason, wakes, until)

    def defer(self, name: str, until: float) -> None:
        self.verdicts[name] = lambda finding, _: Defer(finding, "Pace", "later", until)


class Bench:
    """One or two plugins over two nodes and two pods, and all that was decided."""

    def __init__(self, plugins: int = 1, pause: Pause = AT_ONCE) -> None:
        self.state = ClusterState()
        for thing in (node("n1"), node("n2"), A, B):
            self.state.upsert(thing)
        self.judgements: list[Judgement] = []
        self.plugins = [Wrong() for _ in range(plugins)]
        self.gates = [Gate() for _ in range(plugins)]
        self.instances = [
            Instance(f"profile {number}", plugin, gate, pause)
            for number, (plugin, gate) in enumerate(zip(self.plugins, self.gates, strict=True))
        ]
        self.plugin, self.gate, self.instance = self.plugins[0], self.gates[0], self.instances[0]
        self.grown = 0
        self.rooms: list[Room] = []
        self.engine = Engine(
            self.instances,
            ClusterView(self.state, lambda: 0),
            self.judgements.append,
            backoff=Backoff(5, 300),
            room_grew=self._grow,
            room_news=self._news,
        )

    def _grow(self) -> None:
        self.grown += 1

    def _news(self) -> list[Room]:
        news, self.rooms[:] = list(self.rooms), []
        return news

    def start(self, *wrong: str) -> "Bench":
        """Sweep with nothing wrong; the pods named are wrong from then on."""
        self.engine.resync(0)
        self.work(0)
        for plugin in self.plugins:
            plugin.wrong.update(wrong)
            plugin.judged.clear()
        return self

    def see(self, *changes: Change, now: float) -> None:
        self.engine.observe(changes, now)
        self.work(now)

    def work(self, now: float) -> None:
        while (due := self.engine.next_due(now)) is not None and due <= now:
            self.engine.work(now, lambda: False)

    def looked(self) -> list[Places]:
        """Return, once, what the first plugin looked at."""
        judged = list(self.plugin.judged)
        self.plugin.judged.clear()
        return judged

    def adopt(self, *wrong: str, now: float) -> tuple[Wrong, Gate]:
        """Let another instance of the plugin take over; the pods named are wrong to it."""
        plugin, gate = Wrong(), Gate()
        plugin.wrong.update(wrong)
        self.engine.adopt([Instance("new", plugin, gate, AT_ONCE)], now)
        return plugin, gate

    def end(self, result: str, now: float, retry_after_s: float | None = None) -> None:
        """End the latest eviction."""
        evict = next(j for j in reversed(self.judgements) if isinstance(j.decision, Evict))
        self.engine.settled(evict, Outcome(result, "because", retry_after_s), now)

    @property
    def decided(self) -> list[tuple[str, str]]:
        return [(type(j.decision).__name__, j.finding.pod.name) for j in self.judgements]

    @property
    def evicted(self) -> list[str]:
        return [name for kind, name in self.decided if kind == "Evict"]


@pytest.fixture
def make_bench() -> type[Bench]:
    return Bench
