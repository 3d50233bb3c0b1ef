"""A few pods on two nodes that change by chance, to check what holds after each step.

The cluster is tiny and full from the start, so that changes collide often.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from msgspec.structs import replace

from reactive_desched.model.objects import ClusterObject, Namespace, Node, Pod
from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import AnyPlugin, Scenario

Step = tuple[Any, ...]  # what happens, and what that takes
Aspects = Mapping[str, Any]  # any arguments of `pod`

TWICE_AS_MANY = settings(max_examples=2 * settings().max_examples)
"""Where a plugin that misses one kind of change often passes the usual number of examples."""

_NODES = st.builds(
    lambda name, ready: node(name, ready=ready),
    st.sampled_from(["n1", "n2"]),
    st.sampled_from(["True", "True", "False"]),
)


def random_steps(
    names: Iterable[str], aspects: Mapping[str, SearchStrategy[Any]], waits_s: Iterable[float]
) -> SearchStrategy[list[Step]]:
    """Draw what happens: a pod has another aspect or goes, a node changes or goes, time passes."""
    pods = st.sampled_from(sorted(names))
    changes = [
        st.tuples(st.just("turn"), pods, st.just(aspect), values)
        for aspect, values in aspects.items()
    ]
    other_steps = [
        st.tuples(st.just("apply"), _NODES),
        st.tuples(st.just("remove"), _NODES | st.builds(pod, pods)),
        st.tuples(st.just("wait"), st.sampled_from(list(waits_s))),
    ]
    return st.lists(st.one_of(*changes, *other_steps), min_size=15, max_size=30)


def run_steps(
    steps: Iterable[Step], plugin: AnyPlugin, pods: Mapping[str, Aspects], now_s: float = 0.0
) -> Iterator[Scenario]:
    """Let the steps happen to a cluster of these pods; stops after each for a look at it."""
    are = {name: dict(aspects) for name, aspects in pods.items()}
    begun = (pod(name, **aspects) for name, aspects in are.items())
    cluster = Scenario(plugin, node("n1"), node("n2"), *begun, now_s=now_s)
    for what, *of in steps:
        if what == "turn":
            name, aspect, value = of
            are[name][aspect] = value
            cluster.apply(pod(name, **are[name]))
        else:
            getattr(cluster, what)(*of)
        yield cluster


def in_one_field(cluster: Scenario, drawn: Node | Pod | Namespace, field: str) -> ClusterObject:
    """Return an object as the cluster has it, but for one field, which is as drawn.

    It is all as drawn if the cluster has none of this key. Where updates differ in several fields,
    a plugin that misses one of them is woken by the others.
    """
    known = cluster.state.store(type(drawn)).get(drawn.key)
    return drawn if known is None else replace(known, **{field: getattr(drawn, field)})
