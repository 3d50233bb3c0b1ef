"""The long parts of all pods have a bound together: beyond it they are not read, and pods held."""

import gc
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from reactive_desched.kube.codec import AnyCodec, make_codecs
from reactive_desched.model.objects import Pod
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.state.kinds.long_texts import LongTexts

JSON = dict[str, Any]  # any JSON object
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def written(number: int, namespace: str = "shop") -> JSON:
    return {
        "metadata": {
            "name": f"web-{number}",
            "namespace": namespace,
            "uid": f"uid-{number}",
            "generation": 1,
            "labels": {"app": "web"},
        },
        "spec": {
            "nodeName": "n1",
            "containers": [
                {"name": "app", "image": "app", "resources": {"requests": {"cpu": "250m"}}}
            ],
        },
        "status": {"phase": "Running", "observedGeneration": 1},
    }


def many_labels(pod: JSON, number: int) -> None:
    pod["metadata"]["labels"] = {f"{number:x}-{each}": "" for each in range(1_000)}


def many_owners(pod: JSON, number: int) -> None:
    pod["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "K", "name": f"o{number}", "uid": f"{number}-{each}"}
        for each in range(400)
    ]


def long_annotation(pod: JSON, number: int) -> None:
    pod["metadata"]["annotations"] = {
        "descheduler.alpha.kubernetes.io/evict": f"{number}" + "x" * 10_000
    }


def many_tolerations(pod: JSON, number: int) -> None:
    pod["spec"]["tolerations"] = [
        {"key": f"{number:x}-{each}", "operator": "Exists"} for each in range(250)
    ]


def many_terms(pod: JSON, number: int) -> None:
    labels = [{f"{number:x}-{term}-{each}": "v" for each in range(40)} for term in range(16)]
    pod["spec"]["affinity"] = {
        "podAntiAffinity": {
            REQUIRED: [
                {"topologyKey": "z", "labelSelector": {"matchLabels": each}} for each in labels
            ]
        }
    }


def many_requirements(pod: JSON, number: int) -> None:
    values = [str(each) for each in range(30)]
    expressions = [
        {"key": f"{number:x}-{each}", "operator": "In", "values": values} for each in range(120)
    ]
    pod["spec"]["affinity"] = {
        "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
    }


def many_containers(pod: JSON, number: int) -> None:
    pod["spec"]["containers"] = [
        {
            "name": f"c{each}",
            "image": f"registry.example/team/app-{number}-{each}",
            "resources": {"requests": {"cpu": f"{each}m"}},
        }
        for each in range(120)
    ]


def many_volumes(pod: JSON, number: int) -> None:
    pod["spec"]["volumes"] = [
        {"name": "v", "persistentVolumeClaim": {"claimName": f"{number:x}-{each}"}}
        for each in range(400)
    ]


def many_made_claims(pod: JSON, number: int) -> None:
    pod["status"]["resourceClaimStatuses"] = [
        {"name": f"c{each}", "resourceClaimName": f"{number:x}-{each}"} for each in range(400)
    ]


Part = Callable[[JSON, int], None]
PARTS = [
    pytest.param(many_labels, "labels", id="labels"),
    pytest.param(many_owners, "ownerReferences", id="owners"),
    pytest.param(long_annotation, "annotations", id="an annotation"),
    pytest.param(many_tolerations, "spec", id="tolerations"),
    pytest.param(many_terms, "spec", id="affinity terms"),
    pytest.param(many_requirements, "spec", id="node affinity"),
    pytest.param(many_containers, "spec", id="containers"),
    pytest.param(many_volumes, "claims", id="volumes"),
    pytest.param(many_made_claims, "claims", id="claims that were made"),
]


class Reader:
    """Reads pods as `run` does, with so much room for long parts."""

    def __init__(self, room: int = 10**12) -> None:
        self.long_texts = LongTexts(room)
        self.tables = InternTables(reads_all=False, long_texts=self.long_texts)
        self.state = ClusterState()
        self._codec: AnyCodec = make_codecs(self.tables, self.state)["pods"]

    def read(self, pod: JSON) -> Pod:
        found: Pod = self._codec.decode_object(json.dumps(pod, separators=(",", ":")).encode())
        return found

    def read_part(self, part: Part, number: int, namespace: str = "shop", of: int = 0) -> Pod:
        """Read a pod with a part, which is as that of another pod where `of` names it."""
        pod = written(number, namespace)
        part(pod, of or number)
        return self.read(pod)

    def sweep(self) -> None:
        for _ in range(4):
            self.tables.sweep(100_000)


@pytest.fixture(name="size_of")
def fixture_size_of() -> Callable[[Part], int]:
    def size_of(part: Part) -> int:
        reader = Reader()
        reader.read_part(part, 1)
        return reader.long_texts.held_bytes

    return size_of


@pytest.mark.parametrize(("part", "name"), PARTS)
def test_a_part_for_which_there_is_no_room_is_not_read_and_its_pod_is_marked(
    part: Part, name: str, size_of: Callable[[Part], int]
) -> None:
    reader = Reader(room=5 * size_of(part))  # half of it for a namespace: two parts
    pods = [reader.read_part(part, number) for number in (1, 2, 3)]

    assert [pod.spec.unread.partition(" ")[0] for pod in pods] == ["", "", name]
    assert pods[2].generation == 0, "each later change of it is read as a whole"
    assert reader.long_texts.refused == 1
    assert reader.long_texts.held_bytes <= 2.5 * size_of(part)


@pytest.mark.parametrize(("part", "name"), PARTS)
def test_what_a_part_is_counted_as_is_no_less_than_what_it_takes(part: Part, name: str) -> None:
    reader = Reader()
    kept = [reader.read_part(part, number) for number in (1, 2, 3)]
    counted = reader.long_texts.held_bytes
    pods = [written(number) for number in range(4, 24)]
    for number, pod in enumerate(pods, 4):
        part(pod, number)
    gc.collect()
    tracemalloc.start()

    kept += map(reader.read, pods)

    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert not any(pod.spec.unread for pod in kept), name
    assert taken < 1.1 * (reader.long_texts.held_bytes - counted)


@pytest.mark.parametrize(("part", "name"), PARTS)
def test_pods_that_share_a_part_take_its_room_once(
    part: Part, name: str, size_of: Callable[[Part], int]
) -> None:
    reader = Reader(room=5 * size_of(part))

    pods = [reader.read_part(part, number, of=1) for number in range(1, 9)]

    assert not any(pod.spec.unread for pod in pods), name


@pytest.mark.parametrize(("part", "name"), PARTS)
def test_there_is_room_again_once_no_pod_has_the_part(
    part: Part, name: str, size_of: Callable[[Part], int]
) -> None:
    reader = Reader(room=2 * size_of(part) + 1_000)
    kept = [reader.read_part(part, 1), reader.read_part(part, 2)]
    assert [bool(pod.spec.unread) for pod in kept] == [False, True], name
    kept.clear()

    reader.sweep()

    assert reader.long_texts.held_bytes == 0
    assert not reader.read_part(part, 2).spec.unread


def test_one_namespace_takes_half_of_the_room_and_another_one_has_the_rest(
    size_of: Callable[[Part], int],
) -> None:
    reader = Reader(room=5 * size_of(many_labels))
    greedy = [reader.read_part(many_labels, number, "greedy") for number in range(1, 6)]

    others = [reader.read_part(many_labels, number) for number in (6, 7)]

    assert [bool(pod.spec.unread) for pod in greedy] == [False, False, True, True, True]
    assert not any(pod.spec.unread for pod in others)


def test_a_pod_whose_spec_is_not_read_still_requests_what_it_does() -> None:
    reader = Reader(room=0)

    pod = reader.read_part(many_tolerations, 1)

    assert pod.spec.requests["cpu"] == 250
    assert all(each.operator == "Exists" and not each.key for each in pod.spec.tolerations)


def test_an_update_is_held_for_labels_that_it_brings() -> None:
    reader = Reader(room=0)
    pod = written(1) | {"status": {"phase": "Running", "observedGeneration": 1}}
    pod["metadata"] |= {"resourceVersion": "1", "uid": "uid-1"}
    pod["status"]["containerStatuses"] = [
        {"name": "app", "resources": {"requests": {"cpu": "250m"}}}
    ]
    known = reader.read(pod)
    assert known.generation == 1
    reader.state.upsert(known)
    many_labels(pod, 1)
    codec: AnyCodec = make_codecs(reader.tables, reader.state)["pods"]
    line = {"type": "MODIFIED", "object": pod}

    event = codec.decode_event(json.dumps(line, separators=(",", ":")).encode())

    assert event.object is not None
    assert event.object.spec.unread.startswith("labels")
    assert event.object.labels == {}


def test_a_pod_that_cannot_be_read_leaves_no_mark_on_the_next() -> None:
    reader = Reader(room=0)
    broken = written(1)
    many_labels(broken, 1)
    broken["metadata"]["ownerReferences"] = "none"

    with pytest.raises(Exception, match="ownerReferences"):
        reader.read(broken)

    assert not reader.read(written(2)).spec.unread


def test_what_is_said_names_the_namespace_that_takes_most_and_ends_with_the_shortage(
    size_of: Callable[[Part], int],
) -> None:
    reader = Reader(room=5 * size_of(many_labels))
    kept = [reader.read_part(many_labels, number, "greedy") for number in range(1, 4)]
    assert "namespace greedy" in reader.long_texts.message()
    kept.clear()

    reader.sweep()

    assert not reader.long_texts.message()


def test_a_snapshot_reads_all() -> None:
    reader = Reader(room=0)
    reader.tables = InternTables(long_texts=LongTexts(0))
    pod = written(1)
    many_labels(pod, 1)

    found: Pod = make_codecs(reader.tables)["pods"].decode_object(json.dumps(pod).encode())

    assert len(found.labels) == 1_000
