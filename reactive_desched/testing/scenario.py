"""One plugin in a small cluster: what it flags reactively, and what a fresh sweep flags."""

import json
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any, TypeVar

from reactive_desched.api.args import PluginArgs
from reactive_desched.api.plugin import Opinions, Plugin, View, next_opinion
from reactive_desched.controller.evaluator import Evaluator
from reactive_desched.controller.instances import PluginInstance
from reactive_desched.controller.work_queue import PodBackoff
from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.fit.upstream import UpstreamNodeFit
from reactive_desched.gate.evictor import DefaultEvictor
from reactive_desched.gate.in_flight import InFlightEvictions
from reactive_desched.gate.profile_view import AT_ONCE, ProfileView
from reactive_desched.ledger.ledger import EvictionLedger
from reactive_desched.model.changes import Change, PodChange, Resynced
from reactive_desched.model.decisions import Decision, Evict
from reactive_desched.model.findings import Finding, RequeueAfter, YieldPoint
from reactive_desched.model.labels import EVERYTHING, Selector, parse_selector
from reactive_desched.model.moves import MovedPods
from reactive_desched.model.node_marks import ReasonRules, TaintRule
from reactive_desched.model.objects import ClusterObject, Pod, PodKey
from reactive_desched.model.scheduler_profile import SchedulerProfiles
from reactive_desched.model.subjects import NodeSubject, PodSubject
from reactive_desched.model.usage import NodeUsage
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.settings.controller_settings import RetrySettings
from reactive_desched.primitives.timers import DebounceConfig
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.state.resources import RESOURCES

AnyPlugin = Plugin[Any, Any]  # a scenario takes any plugin
Args = TypeVar("Args", bound=PluginArgs)
Made = TypeVar("Made", bound=AnyPlugin)
Decide = Callable[[Finding], Decision]


class _FitWithDevices(UpstreamNodeFit):
    """Upstream's node fit, whose moves on trial look at devices as those of a controller may."""

    @property
    def scheduler_profiles(self) -> SchedulerProfiles:
        return SchedulerProfiles(watches_devices=True)


def plugin_from_policy(plugin: Callable[[Args], Made], args: type[Args], **given: object) -> Made:
    """Build a plugin with arguments as a policy writes them."""
    return plugin(args.model_validate_json(json.dumps(given), strict=True))


def build_view(
    state: ClusterState,
    evictor: DefaultEvictorArgs | None = None,
    wall_clock: Callable[[], float] = lambda: 0.0,
    rules: ReasonRules = AT_ONCE,
    nodes: Selector = EVERYTHING,
) -> ProfileView:
    """Return what the plugins of a profile with this evictor see, with upstream's node fit."""
    view = ClusterView(state, wall_clock)
    node_fit = _FitWithDevices(view)
    default = DefaultEvictor(evictor or DefaultEvictorArgs(), view, node_fit, nodes=nodes)
    in_flight = InFlightEvictions(EvictionLedger(view), wall_clock)
    return ProfileView(state, wall_clock, default, node_fit, in_flight, rules)


class _Gate:
    """Decides as the test says; whatever it decides, no pod is evicted."""

    def __init__(self, decide: Decide) -> None:
        self._decide = decide

    def decide(self, finding: Finding, _: float) -> Decision:
        return self._decide(finding)

    def held_since(self, finding: Finding, _: float) -> str:
        del finding
        return ""


class _RecordingPlugin(AnyPlugin):
    """Passes everything on to a plugin and keeps its latest findings."""

    name = "Recorded"
    extension_point = "deschedule"
    reacts_to = ()

    def __init__(self, plugin: AnyPlugin) -> None:
        super().__init__(plugin.args)
        self.plugin = plugin
        self.flagged: dict[Hashable, dict[PodKey, Pod]] = {}
        self.evaluated: list[Hashable] = []
        vars(self).update(name=plugin.name, reacts_to=plugin.reacts_to)

    def subjects(self, change: Change, view: View) -> Iterable[Hashable]:
        """Ask the plugin; a pod with a finding is evaluated again, as a real gate's wakes do."""
        subjects: Iterable[Hashable] = self.plugin.subjects(change, view)
        if isinstance(change, PodChange) and self._is_flagged(change.pod):
            return dict.fromkeys((*subjects, PodSubject(change.pod.uid)))
        return subjects

    def matters(self, change: Change) -> bool:
        """Ask the plugin, unless a pod with a finding has changed."""
        is_flagged = isinstance(change, PodChange) and self._is_flagged(change.pod)
        return is_flagged or self.plugin.matters(change)

    def _is_flagged(self, pod: Pod) -> bool:
        return PodSubject(pod.uid) in self.flagged

    def evaluate(self, subject: Hashable, view: View) -> Opinions:
        self.evaluated.append(subject)
        self._forget(subject, view)
        opinions, decision = self.plugin.evaluate(subject, view), None
        while (opinion := next_opinion(opinions, decision)) is not None:
            if isinstance(opinion, Finding):
                self._keep(subject, opinion.pod)
            decision = yield opinion

    def _forget(self, subject: Hashable, view: View) -> None:
        self.flagged.pop(subject, None)
        if isinstance(subject, NodeSubject | PodSubject):
            pods_of = view.all_pods_of if self.plugin.judges_completed_pods else view.pods_of
            for pod in (pods_of(subject) or (None, ()))[1]:
                self.flagged.pop(PodSubject(pod.uid), None)

    def _keep(self, subject: Hashable, pod: Pod) -> None:
        """Keep a finding under its pod where subjects are nodes or pods, else under the subject."""
        about_pods = isinstance(subject, NodeSubject | PodSubject)
        key = PodSubject(pod.uid) if about_pods else subject
        self.flagged.setdefault(key, {})[pod.uid] = pod


class Scenario:
    """A cluster that changes step by step under one plugin, without debounce.

    Time stands still except in `wait`; `now_s` is the time of day it begins at. `evictor` is the
    profile's evictor, which the plugin sees through its view alone: `decide` takes the place of
    the gate, and by default lets every pod go. `ignored_taints` are no reason to evict; all others
    are once they have stood for `standing_s`, and so are labels of nodes, and their readiness.
    `node_selector` is the policy's, `profile_nodes` the profile's.
    No pod is evicted until the test removes it.
    """

    def __init__(
        self,
        plugin: AnyPlugin,
        *objects: ClusterObject,
        now_s: float = 0.0,
        evictor: DefaultEvictorArgs | None = None,
        decide: Decide = Evict,
        ignored_taints: Collection[str] = (),
        standing_s: float = 0.0,
        node_selector: Selector = EVERYTHING,
        profile_nodes: Selector = EVERYTHING,
    ) -> None:
        self.state = ClusterState(
            node_selector, clock=lambda: self._elapsed_s, wall_clock=lambda: self.now_s
        )
        self._start_s = now_s
        self._elapsed_s = 0.0
        self._evictor = evictor
        self._profile_nodes = profile_nodes
        self._decide = decide
        self._ignored_taints = ignored_taints
        self._standing_s = standing_s
        rules = ReasonRules(
            lambda key: TaintRule(key not in ignored_taints, standing_s),
            standing_s,
            standing_s,
            standing_s,
            standing_s,
            standing_s,
        )
        self.view = build_view(self.state, evictor, lambda: self.now_s, rules, profile_nodes)
        self._recorded = _RecordingPlugin(plugin)
        at_once = DebounceConfig(0, 0)
        instance = PluginInstance("test", self._recorded, _Gate(decide), self.view, at_once)
        self._evaluator = Evaluator(
            [instance],
            PodBackoff(RetrySettings()),
            SchedulerNodeFit(self.view, lambda: self._elapsed_s),
        )
        self.state.keep_indexes(plugin.required_indexes)
        for obj in objects:
            self.state.upsert(obj)
        self._evaluator.resync(self._elapsed_s)
        self._process_due()

    @property
    def now_s(self) -> float:
        """The time of day, in seconds since the epoch."""
        return self._start_s + self._elapsed_s

    def wait(self, seconds: float) -> None:
        """Let time pass, and process what comes due at its time."""
        until_s = self._elapsed_s + seconds
        while (due := self._evaluator.next_due(self._elapsed_s)) is not None and due <= until_s:
            self._elapsed_s = due
            self._process_due()
        self._elapsed_s = until_s

    def apply(self, *objects: ClusterObject) -> None:
        """Add or change objects, one after the other."""
        for obj in objects:
            self._evaluator.apply_changes(self.state.upsert(obj), self._elapsed_s)
            self._process_due()

    def remove(self, *objects: ClusterObject) -> None:
        """Delete objects, one after the other."""
        for obj in objects:
            self._evaluator.apply_changes(self.state.remove(obj), self._elapsed_s)
            self._process_due()

    def select(self, node_selector: str) -> None:
        """Give the policy another node selector, given as a selector text."""
        for changes in self.state.set_node_selector(parse_selector(node_selector)):
            self._evaluator.apply_changes(changes, self._elapsed_s)
        self._process_due()

    def flagged(self) -> set[str]:
        """Name the pods with a finding, as the reactive path has them.

        A pod that left its node, or whose node is not eligible any more, has no finding: changes
        that can only end a finding need not wake a plugin.
        """
        plugin = self._recorded.plugin
        result = self.view.pod_and_node if plugin.judges_completed_pods else self.view.active_pod
        return {
            pod.name
            for pods in self._recorded.flagged.values()
            for pod in pods.values()
            if result(pod.key) is not None
        }

    def flagged_by_full_scan(self) -> set[str]:
        """Name the pods that a fresh pass over every subject flags."""
        plugin = self._recorded.plugin
        subjects = plugin.subjects(Resynced(), self.view)
        return {
            opinion.pod.name
            for subject in subjects
            for opinion in self.evaluate(subject)
            if isinstance(opinion, Finding)
        }

    def evicted_by_sweep(self) -> list[str]:
        """Name the pods that a fresh pass evicts, in order; each is gone before the next."""
        plugin, evicted = self._recorded.plugin, []
        for subject in plugin.subjects(Resynced(), self.view):
            opinions, decision = plugin.evaluate(subject, self.view), None
            while (opinion := next_opinion(opinions, decision)) is not None:
                decision = None
                if isinstance(opinion, Finding):
                    decision = self._decide(opinion)
                    if isinstance(decision, Evict):
                        evicted.append(opinion.pod.name)
                        self.view.apply_changes(self.state.remove(opinion.pod))
        return evicted

    def flagged_after_restart(self) -> set[str]:
        """Name the pods flagged where this cluster, as it is now, is all that was ever seen.

        What is measured belongs to it, and which pods were moved to which node.
        """
        listed = (
            obj
            for resource in RESOURCES
            for key in self.state.keys(resource)
            if (obj := self.state.get(resource, key)) is not None
        )
        fresh = Scenario(
            self._recorded.plugin,
            *listed,
            *self.state.store(NodeUsage),
            *self.state.store(MovedPods),
            now_s=self.now_s,
            evictor=self._evictor,
            decide=self._decide,
            ignored_taints=self._ignored_taints,
            standing_s=self._standing_s,
            node_selector=self.state.nodes.selector,
            profile_nodes=self._profile_nodes,
        )
        return fresh.flagged()

    def evaluate(
        self, subject: Hashable, decide: Decide | None = None
    ) -> list[Finding | RequeueAfter]:
        """Evaluate one subject, with `decide` as the gate, and return the plugin's opinions."""
        decide = decide or self._decide
        opinions, decision, found = self._recorded.plugin.evaluate(subject, self.view), None, []
        while (opinion := next_opinion(opinions, decision)) is not None:
            if not isinstance(opinion, YieldPoint):
                found.append(opinion)
            decision = decide(opinion) if isinstance(opinion, Finding) else None
        return found

    def subjects_evaluated(self, *objects: ClusterObject) -> set[Hashable]:
        """Apply changes and return the subjects that the plugin evaluated for them."""
        self._recorded.evaluated.clear()
        self.apply(*objects)
        return set(self._recorded.evaluated)

    def _process_due(self) -> None:
        now = self._elapsed_s
        while (due := self._evaluator.next_due(now)) is not None and due <= now:
            for _ in self._evaluator.process_due(now, lambda: False):
                pass
