"""Samples of real use enter the cluster state like objects, and announce their node."""

from reactive_desched.model.changes import NodeUsageChanged
from reactive_desched.model.usage import NodeUsage
from reactive_desched.state.cluster import ClusterState


def sample(cpu: int, source: str = "KubernetesMetrics") -> NodeUsage:
    return NodeUsage(source, "n1", {"cpu": cpu}, sampled_s=1.0)


def test_a_sample_replaces_the_one_before_of_its_source_and_node() -> None:
    state = ClusterState()

    changes = [
        *state.upsert(sample(100)),
        *state.upsert(sample(200)),
        *state.upsert(sample(7, "p")),
    ]

    assert changes == [
        NodeUsageChanged("n1", "KubernetesMetrics"),
        NodeUsageChanged("n1", "KubernetesMetrics"),
        NodeUsageChanged("n1", "p"),
    ]
    assert list(state.store(NodeUsage)) == [sample(200), sample(7, "p")]


def test_a_sample_that_is_removed_leaves_the_use_unknown() -> None:
    state = ClusterState()
    state.upsert(sample(100))

    assert state.remove(sample(100)) == [NodeUsageChanged("n1", "KubernetesMetrics")]
    assert state.store(NodeUsage).get("KubernetesMetrics/n1") is None
