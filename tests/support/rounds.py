"""Rounds of a plugin in the simulated cluster: plan, evict, let the scheduler place, look again."""

import json

import msgspec

from reactive_desched.api.plugin import next_opinion
from reactive_desched.controller.instances import plugin_instances
from reactive_desched.gate.eviction_controls import EvictionControls
from reactive_desched.kube.codec import make_codecs
from reactive_desched.ledger.ledger import EvictionLedger
from reactive_desched.model.changes import Resynced
from reactive_desched.model.decisions import Evict
from reactive_desched.model.findings import Finding
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.policy import AnyPlugin
from reactive_desched.sim.resources import RESOURCES
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.state.kinds.interning import InternTables
from tests.support.configurations import make_configuration, make_profile_of
from tests.support.sim_world import SimulatedCluster

SETTLED_S = 30.0
"""Evicted pods are gone by then, and their replacements run."""


def state_of(world: SimulatedCluster) -> ClusterState:
    """Read the simulated cluster as a controller does that starts now."""
    state, codecs = ClusterState(), make_codecs(InternTables())
    for resource in codecs.keys() & RESOURCES.keys():  # the simulator has no NodeMetrics
        codec = codecs[resource]
        for stored in world.store.list(resource):
            state.upsert(codec.decode_object(msgspec.Raw(json.dumps(stored).encode())))
    return state


def run_round(
    world: SimulatedCluster, plugin: AnyPlugin, evictor: DefaultEvictorArgs | None = None
) -> list[str]:
    """Plan with the real gates, evict what they agree to, and wait; name the evicted pods."""
    state, now = state_of(world), world.clock.now()
    config = make_configuration((make_profile_of("p", (plugin,), evictor),))
    view = ClusterView(state, lambda: now)
    gates = EvictionControls(view, lambda: now, config, EvictionLedger(view))
    [instance] = plugin_instances(config, state, gates, lambda: now)
    evicted: list[str] = []
    for subject in list(plugin.subjects(Resynced(), instance.view)):
        opinions, decision = plugin.evaluate(subject, instance.view), None
        while (opinion := next_opinion(opinions, decision)) is not None:
            decision = None
            if isinstance(opinion, Finding):
                decision = instance.gate.decide(opinion, now)
                if isinstance(decision, Evict):
                    evicted.append(opinion.pod.name)
    for name in evicted:
        world.evict(name)
    world.advance(SETTLED_S)
    return evicted
