"""What a sweep with one plugin evicts from a small cluster, as `plan` would."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from reactive_desched.model.decisions import Evict
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.policy import AnyPlugin
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.sweep.cycle import Cycle
from tests.support.configurations import make_policy, make_profile_of


def swept(
    plugin: AnyPlugin,
    *objects: Any,  # objects of every kind, and samples
    limits: Mapping[str, int | None] | None = None,
    **evictor: Any,  # any argument of the default evictor, as policies write it
) -> list[str]:
    """Name the pods that a sweep evicts, in order; every eviction succeeds."""
    return list(_evicted(plugin, objects, limits, DefaultEvictorArgs.model_validate(evictor)))


def _evicted(
    plugin: AnyPlugin,
    objects: Iterable[Any],
    limits: Mapping[str, int | None] | None,
    evictor: DefaultEvictorArgs,
) -> Iterator[str]:
    state = ClusterState()
    for obj in objects:
        state.upsert(obj)
    policy = make_policy((make_profile_of("p", (plugin,), evictor),), limits=limits)
    cycle = Cycle(policy, state, ClusterView(state, lambda: 0.0))
    for decided in cycle.run():
        if isinstance(decided.decision, Evict):
            yield decided.finding.pod.name
            cycle.confirm(decided)
