"""Tests of the rows of a recording: what is written is what is read."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec
import pytest
from msgspec.structs import replace

from reactive_desched.model.brakes import SavedBrakes, SavedPause
from reactive_desched.model.devices import (
    Attribute,
    Device,
    DeviceAllocation,
    DeviceAlternatives,
    DeviceClass,
    DeviceConstraint,
    DeviceId,
    DeviceRequest,
    DeviceTaintRule,
    NodeScope,
    PoolName,
    ResourceClaim,
    ResourceSlice,
)
from reactive_desched.model.health import HealthAnswer, Symptom
from reactive_desched.model.node_affinity import NodeSelector
from reactive_desched.model.objects import (
    Annotations,
    ClusterObject,
    CSINode,
    NodeImage,
    OwnerReference,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
)
from reactive_desched.model.outcomes import (
    Accepted,
    DryRun,
    EvictionResponse,
    NotFound,
    PdbRefused,
    PodFound,
    PodNotFound,
)
from reactive_desched.model.pod_groups import (
    GroupRule,
    KubernetesPodGroup,
    KubernetesWorkload,
    VolcanoPodGroup,
)
from reactive_desched.model.taints import Taint
from reactive_desched.model.usage import NodeUsage
from reactive_desched.recording import rows
from reactive_desched.recording.items import (
    BrakesHeld,
    ConfigurationInForce,
    EvictionAnswered,
    EvictionSettled,
    HealthAnswered,
    HistoryRead,
    InheritedEnd,
    InheritedEvictionEnded,
    Instant,
    Item,
    JobLookedAt,
    JobOrderEnded,
    JobStepEnded,
    LookedForWork,
    NodesClosed,
    NodeSeen,
    NothingChanged,
    ObjectChanged,
    ObjectFound,
    OrderGiven,
    PauseSet,
    PictureBegun,
    PictureEnded,
    PodLookedUp,
    ProcessBegan,
    RecordingInterrupted,
    RequestWritten,
    ResourceDenied,
    TaintRefused,
    TermChanged,
    UsageMeasured,
    Verb,
    Worked,
)
from reactive_desched.recording.rows import RowReader, RowWriter
from reactive_desched.testing.builders import node, pod

AT = Instant(1_800_000_000.0, 70.0)


def later(seconds: float) -> Instant:
    return Instant(AT.wall_s + seconds, AT.monotonic_s + seconds)


def written_and_read(*frames: Sequence[Item]) -> list[Item]:
    writer, reader, found = RowWriter(), RowReader(), list[Item]()
    for items in frames:
        for item in items:
            writer.add(item)
        taken = writer.take()
        assert taken is not None, "there are items"
        found += reader.read(*taken)
    return found


ITEMS: tuple[Item, ...] = (
    PictureBegun(AT, "1.2.3", "prod", "uid-1", ("nodemetrics",), is_continued=True),
    PictureEnded(later(1), {"pods": 2}),
    UsageMeasured(later(2), NodeUsage("KubernetesMetrics", "n1", {"cpu": 5}, 3.5, {"a/b": {}}, 60)),
    UsageMeasured(later(3), NodeUsage("KubernetesMetrics", "n1", {}, 3.5), is_gone=True),
    ResourceDenied(later(4), "pods"),
    ConfigurationInForce(
        later(5), "policy: ü", "settings", "abc", "policy.yaml", {"dryRun": "true"}
    ),
    PauseSet(later(6), "manual", "a person"),
    HealthAnswered(
        later(6), "x", HealthAnswer("x", (Symptom({"namespace": "shop"}, "7.5"),), more=3)
    ),
    HealthAnswered(later(6), "x", HealthAnswer("x", problem="connection refused")),
    OrderGiven(later(7), "pause", "ann", {"reason": "a change"}),
    TermChanged(later(8), leads=True, identity="a"),
    BrakesHeld(
        later(8), SavedBrakes(SavedPause("ann", "a change", 5.0), "a storm", 6.0), "true", (7.5,)
    ),
    PodLookedUp(later(9), "shop", "web-1", PodNotFound()),
    PodLookedUp(
        later(9), "shop", "web-1", PodFound("uid", True, "reason", 5, annotations={"a": "b"})
    ),
    EvictionAnswered(later(9), "shop", "web-1", "uid", Accepted(), 7.5),
    EvictionAnswered(later(10), "shop", "web-1", "uid", PdbRefused("no", 10.0)),
    ProcessBegan(
        later(10),
        1.0,
        HistoryRead(7, 2.0, "boot", 3000, 4.0),
        5.0,
        6.0,
        (InheritedEnd("u1", "evicted", "EvictionAccepted", "gone", 1.0),),
        ("u2",),
        has_job_steps=True,
    ),
    InheritedEvictionEnded(later(10), InheritedEnd("u2", "unknown")),
    NodeSeen(
        later(10),
        "n1",
        *(1.0, 2.0, 3.0),
        ((Taint("a", "NoSchedule", "b"), 4.0),),
        (("zone", 5.0, None), ("disk", 6.0, "ssd")),
        ("u1", "u2"),
    ),
    NodesClosed(later(10), (("n1", 4.0), ("n2", 5.0))),
    Worked(later(10)),
    Worked(later(10), 17),
    Worked(later(10), ended_after=0),
    Worked(later(10), ended_after=17),
    LookedForWork(later(10)),
    RequestWritten(later(10), "uid", "id-1", is_sent=False),
    EvictionSettled(later(10), "uid", "pdb_refused", "PdbRefused", "no", 10.0, "id-1", 7.5),
    JobLookedAt(later(10), "job", "SetStatus Running//"),
    JobOrderEnded(later(10), "uid", "refused"),
    JobStepEnded(later(10), "job", "refused"),
    JobStepEnded(later(10), "job", is_written=True),
    TaintRefused(later(10), "n1", "emptying"),
    TaintRefused(later(10), "n1", None),
    NothingChanged(later(11)),
    RecordingInterrupted(later(11), "the disk"),
)


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: type(item).__name__)
def test_an_item_is_read_as_it_was_written(item: Item) -> None:
    assert written_and_read([item]) == [item]


def test_each_type_of_item_can_be_written() -> None:
    written = {type(item) for item in ITEMS} | {ObjectFound, ObjectChanged}

    assert written == set(Item.__subclasses__())


def test_each_answer_of_the_api_server_can_be_written() -> None:
    assert set(rows._RESPONSES.values()) == set(EvictionResponse.__subclasses__())
    assert {Accepted, DryRun, NotFound} <= set(rows._RESPONSES.values())


POD = replace(
    pod("web", on="n1", labels={"app": "web"}),
    spec=PodSpec(requests={"cpu": 100}),
    status=PodStatus("Running", conditions=(PodCondition("Ready", "True"),)),
    annotations=Annotations(evict="true", groups=(("a", "b"),)),
    owners=(OwnerReference("ReplicaSet", "web", "u", True, "apps/v1"),),
    pvc_names=("data",),
    start_delay_s=3,
    condition_transitions=(None, 4),
    resize_delta={"cpu": 5},
    generation=2,
    made_claims=(("gpu", "web-gpu"),),
    resource_version=7,
)


GPU = DeviceId("d", "p", "g0")
CLAIM = ResourceClaim(
    "default",
    "gpu",
    requests=(DeviceAlternatives("r", (DeviceRequest("gpu", ("true",)),)),),
    constraints=(DeviceConstraint(("r",), "d/numa"),),
    allocation=DeviceAllocation((GPU,), NodeSelector(), (GPU,)),
    users=("u",),
)
ATTRIBUTES: dict[str, Attribute] = {"model": "a", "numa": 1, "ecc": True, "fw": ("1.2.3",)}
SLICE = ResourceSlice(
    "s",
    pool=PoolName("d", "p"),
    scope=NodeScope("n1"),
    devices=(
        Device("g0", ATTRIBUTES, {"memory": "1Gi"}, (Taint("a", "NoSchedule"),)),
        Device("g1", takes_counters=True, consumes=(("set", "memory", "1Gi"),)),
    ),
    counters=(("set", "memory", "2Gi"),),
)


IMAGES = NodeImage(("app@sha256:0", "app:v1"), 9), NodeImage(("other",))


@pytest.mark.parametrize(
    ("resource", "obj"),
    [
        ("pods", POD),
        ("nodes", node("n1", "gpu:NoSchedule")),
        ("nodes", replace(node("n1"), images=IMAGES)),
        ("csinodes", CSINode("n1", "u", 3, {"ebs": 25})),
        ("resourceclaims", CLAIM),
        ("resourceslices", SLICE),
        ("devicetaintrules", DeviceTaintRule("r", taint=Taint("a", "NoSchedule"), pool="p")),
        ("deviceclasses", DeviceClass("gpu", selectors=("true",))),
        ("podgroups.scheduling.volcano.sh", VolcanoPodGroup("a", "g", rule=GroupRule(3))),
        (
            "podgroups.scheduling.k8s.io",
            KubernetesPodGroup("a", "g", rule=GroupRule(None, True, "All")),
        ),
        (
            "workloads.scheduling.k8s.io",
            KubernetesWorkload("a", "w", groups=(("g", GroupRule(3)), ("h", GroupRule()))),
        ),
    ],
)
def test_an_object_is_read_as_it_was_written(resource: str, obj: ClusterObject) -> None:
    found = ObjectFound(AT, resource, obj)
    changes = [ObjectChanged(later(n), resource, verb, obj) for n, verb in enumerate(Verb)]

    assert written_and_read([found, *changes]) == [found, *changes]


def test_an_image_of_many_nodes_is_written_once() -> None:
    name = "registry.example.com/app@sha256:0123"
    images = (NodeImage((name,), 9),)
    nodes = [replace(node(f"n{number}"), images=(*images,)) for number in range(3)]
    writer = RowWriter()
    for each in nodes:
        writer.add(ObjectFound(AT, "nodes", each))
    taken = writer.take()

    assert taken is not None
    assert taken[1].count(name.encode()) == 1


def test_the_time_of_day_may_be_set_within_a_frame() -> None:
    items = [
        PauseSet(Instant(AT.wall_s + wall_s, AT.monotonic_s + after_s), "manual")
        for wall_s, after_s in ((0.0, 0.0), (-3600.0, 1.0), (-3599.0, 2.0), (3.0, 3.0))
    ]

    assert written_and_read(items, items) == [*items, *items]


def test_pods_of_one_template_share_their_parts_in_later_frames_too() -> None:
    other = replace(POD, name="web-2", uid="uid-2")

    first, second = written_and_read(
        [ObjectFound(AT, "pods", POD)], [ObjectFound(AT, "pods", other)]
    )

    assert isinstance(first, ObjectFound)
    assert isinstance(second, ObjectFound)
    assert second.obj == other
    assert second.obj.spec is first.obj.spec  # type: ignore[attr-defined]  # they are pods


def test_parts_are_written_again_where_there_are_too_many_to_be_numbered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rows, "MAX_PARTS", 7)
    pods = [replace(pod(f"p{n}", labels={"n": str(n)}), spec=PodSpec(priority=n)) for n in range(9)]
    items = [ObjectFound(AT, "pods", each) for each in (*pods, *pods)]

    assert written_and_read(items[:5], items[5:]) == items


CHANGES: tuple[dict[str, Any], ...] = (
    {},
    {"node": "n2", "generation": 9},
    {"labels": {"app": "api"}, "annotations": Annotations(evict="false"), "owners": ()},
    {"spec": PodSpec(priority=5), "status": PodStatus("Failed"), "resize_delta": {}},
    {"made_claims": (("gpu", "other"),)},
    {"pvc_names": ("a", "b"), "created_s": 5, "start_delay_s": None, "deletion_s": 1_800_000_001},
    {"condition_transitions": (1_800_000_000, 4)},
    {"condition_transitions": (None, None)},
    {"condition_transitions": (5,), "deletion_s": None},
)


@pytest.mark.parametrize(
    "uid", ["u", "0C9b6c5e-6c9e-4b5e-8f0a-00000000000a", str(UUID(int=10**30))]
)
@pytest.mark.parametrize("changes", CHANGES, ids=" ".join)
def test_a_change_of_a_pod_that_is_known_is_read_as_it_was_written(
    changes: dict[str, Any], uid: str
) -> None:
    old = replace(POD, uid=uid)
    new = replace(old, resource_version=3, **changes)
    writer, reader = RowWriter(), RowReader()
    items = [ObjectFound(AT, "pods", old), ObjectChanged(later(1), "pods", Verb.MODIFIED, new)]
    removed = ObjectChanged(later(7), "pods", Verb.DELETED, replace(new, resource_version=8))

    writer.add(items[0])
    writer.add(items[1], old)
    assert read_back(writer, reader) == items
    writer.add(removed, new)
    assert read_back(writer, reader) == [removed]


@pytest.mark.parametrize("changes", [each for each in CHANGES if each], ids=" ".join)
def test_a_change_that_comes_beside_others_is_read_as_it_was_written(
    changes: dict[str, Any],
) -> None:
    new = replace(POD, resource_version=3, **changes)
    other = replace(POD, uid="other", resource_version=4, condition_transitions=(7, 8))
    writer, reader = RowWriter(), RowReader()
    began = replace(POD, uid="other")
    found = [ObjectFound(AT, "pods", pod) for pod in (POD, began)]
    for item in found:
        writer.add(item)
    ahead_s = AT.wall_s - AT.monotonic_s

    assert writer.modify_pod(AT.monotonic_s + 1, ahead_s, POD, new)
    assert writer.modify_pod(AT.monotonic_s + 2, ahead_s, began, other)

    assert read_back(writer, reader) == [
        *found,
        ObjectChanged(later(1), "pods", Verb.MODIFIED, new),
        ObjectChanged(later(2), "pods", Verb.MODIFIED, other),
    ]


def test_a_change_of_the_version_alone_is_none() -> None:
    writer = RowWriter()

    assert not writer.modify_pod(1.0, 0.0, POD, replace(POD, resource_version=9))
    assert writer.take() is None


def read_back(writer: RowWriter, reader: RowReader) -> list[Item]:
    taken = writer.take()
    assert taken is not None, "there are items"
    return list(reader.read(*taken))


def test_each_field_of_a_pod_but_its_names_may_change() -> None:
    fixed = {"namespace", "name", "uid", "resource_version"}

    assert {name for name, _, _ in rows._FIELDS} == set(Pod.__struct_fields__) - fixed
    assert {name for each in CHANGES for name in each} == set(Pod.__struct_fields__) - fixed


def test_a_change_of_a_pod_that_is_in_no_picture_is_damage() -> None:
    writer = RowWriter()
    writer.add(ObjectChanged(AT, "pods", Verb.MODIFIED, POD), POD)

    with pytest.raises(ValueError, match="cannot be read"):
        read_back(writer, RowReader())


def changed_with(mask: int, *more: object) -> tuple[RowReader, bytes]:
    """Return a reader that has a pod, and the rows of a change of its node and of this mask."""
    writer, reader = RowWriter(), RowReader()
    writer.add(ObjectFound(AT, "pods", POD))
    read_back(writer, reader)
    writer.add(ObjectChanged(AT, "pods", Verb.MODIFIED, replace(POD, node="n7")), POD)
    taken = writer.take()
    assert taken is not None, "there is a change"
    (row,) = msgspec.msgpack.decode(taken[1])
    row[-2:] = [row[-2] | mask, [*row[-1], *more]]
    return reader, msgspec.msgpack.encode([row])


def test_a_field_that_a_later_version_has_is_left_out() -> None:
    reader, rows_of_later = changed_with(1 << 20, "unknown")
    read, folded = list(reader.read(AT, rows_of_later)), changed_with(1 << 20, "unknown")

    assert read == [ObjectChanged(AT, "pods", Verb.MODIFIED, replace(POD, node="n7"))]
    assert folded[0].fold(AT, folded[1]) is not None
    assert list(folded[0].settle()) == [replace(POD, node="n7")]


def test_a_change_that_lacks_the_value_of_a_field_is_damage() -> None:
    generation = 1 << [name for name, _, _ in rows._FIELDS].index("generation")
    reader, damaged = changed_with(generation)
    with pytest.raises(ValueError, match="lacks the value"):
        list(reader.read(AT, damaged))

    reader.fold(AT, damaged)
    with pytest.raises(ValueError, match="lacks the value"):
        list(reader.settle())
