"""The generated cluster is realistic, complete and the same every time."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench.generate import Cluster, Dataset, ensure
from bench.pod_json import DEDICATED_TAINT, FLAP_TAINT, PROBE_TAINT
from bench.workloads import CANARY, generate_workloads, is_dedicated_node
from reactive_desched.model.objects import Job, Pod, ReplicaSet
from reactive_desched.model.taints import Taint, untolerated
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.state.indexes.owners import OwnerIndex
from reactive_desched.state.kinds.interning import InternTables
from tests.support.codecs import make_codecs


def pods_of(data: Dataset) -> list[dict[str, Any]]:
    items = data.items("pods")
    return [json.loads(items.item(number)) for number in range(len(items))]


def test_every_pod_that_was_asked_for_has_a_name_and_uid_of_its_own(small: Dataset) -> None:
    pods = pods_of(small)

    names = {(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in pods}
    assert len(names) == small.cluster.pods
    assert len({pod["metadata"]["uid"] for pod in pods}) == small.cluster.pods


def test_pods_stand_in_the_order_in_which_etcd_lists_them(small: Dataset) -> None:
    keys = [(p["metadata"]["namespace"], p["metadata"]["name"]) for p in pods_of(small)]

    assert keys == sorted(keys)


def test_a_pod_and_a_node_are_as_large_as_in_a_real_cluster(small: Dataset) -> None:
    pods, nodes = small.items("pods"), small.items("nodes")

    assert 9_000 < pods.offsets[-1] / len(pods) < 12_000
    assert 10_000 < nodes.offsets[-1] / len(nodes) < 12_000


def test_the_same_numbers_give_the_same_bytes(small: Dataset, tmp_path: Path) -> None:
    again = ensure(small.cluster.pods, small.cluster.nodes, tmp_path)

    for resource in ("pods", "nodes", "persistentvolumeclaims"):
        stored = (small.folder / f"{resource}.json").read_bytes()
        assert (again.folder / f"{resource}.json").read_bytes() == stored


def test_older_data_of_the_same_size_is_removed(tmp_path: Path) -> None:
    older, other = tmp_path / "5x50-older", tmp_path / "6x60-other"
    older.mkdir()
    other.mkdir()

    ensure(50, 5, tmp_path)

    assert not older.exists()
    assert other.exists()


def test_no_mark_of_a_template_is_left_open(small: Dataset) -> None:
    assert b"@@" not in (small.folder / "pods.json").read_bytes()


@pytest.mark.parametrize(("pods", "nodes"), [(50, 5), (6_000, 200), (150_000, 5_000)])
def test_owners_own_exactly_the_pods_asked_for(pods: int, nodes: int) -> None:
    assert sum(owner.size for owner in generate_workloads(pods, nodes)) == pods


def test_at_full_size_a_template_has_some_thirty_pods_and_daemons_are_a_fifth() -> None:
    owners = list(generate_workloads(150_000, 5_000))
    sizes = Counter[str]()
    for owner in owners:
        sizes[owner.kind] += owner.size

    assert 25 < 150_000 / len(owners) < 40
    assert 0.15 < sizes["DaemonSet"] / 150_000 < 0.25


def test_replicas_of_one_owner_never_share_a_node() -> None:
    cluster = Cluster(6_000, 200)
    for owner in cluster.owners:
        nodes = {owner.node_of(ordinal, cluster.nodes) for ordinal in range(owner.size)}
        assert len(nodes) == owner.size, owner


def test_only_pods_that_tolerate_it_are_on_a_dedicated_node() -> None:
    cluster = Cluster(6_000, 200)
    for owner in cluster.owners:
        there = {
            is_dedicated_node(owner.node_of(ordinal, cluster.nodes), cluster.nodes)
            for ordinal in range(owner.size)
        }
        assert owner.kind == "DaemonSet" or there == {owner.is_dedicated}, owner


def decoded_pods(data: Dataset) -> list[Pod]:
    read, items = make_codecs(InternTables()).pods.decode_object, data.items("pods")
    return [read(items.item(number)) for number in range(len(items))]


def test_our_own_decoder_reads_every_pod_and_its_node(small: Dataset) -> None:
    read, nodes = make_codecs(InternTables()).nodes.decode_object, small.items("nodes")
    names = {read(nodes.item(number)).name for number in range(len(nodes))}

    pods = decoded_pods(small)

    assert {pod.node for pod in pods} <= names
    assert all(pod.is_active and pod.status.is_ready and pod.spec.requests for pod in pods)


def test_siblings_share_their_specs_once_decoded(small: Dataset) -> None:
    pods = [pod for pod in decoded_pods(small) if pod.owners[0].name.startswith(CANARY)]

    assert len(pods) > 1
    assert len({id(pod.spec) for pod in pods}) == 1


def test_the_probe_taint_drives_out_the_canary_and_no_other_pod(small: Dataset) -> None:
    probe = Taint(PROBE_TAINT, "NoSchedule")

    leaving = {p.owners[0].name for p in decoded_pods(small) if not tolerated(p, probe)}

    assert leaving == {o.name for o in small.cluster.owners if o.is_canary}


def test_the_taints_that_nodes_have_or_get_for_a_moment_evict_no_pod(small: Dataset) -> None:
    read, items = make_codecs(InternTables()).nodes.decode_object, small.items("nodes")
    nodes = {node.name: node for node in (read(items.item(n)) for n in range(len(items)))}
    flap = Taint(FLAP_TAINT, "NoSchedule")

    assert {t.key for node in nodes.values() for t in node.taints} == {DEDICATED_TAINT}
    for pod in decoded_pods(small):
        assert all(tolerated(pod, taint) for taint in (flap, *nodes[pod.node].taints)), pod


def tolerated(pod: Pod, taint: Taint) -> bool:
    return next(untolerated(pod.spec.tolerations, (taint,)), None) is None


def test_every_replica_set_and_job_leads_to_a_controller_and_most_have_no_pods(
    small: Dataset,
) -> None:
    state, read = ClusterState(), make_codecs(InternTables())
    for made, resource in ((read.replica_sets, "replicasets"), (read.jobs, "jobs")):
        items = small.items(resource)
        for number in range(len(items)):
            state.upsert(made.decode_object(items.item(number)))
    view = ClusterView(state, lambda: 0)

    above = {"ReplicaSet": "Deployment", "Job": "CronJob"}
    for pod in decoded_pods(small):
        kinds = [owner.kind for owner in view.index(OwnerIndex).chain(pod)]
        assert kinds == [*kinds[:1], *([above[kinds[0]]] if kinds[0] in above else [])]
    with_pods = {owner.kind for owner in small.cluster.owners} & above.keys()
    assert with_pods == above.keys()
    tries = [job.tries for job in state.store(Job)]
    assert {each is not None and each.is_over for each in tries} == {True, False}
    owned = sum(owner.kind == "ReplicaSet" for owner in small.cluster.owners)
    assert owned < len(state.store(ReplicaSet)) / 3


def test_a_replica_set_is_as_large_as_in_a_real_cluster(small: Dataset) -> None:
    items = small.items("replicasets")

    assert 6_000 < items.offsets[-1] / len(items) < 11_000
    for resource in ("replicasets", "jobs"):
        assert b"@@" not in (small.folder / f"{resource}.json").read_bytes()
