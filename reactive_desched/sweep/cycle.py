"""The sweep: every plugin judges everything once, in upstream's order and by its rules.

The same plugins and guards as on the reactive path. What is particular to a cycle: limits count
per cycle, a pod that was evicted is gone at once, disruption budgets are left to the API server,
and nothing runs unless two nodes count.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext

from msgspec import Struct

from reactive_desched.controller.controller import Plan
from reactive_desched.controller.subscriptions import AnyPlugin
from reactive_desched.fit.upstream import Fit, NodeSearch
from reactive_desched.gate.evictor import Guards, NamespaceSelector, NodeFit
from reactive_desched.gate.filters import guards
from reactive_desched.gate.gate import Step
from reactive_desched.model.changes import Resynced
from reactive_desched.model.decisions import Decision, Evict, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.policy.evictor import DefaultEvictorArgs, NoEvictionPolicy
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.view import ClusterView
from reactive_desched.sweep.limits import CycleLimits

TOO_FEW_NODES = "fewer than two nodes are ready and match the policy's nodeSelector"


class Decided(Struct, frozen=True, gc=False):
    """A decision on a finding, and the profile whose plugin made it."""

    profile: str
    decision: Decision

    @property
    def finding(self) -> Finding:
        """The finding decided on."""
        return self.decision.finding


Steps = Generator[Decided, bool, None]
"""Yields each decision; after an Evict it is sent whether the pod really left."""


Around = Callable[[str, AnyPlugin], AbstractContextManager[object]]


class Cycle:
    """One pass over a picture, which it changes: pods that left are taken out of it.

    Node fit is upstream's unless another is given. Each plugin's part runs inside what `around`
    returns for its profile and itself, for example to time it.
    """

    def __init__(
        self,
        plan: Plan,
        state: ClusterState,
        view: ClusterView,
        fit: NodeSearch | None = None,
        *,
        around: Around = lambda *_: nullcontext(),
    ) -> None:
        self._around = around
        self._limits = CycleLimits(plan.limits)
        self._state = state
        self._view = view
        self._fit: NodeSearch = Fit(view) if fit is None else fit
        self._promises = fit is not None
        self._profiles = [(profile, self._gates(profile.evictor)) for profile in plan.profiles]

    def why_not(self) -> str | None:
        """Say why there is nothing to do, or None: upstream skips a cycle on too few nodes."""
        return TOO_FEW_NODES if self._view.counting_nodes < 2 else None  # noqa: PLR2004 -- as it says

    def run(self) -> Steps:
        """Run all that deschedules, of every profile, and then all that balances."""
        if self.why_not() is not None:
            return
        for point in ("deschedule", "balance"):
            for profile, gates in self._profiles:
                for plugin in profile.plugins:
                    if plugin.point == point:
                        yield from self._plugin(profile.name, plugin, gates)

    def _plugin(self, profile: str, plugin: AnyPlugin, gates: tuple[Step, ...]) -> Steps:
        with self._around(profile, plugin):
            for part in plugin.passes():
                for findings in self._batches(part):
                    yield from self._decide(profile, findings, gates)

    def _batches(self, plugin: AnyPlugin) -> Iterator[list[Finding]]:
        """Give findings in the portions in which they are decided on."""
        subjects = plugin.subjects(Resynced(), self._view)
        batches = (self._findings(plugin, subject) for subject in subjects)
        if plugin.gathers:
            yield [finding for batch in batches for finding in batch]
        else:
            yield from batches

    def _findings(self, plugin: AnyPlugin, subject: object) -> list[Finding]:
        opinions = plugin.judge(subject, self._view)
        return [opinion for opinion in opinions if isinstance(opinion, Finding)]

    def _decide(self, profile: str, findings: list[Finding], gates: tuple[Step, ...]) -> Steps:
        """Ask the gates about all of a portion before the first of it goes, as upstream."""
        while not self._fit.prepare():
            pass  # it looks at so many nodes at a time for the sake of others, and here are none
        asked = [(finding, _refusal(finding, gates)) for finding in findings]
        for finding, refusal in sorted(asked, key=lambda pair: pair[0].rank):
            refused = (
                refusal or self._limits.verdict(finding) or self._promised_away(finding, gates)
            )
            if refused is not None:
                yield Decided(profile, refused)
            elif (yield Decided(profile, Evict(finding))):
                self._left(finding)

    def _promised_away(self, finding: Finding, gates: Iterable[Step]) -> Refuse | None:
        """Ask once more about room if room is promised: those who just went may have got it."""
        if not self._promises:
            return None
        return _refusal(finding, (gate for gate in gates if isinstance(gate, NodeFit)))

    def _left(self, finding: Finding) -> None:
        self._fit.begin(finding.pod)
        self._limits.count(finding.pod)
        self._state.remove(finding.pod)
        self._fit.room_grew()

    def _gates(self, args: DefaultEvictorArgs) -> tuple[Step, ...]:
        """Set up the evictor: its Filter, and then its PreEvictionFilter."""
        mandatory = args.no_eviction is NoEvictionPolicy.MANDATORY
        fit = NodeFit(self._fit, args.node_selector, evictor_asks=args.node_fit)
        steps: list[Step] = [
            Guards(guards(args), self._view, mandatory_no_eviction=mandatory),
            fit,
        ]
        selector = args.namespace_label_selector
        if selector is not None and not selector.is_empty:
            steps.append(NamespaceSelector(selector, self._view))
        return tuple(steps)


def _refusal(finding: Finding, gates: Iterable[Step]) -> Refuse | None:
    verdicts = (gate.verdict(finding, 0.0) for gate in gates)
    refusal = next((verdict for verdict in verdicts if verdict is not None), None)
    assert refusal is None or isinstance(refusal, Refuse), "nothing in a cycle can wait"
    return refusal
