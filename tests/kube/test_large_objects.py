"""No more is read of a large object than can be evaluated; what is left out is named."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

from reactive_desched.errors import Malformed
from reactive_desched.kube.codec import ResourceCodec
from reactive_desched.kube.large_objects import LARGE_OBJECT_BYTES
from reactive_desched.model.objects import Namespace, Pod
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.state.kinds.kind import WatchedKind
from reactive_desched.state.kinds.namespace import NAMESPACE
from reactive_desched.state.kinds.node import NODE
from reactive_desched.state.kinds.pdb import PDB
from reactive_desched.state.kinds.pod import POD
from tests.support.plain_pods import reference_pod
from tests.support.pods_as_json import PODS

JSON = dict[str, Any]  # any JSON object
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
Reported = list[tuple[str, str, str]]


def codec(kind: WatchedKind[Any, Any], reported: Reported | None = None) -> Any:
    """Return a codec as `run` has it."""
    tables, found = InternTables(reads_all=False), [] if reported is None else reported
    return ResourceCodec(kind, tables, None, lambda *what: found.append(what))


def text(obj: JSON) -> bytes:
    return json.dumps(obj, separators=(",", ":")).encode()


def written_pod(metadata: JSON | None = None, status: JSON | None = None, **spec: Any) -> JSON:
    return {
        "metadata": {"name": "hostile", "namespace": "shop", "uid": "u1", **(metadata or {})},
        "spec": {"nodeName": "n1", "containers": [{"name": "app", "image": "app"}], **spec},
        "status": {"phase": "Running", **(status or {})},
    }


def term(number: int) -> JSON:
    return {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": f"a{number}"}}}


def weighted(number: int) -> JSON:
    return {"weight": 1, "podAffinityTerm": term(number)}


def alternatives(number: int) -> JSON:
    requirement = {"key": "zone", "operator": "In", "values": ["a"]}
    return {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [requirement]}] * number}}


def constraint(number: int) -> JSON:
    return {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **term(number)}


def container(number: int) -> JSON:
    return {"name": f"c{number}", "image": "app", "resources": {"requests": {"cpu": "1m"}}}


MANY: dict[str, Callable[[int], JSON]] = {
    "tolerations": lambda n: written_pod(
        tolerations=[{"key": f"key-{i}", "operator": "Exists"} for i in range(n)]
    ),
    "required anti-affinity": lambda n: written_pod(
        affinity={"podAntiAffinity": {REQUIRED: list(map(term, range(n)))}}
    ),
    "required affinity": lambda n: written_pod(
        affinity={"podAffinity": {REQUIRED: list(map(term, range(n)))}}
    ),
    "preferred anti-affinity": lambda n: written_pod(
        affinity={"podAntiAffinity": {PREFERRED: list(map(weighted, range(n)))}}
    ),
    "preferred affinity": lambda n: written_pod(
        affinity={"podAffinity": {PREFERRED: list(map(weighted, range(n)))}}
    ),
    "node affinity": lambda n: written_pod(affinity={"nodeAffinity": alternatives(n)}),
    "node selector": lambda n: written_pod(nodeSelector={f"key-{i}": "v" for i in range(n)}),
    "spread constraints": lambda n: written_pod(
        topologySpreadConstraints=list(map(constraint, range(n)))
    ),
    "containers": lambda n: written_pod(containers=list(map(container, range(n)))),
    "init containers": lambda n: written_pod(initContainers=list(map(container, range(n)))),
    "host ports": lambda n: written_pod(
        containers=[{"name": "c", "image": "i", "ports": [{"hostPort": i} for i in range(n)]}]
    ),
    "resources": lambda n: written_pod(
        containers=[{"name": "c", "resources": {"requests": {f"x.io/r{i}": "1" for i in range(n)}}}]
    ),
}
HUGE: dict[str, Callable[[int], JSON]] = {
    **MANY,
    "labels": lambda n: written_pod({"labels": {f"key-{i}": "v" for i in range(n)}}),
    "owners": lambda n: written_pod(
        {
            "ownerReferences": [
                {"kind": "K", "name": f"n{i}", "uid": f"u{i}", "apiVersion": "v1"} for i in range(n)
            ]
        }
    ),
    "volumes": lambda n: written_pod(
        volumes=[{"persistentVolumeClaim": {"claimName": f"c{i}"}} for i in range(n)]
    ),
    "conditions": lambda n: written_pod(
        status={"conditions": [{"type": f"T{i}", "status": "True"} for i in range(n)]}
    ),
    "container statuses": lambda n: written_pod(
        status={"containerStatuses": [{"name": f"c{i}", "restartCount": 9} for i in range(n)]}
    ),
}


@pytest.mark.parametrize("what", HUGE)
def test_a_pod_with_thousands_of_something_is_read_without_them_and_named(what: str) -> None:
    reported: Reported = []
    pod = codec(POD, reported).decode_object(text(HUGE[what](20_000)))

    assert isinstance(pod, Pod)
    assert (pod.key, str(pod), pod.node) == ("u1", "shop/hostile", "n1")
    assert pod.spec.unread
    assert reported == [("Pod", "shop/hostile", pod.spec.unread)]
    assert len(repr(pod)) < 3_000


@pytest.mark.parametrize("what", MANY)
def test_so_does_one_with_hundreds(what: str) -> None:
    reported: Reported = []
    pod = codec(POD, reported).decode_object(text(MANY[what](300)))

    assert pod.spec.unread
    assert reported == [("Pod", "shop/hostile", pod.spec.unread)]
    assert len(repr(pod)) < 3_000


@pytest.mark.parametrize("what", HUGE)
def test_one_with_a_few_is_read_as_a_whole(what: str) -> None:
    few = text(HUGE[what](4))

    pod = codec(POD).decode_object(few)

    assert pod == ResourceCodec(POD, InternTables()).decode_object(few)
    assert not pod.spec.unread


def test_a_sweep_reads_all() -> None:
    pod = ResourceCodec(POD, InternTables()).decode_object(text(MANY["tolerations"](20_000)))

    assert len(pod.spec.tolerations) == 20_000
    assert not pod.spec.unread


def requires(values: int) -> JSON:
    of = [f"v{number}" for number in range(values)]
    return {"matchExpressions": [{"key": "app", "operator": "In", "values": of}]}


@pytest.mark.parametrize(
    "broad",
    [
        pytest.param({"labelSelector": {}}, id="no label"),
        pytest.param({"labelSelector": requires(9)}, id="one of many values"),
        pytest.param({"labelSelector": requires(1), "namespaceSelector": {}}, id="all namespaces"),
        pytest.param(
            {"labelSelector": requires(1), "namespaces": [f"m{i}" for i in range(9)]},
            id="many namespaces",
        ),
    ],
)
@pytest.mark.parametrize("kind", [REQUIRED, PREFERRED])
def test_terms_that_may_match_any_pod_are_fewer(broad: JSON, kind: str) -> None:
    def read(count: int) -> Any:
        terms = [{"topologyKey": f"zone-{number}", **broad} for number in range(count)]
        written = (
            terms
            if kind == REQUIRED
            else [{"weight": 1, "podAffinityTerm": each} for each in terms]
        )
        pod = written_pod(affinity={"podAntiAffinity": {kind: written}})
        return codec(POD).decode_object(text(pod)).spec

    few, many = read(4), read(5)

    assert len(few.anti_affinity or few.preferred_anti_affinity) == 4
    assert not few.unread
    assert many.anti_affinity == many.preferred_anti_affinity == ()
    assert many.unread


def test_a_term_of_few_label_values_in_few_namespaces_is_not_one_of_those() -> None:
    narrow = {"labelSelector": requires(8), "namespaces": [f"m{i}" for i in range(8)]}
    terms = [{"topologyKey": f"zone-{number}", **narrow} for number in range(16)]

    pod = codec(POD).decode_object(
        text(written_pod(affinity={"podAntiAffinity": {REQUIRED: terms}}))
    )

    assert len(pod.spec.anti_affinity) == 16


def test_tolerations_that_are_not_read_are_no_reason_against_a_pod() -> None:
    [toleration] = codec(POD).decode_object(text(MANY["tolerations"](20_000))).spec.tolerations

    assert (toleration.key, toleration.operator, toleration.effect) == ("", "Exists", "")


PADDING: dict[str, Callable[[JSON], object]] = {
    "an annotation that nothing reads": lambda pod: pod["metadata"].update(
        annotations={**(pod["metadata"].get("annotations") or {}), "note": "x" * 300_000}
    ),
    "environment variables": lambda pod: [
        each.update(env=[{"name": "CONFIG", "value": "x" * 300_000}])
        for each in (pod.get("spec") or {}).get("containers") or ()
    ],
    "a member that nothing knows": lambda pod: pod.update(padding="x" * 300_000),
}


@pytest.mark.parametrize("padding", PADDING)
@given(pod=PODS)
def test_a_pod_that_is_large_by_what_nothing_reads_is_read_as_any_other(
    padding: str, pod: JSON
) -> None:
    PADDING[padding](pod)
    pod["padding"] = "x" * 2 * LARGE_OBJECT_BYTES

    assert codec(POD).decode_object(text(pod)) == reference_pod(pod)
    event = codec(POD).decode_event(text({"type": "MODIFIED", "object": pod}))
    assert (event.type, event.object) == ("MODIFIED", reference_pod(pod))
    assert event.resource_version == (pod["metadata"].get("resourceVersion") or "")


def test_long_texts_are_cut_and_texts_that_differ_still_do() -> None:
    def owner(name: str) -> JSON:
        return {"kind": "K", "name": name, "uid": "o1", "apiVersion": "v1"}

    read = codec(POD).decode_object
    first, second = (
        read(text(written_pod({"ownerReferences": [owner("x" * 300_000 + end)]})))
        for end in ("a", "b")
    )

    assert not first.spec.unread
    assert len(first.owners[0].name) < 1000
    assert first.owners != second.owners


@pytest.mark.parametrize(
    ("kind", "obj", "part"),
    [
        pytest.param(
            NODE,
            {"spec": {"taints": [{"key": f"k{i}", "effect": "NoSchedule"} for i in range(9_000)]}},
            "spec.taints",
            id="a node's taints",
        ),
        pytest.param(
            NODE,
            {"metadata": {"name": "a", "labels": {f"k{i}": "v" for i in range(9_000)}}},
            "metadata.labels",
            id="a node's labels",
        ),
        pytest.param(
            PDB,
            {
                "spec": {
                    "selector": {
                        "matchExpressions": [
                            {"key": "a", "operator": "In", "values": [f"v{i}"]}
                            for i in range(9_000)
                        ]
                    }
                }
            },
            "spec.selector.matchExpressions",
            id="a budget's selector",
        ),
    ],
)
def test_an_object_of_another_kind_is_skipped_and_named_and_the_next_counts(
    kind: WatchedKind[Any, Any], obj: JSON, part: str
) -> None:
    large, small = {"metadata": {"name": "a"}, **obj}, {"metadata": {"name": "b"}}
    reader = codec(kind)

    with pytest.raises(Malformed) as refused:
        reader.decode_event(text({"type": "ADDED", "object": large}))
    assert refused.value.name == "a"
    assert part in refused.value.message
    page = reader.read_page(text({"metadata": {}, "items": [small, large, small]}))
    found = [
        each if isinstance(each, Malformed) else each.name for each in reader.decode_page(page)
    ]
    assert [found[0], found[2]] == ["b", "b"]
    assert isinstance(found[1], Malformed)


def test_a_namespace_of_which_not_all_is_read_keeps_its_pods() -> None:
    labels = {f"k{i}": "v" for i in range(9_000)}
    read = codec(NAMESPACE).decode_object(text({"metadata": {"name": "shop", "labels": labels}}))

    assert isinstance(read, Namespace)
    assert read.do_not_evict == "true"


def test_large_and_small_pods_of_a_page_are_all_read() -> None:
    pods = [written_pod({"uid": f"u{number}"}) for number in range(40)]
    for number in (3, 4, 17, 39):
        pods[number] = MANY["tolerations"](20_000)
        pods[number]["metadata"]["uid"] = f"u{number}"
    body = text({"metadata": {"resourceVersion": "9"}, "items": pods})
    reader = codec(POD)

    found = list(reader.decode_page(reader.read_page(body)))

    assert [each.uid for each in found] == [f"u{number}" for number in range(40)]
    assert [each.uid for each in found if each.spec.unread] == ["u3", "u4", "u17", "u39"]


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"[" * 100_000, id="deep lists"),
        pytest.param(b'{"metadata":' * 20_000, id="deep objects"),
        pytest.param(b'{"metadata":{"name":"' + b"x" * 100_000, id="cut off"),
        pytest.param(text({"metadata": {"name": "x" * 300_000, "uid": "u"}}), id="a long name"),
        pytest.param(text({"metadata": {"name": "a", "uid": "x" * 300_000}}), id="a long uid"),
        pytest.param(text({"metadata": [1] * 30_000}), id="metadata that is a list"),
        pytest.param(text({"spec": "x" * 300_000}), id="no metadata"),
        pytest.param(b'"' + b"x" * 100_000 + b'"', id="a text"),
        pytest.param(b'{"metadata":{"name":"\xff' + b"x" * 100_000 + b'"}}', id="no UTF-8"),
    ],
)
def test_what_is_large_and_no_object_is_skipped(raw: bytes) -> None:
    with pytest.raises(Malformed) as refused:
        codec(POD).decode_object(raw)
    assert len(str(refused.value)) < 3_000
    with pytest.raises(Malformed):
        codec(POD).decode_event(b'{"type":"ADDED","object":' + raw + b"}")


def test_nulls_in_a_large_object_are_as_absent_members() -> None:
    pod = MANY["tolerations"](20_000)
    pod["metadata"] |= {"annotations": None, "labels": None, "deletionTimestamp": None}
    pod["spec"] |= {"affinity": None, "volumes": None}

    read = codec(POD).decode_object(text(pod))

    assert (read.name, read.labels) == ("hostile", {})


@pytest.mark.parametrize("count", ["9" * 5_000, "٣" * 5_000, "-1", "1e9", ""])
def test_a_count_in_an_annotation_is_no_number_of_any_length(count: str) -> None:
    annotations = {"batch.kubernetes.io/job-index-failure-count": count}

    read = codec(POD).decode_object(text(written_pod({"annotations": annotations})))

    assert read.annotations.job_index_failures == 0
