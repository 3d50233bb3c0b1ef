"""The reactive path over a simulated cluster, in virtual time and without a server.

The simulator's controllers replace what is evicted, and its scheduler places the replacements.
"""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from reactive_desched.controller.evaluator import Evaluator
from reactive_desched.controller.instances import plugin_instances
from reactive_desched.controller.pending import PendingFinding
from reactive_desched.controller.work_queue import PodBackoff
from reactive_desched.errors import ReactiveDeschedError
from reactive_desched.gate.eviction_controls import ChangeFollowers, EvictionControls
from reactive_desched.kube.codec import ResourceCodec
from reactive_desched.ledger.ledger import EvictionLedger
from reactive_desched.model.changes import Change
from reactive_desched.model.decisions import Evict
from reactive_desched.model.evaluation import Evaluation
from reactive_desched.model.findings import Finding
from reactive_desched.model.moves import EndedMove
from reactive_desched.model.objects import Node
from reactive_desched.model.outcomes import EVICTION_ACCEPTED, PDB_REFUSED_EVICTION
from reactive_desched.model.resources import add_resources
from reactive_desched.model.usage import NODE_METRIC, NodeMetric
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.policy import AnyPlugin, Policy
from reactive_desched.policy.settings.controller_settings import RetrySettings
from reactive_desched.policy.settings.guards import GuardSettings
from reactive_desched.policy.settings.moves import MoveSettings
from reactive_desched.primitives.timers import DebounceConfig
from reactive_desched.sim.history import Event
from reactive_desched.sim.pods import node_of
from reactive_desched.sim.resources import RESOURCES
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.state.resources import WATCHED_KINDS
from reactive_desched.sweep.cycle import Cycle
from tests.support.configurations import (
    UNGUARDED,
    UNLIMITED_MOVES,
    make_configuration,
    make_profile_of,
)
from tests.support.sim_world import SimulatedCluster

STEP_S: Final = 0.5


class DescheduledCluster:
    """A simulated cluster whose pods plugins evict, by the gates of the reactive path.

    `evicted` are the names of the pods that left by it, in order, `evicted_at_s` when, in virtual
    seconds, and `ended` what came of them. Unless `moves` says otherwise, any number of pods may be
    moving, again and again; unless `guards` does, none holds a pod.
    """

    def __init__(
        self,
        world: SimulatedCluster,
        *plugins: AnyPlugin,
        config: Configuration | None = None,
        quiet_s: float = 1.0,
        moves: MoveSettings = UNLIMITED_MOVES,
        guards: GuardSettings = UNGUARDED,
        **evictor: Any,  # any argument of the default evictor, as policies write it
    ) -> None:
        self.world = world
        self.evicted: list[str] = []
        self.evicted_at_s: list[float] = []
        self.ended: list[EndedMove] = []
        self.evaluations: list[Evaluation] = []
        if config is None:
            profile = make_profile_of("p", plugins, DefaultEvictorArgs.model_validate(evictor))
            debounce = DebounceConfig(quiet_s, 10 * quiet_s)
            config = make_configuration((profile,), debounce=debounce, moves=moves, guards=guards)
        self.config = config
        self.state = ClusterState(clock=self._now, wall_clock=self._now)
        tables = InternTables()
        self._codecs = {
            resource: ResourceCodec(kind, tables)
            for resource, kind in WATCHED_KINDS.items()
            if resource in RESOURCES
        }
        view = ClusterView(self.state, self._now)
        self.gates = EvictionControls(view, self._now, config, EvictionLedger(view))
        instances = plugin_instances(config, self.state, self.gates, self._now)
        self._evaluator = Evaluator(instances, PodBackoff(RetrySettings()), self.gates.node_fit)
        for resource in self._codecs:
            for obj in world.store.list(resource):
                self.state.upsert(self._decoded(resource, obj))
        world.store.subscribe(self._follow)
        self._evaluator.resync(self._now())

    def run(self, seconds: float) -> "DescheduledCluster":
        """Let time pass, and evict what is decided."""
        until = self._now() + seconds
        while (now := self._now()) < until:
            self._work()
            dues = (
                self.world.cluster.next_due(),
                self._evaluator.next_due(now),
                self.gates.moves.next_due(),
            )
            due = min((due for due in dues if due is not None), default=until)
            self.world.advance(min(until, max(due, now + STEP_S)) - now)
        self._work()
        return self

    def found_by_sweep(self) -> list[str]:
        """Name the pods that a sweep would evict now; the evictions are not carried out."""
        return [finding.pod.name for finding in self.swept()]

    def swept(self, policy: Policy | None = None) -> Iterator[Finding]:
        """Yield what a sweep would evict now, by another policy if given; nothing is evicted."""
        state = ClusterState()
        for resource in self._codecs:
            for key in self.state.keys(resource):
                if (known := self.state.get(resource, key)) is not None:
                    state.upsert(known)
        cycle = Cycle(policy or self.config.policy, state, ClusterView(state, self._now))
        for decided in cycle.run():
            if isinstance(decided.decision, Evict):
                yield decided.finding
                cycle.confirm(decided)

    def pending(self) -> Iterator[PendingFinding]:
        """Yield the findings that wait."""
        return self._evaluator.queue.pending()

    def report_use(self) -> None:
        """Report each node as koordinator's agent does; a pod uses what it requests."""
        for info in list(self.state.node_infos()):
            if info.node is None:
                continue
            pods = {str(each): each.spec.requests for each in info.active.values()}
            use: dict[str, int] = {}
            for requests in pods.values():
                add_resources(use, requests)
            now_s = self._now()
            self.apply(self.state.upsert(NodeMetric(NODE_METRIC, info.name, use, now_s, pods)))

    def pods_by_node(self, app: str) -> dict[str, int]:
        """Count the pods of a workload on each node."""
        return dict(Counter(map(node_of, self.world.pods(app))))

    def pods_by_domain(self, app: str, topology_key: str) -> dict[str, int]:
        """Count the pods of a workload in each domain of a label, those without any included."""
        domains = {node.name: node.labels[topology_key] for node in self.state.store(Node)}
        counts = Counter(domains[node_of(pod)] for pod in self.world.pods(app))
        return {domain: counts[domain] for domain in set(domains.values())}

    def _now(self) -> float:
        return self.world.clock.now()

    def _decoded(self, resource: str, obj: Any) -> Any:  # a JSON object, a record of any kind
        return self._codecs[resource].decode_object(json.dumps(obj).encode())

    def _follow(self, event: Event) -> None:
        if event.resource not in self._codecs:
            return
        record = self._decoded(event.resource, event.object)
        gone = event.type == "DELETED"
        self.apply(self.state.remove(record) if gone else self.state.upsert(record))

    def apply(self, changes: list[Change]) -> None:
        """Let the gates and plugins follow what changed in the state."""
        ChangeFollowers(self.gates.followers).apply(changes, self._now())
        self._evaluator.apply_changes(changes, self._now())
        self._follow_up()

    def _follow_up(self) -> None:
        self.ended += self.gates.moves.take_ended()
        for moved in self.gates.moves.take_arrivals():
            changes = self.state.upsert(moved) if moved.pods else self.state.remove(moved)
            self._evaluator.apply_changes(changes, self._now())
        self._evaluator.apply_changes(self.gates.room_for_moves(), self._now())

    def _work(self) -> None:
        self.gates.moves.expire(self._now())
        self._follow_up()
        for evaluation in list(self._evaluator.process_due(self._now(), lambda: False)):
            self.evaluations.append(evaluation)
            if isinstance(evaluation.decision, Evict):
                self._evict(evaluation)

    def _evict(self, evaluation: Evaluation) -> None:
        name = evaluation.finding.pod.name
        try:
            self.world.evict(name)
        except ReactiveDeschedError as refusal:
            outcome = PDB_REFUSED_EVICTION.outcome(str(refusal))
        else:
            self.evicted.append(name)
            self.evicted_at_s.append(self._now())
            outcome = EVICTION_ACCEPTED.outcome()
        self.gates.ledger.end(evaluation.finding.pod.uid, outcome, self._now())
        self._evaluator.settle(evaluation, outcome, self._now())
        self._follow_up()
