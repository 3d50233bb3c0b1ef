"""Samples of real use enter the cluster state like objects; what they alter, indexes announce."""

from reactive_desched.model.usage import NODE_METRIC, NodeMetric, NodeUsage
from reactive_desched.state.cluster import ClusterState
from tests.support.sample_changes import NodeUsageChanged, SampleChanges


def sample(cpu: int, source: str = "KubernetesMetrics") -> NodeUsage:
    return NodeUsage(source, "n1", {"cpu": cpu}, sampled_s=1.0)


def test_a_sample_replaces_the_one_before_of_its_source_and_node() -> None:
    state = ClusterState()

    for each in (sample(100), sample(200), sample(7, "p")):
        state.upsert(each)

    assert list(state.store(NodeUsage)) == [sample(200), sample(7, "p")]


def test_a_sample_that_is_removed_leaves_the_use_unknown() -> None:
    state = ClusterState()
    state.upsert(sample(100))

    state.remove(sample(100))

    assert state.store(NodeUsage).get("KubernetesMetrics/n1") is None


def test_a_sample_is_no_change_but_to_an_index_that_announces_one() -> None:
    state = ClusterState()
    metric = NodeMetric(NODE_METRIC, "n1", {"cpu": 1}, 1.0, {}, uid="n1")
    assert [*state.upsert(sample(100)), *state.upsert(metric)] == []

    state.keep_indexes([(SampleChanges, None)])

    assert state.upsert(sample(200)) == [NodeUsageChanged("n1", "KubernetesMetrics")]
    assert state.remove(sample(200)) == [NodeUsageChanged("n1", "KubernetesMetrics")]
    assert state.remove(metric) == [NodeUsageChanged("n1", NODE_METRIC)]
