"""One plugin in a small cluster: what it flags reactively, and what a fresh sweep flags."""

import json
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, TypeVar

from reactive_desched.api.plugin import Plugin, PluginArgs, View
from reactive_desched.controller.backoff import Backoff
from reactive_desched.controller.evaluator import Engine
from reactive_desched.controller.subscriptions import Instance
from reactive_desched.model.changes import Change, Resynced
from reactive_desched.model.decisions import Decision, Refuse
from reactive_desched.model.findings import Finding, LookAgain
from reactive_desched.model.objects import ClusterObject, Pod, PodKey
from reactive_desched.model.outcomes import Outcome
from reactive_desched.model.subjects import OnePod, OnNode
from reactive_desched.primitives.debounce import Pause
from reactive_desched.state.cluster import NODES, PODS, ClusterState
from reactive_desched.state.view import ClusterView

AnyPlugin = Plugin[Any, Any]  # a scenario takes any plugin
Args = TypeVar("Args", bound=PluginArgs)
Made = TypeVar("Made", bound=AnyPlugin)


def as_written(plugin: Callable[[Args], Made], args: type[Args], **given: object) -> Made:
    """Build a plugin with arguments as a policy writes them."""
    return plugin(args.model_validate_json(json.dumps(given), strict=True))


class _NothingGoes:
    """A gate that refuses everything and wakes nothing, so that every finding stays visible."""

    def decide(self, finding: Finding, _: float) -> Decision:
        return Refuse(finding, "Test", "nothing goes")

    def settled(self, pod: Pod, outcome: Outcome, now: float) -> None:
        """Nothing was ever begun."""


class _Recorded(AnyPlugin):
    """Passes everything on to a plugin and keeps its latest opinion on each pod."""

    name = "Recorded"
    reacts_to = ()

    def __init__(self, plugin: AnyPlugin) -> None:
        super().__init__(plugin.args)
        self.plugin = plugin
        self.flagged: dict[PodKey, Pod] = {}
        self.judged: list[Hashable] = []
        vars(self)["reacts_to"] = plugin.reacts_to

    def subjects(self, change: Change, view: View) -> Iterable[Hashable]:
        subjects: Iterable[Hashable] = self.plugin.subjects(change, view)
        return subjects

    def judge(self, subject: Hashable, view: View) -> Iterator[Finding | LookAgain]:
        opinions = list(self.plugin.judge(subject, view))
        self.judged.append(subject)
        if isinstance(subject, OnePod):
            self.flagged.pop(subject.pod, None)
        look = view.everyone if self.plugin.sees_ended else view.place
        if isinstance(subject, OnNode | OnePod) and (place := look(subject)) is not None:
            for looked_at in place[1]:
                self.flagged.pop(looked_at.key, None)
        for opinion in opinions:
            if isinstance(opinion, Finding):
                self.flagged[opinion.pod.key] = opinion.pod
        yield from opinions


class Scenario:
    """A cluster that changes step by step under one plugin, without debounce.

    Time stands still except in `wait`; `now_s` is the time of day it begins at.
    """

    def __init__(self, plugin: AnyPlugin, *things: ClusterObject, now_s: float = 0.0) -> None:
        self.state = ClusterState()
        self._began_s = now_s
        self._waited_s = 0.0
        self.view = ClusterView(self.state, lambda: self.now_s)
        self._recorded = _Recorded(plugin)
        instance = Instance("test", self._recorded, _NothingGoes(), Pause(0, 0))
        self._engine = Engine(
            [instance], self.view, lambda _: None, backoff=Backoff(), room_grew=lambda: None
        )
        for thing in things:
            self.state.upsert(thing)
        self._engine.resync(self._waited_s)
        self._work()

    @property
    def now_s(self) -> float:
        """The time of day, in seconds since the epoch; the engine counts from the beginning."""
        return self._began_s + self._waited_s

    def wait(self, seconds: float) -> None:
        """Let time pass, and work off what comes due when it does."""
        until_s = self._waited_s + seconds
        while (due := self._engine.next_due(self._waited_s)) is not None and due <= until_s:
            self._waited_s = due
            self._work()
        self._waited_s = until_s

    def apply(self, *things: ClusterObject) -> None:
        """Let objects appear or change, one after the other."""
        for thing in things:
            self._engine.observe(self.state.upsert(thing), self._waited_s)
            self._work()

    def remove(self, *things: ClusterObject) -> None:
        """Let objects vanish."""
        for thing in things:
            self._engine.observe(self.state.remove(thing), self._waited_s)
            self._work()

    def flagged(self) -> set[str]:
        """Name the pods with a finding, as the reactive path knows them.

        A pod that left its node, or whose node no longer counts, has no finding any more:
        changes that can only cancel a finding need not wake a plugin.
        """
        look = self.view.bound if self._recorded.plugin.sees_ended else self.view.placed
        flagged = self._recorded.flagged.values()
        return {pod.name for pod in flagged if look(pod.key) is not None}

    def flagged_by_full_scan(self) -> set[str]:
        """Name the pods that a fresh sweep flags."""
        plugin = self._recorded
        opinions = (
            opinion
            for subject in plugin.subjects(Resynced(), self.view)
            for opinion in plugin.plugin.judge(subject, self.view)
        )
        return {opinion.pod.name for opinion in opinions if isinstance(opinion, Finding)}

    def swept(self) -> list[str]:
        """Name whom a fresh sweep evicts, in order; each is gone before the next is judged."""
        plugin, evicted = self._recorded.plugin, []
        for subject in plugin.subjects(Resynced(), self.view):
            for opinion in plugin.judge(subject, self.view):
                if isinstance(opinion, Finding):
                    evicted.append(opinion.pod.name)
                    self.state.remove(opinion.pod)
        return evicted

    def flagged_at_first_sight(self) -> set[str]:
        """Name the pods flagged where this cluster, as it is now, is all that was ever seen."""
        things = (
            thing
            for resource in (NODES, PODS)
            for key in self.state.keys(resource)
            if (thing := self.state.get(resource, key)) is not None
        )
        return Scenario(self._recorded.plugin, *things, now_s=self.now_s).flagged()

    def opinions(self, subject: Hashable) -> list[Finding | LookAgain]:
        """Judge one subject, and say what the plugin says."""
        return list(self._recorded.plugin.judge(subject, self.view))

    def judged_by(self, *things: ClusterObject) -> set[Hashable]:
        """Apply changes and say which subjects that made the plugin look at."""
        self._recorded.judged.clear()
        self.apply(*things)
        return set(self._recorded.judged)

    def _work(self) -> None:
        now = self._waited_s
        while (due := self._engine.next_due(now)) is not None and due <= now:
            self._engine.work(now, lambda: False)
