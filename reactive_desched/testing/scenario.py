"""One plugin in a small cluster: what it flags reactively, and what a fresh sweep flags."""

import json
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, TypeVar

from reactive_desched.api.args import PluginArgs
from reactive_desched.api.plugin import Plugin, View
from reactive_desched.controller.backoff import PodBackoff
from reactive_desched.controller.evaluator import Evaluator
from reactive_desched.controller.subscriptions import PluginInstance
from reactive_desched.model.changes import Change, PodChange, Resynced
from reactive_desched.model.decisions import Decision, Refuse
from reactive_desched.model.findings import Finding, RequeueAfter
from reactive_desched.model.objects import ClusterObject, Pod, PodKey
from reactive_desched.model.outcomes import Outcome
from reactive_desched.model.subjects import NodeSubject, PodSubject
from reactive_desched.policy.settings import RetrySettings
from reactive_desched.primitives.debounce import DebounceConfig
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.resources import NODES, PODS
from reactive_desched.state.view import ClusterView

AnyPlugin = Plugin[Any, Any]  # a scenario takes any plugin
Args = TypeVar("Args", bound=PluginArgs)
Made = TypeVar("Made", bound=AnyPlugin)


def plugin_from_policy(plugin: Callable[[Args], Made], args: type[Args], **given: object) -> Made:
    """Build a plugin with arguments as a policy writes them."""
    return plugin(args.model_validate_json(json.dumps(given), strict=True))


class _RefuseAllGate:
    """A gate that refuses everything and wakes nothing, so that every finding stays visible."""

    def decide(self, finding: Finding, _: float) -> Decision:
        return Refuse(finding, "Test", "nothing goes")

    def release(self, pod: Pod, outcome: Outcome, now: float) -> None:
        """Nothing was ever begun."""


class _RecordingPlugin(AnyPlugin):
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

    def matters(self, change: Change) -> bool:
        """Ask the plugin; a pod with a finding is evaluated again, as a real gate's wakes do."""
        is_flagged = isinstance(change, PodChange) and change.pod.key in self.flagged
        return is_flagged or self.plugin.matters(change)

    def judge(self, subject: Hashable, view: View) -> Iterator[Finding | RequeueAfter]:
        opinions = list(self.plugin.judge(subject, view))
        self.judged.append(subject)
        if isinstance(subject, PodSubject):
            self.flagged.pop(subject.pod, None)
        result = view.all_pods_of if self.plugin.judges_completed_pods else view.pods_of
        if (
            isinstance(subject, NodeSubject | PodSubject)
            and (node_or_pod := result(subject)) is not None
        ):
            for evaluated in node_or_pod[1]:
                self.flagged.pop(evaluated.key, None)
        for opinion in opinions:
            if isinstance(opinion, Finding):
                self.flagged[opinion.pod.key] = opinion.pod
        yield from opinions


class Scenario:
    """A cluster that changes step by step under one plugin, without debounce.

    Time stands still except in `wait`; `now_s` is the time of day it begins at.
    """

    def __init__(self, plugin: AnyPlugin, *objects: ClusterObject, now_s: float = 0.0) -> None:
        self.state = ClusterState()
        self._start_s = now_s
        self._elapsed_s = 0.0
        self.view = ClusterView(self.state, lambda: self.now_s)
        self._recorded = _RecordingPlugin(plugin)
        instance = PluginInstance("test", self._recorded, _RefuseAllGate(), DebounceConfig(0, 0))
        self._engine = Evaluator(
            [instance],
            self.view,
            lambda _: None,
            backoff=PodBackoff(RetrySettings()),
            on_capacity_increase=lambda: None,
        )
        self.state.keep_indexes((kind, None) for kind in plugin.indexes)
        for obj in objects:
            self.state.upsert(obj)
        self._engine.resync(self._elapsed_s)
        self._process_due()

    @property
    def now_s(self) -> float:
        """The time of day, in seconds since the epoch; the engine counts from the beginning."""
        return self._start_s + self._elapsed_s

    def wait(self, seconds: float) -> None:
        """Let time pass, and work off what comes due when it does."""
        until_s = self._elapsed_s + seconds
        while (due := self._engine.next_due(self._elapsed_s)) is not None and due <= until_s:
            self._elapsed_s = due
            self._process_due()
        self._elapsed_s = until_s

    def apply(self, *objects: ClusterObject) -> None:
        """Let objects appear or change, one after the other."""
        for obj in objects:
            self._engine.apply_changes(self.state.upsert(obj), self._elapsed_s)
            self._process_due()

    def remove(self, *objects: ClusterObject) -> None:
        """Let objects vanish."""
        for obj in objects:
            self._engine.apply_changes(self.state.remove(obj), self._elapsed_s)
            self._process_due()

    def flagged(self) -> set[str]:
        """Name the pods with a finding, as the reactive path knows them.

        A pod that left its node, or whose node no longer counts, has no finding any more:
        changes that can only cancel a finding need not wake a plugin.
        """
        result = (
            self.view.pod_and_node
            if self._recorded.plugin.judges_completed_pods
            else self.view.active_pod
        )
        flagged = self._recorded.flagged.values()
        return {pod.name for pod in flagged if result(pod.key) is not None}

    def flagged_by_full_scan(self) -> set[str]:
        """Name the pods that a fresh sweep flags."""
        plugin = self._recorded
        opinions = (
            opinion
            for subject in plugin.subjects(Resynced(), self.view)
            for opinion in plugin.plugin.judge(subject, self.view)
        )
        return {opinion.pod.name for opinion in opinions if isinstance(opinion, Finding)}

    def evicted_by_sweep(self) -> list[str]:
        """Name whom a fresh sweep evicts, in order; each is gone before the next is judged."""
        plugin, evicted = self._recorded.plugin, []
        for subject in plugin.subjects(Resynced(), self.view):
            for opinion in plugin.judge(subject, self.view):
                if isinstance(opinion, Finding):
                    evicted.append(opinion.pod.name)
                    self.state.remove(opinion.pod)
        return evicted

    def flagged_after_restart(self) -> set[str]:
        """Name the pods flagged where this cluster, as it is now, is all that was ever seen."""
        objects = (
            obj
            for resource in (NODES, PODS)
            for key in self.state.keys(resource)
            if (obj := self.state.get(resource, key)) is not None
        )
        return Scenario(self._recorded.plugin, *objects, now_s=self.now_s).flagged()

    def judge(self, subject: Hashable) -> list[Finding | RequeueAfter]:
        """Judge one subject, and say what the plugin says."""
        return list(self._recorded.plugin.judge(subject, self.view))

    def subjects_judged(self, *objects: ClusterObject) -> set[Hashable]:
        """Apply changes and say which subjects that made the plugin look at."""
        self._recorded.judged.clear()
        self.apply(*objects)
        return set(self._recorded.judged)

    def _process_due(self) -> None:
        now = self._elapsed_s
        while (due := self._engine.next_due(now)) is not None and due <= now:
            self._engine.process_due(now, lambda: False)
