"""Pods of a known age: a cluster of one node that begins at a known second."""

from reactive_desched.model.objects import Pod
from reactive_desched.testing.builders import node
from reactive_desched.testing.scenario import AnyPlugin, Scenario

NOW = 1_000_000
HOUR = 3600


def scenario_at_now(plugin: AnyPlugin, *pods: Pod) -> Scenario:
    """Begin at `NOW`, with pods on n1 under a plugin."""
    return Scenario(plugin, node("n1"), *pods, now_s=NOW)
