"""The floor does the same work as the controller: the same lists, the same pods, the same sums."""

import subprocess
import sys

import msgspec

from bench.floor.kinds import PODS, WIRE_TYPES, Kept
from bench.floor.pods import PodEvent, PodSharing, PodStore, WirePod
from bench.generate import Dataset
from bench.resources import Versions
from bench.scripts import SCRIPTS
from reactive_desched.model.objects import Pod
from reactive_desched.model.resources import CPU, MEMORY
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.state.resources import WATCHED_KINDS
from tests.support.codecs import make_codecs


def stored(data: Dataset) -> PodStore:
    sharing, store, items = PodSharing(), PodStore(), data.items("pods")
    for number in range(len(items)):
        store.upsert(sharing.record(msgspec.json.decode(items.item(number), type=WirePod)))
    return store


def test_the_floor_lists_what_the_controller_lists_and_the_bench_generates(small: Dataset) -> None:
    generated = {kind.path for name, kind in WATCHED_KINDS.items() if len(small.items(name))}
    assert set(WIRE_TYPES) == generated


def test_the_floor_imports_nothing_of_the_controller() -> None:
    script = "import sys, bench.floor.__main__; print([m for m in sys.modules if 'desched' in m])"
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, stdout=subprocess.PIPE, text=True
    )
    assert done.stdout.strip() == "[]"


def test_each_node_has_the_sums_that_the_controller_has(small: Dataset) -> None:
    state, read, items = ClusterState(), make_codecs(InternTables()), small.items("pods")
    for number in range(len(items)):
        state.upsert(read.pods.decode_object(items.item(number)))

    nodes = stored(small).nodes

    assert {name: (node.pods, node.cpu_m, node.memory) for name, node in nodes.items()} == {
        info.name: (set(info.active), info.requested[CPU], info.requested[MEMORY])
        for info in state.node_infos()
    }


def test_the_floor_keeps_of_each_pod_what_the_controller_keeps(small: Dataset) -> None:
    read, items = make_codecs(InternTables()).pods.decode_object, small.items("pods")
    ours: dict[str, Pod] = {
        pod.uid: pod for pod in (read(items.item(number)) for number in range(len(items)))
    }

    pods = stored(small).pods

    assert pods.keys() == ours.keys()
    for uid, kept in pods.items():
        pod = ours[uid]
        assert (kept.name, kept.namespace, kept.node) == (pod.name, pod.namespace, pod.node)
        assert (kept.version, kept.created_s) == (pod.resource_version, pod.created_s)
        assert kept.labels == pod.labels
        assert [owner["uid"] for owner in kept.owners] == [owner.uid for owner in pod.owners]
        assert kept.status[0] == pod.status.phase
        assert kept.times[:-1] == pod.condition_transitions
        assert kept.claims == pod.pvc_names
        assert len(kept.template.tolerations) == len(pod.spec.tolerations)
        assert not kept.resized


def test_siblings_share_their_template(small: Dataset) -> None:
    templates = {id(pod.template) for pod in stored(small).pods.values()}

    assert 1 < len(templates) <= len(small.cluster.owners)


def test_a_status_that_changes_replaces_the_pod_and_no_sum(small: Dataset) -> None:
    store, sharing = stored(small), PodSharing()
    before = {name: (node.cpu_m, set(node.pods)) for name, node in store.nodes.items()}
    event = next(SCRIPTS["status"](small.cluster, Versions(), 0))
    line = b'{"type":"MODIFIED","object":' + event.obj + b"}"
    changed = sharing.record(msgspec.json.decode(line, type=PodEvent).object)

    store.upsert(changed)

    assert store.pods[changed.uid] is changed
    assert {name: (node.cpu_m, set(node.pods)) for name, node in store.nodes.items()} == before


def test_a_pod_that_is_deleted_leaves_the_sums_of_its_node(small: Dataset) -> None:
    store = stored(small)
    pod = next(iter(store.pods.values()))
    node = store.nodes[pod.node]
    cpu_m = node.cpu_m

    store.remove(pod.uid)

    assert pod.uid not in node.pods
    assert node.cpu_m == cpu_m - pod.template.cpu_m


def test_a_pod_that_ends_stays_and_leaves_the_sums_of_its_node(small: Dataset) -> None:
    store = stored(small)
    pod = next(iter(store.pods.values()))
    node = store.nodes[pod.node]
    cpu_m = node.cpu_m
    ended = msgspec.structs.replace(pod, status=("Succeeded", *pod.status[1:]))

    store.upsert(ended)

    assert store.pods[pod.uid] is ended
    assert pod.uid not in node.pods
    assert node.cpu_m == cpu_m - pod.template.cpu_m


def test_every_item_of_every_list_is_kept(small: Dataset) -> None:
    kept = Kept()
    for resource, kind in WATCHED_KINDS.items():
        items = small.items(resource)
        for number in range(len(items)):
            if kind.path != PODS:
                kept.keep(
                    kind.path, msgspec.json.decode(items.item(number), type=WIRE_TYPES[kind.path])
                )
        if kind.path != PODS and len(items):
            assert len(kept.objects[kind.path]) == len(items)
