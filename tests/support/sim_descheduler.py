"""The controller's decisions on a simulated cluster, on its virtual time, without any task."""

import json
from typing import NamedTuple

from reactive_desched.controller.backoff import PodBackoff
from reactive_desched.controller.controller import plugin_instances
from reactive_desched.controller.evaluator import Evaluator
from reactive_desched.gate.factory import GateFactory
from reactive_desched.kube.codec import ResourceCodec
from reactive_desched.model.changes import Change
from reactive_desched.model.decisions import Evict
from reactive_desched.model.evaluation import Evaluation
from reactive_desched.model.outcomes import EVICTED, PDB_REFUSED, Outcome
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.guards import GuardSettings
from reactive_desched.policy.policy import AnyPlugin
from reactive_desched.primitives.debounce import DebounceConfig
from reactive_desched.sim.eviction import evict
from reactive_desched.sim.objects import name_of
from reactive_desched.sim.resources import RESOURCES
from reactive_desched.sim.status import StatusError
from reactive_desched.sim.store import DeleteOptions, Event
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.state.resources import WATCHED_KINDS
from reactive_desched.state.view import ClusterView
from reactive_desched.sweep.cycle import Cycle
from tests.support.configurations import UNGUARDED, make_configuration, make_profile_of
from tests.support.sim_world import SimulatedCluster

SHORTLY = DebounceConfig(1, 5)


class Move(NamedTuple):
    """An eviction: when, in seconds of virtual time, of which pod, from where."""

    at_s: float
    pod: str
    node: str


class SimulatedDescheduler:
    """Plugins, gates and evaluator over a simulated cluster; what they decide is carried out.

    `moves` are the evictions so far.
    """

    def __init__(
        self,
        world: SimulatedCluster,
        *plugins: AnyPlugin,
        evictor: DefaultEvictorArgs | None = None,
        debounce: DebounceConfig = SHORTLY,
        guards: GuardSettings = UNGUARDED,
    ) -> None:
        self.world = world
        self.moves: list[Move] = []
        self._now = world.clock.now
        self._config = make_configuration(
            (make_profile_of("test", plugins, evictor),), debounce=debounce, guards=guards
        )
        tables = InternTables()
        self._codecs = {
            resource: ResourceCodec(kind, tables)
            for resource, kind in WATCHED_KINDS.items()
            if resource in RESOURCES
        }
        self.state = ClusterState()
        self.view = ClusterView(self.state, self._now)
        self._gates = GateFactory(self.view, self._now, self._config)
        instances = plugin_instances(self._config, self.state, self._gates, self._now)
        backoff = PodBackoff(self._config.settings.evictions.retry)
        self._evaluator = Evaluator(instances, backoff, self._gates.node_fit)
        for resource in self._codecs:
            for obj in world.store.list(resource):
                self._observe(Event("ADDED", resource, obj, None, 0))
        self._evaluator.resync(self._now())
        world.store.subscribe(self._observe)

    def run(self, seconds: float) -> "SimulatedDescheduler":
        """Let time pass; decide at once when something is due."""
        end = self._now() + seconds
        while True:
            self._work()
            steps = (self.world.cluster.next_due(), self._evaluator.next_due(self._now()))
            step = min((due for due in steps if due is not None), default=end)
            if step >= end:
                self.world.advance(end - self._now())
                return self
            self.world.advance(max(0.0, step - self._now()))

    def found_by_sweep(self) -> list[str]:
        """Name the pods that a sweep would evict now; the evictions are not carried out."""
        state = ClusterState()
        for resource in self._codecs:
            for key in self.state.keys(resource):
                if (known := self.state.get(resource, key)) is not None:
                    state.upsert(known)
        cycle = Cycle(self._config.policy, state, ClusterView(state, self._now))
        found = []
        for decided in cycle.run():
            if isinstance(decided.decision, Evict):
                found.append(decided.finding.pod.name)
                cycle.confirm(decided)
        return found

    def evict_as_a_sweep_would(self) -> list[str]:
        """Evict what a sweep finds, and let the replacements start; return the pods' names."""
        found = self.found_by_sweep()
        for name in found:
            self.world.evict(name)
        self.world.advance(60)
        return found

    def _work(self) -> None:
        now = self._now()
        while (due := self._evaluator.next_due(now)) is not None and due <= now:
            decided = list(self._evaluator.process_due(now, lambda: False))
            for evaluation in decided:
                if isinstance(evaluation.decision, Evict):
                    self._evaluator.settle(evaluation, self._evict(evaluation), now)
            self.world.cluster.settle()

    def _evict(self, evaluation: Evaluation) -> Outcome:
        pod = evaluation.finding.pod
        try:
            evict(self.world.store, pod.namespace, pod.name, DeleteOptions())
        except StatusError as error:
            return Outcome(PDB_REFUSED, str(error))
        self.moves.append(Move(self._now(), pod.name, pod.node))
        return Outcome(EVICTED)

    def _observe(self, event: Event) -> None:
        if (codec := self._codecs.get(event.resource)) is None:
            return
        obj = codec.decode_object(json.dumps(event.object).encode())
        changes: list[Change]
        changes = self.state.remove(obj) if event.type == "DELETED" else self.state.upsert(obj)
        if self._evaluator.started and changes:
            self._gates.apply_changes(changes)
            self._evaluator.apply_changes(changes, self._now())


def nodes_by_count(world: SimulatedCluster, app: str) -> dict[str, int]:
    """Count the pods with a label app=<app> on each node."""
    nodes = {name_of(node): 0 for node in world.store.list("nodes")}
    for node in world.nodes_of_pods(app).values():
        nodes[node] = nodes.get(node, 0) + 1
    return nodes
