"""managedFields and server-side apply: who owns a field, who may change it, and what goes."""

from typing import Any

import msgspec
import pytest

from reactive_desched.sim.http.ownership.field_paths import as_text, from_tree, to_tree
from reactive_desched.sim.http.ownership.typed_values import merge, type_of
from reactive_desched.sim.resources import RESOURCES
from tests.support.golden import verbatim

pytestmark = pytest.mark.anyio

MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
APPLY, MERGE = "application/apply-patch+yaml", "application/merge-patch+json"


def config_map(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}


async def apply_map(api: Any, who: str, **data: str) -> tuple[int, Any]:
    answer: tuple[int, Any] = await api.patch(
        f"{MAPS}/a?fieldManager={who}", APPLY, config_map(**data)
    )
    return answer


def owners(obj: dict[str, Any]) -> dict[str, list[str]]:
    """Return the paths that each manager owns."""
    return {
        f"{entry['manager']}/{entry['operation']}": sorted(
            map(as_text, from_tree(entry["fieldsV1"]))
        )
        for entry in obj["metadata"].get("managedFields", ())
    }


async def test_what_is_applied_no_more_goes_unless_another_owns_it(api: Any) -> None:
    await apply_map(api, "one", a="1", b="2", c="3")
    await apply_map(api, "two", b="2", d="4")
    status, body = await apply_map(api, "one", a="1")

    assert (status, body["data"]) == (200, {"a": "1", "b": "2", "d": "4"})
    assert owners(body) == {"one/Apply": [".data.a"], "two/Apply": [".data.b", ".data.d"]}


async def test_a_field_of_another_is_taken_by_force_alone(api: Any) -> None:
    await apply_map(api, "one", a="1", b="2")
    status, body = await apply_map(api, "two", a="9")
    assert (status, body["reason"]) == (409, "Conflict")
    assert body["message"] == verbatim('Apply failed with 1 conflict: conflict with "one": .data.a')
    assert body["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.a"}
    ]

    status, body = await api.patch(
        f"{MAPS}/a?fieldManager=two&force=true", APPLY, config_map(a="9")
    )
    assert (status, body["data"]) == (200, {"a": "9", "b": "2"})
    assert owners(body) == {"one/Apply": [".data.b"], "two/Apply": [".data.a"]}


async def test_several_conflicts_are_named_by_manager(api: Any) -> None:
    await apply_map(api, "one", a="1")
    await apply_map(api, "two", b="2", c="3")
    _, body = await apply_map(api, "three", a="9", b="9", c="9")
    assert body["message"] == verbatim(
        'Apply failed with 3 conflicts: conflicts with "one":\n- .data.a\n'
        'conflicts with "two":\n- .data.b\n- .data.c'
    )


async def test_an_update_takes_what_it_changes_and_leaves_the_rest(api: Any) -> None:
    await apply_map(api, "one", a="1", b="2", c="3")
    change = {"data": {"a": "9", "c": None}}
    _, body = await api.patch(f"{MAPS}/a?fieldManager=editor", MERGE, change)
    assert owners(body) == {"one/Apply": [".data.b"], "editor/Update": [".data.a"]}
    _, body = await apply_map(api, "one", a="1", b="2")
    assert body["message"].endswith('conflict with "editor" using v1: .data.a')


async def test_the_name_of_an_updater_is_that_of_its_program(api: Any) -> None:
    agent = {"User-Agent": "kubectl-create/v1.36 (linux/amd64)"}
    _, body = await api.ask("POST", MAPS, config_map(a="1"), headers=agent)
    assert owners(body) == {"kubectl-create/Update": [".data", ".data.a"]}


async def test_items_of_lists_are_owned_by_their_keys(api: Any, deployment: Any) -> None:
    path = f"{DEPLOYMENTS}/d?fieldManager="
    containers = deployment["spec"]["template"]["spec"]["containers"]
    containers.append({"name": "second", "image": "b:1", "ports": [{"containerPort": 80}]})
    await api.patch(path + "one", APPLY, deployment)
    third = {"name": "third", "image": "c:1"}
    added = {**deployment, "spec": {"template": {"spec": {"containers": [third]}}}}
    _, body = await api.patch(path + "two", APPLY, added)
    assert owners(body)["two/Apply"] == [
        '.spec.template.spec.containers[name="third"]',
        '.spec.template.spec.containers[name="third"].image',
        '.spec.template.spec.containers[name="third"].name',
    ]

    del containers[1]
    _, body = await api.patch(path + "one", APPLY, deployment)
    names = [each["name"] for each in body["spec"]["template"]["spec"]["containers"]]
    assert names == ["c", "third"]  # with its defaults, the second is gone


async def test_a_scaled_deployment_belongs_to_who_scaled_it(api: Any, deployment: Any) -> None:
    path = f"{DEPLOYMENTS}/d"
    await api.patch(f"{path}?fieldManager=one", APPLY, deployment)
    await api.patch(f"{path}/scale?fieldManager=scaler", MERGE, {"spec": {"replicas": 5}})
    status, body = await api.patch(f"{path}?fieldManager=one", APPLY, deployment)
    assert status == 409
    said = verbatim('conflict with "scaler" with subresource "scale" using apps/v1:')
    assert said in body["message"]

    del deployment["spec"]["replicas"]
    status, body = await api.patch(f"{path}?fieldManager=one", APPLY, deployment)
    assert (status, body["spec"]["replicas"]) == (200, 5)


async def test_kubectl_takes_over_what_it_applied_as_a_client(api: Any) -> None:
    said = config_map(a="1", b="2")
    last = "kubectl.kubernetes.io/last-applied-configuration"
    meta = {"name": "a", "annotations": {last: msgspec.json.encode(said).decode()}}
    made = {**said, "metadata": meta}
    await api.ask("POST", f"{MAPS}?fieldManager=kubectl-client-side-apply", made)
    await api.patch(f"{MAPS}/a?fieldManager=editor", MERGE, {"data": {"b": "7"}})

    status, body = await apply_map(api, "another", a="3")
    assert status == 409
    status, body = await apply_map(api, "kubectl", a="3", b="3")
    assert (status, body["message"].endswith(": .data.b")) == (409, True)
    status, body = await apply_map(api, "kubectl", a="3")
    assert (status, body["data"]) == (200, {"a": "3", "b": "7"})


async def test_objects_of_the_simulation_belong_to_who_was_before(api: Any) -> None:
    api.store.create(
        "configmaps", {"metadata": {"name": "a", "namespace": "default"}, "data": {"x": "1"}}
    )
    _, body = await api.patch(f"{MAPS}/a", MERGE, {"data": {"y": "2"}})
    assert "managedFields" not in body["metadata"]
    status, body = await apply_map(api, "one", x="2")
    assert status == 409
    assert 'conflict with "before-first-apply" using v1' in body["message"]


async def test_nothing_is_stored_when_nothing_changes(api: Any) -> None:
    _, first = await apply_map(api, "one", a="1")
    _, again = await apply_map(api, "one", a="1")
    assert again == first
    _, shared = await apply_map(api, "two", a="1")
    assert shared["metadata"]["resourceVersion"] != first["metadata"]["resourceVersion"]
    assert owners(shared) == {"one/Apply": [".data.a"], "two/Apply": [".data.a"]}


async def test_a_client_may_forget_and_rename_the_owners(api: Any) -> None:
    _, body = await apply_map(api, "one", a="1")
    entry = {**body["metadata"]["managedFields"][0], "manager": "two"}
    change = {"metadata": {"managedFields": [entry]}}
    _, body = await api.patch(f"{MAPS}/a?fieldManager=x", MERGE, change)
    assert owners(body) == {"two/Apply": [".data.a"]}
    _, body = await api.patch(
        f"{MAPS}/a?fieldManager=x", MERGE, {"metadata": {"managedFields": [{}]}}
    )
    assert owners(body) == {}


async def test_a_status_is_owned_apart_from_what_it_is_the_status_of(
    api: Any, deployment: Any
) -> None:
    both = {**deployment, "status": {"replicas": 3}}
    path = f"{DEPLOYMENTS}/d"
    _, body = await api.patch(f"{path}?fieldManager=one", APPLY, both)
    assert not [path for path in owners(body)["one/Apply"] if path.startswith(".status")]
    status = {"status": {"replicas": 3}}
    _, body = await api.patch(f"{path}/status?fieldManager=one", MERGE, status)
    assert owners(body)["one/Update"] == [".status.replicas"]
    assert body["metadata"]["managedFields"][-1]["subresource"] == "status"


async def test_a_dry_run_of_an_apply_stores_nothing(api: Any) -> None:
    status, body = await api.patch(
        f"{MAPS}/a?fieldManager=one&dryRun=All", APPLY, config_map(a="1")
    )
    assert (status, body["data"]) == (201, {"a": "1"})
    assert api.store.get("configmaps", "default", "a") is None


async def test_bodies_may_be_yaml(api: Any) -> None:
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
    text = f"{head}data:\n  at: '1'\n  day: 2026-01-01\n  to: 8080:80\n"
    headers = {"Content-Type": "application/yaml"}
    status, body = await api.ask("POST", MAPS, data=text, headers=headers)
    assert (status, body["data"]) == (201, {"at": "1", "day": "2026-01-01", "to": "8080:80"})
    headers = {"Content-Type": APPLY}
    path = f"{MAPS}/b?fieldManager=one"
    status, _ = await api.ask(
        "PATCH", path, data=text.replace("{name: a}", "{name: b}"), headers=headers
    )
    assert status == 201
    status, _ = await api.ask(
        "POST", MAPS, data="a: [", headers={"Content-Type": "application/yaml"}
    )
    assert status == 400


POD = type_of(RESOURCES["pods"])


@pytest.mark.parametrize(
    ("live", "config", "merged"),
    [
        ("abc", "b", "abc"),
        ("abc", "cb", "acb"),
        ("abc", "xb", "axbc"),
        ("abc", "cx", "abcx"),
        ("ab", "ba", "ba"),
        ("", "ab", "ab"),
        ("abcd", "dxa", "bcdxa"),
    ],
)
def test_applied_items_keep_their_order_among_the_others(
    live: str, config: str, merged: str
) -> None:
    def pod(names: str) -> Any:
        return {"spec": {"containers": [{"name": name} for name in names]}}

    result = merge(POD, pod(live), pod(config))
    assert "".join(each["name"] for each in result["spec"]["containers"]) == merged


def test_a_value_that_is_atomic_is_replaced_whole() -> None:
    live = {"spec": {"nodeSelector": {"a": "1"}, "tolerations": [{"key": "x"}]}}
    config = {"spec": {"nodeSelector": {"b": "1"}, "tolerations": [{"key": "y"}]}}
    assert merge(POD, live, config) == config


def test_paths_are_the_same_after_a_way_through_the_tree() -> None:
    paths = {
        ("f:spec", "f:containers", 'k:{"name":"a"}'),
        ("f:spec", "f:containers", 'k:{"name":"a"}', "f:image"),
        ("f:metadata", "f:finalizers", 'v:"x"'),
        ("f:data",),
        ("f:data", "f:a"),
    }
    assert set(from_tree(to_tree(paths))) == paths


async def test_what_a_controller_writes_into_a_clients_object_is_its_own(api: Any) -> None:
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "app:1"}]},
        },
    }
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    place = f"{DEPLOYMENTS}/web?fieldManager=me"
    await api.patch(place, APPLY, web)

    def scaled(current: dict[str, Any]) -> dict[str, Any]:
        return {**current, "spec": {**current["spec"], "replicas": 3}}

    api.store.modify("deployments", "default", "web", scaled, subresource="scale")
    api.store.replace_status("deployments", "default", "web", {"replicas": 3})
    found = await api.get(f"{DEPLOYMENTS}/web")
    entries = found["metadata"]["managedFields"]
    written = {
        (it["manager"], it.get("subresource", "")): sorted(map(as_text, from_tree(it["fieldsV1"])))
        for it in entries
        if it["operation"] == "Update"
    }
    assert written == {
        ("kube-controller-manager", "scale"): [".spec.replicas"],
        ("kube-controller-manager", "status"): [".status.replicas"],
    }
    status, body = await api.patch(place, APPLY, web)
    said = 'conflict with "kube-controller-manager" with subresource "scale" using apps/v1'
    assert (status, body["message"]) == (
        409,
        verbatim(f"Apply failed with 1 conflict: {said}: .spec.replicas"),
    )


async def test_an_object_of_a_controller_has_no_owners(api: Any) -> None:
    meta = {"name": "b", "namespace": "default"}
    api.store.create("configmaps", {"metadata": meta})
    api.store.modify("configmaps", "default", "b", lambda it: {**it, "data": {"a": "1"}})
    assert "managedFields" not in (await api.get(f"{MAPS}/b"))["metadata"]


@pytest.mark.parametrize("mode", ["Strict", "Warn", "Ignore"])
async def test_a_field_that_a_type_does_not_have_is_not_applied(api: Any, mode: str) -> None:
    wrong = {**config_map(a="1"), "lost": 1, "metadata": {"name": "a", "namespace": "default"}}
    place = f"{MAPS}/a?fieldManager=me&fieldValidation={mode}"
    status, body = await api.patch(place, APPLY, wrong)
    assert (status, body["message"]) == (
        500,
        verbatim(
            "failed to create typed patch object (default/a; /v1, Kind=ConfigMap):"
            " .lost: field not declared in schema"
        ),
    )
