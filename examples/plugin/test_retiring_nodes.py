"""Which pods the plugin flags, in a small cluster in memory."""

from retiring_nodes import (  # type: ignore[import-not-found]  # a package of its own
    RetiringNodesArgs,
    RetiringNodesPlugin,
)

from reactive_desched.testing.builders import node, pod
from reactive_desched.testing.scenario import Scenario

plugin = RetiringNodesPlugin(RetiringNodesArgs())


def test_a_new_label_flags_the_pods_of_its_node_alone() -> None:
    cluster = Scenario(plugin, node("n1"), node("n2"), pod("web", on="n1"), pod("db", on="n2"))
    assert cluster.flagged() == set()

    cluster.apply(node("n1", labels={"example.org/retire": "2030-01"}))

    assert cluster.flagged() == {"web"}
    assert cluster.flagged() == cluster.flagged_by_full_scan()
