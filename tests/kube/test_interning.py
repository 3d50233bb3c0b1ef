"""Equal parts are one object, and a part goes when the last record that has it goes."""

import json
import sys
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.model.objects import Pod
from reactive_desched.state.kinds.interning import (
    Interner,
    InternTable,
    InternTables,
    PartedInternTable,
)
from tests.support.codecs import make_codecs

JSON = dict[str, Any]  # any JSON object
# There is one empty text in the whole interpreter, so it always has other holders.
ONLY_WHAT_IS_EMPTY = {
    "texts": 1,
    "podAffinity": 1,
    "preferredPodAffinity": 1,
    "topologySpreadConstraints": 1,
    "ports": 1,
}
TOLERATIONS = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]


def replica(number: int, **spec: Any) -> JSON:  # any JSON value
    """One of the pods of a template: everything that is a pod's own differs."""
    token = f"kube-api-access-{number}"
    moment = f"2025-10-09T08:53:{number:02}Z"
    return {
        "metadata": {
            "name": f"web-{number}",
            "namespace": "shop",
            "uid": f"uid-{number}",
            "resourceVersion": str(number),
            "creationTimestamp": moment,
            "labels": {"app": "web"},
            "annotations": {"kubernetes.io/config.source": "api", "cni": f"10.0.0.{number}"},
            "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": "rs"}],
        },
        "spec": {
            "nodeName": "n1",
            "tolerations": TOLERATIONS,
            "nodeSelector": {"disk": "ssd"},
            "affinity": {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]
                }
            },
            "volumes": [
                {"name": token, "projected": {}},
                {"name": "d", "persistentVolumeClaim": {"claimName": f"data-{number}"}},
            ],
            "containers": [
                {
                    "name": "app",
                    "resources": {"requests": {"cpu": "250m"}},
                    "volumeMounts": [{"name": token}],
                }
            ],
        }
        | spec,
        "status": {
            "phase": "Running",
            "podIP": f"10.0.0.{number}",
            "startTime": moment,
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": moment}],
            "containerStatuses": [
                {"name": "app", "restartCount": 0, "state": {"running": {"startedAt": moment}}}
            ],
        },
    }


def read(shared: InternTables, pod: JSON) -> Pod:
    return make_codecs(shared).pods.decode_object(json.dumps(pod).encode())


def seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def sweep_all(shared: InternTables) -> int:
    """Sweep two whole rounds: wholes, then the parts that only they held."""
    return shared.sweep(10_000).dropped + shared.sweep(10_000).dropped


def remaining(shared: InternTables) -> dict[str, int]:
    return {name: size for name, size in shared.sizes().items() if size}


# --- what is shared ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "part", ["labels", "owners", "annotations", "spec", "status", "condition_transitions"]
)
def test_pods_of_one_template_share_the_part(part: str) -> None:
    shared = InternTables()
    first, second = read(shared, replica(1)), read(shared, replica(2))

    assert getattr(first, part) is getattr(second, part)
    assert getattr(first, part)


@pytest.mark.parametrize(
    ("changed", "kept"),
    [
        pytest.param("2025-10-09T08:59:01Z", 1, id="of its start, as those of others"),
        pytest.param("2025-10-12T17:04:31Z", 0, id="of its own"),
    ],
)
def test_a_table_keeps_the_time_at_which_a_pod_became_ready(changed: str, kept: int) -> None:
    shared = InternTables()
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": changed}
    pod = replica(1)
    pod["status"]["conditions"] = [condition]

    record = read(shared, pod)

    assert shared.sizes()["transitions"] == kept
    assert record.condition_transitions == (seconds(changed) - record.created_s,)


@pytest.mark.parametrize("text", ["namespace", "node"])
def test_pods_of_one_node_and_namespace_share_those_texts(text: str) -> None:
    shared = InternTables()
    first, second = read(shared, replica(1)), read(shared, replica(2))

    assert getattr(first, text) is getattr(second, text)


@pytest.mark.parametrize(
    ("part", "member", "value"),
    [
        pytest.param("spec", "tolerations", [], id="tolerations"),
        pytest.param("spec", "nodeSelector", {"disk": "hdd"}, id="node selector"),
        pytest.param("spec", "affinity", {}, id="affinity"),
        pytest.param("spec", "priority", 7, id="priority"),
        pytest.param(
            "spec",
            "topologySpreadConstraints",
            [{"maxSkew": 1, "topologyKey": "zone"}],
            id="spread",
        ),
        pytest.param("spec", "containers", [{"ports": [{"hostPort": 80}]}], id="host ports"),
        pytest.param(
            "spec",
            "initContainers",
            [{"restartPolicy": "Always", "ports": [{"hostPort": 80}]}],
            id="host ports of a sidecar",
        ),
        pytest.param("spec", "overhead", {"cpu": "1m"}, id="overhead"),
        pytest.param("spec", "resources", {"requests": {"cpu": "2"}}, id="pod-level resources"),
        pytest.param("spec", "resourceClaims", [{"name": "gpu"}], id="resource claims"),
        pytest.param("spec", "volumes", [{"emptyDir": {}}], id="volumes"),
        pytest.param("spec", "containers", [{}], id="containers"),
        pytest.param(
            "spec", "initContainers", [{"resources": {"requests": {"cpu": "3"}}}], id="init"
        ),
        pytest.param("status", "phase", "Failed", id="phase"),
        pytest.param("status", "reason", "Evicted", id="reason"),
        pytest.param("status", "qosClass", "Burstable", id="class of service"),
        pytest.param("status", "conditions", [{"type": "Ready", "status": "False"}], id="ready"),
        pytest.param("status", "containerStatuses", [{"name": "app", "restartCount": 9}], id="app"),
        pytest.param(
            "status", "initContainerStatuses", [{"name": "i", "restartCount": 9}], id="restarts"
        ),
        pytest.param(
            "status", "ephemeralContainerStatuses", [{"name": "debug"}], id="debugging container"
        ),
    ],
)
def test_a_sibling_that_differs_in_one_member_is_not_mistaken_for_the_first(
    part: str,
    member: str,
    value: Any,  # any JSON value
) -> None:
    shared = InternTables()
    other = replica(2)
    other[part] = other[part] | {member: value}

    first, sibling = read(shared, replica(1)), read(shared, other)

    assert getattr(sibling, part) != getattr(first, part)
    assert sibling == read(InternTables(), other)


@pytest.mark.parametrize("part", ["tolerations", "node_selector", "anti_affinity", "requests"])
def test_a_pod_that_differs_in_one_part_still_shares_the_others(part: str) -> None:
    shared = InternTables()
    first, other = read(shared, replica(1)), read(shared, replica(2, priority=5))

    assert other.spec.priority == 5
    assert first.spec is not other.spec
    assert getattr(first.spec, part) is getattr(other.spec, part)


def test_equal_texts_of_different_meaning_are_kept_apart() -> None:
    shared = InternTables()
    same = {"cpu": "1"}
    pod = replica(1, nodeSelector=same, overhead=same)
    pod["metadata"]["labels"] = same
    node = {"metadata": {"name": "n1"}, "status": {"allocatable": same}}

    allocatable = make_codecs(shared).nodes.decode_object(json.dumps(node).encode()).allocatable
    made = read(shared, pod)

    assert allocatable == {"cpu": 1000}
    assert (made.labels, made.spec.node_selector) == (same, same)
    assert made.spec.requests == {"cpu": 1250}


def test_a_sidecar_and_an_init_container_that_ask_the_same_are_kept_apart() -> None:
    shared = InternTables()
    resources = {"resources": {"requests": {"cpu": "1"}}}
    init = read(shared, replica(1, initContainers=[resources]))
    sidecar = read(shared, replica(2, initContainers=[resources | {"restartPolicy": "Always"}]))

    assert (init.spec.requests, sidecar.spec.requests) == ({"cpu": 1000}, {"cpu": 1250})


def test_a_pod_and_the_claim_it_mounts_share_the_claims_name() -> None:
    shared = InternTables()
    claim = {"metadata": {"name": "data-1", "namespace": "shop"}}

    record = make_codecs(shared).pvcs.decode_object(json.dumps(claim).encode())

    assert read(shared, replica(1)).pvc_names[0] is record.name


def test_nodes_of_one_type_share_what_they_can_allocate() -> None:
    nodes = make_codecs(InternTables()).nodes
    first, second = (
        nodes.decode_object(
            json.dumps(
                {"metadata": {"name": name}, "status": {"allocatable": {"cpu": "4"}}}
            ).encode()
        )
        for name in ("n1", "n2")
    )

    assert first.allocatable is second.allocatable


def test_no_record_and_no_key_keeps_its_page_in_memory() -> None:
    shared = InternTables()
    codec = make_codecs(shared).pods
    body = json.dumps({"metadata": {}, "items": [replica(1), replica(2)]}).encode()
    before = sys.getrefcount(body)

    kept = list(codec.decode_page(codec.read_page(body)))

    assert [pod.name for pod in kept] == ["web-1", "web-2"]
    assert sys.getrefcount(body) == before


# --- what is let go ----------------------------------------------------------------------------


def test_a_sweep_drops_everything_once_no_record_is_left() -> None:
    shared = InternTables()
    kept = [read(shared, replica(number)) for number in range(1, 4)]
    assert shared.sizes()["specs"] == 1

    kept.clear()
    sweep_all(shared)

    assert remaining(shared) == ONLY_WHAT_IS_EMPTY


def test_a_sweep_never_drops_a_part_that_a_record_has() -> None:
    shared = InternTables()
    kept = read(shared, replica(1))
    before = shared.sizes()

    assert sweep_all(shared) == 0

    assert shared.sizes() == before
    again = read(shared, replica(2))
    assert (again.spec, again.status, again.labels) == (kept.spec, kept.status, kept.labels)
    assert again.spec is kept.spec


def test_a_sweep_drops_only_the_parts_of_the_pod_that_went() -> None:
    shared = InternTables()
    stays, goes = read(shared, replica(1)), read(shared, replica(2, priority=5))
    del goes

    sweep_all(shared)

    assert shared.sizes()["specs"] == 1
    assert read(shared, replica(3)).spec is stays.spec


def test_short_sweeps_reach_every_shelf_in_turn() -> None:
    shared = InternTables()
    read(shared, replica(1))
    entries = sum(shared.sizes().values())

    swept = [shared.sweep(1) for _ in range(2 * entries)]

    assert {one.examined for one in swept} == {1}
    assert remaining(shared) == ONLY_WHAT_IS_EMPTY


def test_a_sweep_examines_no_more_than_its_budget() -> None:
    shelf: InternTable[int, object] = InternTable("numbers")
    for number in range(10):
        shelf.put(number, object())

    assert (shelf.sweep(4).dropped, len(shelf), shelf.is_examined) == (4, 6, False)
    assert (shelf.sweep(100).dropped, len(shelf), shelf.is_examined) == (6, 0, True)


def test_entries_put_during_a_round_wait_for_the_next() -> None:
    shelf: InternTable[int, object] = InternTable("numbers")
    shelf.put(1, object())
    shelf.put(2, object())
    shelf.sweep(1)
    shelf.put(3, object())

    assert (shelf.sweep(5).dropped, len(shelf)) == (1, 1)
    assert (shelf.sweep(5).dropped, len(shelf)) == (1, 0)


def test_a_text_is_dropped_only_when_no_other_object_has_it() -> None:
    texts: Interner[str] = Interner("texts")
    held = texts.intern(str(1001))
    texts.intern(str(1002))

    assert texts.sweep(10).dropped == 1
    assert texts.intern(str(1001)) is held


# --- the bound ---------------------------------------------------------------------------------


def test_a_full_shelf_hands_out_new_values_without_keeping_them() -> None:
    shelf: InternTable[str, list[int]] = InternTable("lists", limit=1)
    first = shelf.put("a", [1])

    assert shelf.put("b", [2]) == [2]

    assert (shelf.get("a"), shelf.get("b"), shelf.rejected) == (first, None, 1)


def test_a_full_shelf_takes_values_again_after_a_sweep() -> None:
    shelf: InternTable[str, list[int]] = InternTable("lists", limit=1)
    shelf.put("a", [1])
    shelf.sweep(10)

    second = shelf.put("b", [2])

    assert shelf.get("b") is second


def test_pods_are_read_alike_when_every_shelf_is_full() -> None:
    full, roomy = InternTables(limit=0), InternTables()

    assert read(full, replica(1)) == read(roomy, replica(1))
    assert set(full.sizes().values()) == {0}
    assert full.rejected()["specs"] == 1


def test_a_table_in_parts_keeps_one_value_for_each_content_and_grows_part_by_part() -> None:
    table: PartedInternTable[tuple[bytes, bool], list[int]] = PartedInternTable("lists")
    keys = [(b"spec %d" % number, bool(number % 2)) for number in range(4_000)]
    values = {key: table.put(key, [number]) for number, key in enumerate(keys)}

    assert all(table.get(key) is values[key] is table.put(key, []) for key in keys)
    assert table.get((b"spec 1", False)) is None
    assert max(map(len, table.parts)) < 2 * len(keys) / len(table.parts)


def test_the_parts_of_a_table_are_swept_and_counted_as_one() -> None:
    shared = InternTables()
    kept = [read(shared, replica(number, priority=number)) for number in range(40)]
    sweep_all(shared)
    assert shared.sizes()["specs"] == len(kept)

    kept = kept[:5]
    sweep_all(shared)

    assert shared.sizes()["specs"] == len(kept)
    assert all(read(shared, replica(n, priority=n)).spec is pod.spec for n, pod in enumerate(kept))


# --- any order of events -----------------------------------------------------------------------

steps = st.lists(
    st.tuples(st.sampled_from(["hold", "release"]), st.integers(0, 3))
    | st.tuples(st.just("sweep"), st.integers(0, 5)),
    max_size=40,
)


@given(steps)
def test_after_a_full_sweep_a_shelf_has_exactly_what_is_held(steps: list[tuple[str, int]]) -> None:
    shelf: InternTable[int, list[int]] = InternTable("lists")
    texts: Interner[str] = Interner("texts")
    held: dict[int, tuple[list[int], str]] = {}
    for step, number in steps:
        if step == "sweep":
            shelf.sweep(number)
            texts.sweep(number)
        elif step == "release":
            held.pop(number, None)
        else:
            found = shelf.get(number)
            value = shelf.put(number, [number]) if found is None else found
            text = texts.intern(f"text {number}")
            assert held.setdefault(number, (value, text)) == (value, text)
            assert held[number][0] is value
            assert held[number][1] is text
            del found, value, text
    for _ in range(2):  # the rest of the round under way, then a whole one
        shelf.sweep(100)
        texts.sweep(100)

    assert {number for number in range(4) if shelf.get(number)} == set(held)
    assert {number for number in range(4) if texts.get(f"text {number}")} == set(held)
