"""The sweep: every plugin judges everything once, in upstream's order and by its rules.

The same plugins and guards as on the reactive path. What is particular to a cycle: limits count
per cycle, a pod that was evicted is gone at once, disruption budgets are left to the API server,
and nothing runs unless two nodes count.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext

from msgspec import Struct

from reactive_desched.fit.upstream import NodeFit, UpstreamNodeFit
from reactive_desched.gate.evictor import EvictorFilters, NamespaceFilter, NodeFitFilter
from reactive_desched.gate.filters import pod_filters
from reactive_desched.gate.gate import GateFilter
from reactive_desched.model.changes import Resynced
from reactive_desched.model.decisions import Decision, Evict, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.policy.evictor import DefaultEvictorArgs, NoEvictionPolicy
from reactive_desched.policy.policy import AnyPlugin, Policy
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.view import ClusterView
from reactive_desched.sweep.limits import CycleLimits

TOO_FEW_NODES = "fewer than two nodes are ready and match the policy's nodeSelector"


class CycleDecision(Struct, frozen=True, gc=False):
    """A decision on a finding, and the profile whose plugin made it."""

    profile: str
    decision: Decision

    @property
    def finding(self) -> Finding:
        """The finding decided on."""
        return self.decision.finding


DecisionStream = Generator[CycleDecision, bool, None]
"""Yields each decision; after an Evict it is sent whether the pod really left."""


PluginContext = Callable[[str, AnyPlugin], AbstractContextManager[object]]


class Cycle:
    """One pass over a picture, which it changes: pods that left are taken out of it.

    Node fit is upstream's unless another is given. Each plugin's part runs inside what `around`
    returns for its profile and itself, for example to time it.
    """

    def __init__(
        self,
        policy: Policy,
        state: ClusterState,
        view: ClusterView,
        node_fit: NodeFit | None = None,
        *,
        plugin_context: PluginContext = lambda *_: nullcontext(),
    ) -> None:
        self._plugin_context = plugin_context
        self._limits = CycleLimits(policy.limits.by_scope())
        self._state = state
        self._view = view
        self._node_fit: NodeFit = UpstreamNodeFit(view) if node_fit is None else node_fit
        self._reserves_capacity = node_fit is not None
        self._profiles = [
            (profile, self._evictor_filters(profile.evictor)) for profile in policy.profiles
        ]

    def skip_reason(self) -> str | None:
        """Say why there is nothing to do, or None: upstream skips a cycle on too few nodes."""
        return TOO_FEW_NODES if self._view.eligible_node_count < 2 else None  # noqa: PLR2004 -- as it says

    def run(self) -> DecisionStream:
        """Run all that deschedules, of every profile, and then all that balances."""
        if self.skip_reason() is not None:
            return
        for point in ("deschedule", "balance"):
            for profile, filters in self._profiles:
                for plugin in profile.plugins:
                    if plugin.extension_point == point:
                        yield from self._run_plugin(profile.name, plugin, filters)

    def _run_plugin(
        self, profile: str, plugin: AnyPlugin, filters: tuple[GateFilter, ...]
    ) -> DecisionStream:
        with self._plugin_context(profile, plugin):
            for plugin_pass in plugin.sweep_passes():
                for findings in self._batches(plugin_pass):
                    yield from self._decide(profile, findings, filters)

    def _batches(self, plugin: AnyPlugin) -> Iterator[list[Finding]]:
        """Give findings in the portions in which they are decided on."""
        subjects = plugin.subjects(Resynced(), self._view)
        batches = (self._findings(plugin, subject) for subject in subjects)
        if plugin.ranks_across_subjects:
            yield [finding for batch in batches for finding in batch]
        else:
            yield from batches

    def _findings(self, plugin: AnyPlugin, subject: object) -> list[Finding]:
        opinions = plugin.judge(subject, self._view)
        return [opinion for opinion in opinions if isinstance(opinion, Finding)]

    def _decide(
        self, profile: str, findings: list[Finding], filters: tuple[GateFilter, ...]
    ) -> DecisionStream:
        """Ask the gates about all of a portion before the first of it goes, as upstream."""
        while not self._node_fit.sync():
            pass  # it looks at so many nodes at a time for the sake of others, and here are none
        checked = [(finding, _first_refusal(finding, filters)) for finding in findings]
        for finding, refusal in sorted(checked, key=lambda pair: pair[0].rank):
            refused = (
                refusal or self._limits.check(finding) or self._recheck_capacity(finding, filters)
            )
            if refused is not None:
                yield CycleDecision(profile, refused)
            elif (yield CycleDecision(profile, Evict(finding))):
                self._on_evicted(finding)

    def _recheck_capacity(self, finding: Finding, filters: Iterable[GateFilter]) -> Refuse | None:
        """Ask once more about room if room is promised: those who just went may have got it."""
        if not self._reserves_capacity:
            return None
        return _first_refusal(
            finding, (gate for gate in filters if isinstance(gate, NodeFitFilter))
        )

    def _on_evicted(self, finding: Finding) -> None:
        self._node_fit.reserve(finding.pod)
        self._limits.count(finding.pod)
        self._state.remove(finding.pod)
        self._node_fit.capacity_increased()

    def _evictor_filters(self, args: DefaultEvictorArgs) -> tuple[GateFilter, ...]:
        """Set up the evictor: its Filter, and then its PreEvictionFilter."""
        mandatory = args.no_eviction is NoEvictionPolicy.MANDATORY
        fit = NodeFitFilter(self._node_fit, args.node_selector, evictor_requires=args.node_fit)
        filters: list[GateFilter] = [
            EvictorFilters(pod_filters(args), self._view, mandatory_no_eviction=mandatory),
            fit,
        ]
        selector = args.namespace_label_selector
        if selector is not None and not selector.is_empty:
            filters.append(NamespaceFilter(selector, self._view))
        return tuple(filters)


def _first_refusal(finding: Finding, filters: Iterable[GateFilter]) -> Refuse | None:
    refusals = (gate.check(finding, 0.0) for gate in filters)
    refusal = next((verdict for verdict in refusals if verdict is not None), None)
    assert refusal is None or isinstance(refusal, Refuse), "nothing in a cycle can wait"
    return refusal
